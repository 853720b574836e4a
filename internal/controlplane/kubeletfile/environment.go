package kubeletfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/controlplane/textedit"
)

// KubeletFlagsFile is where kubeadm keeps the flags that differ between kubelets.
const KubeletFlagsFile = "/var/lib/kubelet/kubeadm-flags.env"

// KubeletFlagFiles are where a kubelet's flags stand if no unit can be read; the flags of a later one win.
var KubeletFlagFiles = []string{KubeletFlagsFile, "/etc/default/kubelet", "/etc/sysconfig/kubelet"}

// extraVariable comes last on a kubelet's command line, and so its flags win.
const extraVariable = "KUBELET_EXTRA_ARGS"

var kubeletVariable = regexp.MustCompile(`^(KUBELET_([A-Z0-9]+_)*(ARGS|OPTS|FLAGS)|DAEMON_ARGS)$`)

var errKubeletOperation = errors.New("this operation is not known for a kubelet")

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
	words []textedit.Word
}

// ParseKubeletFlags reads the flags of a kubelet from an environment file such as KubeletFlagsFile, or from a unit file
// or drop-in of its unit. Those of KUBELET_EXTRA_ARGS win, as they do on the command line. A file without such a
// variable has no flags.
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
	return commandline.FlagsOf(args), nil
}

// ApplyKubelet applies setFlag and unsetFlag to such a file, in order. A file that needs no edit is returned with
// the same bytes. Flags that stand in other files of the unit are not seen: ApplyUnit edits all of them. used are the
// unit's variables of flags (KubeletVariables); without them those count that have the usual names.
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
	if e.Op != v1.EditSetFlag && e.Op != v1.EditUnsetFlag {
		return nil, errKubeletOperation
	}
	if err := commandline.ValidateEdit(e); err != nil {
		return nil, err
	}
	if !textedit.SafeWord.MatchString(e.Value) {
		return nil, textedit.ErrUnsafeWord
	}
	var before []string
	for range commandline.MaxChanges {
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
			err = commandline.CheckOtherFlags(e, before, args)
		}
		if err != nil {
			return nil, err
		}
		if splices == nil {
			return env, nil
		}
		env = textedit.ApplySplices(env, splices)
	}
	return nil, errors.New("it would take too many changes")
}

// arguments are all words, and for each its variable and its index there.
func (e *environment) arguments() (args []string, places [][2]int) {
	for v, variable := range e.variables {
		for w, word := range variable.words {
			args = append(args, word.Value)
			places = append(places, [2]int{v, w})
		}
	}
	return args, places
}

// next is the next change that an edit needs; nil when there is none.
func (e *environment) next(edit v1.Edit) ([]textedit.Splice, error) {
	name := commandline.NormalizeName(edit.Name)
	args, places := e.arguments()
	all := commandline.FindFlags(args)
	have := commandline.OccurrencesOf(all, name)
	switch {
	case len(have) == 0 && edit.Op == v1.EditUnsetFlag:
		return nil, nil
	case len(have) == 0:
		return e.insert("--" + name + "=" + edit.Value)
	case edit.Op == v1.EditUnsetFlag, len(have) > 1:
		return e.remove(places[have[0].Index], places[have[0].LastIndex()]), nil
	case have[0].Value == edit.Value:
		return nil, nil
	}
	f := have[0]
	if f.Form == commandline.Separate && commandline.IsFlag(edit.Value) {
		return e.remove(places[f.Index], places[f.LastIndex()]), nil // it is added again as "--x=-y"
	}
	at := e.word(places[f.LastIndex()])
	return []textedit.Splice{
		{Start: at.Start, End: at.End, Text: commandline.FormatFlag(args[f.Index], f.Form, edit.Value)},
	}, nil
}

func (e *environment) word(place [2]int) textedit.Word { return e.variables[place[0]].words[place[1]] }

// insert puts a flag behind the last one of kubeadm's variable, else of the last variable that there is.
func (e *environment) insert(text string) ([]textedit.Splice, error) {
	if len(e.variables) == 0 && len(e.used) > 0 {
		return nil, fmt.Errorf(
			"the file assigns none of the variables with which the kubelet's unit makes flags ($%s); assign one of them there that no other file assigns, as in %s=\"\"",
			strings.Join(e.used, ", $"),
			e.used[len(e.used)-1],
		)
	}
	if len(e.variables) == 0 {
		return nil, fmt.Errorf(
			"the file assigns no %s: add the line %s=\"\" to it if the kubelet's unit reads it",
			systemdunit.KubeadmVariable,
			systemdunit.KubeadmVariable,
		)
	}
	at := len(e.variables) - 1
	if i := slices.IndexFunc(e.variables, func(v variable) bool { return v.name == systemdunit.KubeadmVariable }); i >= 0 {
		at = i
	}
	v := e.variables[at]
	if len(v.words) == 0 {
		return []textedit.Splice{{Start: v.start, End: v.start, Text: text}}, nil
	}
	end := v.words[len(v.words)-1].End
	return []textedit.Splice{{Start: end, End: end, Text: " " + text}}, nil
}

// remove takes the words from one to another away; a flag's value may stand in the next variable.
func (e *environment) remove(from, to [2]int) []textedit.Splice {
	if to[0] != from[0] {
		return append(e.remove(from, from), e.remove(to, to)...)
	}
	words := e.variables[from[0]].words
	switch {
	case from[1] > 0:
		return []textedit.Splice{{Start: words[from[1]-1].End, End: words[to[1]].End}}
	case to[1]+1 < len(words):
		return []textedit.Splice{{Start: words[0].Start, End: words[to[1]+1].Start}}
	}
	return []textedit.Splice{{Start: words[0].Start, End: words[to[1]].End}}
}

// readEnvironment reads an environment file as systemd does, as far as it assigns flags of a kubelet.
func readEnvironment(data []byte, used []string) (*environment, error) {
	e := &environment{data: data, used: used}
	for _, a := range systemdunit.ReadEnvironmentFile(data) {
		if !holdsFlags(a.Name, used) {
			continue
		}
		v := variable{name: a.Name, start: a.At}
		var err error
		if v.words, err = a.Words(); err != nil {
			return nil, fmt.Errorf("line %d: the value of %s: %w", 1+bytes.Count(data[:a.At], []byte("\n")), a.Name, err)
		}
		// A later assignment replaces an earlier one.
		e.variables = slices.DeleteFunc(e.variables, func(o variable) bool { return o.name == a.Name })
		e.variables = append(e.variables, v)
	}
	slices.SortStableFunc(
		e.variables,
		func(a, b variable) int { return cmp.Compare(variableRank(a.name, used), variableRank(b.name, used)) },
	)
	return e, nil
}

// holdsFlags reports whether a variable's value becomes flags. If the unit is known, it decides. Installers name their
// variables as they like, and a flag in an overlooked variable would stay next to the new one.
func holdsFlags(name string, used []string) bool {
	if len(used) > 0 {
		return slices.Contains(used, name)
	}
	return kubeletVariable.MatchString(name)
}

// variableRank is where a variable stands on the kubelet's command line.
func variableRank(name string, used []string) int {
	if len(used) > 0 {
		return slices.Index(used, name)
	}
	if name == extraVariable {
		return 1
	}
	return 0
}
