package plan

import (
	"encoding/json"
	"slices"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// optionTrials give every option of a plan a value that is not its default, by its flag.
var optionTrials = map[string]func(*v1.Options){
	"strategy":              func(o *v1.Options) { o.Strategy = planstep.Downtime },
	"image":                 func(o *v1.Options) { o.Image = "registry.example.com/transplant-dev/other:v1" },
	"shape":                 func(o *v1.Options) { o.Shape = v1.ShapeDaemonSet },
	"node-ipam":             func(o *v1.Options) { o.NodeIPAM = v1.IPAMMove },
	"volumes":               func(o *v1.Options) { o.Volumes = v1.VolumesCSI },
	"credential-provider":   func(o *v1.Options) { o.CredentialProvider, o.CredentialProviderSHA256 = "/tmp/provider", sum("a") },
	"disable-in-tree":       func(o *v1.Options) { o.DisableInTree = true },
	"replace-hosts":         func(o *v1.Options) { o.ReplaceHosts, o.TargetVersion = true, "v1.27.4" },
	"target-version":        func(o *v1.Options) { o.TargetVersion = "v1.27.4" },
	"ccm-env":               func(o *v1.Options) { o.Env = append(slices.Clone(o.Env), "HTTP_PROXY=http://proxy.example.com") },
	"lease-name":            func(o *v1.Options) { o.LeaseName = "another" },
	"retry-period":          func(o *v1.Options) { o.RetryPeriod = "300ms" },
	"renew-deadline":        func(o *v1.Options) { o.RenewDeadline = "7s" },
	"cluster-name":          func(o *v1.Options) { o.ClusterName = "another" },
	"keep-leader-migration": func(o *v1.Options) { o.KeepLeaderMigration = true },
	"pause-after-canary":    func(o *v1.Options) { o.PauseAfterCanary = true },
	"max-unavailable":       func(o *v1.Options) { o.MaxUnavailable = "2" },
	"drain-timeout":         func(o *v1.Options) { o.DrainTimeout = "20m" },
	"force-unmanaged":       func(o *v1.Options) { o.ForceUnmanaged = true },
	"soak":                  func(o *v1.Options) { o.Soak = "1m" },
}

// ofKubelets are the options that an apply reads at each step of a kubelet; the steps themselves do not show them.
var ofKubelets = []string{"pause-after-canary", "max-unavailable", "drain-timeout", "force-unmanaged", "soak"}

// TestEveryOptionIsUsedOrRefused tries each option on each shape of control plane: the plan is another one, or there is none,
// or the option is among those that are refused on the command line. A refused one must be without effect.
func TestEveryOptionIsUsedOrRefused(t *testing.T) {
	t.Parallel()
	// What a cluster has settled already is no option any more: CSI has the volumes of AWS in every 1.26.
	csi, asTried := []string{"volumes"}, []string{"replace-hosts", "target-version"}
	shapes := map[string]struct {
		snap    *v1.Snapshot
		opts    v1.Options
		settled []string
	}{
		"static pods":                      {aws26HA(), v1.Options{}, csi},
		"static pods, downtime":            {aws26HA(), v1.Options{Strategy: planstep.Downtime}, append(csi, "strategy")},
		"static pods with in-tree volumes": {openstack20(), v1.Options{Volumes: v1.VolumesInTree}, []string{"strategy"}},
		"units":                            {units(aws26HA()), v1.Options{}, csi},
		"hosts that are replaced":          {aws26HA(), v1.Options{ReplaceHosts: true, TargetVersion: "v1.27.4"}, asTried},
		"Deployments":                      {configuredDeployment(), v1.Options{}, []string{"strategy"}},
	}
	for name, shape := range shapes {
		without, err := Make(shape.snap, shape.opts, nil, now)
		if err != nil {
			t.Errorf("%s: no plan without further options: %v", name, err)
			continue
		}
		hasKubelets := slices.ContainsFunc(without.Steps, func(s v1.Step) bool { return s.Kind == v1.StepKubelet })
		for flag, give := range optionTrials {
			o := shape.opts
			give(&o)
			with, err := Make(shape.snap, o, nil, now)
			isSame := err == nil && content(t, with) == content(t, without)
			switch isRefused := refused(shape.snap, Choose(shape.snap, o), flag); {
			case isRefused && err == nil && !isSame:
				t.Errorf("%s: --%s is refused, and changes the plan", name, flag)
			case !isRefused && isSame && !(hasKubelets && slices.Contains(ofKubelets, flag)) && !slices.Contains(shape.settled, flag):
				t.Errorf("%s: --%s is taken, and changes nothing", name, flag)
			}
		}
	}
}

func refused(snap *v1.Snapshot, o v1.Options, flag string) bool {
	return slices.ContainsFunc(options.FindIgnored(snap, o), func(i options.Ignored) bool { return slices.Contains(i.Flags, flag) })
}

// content is what a plan does, without the options that it was made from.
func content(t *testing.T, p *v1.Plan) string {
	t.Helper()
	data, err := json.Marshal([]any{p.Steps, p.Facts})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
