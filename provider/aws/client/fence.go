package client

import (
	"context"
	"fmt"
	"strings"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/provider/transport"
)

// reads are the beginnings of the names of operations that change nothing. What is not known to be a read is fenced.
var reads = []string{"Describe", "Get", "List", "AssumeRole"}

// Mutates reports whether an operation changes something in AWS.
func Mutates(operation string) bool {
	for _, prefix := range reads {
		if strings.HasPrefix(operation, prefix) {
			return false
		}
	}
	return true
}

const gateID = "transplant/fence"

// fenced asks the gate before each attempt of a request that changes something, and again when the body is sent.
func fenced(gate *transport.Gate) middleware.FinalizeMiddleware {
	return middleware.FinalizeMiddlewareFunc(
		gateID,
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
			out middleware.FinalizeOutput, metadata middleware.Metadata, err error,
		) {
			operation := awsmiddleware.GetOperationName(ctx)
			if !Mutates(operation) {
				return next.HandleFinalize(ctx, in)
			}
			ask := func() error { return gate.Ask(ctx, awsmiddleware.GetServiceID(ctx), operation) }
			if err := ask(); err != nil {
				return out, metadata, err
			}
			request, ok := in.Request.(*smithyhttp.Request)
			if !ok {
				return out, metadata, fmt.Errorf("%s is no HTTP request, but a %T", operation, in.Request)
			}
			if body := request.GetStream(); body != nil {
				if in.Request, err = request.SetStream(election.AskToRead(body, ask)); err != nil {
					return out, metadata, fmt.Errorf("putting the fence before the body of %s: %w", operation, err)
				}
			}
			return next.HandleFinalize(ctx, in)
		},
	)
}
