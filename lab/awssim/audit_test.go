package awssim_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/awssim/ec2"
)

type ec2Route = ec2.Route

func TestTheAuditLogSaysWhoDidWhatWhen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls.jsonl")
	o := oneInstance()
	clock := clocktesting.NewFakeClock(born)
	o.Clock, o.AuditFile = clock, file
	sim := start(t, o)
	sim.post(t, "AKIALABCP1KCM", ec2Version, "CreateRoute", route)
	clock.Step(time.Second)
	sim.post(t, "AKIALABCP2CCM", ec2Version, "CreateRoute", route)
	sim.post(t, "AKIALABCP2CCM", ec2Version, "DescribeInstances", map[string]string{"InstanceId.1": first, "InstanceId.2": first})
	sim.post(t, "AKIALABCP2CCM", ec2Version, "CreateSecurityGroup", map[string]string{"GroupName": "a", "GroupDescription": "<b>", "VpcId": "vpc-lab"})
	if err := sim.DeleteRoute("10.200.0.0/24"); err != nil {
		t.Fatal(err)
	}
	if err := sim.SetInstanceState(first, "terminated"); err != nil {
		t.Fatal(err)
	}

	later := born.Add(time.Second)
	want := []v1alpha1.CloudCall{
		{Seq: 1, Key: "AKIALABCP1KCM", Service: "ec2", Action: "CreateRoute", Mutating: true, Params: route,
			Resources: []string{first, "route/10.200.0.0/24", "rtb-lab"}, Arrived: born, Effect: &born},
		{Seq: 2, Key: "AKIALABCP2CCM", Service: "ec2", Action: "CreateRoute", Mutating: true, Params: route,
			Resources: []string{first, "route/10.200.0.0/24", "rtb-lab"}, Arrived: later, Error: "RouteAlreadyExists"},
		{Seq: 3, Key: "AKIALABCP2CCM", Service: "ec2", Action: "DescribeInstances", Params: map[string]string{"InstanceId.1": first, "InstanceId.2": first},
			Resources: []string{first}, Arrived: later, Effect: &later},
		{Seq: 4, Key: "AKIALABCP2CCM", Service: "ec2", Action: "CreateSecurityGroup", Mutating: true,
			Params:    map[string]string{"GroupName": "a", "GroupDescription": "<b>", "VpcId": "vpc-lab"},
			Resources: []string{"sg-0000000000abc0001"}, Arrived: later, Effect: &later},
		{
			Seq:       5,
			Key:       awssim.LabKey,
			Service:   "ec2",
			Action:    "DeleteRoute",
			Mutating:  true,
			Params:    map[string]string{"RouteTableId": "rtb-lab", "DestinationCidrBlock": "10.200.0.0/24"},
			Resources: []string{"route/10.200.0.0/24", "rtb-lab"},
			Arrived:   later,
			Effect:    &later,
		},
		{
			Seq:       6,
			Key:       awssim.LabKey,
			Service:   "lab",
			Action:    "SetInstanceState",
			Mutating:  true,
			Params:    map[string]string{"InstanceId": first, "State": "terminated"},
			Resources: []string{first},
			Arrived:   later,
			Effect:    &later,
		},
	}
	if diff := cmp.Diff(want, sim.Audit().Calls(awssim.Filter{})); diff != "" {
		t.Errorf("in memory (-want +got):\n%s", diff)
	}
	if err := sim.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, readLog(t, file)); diff != "" {
		t.Errorf("on disk (-want +got):\n%s", diff)
	}
}

func readLog(t *testing.T, file string) []v1alpha1.CloudCall {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []v1alpha1.CloudCall
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c v1alpha1.CloudCall
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

func TestTheAuditLogCanBeQueried(t *testing.T) {
	clock := clocktesting.NewFakeClock(born)
	o := oneInstance()
	o.Clock = clock
	sim := start(t, o)
	sim.post(t, "K1", ec2Version, "CreateRoute", route)
	clock.Step(time.Second)
	sim.post(t, "K2", ec2Version, "DescribeVpcs", nil)
	clock.Step(time.Second)
	sim.post(t, "K2", versions["elb"], "DescribeLoadBalancers", nil)
	yes, no := true, false
	for name, c := range map[string]struct {
		filter awssim.Filter
		want   []int64
	}{
		"everything":            {awssim.Filter{}, []int64{1, 2, 3}},
		"by key":                {awssim.Filter{Keys: []string{"K2", "K3"}}, []int64{2, 3}},
		"by action":             {awssim.Filter{Actions: []string{"DescribeVpcs", "CreateRoute"}}, []int64{1, 2}},
		"by service":            {awssim.Filter{Services: []string{"elb"}}, []int64{3}},
		"changes":               {awssim.Filter{Mutating: &yes}, []int64{1}},
		"reads":                 {awssim.Filter{Mutating: &no}, []int64{2, 3}},
		"since, itself too":     {awssim.Filter{Since: born.Add(time.Second)}, []int64{2, 3}},
		"until, itself not":     {awssim.Filter{Until: born.Add(2 * time.Second)}, []int64{1, 2}},
		"nothing fits them all": {awssim.Filter{Keys: []string{"K1"}, Mutating: &no}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int64
			for _, call := range sim.Audit().Calls(c.filter) {
				got = append(got, call.Seq)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEffectsAreInTheOrderOfTheirTimesAndEveryCallHasALine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls.jsonl")
	o := oneInstance()
	o.AuditFile = file
	sim := start(t, o)
	remove := sim.Inject(awssim.Fault{Action: "CreateRoute", Before: time.Millisecond})
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 20 {
				sim.post(t, testKey, ec2Version, "CreateRoute", route)
				sim.post(t, testKey, ec2Version, "DeleteRoute", route)
				sim.State()
			}
		})
	}
	clients.Wait()
	remove()
	if err := sim.Close(); err != nil {
		t.Fatal(err)
	}
	calls := readLog(t, file)
	if len(calls) != 8*20*2 {
		t.Errorf("%d lines for %d calls", len(calls), 8*20*2)
	}
	seen := map[int64]bool{}
	var effects []v1alpha1.CloudCall
	for _, c := range calls {
		seen[c.Seq] = true
		if c.Effect != nil {
			effects = append(effects, c)
		}
	}
	if len(seen) != len(calls) {
		t.Errorf("%d numbers for %d lines", len(seen), len(calls))
	}
	slices.SortFunc(effects, func(x, y v1alpha1.CloudCall) int { return x.Effect.Compare(*y.Effect) })
	for i, c := range effects {
		if want := []string{"CreateRoute", "DeleteRoute"}[i%2]; c.Action != want {
			t.Fatalf("effect %d is %s, want %s: a route can only come and go in turn", i, c.Action, want)
		}
	}
	if (len(effects)%2 == 1) != hasRoute(sim) {
		t.Errorf("after %d effects a route is there: %v", len(effects), hasRoute(sim))
	}
}

func TestALogThatCannotBeWrittenIsAnErrorButNoHindrance(t *testing.T) {
	o := oneInstance()
	o.AuditFile = "/dev/full"
	sim, err := awssim.New(o)
	if err != nil {
		t.Skip(err)
	}
	if err := sim.Do("ec2", "CreateRoute", route); err != nil {
		t.Error(err)
	}
	if err := sim.Close(); err == nil {
		t.Error("closing reports nothing")
	}
	o.AuditFile = filepath.Join(t.TempDir(), "none", "calls.jsonl")
	if _, err := awssim.New(o); err == nil {
		t.Error("a log in a directory that is not there was opened")
	}
}
