package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/shell"
)

var kubeletUnknown = rule.Check{
	Code:      "KUBELET-001",
	Reason:    "KubeletUnknown",
	Category:  findings.CategoryKubelets,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactImagePulls,
	LookFor:   "the flags and the configuration file of the kubelet, and who may read them",
	DependsOn: rule.OnVolumes,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.Missing("nodes"); ok {
			return finding
		}
		if finding, ok := f.Missing(facts.KubeletFacts...); ok {
			return findings.With(
				finding,
				"flags and configuration of every kubelet that can be reached",
				"hosts",
				"systemctl cat kubelet",
			)
		}
		if finding, none := f.NoKubelets(); none {
			return finding
		}
		for _, h := range f.Hosts {
			if h.Kubelet != nil && h.Kubelet.Error != "" {
				return findings.With(
					findings.Unknown("the kubelet of host %s: %s", h.Name, h.Kubelet.Error),
					"its flags",
					h.Name+":"+h.Kubelet.Source,
					"systemctl cat kubelet   # on host "+shell.Quote(h.Name),
				)
			}
		}
		unseen := f.Unseen()
		isUnseen := make(map[string]bool, len(unseen))
		for _, n := range unseen {
			isUnseen[n] = true
		}
		var bad findings.Problems
		for _, n := range f.Nodes {
			switch mounts := facts.InTreeMounts(f, n); {
			case !isUnseen[n.Name]:
			case len(n.Registries) > 0:
				bad.Add(n.Name, "%s has images from %s", n.Name, findings.Few(n.Registries))
			case len(mounts) > 0:
				bad.Add(n.Name, "%s has volumes of %s mounted", n.Name, mounts[0].Name)
			}
		}
		if len(unseen) == 0 {
			return findings.Pass("%s read on the hosts", findings.HowMany(len(f.Kubelets()), "the kubelet was", "kubelets were"))
		}
		if bad.Empty() {
			return findings.Pass(
				"%d of %s were read; the others (%d) have no image of the cloud's registry and no in-tree volume",
				len(f.Kubelets()),
				findings.Plural(len(f.Nodes), component.Kubelet),
				len(unseen),
			)
		}
		return findings.With(
			bad.Some(
				v1.Warn,
				"%s not read, and they depend on the in-tree provider",
				findings.HowMany(len(bad), "1 kubelet was", "kubelets were"),
			),
			"access to the hosts of these nodes",
			"hosts",
			facts.HostAccess,
		)
	},
}

// decisive are the flags of a kubelet that a migration depends on.
var decisive = []string{
	"cloud-config",
	"cloud-provider",
	"config",
	"feature-gates",
	"hostname-override",
	"image-credential-provider-bin-dir",
	"image-credential-provider-config",
	"node-ip",
	"provider-id",
}

var kubeletNotCurrent = rule.Check{
	Code:      "KUBELET-002",
	Reason:    "KubeletNotCurrent",
	Category:  findings.CategoryKubelets,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "whether the process of the kubelet is there, and with which flags",
	DependsOn: rule.OnVolumes,
	Judge:     judgeKubeletCurrent,
}

func judgeKubeletCurrent(f facts.Facts) v1.Finding {
	if finding, none := f.NoKubelets(); none {
		return finding
	}
	if finding, ok := f.Missing("hosts/*/kubelet-process"); ok {
		return finding
	}
	var failing, warning findings.Problems
	var unseen []string
	kubelets := f.Kubelets()
	for _, k := range kubelets {
		if k.Process == nil {
			unseen = append(unseen, k.String())
			continue
		}
		for _, flag := range decisive {
			values, _ := k.Running(flag)
			last := ""
			if len(values) > 0 {
				last = values[len(values)-1]
			}
			switch distinct := slices.Compact(slices.Clone(values)); {
			case last != k.Flags[flag]:
				failing.Add(k.String(), "%s runs with --%s=%q, and %s says %q", k, flag, last, k.FlagSource(flag), k.Flags[flag])
			case len(distinct) > 1 && flag != "feature-gates":
				warning.Add(
					k.String(),
					"%s is given --%s %d times (%s); %s counts",
					k,
					flag,
					len(values),
					strings.Join(values, ", "),
					k.FlagSource(flag),
				)
			}
		}
	}
	all, outcome, bad := findings.Worst(failing, warning)
	const expected = "process and files with the same flags"
	switch {
	case bad && outcome == v1.Fail:
		return findings.With(
			all.Some(
				outcome,
				"%s would change with its next restart: %s",
				findings.HowMany(len(failing), "1 flag of a kubelet", "flags of kubelets"),
				failing[0].Text,
			),
			expected,
			"/proc and the kubelets' files",
			"systemctl show kubelet -p ExecStart,EnvironmentFiles   # on host "+facts.HostIn(all[0].Object),
		)
	case len(unseen) == len(kubelets):
		return findings.Skip("the hosts show no process of a kubelet")
	case len(unseen) > 0:
		return findings.With(
			findings.Unknown("%s shows no process", findings.Few(unseen)),
			expected,
			"/proc on the hosts",
			"pgrep -a kubelet   # on host "+facts.HostIn(unseen[0]),
		)
	case bad:
		return findings.With(
			all.Some(outcome, "%s", warning[0].Text),
			"each flag in one place",
			"/proc on the hosts",
			"systemctl show kubelet -p ExecStart,EnvironmentFiles   # on host "+facts.HostIn(all[0].Object),
		)
	}
	return findings.Pass("%s with the flags of their files", findings.HowMany(len(kubelets), "1 kubelet runs", "kubelets run"))
}

var kubeletsMixed = rule.Check{
	Code:      "KUBELET-003",
	Reason:    "KubeletsMixed",
	Category:  findings.CategoryKubelets,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "--cloud-provider in the arguments of the process",
	DependsOn: rule.OnVolumes,
	Judge:     judgeKubeletsMixed,
}

func judgeKubeletsMixed(f facts.Facts) v1.Finding {
	if finding, none := f.NoKubelets(); none {
		return finding
	}
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	cloud := f.CloudName()
	var failing, warning findings.Problems
	count := map[string]int{}
	for _, k := range f.Kubelets() {
		count[findings.OrElse(k.Provider(), "none")]++
		if complaint := fault(k, cloud); complaint != "" {
			failing.Add(k.String(), "%s: %s", k, complaint)
		} else if complaint := providerWarning(k, f.Stage()); complaint != "" {
			warning.Add(k.String(), "%s %s", k, complaint)
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%d with %s", count[name], name))
	}
	all, outcome, bad := findings.Worst(failing, warning)
	if !bad {
		if n := len(f.Unseen()); n > 0 {
			parts = append(parts, fmt.Sprintf("%d not read", n))
		}
		return findings.Pass("kubelets: %s", strings.Join(parts, ", "))
	}
	first := all[0].Object
	return findings.With(
		all.Some(outcome, "kubelets: %s; %s", strings.Join(parts, ", "), all[0].Text),
		"--cloud-provider="+findings.OrElse(cloud, "<the managers' provider>")+", or external once the managers are",
		"the kubelets' flags and versions",
		"ps -C kubelet -o args=   # on host "+facts.HostIn(first),
	)
}

// fault says why a kubelet would not start again, or not for this cloud; empty when it would.
func fault(k facts.Kubelet, cloud string) string {
	name := k.Provider()
	minor, known := k.Minor()
	switch {
	case k.InTree() && cloud != "" && name != cloud:
		return fmt.Sprintf("it names %s, and the managers %s", name, cloud)
	case !known:
		return ""
	case !accepts(k, minor).Starts:
		return accepts(k, minor).Why
	case contradicts(k, minor) != "":
		return fmt.Sprintf("it names %s, and %s in 1.%d", name, contradicts(k, minor), minor)
	}
	return ""
}

// providerWarning says what is unusual about a kubelet's provider at a stage of the migration; empty when nothing is.
func providerWarning(k facts.Kubelet, at facts.Stage) string {
	name := k.Provider()
	minor, _ := k.Minor()
	provider, _ := cloudprovider.Lookup(name)
	switch {
	case name == "" && at == facts.StageInTree:
		return "has no --cloud-provider"
	case name == facts.External && at == facts.StageInTree:
		return "is external before the managers are"
	case k.InTree() && at == facts.StageExternal && minor == provider.LastInTree:
		return "is still in-tree, in the last version that has " + name
	}
	return ""
}

// accepts reports whether a kubelet of a minor starts with the provider that it names.
func accepts(k facts.Kubelet, minor int) catalogue.Acceptance {
	return catalogue.Accepts(component.Kubelet, k.Provider(), minor)
}

// contradicts names a gate that keeps the kubelet from starting with its provider; empty when none does.
func contradicts(k facts.Kubelet, minor int) string {
	for _, g := range accepts(k, minor).Gates {
		if facts.Effective(g.Gate, k.Gates(), minor) != g.Value {
			return fmt.Sprintf("%s is %s", g.Gate, gateWord(!g.Value))
		}
	}
	return ""
}

func gateWord(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

var kubeletRefused = rule.Check{
	Code:      "KUBELET-006",
	Reason:    "KubeletFlagRefused",
	Category:  findings.CategoryKubelets,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "the flag or gate that the finding names",
	DependsOn: rule.OnVolumes,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, none := f.NoKubelets(); none {
			return finding
		}
		var failing, warning findings.Problems
		var unclear []string
		for _, k := range f.Kubelets() {
			minor, ok := k.Minor()
			if !ok {
				unclear = append(unclear, k.String())
				continue
			}
			now, next := facts.Refusals(asInstance(k), minor), refusedNext(k, minor+1)
			switch {
			case len(now) > 0:
				failing.Add(k.String(), "%s: 1.%d does not take %s", k, minor, strings.Join(now, ", "))
			case len(next) > 0:
				warning.Add(k.String(), "%s: 1.%d does not take %s", k, minor+1, strings.Join(next, ", "))
			}
		}
		all, outcome, bad := findings.Worst(failing, warning)
		const expected, source = "flags and gates that the version knows", "the kubelets' flags and configuration"
		switch {
		case bad && outcome == v1.Warn && len(unclear) == 0:
			return findings.With(
				all.Some(
					outcome,
					"%s in the next version",
					findings.HowMany(len(all), "1 kubelet would not start", "kubelets would not start"),
				),
				expected,
				source,
				"systemctl cat kubelet   # on host "+facts.HostIn(all[0].Object),
			)
		case bad && outcome == v1.Fail:
			return findings.With(
				all.Some(
					outcome,
					"%s again",
					findings.HowMany(len(failing), "1 kubelet would not start", "kubelets would not start"),
				),
				expected,
				source,
				"systemctl cat kubelet   # on host "+facts.HostIn(all[0].Object),
			)
		case len(unclear) > 0:
			return findings.Unknown("the version of %s is not known", findings.Few(unclear))
		}
		return findings.Pass(
			"the flags and gates of %s are known to their version and the next",
			findings.Plural(len(f.Kubelets()), component.Kubelet),
		)
	},
}

// refusedNext is what the next minor refuses. The gates that an in-tree kubelet needs to be in-tree are left out: it
// has no next minor, and they go with the migration.
func refusedNext(k facts.Kubelet, minor int) []string {
	refused := facts.Refusals(asInstance(k), minor)
	if !k.InTree() {
		return refused
	}
	return slices.DeleteFunc(refused, func(r string) bool {
		return strings.Contains(r, catalogue.DisableCloudProviders) ||
			strings.Contains(r, catalogue.DisableKubeletCloudCredentialProviders)
	})
}

// asInstance is the kubelet in the form of a control-plane component, with all its gates in one flag.
func asInstance(k facts.Kubelet) facts.Instance {
	flags := maps.Clone(k.Flags)
	var gates []string
	for name, on := range k.Gates() {
		gates = append(gates, fmt.Sprintf("%s=%t", name, on))
	}
	slices.Sort(gates)
	if len(gates) > 0 {
		if flags == nil {
			flags = map[string]string{}
		}
		flags["feature-gates"] = strings.Join(gates, ",")
	}
	return facts.Instance{Component: v1.Component{Name: component.Kubelet, Flags: flags}, Host: k.Host}
}
