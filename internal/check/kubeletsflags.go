package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

// hostAccess is the command that reads kubelets.
const hostAccess = "transplant check --host-access=local:<directory of hosts>"

// kubeletFacts are the facts about kubelets without which KUBELET-001 is unknown. It reports why they are, so that one cause is one line.
var kubeletFacts = []string{"hosts/*/kubelet", "hosts/*/kubelet-config"}

// noKubelets is the finding where no kubelet can be judged; false when some can.
func (f facts) noKubelets() (v1.Finding, bool) {
	if _, missing := f.missing(kubeletFacts...); missing {
		return dependent("KUBELET-001"), true
	}
	if len(f.kubelets()) == 0 {
		return skip("no kubelet was read: none of the hosts that can be reached has one (%s)", hostAccess), true
	}
	return v1.Finding{}, false
}

var kubeletUnknown = Check{
	Code: "KUBELET-001", Reason: "KubeletUnknown", Category: categoryKubelets, Level: LevelWarning, Impact: ImpactImagePulls, DependsOn: onVolumes,
	Title: "the kubelets that a migration matters to were read on their hosts",
	Explain: []string{
		"Whether a kubelet is in-tree or external is a flag of its command line: the API shows it nowhere, /configz neither, and annotations of machine objects say what was meant and not what runs. So it is read on the host: the " +
			"unit, its drop-ins and environment files, and the live process.",
		"A plan changes kubelets only on hosts that can be reached. The others are the owner's to change, by image, user data or configuration management, and this check names those for which it matters: nodes with " +
			"images of a registry that needs the cloud's credentials, or with volumes mounted in-tree.",
	},
	judge: func(f facts) v1.Finding {
		if finding, ok := f.missing("nodes"); ok {
			return finding
		}
		if finding, ok := f.missing(kubeletFacts...); ok {
			return with(finding, "flags and configuration of every kubelet that can be reached", "hosts", "systemctl cat kubelet")
		}
		if finding, none := f.noKubelets(); none {
			return finding
		}
		for _, h := range f.Hosts {
			if h.Kubelet != nil && h.Kubelet.Error != "" {
				return with(unknown("the kubelet of host %s: %s", h.Name, h.Kubelet.Error), "its flags", h.Name+":"+h.Kubelet.Source, "systemctl cat kubelet   # on host "+h.Name)
			}
		}
		unseen := f.unseen()
		isUnseen := make(map[string]bool, len(unseen))
		for _, n := range unseen {
			isUnseen[n] = true
		}
		var bad complaints
		for _, n := range f.Nodes {
			switch mounts := f.inTreeMounts(n); {
			case !isUnseen[n.Name]:
			case len(n.Registries) > 0:
				bad.add(n.Name, "%s has images from %s", n.Name, few(n.Registries))
			case len(mounts) > 0:
				bad.add(n.Name, "%s has volumes of %s mounted", n.Name, mounts[0].Name)
			}
		}
		if len(unseen) == 0 {
			return pass("%s read on the hosts", howMany(len(f.kubelets()), "the kubelet was", "kubelets were"))
		}
		if bad.empty() {
			return pass("%d of %s were read; the others (%d) have no image of the cloud's registry and no in-tree volume", len(f.kubelets()), plural(len(f.Nodes), "kubelet"), len(unseen))
		}
		return with(bad.some(v1.Warn, "%s not read, and they depend on the in-tree provider", howMany(len(bad.lines), "1 kubelet was", "kubelets were")), "access to the hosts of these nodes",
			"hosts", hostAccess)
	},
}

// decisive are the flags of a kubelet that a migration depends on.
var decisive = []string{
	"cloud-config", "cloud-provider", "config", "feature-gates", "hostname-override", "image-credential-provider-bin-dir", "image-credential-provider-config", "node-ip", "provider-id",
}

var kubeletNotCurrent = Check{
	Code: "KUBELET-002", Reason: "KubeletNotCurrent", Category: categoryKubelets, Level: LevelError, Impact: ImpactNodeJoin, DependsOn: onVolumes,
	Title: "every kubelet runs with what its files say, and each flag is given in one place",
	Explain: []string{
		"A kubelet takes its flags from a unit, drop-ins and environment files when it starts. Files that were edited later mean nothing until its next restart, which a migration brings, together with whatever else was " +
			"edited. So a kubelet whose process has other decisive flags than its files is a change that nobody has tried yet.",
		"A flag that is given several times counts with its last value: kubeadm-flags.env, then KUBELET_EXTRA_ARGS. A plan edits the place that counts; that two places contradict each other is a warning.",
	},
	judge: judgeKubeletCurrent,
}

func judgeKubeletCurrent(f facts) v1.Finding {
	if finding, none := f.noKubelets(); none {
		return finding
	}
	if finding, ok := f.missing("hosts/*/kubelet-process"); ok {
		return finding
	}
	var failing, warning complaints
	var unseen []string
	kubelets := f.kubelets()
	for _, k := range kubelets {
		if k.Process == nil {
			unseen = append(unseen, k.String())
			continue
		}
		for _, flag := range decisive {
			values, _ := k.running(flag)
			last := ""
			if len(values) > 0 {
				last = values[len(values)-1]
			}
			switch distinct := slices.Compact(slices.Clone(values)); {
			case last != k.Flags[flag]:
				failing.add(k.String(), "%s runs with --%s=%q, and %s says %q", k, flag, last, k.source(flag), k.Flags[flag])
			case len(distinct) > 1 && flag != "feature-gates":
				warning.add(k.String(), "%s is given --%s %d times (%s); %s counts", k, flag, len(values), strings.Join(values, ", "), k.source(flag))
			}
		}
	}
	all, outcome, bad := worst(&failing, &warning)
	const expected = "process and files with the same flags"
	switch {
	case bad && outcome == v1.Fail:
		return with(all.some(outcome, "%s would change with its next restart: %s", howMany(len(failing.lines), "1 flag of a kubelet", "flags of kubelets"), failing.lines[0]), expected, "/proc and the kubelets' files",
			"systemctl show kubelet -p ExecStart,EnvironmentFiles   # on host "+hostIn(all.objects[0]))
	case len(unseen) == len(kubelets):
		return skip("the hosts show no process of a kubelet")
	case len(unseen) > 0:
		return with(unknown("%s shows no process", few(unseen)), expected, "/proc on the hosts", "pgrep -a kubelet   # on host "+hostIn(unseen[0]))
	case bad:
		return with(all.some(outcome, "%s", warning.lines[0]), "each flag in one place", "/proc on the hosts", "systemctl show kubelet -p ExecStart,EnvironmentFiles   # on host "+hostIn(all.objects[0]))
	}
	return pass("%s with what their files say", howMany(len(kubelets), "1 kubelet runs", "kubelets run"))
}

func hostIn(placed string) string { return placed[strings.Index(placed, "@")+1:] }

var kubeletsMixed = Check{
	Code: "KUBELET-003", Reason: "KubeletsMixed", Category: categoryKubelets, Level: LevelError, Impact: ImpactNodeJoin, DependsOn: onVolumes,
	Title: "all kubelets name one provider, the managers' own, and their version has it",
	Explain: []string{
		"While the loops are in-tree, an external kubelet that registers a new Node taints it, and nobody takes the taint away. A kubelet without provider gives its Node no providerID, so that the new manager has to search " +
			"it by name. A restart of a kubelet whose Node exists changes nothing of that: taint, providerID and labels are set at registration only.",
		"A kubelet that names a provider which its version has no longer, or which the gate DisableCloudProviders switches off, exits at its next start.",
		"After the migration in-tree kubelets go on working as long as their version has the provider: a warning says which are left.",
	},
	judge: judgeKubeletsMixed,
}

func judgeKubeletsMixed(f facts) v1.Finding {
	if finding, none := f.noKubelets(); none {
		return finding
	}
	if finding, ok := f.missing("nodes"); ok {
		return finding
	}
	cloud := f.cloudName()
	var failing, warning complaints
	count := map[string]int{}
	for _, k := range f.kubelets() {
		count[orElse(k.provider(), "none")]++
		if complaint := k.fault(cloud); complaint != "" {
			failing.add(k.String(), "%s: %s", k, complaint)
		} else if complaint := k.oddity(f.stage()); complaint != "" {
			warning.add(k.String(), "%s %s", k, complaint)
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%d with %s", count[name], name))
	}
	all, outcome, bad := worst(&failing, &warning)
	if !bad {
		if n := len(f.unseen()); n > 0 {
			parts = append(parts, fmt.Sprintf("%d not read", n))
		}
		return pass("kubelets: %s", strings.Join(parts, ", "))
	}
	first := all.objects[0]
	return with(all.some(outcome, "kubelets: %s; %s", strings.Join(parts, ", "), all.lines[0]), "--cloud-provider="+orElse(cloud, "<the managers' provider>")+", or external once the managers are", "the kubelets' flags and versions",
		"ps -C kubelet -o args=   # on host "+hostIn(first))
}

// fault says why a kubelet would not start again, or not for this cloud; empty when it would.
func (k kubelet) fault(cloud string) string {
	name := k.provider()
	minor, known := k.minor()
	switch {
	case k.inTree() && cloud != "" && name != cloud:
		return fmt.Sprintf("it names %s, and the managers %s", name, cloud)
	case !known:
		return ""
	case !k.accepts(minor).Starts:
		return k.accepts(minor).Why
	case k.contradicts(minor) != "":
		return fmt.Sprintf("it names %s, and %s in 1.%d", name, k.contradicts(minor), minor)
	}
	return ""
}

// oddity says what is unusual about a kubelet's provider at a stage of the migration; empty when nothing is.
func (k kubelet) oddity(at stage) string {
	name := k.provider()
	minor, _ := k.minor()
	provider, _ := catalogue.Lookup(name)
	switch {
	case name == "" && at == stageInTree:
		return "has no --cloud-provider"
	case name == external && at == stageInTree:
		return "is external before the managers are"
	case k.inTree() && at == stageExternal && minor == provider.LastInTree:
		return "is still in-tree, in the last version that has " + name
	}
	return ""
}

// accepts tells whether a kubelet of a minor starts with the provider that it names.
func (k kubelet) accepts(minor int) catalogue.Acceptance {
	return catalogue.Accepts("kubelet", k.provider(), minor)
}

// contradicts names a gate that keeps the kubelet from starting with its provider; empty when none does.
func (k kubelet) contradicts(minor int) string {
	for _, g := range k.accepts(minor).Gates {
		if effective(g.Gate, k.gates(), minor) != g.Value {
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

var kubeletRefused = Check{
	Code: "KUBELET-006", Reason: "KubeletFlagRefused", Category: categoryKubelets, Level: LevelError, Impact: ImpactNodeJoin, DependsOn: onVolumes,
	Title: "every kubelet starts again with its flags and gates, in its version and the next",
	Explain: []string{
		"A kubelet exits at start when it is given a flag or a feature gate that its version does not know, or a locked gate's other value. A migration restarts every kubelet, and the upgrade after it brings the next version: " +
			"--cloud-config and --cloud-provider lose their meaning and then their place, gates of KEP-625 and KEP-2395 disappear once they are locked.",
		"What this version refuses fails; what only the next one refuses is a warning: take it away before that upgrade, from the kubelets' files and from ConfigMap kubelet-config.",
	},
	judge: func(f facts) v1.Finding {
		if finding, none := f.noKubelets(); none {
			return finding
		}
		var failing, warning complaints
		var unclear []string
		for _, k := range f.kubelets() {
			minor, ok := k.minor()
			if !ok {
				unclear = append(unclear, k.String())
				continue
			}
			now, next := refusals(k.component(), minor), k.refusedNext(minor+1)
			switch {
			case len(now) > 0:
				failing.add(k.String(), "%s: 1.%d does not take %s", k, minor, strings.Join(now, ", "))
			case len(next) > 0:
				warning.add(k.String(), "%s: 1.%d does not take %s", k, minor+1, strings.Join(next, ", "))
			}
		}
		all, outcome, bad := worst(&failing, &warning)
		const expected, source = "flags and gates that the version knows", "the kubelets' flags and configuration"
		switch {
		case bad && outcome == v1.Warn && len(unclear) == 0:
			return with(all.some(outcome, "%s in the next version", howMany(len(all.lines), "1 kubelet would not start", "kubelets would not start")), expected, source, "systemctl cat kubelet   # on host "+hostIn(all.objects[0]))
		case bad && outcome == v1.Fail:
			return with(all.some(outcome, "%s again", howMany(len(failing.lines), "1 kubelet would not start", "kubelets would not start")), expected, source, "systemctl cat kubelet   # on host "+hostIn(all.objects[0]))
		case len(unclear) > 0:
			return unknown("the version of %s is not known", few(unclear))
		}
		return pass("the flags and gates of %s are known to their version and the next", plural(len(f.kubelets()), "kubelet"))
	},
}

// refusedNext is what the next minor refuses. The gates that an in-tree kubelet needs to be in-tree are left out: it has no next minor, and they go with
// the migration.
func (k kubelet) refusedNext(minor int) []string {
	refused := refusals(k.component(), minor)
	if !k.inTree() {
		return refused
	}
	return slices.DeleteFunc(refused, func(r string) bool {
		return strings.Contains(r, catalogue.DisableCloudProviders) || strings.Contains(r, catalogue.DisableKubeletCloudCredentialProviders)
	})
}

// component is the kubelet in the form of a control-plane component, with all its gates in one flag.
func (k kubelet) component() placed {
	flags := maps.Clone(k.Flags)
	var gates []string
	for name, on := range k.gates() {
		gates = append(gates, fmt.Sprintf("%s=%t", name, on))
	}
	slices.Sort(gates)
	if len(gates) > 0 {
		if flags == nil {
			flags = map[string]string{}
		}
		flags["feature-gates"] = strings.Join(gates, ",")
	}
	return placed{Component: v1.Component{Name: "kubelet", Flags: flags}, host: k.host}
}
