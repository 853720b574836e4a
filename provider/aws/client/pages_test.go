package client

import (
	"net/http"
	"strings"
	"testing"

	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	awsconfig "k8s.io/cloud-provider-aws/pkg/providers/v1/config"

	"github.com/transplant-dev/transplant/provider/transport"
)

// TestAnAnswerOfAWSIsBounded: one that never ends would take the manager's memory. It is not asked for again.
func TestAnAnswerOfAWSIsBounded(t *testing.T) {
	long := strings.Repeat(" ", 64<<20)
	w := &wire{answer: func(string, int) (int, string, error) { return http.StatusBadRequest, "<ErrorResponse>" + long, nil }}
	s := start(t, w, &awsconfig.CloudConfig{}, &transport.Gate{})
	network, err := s.LoadBalancingV2(t.Context(), "us-east-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = network.DescribeLoadBalancers(t.Context(), &elbv2.DescribeLoadBalancersInput{})
	const want = "the answer to Elastic Load Balancing v2 DescribeLoadBalancers: it is longer than 67108864 bytes"
	if err == nil || !strings.Contains(err.Error(), want) || len(w.sent()) != 1 {
		t.Errorf("%d requests: %v", len(w.sent()), err)
	}
}
