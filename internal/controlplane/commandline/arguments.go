// Package commandline reads and edits the flags of a component's command line, whichever way they are written.
package commandline

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// ApplyArguments applies setFlag and unsetFlag to a container's command and args, in order, with the same meaning as
// Apply on a manifest. A flag is changed where it is, and a new one comes after the last flag. Arguments stay in their
// list of the two. The lists that it is given are not changed. Of a component that another program starts once
// something is there (see Unwrapped), the wrapped arguments are edited.
func ApplyArguments(command, args []string, edits []v1.Edit) (newCommand, newArgs []string, err error) {
	if w := unwrap(slices.Concat(command, args)); w != nil {
		return applyWrapped(command, args, w, edits)
	}
	l := argumentLists{all: slices.Concat(command, args), border: len(command)}
	if err := l.checkProgram(); err != nil {
		return nil, nil, err
	}
	for _, e := range edits {
		if e.Op != v1.EditSetFlag && e.Op != v1.EditUnsetFlag {
			return nil, nil, fmt.Errorf("%s %s: this operation is not known for arguments", e.Op, e.Name)
		}
		if err = ValidateEdit(e); err == nil {
			err = l.apply(e)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s %s: %w", e.Op, e.Name, err)
		}
	}
	return sameNil(l.all[:l.border], command), sameNil(l.all[l.border:], args), nil
}

// sameNil keeps a list that was absent absent: an empty one in its place would be a change of the object.
func sameNil(list, was []string) []string {
	if len(list) == 0 && was == nil {
		return nil
	}
	return slices.Clone(list)
}

// argumentLists are a command and its arguments in one list; the arguments begin at border.
type argumentLists struct {
	all    []string
	border int
}

func (l *argumentLists) checkProgram() error {
	if err := RefuseShell(l.all); err != nil {
		return err
	}
	if at := ScriptIndex(l.all); at >= 0 && ProgramIndex(l.all) < at {
		return &ShellCommandError{Shell: l.all[0], Component: "the program"}
	}
	return nil
}

func (l *argumentLists) apply(e v1.Edit) error {
	name, before := NormalizeName(e.Name), slices.Clone(l.all)
	for range MaxChanges {
		all := FindFlags(l.all)
		have := OccurrencesOf(all, name)
		switch {
		case len(have) == 0 && e.Op == v1.EditUnsetFlag, len(have) == 1 && e.Op == v1.EditSetFlag && have[0].Value == e.Value:
			return CheckOtherFlags(e, before, l.all)
		case len(have) == 0:
			if err := l.insert(all, FormatNewFlag(all, name, e.Value)); err != nil {
				return err
			}
		case e.Op == v1.EditUnsetFlag, len(have) > 1, have[0].Form == Separate && IsFlag(e.Value):
			l.remove(have[0].Index, have[0].LastIndex()) // the last one wins, so the others go
		default:
			l.all[have[0].LastIndex()] = FormatFlag(l.all[have[0].Index], have[0].Form, e.Value)
		}
	}
	return errors.New("it would take too many changes")
}

// FormatFlag is an argument with another value, in the form in which it was written.
func FormatFlag(arg string, f form, value string) string {
	switch f {
	case Separate:
		return value
	case attached:
		return "-v=" + value
	default:
		name, _, _ := strings.Cut(arg, "=")
		return name + "=" + value
	}
}

func (l *argumentLists) insert(all []Occurrence, add []string) error {
	after := ProgramIndex(l.all)
	if len(all) > 0 {
		after = all[len(all)-1].LastIndex()
	}
	if after < 0 || after >= len(l.all) {
		return errors.New(
			"the container has neither a command nor a flag to put another one behind: give it its command and run the same command again",
		)
	}
	l.all = slices.Insert(l.all, after+1, add...)
	if after < l.border {
		l.border += len(add)
	}
	return nil
}

func (l *argumentLists) remove(first, last int) {
	l.all = slices.Delete(l.all, first, last+1)
	l.border -= max(0, min(last+1, l.border)-first)
}
