package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// opening is how much of an answer is read to find its first element.
const opening = 4096

// queried are the services that answer in XML, whose first element says what is answered.
var queried = map[string]bool{"EC2": true, "Elastic Load Balancing": true, "Elastic Load Balancing v2": true}

// refuseStrangers has a successful answer that is none of the service's fail. The SDK reads an empty one, or a proxy's
// page, as a list without entries. Load balancers would count as deleted, and be forgotten with all their parts.
func refuseStrangers() middleware.DeserializeMiddleware {
	return middleware.DeserializeMiddlewareFunc(
		"transplant/strangers",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
			out middleware.DeserializeOutput, metadata middleware.Metadata, err error,
		) {
			out, metadata, err = next.HandleDeserialize(ctx, in)
			response, ok := out.RawResponse.(*smithyhttp.Response)
			if err != nil || !ok || !queried[awsmiddleware.GetServiceID(ctx)] ||
				response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
				return out, metadata, err
			}
			body := bufio.NewReaderSize(response.Body, opening)
			response.Body = struct {
				io.Reader
				io.Closer
			}{body, response.Body}
			want := awsmiddleware.GetOperationName(ctx) + "Response"
			if name := firstElement(body); name != want {
				_ = response.Body.Close()
				return out, metadata, fmt.Errorf(
					"the answer to %s %s is none of AWS: it begins with %q, want %q: is a proxy in between?",
					awsmiddleware.GetServiceID(ctx),
					awsmiddleware.GetOperationName(ctx),
					name,
					want,
				)
			}
			return out, metadata, nil
		},
	)
}

// firstElement is the name of the first element of an XML document; empty when there is none.
func firstElement(body *bufio.Reader) string {
	begin, _ := body.Peek(opening) // a short answer ends with io.EOF, and a broken one is found when it is read
	for decoder := xml.NewDecoder(bytes.NewReader(begin)); ; {
		token, err := decoder.Token()
		if err != nil {
			return ""
		}
		if element, ok := token.(xml.StartElement); ok {
			return element.Name.Local
		}
	}
}
