package ccmtrial

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/simcloud"
	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func TestActsAreWhatLoopsChange(t *testing.T) {
	calls := []simcloud.Call{
		{Arrived: at(3), Caller: "b", Operation: api.EnsureLoadBalancer, Object: "lb", Mutating: true},
		{Arrived: at(4), Caller: "b", Operation: api.GetLoadBalancer, Object: "lb"},
	}
	writes := []apiserver.Write{
		{Received: at(1), User: "a", Verb: "patch", Resource: "nodes", Subresource: "status", Name: "n", Code: 200},
		{Received: at(2), User: "a", Verb: "update", Resource: "leases", Name: mainLease},
		{Received: at(2), User: "a", Verb: "create", Resource: "events", Namespace: "kube-system", Name: mainLease + ".17"},
		{Received: at(2), User: "a", Verb: "create", Resource: "events", Namespace: "kube-system", Name: migrationLease + ".17"},
		{Received: at(2), User: "a", Verb: "create", Resource: "subjectaccessreviews"},
		{Received: at(5), User: "b", Verb: "create", Resource: "events", Namespace: "default", Name: "web.17", Code: 201},
		{Received: at(6), User: "a", Verb: "update", Resource: "configmaps", Namespace: "kube-system", Name: "state", Code: 409},
		{Received: at(7), User: "a", Verb: "patch", Resource: "events", Namespace: "default", Name: "web.18", Code: 500},
		{Received: at(8), User: "a", Verb: "patch", Resource: "events", Namespace: "default", Name: "web.19", Code: 504},
	}
	want := []act{
		{"a", at(1), false, "patch nodes/status /n (200)", false},
		{"b", at(3), true, "EnsureLoadBalancer lb", false},
		{"b", at(5), false, "create events/ default/web.17 (201)", false},
		{"a", at(6), false, "update configmaps/ kube-system/state (409)", true},
		{"a", at(7), false, "patch events/ default/web.18 (500)", true},
		{"a", at(8), false, "patch events/ default/web.19 (504)", false},
	}
	if diff := cmp.Diff(want, acts(calls, writes), cmp.AllowUnexported(act{})); diff != "" {
		t.Errorf("acts (-want +got):\n%s", diff)
	}
}

func TestATakeoverIsJudgedByTheFirstActOfTheNewLeader(t *testing.T) {
	one, two := act{"a", at(1), true, "x", false}, act{"b", at(2), false, "x", false}
	three, four := act{"a", at(3), false, "y", false}, act{"b", at(4), true, "x", false}
	for name, c := range map[string]struct {
		all   []act
		want  takeover
		found bool
	}{
		"an overlap":              {[]act{one, two, three, four}, takeover{first: two, last: three, late: []act{three}}, true},
		"none":                    {[]act{one, two, four}, takeover{first: two, last: one}, true},
		"the new one acts not":    {[]act{one, three}, takeover{last: three}, false},
		"others do not matter":    {[]act{one, {"c", at(2), true, "x", false}, four}, takeover{first: four, last: one}, true},
		"the old one never acted": {[]act{four}, takeover{first: four}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, found := takeOver(c.all, "a", "b")
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(act{}, takeover{})); diff != "" || found != c.found {
				t.Errorf("takeover, found %v (-want +got):\n%s", found, diff)
			}
		})
	}
}

func TestADistributionNamesItsLargestValues(t *testing.T) {
	var d distribution
	for i := range 100 {
		d = append(d, time.Duration(100-i)*time.Second)
	}
	if got, want := d.String(), "n 100, p50 51s, p99 1m40s, max 1m40s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (distribution{}).String(); got != "n 0, p50 0s, p99 0s, max 0s" {
		t.Errorf("of nothing: %q", got)
	}
}
