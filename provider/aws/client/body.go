package client

import (
	"context"
	"fmt"
	"io"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// readOnly has net/http read the body of a request, rather than have the body write itself.
//
// The SDK closes the body once the answer begins. net/http may not have looked for the body's end by then: a long body
// is on its way before that. A closed body says io.EOF to a reader, which is right. To one that has it write itself it
// says io.EOF too, which is an error there (safeWriteToReadCloser, smithy-go 1.24 to 1.28). net/http then cuts the
// connection in the middle of the answer, and the SDK asks a second time.
func readOnly() middleware.FinalizeMiddleware {
	return middleware.FinalizeMiddlewareFunc(
		"transplant/body",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
			out middleware.FinalizeOutput, metadata middleware.Metadata, err error,
		) {
			request, ok := in.Request.(*smithyhttp.Request)
			if !ok {
				return out, metadata, fmt.Errorf("the request is no HTTP request, but a %T", in.Request)
			}
			if body, ok := request.GetStream().(io.ReadSeeker); ok {
				if in.Request, err = request.SetStream(struct{ io.ReadSeeker }{body}); err != nil {
					return out, metadata, fmt.Errorf("wrapping the body of the request: %w", err)
				}
			}
			return next.HandleFinalize(ctx, in)
		},
	)
}
