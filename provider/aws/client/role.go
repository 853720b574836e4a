package client

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Headers by which the policy of a role can tell for whom a service assumes it (the confused deputy problem).
const (
	headerSourceAccount = "x-amz-source-account"
	headerSourceARN     = "x-amz-source-arn"
)

// assumeRole makes the credentials of the role in the cloud config. Nothing is called before they are first needed.
func (s *Services) assumeRole(region string) (aws.CredentialsProvider, error) {
	global := s.options.Config.Global
	role, err := arn.Parse(global.RoleARN)
	if err != nil {
		return nil, fmt.Errorf("reading RoleARN %q of the cloud config: %w", global.RoleARN, err)
	}
	headers := map[string]string{headerSourceAccount: role.AccountID}
	if global.SourceARN != "" {
		headers[headerSourceARN] = global.SourceARN
	}
	client := sts.NewFromConfig(s.cfg, func(o *sts.Options) {
		o.Region = region
		if endpoint := s.options.STSEndpoint(region); endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
		o.APIOptions = append(o.APIOptions, countTerminal, s.perAttempt, addHeaders(headers))
	})
	return aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(client, global.RoleARN)), nil
}

func addHeaders(headers map[string]string) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Build.Add(
			middleware.BuildMiddlewareFunc(
				"transplant/source",
				func(ctx context.Context, in middleware.BuildInput, next middleware.BuildHandler) (
					middleware.BuildOutput, middleware.Metadata, error,
				) {
					request, ok := in.Request.(*smithyhttp.Request)
					if !ok {
						return middleware.BuildOutput{}, middleware.Metadata{}, fmt.Errorf("unknown transport %T", in.Request)
					}
					for name, value := range headers {
						request.Header.Set(name, value)
					}
					return next.HandleBuild(ctx, in)
				},
			),
			middleware.After,
		)
	}
}
