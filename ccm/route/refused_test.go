package route

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// TestANodeThatTakesAnothersRangeGetsNoRoute: a kubelet that registers its Node chooses its podCIDRs, and the more
// specific route gets the packets.
func TestANodeThatTakesAnothersRangeGetsNoRoute(t *testing.T) {
	at := func(n *corev1.Node, second int64) *corev1.Node {
		n.CreationTimestamp = metav1.NewTime(time.Unix(second, 0))
		return n
	}
	victim := func() *corev1.Node { return at(node("victim", "10.0.1.1", "10.120.1.0/24"), 1000) }
	kept := map[string]string{"10.120.1.0/24": "victim 10.0.1.1"}
	const overlaps = "it overlaps podCIDR 10.120.1.0/24 of the older Node victim: delete the Node that is not to have it"
	const beyond = "it reaches beyond --cluster-cidr"
	for name, c := range map[string]struct {
		cidr   string
		second int64
		routes []*cloudprovider.Route
		want   string
		table  map[string]string
	}{
		"half of it":                {cidr: "10.120.1.128/25", second: 1001, want: overlaps, table: kept},
		"half of it, of one second": {cidr: "10.120.1.128/25", second: 1000, want: overlaps, table: kept},
		"the same":                  {cidr: "10.120.1.0/24", second: 1001, want: overlaps, table: kept},
		"more than it":              {cidr: "10.120.0.0/23", second: 1001, want: overlaps, table: kept},
		"it has the route":          {cidr: "10.120.1.128/25", second: 1001, want: overlaps, table: kept, routes: []*cloudprovider.Route{to("x", "10.120.1.128/25", "10.0.2.1")}},
		"another range":             {cidr: "10.0.0.0/28", second: 1, table: map[string]string{"10.120.1.0/24": "victim 10.0.1.1", "10.0.0.0/28": "x 10.0.2.1"}},
		"all of the cluster": {
			cidr: "10.120.0.0/16", second: 1, table: kept, want: "it is a whole range of --cluster-cidr, of which Node victim has a part: delete the Node that has the whole",
		},
		"more than the cluster":      {cidr: "10.120.0.0/15", second: 1, want: beyond, table: kept},
		"everything":                 {cidr: "0.0.0.0/0", second: 1, want: beyond, table: kept},
		"its neighbour is no danger": {cidr: "10.120.2.0/24", second: 1001, table: map[string]string{"10.120.1.0/24": "victim 10.0.1.1", "10.120.2.0/24": "x 10.0.2.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSky(append(c.routes, to("victim", "10.120.1.0/24", "10.0.1.1"))...)
			inWorld(t, s, []*corev1.Node{victim(), at(node("x", "10.0.2.1", c.cidr), c.second)}, func(w *world) {
				w.pass(time.Minute)
				conditions, events := map[string]string{"victim": routed, "x": routed}, []string(nil)
				if c.want != "" {
					conditions["x"] = unrouted
					events = []string{"route_controller Warning FailedToCreateRoute v1 uid-x: Could not create route uid-x " + c.cidr + " for node x: " + c.want}
				}
				if diff := cmp.Diff(c.table, s.table()); diff != "" {
					t.Errorf("routes (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(conditions, w.conditions()); diff != "" {
					t.Errorf("conditions (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(events, w.events()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				if c.want != overlaps {
					return
				}
				w.remove("victim")
				w.pass(time.Minute)
				if diff := cmp.Diff(map[string]string{c.cidr: "x 10.0.2.1"}, s.table()); diff != "" {
					t.Errorf("routes without the older Node (-want +got):\n%s", diff)
				}
			})
		})
	}
}
