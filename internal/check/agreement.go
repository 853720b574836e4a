package check

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// components are the control-plane programs in reporting order.
var components = []string{kas, kcm, scheduler, ccm}

// ownFlags are flags whose values belong to a host: addresses, names and files that kubeadm writes for each.
var ownFlags = map[string]bool{
	"address": true, "advertise-address": true, "bind-address": true, "hostname-override": true, "node-ip": true, "etcd-servers": true, "external-hostname": true,
	"apiserver-count": true,
}

var hostsDiffer = Check{
	Code: "CP-008", Reason: "HostsDiffer", Category: categoryControlPlane, Level: LevelWarning, Impact: ImpactAPI, DependsOn: onHosts,
	Title: "a component has the same flags, gates and environment on every host, addresses aside",
	Explain: []string{
		"CP-004 compares the flags that decide what the cloud loops do. This check compares everything else of kube-apiserver, kube-controller-manager, kube-scheduler and cloud-controller-manager: flags, feature gates, the names of environment variables, mounted paths. " +
			"A host that differs behaves differently when it leads, and a plan edits each manifest as it is: the difference stays.",
		"Flags that hold a host's own address are left out. Versions are VER-007's.",
	},
	judge: judgeHostsDiffer,
}

func judgeHostsDiffer(f facts) v1.Finding {
	var bad complaints
	n := 0
	for _, name := range components {
		all := f.all(name)
		if f.opts.InProgress {
			all = slices.DeleteFunc(slices.Clone(all), func(p placed) bool { return name == kcm && p.external() })
		}
		n += len(all)
		for _, flag := range flagNames(all) {
			if name == kcm && slices.Contains(cloudFlags, flag) || ownFlags[flag] {
				continue
			}
			if values, differ := byValue(all, func(p placed) string { return p.flag(flag, "(not given)") }); differ {
				bad.add(name, "%s --%s: %s", name, flag, values)
			}
		}
		if values, differ := byValue(all, func(p placed) string { return orElse(strings.Join(sorted(p.EnvNames), " "), "(none)") }); differ {
			bad.add(name, "%s environment: %s", name, values)
		}
	}
	if bad.empty() {
		return pass("the flags and environment of %s are the same on every host", plural(n, "component"))
	}
	return with(bad.some(v1.Warn, "%s of control-plane components %s between the hosts: %s", plural(len(bad.lines), "setting"), differs(len(bad.lines)), bad.lines[0]),
		"the same on every host", "manifests and unit files", "transplant snapshot -o yaml")
}

func differs(n int) string {
	if n == 1 {
		return "differs"
	}
	return "differ"
}

func sorted(in []string) []string {
	out := slices.Clone(in)
	slices.Sort(out)
	return out
}

// flagNames are the names of all flags that any of the components has, sorted.
func flagNames(in []placed) []string {
	names := map[string]bool{}
	for _, p := range in {
		for name := range p.Flags {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

var manifestCare = Check{
	Code: "CP-009", Reason: "ManifestNeedsCare", Category: categoryControlPlane, Level: LevelWarning, Impact: ImpactNone, DependsOn: onHosts,
	Title: "no manifest is written in a way that an edit has to mind",
	Explain: []string{
		"Transplant edits the text of a manifest and leaves what it does not have to change: comments, order and indentation stay. Some things need a reader's eye before and after: a YAML anchor whose value stands in several places, arguments split between command and args, " +
			"a flag given twice (the last one counts), a field that Kubernetes does not know, a shell that starts the program.",
		"The plan shows each edit as a diff (transplant diff). An edit that cannot be made safely makes the plan fail; it is never guessed.",
	},
	judge: func(f facts) v1.Finding {
		var bad complaints
		n := 0
		for _, name := range components {
			for _, p := range f.all(name) {
				n++
				for _, remark := range p.Remarks {
					bad.add(p.host.Name+":"+p.Manifest, "%s on host %s: %s", p.Manifest, p.host.Name, remark)
				}
				for _, flag := range repeated(p) {
					bad.add(p.host.Name+":"+p.Manifest, "%s on host %s: --%s is given %d times, and the last one counts", p.Manifest, p.host.Name, flag, len(p.values(flag)))
				}
			}
		}
		if bad.empty() {
			return pass("%s can be edited line by line", plural(n, "manifest"))
		}
		return with(bad.some(v1.Warn, "%s in the manifests %s to be minded in an edit: %s", plural(len(bad.lines), "thing"), has(len(bad.lines)), bad.lines[0]),
			"plain lists of arguments", "manifests and unit files", "transplant diff")
	},
}

// merged are flags that may be repeated: their values add up.
var merged = []string{"feature-gates", "etcd-servers", "tls-sni-cert-key", "vmodule", "service-account-key-file", "controllers"}

// repeated are the flags that stand on a command line more than once although only the last one counts, sorted.
func repeated(p placed) []string {
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

var processCurrent = Check{
	Code: "CP-016", Reason: "ProcessNotCurrent", Category: categoryControlPlane, Level: LevelError, Impact: ImpactTwoOwners, DependsOn: onHosts,
	Title: "the running process of every component has the arguments that its files give it",
	Explain: []string{
		"Arguments of a process are the proof of what it runs with; a file is only what it will run with after the next start. They differ when a unit file was edited without systemctl daemon-reload and restart, when a kubelet no longer reads its manifests, " +
			"or when a drop-in that nobody looked at overrides the unit. A check or plan that believed the file would be wrong about who owns the loops.",
		"For static pods CP-005 compares the manifest with the pod in the API; this one compares it with the process itself, and is the only such check for systemd units.",
	},
	judge: judgeProcessArgs,
}

func judgeProcessArgs(f facts) v1.Finding {
	var bad complaints
	n := 0
	for _, name := range components {
		for _, p := range f.all(name) {
			if !p.onHost() || len(p.Processes) != 1 || len(p.Processes[0].Args) == 0 || len(p.Command) == 0 {
				continue // CP-006 says what is wrong with its processes
			}
			n++
			if difference := argumentDiff(arguments(p.Command), arguments(p.Processes[0].Args)); difference != "" {
				bad.add(p.String(), "%s (process %d): %s", p, p.Processes[0].PID, difference)
			}
		}
	}
	const expected, source = "the arguments that the manifest or unit gives", "/proc/<pid>/cmdline on each host"
	if !bad.empty() {
		p := strings.SplitN(bad.objects[0], "@", 2)
		return with(bad.some(v1.Fail, "%s %s with other arguments than the files say: %s", plural(len(bad.lines), "component"), runVerb(len(bad.lines)), bad.lines[0]), expected, source,
			fmt.Sprintf("tr '\\0' ' ' < /proc/$(pidof %s)/cmdline   # on host %s", p[0], p[1]))
	}
	if finding, ok := f.missing("hosts/*/processes"); ok {
		return finding
	}
	if n == 0 {
		return skip("no process of the control plane was seen with its arguments: CP-006 says why")
	}
	return pass("%s with the arguments of their files", runSentence(n))
}

func runVerb(n int) string {
	if n == 1 {
		return "runs"
	}
	return "run"
}

func runSentence(n int) string { return plural(n, "process") + " " + runVerb(n) }

// arguments are what follows the program, with shells and wrappers cut off: the first word that is a flag and all after it.
func arguments(command []string) []string {
	for i, arg := range command {
		if strings.HasPrefix(arg, "-") {
			return command[i:]
		}
	}
	return nil
}

// argumentDiff says which arguments a process lacks and which it has beside those that it was given; empty when it has the same.
func argumentDiff(want, have []string) string {
	var parts []string
	for _, w := range want {
		if !slices.ContainsFunc(have, func(h string) bool { return sameArgument(w, h) }) {
			parts = append(parts, "not "+w)
		}
	}
	for _, h := range have {
		if !slices.ContainsFunc(want, func(w string) bool { return sameArgument(w, h) }) {
			parts = append(parts, "but "+h)
		}
	}
	return strings.Join(parts, ", ")
}

// sameArgument compares an argument as a file gives it with one of a process. A container's paths are other ones outside of it where something in
// front puts them elsewhere, so of absolute paths the last element counts; what stands for a variable is not known here.
func sameArgument(given, running string) bool {
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

// separates tells whether a character stands between the values of one flag.
func separates(r rune) bool { return strings.ContainsRune(",;:= ", r) }
