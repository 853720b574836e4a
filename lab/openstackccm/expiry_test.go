package openstackccm

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/lab/openstacksim"
)

// made counts the requests of a kind that were executed, and those that were refused for their token.
func made(calls []openstacksim.Call, method, path string) (done, refused int) {
	for _, c := range calls {
		switch {
		case c.Method != method || c.Path != path:
		case c.Status == http.StatusUnauthorized:
			refused++
		default:
			done++
		}
	}
	return done, refused
}

// expired checks that one request was refused for its token, and executed once by a new one.
func expired(t *testing.T, calls []openstacksim.Call, method, path string) {
	t.Helper()
	if done, refused := made(calls, method, path); done != 1 || refused != 1 {
		t.Errorf("%s %s was executed %d times, and refused %d times: %v", method, path, done, refused, calls)
	}
	if logins, _ := made(calls, http.MethodPost, "auth/tokens"); logins != 1 {
		t.Errorf("%d logins: %v", logins, calls)
	}
}

// The token expires while a call of the service controller is under way, right before each kind of write.
func TestATokenExpiresInTheMiddleOfAChangeOfALoadBalancer(t *testing.T) {
	b := balance(t, 3)
	if err := b.cloud.Probe(t.Context()); err != nil { // which logs in
		t.Fatal(err)
	}
	all := b.nodes
	b.nodes = all[:2]
	s := service("web", func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:1] })
	for _, step := range []struct {
		method, path string
		do           func()
	}{
		{http.MethodPost, "lbaas/loadbalancers", func() { b.ensure(t, s) }},
		{http.MethodPut, "lbaas/pools/{id}/members", func() {
			b.nodes = all
			b.ensure(t, s)
		}},
		{http.MethodPut, "lbaas/pools/{id}/members", func() {
			b.nodes = all[1:]
			b.ensure(t, s)
		}},
		{http.MethodPut, "lbaas/listeners/{id}", func() {
			s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"}
			b.ensure(t, s)
		}},
		{http.MethodDelete, "lbaas/loadbalancers/{id}", func() { b.remove(t, s) }},
	} {
		b.Calls()
		b.BeforeNext(step.method, step.path, b.RevokeTokens)
		step.do()
		calls := b.Calls()
		b.noneUnknown(t, calls)
		expired(t, calls, step.method, step.path)
		if step.method == http.MethodDelete {
			break
		}
		want := "TCP 80 TCP ROUND_ROBIN"
		for i, n := range b.nodes {
			want += [2]string{" ", ","}[min(i, 1)] + n.Status.Addresses[0].Address + ":30080"
		}
		if len(s.Spec.LoadBalancerSourceRanges) > 0 {
			want += " from 10.0.0.0/8"
		}
		b.looks(t, want)
		if ips := b.FloatingIPs(); len(ips) != 1 {
			t.Errorf("after %s %s there are the floating IPs %v", step.method, step.path, ips)
		}
	}
	b.nothingLeft(t)
}

func TestATokenExpiresBeforeAFloatingIPIsMade(t *testing.T) {
	b := balance(t, 1)
	s := service("web")
	b.BeforeNext(http.MethodPost, "floatingips", b.RevokeTokens)
	address := b.ensure(t, s)
	if done, refused := made(b.Calls(), http.MethodPost, "floatingips"); done != 1 || refused != 1 {
		t.Errorf("it was executed %d times, and refused %d times", done, refused)
	}
	if ips := b.FloatingIPs(); len(ips) != 1 || ips[0].Address != address {
		t.Errorf("the floating IPs are %v, and the address %s", ips, address)
	}
	b.remove(t, s)
	b.nothingLeft(t)
}

func TestATokenExpiresInTheMiddleOfAChangeOfARoute(t *testing.T) {
	for _, at := range []struct{ method, path string }{
		{http.MethodGet, "ports"}, {http.MethodPut, "ports/{id}"}, {http.MethodPut, "routers/{id}/add_extraroutes"},
	} {
		t.Run(at.method+" "+at.path, func(t *testing.T) {
			f, router, nodes, routes := routed(t, openstacksim.Options{}, 1)
			list(t, routes)
			f.Calls()
			f.BeforeNext(at.method, at.path, f.RevokeTokens)
			create(t, routes, nodes[0], "10.244.0.0/24")
			expired(t, f.Calls(), at.method, at.path)
			if diff := cmp.Diff([]string{"10.244.0.0/24 via 10.0.0.10"}, f.Routes(router)); diff != "" {
				t.Errorf("routes (-want +got):\n%s", diff)
			}
			if pairs := f.pairs(t, nodes[0]); !slices.Equal(pairs, []string{"10.244.0.0/24"}) {
				t.Errorf("the pairs are %v", pairs)
			}
		})
	}
}
