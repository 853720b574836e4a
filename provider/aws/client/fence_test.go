package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	"github.com/google/go-cmp/cmp"
	awsv1 "k8s.io/cloud-provider-aws/pkg/providers/v1"
	awsconfig "k8s.io/cloud-provider-aws/pkg/providers/v1/config"
	"k8s.io/cloud-provider-aws/pkg/providers/v1/iface"

	"github.com/transplant-dev/transplant/ccm/election"

	"github.com/transplant-dev/transplant/provider/transport"
)

// TestEveryOperationOfTheProviderChangesSomethingOrReads lists what the provider can call. An operation that a new version adds has to be looked at.
func TestEveryOperationOfTheProviderChangesSomethingOrReads(t *testing.T) {
	changes := map[string][]string{
		"EC2": {"AuthorizeSecurityGroupIngress", "CreateRoute", "CreateSecurityGroup", "CreateTags", "DeleteRoute", "DeleteSecurityGroup", "DeleteTags",
			"ModifyInstanceAttribute", "RevokeSecurityGroupIngress"},
		"ELB": {
			"AddTags",
			"ApplySecurityGroupsToLoadBalancer",
			"AttachLoadBalancerToSubnets",
			"ConfigureHealthCheck",
			"CreateLoadBalancer",
			"CreateLoadBalancerListeners",
			"CreateLoadBalancerPolicy",
			"DeleteLoadBalancer",
			"DeleteLoadBalancerListeners",
			"DeregisterInstancesFromLoadBalancer",
			"DetachLoadBalancerFromSubnets",
			"ModifyLoadBalancerAttributes",
			"RegisterInstancesWithLoadBalancer",
			"SetLoadBalancerPoliciesForBackendServer",
			"SetLoadBalancerPoliciesOfListener",
		},
		"ELBV2": {
			"AddTags",
			"CreateListener",
			"CreateLoadBalancer",
			"CreateTargetGroup",
			"DeleteListener",
			"DeleteLoadBalancer",
			"DeleteTargetGroup",
			"DeregisterTargets",
			"ModifyListener",
			"ModifyLoadBalancerAttributes",
			"ModifyTargetGroup",
			"ModifyTargetGroupAttributes",
			"RegisterTargets",
			"SetSecurityGroups",
		},
		"KMS": nil,
		"STS": nil,
	}
	reading := map[string][]string{
		"EC2": {
			"DescribeAvailabilityZones",
			"DescribeInstanceTopology",
			"DescribeInstances",
			"DescribeNetworkInterfaces",
			"DescribeRouteTables",
			"DescribeSecurityGroups",
			"DescribeSubnets",
			"DescribeVpcs",
		},
		"ELB": {"DescribeLoadBalancerAttributes", "DescribeLoadBalancerPolicies", "DescribeLoadBalancers"},
		"ELBV2": {"DescribeListeners", "DescribeLoadBalancerAttributes", "DescribeLoadBalancers", "DescribeTargetGroupAttributes", "DescribeTargetGroups",
			"DescribeTargetHealth"},
		"KMS": {"DescribeKey"},
		"STS": {"AssumeRole"},
	}
	type assuming interface{ AssumeRole() }
	for service, api := range map[string]reflect.Type{
		"EC2": reflect.TypeFor[iface.EC2](), "ELB": reflect.TypeFor[awsv1.ELB](), "ELBV2": reflect.TypeFor[awsv1.ELBV2](), "KMS": reflect.TypeFor[awsv1.KMS](),
		"STS": reflect.TypeFor[assuming](),
	} {
		var change, read []string
		for i := range api.NumMethod() {
			if name := api.Method(i).Name; Mutates(name) {
				change = append(change, name)
			} else {
				read = append(read, name)
			}
		}
		if diff := cmp.Diff(changes[service], change); diff != "" {
			t.Errorf("%s: what changes something (-want +got):\n%s", service, diff)
		}
		if diff := cmp.Diff(reading[service], read); diff != "" {
			t.Errorf("%s: reads (-want +got):\n%s", service, diff)
		}
	}
}

// held is a fence that is open until it is revoked.
func held() *election.Fence { return election.Unfenced(time.Now()) }

func createRoute(ctx context.Context, api iface.EC2) error {
	_, err := api.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: new(string)})
	return err
}

func TestAClosedFenceStopsWhatChangesSomethingAndNothingElse(t *testing.T) {
	open, closed := held(), election.NewFence("cloud-controller-manager", election.Boottime())
	for _, c := range []struct {
		name   string
		carry  *election.Fence
		leases []*election.Fence
		sent   bool
	}{
		{"the context's fence is open", open, nil, true},
		{"the context's fence is closed, and another lease is held", closed, []*election.Fence{open}, false},
		{"no fence in the context, and one of two leases is held", nil, []*election.Fence{closed, open}, true},
		{"no fence in the context, and no lease is held", nil, []*election.Fence{closed, closed}, false},
		{"no fence at all", nil, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, gate := &wire{}, &transport.Gate{}
			gate.Use(c.leases...)
			s := start(t, w, &awsconfig.CloudConfig{}, gate)
			api, err := s.Compute(t.Context(), "us-east-1", nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			if c.carry != nil {
				ctx = election.NewContext(ctx, c.carry)
			}
			watched, correct := transport.Watch(ctx)
			err = createRoute(watched, api)
			if _, err := api.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{}); err != nil {
				t.Errorf("a read was not answered: %v", err)
			}
			want := []string{"CreateRoute", "DescribeRouteTables"}
			if !c.sent {
				want = want[1:]
			}
			if diff := cmp.Diff(want, w.sent()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if refused := errors.Is(err, election.ErrFenced); refused == c.sent {
				t.Errorf("error = %v", err)
			}
			for _, lost := range []error{nil, errors.New("error creating AWS route: not sending")} {
				if got := correct(lost); errors.Is(got, election.ErrFenced) == c.sent {
					t.Errorf("a provider's %v is corrected to %v", lost, got)
				}
			}
		})
	}
}

func TestTheFenceIsAskedBeforeEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fence, gate := held(), &transport.Gate{}
		w := &wire{answer: func(action string, _ int) (int, string, error) {
			fence.Revoke("another process holds the lease")
			return refusal(http.StatusInternalServerError, "InternalError") // which is retried
		}}
		gate.Use(fence)
		api, err := start(t, w, &awsconfig.CloudConfig{}, gate).LoadBalancing(t.Context(), "us-east-1", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = api.CreateLoadBalancer(t.Context(), &elb.CreateLoadBalancerInput{LoadBalancerName: new(string), Listeners: []elbtypes.Listener{}})
		if !errors.Is(err, election.ErrFenced) {
			t.Errorf("error = %v", err)
		}
		if diff := cmp.Diff([]string{"CreateLoadBalancer"}, w.sent()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// The signature needs the body too, and reads it before the request is sent.
func TestTheFenceIsAskedAgainWhenTheBodyIsSent(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost while the connection is made: %t", lost), func(t *testing.T) {
			fence, gate := held(), &transport.Gate{}
			w := &wire{connects: func() {
				if lost {
					fence.Revoke("another process holds the lease")
				}
			}}
			gate.Use(fence)
			api, err := start(t, w, &awsconfig.CloudConfig{}, gate).Compute(t.Context(), "us-east-1", nil)
			if err != nil {
				t.Fatal(err)
			}
			watched, correct := transport.Watch(t.Context())
			err = createRoute(watched, api)
			if errors.Is(err, election.ErrFenced) != lost {
				t.Errorf("error = %v", err)
			}
			if corrected := correct(errors.New("error creating AWS route")); errors.Is(corrected, election.ErrFenced) != lost {
				t.Errorf("a provider's error is corrected to %v", corrected)
			}
			if _, err := api.DescribeRouteTables(t.Context(), &ec2.DescribeRouteTablesInput{}); err != nil {
				t.Errorf("a read was not answered: %v", err)
			}
			want := []string{"CreateRoute", "DescribeRouteTables"}
			if lost {
				want = want[1:]
			}
			if diff := cmp.Diff(want, w.sent()); diff != "" {
				t.Errorf("requests that came whole (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAThrottledOperationDoesNotSlowDownOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(action string, n int) (int, string, error) {
			if action == "DescribeSecurityGroups" {
				return refusal(http.StatusServiceUnavailable, "RequestLimitExceeded")
			}
			return ok(action, n)
		}}
		api, err := start(t, w, &awsconfig.CloudConfig{}, &transport.Gate{}).Compute(t.Context(), "us-east-1", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if _, err := api.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{}); err == nil {
				t.Fatal("a throttled operation gives no error")
			}
		}
		begin := time.Now()
		for range 20 {
			if _, err := api.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("20 calls of another operation took %s; nothing throttles them", took)
		}
		begin = time.Now()
		if _, err := api.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{}); err == nil || time.Since(begin) < 2*time.Second {
			t.Errorf("the throttled operation went on at full speed: %s, %v", time.Since(begin), err)
		}
		if attempts := len(slices.DeleteFunc(w.sent(), func(a string) bool { return a != "DescribeSecurityGroups" })); attempts != 3*21 {
			t.Errorf("%d attempts of 21 calls, want 3 each", attempts)
		}
	})
}

func TestAnOperationThatIsNotThrottledAnyMoreComesBackToFullSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttled := true
		w := &wire{answer: func(action string, n int) (int, string, error) {
			if throttled {
				return refusal(http.StatusServiceUnavailable, "RequestLimitExceeded")
			}
			return ok(action, n)
		}}
		api, err := start(t, w, &awsconfig.CloudConfig{}, &transport.Gate{}).Compute(t.Context(), "us-east-1", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			_, _ = api.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
		}
		throttled = false
		begin := time.Now()
		for range 60 {
			if _, err := api.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took < 10*time.Second || took > 30*time.Second {
			t.Errorf("60 calls took %s, want it to begin with one in 2 seconds and to speed up", took)
		}
		begin = time.Now()
		for range 60 {
			_, _ = api.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("60 calls took %s after that, want no limit any more", took)
		}
	})
}

func TestWaitingForThePaceEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(string, int) (int, string, error) {
			return refusal(http.StatusServiceUnavailable, "RequestLimitExceeded")
		}}
		api, err := start(t, w, &awsconfig.CloudConfig{}, &transport.Gate{}).Compute(t.Context(), "us-east-1", nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		for range 3 {
			_, err = api.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v", err)
		}
	})
}
