package external

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/upgrade"
)

// MakeAPIServerExternal removes the provider from a host's kube-apiserver, where it has one.
func MakeAPIServerExternal(d *draft.Draft, h v1.Host, phase string) {
	api := d.ComponentAfter(h, component.KAS)
	edits := upgrade.AddEdits(d, api, APIServerEdits(d, api))
	if len(edits) == 0 {
		return
	}
	why := "removes the provider from the API server (labels of persistent volumes); no manager that owns a loop depends on it now"
	if d.Upgrade.IsWanted() {
		why = "no manager may be newer than the API server that it talks to, so the API servers come first; " + why
	}
	d.Add(d.EditComponent(h, api, v1.Step{
		ID:    "external/" + component.KAS + "@" + h.Name,
		Phase: phase,
		Title: upgrade.StepTitle(d.Upgrade, component.KAS, h.Name, edits),
		Why:   why,
		Group: phase + "@" + h.Name,
		Edits: edits,
	}))
}

// APIServerEdits returns the edits that remove the provider from a kube-apiserver.
func APIServerEdits(d *draft.Draft, api *v1.Component) []v1.Edit {
	var edits []v1.Edit
	n, err := d.MinorAfterUpgrade(api)
	if err != nil {
		n = d.APIMinor
	}
	if api.Flags["cloud-provider"] == d.Provider.Name {
		edits = append(edits, v1.Edit{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"})
		if f, held := catalogue.FlagAt(component.KAS, "cloud-provider", n); held && !f.Known {
			edits[0] = v1.Edit{Op: v1.EditUnsetFlag, Name: "cloud-provider"}
		}
		if _, ok := api.Flags[flagvalue.FlagCloudConfig]; ok {
			edits = append(edits, v1.Edit{Op: v1.EditUnsetFlag, Name: flagvalue.FlagCloudConfig})
		}
	}
	plugins := flagvalue.SplitList(api.Flags["enable-admission-plugins"])
	if slices.Contains(plugins, flagvalue.PluginPVLabels) {
		rest := slices.DeleteFunc(plugins, func(p string) bool { return p == flagvalue.PluginPVLabels })
		if len(rest) == 0 {
			edits = append(edits, v1.Edit{Op: v1.EditUnsetFlag, Name: "enable-admission-plugins"})
		} else {
			edits = append(edits, v1.Edit{Op: v1.EditSetFlag, Name: "enable-admission-plugins", Value: strings.Join(rest, ",")})
		}
	}
	// From 1.29 on it compares both gates with --cloud-provider and does not start when they disagree, though it has no
	// kubelet in it.
	return append(
		edits,
		flagvalue.EditGates(
			api.Flags[flagvalue.FlagFeatureGates],
			component.KAS,
			n,
			flagvalue.DropInTreeGates(
				api.Flags[flagvalue.FlagFeatureGates],
				d.Options.DisableInTree && len(edits) > 0, // it is not restarted for that alone
				catalogue.DisableCloudProviders,
				catalogue.DisableKubeletCloudCredentialProviders,
			),
		)...)
}

// UpgradeAPIServers gives the API servers their new version before the first manager is stopped, the owner's last. The
// engine moves the owner away from an API server before it restarts it.
func UpgradeAPIServers(d *draft.Draft) {
	if !d.Upgrade.IsWanted() {
		return
	}
	for _, h := range d.Hosts {
		MakeAPIServerExternal(d, h, planstep.PhaseServers)
	}
}
