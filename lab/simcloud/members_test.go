package simcloud

import (
	"fmt"
	"slices"
	"testing"

	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

func TestLoadBalancersOfTheSameMembersShareOneList(t *testing.T) {
	s := newStore()
	for _, name := range []string{"b", "a"} {
		if _, _, err := s.ensure(&api.LoadBalancer{Name: name, Members: []string{"y", "x"}}); err != nil {
			t.Fatal(err)
		}
	}
	all := s.loadBalancers()
	if len(all) != 2 || all[0].Name != "a" || &all[0].Members[0] != &all[1].Members[0] {
		t.Errorf("the load balancers are %+v, want a and b with one list", all)
	}
	if changed, err := s.update("a", []string{"z", "x", "y"}); err != nil || !changed {
		t.Fatal(changed, err)
	}
	now := s.loadBalancers()
	if got := now[0].Members; !slices.Equal(got, []string{"x", "y", "z"}) {
		t.Errorf("a has %q", got)
	}
	if got := now[1].Members; !slices.Equal(got, []string{"x", "y"}) || !slices.Equal(all[0].Members, got) {
		t.Errorf("b has %q, and what was read of a before its change is %q", got, all[0].Members)
	}
	for i := range 3 * kept {
		if _, err := s.update("b", []string{fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.recent) != kept {
		t.Errorf("%d lists are remembered, want %d", len(s.recent), kept)
	}
}
