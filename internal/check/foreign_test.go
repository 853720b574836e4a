package check

import (
	"slices"
	"testing"

	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/component"
)

// blocking are the codes of the findings that keep a cluster from its migration.
func blocking(r v1.CheckReport) []string {
	var out []string
	for _, f := range r.Findings {
		if isBlocking(f) {
			out = append(out, f.Code)
		}
	}
	return out
}

// TestWhatATenantRunsBlocksNothing: it takes no more than the right to create a Deployment in some namespace.
func TestWhatATenantRunsBlocksNothing(t *testing.T) {
	t.Parallel()
	manager := func(replicas int32) v1.Workload {
		w := chartCCM()
		w.Ref, w.Replicas, w.Ready, w.HostNetwork, w.Strategy = "Deployment/a-tenant/x", replicas, replicas, true, "RollingUpdate"
		w.Containers[0].Flags = map[string]string{"cluster-name": "other", "leader-elect": "false", "secure-port": "9"}
		return w
	}
	for name, plant := range map[string]func(s *v1.Snapshot){
		"a cloud-controller-manager":              func(s *v1.Snapshot) { s.Workloads = append(s.Workloads, manager(1)) },
		"one that is scaled to 0":                 func(s *v1.Snapshot) { s.Workloads = append(s.Workloads, manager(0)) },
		"a kube-controller-manager that is known": func(s *v1.Snapshot) { s.Hosted = append(s.Hosted, tenants("a-tenant")) },
		"a kube-controller-manager": func(s *v1.Snapshot) {
			s.Workloads = append(s.Workloads, v1.Workload{Ref: "Deployment/a-tenant/kcm", Role: v1.RoleKCM, Replicas: 1, Ready: 1})
		},
	} {
		s := healthy()
		plant(s)
		if r := Run(s, facts.Options{}); r.Summary.Blocked {
			t.Errorf("%s blocks: %v", name, blocking(r))
		}
	}
}

func tenants(namespace string) v1.Component {
	c := controllerManager()
	c.Runs, c.Manifest, c.Replicas = v1.RunsDeployment, "Deployment/"+namespace+"/"+component.KCM, ptr.To[int32](1)
	return c
}

// TestATenantsManagerIsSaid: it is a second owner where the tenant has the cluster's credentials.
func TestATenantsManagerIsSaid(t *testing.T) {
	t.Parallel()
	s := healthy()
	w := chartCCM()
	w.Ref = "Deployment/a-tenant/x"
	s.Workloads = append(s.Workloads, w)
	for _, f := range Run(s, facts.Options{}).Findings {
		if f.Code == "CP-012" && (f.Outcome != v1.Warn || !slices.Contains(f.Objects, w.Ref)) {
			t.Errorf("%s %s %v", f.Outcome, f.Summary, f.Objects)
		}
	}
	if !slices.ContainsFunc(s.Workloads, func(of v1.Workload) bool { return of.Ref == w.Ref }) {
		t.Error("the snapshot was changed")
	}
}

// TestAManagerElsewhereCountsWhereItIsTheOnlyOne: clusters that were external from the start have it in any namespace.
func TestAManagerElsewhereCountsWhereItIsTheOnlyOne(t *testing.T) {
	t.Parallel()
	s := migratedToDaemonSet()
	for i := range s.Workloads {
		if s.Workloads[i].Role == v1.RoleCCM {
			s.Workloads[i].Ref = "DaemonSet/cloud/aws-ccm"
		}
	}
	f := facts.New(s, facts.Options{})
	if f.Stage() != facts.StageExternal || len(f.Foreign) > 0 {
		t.Errorf("stage %d, foreign %v", f.Stage(), f.Foreign)
	}
}

// TestOneComponentInTwoPlacesIsRefused: nothing says which of them is the cluster's own.
func TestOneComponentInTwoPlacesIsRefused(t *testing.T) {
	t.Parallel()
	s := healthy()
	s.Hosted = append(s.Hosted, tenants("kube-system"))
	for _, f := range Run(s, facts.Options{}).Findings {
		if f.Code == "CP-003" && (f.Outcome != v1.Fail || !slices.Contains(f.Objects, component.KCM)) {
			t.Errorf("%s %s %v", f.Outcome, f.Summary, f.Objects)
		}
	}
}
