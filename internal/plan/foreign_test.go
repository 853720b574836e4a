package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/allowed"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// tenantsManager is a kube-controller-manager that somebody else has created; by its name it comes first.
func tenantsManager(ref string, replicas int32) v1.Component {
	return v1.Component{
		Name:     component.KCM,
		Runs:     v1.RunsDeployment,
		Manifest: ref,
		SHA256:   "t",
		Replicas: ptr.To(replicas),
		Command:  []string{component.KCM, "--cloud-provider=aws"},
		Flags:    map[string]string{"cloud-provider": "aws", "cloud-config": "/x/cloud.conf", "cluster-name": "prod"},
	}
}

// TestATenantsDeploymentIsNoControlPlane: the plan is the one of the cluster without it.
func TestATenantsDeploymentIsNoControlPlane(t *testing.T) {
	t.Parallel()
	for name, cluster := range map[string]func() *v1.Snapshot{
		"static pods":  aws26HA,
		"a Deployment": deployedCluster,
		"units":        func() *v1.Snapshot { return units(aws26HA()) },
	} {
		for _, replicas := range []int32{0, 1} {
			o := v1.Options{Volumes: v1.VolumesInTree}
			want := mustMake(t, cluster(), o)
			s := cluster()
			s.Hosted = append([]v1.Component{tenantsManager("Deployment/a-tenant/"+component.KCM, replicas)}, s.Hosted...)
			s.Workloads = append(s.Workloads, v1.Workload{Ref: "Deployment/a-tenant/ccm", Role: v1.RoleCCM, Replicas: replicas})
			if got := mustMake(t, s, o); compare.Digest(got) != compare.Digest(want) {
				t.Errorf("%s, %d replicas: another plan, of strategy %s", name, replicas, got.Strategy)
			}
		}
	}
}

func TestTwoCandidatesAreRefused(t *testing.T) {
	t.Parallel()
	api := tenantsManager("Deployment/kube-system/"+component.KAS, 1)
	api.Name = component.KAS
	for name, c := range map[string]struct {
		cluster func() *v1.Snapshot
		more    v1.Component
		says    []string
	}{
		"next to static pods":        {aws26HA, tenantsManager("Deployment/kube-system/"+component.KCM, 1), []string{"Deployment/kube-system/" + component.KCM, "host cp-1"}},
		"next to units":              {func() *v1.Snapshot { return units(aws26HA()) }, tenantsManager("Deployment/kube-system/"+component.KCM, 0), []string{"host cp-1"}},
		"next to another Deployment": {deployedCluster, tenantsManager("Deployment/kube-system/kcm", 1), []string{"Deployment/kube-system/" + component.KCM + " and Deployment/kube-system/kcm"}},
		"a kube-apiserver":           {deployedCluster, api, []string{component.KAS + " runs as", "host cp-1"}},
	} {
		s := c.cluster()
		s.Hosted = append(s.Hosted, c.more)
		_, err := Make(s, v1.Options{Volumes: v1.VolumesInTree}, nil, now)
		for _, says := range append(c.says, "delete what is left over") {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v does not say %q", name, err, says)
			}
		}
	}
}

// TestNoStepChangesATenantsDeployment: neither a snapshot of an earlier version that lists it as a component allows that, nor a plan that names it.
func TestNoStepChangesATenantsDeployment(t *testing.T) {
	t.Parallel()
	const foreign = "Deployment/a-tenant/" + component.KCM
	live := deployedCluster()
	live.Hosted = append(live.Hosted, tenantsManager(foreign, 1))
	p := mustMake(t, configuredDeployment(), v1.Options{Volumes: v1.VolumesInTree})
	edit := slices.IndexFunc(p.Steps, func(s v1.Step) bool { return s.Kind == v1.StepEditWorkload && s.Component == component.KCM })
	derive := slices.IndexFunc(p.Steps, func(s v1.Step) bool { return s.Derive == layout.DeriveDeployedCloudConfig })
	for name, step := range map[string]func() v1.Step{
		"edited":              func() v1.Step { s := p.Steps[edit]; s.Ref = foreign; return s },
		"scaled":              func() v1.Step { return v1.Step{Kind: v1.StepScale, Component: component.KCM, Ref: foreign} },
		"edited as a manager": func() v1.Step { s := p.Steps[edit]; s.Ref, s.Component = foreign, component.CCM; return s },
		"read":                func() v1.Step { s := p.Steps[derive]; s.Source = foreign; return s },
	} {
		for _, seen := range []*v1.Snapshot{live, nil} {
			if err := allowed.CheckStep(p, step(), seen); err == nil || !strings.Contains(err.Error(), component.Namespace) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, s := range []v1.Step{p.Steps[edit], p.Steps[derive]} {
		if err := allowed.CheckStep(p, s, configuredDeployment()); err != nil {
			t.Error(err)
		}
	}
}

// TestALabelledHostAtNoAddressOfAnAPIServerIsRefused: whoever may patch Nodes could have set the label.
func TestALabelledHostAtNoAddressOfAnAPIServerIsRefused(t *testing.T) {
	t.Parallel()
	live := aws26HA()
	for i := range live.Hosts {
		live.Nodes = append(live.Nodes, v1.Node{
			Name: live.Hosts[i].Name, ProviderID: fmt.Sprintf("aws:///us-east-1a/i-7%016d", i), Addresses: []string{fmt.Sprintf("InternalIP=10.77.0.%d", i)},
		})
		live.APIServers = append(live.APIServers, fmt.Sprintf("10.77.0.%d", i))
	}
	if _, err := Make(live, v1.Options{Volumes: v1.VolumesInTree}, nil, now); err != nil {
		t.Fatal(err)
	}
	unannounced := *live
	unannounced.NamedHosts, unannounced.APIServers = []string{live.Hosts[1].Name}, []string{"10.77.9.9"}
	if _, err := Make(&unannounced, v1.Options{Volumes: v1.VolumesInTree}, nil, now); err == nil ||
		!strings.Contains(err.Error(), "host cp-1 would get what only the control plane has") || strings.Contains(err.Error(), "host cp-2 would") {
		t.Errorf("no Node has an announced address: %v", err)
	}
	live.APIServers = live.APIServers[1:]
	_, err := Make(live, v1.Options{Volumes: v1.VolumesInTree}, nil, now)
	if err == nil || !strings.Contains(err.Error(), "host cp-1 would get what only the control plane has") || !strings.Contains(err.Error(), "(10.77.0.0)") {
		t.Error(err)
	}
}

// TestAHostThatOnlyClaimsToBeControlPlaneIsRefused: no plan is made, and no step of another plan gives it what only the control plane has.
func TestAHostThatOnlyClaimsToBeControlPlaneIsRefused(t *testing.T) {
	t.Parallel()
	p := mustMake(t, aws26HA(), v1.Options{Volumes: v1.VolumesInTree})
	live := aws26HA()
	live.Hosts[0].ControlPlane, live.Hosts[0].Components, live.Hosts[0].Claims = false, nil, []string{component.KAS, component.KCM}
	_, err := Make(live, v1.Options{Volumes: v1.VolumesInTree}, nil, now)
	for _, says := range []string{"host cp-1 runs kube-apiserver, kube-controller-manager by its own word alone", "kubectl label node cp-1 node-role.kubernetes.io/control-plane="} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
	asked := 0
	for _, s := range p.Steps {
		if s.Host != "cp-1" || s.Derive == "" && s.Kind != v1.StepAddManifest {
			continue
		}
		asked++
		if err := allowed.CheckStep(p, s, live); err == nil || !strings.Contains(err.Error(), "by its own word alone") {
			t.Errorf("%s: %v", s.ID, err)
		}
		if err := allowed.CheckStep(p, s, aws26HA()); err != nil {
			t.Errorf("%s on a proven host: %v", s.ID, err)
		}
	}
	if asked != 4 {
		t.Errorf("%d steps were asked about", asked)
	}
}
