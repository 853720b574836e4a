package loadbalancer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/provider/openstack/cloudconf"
)

func read(t *testing.T, more ...string) *cloudconf.Config {
	t.Helper()
	conf, _, err := cloudconf.Read([]byte("[Global]\nauth-url=http://localhost/\n" + strings.Join(more, "\n") + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return conf
}

func random(r *rand.Rand) *corev1.Service {
	pick := func(values ...string) string { return values[r.IntN(len(values))] }
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "0-1", Annotations: map[string]string{}}}
	for i := range 1 + r.IntN(4) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
			Port: int32(80 + i), Protocol: corev1.Protocol(pick("TCP", "UDP", "SCTP")), NodePort: int32(30000 + r.IntN(3)),
		})
	}
	s.Spec.SessionAffinity = corev1.ServiceAffinity(pick("None", "ClientIP"))
	if r.IntN(2) == 0 {
		s.Spec.LoadBalancerSourceRanges = []string{pick("10.0.0.0/8", "192.0.2.0/24", "0.0.0.0/0")}
	}
	if r.IntN(2) == 0 {
		s.Annotations[prefix+"enable-health-monitor"] = "true"
		s.Annotations[prefix+"health-monitor-delay"] = pick("3", "4")
	}
	if r.IntN(3) == 0 {
		s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 32000
	}
	if r.IntN(3) == 0 {
		for i := range s.Spec.Ports {
			s.Spec.Ports[i].Protocol = corev1.ProtocolTCP
		}
		s.Annotations[prefix+pick("proxy-protocol", "x-forwarded-for")] = "true"
	}
	return s
}

func randomTree(t *testing.T, r *rand.Rand, f features) *tree {
	t.Helper()
	s, err := newSettings(read(t), "lab", random(r))
	if err != nil {
		t.Fatal(err)
	}
	var nodes []target
	for i := range 1 + r.IntN(3) {
		nodes = append(nodes, target{name: fmt.Sprintf("n-%d", i), address: fmt.Sprintf("10.0.0.%d", i+r.IntN(2))})
	}
	nodes = slices.CompactFunc(nodes, func(a, b target) bool { return a.address == b.address })
	return wanted(s, s.name, "", false, nodes, f)
}

// From whatever tree there is, the changes lead to the one that is wanted, and then there are none. No request repeats.
func TestChangesLeadToWhatIsWanted(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		f := features{minor: latest, serial: r.IntN(4) == 0}
		want, have := randomTree(t, r, f), &tree{id: "lb"}
		number := 0
		for _, goal := range []*tree{randomTree(t, r, f), want} {
			for round := 0; ; round++ {
				changes, err := diff(goal, have, scope{tag: "kube_service_lab_default_web", owner: true}, f)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if len(changes) == 0 {
					break
				}
				if round > 100 {
					t.Fatalf("seed %d: the changes do not end: %v", seed, changes)
				}
				number++
				changes[0].apply(fmt.Sprintf("id-%d", number))
				if twice := doubled(have); twice != "" {
					t.Fatalf("seed %d: two listeners have %s after %s", seed, twice, changes[0])
				}
			}
		}
		if len(have.listeners) != len(want.listeners) {
			t.Fatalf("seed %d: %d listeners, want %d", seed, len(have.listeners), len(want.listeners))
		}
	}
}

const latest = 26

// doubled is a port that two listeners have, which Octavia refuses.
func doubled(t *tree) string {
	seen := map[string]bool{}
	for _, l := range t.listeners {
		if seen[l.transport()] {
			return l.transport()
		}
		seen[l.transport()] = true
	}
	return ""
}

func TestAListenerOfAnotherServiceIsNotTouched(t *testing.T) {
	f := features{minor: latest}
	r := rand.New(rand.NewPCG(1, 1))
	want := randomTree(t, r, f)
	other := &listener{id: "other", protocol: "TCP", port: 25, tags: []string{"kube_service_lab_default_mail"}, pool: &pool{id: "p"}}
	byHand := &listener{id: "hand", protocol: "TCP", port: 26, tags: []string{"ours"}}
	for _, owner := range []bool{true, false} {
		changes, err := diff(want, &tree{id: "lb", listeners: []*listener{other, byHand}}, scope{tag: "kube_service_lab_default_web", owner: owner}, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			if strings.Contains(c.path, "other") || strings.Contains(c.path, "hand") && !owner {
				t.Errorf("owner %v: %s", owner, c)
			}
		}
	}
	want.listeners[0].port, want.listeners[0].protocol = 25, "HTTP" // the transport is the same
	if _, err := diff(want, &tree{listeners: []*listener{other}}, scope{owner: true}, f); err == nil || !strings.Contains(err.Error(), "port 25 is used by another") {
		t.Errorf("the error is %v", err)
	}
}

func TestRangesThatLetEveryonePassAreNone(t *testing.T) {
	for _, test := range []struct{ in, want []string }{
		{nil, nil},
		{[]string{"0.0.0.0/0"}, nil},
		{[]string{"::/0"}, nil},
		{[]string{"::/0", "0.0.0.0/0"}, nil},
		{[]string{"192.0.2.0/24", "10.0.0.0/8", "10.0.0.0/8"}, []string{"10.0.0.0/8", "192.0.2.0/24"}},
		{[]string{"0.0.0.0/0", "2001:db8::/32"}, []string{"0.0.0.0/0", "2001:db8::/32"}},
	} {
		if got := normalRanges(test.in); !slices.Equal(got, test.want) {
			t.Errorf("%v: %v, want %v", test.in, got, test.want)
		}
	}
}

func TestPatternsOfSubnets(t *testing.T) {
	for pattern, want := range map[string]bool{
		"": true, "dmz-*": true, "dmz-1": true, "dmz": false, "!dmz-*": false, "!lb-*": true, "~dmz-[0-9]": true, "~dmz": false, "!~dmz": true,
	} {
		matches, err := namePattern(pattern)
		if err != nil || matches("dmz-1") != want {
			t.Errorf("%q: %v, error %v", pattern, !want, err)
		}
	}
	for _, broken := range []string{"~(", "[", "!["} {
		if _, err := namePattern(broken); err == nil {
			t.Errorf("%q is a pattern", broken)
		}
	}
	if got := tagFilter("!& a, b"); got.NotTags != "a,b" {
		t.Errorf("filter %+v", got)
	}
	if got := tagFilter("a"); got.TagsAny != "a" {
		t.Errorf("filter %+v", got)
	}
}

func TestLooksAtWhatIsPendingBecomeSeldom(t *testing.T) {
	e, now := &entry{}, time.Unix(0, 0)
	looks := 0
	for begun := now; now.Sub(begun) < 2*time.Minute; looks++ {
		after, _ := e.wait(now)
		if after < shortestWait || after > longestWait {
			t.Fatalf("after %s it waits %s", now.Sub(begun), after)
		}
		now = now.Add(after)
	}
	if looks > 30 {
		t.Errorf("%d looks in two minutes", looks)
	}
}

func TestNodesThatAreMembers(t *testing.T) {
	node := func(name string, labels map[string]string, addresses ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		for i, a := range addresses {
			kind := corev1.NodeInternalIP
			if i > 1 {
				kind = corev1.NodeExternalIP
			}
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: kind, Address: a})
		}
		return n
	}
	nodes := []*corev1.Node{
		node("b", map[string]string{"pool": "lb"}, "10.0.0.2", "fd00::2"), node("a", map[string]string{"pool": "lb", "x": "y"}, "10.0.0.1"),
		node("c", nil, "10.0.0.3"), node("d", map[string]string{"pool": "lb"}),
	}
	s := &settings{identity: identity{service: &corev1.Service{}}, family: corev1.IPv4Protocol, selector: selectorOf("pool=lb")}
	got, err := s.targets(nodes)
	if want := []target{{name: "a", address: "10.0.0.1"}, {name: "b", address: "10.0.0.2"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("members %v, error %v", got, err)
	}
	s.family = corev1.IPv6Protocol
	if got, err := s.targets(nodes); err != nil || !slices.Equal(got, []target{{name: "b", address: "fd00::2"}}) {
		t.Errorf("members %v, error %v", got, err)
	}
	s.selector = selectorOf("nothing")
	if _, err := s.targets(nodes); err == nil || !strings.Contains(err.Error(), "4 nodes are available") {
		t.Errorf("the error is %v", err)
	}
}

func TestTheOlderOfTwoNodesWithOneAddressIsTheMember(t *testing.T) {
	s, err := newSettings(read(t), "kubernetes", random(rand.New(rand.NewPCG(1, 2))))
	if err != nil {
		t.Fatal(err)
	}
	node := func(name string, born int64, address string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(born, 0)}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		return n
	}
	nodes := []*corev1.Node{node("claims", 20, "10.0.0.1"), node("older", 10, "10.0.0.1"), node("other", 30, "10.0.0.2")}
	got, err := s.targets(nodes)
	if want := []target{{name: "older", address: "10.0.0.1"}, {name: "other", address: "10.0.0.2"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("members %v, error %v, want %v", got, err, want)
	}
}
