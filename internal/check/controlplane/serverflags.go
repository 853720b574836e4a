package controlplane

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
)

var flagsContradict = rule.Check{
	Code:      "CP-014",
	Reason:    "CloudFlagsContradict",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelError,
	Impact:    findings.ImpactVolumes,
	LookFor:   "a --cloud-provider or --cloud-config that differs between the hosts or the components",
	DependsOn: rule.OnHosts,
	Judge:     judgeContradictions,
}

func judgeContradictions(f facts.Facts) v1.Finding {
	var bad findings.Problems
	for _, p := range f.InstancesOf(component.KCM) {
		for _, complaint := range volumePluginComplaints(f, p) {
			bad.Add(p.String(), "%s: %s", p, complaint)
		}
	}
	plugins := len(bad)
	serverComplaints(f, &bad)
	const expected, source = "one provider, and --external-cloud-volume-plugin only with --cloud-provider=external and --cloud-config", "manifests of " + component.KAS + " and " + component.KCM
	switch {
	case bad.Empty() && len(f.InstancesOf(component.KAS))+len(f.InstancesOf(component.KCM)) == 0:
		return findings.Unknown("neither %s nor %s was found", component.KAS, component.KCM)
	case bad.Empty():
		return findings.Pass(
			"the cloud flags of %s and %s agree",
			findings.Plural(len(f.InstancesOf(component.KAS)), component.KAS),
			findings.Plural(len(f.InstancesOf(component.KCM)), component.KCM),
		)
	case f.Opts.InProgress && plugins == 0:
		return findings.With(
			bad.Finding(v1.Warn, "the unfinished migration has moved some components and others not yet"),
			expected,
			source,
			"transplant apply",
		)
	}
	return findings.With(
		bad.Some(v1.Fail, "%s", bad[0].Text),
		expected,
		source,
		"grep -n cloud- /etc/kubernetes/manifests/kube-*.yaml   # on each host named",
	)
}

// serverComplaints says which API servers name another provider than the managers.
func serverComplaints(f facts.Facts, bad *findings.Problems) {
	provider, inTree := f.Provider(), map[string]bool{}
	for _, p := range f.InTree() {
		inTree[p.Host.Name] = true
	}
	for _, p := range f.InstancesOf(component.KAS) {
		own := p.Flag("cloud-provider", "")
		switch {
		case own == "" || own == "external" && !inTree[p.Host.Name]:
		case own == "external":
			bad.Add(p.String(), "%s is external while %s of the same host is in-tree", p, component.KCM)
		case f.Stage() == facts.StageExternal:
			bad.Add(p.String(), "%s names %s although every %s is external", p, own, component.KCM)
		case provider != "" && own != provider:
			bad.Add(p.String(), "%s names %s, and %s names %s", p, own, component.KCM, provider)
		}
	}
}

// volumePluginComplaints says what is wrong with --external-cloud-volume-plugin of a kube-controller-manager.
func volumePluginComplaints(f facts.Facts, p facts.Instance) []string {
	plugin := p.Flag("external-cloud-volume-plugin", "")
	if plugin == "" {
		return nil
	}
	var out []string
	if v := p.Flag("cloud-provider", ""); v != "external" {
		out = append(out, "--external-cloud-volume-plugin="+plugin+" has no effect with --cloud-provider="+v)
	}
	if named, _ := cloudprovider.Lookup(
		plugin,
	); p.Flag("cloud-config", "") == "" &&
		(!named.ConfigOptional || cloudConfigBefore(f, p) != "") {
		out = append(
			out,
			"--external-cloud-volume-plugin="+plugin+" without --cloud-config: the volume code does not know its zone and network",
		)
	}
	known, ok := cloudprovider.Lookup(plugin)
	minor, versioned := f.MinorOf(p)
	switch {
	case !ok:
		out = append(out, fmt.Sprintf("--external-cloud-volume-plugin names %q, which no version has in tree", plugin))
	case versioned && minor > known.LastInTree:
		out = append(
			out,
			fmt.Sprintf(
				"--external-cloud-volume-plugin=%s in 1.%d: %s left after 1.%d",
				plugin,
				minor,
				plugin,
				known.LastInTree,
			),
		)
	}
	return out
}

var sshTunnels = rule.Check{
	Code:      "CP-015",
	Reason:    "SSHTunnels",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelError,
	Impact:    findings.ImpactAPI,
	LookFor:   "--ssh-user and --ssh-keyfile, which the konnectivity service replaces",
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		var bad findings.Problems
		selectors := 0
		for _, p := range f.InstancesOf(component.KAS) {
			if p.Flag("egress-selector-config-file", "") != "" {
				selectors++
			}
			if p.Flag("ssh-user", "") != "" || p.Flag("ssh-keyfile", "") != "" {
				bad.Add(p.String(), "%s has --ssh-user=%s --ssh-keyfile=%s", p, p.Flag("ssh-user", ""), p.Flag("ssh-keyfile", ""))
			}
		}
		switch {
		case len(f.InstancesOf(component.KAS)) == 0:
			return findings.Unknown("no %s was found", component.KAS)
		case !bad.Empty():
			return findings.With(
				bad.Finding(
					v1.Fail,
					"%s the nodes through SSH tunnels of the cloud provider",
					findings.Counting(len(bad), component.KAS, "reaches", "reach"),
				),
				"--egress-selector-config-file, or a network in which the API servers reach the nodes",
				"manifests of "+component.KAS,
				"grep -n 'ssh-\\|egress-selector' /etc/kubernetes/manifests/"+component.KAS+".yaml   # https://kubernetes.io/docs/tasks/extend-kubernetes/setup-konnectivity/",
			)
		case selectors > 0:
			return findings.Pass("%s reach the nodes through an egress selector", findings.Plural(selectors, component.KAS))
		}
		return findings.Pass(
			"%s reach the nodes without SSH tunnels",
			findings.Plural(len(f.InstancesOf(component.KAS)), component.KAS),
		)
	},
}

var nodeRestriction = rule.Check{
	Code:      "CP-019",
	Reason:    "NodeRestrictionOff",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactNone,
	LookFor:   "the admission plugin that the finding names, switched on or off",
	DependsOn: rule.OnHosts,
	Judge:     judgeNodeRestriction,
}

func judgeNodeRestriction(f facts.Facts) v1.Finding {
	const plugin = "NodeRestriction"
	servers := f.InstancesOf(component.KAS)
	if len(servers) == 0 {
		return findings.Skip("no %s was found whose flags could say it", component.KAS)
	}
	var bad findings.Problems
	for _, p := range servers {
		switch {
		case hasPlugin(p, "disable-admission-plugins", plugin):
			bad.Add(p.String(), "%s has %s in --disable-admission-plugins", p, plugin)
		case !hasPlugin(p, "enable-admission-plugins", plugin) && !hasPlugin(p, "admission-control", plugin):
			bad.Add(p.String(), "%s has no %s in --enable-admission-plugins", p, plugin)
		}
	}
	if bad.Empty() {
		return findings.Pass("%s with admission plugin %s", findings.Counting(len(servers), component.KAS, "runs", "run"), plugin)
	}
	return findings.With(
		bad.Finding(
			v1.Warn,
			"%s without admission plugin %s: each kubelet may label its own Node as control plane",
			findings.Counting(len(bad), component.KAS, "runs", "run"),
			plugin,
		),
		"--enable-admission-plugins with "+plugin,
		"manifests of "+component.KAS,
		"grep -n admission-plugins /etc/kubernetes/manifests/"+component.KAS+".yaml   # on each host named",
	)
}

// hasPlugin reports whether a list of admission plugins names one.
func hasPlugin(p facts.Instance, flag, plugin string) bool {
	return slices.ContainsFunc(
		strings.Split(p.Flag(flag, ""), ","),
		func(name string) bool { return strings.TrimSpace(name) == plugin },
	)
}
