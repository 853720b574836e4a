package client

import (
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	awsconfig "k8s.io/cloud-provider-aws/pkg/providers/v1/config"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/provider/transport"
)

// TestABodyThatTheSDKHasClosedEndsWithoutAnError does what net/http does when an answer comes before it has looked for the end of the request's body.
func TestABodyThatTheSDKHasClosedEndsWithoutAnError(t *testing.T) {
	w := &wire{}
	s := start(t, w, &awsconfig.CloudConfig{}, &transport.Gate{})
	compute, err := s.Compute(t.Context(), "us-east-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := compute.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{}); err != nil {
		t.Fatal(err)
	}
	if err := createRoute(election.NewContext(t.Context(), held()), compute); err != nil {
		t.Fatal(err)
	}
	for i, r := range w.requests {
		if r.Method != http.MethodPost || r.Body == nil {
			t.Fatalf("%s has no body", w.actions[i])
		}
		if n, err := io.Copy(io.Discard, r.Body); n != 0 || err != nil {
			t.Errorf("%s: %d bytes and %v come after the end, want none and no error", w.actions[i], n, err)
		}
	}
}
