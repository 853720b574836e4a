package leadermigration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/component"
)

// leaderOf and isKnown look at every manager, host and workload for each lease.
func leaderOf(f facts.Facts, lease string) (led, silent bool) {
	for _, p := range f.AllManagers() {
		all := f.Scrapes(p)
		silent = silent || len(all) == 0
		for _, m := range all {
			led = led || slices.Contains(m.Leads, lease)
			silent = silent || m.Error != ""
		}
	}
	return led, silent && !led
}

func isKnown(f facts.Facts, holder string) bool {
	name, _, _ := strings.Cut(holder, "_")
	short, _, _ := strings.Cut(name, ".")
	for _, h := range f.Hosts {
		for _, known := range []string{h.Name, h.NodeName} {
			knownShort, _, _ := strings.Cut(known, ".")
			if known != "" && (strings.EqualFold(known, name) || strings.EqualFold(knownShort, short)) {
				return true
			}
		}
	}
	for _, c := range f.Hosted {
		if parts := strings.Split(c.Manifest, "/"); strings.HasPrefix(name, parts[len(parts)-1]) {
			return true
		}
	}
	return slices.ContainsFunc(f.Workloads, func(w v1.Workload) bool {
		return w.Role == v1.RoleCCM && f.Stage() == facts.StageExternal &&
			(slices.Contains(w.Nodes, name) || strings.HasPrefix(name, w.Ref[strings.LastIndex(w.Ref, "/")+1:]))
	})
}

func TestHoldersAreKnownAsALookAtEachObjectKnowsThem(t *testing.T) {
	manager := func(name, provider string) v1.Component {
		return v1.Component{Name: name, Flags: map[string]string{"cloud-provider": provider}}
	}
	hosts := func(provider string) []v1.Host {
		return []v1.Host{
			{Name: "CP-1", NodeName: "cp-1.example.com", Components: []v1.Component{manager(component.KCM, provider)}},
			{Name: "cp-2.lab", Components: []v1.Component{manager(component.KCM, provider)}},
			{NodeName: "Ip-10-0-0-3.internal"},
		}
	}
	workloads := []v1.Workload{
		{
			Ref: "DaemonSet/kube-system/aws-ccm", Role: v1.RoleCCM, Nodes: []string{"worker-1"},
			Containers: []v1.Container{{Name: "c", Flags: map[string]string{"cloud-provider": "aws"}}},
		},
		{Ref: "DaemonSet/kube-system/cni", Role: v1.RoleCNI, Nodes: []string{"worker-2"}},
	}
	hosted := []v1.Component{{Name: component.KCM, Manifest: "Deployment/kube-system/kcm", Runs: v1.RunsDeployment}}
	for name, s := range map[string]*v1.Snapshot{
		"nothing":  {},
		"in-tree":  {Hosts: hosts("aws"), Managers: []v1.Manager{{Component: component.KCM, Host: "CP-1", Leads: []string{"a", "b"}}}},
		"external": {Hosts: hosts("external"), Workloads: workloads},
		"hosted":   {Hosted: hosted, Workloads: workloads},
		"asked": {Hosts: hosts("aws")[:1], Managers: []v1.Manager{
			{Component: component.KCM, Host: "CP-1", Leads: []string{"a"}},
		}},
		"failed": {Hosts: hosts("aws")[:1], Managers: []v1.Manager{
			{Component: component.KCM, Host: "CP-1", Leads: []string{"a"}, Error: "refused"},
		}},
	} {
		f := facts.New(s, facts.Options{})
		known := newKnownHolders(f)
		for _, lease := range []string{"a", "b", "c", ""} {
			wantLed, wantSilent := leaderOf(f, lease)
			if led, silent := known.leader(lease); led != wantLed || silent != wantSilent {
				t.Errorf("%s: lease %q: have %t and %t, want %t and %t", name, lease, led, silent, wantLed, wantSilent)
			}
		}
		for _, holder := range strings.Split(",_,cp-1_u,CP-1.other_u,cp-2,cp-22,cp-2.LAB_x,ip-10-0-0-3_u,ip-10-0-0-3.internal.x,.x,"+
			"worker-1_u,worker-2_u,aws-ccm-7_u,aws-cc,cni-1,kcm-0_u,kc,é_u", ",") {
			if have, want := fmt.Sprint(known.knows(holder)), fmt.Sprint(isKnown(f, holder)); have != want {
				t.Errorf("%s: holder %q: have %s, want %s", name, holder, have, want)
			}
		}
	}
}
