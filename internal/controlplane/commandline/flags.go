package commandline

import (
	"path"
	"slices"
	"strings"
)

// OccurrencesOf returns the occurrences of one flag.
func OccurrencesOf(all []Occurrence, name string) []Occurrence {
	var out []Occurrence
	for _, f := range all {
		if f.Name == name {
			out = append(out, f)
		}
	}
	return out
}

// FormatNewFlag is a new flag in the style in use: as two elements only when every flag with a value is written so.
func FormatNewFlag(all []Occurrence, name, value string) []string {
	separated := false
	for _, f := range all {
		if f.Form == equals {
			return []string{"--" + name + "=" + value}
		}
		separated = separated || f.Form == Separate
	}
	if separated && !booleans[name] && !IsFlag(value) && value != "--" {
		return []string{"--" + name, value}
	}
	return []string{"--" + name + "=" + value}
}

// ProgramIndex is the index of the argument that names the program. It is the first known component (a wrapper may come
// before it), else the first argument, and -1 when there are flags only.
func ProgramIndex(args []string) int {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return -1
	}
	shell := ScriptIndex(args)
	for i, a := range args {
		if i != shell && !strings.HasPrefix(a, "-") && IsComponent(path.Base(a)) {
			return i
		}
	}
	return 0
}

// ScriptIndex is the index of the script that a shell is given; -1 when there is none.
func ScriptIndex(args []string) int {
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

// Forms of a flag.
const (
	equals   form = iota // --x=y
	Separate             // --x y
	bare                 // --x
	attached             // -v2
)

// Occurrence is one occurrence of a flag in a list of arguments.
type Occurrence struct {
	Name  string // without dashes, underscores as dashes
	Value string
	Form  form
	Index int // of the argument with the name
}

// LastIndex is the index of the flag's last argument.
func (f Occurrence) LastIndex() int {
	if f.Form == Separate {
		return f.Index + 1
	}
	return f.Index
}

// MergedFlags are the flags of the components that take the values of all their occurrences together: lists, and maps
// of which one is a part. To take only the last one for the flag's value would lose a feature gate.
var MergedFlags = names(`
	admission-control api-audiences authorization-mode controllers disable-admission-plugins enable-admission-plugins etcd-servers
	feature-gates node-labels runtime-config service-account-issuer service-account-key-file tls-cipher-suites tls-sni-cert-key
`)

// FlagsOf returns the flags of a command line by name: without dashes, underscores as dashes. The last one of a name
// wins, as in pflag. Values of lists and maps are joined with commas as the components do. A flag without a value is
// "true".
func FlagsOf(command []string) map[string]string {
	out := map[string]string{}
	for _, f := range FindFlags(command) {
		if before, ok := out[f.Name]; ok && MergedFlags[f.Name] && before != "" && f.Value != "" {
			f.Value = before + "," + f.Value
		}
		out[f.Name] = f.Value
	}
	return out
}

// FindFlags lists the flags of a command line in their order.
func FindFlags(args []string) []Occurrence {
	var out []Occurrence
	for i := ProgramIndex(args) + 1; i < len(args); i++ {
		if args[i] == "--" {
			break
		}
		if !IsFlag(args[i]) {
			continue
		}
		f := readFlag(args[i])
		f.Index = i
		if f.Form == bare && !booleans[f.Name] && i+1 < len(args) && args[i+1] != "--" && !IsFlag(args[i+1]) {
			f.Form, f.Value = Separate, args[i+1]
			i++
		}
		out = append(out, f)
	}
	return out
}

// IsFlag reports whether an argument is a flag; a negative number is a value.
func IsFlag(arg string) bool {
	rest, ok := strings.CutPrefix(arg, "-")
	if !ok {
		return false
	}
	rest = strings.TrimPrefix(rest, "-")
	return rest != "" && (isLetter(rest[0]) || strings.HasPrefix(arg, "--"))
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func readFlag(arg string) Occurrence {
	short := !strings.HasPrefix(arg, "--")
	name, value, ok := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	switch {
	case ok:
		return Occurrence{Name: NormalizeName(name), Value: value, Form: equals}
	case short && strings.HasPrefix(name, "v") && len(name) > 1 && strings.Trim(name[1:], "0123456789") == "":
		// klog's verbosity, the only one-letter flag of the components
		return Occurrence{Name: "v", Value: name[1:], Form: attached}
	default:
		return Occurrence{Name: NormalizeName(name), Value: "true", Form: bare}
	}
}

// NormalizeName is the name as the components normalise it.
func NormalizeName(name string) string {
	return strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
}

// RefuseShell returns an error for a shell whose script starts a component: what is written behind the script are not
// the component's flags. A script that only passes its arguments on ("$@") is none of these.
func RefuseShell(args []string) error {
	at := ScriptIndex(args)
	if at < 0 {
		return nil
	}
	for _, c := range components {
		if strings.Contains(args[at], c) {
			return &ShellCommandError{Shell: args[0], Component: c}
		}
	}
	if p := ProgramIndex(args); p > at && IsComponent(path.Base(args[p])) && !strings.Contains(args[at], "$@") {
		return &ShellCommandError{Shell: args[0], Component: path.Base(args[p])}
	}
	return nil
}
