package awssim_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/lab/awssim"
)

func TestTheControlsAreServedApartAndDoWhatTheySay(t *testing.T) {
	sim := start(t, oneInstance())
	admin := httptest.NewServer(sim.AdminHandler())
	defer admin.Close()
	ask := func(method, path, body string) (status int, answer string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, admin.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := admin.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		return got.StatusCode, string(text)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/_sim/state", "", 200, `"rtb-lab"`},
		{"POST", "/_sim/faults", `{"action":"Create*","before":"1ms","times":3}`, 200, `"id": 1`},
		{"POST", "/_sim/faults", `{"rate":{"perSecond":0.5,"burst":2},"mutating":true,"after":"2s"}`, 200, `"id": 2`},
		{"GET", "/_sim/faults", "", 200, `"before": "1ms"`},
		{"POST", "/_sim/faults", `{"action":"Create*"}`, 400, "does nothing"},
		{"POST", "/_sim/faults", `{"befor":"1ms"}`, 400, "befor"},
		{"POST", "/_sim/faults", `{"before":"soon"}`, 400, "soon"},
		{"DELETE", "/_sim/faults/1", "", 200, "true"},
		{"DELETE", "/_sim/faults/1", "", 400, "there is no fault"},
		{"DELETE", "/_sim/faults/2", "", 200, "true"},
		{"POST", "/_sim/instances", `{"privateIP":"10.0.1.11"}`, 200, "ip-10-0-1-11.ec2.internal"},
		{"POST", "/_sim/instances", `{"privateIP":"10.0.1.11"}`, 400, "there is one with this id"},
		{"POST", "/_sim/instances", `{"ip":"10.0.1.11"}`, 400, "ip"},
		{"PUT", "/_sim/instances/" + first + "/state", `{"state":"stopped"}`, 200, "true"},
		{"PUT", "/_sim/instances/" + first + "/state", `{"state":"asleep"}`, 400, "asleep"},
		{"PUT", "/_sim/instances/" + first + "/state", `stopped`, 400, "JSON"},
		{"GET", "/_sim/instances", "", 200, `"stopped"`},
		{"POST", "/_sim/do/ec2/CreateRoute", `{"RouteTableId":"rtb-lab","DestinationCidrBlock":"10.200.0.0/24","InstanceId":"` + first + `"}`, 200, "true"},
		{"POST", "/_sim/do/ec2/DeleteRoute", `{"RouteTableId":"rtb-lab","DestinationCidrBlock":"10.201.0.0/24"}`, 400, "InvalidRoute.NotFound"},
		{"POST", "/_sim/do/ec2/DeleteRoute", `[]`, 400, "JSON"},
		{"DELETE", "/_sim/instances/" + first, "", 200, "true"},
		{"DELETE", "/_sim/instances/" + first, "", 400, "there is no such instance"},
		{"GET", "/_sim/audit?mutating=true&key=" + awssim.LabKey + "&action=CreateRoute,DeleteRoute&since=2026-01-01T00:00:00Z", "", 200, `"InvalidRoute.NotFound"`},
		{"GET", "/_sim/audit?service=elb&until=2026-01-01T00:00:00Z", "", 200, "[]"},
		{"GET", "/_sim/audit?mutating=perhaps", "", 400, "perhaps"},
		{"GET", "/_sim/audit?since=yesterday", "", 400, "yesterday"},
		{"GET", "/_sim/unknown", "", 200, "[]"},
		{"GET", "/_sim/nothing", "", 404, ""},
	} {
		if status, answer := ask(c.method, c.path, c.body); status != c.status || !strings.Contains(answer, c.says) {
			t.Errorf("%s %s %s: %d %s, want %d and %q in it", c.method, c.path, c.body, status, answer, c.status, c.says)
		}
	}
	if got := sim.post(t, testKey, ec2Version, "DescribeVpcs", nil); got.status != http.StatusOK {
		t.Errorf("the API answers %+v", got)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, sim.url()+"/_sim/state", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := sim.transport().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusBadRequest || len(sim.Unknown()) != 1 {
		t.Errorf("the API's own address serves the controls: %s", got.Status)
	}
}

func TestAFaultSurvivesItsJSON(t *testing.T) {
	no := false
	for _, f := range []awssim.Fault{
		{
			Key:         "K*",
			Service:     "ec2",
			Action:      "Create*",
			Mutating:    &no,
			Times:       2,
			Before:      1e6,
			After:       2e9,
			Throttle:    0.5,
			Rate:        &awssim.Rate{PerSecond: 1, Burst: 2},
			Code:        "X",
			Drop:        true,
			AfterEffect: true,
			Hang:        true,
		},
		{Hang: true},
	} {
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var back awssim.Fault
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if again, _ := json.Marshal(back); string(again) != string(text) {
			t.Errorf("%s came back as %s", text, again)
		}
	}
}
