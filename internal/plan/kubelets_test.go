package plan

import (
	"os/exec"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/kubelet"
	"github.com/transplant-dev/transplant/internal/plan/manual"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

func TestAKubeletKeepsTheNameThatItsCloudGaveIt(t *testing.T) {
	for _, c := range []struct {
		name, override, label string
		want                  string // of --hostname-override in the step; empty when it is not touched
		note                  string
	}{
		{"the host is called as its node", "", "worker-1", "", ""},
		{"the name came from the cloud", "", "ip-10-0-0-11", "worker-1", "the label kubernetes.io/hostname of 1 node becomes the node's name (it is ip-10-0-0-11 now)"},
		{"how the host is called is not known", "", "", "worker-1", ""},
		{"the flag has the name already", "worker-1", "ip-10-0-0-11", "", ""},
		{"in other letters", "Worker-1", "worker-1", "", ""},
		{"the flag has another name, which the cloud's went before", "other", "other", "worker-1", "it is other now"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := aws26()
			k := s.Hosts[1].Kubelet
			delete(k.Flags, flagvalue.FlagHostname)
			if c.override != "" {
				k.Flags[flagvalue.FlagHostname] = c.override
			}
			if c.label != "" {
				s.Nodes[1].Labels[kubelet.LabelHostname] = c.label
			}
			p := mustMake(t, s, v1.Options{}) // P-25 among the rules
			step := find(t, p, "external/kubelet@worker-1")
			e, _ := planstep.LastEdit(*step, flagvalue.FlagHostname)
			if e.Value != c.want {
				t.Errorf("--hostname-override=%q, want %q", e.Value, c.want)
			}
			if c.want != "" && c.override == "" && !strings.Contains(step.Manual[len(step.Manual)-1]+step.Manual[0], "--hostname-override=worker-1") {
				t.Errorf("by hand: %q", step.Manual)
			}
			if effects := strings.Join(p.Effects, "\n"); c.note == "" && strings.Contains(effects, kubelet.LabelHostname) || !strings.Contains(effects, c.note) {
				t.Errorf("the effects do not say %q:\n%s", c.note, effects)
			}
			drop(step, flagvalue.FlagHostname)
			if err := invariant.Verify(p, s); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), "rule P-25") {
				t.Errorf("without the flag: %v", err)
			}
		})
	}
}

func TestTheCommandsForAKubeletPutNewFlagsWhereOthersStand(t *testing.T) {
	step := v1.Step{Host: "h", Path: "/etc/systemd/system/kubelet.service.d/10-cloud.conf", Edits: []v1.Edit{
		{
			Op:   v1.EditUnsetFlag,
			Name: "cloud-config",
		},
		{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"},
		{Op: v1.EditSetFlag, Name: flagvalue.FlagHostname, Value: "h.internal"},
	}}
	script := manual.KubeletCommands(step, "h.internal", map[string]string{"cloud-provider": "aws", "cloud-config": "/a"})
	if want := "sudo systemctl daemon-reload && sudo systemctl restart kubelet'"; !strings.HasSuffix(script[0], want) {
		t.Errorf("a drop-in is not read again: %s", script[0])
	}
	cmd := exec.Command("sh", "-c", "sed"+manual.FlagScript(step, map[string]string{"cloud-provider": "aws", "cloud-config": "/a"}))
	cmd.Stdin = strings.NewReader("[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--cloud-config=/a --cloud-provider=aws --v=2\"\n")
	out, err := cmd.CombinedOutput()
	if want := "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS= --cloud-provider=external --hostname-override=h.internal --v=2\"\n"; err != nil ||
		string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAMaskedTextIsNeverWrittenBack(t *testing.T) {
	const ref = "patch/ConfigMap/kube-system/kubelet-config"
	snap := gce30()
	options := compact[3].options
	if p := mustMake(t, snap, options); find(t, p, ref).Patch == "" {
		t.Fatal("a text that is whole is not edited")
	}
	snap.KubeletDefaults.Text = strings.Replace(snap.KubeletDefaults.Text, "kind:", "token: (masked)\nkind:", 1)
	p := mustMake(t, snap, options)
	for _, s := range p.Steps {
		if s.ID == ref || strings.Contains(s.Patch, "masked") {
			t.Errorf("step %s writes %s", s.ID, s.Patch)
		}
	}
	if effects := strings.Join(p.Effects, "\n"); !strings.Contains(effects, "to do by hand: ConfigMap/kube-system/kubelet-config") {
		t.Errorf("effects:\n%s", effects)
	}
}

// TestInTreeProvidersAreSwitchedOffWhereThatIsAskedFor: KEP-2395 has two gates for it, which are off by default up to 1.28.
func TestInTreeProvidersAreSwitchedOffWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		snap        *v1.Snapshot
		opts        v1.Options
		wantKubelet string
	}{
		{"kubelets keep the credentials for images that nothing takes the place of", aws26HA(), v1.Options{DisableInTree: true}, "DisableCloudProviders=true"},
		{
			"with a provider of credentials, those too", aws26HA(),
			v1.Options{DisableInTree: true, CredentialProvider: "/tmp/provider", CredentialProviderSHA256: sum("a")},
			"DisableCloudProviders=true,DisableKubeletCloudCredentialProviders=true",
		},
		{"in downtime", aws26HA(), v1.Options{DisableInTree: true, Strategy: planstep.Downtime}, "DisableCloudProviders=true"},
		{"in units", units(aws26HA()), v1.Options{DisableInTree: true}, "DisableCloudProviders=true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustMake(t, c.snap, c.opts)
			if err := invariant.CheckAllowed(p, c.snap); err != nil {
				t.Error(err)
			}
			got := map[string]int{}
			for _, s := range p.Steps {
				e, becomes := planstep.LastEdit(s, "cloud-provider")
				if !becomes || e.Value != "external" || s.Host == "" { // not what kubeadm keeps in the cluster
					continue
				}
				gates, _ := planstep.LastEdit(s, flagvalue.FlagFeatureGates)
				want := "DisableCloudProviders=true"
				if s.Component == component.Kubelet {
					want = c.wantKubelet
				}
				got[s.Component]++
				for gate := range strings.SplitSeq(want, ",") {
					if !strings.Contains(gates.Value, gate) {
						t.Errorf("%s: the gates become %q, want %s among them", s.ID, gates.Value, gate)
					}
				}
				// An API server has no credentials for images, and both gates.
				if s.Component != component.KAS && strings.Contains(gates.Value, "Credential") != strings.Contains(want, "Credential") {
					t.Errorf("%s: the gates become %q", s.ID, gates.Value)
				}
			}
			if got[component.KCM] != 3 || got[component.Kubelet] == 0 {
				t.Errorf("so many become external: %v", got)
			}
		})
	}
}
