package systemdunit

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/textedit"
)

// transparent are programs that start another one with the arguments that follow, unchanged.
var transparent = []string{
	"hyperkube",
	"env",
	"nice",
	"ionice",
	"taskset",
	"numactl",
	"chrt",
	"stdbuf",
	"setpriv",
	"tini",
	"dumb-init",
	"prlimit",
}

// ReadCommand makes the command line of the files.
func (u *Unit) ReadCommand() error {
	u.Arguments, u.specifiers = nil, nil
	if err := u.ReadVariables(); err != nil {
		return err
	}
	starts := u.Settings("ExecStart")
	switch {
	case len(starts) == 0:
		return fmt.Errorf("unit %s has no ExecStart=", u.Name)
	case len(starts) > 1:
		return fmt.Errorf(
			"unit %s has several ExecStart= (%s line %d and %s line %d): reset the list with an empty one, as systemd wants for a service",
			u.Name,
			starts[0].file,
			starts[0].line,
			starts[1].file,
			starts[1].line,
		)
	}
	if err := u.readStart(starts[0]); err != nil {
		return fmt.Errorf("%s line %d: ExecStart=: %w", starts[0].file, starts[0].line, err)
	}
	return u.checkProgram()
}

// ReadVariables collects the environment: files win over settings, and later ones over earlier ones.
func (u *Unit) ReadVariables() error {
	u.Variables, u.envFiles = map[string]assignment{}, nil
	for _, s := range u.Settings("Environment") {
		all, err := readEnvironmentSetting(s.Setting)
		if err != nil {
			return fmt.Errorf("%s %w", s.file, err)
		}
		for _, a := range all {
			a.file = s.file
			u.Variables[a.Name] = a
		}
	}
	for _, s := range u.Settings("EnvironmentFile") {
		pattern, _, err := u.environmentPath(s)
		if err != nil {
			return err
		}
		for _, p := range u.globs[pattern] {
			if !slices.Contains(u.envFiles, p) {
				u.envFiles = append(u.envFiles, p)
			}
			for _, a := range ReadEnvironmentFile(u.Contents[p]) {
				a.file = p
				u.Variables[a.Name] = a
			}
		}
	}
	for _, s := range u.Settings("UnsetEnvironment") {
		for _, name := range strings.Fields(TextOf(s.Value)) {
			delete(u.Variables, name)
		}
	}
	return nil
}

// readStart makes arguments of an ExecStart= setting.
func (u *Unit) readStart(s located) error {
	value, literal, err := TrimPrefixes(s.Value)
	if err != nil {
		return err
	}
	words, err := SplitValue(value)
	if err != nil {
		return err
	}
	for i, w := range words {
		if w.plain && TextOf(w.Letters) == ";" {
			return errors.New("it starts several commands, separated by ;")
		}
		text, unknown := u.specify(TextOf(w.Letters))
		if unknown != "" {
			u.specifiers = append(u.specifiers, unknown)
		}
		if i > 0 && !literal {
			if name, ok := VariableAlone(text); ok {
				if err := u.addVariable(name); err != nil {
					return err
				}
				continue
			}
			if text, err = u.expandBraces(text); err != nil {
				return err
			}
		}
		u.Arguments = append(u.Arguments, unitArgument{
			value: text,
			File:  s.file,
			start: w.start,
			end:   w.end,
		})
	}
	if len(u.Arguments) == 0 {
		return errors.New("it names no program")
	}
	return nil
}

// TrimPrefixes takes the characters before the program's path away; literal reports whether variables are not replaced.
func TrimPrefixes(value []textedit.Letter) (rest []textedit.Letter, literal bool, err error) {
	for len(value) > 0 {
		switch value[0].Char {
		case '-', '+', '!', '|':
		case ':':
			literal = true
		case '@':
			return nil, false, errors.New("it gives the program another name (@), which is not understood")
		default:
			return value, literal, nil
		}
		value = value[1:]
	}
	return value, literal, nil
}

// VariableAlone is the name of a variable that stands alone as $NAME: systemd makes words of its value.
func VariableAlone(text string) (string, bool) {
	name, ok := strings.CutPrefix(text, "$")
	return name, ok && textedit.VariableName.MatchString(name)
}

func (u *Unit) addVariable(name string) error {
	a, ok := u.Variables[name]
	if !ok {
		return u.passed(name)
	}
	words, err := a.Words()
	if err != nil {
		return fmt.Errorf("the value of $%s in %s: %w", name, a.file, err)
	}
	for _, w := range words {
		u.Arguments = append(
			u.Arguments,
			unitArgument{
				value:    w.Value,
				File:     a.file,
				start:    w.Start,
				end:      w.End,
				variable: name,
			},
		)
	}
	return nil
}

// passed is an error when a variable that nothing assigns may come from systemd's own environment. One that nothing
// passes on is empty.
func (u *Unit) passed(name string) error {
	for _, s := range u.Settings("PassEnvironment") {
		if slices.Contains(strings.Fields(TextOf(s.Value)), name) {
			return fmt.Errorf("the value of $%s is passed on from systemd's own environment and is not known", name)
		}
	}
	return nil
}

// longestArgument is how long, in bytes, Linux lets an argument be (MAX_ARG_STRLEN).
const longestArgument = 128 << 10

// expandBraces replaces ${NAME} by the value, which stays in one word, and $$ by a dollar sign.
func (u *Unit) expandBraces(text string) (string, error) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "$")
		b.WriteString(before)
		if b.Len() > longestArgument {
			return "", fmt.Errorf("an argument of unit %s has more than %d bytes: Linux starts no program with it", u.Name, longestArgument)
		}
		if !ok {
			return b.String(), nil
		}
		name, after, closed := strings.Cut(strings.TrimPrefix(rest, "{"), "}")
		switch {
		case strings.HasPrefix(rest, "$"):
			b.WriteByte('$')
			text = rest[1:]
		case strings.HasPrefix(rest, "{") && closed && textedit.VariableName.MatchString(name):
			a, known := u.Variables[name]
			var err error
			switch {
			case !known:
				err = u.passed(name)
			case a.open:
				err = fmt.Errorf("the value of ${%s} in %s has a quote that is not closed", name, a.file)
			}
			if err != nil {
				return "", err
			}
			b.WriteString(TextOf(a.value))
			text = after
		default:
			b.WriteByte('$')
			text = rest
		}
	}
}

// checkProgram returns an error when what is started is not the component itself.
func (u *Unit) checkProgram() error {
	args := u.Command()
	if err := commandline.RefuseShell(args); err != nil {
		return u.wrapped(err)
	}
	if at := commandline.ScriptIndex(args); at >= 0 {
		return u.wrapped(&commandline.ShellCommandError{Shell: args[0], Component: u.Component()})
	}
	first, at := path.Base(args[0]), commandline.ProgramIndex(args)
	switch {
	case commandline.IsComponent(first):
		return nil
	case at > 0 && slices.Contains(transparent, first):
		return nil
	case at > 0 && commandline.IsComponent(path.Base(args[at])):
		return fmt.Errorf(
			"unit %s starts %s by way of %s, so that its flags cannot be read or edited safely",
			u.Name,
			path.Base(args[at]),
			args[0],
		)
	default:
		return fmt.Errorf(
			"unit %s starts %s, which is none of the components: what it gives them as flags cannot be read or edited",
			u.Name,
			args[0],
		)
	}
}

func (u *Unit) wrapped(err error) error { return fmt.Errorf("unit %s: %w", u.Name, err) }

// Command is the program and its arguments, with variables replaced.
func (u *Unit) Command() []string {
	out := make([]string, len(u.Arguments))
	for i, a := range u.Arguments {
		out[i] = a.value
	}
	return out
}

// Flags are the flags of Command, as FlagsOf reads them.
func (u *Unit) Flags() map[string]string { return commandline.FlagsOf(u.Command()) }

// Component is the base name of the program, e.g. kube-apiserver, and cloud-controller-manager for a cloud's own. For
// another program, it is what the unit's name says.
func (u *Unit) Component() string {
	args := u.Command()
	if at := commandline.ProgramIndex(args); at >= 0 && commandline.IsComponent(path.Base(args[at])) {
		return commandline.GenericName(path.Base(args[at]))
	}
	return strings.TrimSuffix(u.Name, path.Ext(u.Name))
}

// Address is host:port where the component serves /metrics, as seen from its host; empty when it serves none or when
// that is not known.
func (u *Unit) Address() string { return commandline.ServingAddress(u.Component(), u.Flags()) }

// Sources returns for each flag the file in which it is written; for one that is given twice, the one that counts.
func (u *Unit) Sources() map[string]string {
	out := map[string]string{}
	for _, f := range commandline.FindFlags(u.Command()) {
		out[f.Name] = u.Arguments[f.Index].File
	}
	return out
}

// Also returns for each flag that is written in several files the others than that of Sources, sorted.
func (u *Unit) Also() map[string][]string {
	counts := u.Sources()
	out := map[string][]string{}
	for _, f := range commandline.FindFlags(u.Command()) {
		if file := u.Arguments[f.Index].File; file != counts[f.Name] && !slices.Contains(out[f.Name], file) {
			out[f.Name] = append(out[f.Name], file)
			slices.Sort(out[f.Name])
		}
	}
	return out
}

// Paths are the files that make the command line: the unit, its drop-ins in order, and the environment files.
func (u *Unit) Paths() []string { return slices.Concat(u.UnitFiles, u.envFiles) }

// Data is the content of one of Paths; nil for another file.
func (u *Unit) Data(path string) []byte { return slices.Clone(u.Contents[path]) }

// EnvNames are the names of the variables that the unit sets, sorted. Their values may be secret and are not returned.
func (u *Unit) EnvNames() []string { return slices.Sorted(maps.Keys(u.Variables)) }

// isPackaged reports whether a file is in a directory whose files belong to packages.
func isPackaged(file string) bool {
	return strings.HasPrefix(file, "/usr/lib/") || strings.HasPrefix(file, "/lib/")
}

// Home is the file that has the flags, and that gets new ones. It is the one with --cloud-provider, else kubeadm's
// variable, else the one with most flags. A file that a package would overwrite is the last choice.
func (u *Unit) Home() string {
	sources := u.Sources()
	if file := sources["cloud-provider"]; file != "" {
		return file
	}
	if a, ok := u.Variables[KubeadmVariable]; ok && u.usesVariable(KubeadmVariable) {
		return a.file
	}
	count := map[string]int{}
	for _, file := range sources {
		count[file]++
	}
	best := u.Arguments[0].File
	for _, file := range slices.Sorted(maps.Keys(count)) {
		if isPackaged(best) && !isPackaged(file) || isPackaged(best) == isPackaged(file) && count[file] > count[best] {
			best = file
		}
	}
	return best
}

// usesVariable reports whether ExecStart= has a variable standing alone.
func (u *Unit) usesVariable(name string) bool {
	for _, s := range u.Settings("ExecStart") {
		if words, err := SplitValue(s.Value); err == nil &&
			slices.ContainsFunc(words, func(w unitWord) bool { return TextOf(w.Letters) == "$"+name }) {
			return true
		}
	}
	return false
}

// Remarks are what an edit has to mind.
func (u *Unit) Remarks() []string {
	var out []string
	for _, s := range slices.Compact(slices.Sorted(slices.Values(u.specifiers))) {
		out = append(out, fmt.Sprintf("a flag holds %s, which systemd replaces", s))
	}
	if home := u.Home(); isPackaged(home) {
		out = append(out, home+" belongs to a package, whose next upgrade puts the flags back")
	}
	return append(out, RepeatedFlags(u.Command())...)
}

// RepeatedFlags names the flags that are given more than once.
func RepeatedFlags(args []string) []string {
	count := map[string]int{}
	for _, f := range commandline.FindFlags(args) {
		count[f.Name]++
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		switch {
		case count[name] > 1 && commandline.MergedFlags[name]:
			out = append(out, fmt.Sprintf("--%s is given %d times: the values are taken together", name, count[name]))
		case count[name] > 1:
			out = append(out, fmt.Sprintf("--%s is given %d times: the last one counts", name, count[name]))
		}
	}
	return out
}
