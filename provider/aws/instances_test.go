package aws

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

const everything = cloud.WantExists | cloud.WantShutdown | cloud.WantMetadata

func state(name ec2types.InstanceStateName) func(*ec2types.Instance) {
	return func(i *ec2types.Instance) { i.State.Name = name }
}

func kind(name ec2types.InstanceType) func(*ec2types.Instance) {
	return func(i *ec2types.Instance) { i.InstanceType = name }
}

// zoo has an instance for everything that the provider looks at.
func zoo() *account {
	return &account{
		layers: map[string][]string{"i-00000000000000020": {"nn-1", "nn-2", "nn-3"}, "i-00000000000000021": {"nn-1"}},
		instances: []ec2types.Instance{
			machine("i-00000000000000001", "10.0.0.1"),
			machine("i-00000000000000002", "10.0.0.2", state("pending")),
			machine("i-00000000000000003", "10.0.0.3", state("shutting-down")),
			machine("i-00000000000000004", "10.0.0.4", state("stopping")),
			machine("i-00000000000000005", "10.0.0.5", state("stopped")),
			machine("i-00000000000000006", "10.0.0.6", state("terminated")),
			machine("i-00000000000000007", "10.0.0.7", func(i *ec2types.Instance) { i.State = nil }),
			machine("i-00000000000000008", "10.0.0.8", func(i *ec2types.Instance) {
				i.PublicIpAddress, i.PublicDnsName = sdk.String("54.0.0.8"), sdk.String("ec2-54-0-0-8.compute-1.amazonaws.com")
			}),
			machine("i-00000000000000009", "10.0.0.9", func(i *ec2types.Instance) {
				off := card(3, "10.0.9.3", "2001:db8::93")
				off.Status = ec2types.NetworkInterfaceStatusDetaching
				loose := card(0, "10.0.9.4", "2001:db8::94")
				loose.Attachment = nil
				i.NetworkInterfaces = []ec2types.InstanceNetworkInterface{
					loose,
					card(2, "10.0.9.2", "2001:db8::92", "2001:db8::922"),
					off,
					card(1, "10.0.9.1"),
					card(0, "10.0.0.9", "10.0.9.9", "2001:DB8:0::90"),
				}
			}),
			machine("i-00000000000000010", "010.0.0.10", func(i *ec2types.Instance) { i.PrivateDnsName = nil }),
			machine("i-00000000000000011", "10.0.0.x"),
			machine("i-00000000000000012", "10.0.0.12", func(i *ec2types.Instance) { i.PublicIpAddress = sdk.String("nowhere") }),
			machine("i-00000000000000013", "10.0.0.13", func(i *ec2types.Instance) {
				i.NetworkInterfaces[0].Ipv6Addresses = []ec2types.InstanceIpv6Address{{}}
			}),
			machine("i-00000000000000014", "10.0.0.14", func(i *ec2types.Instance) { i.Placement.AvailabilityZone = sdk.String("us-east-1z") }),
			machine("i-00000000000000015", "10.0.0.15", func(i *ec2types.Instance) { i.Tags = nil }),
			machine("i-00000000000000016", "10.0.0.16", func(i *ec2types.Instance) {
				i.Tags = []ec2types.Tag{{Key: sdk.String("KubernetesCluster"), Value: sdk.String("lab")}}
			}),
			machine("i-00000000000000017", "10.0.0.17"),
			machine("i-00000000000000018", "10.0.0.17"),
			machine("i-00000000000000019", "10.0.0.19", state("terminated")),
			machine("i-0000000000000001a", "10.0.0.19"),
			machine("i-00000000000000020", "10.0.0.20", kind("p4d.24xlarge")),
			machine("i-00000000000000021", "10.0.0.21", kind("g5.xlarge")),
			machine("i-00000000000000022", "10.0.0.22", kind("p5.48xlarge")),
			machine("i-00000000000000023", "10.0.0.23", kind("")),
			machine("i-0000abcd", "10.0.0.24"),
		},
	}
}

// inhabitants are the nodes of the zoo, found in every way that there is.
func inhabitants() []*corev1.Node {
	labelled := node("labelled", "aws:///us-east-1a/i-00000000000000020")
	labelled.Labels = map[string]string{"topology.k8s.aws/zone-id": "mine", "topology.k8s.aws/network-node-layer-1": "mine"}
	nodes := []*corev1.Node{labelled}
	for i := range 0x25 {
		id := fmt.Sprintf("i-%017x", i)
		nodes = append(nodes, node("by-id-"+id, "aws:///us-east-1a/"+id))
	}
	for _, address := range []string{
		"10-0-0-1", "10-0-0-2", "10-0-0-3", "10-0-0-4", "10-0-0-5", "10-0-0-6", "10-0-0-15", "10-0-0-16", "10-0-0-17", "10-0-0-19", "10-0-0-99",
	} {
		nodes = append(nodes, node("ip-"+address+".ec2.internal", ""))
	}
	for name, providerID := range map[string]string{
		"short-id": "aws:////i-0000abcd", "bare-id": "i-00000000000000001", "other-zone": "aws:///us-east-1b/i-00000000000000001",
		"i-00000000000000001": "", "i-00000000000000001.us-east-1.compute.internal": "", "i-00000000000000006": "", "i-0000000000000dead": "", "i-kwok": "",
		"kwok": "aws:///us-east-1a/i-KWOK", "wild": "aws:///us-east-1a/i-*", "foreign": "gce://project/zone/name", "text": "aws:///us-east-1a/worker-1",
		"broken": "aws://%zz", "cached": "", "cached-broken": "", "fargate-ip-10-9-0-1.ec2.internal": "aws:///us-east-1b/fargate-ip-10-9-0-1.ec2.internal",
		"fargate-gone": "aws:///us-east-1b/fargate-10.8.0.1", "fargate-unnamed": "",
	} {
		nodes = append(nodes, node(name, providerID))
	}
	return nodes
}

// TestWhatWeSayOfInstancesIsWhatTheProviderSays asks both about every node over the same account.
func TestWhatWeSayOfInstancesIsWhatTheProviderSays(t *testing.T) {
	for name, config := range map[string]string{
		"IPv4":               away,
		"IPv6":               away + "NodeIPFamilies = ipv6\n",
		"dual stack":         away + "NodeIPFamilies = ipv4\nNodeIPFamilies = ipv6\n",
		"dual stack, turned": away + "NodeIPFamilies = ipv6\nNodeIPFamilies = ipv4\n",
		"other topologies":   away + "SupportedTopologyInstanceTypePattern = ^m5\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := over(t, zoo(), config, node("cached", "aws:///us-east-1a/i-00000000000000001"), node("cached-broken", "aws:///us-east-1a/worker-1"))
			nodes := inhabitants()
			states, err := c.ListInstances(t.Context(), nodes, everything)
			if err != nil {
				t.Fatal(err)
			}
			existing, err := c.ListInstances(t.Context(), nodes, cloud.WantExists|cloud.WantShutdown)
			if err != nil {
				t.Fatal(err)
			}
			compared := 0
			for i, theirs := range askProvider(t, c, nodes) {
				n := nodes[i]
				if strings.HasSuffix(n.Name, "00007") { // its instance has no state, which the provider takes for its end, and we for no answer
					if theirs.exists || theirs.existsErr != nil || existing[i].Err == nil {
						t.Errorf("%s has no state: we say %+v, the provider %v, %v", n.Name, existing[i], theirs.exists, theirs.existsErr)
					}
					continue
				}
				if got := existing[i]; got.Exists != theirs.exists || (got.Err != nil) != (theirs.existsErr != nil) {
					t.Errorf("%s exists: we say %v, %v; the provider %v, %v", n.Name, got.Exists, got.Err, theirs.exists, theirs.existsErr)
				} else if theirs.exists && (got.Shutdown != theirs.shutdown || theirs.shutdownErr != nil) {
					t.Errorf("%s is shut down: we say %v; the provider %v, %v", n.Name, got.Shutdown, theirs.shutdown, theirs.shutdownErr)
				}
				if theirs.existsErr != nil || !theirs.exists {
					if states[i].Exists || states[i].Metadata != nil {
						t.Errorf("%s does not exist, and we describe it: %+v", n.Name, states[i])
					}
					continue
				}
				if (states[i].Err != nil) != (theirs.metadataErr != nil) {
					t.Errorf("%s: we say %v; the provider %v", n.Name, states[i].Err, theirs.metadataErr)
				}
				if diff := cmp.Diff(theirs.metadata, states[i].Metadata); diff != "" {
					t.Errorf("%s (-provider +ours):\n%s", n.Name, diff)
				}
				compared++
			}
			if compared < 30 {
				t.Errorf("only %d descriptions were compared", compared)
			}
		})
	}
}

// said is what the provider says of one node.
type said struct {
	exists, shutdown                    bool
	metadata                            *cloudprovider.InstanceMetadata
	existsErr, shutdownErr, metadataErr error
}

// askProvider asks about all nodes at the same time: each call waits for others to be put together with.
func askProvider(t *testing.T, c *Cloud, nodes []*corev1.Node) []said {
	all := make([]said, len(nodes))
	var asking sync.WaitGroup
	for i, n := range nodes {
		asking.Go(func() {
			s := &all[i]
			s.exists, s.existsErr = c.InstanceExists(t.Context(), n)
			s.shutdown, s.shutdownErr = c.InstanceShutdown(t.Context(), n)
			s.metadata, s.metadataErr = c.InstanceMetadata(t.Context(), n)
		})
	}
	asking.Wait()
	return all
}

func TestAThousandNodesAreOneRequest(t *testing.T) {
	a := &account{}
	var nodes []*corev1.Node
	for i := range 1000 {
		id := fmt.Sprintf("i-%017x", i)
		a.instances = append(a.instances, machine(id, fmt.Sprintf("10.%d.%d.1", i/250, i%250)))
		nodes = append(nodes, node(id, "aws:///us-east-1a/"+id))
	}
	c := over(t, a, away)
	known := 1000 // of the instances that are gone, all are known to be
	ask := func(want cloud.Want) []string {
		t.Helper()
		states, err := c.ListInstances(t.Context(), nodes, want)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range states {
			if unknown := i >= known && i < 50; (s.Err != nil) != unknown || s.Exists != (len(a.instances) == 1000 || i >= 50) {
				t.Fatalf("%s: %+v", nodes[i].Name, s)
			}
		}
		return a.made()
	}
	for _, step := range []struct {
		name   string
		before func()
		want   cloud.Want
		calls  []string
	}{
		{"the first time: zones, and whether the type has topologies", func() {}, everything,
			[]string{"DescribeInstances of 1000", "DescribeAvailabilityZones", "DescribeInstanceTopology of 3"}},
		{"the second time", func() {}, everything, []string{"DescribeInstances of 1000"}},
		{"whether they exist", func() {}, cloud.WantExists, []string{"DescribeInstances of 1000"}},
		{"50 of them are gone", func() { a.instances = a.instances[50:] }, cloud.WantExists, []string{"DescribeInstances of 1000", "DescribeInstances of 950"}},
		{"EC2 does not say which", func() { a.quiet, known = true, lookups }, cloud.WantExists,
			slices.Concat([]string{"DescribeInstances of 1000"}, slices.Repeat([]string{"DescribeInstances by 200 instance-id"}, 5),
				slices.Repeat([]string{"DescribeInstances of 1"}, lookups))},
	} {
		step.before()
		if diff := cmp.Diff(step.calls, ask(step.want)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestAnInstanceThatAnAnswerLeavesOutIsNotGone(t *testing.T) {
	byID := node("by-id", "aws:///us-east-1a/i-00000000000000001")
	byName := node("ip-10-0-0-2.ec2.internal", "")
	other, gone := node("other", "aws:///us-east-1a/i-00000000000000003"), node("gone", "aws:///us-east-1a/i-0000000000000dead")
	terminated, nameless := node("terminated", "aws:///us-east-1a/i-00000000000000004"), node("ip-10-0-9-9.ec2.internal", "")
	nodes := []*corev1.Node{byID, byName, other, gone, terminated, nameless}
	for name, test := range map[string]struct {
		omit    []string
		quiet   bool
		batched bool // only answers about many are not complete
		unknown []*corev1.Node
	}{
		"complete answers":                          {},
		"by ID":                                     {omit: []string{"i-00000000000000001"}, unknown: []*corev1.Node{byID}},
		"by ID, and EC2 names no ID":                {omit: []string{"i-00000000000000001"}, quiet: true, unknown: []*corev1.Node{byID}},
		"by ID, EC2 names no ID, among many":        {omit: []string{"i-00000000000000001"}, quiet: true, batched: true},
		"by name, among many":                       {omit: []string{"i-00000000000000002"}, batched: true},
		"one that is described as terminated still": {omit: []string{"i-00000000000000004"}, unknown: []*corev1.Node{terminated}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &account{quiet: test.quiet, batched: test.batched, omit: test.omit, instances: []ec2types.Instance{
				machine("i-00000000000000001", "10.0.0.1"), machine("i-00000000000000002", "10.0.0.2"), machine("i-00000000000000003", "10.0.0.3"),
				machine("i-00000000000000004", "10.0.0.4", state("terminated")),
			}}
			c := over(t, a, away)
			states, err := c.ListInstances(t.Context(), nodes, cloud.WantExists)
			if err != nil {
				t.Fatal(err)
			}
			for i, n := range nodes {
				switch got := states[i]; {
				case slices.Contains(test.unknown, n):
					if !errors.Is(got.Err, errLeftOut) {
						t.Errorf("%s: %+v, want that nothing is known", n.Name, got)
					}
				case got.Err != nil, got.Exists != (n == byID || n == byName || n == other), got.Terminated != (n == terminated):
					t.Errorf("%s: %+v", n.Name, got)
				}
			}
		})
	}
}

func TestAListOfInstancesIsCheckedBeforeMembersAreTakenOut(t *testing.T) {
	all := []string{"i-00000000000000001", "i-00000000000000002"}
	both := []ec2types.Instance{machine(all[0], "10.0.0.1"), machine(all[1], "10.0.0.2")}
	for name, test := range map[string]struct {
		known, listed []ec2types.Instance
		ids           []string
		want          string
	}{
		"complete":                {both, both, all, ""},
		"one is gone":             {both[:1], both[:1], all, ""},
		"one is left out":         {both, both[:1], all, "EC2's list lacks i-00000000000000002"},
		"all are left out":        {both, nil, all, "EC2's list lacks i-00000000000000001"},
		"all are gone":            {nil, nil, all, "EC2 knows none of the instances of 2 nodes"},
		"the only one is gone":    {nil, nil, all[:1], ""},
		"a cluster without nodes": {both, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := over(t, &account{instances: test.known}, away)
			err := c.checkListing(t.Context(), test.ids, test.listed)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestNodesWithoutProviderIDAreFoundByNameTogether(t *testing.T) {
	a := &account{}
	var nodes []*corev1.Node
	for i := range 300 {
		m := machine(fmt.Sprintf("i-%017x", i), fmt.Sprintf("10.%d.%d.1", i/250, i%250))
		a.instances, nodes = append(a.instances, m), append(nodes, node(*m.PrivateDnsName, ""))
	}
	c := over(t, a, away)
	states, err := c.ListInstances(t.Context(), nodes, cloud.WantExists|cloud.WantMetadata)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range states {
		if want := "aws:///us-east-1a/" + *a.instances[i].InstanceId; s.Err != nil || s.Metadata == nil || s.Metadata.ProviderID != want {
			t.Errorf("%s: %+v, want %s", nodes[i].Name, s, want)
		}
	}
	want := []string{"DescribeInstances by 200 private-dns-name, 5 instance-state-name", "DescribeInstances by 100 private-dns-name, 5 instance-state-name",
		"DescribeAvailabilityZones", "DescribeInstanceTopology of 3"}
	if diff := cmp.Diff(want, a.made()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestTopologiesAreAskedForInBatchesAndErrorsHoldUpOnlyWhoNeedsThem(t *testing.T) {
	a := &account{layers: map[string][]string{}}
	var nodes []*corev1.Node
	for i := range 250 {
		id := fmt.Sprintf("i-%017x", i)
		a.layers[id] = []string{"nn-1", fmt.Sprintf("nn-%d", i)}
		a.instances = append(a.instances, machine(id, fmt.Sprintf("10.0.%d.1", i), kind("g5.xlarge")))
		nodes = append(nodes, node(id, "aws:///us-east-1a/"+id))
	}
	needing := machine("i-0000000000000aaaa", "10.1.1.1", kind("p5.48xlarge"))
	c := over(t, a, away)
	states, err := c.ListInstances(t.Context(), nodes, cloud.WantMetadata)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range states {
		if s.Err != nil || s.Metadata.AdditionalLabels["topology.k8s.aws/network-node-layer-2"] != fmt.Sprintf("nn-%d", i) {
			t.Fatalf("%s: %+v", nodes[i].Name, s)
		}
	}
	want := []string{"DescribeInstances of 250", "DescribeAvailabilityZones", "DescribeInstanceTopology of 3", "DescribeInstanceTopology of 100",
		"DescribeInstanceTopology of 100", "DescribeInstanceTopology of 47"}
	if diff := cmp.Diff(want, a.made()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}

	a.instances, nodes = append(a.instances, needing), append(nodes, node("needing", "aws:///us-east-1a/i-0000000000000aaaa"))
	for _, step := range []struct {
		name     string
		err      error
		heldUp   bool
		requests int
	}{
		{"throttled", refuse("RequestLimitExceeded", "Request limit exceeded."), true, 1},
		{"not allowed", refuse("UnauthorizedOperation", "no"), false, 1},
		{"not asked again for a day", nil, false, 0},
	} {
		a.topology = step.err
		a.made()
		states, err := c.ListInstances(t.Context(), nodes[249:], cloud.WantMetadata)
		if err != nil {
			t.Fatal(err)
		}
		if states[0].Err != nil || (states[1].Err != nil) != step.heldUp {
			t.Errorf("%s: %v, %v", step.name, states[0].Err, states[1].Err)
		}
		if calls := a.made(); len(calls) != 1+step.requests {
			t.Errorf("%s: calls %v", step.name, calls)
		}
	}
}

func TestAnErrorOfTheWholeCallIsReturned(t *testing.T) {
	a := zoo()
	c := over(t, a, away)
	broken := &failing{account: a}
	c.ec2 = broken
	for _, n := range []*corev1.Node{node("a", "aws:///us-east-1a/i-00000000000000001"), node("ip-10-0-0-1.ec2.internal", ""), node("odd", "aws:///us-east-1a/i-odd")} {
		if _, err := c.ListInstances(
			t.Context(),
			[]*corev1.Node{n},
			cloud.WantExists,
		); !errors.Is(err, errDown) ||
			!strings.HasPrefix(err.Error(), "asking EC2 for ") {
			t.Errorf("%s: %v", n.Name, err)
		}
	}
}

func FuzzNodesAndTheirProviderIDs(f *testing.F) {
	for _, seed := range []string{"node aws:///us-east-1a/i-00000000000000001", "ip-10-0-0-1.ec2.internal ", "i-00000000000000001.domain ", "a aws:///z/fargate-10.9.0.1", "b aws://%zz", "c i-*"} {
		name, providerID, _ := strings.Cut(seed, " ")
		f.Add(name, providerID)
	}
	var once sync.Once
	var c *Cloud
	f.Fuzz(func(t *testing.T, name, providerID string) {
		once.Do(func() { c = over(t, zoo(), away) })
		n := node(name, providerID)
		states, err := c.ListInstances(t.Context(), []*corev1.Node{n}, everything)
		if err != nil || len(states) != 1 {
			t.Fatalf("%v, %v", states, err)
		}
		exists, err := c.InstanceExists(t.Context(), n)
		switch got := states[0]; {
		case err != nil && got.Err == nil:
			t.Errorf("we say %+v; the provider %v", got, err)
		case !exists && (got.Exists || got.Metadata != nil):
			t.Errorf("we say %+v; the provider that it does not exist", got)
		case exists && !got.Exists && got.Err == nil:
			t.Errorf("we say that it does not exist; the provider that it does")
		}
	})
}
