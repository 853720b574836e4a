package openstack

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/provider/openstack/loadbalancer"
)

const listed = "GET compute/v2.1/servers/detail"

// compute is Nova with servers, each with one address.
func compute(addresses map[int]string) *project {
	return &project{answers: map[string]func(*http.Request, object) (int, any){
		listed: func(r *http.Request, _ object) (int, any) {
			all := []object{}
			for n, address := range addresses {
				if r.URL.Query().Get("marker") == "" {
					all = append(all, object{"id": uuid(n), "name": "server", "addresses": in("nodes", "fixed", address)})
				}
			}
			return http.StatusOK, object{"servers": all}
		},
		"GET network/v2.0/ports": func(*http.Request, object) (int, any) { return http.StatusOK, object{"ports": []object{}} },
	}}
}

func claimsOf(nodes ...*corev1.Node) (all []loadbalancer.Claim) {
	for _, n := range nodes {
		all = append(all, loadbalancer.Claim{Node: n, Address: n.Status.Addresses[0].Address})
	}
	return all
}

// TestANodeWhoseServerIsMissingCausesNoListWithEachLook: a Node of a machine elsewhere stays for as long as its cluster.
func TestANodeWhoseServerIsMissingCausesNoListWithEachLook(t *testing.T) {
	odd := nodeAt("odd", 0, "10.0.0.9")
	odd.Spec.ProviderID = "elsewhere://9"
	for name, missing := range map[string]*corev1.Node{
		"by its providerID":               nodeAt("n-7", 7, "10.0.0.7"),
		"by its name":                     nodeAt("n-8", 0, "10.0.0.8"),
		"by a providerID that names none": odd,
	} {
		t.Run(name, func(t *testing.T) {
			p := compute(map[int]string{1: "10.0.0.1", 2: "10.0.0.2"})
			c, clock := p.open(t)
			look := func(want int, nodes ...*corev1.Node) {
				t.Helper()
				refused, err := c.instances.book.Refuse(t.Context(), claimsOf(nodes...))
				if err != nil || len(refused) > 0 {
					t.Errorf("refused %v, error %v", refused, err)
				}
				if n := p.made(listed); n != want {
					t.Errorf("all servers were listed %d times, want %d", n, want)
				}
			}
			member, other := nodeAt("n-1", 1, "10.0.0.1"), nodeAt("n-2", 2, "10.0.0.2")
			look(1, member, missing)
			look(1, member, missing)
			look(1, other, member, missing)
			young := nodeAt("n-3", 3, "10.0.0.3") // what is new is looked for at once
			look(2, member, missing, young)
			look(2, member, missing, young)
			look(2, member, missing) // what another Service's nodes had listed is remembered, too
			clock.SetTime(clock.Now().Add(refusedFor - time.Millisecond))
			look(2, member, missing, young)
			clock.SetTime(clock.Now().Add(time.Millisecond))
			look(3, member, missing, young)
			look(3, member, missing, young)
		})
	}
}

// A Node that is known to be missing still cannot claim the address of a server.
func TestANodeWhoseServerIsMissingIsRefusedTheAddressOfAnother(t *testing.T) {
	p := compute(map[int]string{1: "10.0.0.1"})
	c, _ := p.open(t)
	for _, address := range []string{"10.0.0.7", "10.0.0.1"} {
		refused, err := c.instances.book.Refuse(t.Context(), claimsOf(nodeAt("n-7", 7, address)))
		if want := address == "10.0.0.1"; err != nil || (refused["n-7"] != "") != want {
			t.Errorf("%s: refused %v, error %v", address, refused, err)
		}
	}
}

// TestALookDoesNotOutwaitItsContextForTheListOfAnother: a list of many pages takes minutes, and Services wait for each other.
func TestALookDoesNotOutwaitItsContextForTheListOfAnother(t *testing.T) {
	p := compute(map[int]string{1: "10.0.0.1", 2: "10.0.0.2"})
	c, _ := p.open(t)
	book := c.instances.book
	if _, err := book.Refuse(t.Context(), claimsOf(nodeAt("n-1", 1, "10.0.0.1"))); err != nil {
		t.Fatal(err)
	}
	begun, finish, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	answer := p.answers[listed]
	p.answers[listed] = func(r *http.Request, body object) (int, any) {
		if r.URL.Query().Get("marker") == "" {
			close(begun)
			<-finish
		}
		return answer(r, body)
	}
	go func() {
		_, err := book.Refuse(t.Context(), claimsOf(nodeAt("n-7", 7, "10.0.0.7")))
		ended <- err
	}()
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	waiting := make(chan error, 2)
	go func() {
		_, err := book.Refuse(ctx, claimsOf(nodeAt("n-8", 8, "10.0.0.8")))
		waiting <- err
	}()
	go func() {
		_, err := book.Refuse(t.Context(), claimsOf(nodeAt("n-1", 1, "10.0.0.1"))) // the book is enough
		waiting <- err
	}()
	var failed []error
	for range 2 {
		select {
		case err := <-waiting:
			if err != nil {
				failed = append(failed, err)
			}
		case <-time.After(10 * time.Second):
			t.Error("a look waits for the list of another")
		}
	}
	if !t.Failed() && (len(failed) != 1 || !errors.Is(failed[0], context.DeadlineExceeded)) {
		t.Errorf("the errors are %v", failed)
	}
	close(finish)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
