package client

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/google/go-cmp/cmp"
	"gopkg.in/gcfg.v1"
	awsconfig "k8s.io/cloud-provider-aws/pkg/providers/v1/config"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/provider/transport"
)

const overridden = `[Global]
RoleARN = arn:aws:iam::123456789012:role/ccm
SourceARN = arn:aws:eks:us-east-1:210987654321:cluster/lab
[ServiceOverride "1"]
Service = EC2
Region = us-east-1
URL = http://ec2.test
SigningRegion = us-east-1
[ServiceOverride "2"]
Service = Elastic Load Balancing
Region = us-east-1
URL = http://elb.test
SigningRegion = us-east-1
[ServiceOverride "3"]
Service = Elastic Load Balancing v2
Region = us-east-1
URL = http://elbv2.test
SigningRegion = us-east-1
[ServiceOverride "4"]
Service = KMS
Region = us-east-1
URL = http://kms.test
SigningRegion = us-east-1
[ServiceOverride "5"]
Service = ec2imds
Region = us-east-1
URL = http://imds.test
SigningRegion = us-east-1
`

func TestEveryClientGoesToItsOverrideWithTheRole(t *testing.T) {
	cfg := &awsconfig.CloudConfig{}
	if err := gcfg.ReadInto(cfg, bytes.NewReader([]byte(overridden))); err != nil {
		t.Fatal(err)
	}
	w := &wire{answer: func(action string, n int) (int, string, error) {
		if action == "AssumeRole" {
			return http.StatusOK, "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey>" +
				"<SessionToken>t</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>", nil
		}
		if action == "" {
			return http.StatusOK, "{}", nil
		}
		return ok(action, n)
	}}
	s := start(t, w, cfg, &transport.Gate{})
	ctx, region := t.Context(), "us-east-1"
	call := func(name string, err error) {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	compute, err := s.Compute(ctx, region, nil)
	call("EC2", err)
	_, err = compute.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
	call("EC2", err)
	classic, err := s.LoadBalancing(ctx, region, nil)
	call("ELB", err)
	_, err = classic.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{})
	call("ELB", err)
	network, err := s.LoadBalancingV2(ctx, region, nil)
	call("ELBv2", err)
	_, err = network.DescribeLoadBalancers(ctx, &elbv2.DescribeLoadBalancersInput{})
	call("ELBv2", err)
	keys, err := s.KeyManagement(ctx, region, nil)
	call("KMS", err)
	_, err = keys.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: new(string)})
	call("KMS", err)
	var got []string
	for i, r := range w.requests {
		key, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="), "/")
		got = append(got, strings.Join([]string{r.URL.Host, w.actions[i], key, r.Header.Get(headerSourceAccount), r.Header.Get(headerSourceARN)}, " "))
		if !strings.Contains(r.Header.Get("User-Agent"), "kubernetes/") && r.URL.Host != "sts.test" {
			t.Errorf("%s: User-Agent %q", r.URL.Host, r.Header.Get("User-Agent"))
		}
	}
	want := []string{
		"sts.test AssumeRole AKIATEST 123456789012 arn:aws:eks:us-east-1:210987654321:cluster/lab",
		"ec2.test DescribeVpcs ASIAROLE  ", "elb.test DescribeLoadBalancers ASIAROLE  ", "elbv2.test DescribeLoadBalancers ASIAROLE  ", "kms.test  ASIAROLE  ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	before := len(w.requests)
	metadata, err := s.Metadata(ctx)
	call("IMDS", err)
	if len(w.requests) != before {
		t.Error("making the client of the metadata service asks it something")
	}
	w.answer = func(string, int) (int, string, error) { return http.StatusNotFound, "", nil }
	_, _ = metadata.GetMetadata(ctx, &imds.GetMetadataInput{Path: "instance-id"})
	if len(w.requests) == before || w.requests[before].URL.Host != "imds.test" {
		t.Error("the metadata service is not asked at its override")
	}
	if s.EC2() != compute {
		t.Error("EC2 is not the client that was made")
	}
}

// served are the series of some metrics with their values, as a scrape gets them; of histograms, the counts.
func served(t *testing.T, names ...string) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		if !slices.Contains(names, family.GetName()) {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			out[family.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

func TestRequestsAreCountedInTheProvidersMetricsAndInOurs(t *testing.T) {
	w := &wire{answer: func(action string, n int) (int, string, error) {
		switch action {
		case "DescribeSecurityGroups":
			return refusal(http.StatusServiceUnavailable, "RequestLimitExceeded")
		case "DescribeRouteTables":
			return 0, "", errors.New("connection refused")
		case "DescribeNetworkInterfaces":
			if n%2 == 1 {
				return refusal(http.StatusInternalServerError, "InternalError")
			}
		}
		return ok(action, n)
	}}
	gate := &transport.Gate{}
	gate.Use(held())
	api, err := start(t, w, &awsconfig.CloudConfig{}, gate).Compute(t.Context(), "us-east-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{
		"cloudprovider_aws_api_request_duration_seconds", "cloudprovider_aws_api_request_errors", "cloudprovider_aws_api_throttled_requests_total",
		"cloudprovider_aws_api_response_status_total", "transplant_ccm_aws_requests_total", "transplant_ccm_aws_request_duration_seconds",
	}
	before := served(t, names...)
	_, _ = api.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	_, _ = api.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{})
	_, _ = api.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{}, Tags: []ec2types.Tag{}})
	canceled, cancel := context.WithCancel(t.Context())
	w.answer = func(string, int) (int, string, error) { cancel(); return 0, "", canceled.Err() }
	_, _ = api.DeleteTags(canceled, &ec2.DeleteTagsInput{Resources: []string{}})
	gate.Use()
	_ = createRoute(t.Context(), api)
	got := served(t, names...)
	for series, value := range before {
		if got[series] -= value; got[series] == 0 {
			delete(got, series)
		}
	}
	want := map[string]float64{
		"cloudprovider_aws_api_request_duration_seconds{request=describe_instance}":                                 1,
		"cloudprovider_aws_api_request_duration_seconds{request=create_tags}":                                       1,
		"cloudprovider_aws_api_request_errors{request=describe_security_groups}":                                    1,
		"cloudprovider_aws_api_request_errors{request=delete_tags}":                                                 1,
		"cloudprovider_aws_api_throttled_requests_total{operation_name=DescribeSecurityGroups}":                     1,
		"cloudprovider_aws_api_response_status_total{operation=DescribeSecurityGroups,service=EC2,status_code=503}": 1,
		"transplant_ccm_aws_requests_total{operation=DescribeInstances,outcome=ok,service=EC2}":                     1,
		"transplant_ccm_aws_requests_total{operation=DescribeSecurityGroups,outcome=throttled,service=EC2}":         3,
		"transplant_ccm_aws_requests_total{operation=CreateTags,outcome=ok,service=EC2}":                            1,
		"transplant_ccm_aws_requests_total{operation=DeleteTags,outcome=cancelled,service=EC2}":                     1,
		"transplant_ccm_aws_request_duration_seconds{operation=DescribeInstances,service=EC2}":                      1,
		"transplant_ccm_aws_request_duration_seconds{operation=DescribeSecurityGroups,service=EC2}":                 3,
		"transplant_ccm_aws_request_duration_seconds{operation=CreateTags,service=EC2}":                             1,
		"transplant_ccm_aws_request_duration_seconds{operation=DeleteTags,service=EC2}":                             1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestNeitherSecretsNorParametersAreLogged(t *testing.T) {
	var log bytes.Buffer
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL", "v": "10"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	klog.SetOutput(&log)
	defer func() {
		_ = flags.Set("v", "0")
		_ = flags.Set("logtostderr", "true")
	}()
	api, err := start(t, &wire{}, &awsconfig.CloudConfig{}, &transport.Gate{}).Compute(t.Context(), "us-east-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{VpcIds: []string{"vpc-private"}}); err != nil {
		t.Fatal(err)
	}
	klog.Flush()
	if text := log.String(); !strings.Contains(text, `"Request to AWS" service="EC2" operation="DescribeVpcs" outcome="ok"`) || strings.Contains(text, secret) ||
		strings.Contains(text, "Signature=") || strings.Contains(text, "vpc-private") {
		t.Errorf("log:\n%s", text)
	}
}
