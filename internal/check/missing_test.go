package check

import (
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// withoutFact takes a kind of fact out of a snapshot.
var withoutFact = map[string]func(*v1.Snapshot){
	"nodes":            func(s *v1.Snapshot) { s.Nodes = nil },
	"services":         func(s *v1.Snapshot) { s.Services = nil },
	"leases":           func(s *v1.Snapshot) { s.Leases = nil },
	"access":           func(s *v1.Snapshot) { s.Access = nil },
	"workloads":        func(s *v1.Snapshot) { s.Workloads, s.Hosted = nil, nil },
	"webhooks":         func(s *v1.Snapshot) { s.Webhooks = nil },
	"volumes":          func(s *v1.Snapshot) { s.Volumes = nil },
	"budgets":          func(s *v1.Snapshot) { s.Budgets = nil },
	"csrs":             func(s *v1.Snapshot) { s.CertificateRequests = nil },
	"machines":         func(s *v1.Snapshot) { s.Machines = nil },
	"kubeadm":          func(s *v1.Snapshot) { s.Kubeadm = nil },
	"kubelet-defaults": func(s *v1.Snapshot) { s.KubeletDefaults = nil },
	"apigroups":        func(s *v1.Snapshot) { s.APIGroups = nil },
	"clocks":           func(s *v1.Snapshot) { s.Clocks = nil },
	"preview":          func(s *v1.Snapshot) { s.Preview = nil },
	"cloud":            func(s *v1.Snapshot) { s.Cloud = nil },
	"managers":         func(s *v1.Snapshot) { s.Managers = nil },
	"hosts":            func(s *v1.Snapshot) { s.Hosts = nil },
}

// TestWhatCouldNotBeGatheredIsNeverTakenForAbsent takes one kind of fact away and says so in the errors: no check may pass by judging that there is none.
// A pass that says something else than it said with the fact has looked at the gap.
func TestWhatCouldNotBeGatheredIsNeverTakenForAbsent(t *testing.T) {
	for name, base := range map[string]func() *v1.Snapshot{
		"healthy": healthy, "migrated": migrated,
		"aws": func() *v1.Snapshot { return captured(t, "aws-v1.26.0.yaml") }, "gce": func() *v1.Snapshot { return captured(t, "gce-v1.30.14.yaml") },
	} {
		before := Run(base(), Options{})
		for fact, without := range withoutFact {
			s := base()
			without(s)
			cannotGather(s, fact)
			for i, f := range Run(s, Options{}).Findings {
				if f.Outcome == v1.Pass && f.Summary != before.Findings[i].Summary {
					t.Errorf("%s without %s: %s passes: %s", name, fact, f.Code, f.Summary)
				}
			}
		}
	}
}

// TestNoCheckNeedsAFactToBeThere runs every check over snapshots in which everything of a kind is missing and nothing says why.
func TestNoCheckNeedsAFactToBeThere(t *testing.T) {
	Run(&v1.Snapshot{}, Options{})
	for first, one := range withoutFact {
		for second, two := range withoutFact {
			s := captured(t, "aws-v1.26.0.yaml")
			one(s)
			two(s)
			if n := len(Run(s, Options{}).Findings); n != len(Checks) {
				t.Errorf("without %s and %s: %d of %d findings", first, second, n, len(Checks))
			}
		}
	}
	s := captured(t, "aws-v1.26.0.yaml")
	for i := range s.Hosts {
		s.Hosts[i] = v1.Host{Name: s.Hosts[i].Name, ControlPlane: true, Components: []v1.Component{{Name: kcm}, {Name: kas}, {Name: ccm}}, Kubelet: &v1.Kubelet{}}
	}
	for i := range s.Nodes {
		s.Nodes[i] = v1.Node{}
	}
	Run(s, Options{})
}
