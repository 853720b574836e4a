// Package pages decides how much of one list, and of one answer, is read from AWS. Each page says itself whether
// another one comes, so that a proxy, or what a service override leads to, could send pages without end.
package pages

import (
	"context"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/transplant-dev/transplant/provider/transport"
)

// maxAnswer is how long an answer may be. 1,000 instances are about 10 MB.
const maxAnswer = 64 << 20

// lists bound a list over its pages. AWS may put as few as 5 entries into one.
var lists = transport.List{MaxBytes: 512 << 20, MaxPages: 5000}

// Read reads a list page by page, with a paginator of the SDK. The name is that of its service and operation.
func Read[Page, Item, Option any](
	ctx context.Context, name string,
	more func() bool, next func(context.Context, ...Option) (Page, error), items func(Page) []Item,
) ([]Item, error) {
	ctx, list := lists.Read(ctx, name, "the address of that service: a service override, or a proxy")
	all := []Item{}
	for more() {
		if err := list.Page(); err != nil {
			return nil, err
		}
		page, err := next(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, items(page)...)
	}
	return all, nil
}

// Bound has a client of the SDK refuse answers that are too long, and count those that belong to a list.
func Bound(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc(
		"transplant/bound",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
			middleware.DeserializeOutput, middleware.Metadata, error,
		) {
			out, metadata, err := next.HandleDeserialize(ctx, in)
			if response, ok := out.RawResponse.(*smithyhttp.Response); ok && err == nil && response.Body != nil {
				response.Body = transport.Bound(ctx, response.Body, transport.Request{
					Service: awsmiddleware.GetServiceID(ctx), Operation: awsmiddleware.GetOperationName(ctx),
				}, maxAnswer)
			}
			return out, metadata, err
		},
	), middleware.After)
}
