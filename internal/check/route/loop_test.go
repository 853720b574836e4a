package route

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/component"
)

// withCIDRs is a cluster with a manager for each --cluster-cidr.
func withCIDRs(flags ...string) facts.Facts {
	s := &v1.Snapshot{}
	for i, flag := range flags {
		c := v1.Component{Name: component.KCM, Flags: map[string]string{"cluster-cidr": flag}}
		s.Hosts = append(s.Hosts, v1.Host{Name: fmt.Sprintf("cp-%d", i), Components: []v1.Component{c}})
	}
	return facts.New(s, facts.Options{})
}

func TestClusterCIDRsAreEachOnceInTheManagersOrder(t *testing.T) {
	got := fmt.Sprint(clusterCIDRs(withCIDRs("10.2.0.0/16, 10.1.2.3/8,x", "", "fd00::/48,10.0.0.0/8", "10.2.3.4/16")))
	if want := "[10.2.0.0/16 10.0.0.0/8 fd00::/48]"; got != want {
		t.Errorf("have %s, want %s", got, want)
	}
}

// TestARangeSetContainsWhatSomeRangeContains compares the set with a look at each range, for ranges that nest, are
// apart, or are of another family.
func TestARangeSetContainsWhatSomeRangeContains(t *testing.T) {
	texts := strings.Fields("10.0.0.0/8 10.1.0.0/16 10.1.2.0/24 10.1.2.3/32 192.168.0.0/17 192.168.128.0/17 172.16.0.1/12 " +
		"0.0.0.0/0 fd00::/8 fd00:10::/56 fd00:10::1/128 ::/0 ::ffff:10.1.2.0/120 ::ffff:0:0/96 2001:db8::/33 2001:db8:8000::/34")
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	for skip := range all {
		for step := 1; step < 6; step++ {
			var ranges []netip.Prefix
			for i := skip; i < len(all); i += step {
				ranges = append(ranges, all[i].Masked())
			}
			set := newRangeSet(ranges)
			for _, p := range all {
				want := slices.ContainsFunc(ranges, func(in netip.Prefix) bool { return in.Bits() <= p.Bits() && in.Contains(p.Addr()) })
				if set.contains(p) != want || isInRanges(p.String(), set) != want {
					t.Errorf("%s in %v: have %t, want %t", p, ranges, set.contains(p), want)
				}
			}
		}
	}
	if isInRanges("banana", newRangeSet(all)) || newRangeSet(nil).contains(all[0]) {
		t.Error("what is no CIDR, or is in no range, is inside")
	}
}
