// Package client decides what is between the AWS provider and the wire: which requests may be sent, how fast, where to,
// and what is counted.
//
//	provider --> Services --retries, pace per operation--> fence --metrics--> AWS
//
// The provider's own clients have no fence, and count neither requests nor connections that failed. When one operation
// is throttled, they slow down every call in the region by up to a minute (CrossRequestRetryDelay).
package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	"k8s.io/client-go/pkg/version"
	awsv1 "k8s.io/cloud-provider-aws/pkg/providers/v1"
	awsconfig "k8s.io/cloud-provider-aws/pkg/providers/v1/config"
	"k8s.io/cloud-provider-aws/pkg/providers/v1/iface"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/provider/aws/leftover"
	"github.com/transplant-dev/transplant/provider/aws/pages"
	"github.com/transplant-dev/transplant/provider/transport"
)

// requestTimeout bounds one HTTP request. Without it, one answer that never comes makes the SDK take its own clock for
// wrong and spoils every call after it.
const requestTimeout = 30 * time.Second

// Options are the settings of the clients.
type Options struct {
	// Config is the cloud config, with the service overrides in the provider's names.
	Config *awsconfig.CloudConfig
	// STSEndpoint is where RoleARN is assumed in a region; empty for the SDK's own.
	STSEndpoint func(region string) string
	// Gate says whether requests that change something may be sent.
	Gate *transport.Gate
	// HTTPClient sends the requests; nil for the SDK's with a timeout.
	HTTPClient aws.HTTPClient
}

// Services makes the clients of one provider.
type Services struct {
	options Options
	cfg     aws.Config

	mu    sync.Mutex
	ec2   iface.EC2
	elbv2 leftover.ELBV2
	// role is shared by all clients: one set of temporary credentials, not one per service.
	role aws.CredentialsProvider
}

var _ awsv1.Services = (*Services)(nil)

// New loads the SDK's ordinary chain of settings (AWS_*, profiles, the instance's role). It calls nothing but what that
// chain calls.
func New(ctx context.Context, o Options) (*Services, error) {
	if o.HTTPClient == nil {
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(requestTimeout)
	}
	cfg, err := config.LoadDefaultConfig(
		ctx,
		config.WithDefaultsMode(aws.DefaultsModeInRegion),
		config.WithHTTPClient(o.HTTPClient),
		config.WithLogger(logger()),
	)
	if err != nil {
		return nil, fmt.Errorf("loading the AWS settings: %w", err)
	}
	return &Services{options: o, cfg: cfg}, nil
}

// logger takes what the SDK has to say. It is asked to log neither requests nor signatures.
func logger() logging.Logger {
	return logging.LoggerFunc(func(class logging.Classification, format string, args ...any) {
		if class == logging.Warn {
			klog.Warningf("AWS SDK: "+format, args...)
			return
		}
		klog.V(5).Infof("AWS SDK: "+format, args...)
	})
}

// EC2 is the client that Compute has made, for what the provider does not do itself.
func (s *Services) EC2() iface.EC2 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ec2
}

// Compute makes the client of EC2. Like the others, it takes the role from the cloud config: the provider gives none to
// clients that are not its own.
func (s *Services) Compute(_ context.Context, region string, _ *stscreds.AssumeRoleProvider) (iface.EC2, error) {
	cfg, err := s.in(region)
	if err != nil {
		return nil, err
	}
	options := append(
		s.options.Config.GetEC2EndpointOpts(region),
		func(o *ec2.Options) { o.EndpointResolverV2 = s.options.Config.GetCustomEC2Resolver() },
	)
	api := &computing{Client: ec2.NewFromConfig(cfg, options...)}
	s.mu.Lock()
	s.ec2 = api
	s.mu.Unlock()
	return api, nil
}

// LoadBalancing makes the client of classic load balancers.
func (s *Services) LoadBalancing(_ context.Context, region string, _ *stscreds.AssumeRoleProvider) (awsv1.ELB, error) {
	cfg, err := s.in(region)
	if err != nil {
		return nil, err
	}
	options := append(
		s.options.Config.GetELBEndpointOpts(region),
		func(o *elb.Options) { o.EndpointResolverV2 = s.options.Config.GetCustomELBResolver() },
	)
	return elb.NewFromConfig(cfg, options...), nil
}

// LoadBalancingV2 makes the client of network load balancers.
func (s *Services) LoadBalancingV2(
	_ context.Context,
	region string,
	_ *stscreds.AssumeRoleProvider,
) (awsv1.ELBV2, error) {
	cfg, err := s.in(region)
	if err != nil {
		return nil, err
	}
	options := append(
		s.options.Config.GetELBV2EndpointOpts(region),
		func(o *elbv2.Options) { o.EndpointResolverV2 = s.options.Config.GetCustomELBV2Resolver() },
	)
	api := elbv2.NewFromConfig(cfg, options...)
	s.mu.Lock()
	s.elbv2 = api
	s.mu.Unlock()
	return api, nil
}

// ELBV2 is the client that LoadBalancingV2 has made, for what the provider does not do itself.
func (s *Services) ELBV2() leftover.ELBV2 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.elbv2
}

// KeyManagement makes the client of the key management service.
func (s *Services) KeyManagement(_ context.Context, region string, _ *stscreds.AssumeRoleProvider) (awsv1.KMS, error) {
	cfg, err := s.in(region)
	if err != nil {
		return nil, err
	}
	options := append(
		s.options.Config.GetKMSEndpointOpts(region),
		func(o *kms.Options) { o.EndpointResolverV2 = s.options.Config.GetCustomKMSResolver() },
	)
	return kms.NewFromConfig(cfg, options...), nil
}

// Metadata makes the client of the instance metadata service and asks it nothing. A manager that runs outside of EC2,
// with its network in the cloud config, would wait for answers that never come.
func (s *Services) Metadata(context.Context) (awsconfig.EC2Metadata, error) {
	return imds.NewFromConfig(s.cfg, s.options.Config.GetIMDSEndpointOpts()...), nil
}

// in are the settings of a client in a region.
func (s *Services) in(region string) (aws.Config, error) {
	cfg := s.cfg.Copy()
	cfg.Region = region
	cfg.Retryer = func() aws.Retryer { return newPace() }
	cfg.APIOptions = append(
		slices.Clone(cfg.APIOptions),
		awsmiddleware.AddUserAgentKeyValue("kubernetes", version.Get().String()),
		countTerminal,
		s.perAttempt,
	)
	if s.options.Config.Global.RoleARN == "" {
		return cfg, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.role == nil {
		role, err := s.assumeRole(region)
		if err != nil {
			return aws.Config{}, err
		}
		s.role = role
	}
	cfg.Credentials = s.role
	return cfg, nil
}

// perAttempt adds what happens to every attempt of a request, right before it is sent. That is after the retries, the
// credentials and the signature, all of which take time in which a lease can be lost.
func (s *Services) perAttempt(stack *middleware.Stack) error {
	if err := stack.Deserialize.Add(refuseStrangers(), middleware.After); err != nil {
		return err
	}
	if err := pages.Bound(stack); err != nil {
		return err
	}
	if err := stack.Finalize.Insert(fenced(s.options.Gate), "Signing", middleware.After); err != nil {
		return err
	}
	if err := stack.Finalize.Insert(readOnly(), "Signing", middleware.After); err != nil {
		return err
	}
	return stack.Finalize.Insert(countAttempt(), gateID, middleware.After)
}
