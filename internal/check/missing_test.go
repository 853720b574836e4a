package check

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/component"
)

// withoutFact removes a kind of fact from a snapshot.
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
	"pods": func(s *v1.Snapshot) {
		s.ControlPlaneNodes = nil
		eachComponent(s, func(c *v1.Component) { c.Pod = nil })
	},
	"volumes/persistentvolumes":                 func(s *v1.Snapshot) { s.Volumes.PersistentVolumes = nil },
	"volumes/storageclasses":                    func(s *v1.Snapshot) { s.Volumes.StorageClasses = nil },
	"volumes/csidrivers":                        func(s *v1.Snapshot) { s.Volumes.CSIDrivers = nil },
	"volumes/csinodes":                          func(s *v1.Snapshot) { s.Volumes.CSINodes = nil },
	"volumes/attachments":                       func(s *v1.Snapshot) { s.Volumes.Attachments = nil },
	"cloud/routes":                              func(s *v1.Snapshot) { s.Cloud.Routes = nil },
	"cloud/loadbalancers":                       func(s *v1.Snapshot) { s.Cloud.LoadBalancers = nil },
	"cloud/instances":                           func(s *v1.Snapshot) { s.Cloud.Instances = nil },
	"hosts/*/processes/kube-controller-manager": func(s *v1.Snapshot) { eachComponent(s, func(c *v1.Component) { c.Processes = nil }) },
	"hosts/*/kubelet":                           func(s *v1.Snapshot) { eachKubelet(s, nil) },
	"hosts/*/kubelet-config":                    func(s *v1.Snapshot) { eachKubelet(s, func(k *v1.Kubelet) { k.Config = nil }) },
	"hosts/*/kubelet-process":                   func(s *v1.Snapshot) { eachKubelet(s, func(k *v1.Kubelet) { k.Process = nil }) },
	"hosts/*/credential-providers":              func(s *v1.Snapshot) { eachKubelet(s, func(k *v1.Kubelet) { k.Credentials = nil }) },
	"hosts/*/cloud-config": func(s *v1.Snapshot) {
		for i := range s.Hosts {
			s.Hosts[i].CloudConfig = nil
		}
	},
}

func eachComponent(s *v1.Snapshot, change func(*v1.Component)) {
	for i := range s.Hosts {
		for j := range s.Hosts[i].Components {
			change(&s.Hosts[i].Components[j])
		}
	}
}

// eachKubelet changes the kubelet of every host, or takes it away.
func eachKubelet(s *v1.Snapshot, change func(*v1.Kubelet)) {
	for i := range s.Hosts {
		switch k := s.Hosts[i].Kubelet; {
		case change == nil:
			s.Hosts[i].Kubelet = nil
		case k != nil:
			changed := *k
			change(&changed)
			s.Hosts[i].Kubelet = &changed
		}
	}
}

// cannotGatherAny makes a fact unknown, on every host where it is one of each.
func cannotGatherAny(s *v1.Snapshot, fact string) {
	if part, ok := strings.CutPrefix(fact, "cloud/"); ok {
		s.Cloud.Errors = append(s.Cloud.Errors, part+": forbidden")
	}
	rest, each := strings.CutPrefix(fact, "hosts/*/")
	if !each {
		cannotGather(s, fact)
		return
	}
	for _, h := range s.Hosts {
		cannotGather(s, "hosts/"+h.Name+"/"+rest)
	}
}

// saysLess are checks that pass without a fact since they claim less then.
var saysLess = map[string]string{
	"CRED-003": "it judges the kubelets' files, and names the instances' identities beside them where they are known",
}

// TestWhatCouldNotBeGatheredIsNeverTakenForAbsent takes one kind of fact away and says so in the errors: no check may pass by judging that there is none.
// A pass that says something else than it said with the fact has looked at the gap.
func TestWhatCouldNotBeGatheredIsNeverTakenForAbsent(t *testing.T) {
	for name, base := range map[string]func() *v1.Snapshot{
		"healthy": healthy, "migrated": migrated,
		"aws": func() *v1.Snapshot { return captured(t, "aws-v1.26.0.yaml") }, "gce": func() *v1.Snapshot { return captured(t, "gce-v1.30.14.yaml") },
	} {
		before := Run(base(), facts.Options{})
		for fact, without := range withoutFact {
			s := base()
			if s.Cloud == nil && strings.HasPrefix(fact, "cloud/") {
				continue
			}
			cannotGatherAny(s, fact)
			without(s)
			for i, f := range Run(s, facts.Options{}).Findings {
				if f.Outcome == v1.Pass && f.Summary != before.Findings[i].Summary && saysLess[f.Code] == "" {
					t.Errorf("%s without %s: %s passes: %s", name, fact, f.Code, f.Summary)
				}
			}
		}
	}
}

// TestNoCheckNeedsAFactToBeThere runs every check over snapshots in which everything of a kind is missing and nothing says why.
func TestNoCheckNeedsAFactToBeThere(t *testing.T) {
	Run(&v1.Snapshot{}, facts.Options{})
	for first, one := range withoutFact {
		for second, two := range withoutFact {
			s := captured(t, "aws-v1.26.0.yaml")
			if strings.Contains(first+second, "/") {
				continue // parts of what may be gone
			}
			one(s)
			two(s)
			if n := len(Run(s, facts.Options{}).Findings); n != len(Checks) {
				t.Errorf("without %s and %s: %d of %d findings", first, second, n, len(Checks))
			}
		}
	}
	s := captured(t, "aws-v1.26.0.yaml")
	for i := range s.Hosts {
		s.Hosts[i] = v1.Host{
			Name:         s.Hosts[i].Name,
			ControlPlane: true,
			Components:   []v1.Component{{Name: component.KCM}, {Name: component.KAS}, {Name: component.CCM}},
			Kubelet:      &v1.Kubelet{},
		}
	}
	for i := range s.Nodes {
		s.Nodes[i] = v1.Node{}
	}
	Run(s, facts.Options{})
}
