// Package controlplane decides whether the control plane's components agree with each other and with themselves: flags,
// pods, processes, kubeadm's record, other managers. It also decides which strategy fits.
package controlplane

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
)

// components are the control-plane programs in reporting order.
var components = []string{component.KAS, component.KCM, component.Scheduler, component.CCM}

// ownFlags are flags whose values belong to a host: addresses, names and files that kubeadm writes for each.
var ownFlags = map[string]bool{
	"address":           true,
	"advertise-address": true,
	"bind-address":      true,
	"hostname-override": true,
	"node-ip":           true,
	"etcd-servers":      true,
	"external-hostname": true,
	"apiserver-count":   true,
}

var hostsDiffer = rule.Check{
	Code:      "CP-008",
	Reason:    "HostsDiffer",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactAPI,
	LookFor:   "the flag or variable that the finding names, under the components of each host",
	DependsOn: rule.OnHosts,
	Judge:     judgeHostsDiffer,
}

func judgeHostsDiffer(f facts.Facts) v1.Finding {
	var bad findings.Problems
	n := 0
	for _, name := range components {
		all := f.InstancesOf(name)
		if f.Opts.InProgress {
			all = slices.DeleteFunc(
				slices.Clone(all),
				func(p facts.Instance) bool { return name == component.KCM && p.External() },
			)
		}
		n += len(all)
		for _, flag := range flagNames(all) {
			if name == component.KCM && slices.Contains(cloudFlags, flag) || ownFlags[flag] {
				continue
			}
			if values, differ := byValue(all, func(p facts.Instance) string { return p.Flag(flag, "(not given)") }); differ {
				bad.Add(name, "%s --%s: %s", name, flag, values)
			}
		}
		if values, differ := byValue(
			all,
			func(p facts.Instance) string { return findings.OrElse(strings.Join(sorted(p.EnvNames), " "), "(none)") },
		); differ {
			bad.Add(name, "%s environment: %s", name, values)
		}
	}
	if bad.Empty() {
		return findings.Pass("the flags and environment of %s are the same on every host", findings.Plural(n, "component"))
	}
	return findings.With(
		bad.Some(
			v1.Warn,
			"%s of control-plane components %s between the hosts: %s",
			findings.Plural(len(bad), "setting"),
			english.Word(len(bad), "differs", "differ"),
			bad[0].Text,
		),
		"the same on every host",
		"manifests and unit files",
		"transplant snapshot -o yaml",
	)
}

func sorted(in []string) []string {
	out := slices.Clone(in)
	slices.Sort(out)
	return out
}

// flagNames are the names of all flags that any of the components has, sorted.
func flagNames(in []facts.Instance) []string {
	names := map[string]bool{}
	for _, p := range in {
		for name := range p.Flags {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

var manifestCare = rule.Check{
	Code:      "CP-009",
	Reason:    "ManifestNeedsCare",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactNone,
	LookFor:   "the lines that an edit would change, and a quote or comment in them that has to stay",
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		var bad findings.Problems
		n := 0
		for _, name := range components {
			for _, p := range f.InstancesOf(name) {
				n++
				for _, remark := range p.Remarks {
					bad.Add(p.Host.Name+":"+p.Manifest, "%s on host %s: %s", p.Manifest, p.Host.Name, remark)
				}
				for _, flag := range repeated(p) {
					bad.Add(
						p.Host.Name+":"+p.Manifest,
						"%s on host %s: --%s is given %d times, and the last one counts",
						p.Manifest,
						p.Host.Name,
						flag,
						len(p.Values(flag)),
					)
				}
			}
		}
		if bad.Empty() {
			return findings.Pass("%s can be edited line by line", findings.Plural(n, "manifest"))
		}
		return findings.With(
			bad.Some(
				v1.Warn,
				"%s in the manifests %s to be minded in an edit: %s",
				findings.Plural(len(bad), "thing"),
				english.Word(len(bad), "has", "have"),
				bad[0].Text,
			),
			"plain lists of arguments",
			"manifests and unit files",
			"transplant diff",
		)
	},
}

// merged are flags that may be repeated: their values add up.
var merged = []string{
	"feature-gates",
	"etcd-servers",
	"tls-sni-cert-key",
	"vmodule",
	"service-account-key-file",
	"controllers",
}

// repeated are the flags that stand on a command line more than once although only the last one counts, sorted.
func repeated(p facts.Instance) []string {
	count := map[string]int{}
	for _, arg := range p.Command {
		if name, ok := strings.CutPrefix(arg, "-"); ok {
			name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
			count[name]++
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if count[name] > 1 && !slices.Contains(merged, name) {
			out = append(out, name)
		}
	}
	return out
}

var processCurrent = rule.Check{
	Code:      "CP-016",
	Reason:    "ProcessNotCurrent",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelError,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "the argument that the finding names, as the process has it",
	DependsOn: rule.OnHosts,
	Judge:     judgeProcessArgs,
}

func judgeProcessArgs(f facts.Facts) v1.Finding {
	var bad findings.Problems
	n := 0
	for _, name := range components {
		for _, p := range f.InstancesOf(name) {
			if !p.OnHost() || len(p.Processes) != 1 || len(p.Processes[0].Args) == 0 || len(p.Command) == 0 {
				continue // CP-006 says what is wrong with its processes
			}
			n++
			if difference := argumentDiff(arguments(p.Command), arguments(p.Processes[0].Args)); difference != "" {
				bad.Add(p.String(), "%s (process %d): %s", p, p.Processes[0].PID, difference)
			}
		}
	}
	const expected, source = "the arguments that the manifest or unit gives", "/proc/<pid>/cmdline on each host"
	if !bad.Empty() {
		first := bad[0].Object
		return findings.With(
			bad.Some(
				v1.Fail,
				"%s %s with other arguments than the files say: %s",
				findings.Plural(len(bad), "component"),
				english.Word(len(bad), "runs", "run"),
				bad[0].Text,
			),
			expected,
			source,
			fmt.Sprintf("tr '\\0' ' ' < /proc/$(pidof %s)/cmdline   # on host %s", facts.NameIn(first), facts.HostIn(first)),
		)
	}
	if finding, ok := f.Missing("hosts/*/processes"); ok {
		return finding
	}
	if n == 0 {
		return findings.Skip("no process of the control plane was seen with its arguments: CP-006 says why")
	}
	return findings.Pass("%s with the arguments of their files", runSentence(n))
}

func runSentence(n int) string {
	return findings.Plural(n, "process") + " " + english.Word(n, "runs", "run")
}

// arguments are what follows the program, with shells and wrappers cut off: the first word that is a flag and all after
// it.
func arguments(command []string) []string {
	for i, arg := range command {
		if strings.HasPrefix(arg, "-") {
			return command[i:]
		}
	}
	return nil
}

// argumentDiff says which arguments a process lacks and which it has next to those that it was given; empty when it has
// the same.
func argumentDiff(want, have []string) string {
	var parts []string
	for _, w := range want {
		if !slices.ContainsFunc(have, func(h string) bool { return isSameArgument(w, h) }) {
			parts = append(parts, "not "+w)
		}
	}
	for _, h := range have {
		if !slices.ContainsFunc(want, func(w string) bool { return isSameArgument(w, h) }) {
			parts = append(parts, "but "+h)
		}
	}
	return strings.Join(parts, ", ")
}

// isSameArgument reports whether an argument of a file may be that of a process. A container's paths may differ outside
// of it, so of absolute paths the last element counts. The value of a variable is not known here.
func isSameArgument(given, running string) bool {
	if given == running {
		return true
	}
	flag, value, _ := strings.Cut(given, "=")
	other, running, _ := strings.Cut(running, "=")
	if flag != other && (!strings.HasPrefix(flag, "/") || path.Base(flag) != path.Base(other)) {
		return false
	}
	if strings.Contains(value, "$(") {
		return true
	}
	values, runnings := strings.FieldsFunc(value, separates), strings.FieldsFunc(running, separates)
	return slices.EqualFunc(values, runnings, func(a, b string) bool {
		return a == b || strings.HasPrefix(a, "/") && strings.HasPrefix(b, "/") && path.Base(a) == path.Base(b)
	})
}

// separates reports whether a character stands between the values of one flag.
func separates(r rune) bool { return strings.ContainsRune(",;:= ", r) }
