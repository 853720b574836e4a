package awssim_test

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/awssim"
)

const ec2Version = "2016-11-15"

var route = map[string]string{"RouteTableId": "rtb-lab", "DestinationCidrBlock": "10.200.0.0/24", "InstanceId": first}

func oneInstance() awssim.Options {
	return awssim.Options{Instances: []awssim.Instance{{PrivateIP: "10.0.0.11"}}}
}

// waitFor blocks until the calls of an action satisfy a condition, or fails the test after a while.
func waitFor(t *testing.T, sim *simulation, action string, enough func([]v1alpha1.CloudCall) bool) []v1alpha1.CloudCall {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	calls, err := sim.Audit().Wait(ctx, awssim.Filter{Actions: []string{action}}, enough)
	if err != nil {
		t.Fatalf("%v; the calls are %+v", err, calls)
	}
	return calls
}

func arrived(calls []v1alpha1.CloudCall) bool { return len(calls) > 0 }
func finished(calls []v1alpha1.CloudCall) bool {
	return len(calls) > 0 && (calls[0].Effect != nil || calls[0].Error != "")
}

// sendAndLeave makes a call whose client goes away as soon as the call has arrived, and returns the error that the client saw.
func sendAndLeave(t *testing.T, sim *simulation, params map[string]string) error {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	form := "Action=CreateRoute&Version=" + ec2Version
	for k, v := range params {
		form += "&" + k + "=" + v
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, sim.url(), strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan error, 1)
	go func() {
		answer, err := sim.transport().Do(r)
		if err == nil {
			answer.Body.Close()
		}
		left <- err
	}()
	waitFor(t, sim, "CreateRoute", arrived)
	leave()
	return <-left
}

func hasRoute(sim *simulation) bool {
	return slices.ContainsFunc(sim.State().EC2.RouteTables["rtb-lab"].Routes, func(r ec2Route) bool { return r.CIDR == "10.200.0.0/24" })
}

func TestACallLandsLateAlthoughItsClientIsGone(t *testing.T) {
	clock := clocktesting.NewFakeClock(born)
	o := oneInstance()
	o.Clock = clock
	sim := start(t, o)
	const latency = 30 * time.Second
	sim.Inject(awssim.Fault{Action: "CreateRoute", Before: latency})
	if err := sendAndLeave(t, sim, route); err == nil {
		t.Fatal("the client got an answer")
	}
	for !clock.HasWaiters() {
		runtime.Gosched()
	}
	if c := sim.Audit().Calls(awssim.Filter{})[0]; hasRoute(sim) || finished([]v1alpha1.CloudCall{c}) {
		t.Errorf("the route is there, or the call ended, before the latency has passed: %+v", c)
	}
	clock.Step(latency)
	c := waitFor(t, sim, "CreateRoute", finished)[0]
	if c.Error != "" || c.Effect == nil || c.Effect.Sub(c.Arrived) != latency {
		t.Errorf("the late call is recorded as %+v", c)
	}
	if !hasRoute(sim) {
		t.Error("the route never came")
	}
}

func TestLatencyAfterTheEffectDelaysOnlyTheAnswer(t *testing.T) {
	sim := start(t, oneInstance())
	sim.Inject(awssim.Fault{Action: "CreateRoute", After: time.Hour})
	_ = sendAndLeave(t, sim, route)
	c := waitFor(t, sim, "CreateRoute", finished)[0]
	if c.Effect == nil || c.Error != "" || !hasRoute(sim) {
		t.Errorf("the call is recorded as %+v", c)
	}
}

func TestAHangingCallGoesOnWhenTheFaultIsRemoved(t *testing.T) {
	sim := start(t, oneInstance())
	remove := sim.Inject(awssim.Fault{Action: "CreateRoute", Hang: true})
	answer := make(chan reply, 1)
	go func() { answer <- sim.post(t, testKey, ec2Version, "CreateRoute", route) }()
	c := waitFor(t, sim, "CreateRoute", arrived)[0]
	if c.Effect != nil || hasRoute(sim) {
		t.Errorf("the hanging call had an effect: %+v", c)
	}
	remove()
	remove()
	if got := <-answer; got.status != http.StatusOK || !hasRoute(sim) {
		t.Errorf("answered %+v, route there: %v", got, hasRoute(sim))
	}
}

func TestAHangingCallNeverHappensWhenItsClientLeaves(t *testing.T) {
	sim := start(t, oneInstance())
	sim.Inject(awssim.Fault{Action: "CreateRoute", Hang: true})
	_ = sendAndLeave(t, sim, route)
	c := waitFor(t, sim, "CreateRoute", finished)[0]
	if c.Effect != nil || c.Error != awssim.ClientGone || hasRoute(sim) {
		t.Errorf("the abandoned call is recorded as %+v", c)
	}
}

func TestClosingTheServerEndsWaitingCallsWithoutEffect(t *testing.T) {
	for name, fault := range map[string]awssim.Fault{"hanging": {Hang: true}, "delayed": {Before: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			sim := start(t, oneInstance())
			sim.Inject(fault)
			answer := make(chan reply, 1)
			go func() { answer <- sim.post(t, testKey, ec2Version, "CreateRoute", route) }()
			waitFor(t, sim, "CreateRoute", arrived)
			if err := sim.Close(); err != nil {
				t.Error(err)
			}
			c := sim.Audit().Calls(awssim.Filter{})[0]
			if c.Error != awssim.ServerClosed || c.Effect != nil || hasRoute(sim) {
				t.Errorf("the call is recorded as %+v", c)
			}
			if got := <-answer; got.status != 0 {
				t.Errorf("the client got %+v", got)
			}
			if got := sim.post(t, testKey, ec2Version, "DescribeVpcs", nil); got.status != http.StatusServiceUnavailable {
				t.Errorf("after closing: %+v", got)
			}
		})
	}
}

func TestFaultsSpoilAnswersWithAndWithoutEffect(t *testing.T) {
	no := false
	for name, c := range map[string]struct {
		fault  awssim.Fault
		status int
		code   string // the audit log's
		effect bool
	}{
		"an error":                     {awssim.Fault{Code: "InternalError"}, 500, "InternalError", false},
		"an error after the effect":    {awssim.Fault{Code: "InternalError", AfterEffect: true}, 500, "InternalError", true},
		"ELB's code for throttling":    {awssim.Fault{Code: "Throttling"}, 400, "Throttling", false},
		"a throttle":                   {awssim.Fault{Throttle: 1}, 503, "RequestLimitExceeded", false},
		"a throttle that spares":       {awssim.Fault{Throttle: 0.4}, 200, "", true},
		"a cut connection":             {awssim.Fault{Drop: true}, 0, awssim.ConnectionDropped, false},
		"a cut after the effect":       {awssim.Fault{Drop: true, AfterEffect: true}, 0, awssim.ConnectionDropped, true},
		"another action's fault":       {awssim.Fault{Action: "Delete*", Drop: true}, 200, "", true},
		"another key's fault":          {awssim.Fault{Key: "AKIALABCP?KCM", Drop: true}, 200, "", true},
		"another service's fault":      {awssim.Fault{Service: "elb*", Drop: true}, 200, "", true},
		"a fault of reads":             {awssim.Fault{Mutating: &no, Drop: true}, 200, "", true},
		"a fault by key and action":    {awssim.Fault{Key: "AKIALAB*", Service: "ec2", Action: "Create*", Drop: true}, 0, awssim.ConnectionDropped, false},
		"an empty bucket":              {awssim.Fault{Rate: &awssim.Rate{}}, 503, "RequestLimitExceeded", false},
		"a bucket with tokens":         {awssim.Fault{Rate: &awssim.Rate{PerSecond: 1, Burst: 1}}, 200, "", true},
		"latency on top of a throttle": {awssim.Fault{Before: time.Millisecond, Throttle: 1}, 503, "RequestLimitExceeded", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := oneInstance()
			o.Random = func() float64 { return 0.5 }
			sim := start(t, o)
			sim.Inject(c.fault)
			got := sim.post(t, testKey, ec2Version, "CreateRoute", route)
			if got.status != c.status {
				t.Errorf("answered %+v, want status %d", got, c.status)
			}
			record := sim.Audit().Calls(awssim.Filter{})[0]
			if record.Error != c.code || (record.Effect != nil) != c.effect || hasRoute(sim) != c.effect {
				t.Errorf("recorded as %+v, route there: %v", record, hasRoute(sim))
			}
		})
	}
}

func TestAGuardRefusesBeforeAFaultSpoilsTheAnswer(t *testing.T) {
	sim := start(t, oneInstance())
	sim.Inject(awssim.Fault{Code: "InternalError", AfterEffect: true})
	if got := sim.post(
		t,
		testKey,
		ec2Version,
		"DeleteRoute",
		map[string]string{"RouteTableId": "rtb-lab", "DestinationCidrBlock": "10.9.0.0/24"},
	); got.code != "InvalidRoute.NotFound" {
		t.Errorf("answered %+v", got)
	}
}

func TestBothSDKsSeeThrottlingAndServerErrorsAsSuch(t *testing.T) {
	sim := start(t, oneInstance())
	for _, code := range []string{"RequestLimitExceeded", "InternalError"} {
		remove := sim.Inject(awssim.Fault{Code: code})
		for sdk, c := range map[string]client{"sdk-v1": newV1(t, sim), "sdk-v2": newV2(t, sim)} {
			for service, action := range map[string]string{"ec2": "DescribeInstances", "elb": "DescribeLoadBalancers", "elbv2": "DescribeLoadBalancers"} {
				if _, got, err := c.call(service, action, `{}`); got != code {
					t.Errorf("%s: %s %s answers %q (%v), want %q", sdk, service, action, got, err, code)
				}
			}
		}
		remove()
	}
}

func TestAFaultIsSpentAfterItsTimes(t *testing.T) {
	sim := start(t, oneInstance())
	remove := sim.Inject(awssim.Fault{Action: "DescribeVpcs", Code: "InternalError", Times: 2})
	var got []int
	for range 3 {
		got = append(got, sim.post(t, testKey, ec2Version, "DescribeVpcs", nil).status)
	}
	if !slices.Equal(got, []int{500, 500, 200}) {
		t.Errorf("answered %v", got)
	}
	if diff := cmp.Diff(map[int]int{1: 2}, hits(sim)); diff != "" {
		t.Errorf("hits by fault (-want +got):\n%s", diff)
	}
	remove()
	if len(sim.Faults()) != 0 {
		t.Errorf("left after removal: %v", sim.Faults())
	}
}

func hits(sim *simulation) map[int]int {
	out := map[int]int{}
	for id, f := range sim.Faults() {
		out[id] = f.Hits
	}
	return out
}

func TestATokenBucketThrottlesAboveItsRate(t *testing.T) {
	clock := clocktesting.NewFakeClock(born)
	o := oneInstance()
	o.Clock = clock
	sim := start(t, o)
	sim.Inject(awssim.Fault{Rate: &awssim.Rate{PerSecond: 2, Burst: 3}})
	burst := func(n int) (passed int) {
		for range n {
			if sim.post(t, testKey, ec2Version, "DescribeVpcs", nil).status == http.StatusOK {
				passed++
			}
		}
		return passed
	}
	if n := burst(5); n != 3 {
		t.Errorf("%d calls passed at once, want the burst of 3", n)
	}
	clock.Step(time.Second)
	if n := burst(5); n != 2 {
		t.Errorf("%d calls passed after a second, want 2", n)
	}
	clock.Step(time.Hour)
	if n := burst(5); n != 3 {
		t.Errorf("%d calls passed after an hour, want the burst of 3", n)
	}
}

func TestAFaultThatCannotBeMeantPanics(t *testing.T) {
	server, err := awssim.New(awssim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for name, f := range map[string]awssim.Fault{
		"nothing":                    {},
		"a bad pattern":              {Action: "[", Drop: true},
		"a probability above one":    {Throttle: 1.5},
		"a negative latency":         {Before: -1},
		"a negative rate":            {Rate: &awssim.Rate{PerSecond: -1}},
		"after the effect, but what": {AfterEffect: true, Before: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("was accepted")
				}
			}()
			server.Inject(f)
		})
	}
}
