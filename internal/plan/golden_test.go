package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

var sha = strings.Repeat("5a", 32)

// images for providers whose catalogue row may change: what matters here is the plan.
var compact = []struct {
	name    string
	snap    func() *v1.Snapshot
	options v1.Options
}{
	{"openstack-1.20", openstack20, v1.Options{Image: "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1.20.2"}},
	{"aws-1.26-single", aws26, v1.Options{}},
	{
		"azure-1.28",
		azure28,
		v1.Options{
			Image:                    "mcr.microsoft.com/oss/kubernetes/azure-cloud-controller-manager:v1.28.5",
			CredentialProvider:       "bin/acr-credential-provider",
			CredentialProviderSHA256: sha,
		},
	},
	{"gce-1.30", gce30, v1.Options{Image: "registry.k8s.io/cloud-provider-gcp/cloud-controller-manager:v30.0.0", Shape: v1.ShapeDaemonSet,
		CredentialProvider: "bin/gcr-credential-provider", CredentialProviderSHA256: sha}},
	{"vsphere-1.29", vsphere29, v1.Options{Image: "registry.k8s.io/cloud-pv-vsphere/cloud-provider-vsphere:v1.29.0"}},
	{"aws-1.26-unconfigured", unconfiguredAWS, v1.Options{}},
	{"aws-1.26-deployed", configuredDeployment, v1.Options{}},
	{"aws-1.26-upgrade", awsUpgrade, v1.Options{TargetVersion: "v1.27.4"}},
	{"aws-1.26-upgrade-downtime", awsUpgrade, v1.Options{TargetVersion: "v1.27.4", Strategy: planstep.Downtime}},
	{"azure-1.28-ours", azure28, v1.Options{Image: "ours", CredentialProvider: "bin/acr-credential-provider", CredentialProviderSHA256: sha}},
}

func TestThePlansOfKubeadmClusters(t *testing.T) {
	for _, c := range compact {
		t.Run(c.name, func(t *testing.T) {
			have := inBrief(mustMake(t, c.snap(), c.options))
			path := "testdata/" + c.name + ".plan.txt"
			if *update {
				if err := os.WriteFile(path, []byte(have), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), have); diff != "" {
				t.Errorf("review the difference and run go test ./internal/plan -update (-golden +now):\n%s", diff)
			}
		})
	}
}

// inBrief renders a plan as a reviewer would note it: each step with its kind, its edits and what it starts.
func inBrief(p *v1.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "strategy %s, %d steps, %d facts\n", p.Strategy, len(p.Steps), len(p.Facts))
	phase := ""
	for _, s := range p.Steps {
		if s.Phase != phase {
			phase = s.Phase
			fmt.Fprintf(&b, "\n%s\n", phase)
		}
		fmt.Fprintf(&b, "  %s %s", s.Kind, s.ID)
		if s.Drain {
			b.WriteString(" (drain)")
		}
		if len(s.Expect) > 0 && s.Kind == v1.StepVerify {
			fmt.Fprintf(&b, " %v", s.Expect)
		}
		b.WriteString("\n")
		for _, e := range s.Edits {
			fmt.Fprintf(&b, "      %s\n", strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Op, e.Name, e.Value)))
		}
		if s.Kind == v1.StepEnsureObject && s.Component == component.CCM || s.Kind == v1.StepAddManifest {
			for _, c := range s.Changes {
				fmt.Fprintf(&b, "      %s=%s\n", c.Field, c.After)
			}
		}
	}
	b.WriteString("\neffects\n")
	for _, e := range p.Effects {
		fmt.Fprintf(&b, "  %s\n", e)
	}
	return b.String()
}

// TestClustersThatWereCaptured plans for snapshots of real API servers, which are renewed now and then: what is looked at holds of each.
func TestClustersThatWereCaptured(t *testing.T) {
	files, err := filepath.Glob("../check/testdata/captured/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no snapshot was found: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var s v1.Snapshot
			if err := yaml.Unmarshal(data, &s); err != nil {
				t.Fatal(err)
			}
			p := mustMake(t, &s, v1.Options{})
			if p.Strategy != planstep.LeaderMigration || len(hostsOf(p, "start/"+component.CCM)) != len(s.ControlPlaneNodes) {
				t.Errorf("%s on hosts %v", p.Strategy, hostsOf(p, "start/"+component.CCM))
			}
			if s.Kubeadm != nil {
				find(t, p, "patch/ConfigMap/kube-system/kubeadm-config/controllerManager")
			}
			endState(t, 0, &s, p)
		})
	}
}
