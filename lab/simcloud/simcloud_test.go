package simcloud

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a cloud without latency.
func start(t *testing.T, s Settings) *Cloud {
	t.Helper()
	c, err := Start(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Set(s); err != nil {
		t.Fatal(err)
	}
	return c
}

// send sends a request and returns status and body.
func send(t *testing.T, ctx context.Context, method, url, caller string, body any) (int, []byte, error) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := body.(string); ok {
		data = []byte(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if caller != "" {
		r.Header.Set(api.CallerHeader, caller)
	}
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := web.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, text, err
}

// call makes a call that has to be answered with a code.
func call(t *testing.T, c *Cloud, operation api.Operation, request api.Request, want int) api.Response {
	t.Helper()
	code, text, err := send(t, t.Context(), http.MethodPost, c.URL()+api.PathPrefix+string(operation), "test", request)
	if err != nil {
		t.Fatal(err)
	}
	if code != want {
		t.Errorf("%s %+v: status %d, want %d: %s", operation, request, code, want, text)
	}
	var answer api.Response
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

var two = []api.Instance{
	{Name: "n1", ProviderID: "sim:///1", Type: "small", Addresses: []api.Address{{Type: "InternalIP", Address: "10.0.0.1"}}},
	{Name: "n2", ProviderID: "sim:///2", Shutdown: true},
}

func TestInstancesAreDescribedByIDAndByNameAndGoneOnesAreLeftOut(t *testing.T) {
	c := start(t, Settings{})
	if err := c.Apply(Change{PutInstances: two}); err != nil {
		t.Fatal(err)
	}
	got := call(t, c, api.DescribeInstances, api.Request{IDs: []string{"sim:///2", "sim:///9"}, Names: []string{"n1"}}, 200)
	if diff := cmp.Diff(api.Response{Instances: []api.Instance{two[1], two[0]}}, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if err := c.Apply(Change{RemoveInstances: []string{"n1"}}); err != nil {
		t.Fatal(err)
	}
	if got := call(t, c, api.DescribeInstances, api.Request{IDs: []string{"sim:///1"}}, 200); got.Instances != nil {
		t.Errorf("an instance that is gone is described: %+v", got)
	}
	call(t, c, api.DescribeInstances, api.Request{}, 400)
	call(t, c, api.DescribeInstances, api.Request{Names: make([]string, api.MaxInstances+1)}, 400)
}

func TestALoadBalancersLife(t *testing.T) {
	c := start(t, Settings{})
	lb := api.LoadBalancer{Name: "lb", Service: "default/web", Members: []string{"b", "a"}, Ports: []api.Port{{Protocol: "TCP", Port: 80, NodePort: 30080}}}
	call(t, c, api.UpdateLoadBalancer, api.Request{Name: "lb"}, 404)
	made := call(t, c, api.EnsureLoadBalancer, api.Request{LoadBalancer: &lb}, 200)
	want := lb
	want.Members, want.Ingress.Hostname = []string{"a", "b"}, "lb.lb.sim.example"
	if diff := cmp.Diff(&want, made.LoadBalancer); diff != "" {
		t.Errorf("load balancer (-want +got):\n%s", diff)
	}
	call(t, c, api.EnsureLoadBalancer, api.Request{LoadBalancer: &lb}, 200)                         // nothing changes
	call(t, c, api.UpdateLoadBalancer, api.Request{Name: "lb", Members: []string{"b", "a"}}, 200)   // nothing changes
	call(t, c, api.UpdateLoadBalancer, api.Request{Name: "lb", Members: []string{"a"}}, 200)        // changes
	call(t, c, api.EnsureLoadBalancer, api.Request{LoadBalancer: &api.LoadBalancer{Name: ""}}, 400) // no name
	lb.Ingress = api.Ingress{Kind: api.KindIP, IPMode: "Proxy"}
	moved := call(t, c, api.EnsureLoadBalancer, api.Request{LoadBalancer: &lb}, 200)
	if diff := cmp.Diff(api.Ingress{Kind: api.KindIP, IP: "198.18.0.2", IPMode: "Proxy"}, moved.LoadBalancer.Ingress); diff != "" {
		t.Errorf("ingress (-want +got):\n%s", diff)
	}
	if got := call(t, c, api.GetLoadBalancer, api.Request{Name: "lb"}, 200); !cmp.Equal(got.LoadBalancer, moved.LoadBalancer) {
		t.Errorf("it is %+v, want %+v", got.LoadBalancer, moved.LoadBalancer)
	}
	call(t, c, api.DeleteLoadBalancer, api.Request{Name: "lb"}, 200)
	call(t, c, api.DeleteLoadBalancer, api.Request{Name: "lb"}, 200)
	if got := call(t, c, api.GetLoadBalancer, api.Request{Name: "lb"}, 200); got.LoadBalancer != nil {
		t.Errorf("it is still there: %+v", got.LoadBalancer)
	}
	changed := []api.Operation{}
	for _, call := range c.Calls(Filter{Changed: true}) {
		changed = append(changed, call.Operation)
	}
	if diff := cmp.Diff([]api.Operation{api.EnsureLoadBalancer, api.UpdateLoadBalancer, api.EnsureLoadBalancer, api.DeleteLoadBalancer}, changed); diff != "" {
		t.Errorf("calls that changed something (-want +got):\n%s", diff)
	}
}

func TestRoutesContradictNothingThatIsThere(t *testing.T) {
	c := start(t, Settings{})
	if err := c.Apply(Change{PutInstances: two}); err != nil {
		t.Fatal(err)
	}
	r := api.Route{Name: "r1", CIDR: "10.1.0.0/24", Node: "n1"}
	call(t, c, api.CreateRoute, api.Request{Route: &r}, 200)
	call(t, c, api.CreateRoute, api.Request{Route: &r}, 200)
	call(t, c, api.CreateRoute, api.Request{Route: &api.Route{Name: "r2", CIDR: r.CIDR, Node: "n2"}}, 409)
	call(t, c, api.CreateRoute, api.Request{Route: &api.Route{Name: "r3", CIDR: "10.1.1.0/24", Node: "n3"}}, 404)
	call(t, c, api.CreateRoute, api.Request{Route: &api.Route{CIDR: "10.1.1.0/24"}}, 400)
	if got := call(t, c, api.ListRoutes, api.Request{}, 200); !cmp.Equal(got.Routes, []api.Route{r}) {
		t.Errorf("routes are %+v", got.Routes)
	}
	call(t, c, api.DeleteRoute, api.Request{Name: "r1"}, 200)
	call(t, c, api.DeleteRoute, api.Request{Name: "r1"}, 404)
}

func TestEveryCallIsWrittenDownAndCountsForItsCaller(t *testing.T) {
	c := start(t, Settings{Faults: []Fault{{Operation: api.ListRoutes, Code: 503, Times: 1}}})
	if err := c.Apply(Change{PutInstances: two}); err != nil {
		t.Fatal(err)
	}
	call(t, c, api.DescribeInstances, api.Request{IDs: []string{"sim:///1"}}, 200)
	call(t, c, api.DescribeInstances, api.Request{Names: []string{"n1", "n2"}}, 200)
	call(t, c, api.ListRoutes, api.Request{}, 503)
	call(t, c, api.ListRoutes, api.Request{}, 200)
	call(t, c, api.CreateRoute, api.Request{Route: &api.Route{Name: "r", CIDR: "10.1.0.0/24", Node: "n1"}}, 200)
	call(t, c, api.UpdateLoadBalancer, api.Request{Name: "lb"}, 404)
	want := []Call{
		{Seq: 1, Caller: "test", Operation: api.DescribeInstances, Object: "sim:///1", Count: 1, Outcome: OK},
		{Seq: 2, Caller: "test", Operation: api.DescribeInstances, Count: 2, Outcome: OK},
		{Seq: 3, Caller: "test", Operation: api.ListRoutes, Outcome: Failed},
		{Seq: 4, Caller: "test", Operation: api.ListRoutes, Outcome: OK},
		{Seq: 5, Caller: "test", Operation: api.CreateRoute, Object: "10.1.0.0/24", Mutating: true, Changed: true, Outcome: OK},
		{Seq: 6, Caller: "test", Operation: api.UpdateLoadBalancer, Object: "lb", Mutating: true, Outcome: NotFound},
	}
	got := c.Calls(Filter{})
	if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(time.Time{})); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for _, call := range got {
		if call.Arrived.IsZero() || call.Answered.Before(call.Arrived) {
			t.Errorf("times of %+v", call)
		}
	}
	for name, c := range map[string]struct {
		got  []Call
		want int
	}{
		"after the fourth":    {c.Calls(Filter{After: 4}), 2},
		"of nobody":           {c.Calls(Filter{Callers: []string{"nobody"}}), 0},
		"of two operations":   {c.Calls(Filter{Operations: []api.Operation{api.ListRoutes, api.CreateRoute}}), 3},
		"mutating":            {c.Calls(Filter{Mutating: true}), 2},
		"after those to come": {c.Calls(Filter{After: c.Seq() + 1}), 0},
	} {
		if len(c.got) != c.want {
			t.Errorf("%s: %d calls, want %d", name, len(c.got), c.want)
		}
	}
}

func TestABucketRefusesWhatIsTooMuch(t *testing.T) {
	c := start(t, Settings{Throttles: []Throttle{
		{Operations: []api.Operation{api.ListRoutes}, Rate: 0.001, Burst: 2},
		{Rate: 0.001, Burst: 4},
	}})
	for _, want := range []int{200, 200, 429} { // the third finds the first bucket empty and takes nothing from the second
		call(t, c, api.ListRoutes, api.Request{}, want)
	}
	for _, want := range []int{200, 200, 429} {
		call(t, c, api.GetLoadBalancer, api.Request{Name: "lb"}, want)
	}
	if got := c.Calls(Filter{}); got[2].Outcome != Throttled || got[5].Outcome != Throttled {
		t.Errorf("outcomes are %q and %q", got[2].Outcome, got[5].Outcome)
	}
}

func TestAShareOfTheCallsFailsAndTheSameInEveryRun(t *testing.T) {
	outcomes := func() (failed int, all []int) {
		c := start(t, Settings{Faults: []Fault{{Operation: api.GetLoadBalancer, Object: "a", Rate: 0.3, Code: 500}}})
		for range 100 {
			code, _, err := send(t, t.Context(), http.MethodPost, c.URL()+"/v1/GetLoadBalancer", "test", api.Request{Name: "a"})
			if err != nil {
				t.Fatal(err)
			}
			if code == 500 {
				failed++
			}
			all = append(all, code)
		}
		call(t, c, api.GetLoadBalancer, api.Request{Name: "b"}, 200)
		return failed, all
	}
	failed, first := outcomes()
	if failed < 15 || failed > 45 {
		t.Errorf("%d of 100 calls failed, want about 30", failed)
	}
	if _, second := outcomes(); !cmp.Equal(first, second) {
		t.Error("a second run failed elsewhere")
	}
}

func TestACallTakesEffectAtOnceAndIsAnsweredLater(t *testing.T) {
	c := start(t, Settings{Faults: []Fault{{Operation: api.EnsureLoadBalancer, Latency: Duration(time.Hour)}}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := send(t, ctx, http.MethodPost, c.URL()+"/v1/EnsureLoadBalancer", "test", api.Request{LoadBalancer: &api.LoadBalancer{Name: "lb"}})
		ended <- err
	}()
	calls, err := c.Wait(t.Context(), Filter{}, func(calls []Call) bool { return len(calls) == 1 && calls[0].Outcome == OK })
	if err != nil {
		t.Fatal(err)
	}
	if !calls[0].Answered.IsZero() || len(c.State().LoadBalancers) != 1 {
		t.Errorf("before the answer: %+v, %+v", calls[0], c.State())
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("it was answered")
	}
}

func TestACallThatHangsHasNoEffectAndEndsWithTheFault(t *testing.T) {
	c := start(t, Settings{Faults: []Fault{{Caller: "test", Hang: true}}})
	code := make(chan int, 1)
	go func() {
		status, _, err := send(t, t.Context(), http.MethodPost, c.URL()+"/v1/EnsureLoadBalancer", "test", api.Request{LoadBalancer: &api.LoadBalancer{Name: "lb"}})
		if err != nil {
			t.Error(err)
		}
		code <- status
	}()
	if _, err := c.Wait(t.Context(), Filter{}, func(calls []Call) bool { return len(calls) == 1 }); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(Settings{}); err != nil {
		t.Fatal(err)
	}
	if got := <-code; got != http.StatusGatewayTimeout || c.Calls(Filter{})[0].Outcome != Hung || len(c.State().LoadBalancers) != 0 {
		t.Errorf("answered with %d, %+v", got, c.Calls(Filter{}))
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	c := start(t, Settings{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Wait(ctx, Filter{}, func([]Call) bool { return false }); err == nil {
		t.Error("it waited for nothing and found it")
	}
}

func TestWhatIsNotKnownIsRefusedAndListed(t *testing.T) {
	c := start(t, Settings{})
	for _, r := range []struct{ method, path, caller, body string }{
		{http.MethodPost, "/v1/DestroyEverything", "test", "{}"},
		{http.MethodGet, "/v1/ListRoutes", "test", ""},
		{http.MethodPost, "/v1/ListRoutes", "", "{}"},
		{http.MethodPost, "/v1/GetLoadBalancer", "test", `{"balancer":"lb"}`},
		{http.MethodGet, "/v2", "test", ""},
		{http.MethodGet, "/admin/everything", "test", ""},
	} {
		if code, text, err := send(t, t.Context(), r.method, c.URL()+r.path, r.caller, r.body); err != nil || code != http.StatusNotImplemented {
			t.Errorf("%+v: %d %s %v", r, code, text, err)
		}
	}
	want := []string{
		`POST /v1/DestroyEverything by "test"`, `GET /v1/ListRoutes by "test"`, `POST /v1/ListRoutes by ""`,
		`the request of GetLoadBalancer by "test": json: unknown field "balancer"`, "GET /v2", "GET /admin/everything",
	}
	if diff := cmp.Diff(want, c.Unknown()); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	if calls := c.Calls(Filter{}); len(calls) != 0 {
		t.Errorf("they count as calls: %+v", calls)
	}
}

func TestTheControlsDoOverHTTPWhatTheHarnessDoes(t *testing.T) {
	c := start(t, Settings{})
	settings := Settings{Latency: Duration(time.Millisecond), Throttles: []Throttle{{Rate: 20, Burst: 100}}, Faults: []Fault{{Code: 500, Times: 1}}}
	change := Change{
		PutInstances: two, PutLoadBalancers: []api.LoadBalancer{{Name: "lb"}, {Name: "old"}}, PutRoutes: []api.Route{{Name: "r"}, {Name: "old"}},
	}
	remove := Change{RemoveInstances: []string{"n2"}, RemoveLoadBalancers: []string{"old"}, RemoveRoutes: []string{"old"}}
	for _, r := range []struct {
		method, path string
		body         any
		code         int
		says         string
	}{
		{http.MethodPut, "/admin/settings", settings, 200, "{}"},
		{http.MethodGet, "/admin/settings", nil, 200, `"latency":"1ms"`},
		{http.MethodPost, "/admin/change", change, 200, "{}"},
		{http.MethodPost, "/admin/change", remove, 200, "{}"},
		{http.MethodGet, "/admin/state", nil, 200, `"instances":[{"name":"n1"`},
		{http.MethodPost, "/v1/ListRoutes", api.Request{}, 500, "as it was told to"},
		{http.MethodPost, "/v1/ListRoutes", api.Request{}, 200, `"name":"r"`},
		{http.MethodGet, "/admin/audit?after=1&caller=test&operation=ListRoutes", nil, 200, `[{"seq":2,`},
		{http.MethodGet, "/admin/audit?after=many", nil, 400, "invalid syntax"},
		{http.MethodGet, "/admin/unknown", nil, 200, "[]"},
		{http.MethodPut, "/admin/settings", `{"latency":"soon"}`, 400, "invalid duration"},
		{http.MethodPut, "/admin/settings", `{"latency":50}`, 400, "cannot unmarshal"},
		{http.MethodPut, "/admin/settings", `{"delay":"1s"}`, 400, "unknown field"},
		{http.MethodPost, "/admin/change", Change{PutInstances: []api.Instance{{Name: "x"}}}, 400, "no provider id"},
	} {
		code, text, err := send(t, t.Context(), r.method, c.URL()+r.path, "test", r.body)
		if err != nil || code != r.code || !strings.Contains(string(text), r.says) {
			t.Errorf("%s %s: %d %s %v; want %d and %q", r.method, r.path, code, text, err, r.code, r.says)
		}
	}
	want := State{Instances: two[:1], LoadBalancers: []api.LoadBalancer{{Name: "lb"}}, Routes: []api.Route{{Name: "r"}}}
	if diff := cmp.Diff(want, c.State()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestSettingsThatMakeNoSenseAreRefused(t *testing.T) {
	c := start(t, Settings{})
	err := c.Set(Settings{
		Latency:   -1,
		Throttles: []Throttle{{Operations: []api.Operation{"Wait"}, Rate: 1, Burst: 1}, {Rate: 1}},
		Faults:    []Fault{{Operation: "Wait", Code: 500}, {}, {Code: 200}, {Code: 500, Rate: 2}},
	})
	for _, part := range []string{
		"is negative", `throttles[0]: "Wait"`, "throttles[1]", `faults[0]: "Wait"`, "faults[1]: it does nothing", "faults[2]", "faults[3]",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error is %v, want %q in it", err, part)
		}
	}
	err = c.Apply(Change{PutInstances: []api.Instance{{}}, PutLoadBalancers: []api.LoadBalancer{{}}, PutRoutes: []api.Route{{}}})
	for _, part := range []string{"instance 0", "load balancer 0", "route 0"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error is %v, want %q in it", err, part)
		}
	}
	for _, address := range []string{"0.0.0.0:0", "localhost:0", "127.0.0.1", c.URL()[len("http://"):]} {
		if other, err := Start(t.Context(), address); err == nil {
			other.Close()
			t.Errorf("it listens on %q", address)
		}
	}
	if got := c.Settings(); !cmp.Equal(got, Settings{}) {
		t.Errorf("settings are %+v after they were refused", got)
	}
}
