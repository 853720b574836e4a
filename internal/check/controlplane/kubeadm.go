package controlplane

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
)

// kubeadmNames are the components as ClusterConfiguration calls them.
var kubeadmNames = map[string]string{"apiServer": component.KAS, "controllerManager": component.KCM}

// kubeadmFlags are the flags of which kubeadm-config must have what the manifests have, since a migration depends on
// them. The ones that kubeadm writes by itself (cluster-cidr, allocate-node-cidrs, cluster-name) are compared with the
// fields they come from.
var kubeadmFlags = []string{
	"cloud-provider",
	"cloud-config",
	"external-cloud-volume-plugin",
	"controllers",
	"configure-cloud-routes",
	"feature-gates",
	"cidr-allocator-type",
}

// kubeadmControllers is what kubeadm gives kube-controller-manager by default (cmd/kubeadm/app/phases/controlplane).
// That is every controller that is on by default, and the two that kubeadm join needs.
const kubeadmControllers = "*,bootstrapsigner,tokencleaner"

var kubeadmReverts = rule.Check{
	Code:      "CP-017",
	Reason:    "KubeadmWouldRevert",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "the cloud flags under extraArgs of ClusterConfiguration, which the manifests have differently",
	DependsOn: append([]string{"API-001"}, rule.OnHosts...),
	Judge:     judgeKubeadm,
}

func judgeKubeadm(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("kubeadm"); ok {
		return finding
	}
	const source, fix = "ConfigMap kube-system/kubeadm-config", "kubectl -n kube-system edit configmap kubeadm-config"
	switch {
	case f.Kubeadm == nil:
		return findings.Skip(
			"there is no kubeadm-config: kubeadm did not make this cluster, and what made it has to be told of the new flags",
		)
	case f.Kubeadm.Error != "":
		return findings.With(
			findings.Unknown("kubeadm-config cannot be read: %s", f.Kubeadm.Error),
			"a ClusterConfiguration",
			source,
			"kubectl -n kube-system get configmap kubeadm-config -o yaml",
		)
	}
	var bad findings.Problems
	type difference struct{ component, text string }
	where := map[difference][]string{} // hosts by what differs
	for _, section := range slices.Sorted(maps.Keys(kubeadmNames)) {
		for _, p := range f.InstancesOf(kubeadmNames[section]) {
			if p.RunKind() != v1.RunsStaticPod {
				continue
			}
			for _, complaint := range kubeadmComplaints(f, section, p) {
				one := difference{p.Name, p.Name + ": " + complaint}
				where[one] = append(where[one], p.Host.Name)
			}
		}
	}
	byText := func(a, b difference) int { return strings.Compare(a.text, b.text) }
	for _, one := range slices.SortedFunc(maps.Keys(where), byText) {
		bad.Add(one.component, "%s (%s)", one.text, findings.Few(where[one]))
	}
	if bad.Empty() {
		return findings.Pass("kubeadm-config has the cloud flags of the manifests")
	}
	return findings.With(
		bad.Some(
			v1.Warn,
			"the next kubeadm upgrade would change %s: %s",
			findings.Plural(len(bad), "cloud flag"),
			bad[0].Text,
		),
		"the same flags in kubeadm-config as in the manifests",
		source,
		fix,
	)
}

// kubeadmComplaints says in which flags kubeadm-config and a component differ.
func kubeadmComplaints(f facts.Facts, section string, p facts.Instance) []string {
	args := f.Kubeadm.ExtraArgs[section]
	var out []string
	for _, flag := range kubeadmFlags {
		have, given := p.Flags[flag]
		want, configured := args[flag]
		switch {
		case given == configured && (!given || isSameValue(flag, have, want)):
		case given && configured:
			out = append(out, fmt.Sprintf("--%s is %s in the manifest and %s in kubeadm-config", flag, findings.Short(have), findings.Short(want)))
		case configured:
			out = append(out, fmt.Sprintf("--%s=%s stands in kubeadm-config and not in the manifest", flag, findings.Short(want)))
		case flag != "controllers" || have != kubeadmControllers:
			out = append(out, fmt.Sprintf("--%s=%s stands in the manifest and not in kubeadm-config", flag, findings.Short(have)))
		}
	}
	if p.Name == component.KCM {
		out = append(out, kubeadmFields(f, p, args)...)
	}
	return out
}

// kubeadmFields says which flags kubeadm would write otherwise from fields of its own.
func kubeadmFields(f facts.Facts, p facts.Instance, args map[string]string) []string {
	var out []string
	for _, field := range []struct{ flag, want string }{{"cluster-name", f.Kubeadm.ClusterName}, {"cluster-cidr", f.Kubeadm.PodSubnet}} {
		have, given := p.Flags[field.flag]
		if _, extra := args[field.flag]; !extra && given && field.want != "" && have != field.want {
			out = append(
				out,
				fmt.Sprintf(
					"--%s is %s in the manifest, and kubeadm would write %s",
					field.flag,
					findings.Short(have),
					findings.Short(field.want),
				),
			)
		}
	}
	return out
}

// maxSorted bounds, in bytes, the lists that are sorted for a comparison, for each of the pods that may be there.
const maxSorted = 64 << 10

// isSameValue reports whether two values mean the same. The order of a list does not count where it means nothing.
func isSameValue(flag, a, b string) bool {
	if flag != "feature-gates" || len(a) != len(b) || len(a) > maxSorted {
		return a == b
	}
	return slices.Equal(sorted(strings.Split(a, ",")), sorted(strings.Split(b, ",")))
}
