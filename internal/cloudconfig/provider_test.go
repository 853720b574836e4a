package cloudconfig

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"gopkg.in/gcfg.v1"
	awsconfig "k8s.io/cloud-provider-aws/pkg/providers/v1/config"
)

// read reads a config as the external provider does.
func read(t *testing.T, data []byte) *awsconfig.CloudConfig {
	t.Helper()
	var cfg awsconfig.CloudConfig
	if err := gcfg.FatalOnly(gcfg.ReadInto(&cfg, bytes.NewReader(data))); err != nil {
		t.Fatal(err)
	}
	if err := cfg.ValidateOverrides(); err != nil {
		t.Fatal(err)
	}
	return &cfg
}

func TestTheExternalProviderFindsEveryOverride(t *testing.T) {
	out, _, err := derivedAWS([]byte(inTree))
	if err != nil {
		t.Fatal(err)
	}
	cfg := read(t, out)
	region := aws.String("us-east-1")
	ec2At, err := cfg.GetCustomEC2Resolver().ResolveEndpoint(t.Context(), ec2.EndpointParameters{Region: region})
	if err != nil || ec2At.URI.String() != "https://ec2.internal.example:8443" {
		t.Errorf("EC2: %v, %v", ec2At.URI.String(), err)
	}
	elbAt, err := cfg.GetCustomELBResolver().ResolveEndpoint(t.Context(), elb.EndpointParameters{Region: region})
	if err != nil || elbAt.URI.String() != "https://elb.internal.example" {
		t.Errorf("ELB: %v, %v", elbAt.URI.String(), err)
	}
	elbv2At, err := cfg.GetCustomELBV2Resolver().ResolveEndpoint(t.Context(), elbv2.EndpointParameters{Region: region})
	if err != nil || elbv2At.URI.String() != "https://elb.internal.example" {
		t.Errorf("ELBv2: %v, %v", elbv2At.URI.String(), err)
	}
	kmsAt, err := cfg.GetCustomKMSResolver().ResolveEndpoint(t.Context(), kms.EndpointParameters{Region: region})
	if err != nil || kmsAt.URI.String() != "https://kms.internal.example" {
		t.Errorf("KMS: %v, %v", kmsAt.URI.String(), err)
	}
	if cfg.Global.Zone != "us-east-1a" || cfg.Global.VPC != "vpc-1" || cfg.Global.KubernetesClusterID != "lab" {
		t.Errorf("Global = %+v", cfg.Global)
	}
}

func TestTheExternalProviderFindsNoneOfTheInTreeNames(t *testing.T) {
	cfg := read(t, []byte(inTree))
	at, err := cfg.GetCustomEC2Resolver().ResolveEndpoint(t.Context(), ec2.EndpointParameters{Region: aws.String("us-east-1")})
	if err != nil || !strings.HasSuffix(at.URI.Host, "amazonaws.com") {
		t.Errorf("the reason for this package is gone: EC2 is found at %v, %v", at.URI.String(), err)
	}
}

func TestTheNamesAreTheSDKs(t *testing.T) {
	want := []string{ec2.ServiceID, elb.ServiceID, elbv2.ServiceID, kms.ServiceID, imds.ServiceID}
	for _, name := range want {
		if !external[name] {
			t.Errorf("%q is looked for by the external provider and not known here", name)
		}
	}
	if len(external) != len(want) {
		t.Errorf("external = %v, want %v", external, want)
	}
}

// TestTheReadersAgree compares what this package reads with what the provider's reader does.
func TestTheReadersAgree(t *testing.T) {
	for _, in := range []string{inTree, derived, "[Global]\nZone = \"a \\\"b\\\" c\" ; d\nVPC = x\\\ny\n", "[Global]\nZone=a\"b\"c\n", "[global]\r\nvpc = x\r\n", "[Global]\nZone = ä\n"} {
		cfg := read(t, []byte(in))
		f, err := parseFile([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range f.blocks {
			s := reflect.ValueOf(cfg.Global)
			if b.sub != "" {
				s = reflect.ValueOf(cfg.ServiceOverride[b.sub]).Elem()
			}
			for _, e := range b.entries {
				field := s.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, e.key) })
				if !field.IsValid() || field.Kind() != reflect.String {
					continue
				}
				if field.String() != e.value {
					t.Errorf("%s.%s = %q, the provider reads %q", b.title(), e.key, e.value, field.String())
				}
			}
		}
	}
}
