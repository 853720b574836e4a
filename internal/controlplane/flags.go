package controlplane

import (
	"path"
	"slices"
	"strings"
)

// components are the programs whose flags matter here. A cloud's own manager ends in "-cloud-controller-manager".
var components = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", cloudControllerManager, "etcd", "kubelet"}

const cloudControllerManager = "cloud-controller-manager"

// isComponent tells whether a base name is that of a known program.
func isComponent(name string) bool {
	return slices.Contains(components, name) || strings.HasSuffix(name, "-"+cloudControllerManager)
}

// program is the index of the argument that names the program: the first known component (a wrapper may stand before it), else the first
// argument; -1 when there are flags only.
func program(args []string) int {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return -1
	}
	shell := script(args)
	for i, a := range args {
		if i != shell && !strings.HasPrefix(a, "-") && isComponent(path.Base(a)) {
			return i
		}
	}
	return 0
}

// script is the index of the script that a shell is given; -1 when there is none.
func script(args []string) int {
	if len(args) == 0 || !slices.Contains([]string{"sh", "bash", "ash", "dash", "busybox"}, path.Base(args[0])) {
		return -1
	}
	for i, a := range args {
		if i > 0 && strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.HasSuffix(a, "c") && i+1 < len(args) {
			return i + 1
		}
	}
	return -1
}

// form is how a flag is written.
type form int

const (
	equals   form = iota // --x=y
	separate             // --x y
	bare                 // --x
	attached             // -v2
)

// flag is one occurrence of a flag in a list of arguments.
type flag struct {
	name  string // without dashes, underscores as dashes
	value string
	form  form
	index int // of the argument with the name
}

// last is the index of the flag's last argument.
func (f flag) last() int {
	if f.form == separate {
		return f.index + 1
	}
	return f.index
}

// gathering are the flags of the components that take the values of all their occurrences together: lists, and maps of which one is a part. To
// take only the last one for the flag's value would lose a feature gate.
var gathering = names(`
	admission-control api-audiences authorization-mode controllers disable-admission-plugins enable-admission-plugins etcd-servers
	feature-gates node-labels runtime-config service-account-issuer service-account-key-file tls-cipher-suites tls-sni-cert-key
`)

// FlagsOf returns the flags of a command line by name: without dashes, underscores as dashes. The last one of a name wins, as in pflag, save for
// lists and maps, whose values are joined with commas as the components do; a flag without a value is "true".
func FlagsOf(command []string) map[string]string {
	out := map[string]string{}
	for _, f := range occurrences(command) {
		if before, ok := out[f.name]; ok && gathering[f.name] && before != "" && f.value != "" {
			f.value = before + "," + f.value
		}
		out[f.name] = f.value
	}
	return out
}

// occurrences lists the flags of a command line in their order.
func occurrences(args []string) []flag {
	var out []flag
	for i := program(args) + 1; i < len(args); i++ {
		if args[i] == "--" {
			break
		}
		if !isFlag(args[i]) {
			continue
		}
		f := readFlag(args[i])
		f.index = i
		if f.form == bare && !booleans[f.name] && i+1 < len(args) && args[i+1] != "--" && !isFlag(args[i+1]) {
			f.form, f.value = separate, args[i+1]
			i++
		}
		out = append(out, f)
	}
	return out
}

// isFlag tells a flag from a value; a negative number is a value.
func isFlag(arg string) bool {
	rest, ok := strings.CutPrefix(arg, "-")
	if !ok {
		return false
	}
	rest = strings.TrimPrefix(rest, "-")
	return rest != "" && (isLetter(rest[0]) || strings.HasPrefix(arg, "--"))
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func readFlag(arg string) flag {
	short := !strings.HasPrefix(arg, "--")
	name, value, ok := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	switch {
	case ok:
		return flag{name: flagName(name), value: value, form: equals}
	case short && strings.HasPrefix(name, "v") && len(name) > 1 && strings.Trim(name[1:], "0123456789") == "":
		return flag{name: "v", value: name[1:], form: attached} // klog's verbosity, the only one-letter flag of the components
	default:
		return flag{name: flagName(name), value: "true", form: bare}
	}
}

// flagName is the name as the components normalise it.
func flagName(name string) string {
	return strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
}
