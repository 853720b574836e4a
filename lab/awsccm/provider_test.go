package awsccm

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/provider/aws/client"
)

// TestTheCloudConfigOfAnInTreeManagerWorksUnchanged makes the first calls of all services: had an override been ignored, they would have gone to AWS.
func TestTheCloudConfigOfAnInTreeManagerWorksUnchanged(t *testing.T) {
	for name, config := range map[string]func(string) string{
		"the in-tree names": inTree,
		"both dialects in a file": func(url string) string {
			return inTree("http://127.0.0.1:1") + section("3", "EC2", url) + section("4", "Elastic Load Balancing", url) + section("5", "Elastic Load Balancing v2", url)
		},
		"half of the new names": func(url string) string { return inTree(url) + section("3", "Elastic Load Balancing v2", url) },
	} {
		t.Run(name, func(t *testing.T) {
			b := set(t, 2, config)
			b.know(t, b.nodes...)
			balancers, _ := b.cloud.LoadBalancer()
			for _, kind := range []string{"", "nlb"} {
				service := web(kind)
				service.UID += "x"
				if _, err := balancers.EnsureLoadBalancer(t.Context(), "lab", service, b.nodes); err != nil {
					t.Fatalf("%q: %v", kind, err)
				}
				if err := balancers.EnsureLoadBalancerDeleted(t.Context(), "lab", service); err != nil {
					t.Fatalf("%q: %v", kind, err)
				}
			}
			for _, want := range []string{"ec2:DescribeSubnets", "elb:CreateLoadBalancer", "elbv2:CreateLoadBalancer"} {
				if !slices.Contains(b.calls(0), want) {
					t.Errorf("the simulator never saw %s", want)
				}
			}
		})
	}
}

// TestTheSimulatorAgreesWithWhatIsFenced compares two lists that were made apart.
func TestTheSimulatorAgreesWithWhatIsFenced(t *testing.T) {
	b := set(t, 0, inTree)
	for _, service := range []string{"ec2", "elb", "elbv2"} {
		for _, action := range b.Actions(service) {
			if client.Mutates(action.Name) != action.Mutating {
				t.Errorf("%s %s: fenced %v, mutating %v", service, action.Name, client.Mutates(action.Name), action.Mutating)
			}
		}
	}
}

// TestNoRequestFollowsTheClosingOfTheFence closes the fence after each of the mutating requests of one EnsureLoadBalancer, in the middle of the
// provider's code, which knows of no fence.
func TestNoRequestFollowsTheClosingOfTheFence(t *testing.T) {
	for _, kind := range []string{"", "nlb"} {
		for _, carried := range []bool{true, false} {
			whole := closedAfter(t, kind, 0, carried)
			if whole < 4 {
				t.Fatalf("%q: the whole way has only %d mutating requests", kind, whole)
			}
			for k := 1; k < whole; k++ {
				if sent := closedAfter(t, kind, k, carried); sent != k {
					t.Errorf("%q: the fence was closed after mutating request %d of %d, and %d were sent", kind, k, whole, sent)
				}
			}
		}
	}
}

// closedAfter makes a load balancer and closes the fence after k mutating requests, or not at all. It returns how many were sent.
func closedAfter(t *testing.T, kind string, k int, carried bool) (sent int) {
	t.Helper()
	b := set(t, 2, inTree)
	b.know(t, b.nodes...)
	fence, other := election.Unfenced(time.Now()), election.NewFence("other", election.Boottime())
	ctx := t.Context()
	if carried {
		b.cloud.UseFences(election.Unfenced(time.Now())) // the other lease is held; it is not the one that counts
		ctx = election.NewContext(ctx, fence)
	} else {
		b.cloud.UseFences(other, fence)
	}
	var n atomic.Int32
	b.served = func(action string) {
		if client.Mutates(action) && int(n.Add(1)) == k {
			fence.Revoke("another process holds the lease")
		}
	}
	balancers, _ := b.cloud.LoadBalancer()
	_, err := balancers.EnsureLoadBalancer(ctx, "lab", web(kind), b.nodes)
	sent = len(b.calls(0, mutating))
	switch {
	case k == 0 && err != nil:
		t.Fatalf("%q: %v", kind, err)
	case k > 0 && !errors.Is(err, election.ErrFenced):
		t.Errorf("%q: closed after %d requests, the error is %v", kind, k, err)
	}
	return sent
}

func TestInstancesOnTheWireAreWhatTheProviderSays(t *testing.T) {
	b := set(t, 260, inTree)
	b.know(t, b.nodes...)
	for i, state := range map[int]string{0: "pending", 1: "shutting-down", 2: "terminated", 3: "stopping", 4: "stopped"} {
		if err := b.SetInstanceState(instance(b.nodes[i]), state); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range b.nodes[5:8] {
		if err := b.VanishInstance(instance(n)); err != nil {
			t.Fatal(err)
		}
	}
	var asked []*corev1.Node
	for i, n := range b.nodes {
		if i%3 == 0 { // found by name
			n = n.DeepCopy()
			n.Spec.ProviderID = ""
		}
		asked = append(asked, n)
	}
	since := b.count()
	states, err := b.cloud.ListInstances(t.Context(), asked, cloud.WantExists|cloud.WantShutdown|cloud.WantMetadata)
	if err != nil {
		t.Fatal(err)
	}
	// All of it was asked for in one go: by ID, again without the vanished, by name; and, once in a process's life, for zones and topologies. The cache
	// of Nodes knows the providerIDs of the nameless.
	if diff := cmp.Diff(
		[]string{"ec2:DescribeInstances", "ec2:DescribeInstances", "ec2:DescribeAvailabilityZones", "ec2:DescribeInstanceTopology"},
		b.calls(since),
	); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for i, n := range asked[:12] {
		exists, existsErr := b.cloud.InstanceExists(t.Context(), n)
		shutdown, _ := b.cloud.InstanceShutdown(t.Context(), n)
		want := cloud.InstanceState{Exists: exists, Shutdown: shutdown, Terminated: i == 2}
		if exists {
			if want.Metadata, err = b.cloud.InstanceMetadata(t.Context(), n); err != nil {
				t.Errorf("%s: %v", n.Name, err)
			}
		}
		if diff := cmp.Diff(want, states[i]); diff != "" || existsErr != nil {
			t.Errorf("%s: %v (-provider +ours):\n%s", n.Name, existsErr, diff)
		}
	}
}

func instance(n *corev1.Node) string {
	return n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, "/")+1:]
}

func TestAThousandInstancesAreOneRequestOnTheWire(t *testing.T) {
	b := set(t, 1000, inTree)
	since := b.count()
	if _, err := b.cloud.ListInstances(t.Context(), b.nodes, cloud.WantExists); err != nil {
		t.Fatal(err)
	}
	for _, n := range b.nodes[:50] {
		if err := b.VanishInstance(instance(n)); err != nil {
			t.Fatal(err)
		}
	}
	states, err := b.cloud.ListInstances(t.Context(), b.nodes, cloud.WantExists)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range states {
		if s.Err != nil || s.Exists != (i >= 50) {
			t.Errorf("%s: %+v", b.nodes[i].Name, s)
		}
	}
	if calls := b.calls(since); len(calls) != 3 {
		t.Errorf("calls = %v, want one, and two when 50 had vanished", calls)
	}
	for _, n := range b.nodes {
		n.Spec.ProviderID = ""
	}
	since = b.count()
	if _, err := b.cloud.ListInstances(t.Context(), b.nodes, cloud.WantExists); err != nil {
		t.Fatal(err)
	}
	if calls := b.calls(since); len(calls) != 5+20 {
		t.Errorf("%d questions by name in %v, want 5 of 200, and 20 of one that was not found among them", len(calls), calls)
	}
}

func TestProbingAsksOneCheapQuestion(t *testing.T) {
	b := set(t, 0, inTree)
	since := b.count()
	if err := b.cloud.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ec2:DescribeAvailabilityZones"}, b.calls(since)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	remove := b.Inject(awssim.Fault{Code: "AuthFailure"})
	defer remove()
	if err := b.cloud.Probe(t.Context()); err == nil || cloud.Classify(err) != cloud.OutcomeAuth {
		t.Errorf("with bad credentials: %v", err)
	}
}
