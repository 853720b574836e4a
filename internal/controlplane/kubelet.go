package controlplane

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// KubeletFlagsFile is where kubeadm keeps the flags that differ between kubelets.
const KubeletFlagsFile = "/var/lib/kubelet/kubeadm-flags.env"

// KubeletFlagFiles are where a kubelet's flags stand if no unit can be read; the flags of a later one win.
var KubeletFlagFiles = []string{KubeletFlagsFile, "/etc/default/kubelet", "/etc/sysconfig/kubelet"}

const (
	kubeadmVariable = "KUBELET_KUBEADM_ARGS"
	// extraVariable comes last on a kubelet's command line, and so its flags win.
	extraVariable = "KUBELET_EXTRA_ARGS"
)

var (
	variableName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	kubeletVariable = regexp.MustCompile(`^(KUBELET_([A-Z0-9]+_)*(ARGS|OPTS|FLAGS)|DAEMON_ARGS)$`)
	// safeWord is what means itself in an environment file and on the command line that systemd makes of it.
	safeWord = regexp.MustCompile(`^[A-Za-z0-9_./:,=@%+~*<>()-]*$`)
)

var (
	errUnsafeWord       = errors.New("its value holds a space, a quote or another character that a unit's environment would change")
	errKubeletOperation = errors.New("this operation is not known for a kubelet")
)

// environment is an environment file of a kubelet's unit.
type environment struct {
	data      []byte
	variables []variable // in the order of the kubelet's command line
	// used are the variables that the unit uses, in that order; none when the unit is not known.
	used []string
}

// variable is an assignment of flags.
type variable struct {
	name string
	// start is where the value begins in the file, behind its quote.
	start int
	words []word
}

// word is an argument and the place where it is written.
type word struct {
	value      string
	start, end int
}

// ParseKubeletFlags reads the flags of a kubelet from an environment file such as KubeletFlagsFile, or from a unit file or drop-in of its unit. Those
// of KUBELET_EXTRA_ARGS win, as they do on the command line. A file without such a variable has no flags.
func ParseKubeletFlags(env []byte) (map[string]string, error) {
	if u, err := kubeletUnitFile(env); u != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return u.Flags(), nil
	}
	e, err := readEnvironment(env, nil)
	if err != nil {
		return nil, err
	}
	args, _ := e.arguments()
	return FlagsOf(args), nil
}

// ApplyKubelet carries setFlag and unsetFlag out on such a file, in order. A file that needs no edit is returned with the same bytes. Flags that stand
// in other files of the unit are not seen: ApplyUnit edits all of them. used are the unit's variables of flags (KubeletVariables); without them those
// count that have the usual names.
func ApplyKubelet(env []byte, edits []v1.Edit, used ...string) ([]byte, error) {
	if u, err := kubeletUnitFile(env, used...); u != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return applyKubeletUnit(u, edits)
	}
	if _, err := readEnvironment(env, used); err != nil {
		return nil, err
	}
	for _, e := range edits {
		out, err := applyKubeletOne(env, e, used)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", e.Op, e.Name, err)
		}
		env = out
	}
	return env, nil
}

func applyKubeletOne(env []byte, e v1.Edit, used []string) ([]byte, error) {
	if e.Op != setFlag && e.Op != unsetFlag {
		return nil, errKubeletOperation
	}
	if err := validate(e); err != nil {
		return nil, err
	}
	if !safeWord.MatchString(e.Value) {
		return nil, errUnsafeWord
	}
	var before []string
	for range maxChanges {
		parsed, err := readEnvironment(env, used)
		if err != nil {
			return nil, err
		}
		args, _ := parsed.arguments()
		if before == nil {
			before = args
		}
		splices, err := parsed.next(e)
		if err == nil && splices == nil {
			err = sameOthers(e, before, args)
		}
		if err != nil {
			return nil, err
		}
		if splices == nil {
			return env, nil
		}
		env = splicedInto(env, splices)
	}
	return nil, errors.New("it would take too many changes")
}

// arguments are all words, and for each its variable and its index there.
func (e *environment) arguments() (args []string, places [][2]int) {
	for v, variable := range e.variables {
		for w, word := range variable.words {
			args = append(args, word.value)
			places = append(places, [2]int{v, w})
		}
	}
	return args, places
}

// next is the next change that an edit needs; nil when there is none.
func (e *environment) next(edit v1.Edit) ([]splice, error) {
	name := flagName(edit.Name)
	args, places := e.arguments()
	all := occurrences(args)
	have := named(all, name)
	switch {
	case len(have) == 0 && edit.Op == unsetFlag:
		return nil, nil
	case len(have) == 0:
		return e.insert("--" + name + "=" + edit.Value)
	case edit.Op == unsetFlag, len(have) > 1:
		return e.remove(places[have[0].index], places[have[0].last()]), nil
	case have[0].value == edit.Value:
		return nil, nil
	}
	f := have[0]
	if f.form == separate && isFlag(edit.Value) {
		return e.remove(places[f.index], places[f.last()]), nil // it is added again as "--x=-y"
	}
	at := e.word(places[f.last()])
	return []splice{{at.start, at.end, rewritten(args[f.index], f.form, edit.Value)}}, nil
}

func (e *environment) word(place [2]int) word { return e.variables[place[0]].words[place[1]] }

// insert puts a flag behind the last one of kubeadm's variable, else of the last variable that there is.
func (e *environment) insert(text string) ([]splice, error) {
	if len(e.variables) == 0 && len(e.used) > 0 {
		return nil, fmt.Errorf("the file assigns none of the variables with which the kubelet's unit makes flags ($%s): assign one of them there that no other file assigns, as in %s=\"\"",
			strings.Join(e.used, ", $"), e.used[len(e.used)-1])
	}
	if len(e.variables) == 0 {
		return nil, fmt.Errorf("the file assigns no %s: add the line %s=\"\" to it if the kubelet's unit reads it", kubeadmVariable, kubeadmVariable)
	}
	at := len(e.variables) - 1
	if i := slices.IndexFunc(e.variables, func(v variable) bool { return v.name == kubeadmVariable }); i >= 0 {
		at = i
	}
	v := e.variables[at]
	if len(v.words) == 0 {
		return []splice{{v.start, v.start, text}}, nil
	}
	end := v.words[len(v.words)-1].end
	return []splice{{end, end, " " + text}}, nil
}

// remove takes the words from one to another away; a flag's value may stand in the next variable.
func (e *environment) remove(from, to [2]int) []splice {
	if to[0] != from[0] {
		return append(e.remove(from, from), e.remove(to, to)...)
	}
	words := e.variables[from[0]].words
	switch {
	case from[1] > 0:
		return []splice{{start: words[from[1]-1].end, end: words[to[1]].end}}
	case to[1]+1 < len(words):
		return []splice{{start: words[0].start, end: words[to[1]+1].start}}
	}
	return []splice{{start: words[0].start, end: words[to[1]].end}}
}

// readEnvironment reads an environment file as systemd does, as far as it assigns flags of a kubelet.
func readEnvironment(data []byte, used []string) (*environment, error) {
	e := &environment{data: data, used: used}
	for _, a := range readEnvironmentFile(data) {
		if !holdsFlags(a.name, used) {
			continue
		}
		v := variable{name: a.name, start: a.at}
		var err error
		if v.words, err = a.words(); err != nil {
			return nil, fmt.Errorf("line %d: the value of %s: %w", 1+bytes.Count(data[:a.at], []byte("\n")), a.name, err)
		}
		// A later assignment replaces an earlier one.
		e.variables = slices.DeleteFunc(e.variables, func(o variable) bool { return o.name == a.name })
		e.variables = append(e.variables, v)
	}
	slices.SortStableFunc(e.variables, func(a, b variable) int { return cmp.Compare(rank(a.name, used), rank(b.name, used)) })
	return e, nil
}

// holdsFlags tells that a variable's value becomes flags. Where the unit is known it decides: installers name their variables as they like, and a flag in one
// that is overlooked would stay beside the new one.
func holdsFlags(name string, used []string) bool {
	if len(used) > 0 {
		return slices.Contains(used, name)
	}
	return kubeletVariable.MatchString(name)
}

// rank is where a variable stands on the kubelet's command line.
func rank(name string, used []string) int {
	if len(used) > 0 {
		return slices.Index(used, name)
	}
	if name == extraVariable {
		return 1
	}
	return 0
}

// letter is a character of a value and the place where it is written.
type letter struct {
	char       byte
	start, end int
}

// splitWords makes arguments of a value, as systemd does for a variable that stands alone on a command line: it splits at spaces that are in no
// quotes.
func splitWords(letters []letter) ([]word, error) {
	var out []word
	for i := 0; i < len(letters); {
		if isSpace(letters[i].char) {
			i++
			continue
		}
		w, next, err := readWord(letters, i)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
		i = next
	}
	return out, nil
}

// readWord reads up to the next space that is in no quotes, and returns where it stopped.
func readWord(letters []letter, i int) (word, int, error) {
	w := word{start: letters[i].start}
	var quote byte
	var value []byte
	for ; i < len(letters) && (quote != 0 || !isSpace(letters[i].char)); i++ {
		switch c := letters[i].char; {
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote != '\'' && i+1 < len(letters):
			i++
			value = append(value, letters[i].char)
		default:
			value = append(value, c)
		}
		w.end = letters[i].end
	}
	if quote != 0 {
		return word{}, 0, errors.New("a quote in it is not closed")
	}
	w.value = string(value)
	return w, i, nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }
