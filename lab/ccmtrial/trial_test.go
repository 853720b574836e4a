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
		{Received: at(5), User: "b", Verb: "create", Resource: "events", Namespace: "default", Name: "web-1.17", Code: 201},
		{Received: at(6), User: "a", Verb: "update", Resource: "configmaps", Namespace: "kube-system", Name: "state", Code: 409},
		{Received: at(7), User: "a", Verb: "patch", Resource: "events", Namespace: "default", Name: "node-1.18", Code: 500},
		{Received: at(8), User: "a", Verb: "delete", Resource: "nodes", Name: "node-1", Code: 504},
	}
	want := []act{
		{"a", at(1), false, "patch nodes/status /n (200)", loopNode, false},
		{"b", at(3), true, "EnsureLoadBalancer lb", loopService, false},
		{"b", at(5), false, "create events/ default/web-1.17 (201)", loopService, false},
		{"a", at(6), false, "update configmaps/ kube-system/state (409)", "", true},
		{"a", at(7), false, "patch events/ default/node-1.18 (500)", "", true},
		{"a", at(8), false, "delete nodes/ /node-1 (504)", loopLifecycle, false},
	}
	if diff := cmp.Diff(want, acts(calls, writes), cmp.AllowUnexported(act{})); diff != "" {
		t.Errorf("acts (-want +got):\n%s", diff)
	}
}

func TestATakeoverIsJudgedByTheFirstActOfTheNewLeader(t *testing.T) {
	one, two := act{"a", at(1), true, "x", "", false}, act{"b", at(2), false, "x", "", false}
	three, four := act{"a", at(3), false, "y", "", false}, act{"b", at(4), true, "x", "", false}
	for name, c := range map[string]struct {
		all   []act
		want  takeover
		found bool
	}{
		"an overlap":              {[]act{one, two, three, four}, takeover{first: two, last: three, late: []act{three}}, true},
		"none":                    {[]act{one, two, four}, takeover{first: two, last: one}, true},
		"the new one acts not":    {[]act{one, three}, takeover{last: three}, false},
		"others do not matter":    {[]act{one, {"c", at(2), true, "x", "", false}, four}, takeover{first: four, last: one}, true},
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

func TestActsInPlaceOfAnotherProcessAreLate(t *testing.T) {
	by := func(seconds int, who, loop string, refused bool) act {
		return act{ours + "-" + who, at(seconds), true, "x", loop, refused}
	}
	for name, c := range map[string]struct {
		all     []act
		perLoop bool
		late    []int // seconds
	}{
		"one after the other":      {all: []act{by(1, "a", "", false), by(2, "b", "", false), by(3, "c", "", false)}},
		"the first acts again":     {all: []act{by(1, "a", "", false), by(2, "b", "", false), by(3, "a", "", false), by(4, "b", "", false)}, late: []int{3}},
		"the first of three, last": {all: []act{by(1, "a", "", false), by(2, "b", "", false), by(3, "c", "", false), by(4, "a", "", false)}, late: []int{4}},
		"what changed nothing":     {all: []act{by(1, "a", "", false), by(2, "b", "", false), by(3, "a", "", true)}},
		"the user who changes Services": {all: []act{
			by(1, "a", "", false), {by: "admin", at: at(2)}, by(3, "a", "", false),
		}},
		"loops pass one after the other": {perLoop: true, all: []act{
			by(1, "a", loopNode, false), by(2, "b", loopService, false), by(3, "a", loopNode, false), by(4, "b", loopNode, false),
		}},
		"they do not without leader migration": {all: []act{
			by(1, "a", loopNode, false), by(2, "b", loopService, false), by(3, "a", loopNode, false),
		}, late: []int{3}},
		"a loop is run by two": {perLoop: true, late: []int{3}, all: []act{
			by(1, "a", loopNode, false), by(2, "b", loopNode, false), by(3, "a", loopNode, false), by(4, "a", "", false),
		}},
	} {
		var late []int
		for _, a := range lateActs(c.all, c.perLoop) {
			late = append(late, int(a.at.Sub(start).Seconds()))
		}
		if diff := cmp.Diff(c.late, late); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
