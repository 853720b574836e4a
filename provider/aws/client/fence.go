package client

import (
	"context"
	"fmt"
	"strings"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"

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

// fenced asks the gate before each attempt of a request that changes something.
func fenced(gate *transport.Gate) middleware.FinalizeMiddleware {
	return middleware.FinalizeMiddlewareFunc(
		gateID,
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
			out middleware.FinalizeOutput, metadata middleware.Metadata, err error,
		) {
			if operation := awsmiddleware.GetOperationName(ctx); Mutates(operation) {
				if refusal := gate.Check(ctx); refusal != nil {
					err = fmt.Errorf("not sending %s %s: %w", awsmiddleware.GetServiceID(ctx), operation, refusal)
					transport.Note(ctx, err)
					return out, metadata, err
				}
			}
			return next.HandleFinalize(ctx, in)
		},
	)
}
