// Package systemdunit reads a systemd service as systemd would start it, and edits the flags in it. Every other byte
// stays.
package systemdunit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/textedit"
)

// ApplyUnit applies setFlag and unsetFlag to the files of a unit, in order. It returns the files that change with their
// new bytes; none when there is nothing to do. A flag is changed where it is written; a new one goes into Home, behind
// the last flag there. Each change is checked: when the command line is not afterwards exactly what it was before, and
// the edit, then the result is an error. Host paths need no edit in a unit: a service sees the files of its host.
func ApplyUnit(u *Unit, edits []v1.Edit) (map[string][]byte, error) {
	return ApplyUnitIn(u, u.Home(), edits)
}

// ApplyUnitIn is ApplyUnit with new flags in a file of the unit that the caller chooses.
func ApplyUnitIn(u *Unit, home string, edits []v1.Edit) (map[string][]byte, error) {
	now := u
	for _, e := range edits {
		next, err := now.applyOne(e, home)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", e.Op, e.Name, err)
		}
		now = next
	}
	out := map[string][]byte{}
	for _, p := range u.Paths() {
		if !bytes.Equal(u.Contents[p], now.Contents[p]) {
			out[p] = slices.Clone(now.Contents[p])
		}
	}
	return out, nil
}

func (u *Unit) applyOne(e v1.Edit, home string) (*Unit, error) {
	if err := commandline.ValidateEdit(e); err != nil {
		return nil, err
	}
	if e.Op == v1.EditAddHostPath || e.Op == v1.EditRemoveHostPath {
		return u, nil
	}
	if !textedit.SafeWord.MatchString(e.Value) {
		return nil, textedit.ErrUnsafeWord
	}
	before, now := u.Command(), u
	for range commandline.MaxChanges {
		c, err := now.next(e, home)
		if err != nil {
			return nil, err
		}
		if c == nil {
			return now, commandline.CheckOtherFlags(e, before, now.Command())
		}
		if now, err = now.applyChange(c); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("it would take too many changes")
}

// unitChange is one change of a unit's files, with the command line that must come of it.
type unitChange struct {
	splices map[string][]textedit.Splice
	want    []string
}

// next is the next change that an edit needs; nil when the unit is as the edit wants it.
func (u *Unit) next(e v1.Edit, home string) (*unitChange, error) {
	name, command := commandline.NormalizeName(e.Name), u.Command()
	all := commandline.FindFlags(command)
	have := commandline.OccurrencesOf(all, name)
	switch {
	case len(have) == 0 && e.Op == v1.EditUnsetFlag,
		len(have) == 1 && e.Op == v1.EditSetFlag && have[0].Value == e.Value:
		return nil, nil
	case len(have) == 0:
		return u.insert(all, commandline.FormatNewFlag(all, name, e.Value), home)
	case e.Op == v1.EditUnsetFlag,
		len(have) > 1,
		have[0].Form == commandline.Separate && commandline.IsFlag(e.Value):
		return u.remove(have[0].Index, have[0].LastIndex()), nil // the last one wins, so the others go
	}
	at := have[0].LastIndex()
	text := commandline.FormatFlag(command[have[0].Index], have[0].Form, e.Value)
	want := slices.Clone(command)
	want[at] = text
	a := u.Arguments[at]
	return &unitChange{
		map[string][]textedit.Splice{a.File: {{Start: a.start, End: a.end, Text: u.escaped(a.File, text)}}},
		want,
	}, nil
}

// escaped is a text as it is written in a file: in a unit file a percent sign stands for itself when it is doubled. A
// dollar sign is no safe character, and never comes here.
func (u *Unit) escaped(file, text string) string {
	if slices.Contains(u.UnitFiles, file) {
		return strings.ReplaceAll(text, "%", "%%")
	}
	return text
}

// insert puts words behind the last flag that is written in a file, or where the file assigns a variable that has no
// flags.
func (u *Unit) insert(all []commandline.Occurrence, add []string, home string) (*unitChange, error) {
	after := -1
	for _, f := range all {
		if u.Arguments[f.LastIndex()].File == home {
			after = f.LastIndex()
		}
	}
	text := u.escaped(home, strings.Join(add, " "))
	if after < 0 {
		if s, at, ok := u.emptyVariable(home, text); ok {
			return &unitChange{map[string][]textedit.Splice{home: s}, slices.Insert(u.Command(), at, add...)}, nil
		}
	}
	if after < 0 && u.Arguments[0].File == home {
		after = commandline.ProgramIndex(u.Command())
	}
	if after < 0 {
		return nil, fmt.Errorf("there is no flag in %s to put another one behind: add it there by hand", home)
	}
	a := u.Arguments[after]
	splices := []textedit.Splice{{Start: a.end, End: a.end, Text: u.separator(after) + text}}
	if w := u.Variables[a.variable].wrap; a.variable != "" && w != nil {
		splices = append(
			splices,
			textedit.Splice{Start: w.start, End: w.start, Text: `"`},
			textedit.Splice{Start: w.end, End: w.end, Text: `"`},
		)
	}
	return &unitChange{map[string][]textedit.Splice{a.File: splices}, slices.Insert(u.Command(), after+1, add...)}, nil
}

// emptyVariable is for a variable that has no flags yet and is a whole word of ExecStart=. It is the place of its flags
// in a file, and their index on the command line.
func (u *Unit) emptyVariable(file, text string) ([]textedit.Splice, int, bool) {
	for _, s := range u.Settings("ExecStart") {
		words, err := SplitValue(s.Value)
		if err != nil {
			return nil, 0, false
		}
		for i, w := range words {
			name, ok := VariableAlone(TextOf(w.Letters))
			a, assigned := u.Variables[name]
			if i == 0 || !ok || !assigned || a.file != file {
				continue
			}
			if have, err := a.Words(); err != nil || len(have) > 0 {
				continue
			}
			splices := []textedit.Splice{{Start: a.At, End: a.At, Text: text}}
			if a.wrap != nil && strings.Contains(text, " ") {
				splices = []textedit.Splice{
					{Start: a.wrap.start, End: a.wrap.start, Text: `"`},
					{Start: a.At, End: a.At, Text: text + `"`},
				}
			}
			return splices, u.indexBehind(words[:i]), true
		}
	}
	return nil, 0, false
}

// indexBehind is how many arguments the words before one make.
func (u *Unit) indexBehind(words []unitWord) int {
	n := 0
	for i, w := range words {
		name, ok := VariableAlone(TextOf(w.Letters))
		if i == 0 || !ok {
			n++
			continue
		}
		if all, err := textedit.SplitWords(u.Variables[name].value); err == nil {
			n += len(all)
		}
	}
	return n
}

// remove takes the arguments from one to another away.
func (u *Unit) remove(first, last int) *unitChange {
	c := &unitChange{splices: map[string][]textedit.Splice{}, want: slices.Delete(u.Command(), first, last+1)}
	if first < last && !u.areAdjacent(last-1, last) { // the value stands in another variable than the name
		u.removeInto(c.splices, last, last)
		last = first
	}
	u.removeInto(c.splices, first, last)
	return c
}

// removeInto removes arguments with the space before them, or behind them where they are the first of their variable.
func (u *Unit) removeInto(splices map[string][]textedit.Splice, first, last int) {
	start, end := u.Arguments[first].start, u.Arguments[last].end
	switch {
	case first > 0 && u.areAdjacent(first-1, first):
		start = u.Arguments[first-1].end
	case last+1 < len(u.Arguments) && u.areAdjacent(last, last+1):
		end = u.Arguments[last+1].start
	}
	file := u.Arguments[first].File
	splices[file] = append(splices[file], textedit.Splice{Start: start, End: end, Text: ""})
}

// between is what may stand between two arguments that are written one after the other: spaces, and the end of a line
// that goes on.
var between = regexp.MustCompile(`^[ \t]+$|^[ \t]*\\\r?\n[ \t]*$`)

// gap is what stands between two arguments; empty unless both are in one variable, or in ExecStart= with no variable in
// between.
func (u *Unit) gap(i, j int) string {
	if i < 0 {
		return ""
	}
	a, b := u.Arguments[i], u.Arguments[j]
	if a.File != b.File || a.variable != b.variable || a.end > b.start {
		return ""
	}
	return string(between.Find(u.Contents[a.File][a.end:b.start]))
}

func (u *Unit) areAdjacent(i, j int) bool { return u.gap(i, j) != "" }

// separator is what stands between an argument and a new one behind it: a line break where every argument has a line of
// its own.
func (u *Unit) separator(i int) string {
	if text := u.gap(i-1, i); strings.Contains(text, "\n") {
		return text
	}
	return " "
}

// applyChange makes a change and compares the command line with what it ought to be.
func (u *Unit) applyChange(c *unitChange) (*Unit, error) {
	out := &Unit{
		Name:      u.Name,
		UnitFiles: u.UnitFiles,
		Contents:  maps.Clone(u.Contents),
		globs:     u.globs,
	}
	for file, splices := range c.splices {
		out.Contents[file] = textedit.ApplySplices(u.Contents[file], splices)
	}
	err := out.ReadCommand()
	if err == nil && !slices.Equal(out.Command(), c.want) {
		err = errors.New("something else would change as well")
	}
	if err != nil {
		return nil, fmt.Errorf(
			"unit %s is written in a way that cannot be edited safely (a variable used twice, or unusual quotes), so it was not changed; "+
				"write the flag out in ExecStart= and run the same command again (%w)",
			u.Name,
			err,
		)
	}
	return out, nil
}
