package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// ApplyUnit carries setFlag and unsetFlag out on the files of a unit, in order, and returns the files that change with their new bytes; none when
// there is nothing to do. A flag is changed where it is written; a new one goes into Home, behind the last flag there. Each change is checked: when
// the command line is not afterwards exactly what it was before, and the edit, then the result is an error. Host paths need no edit in a unit: a
// service sees the files of its host.
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
		if !bytes.Equal(u.data[p], now.data[p]) {
			out[p] = slices.Clone(now.data[p])
		}
	}
	return out, nil
}

func (u *Unit) applyOne(e v1.Edit, home string) (*Unit, error) {
	if err := validate(e); err != nil {
		return nil, err
	}
	if e.Op == addHostPath || e.Op == removeHostPath {
		return u, nil
	}
	if !safeWord.MatchString(e.Value) {
		return nil, errUnsafeWord
	}
	before, now := u.Command(), u
	for range maxChanges {
		c, err := now.next(e, home)
		if err != nil {
			return nil, err
		}
		if c == nil {
			return now, sameOthers(e, before, now.Command())
		}
		if now, err = now.carryOut(c); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("it would take too many changes")
}

// unitChange is one change of a unit's files, with the command line that must come of it.
type unitChange struct {
	splices map[string][]splice
	want    []string
}

// next is the next change that an edit needs; nil when the unit is as the edit wants it.
func (u *Unit) next(e v1.Edit, home string) (*unitChange, error) {
	name, command := flagName(e.Name), u.Command()
	all := occurrences(command)
	have := named(all, name)
	switch {
	case len(have) == 0 && e.Op == unsetFlag, len(have) == 1 && e.Op == setFlag && have[0].value == e.Value:
		return nil, nil
	case len(have) == 0:
		return u.insert(all, written(all, name, e.Value), home)
	case e.Op == unsetFlag, len(have) > 1, have[0].form == separate && isFlag(e.Value):
		return u.remove(have[0].index, have[0].last()), nil // the last one wins, so the others go
	}
	at := have[0].last()
	text := rewritten(command[have[0].index], have[0].form, e.Value)
	want := slices.Clone(command)
	want[at] = text
	a := u.args[at]
	return &unitChange{map[string][]splice{a.file: {{a.start, a.end, u.escaped(a.file, text)}}}, want}, nil
}

// escaped is a text as it is written in a file: in a unit file a percent sign stands for itself when it is doubled. A dollar sign is no safe
// character, and never comes here.
func (u *Unit) escaped(file, text string) string {
	if slices.Contains(u.unitFiles, file) {
		return strings.ReplaceAll(text, "%", "%%")
	}
	return text
}

// insert puts words behind the last flag that is written in a file, or where the file assigns a variable that has no flags.
func (u *Unit) insert(all []flag, add []string, home string) (*unitChange, error) {
	after := -1
	for _, f := range all {
		if u.args[f.last()].file == home {
			after = f.last()
		}
	}
	text := u.escaped(home, strings.Join(add, " "))
	if after < 0 {
		if s, at, ok := u.emptyVariable(home, text); ok {
			return &unitChange{map[string][]splice{home: s}, slices.Insert(u.Command(), at, add...)}, nil
		}
	}
	if after < 0 && u.args[0].file == home {
		after = program(u.Command())
	}
	if after < 0 {
		return nil, fmt.Errorf("there is no flag in %s to put another one behind: add it there by hand", home)
	}
	a := u.args[after]
	splices := []splice{{a.end, a.end, u.separator(after) + text}}
	if w := u.variables[a.variable].wrap; a.variable != "" && w != nil {
		splices = append(splices, splice{w.start, w.start, `"`}, splice{w.end, w.end, `"`})
	}
	return &unitChange{map[string][]splice{a.file: splices}, slices.Insert(u.Command(), after+1, add...)}, nil
}

// emptyVariable is the place in a file for the flags of a variable that has none yet and stands alone in ExecStart=, and their index on the
// command line.
func (u *Unit) emptyVariable(file, text string) ([]splice, int, bool) {
	for _, s := range u.settings("ExecStart") {
		words, err := splitUnit(s.value)
		if err != nil {
			return nil, 0, false
		}
		for i, w := range words {
			name, ok := splitVariable(textOf(w.letters))
			a, assigned := u.variables[name]
			if i == 0 || !ok || !assigned || a.file != file {
				continue
			}
			if have, err := a.words(); err != nil || len(have) > 0 {
				continue
			}
			splices := []splice{{a.at, a.at, text}}
			if a.wrap != nil && strings.Contains(text, " ") {
				splices = []splice{{a.wrap.start, a.wrap.start, `"`}, {a.at, a.at, text + `"`}}
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
		name, ok := splitVariable(textOf(w.letters))
		if i == 0 || !ok {
			n++
			continue
		}
		if all, err := splitWords(u.variables[name].value); err == nil {
			n += len(all)
		}
	}
	return n
}

// remove takes the arguments from one to another away.
func (u *Unit) remove(first, last int) *unitChange {
	c := &unitChange{splices: map[string][]splice{}, want: slices.Delete(u.Command(), first, last+1)}
	if first < last && !u.beside(last-1, last) { // the value stands in another variable than the name
		u.removeInto(c.splices, last, last)
		last = first
	}
	u.removeInto(c.splices, first, last)
	return c
}

// removeInto removes arguments with the space before them, or behind them where they are the first of their variable.
func (u *Unit) removeInto(splices map[string][]splice, first, last int) {
	start, end := u.args[first].start, u.args[last].end
	switch {
	case first > 0 && u.beside(first-1, first):
		start = u.args[first-1].end
	case last+1 < len(u.args) && u.beside(last, last+1):
		end = u.args[last+1].start
	}
	file := u.args[first].file
	splices[file] = append(splices[file], splice{start, end, ""})
}

// between is what may stand between two arguments that are written one after the other: spaces, and the end of a line that goes on.
var between = regexp.MustCompile(`^[ \t]+$|^[ \t]*\\\r?\n[ \t]*$`)

// gap is what stands between two arguments; empty unless both are in one variable, or in ExecStart= with no variable in between.
func (u *Unit) gap(i, j int) string {
	if i < 0 {
		return ""
	}
	a, b := u.args[i], u.args[j]
	if a.file != b.file || a.variable != b.variable || a.end > b.start {
		return ""
	}
	return string(between.Find(u.data[a.file][a.end:b.start]))
}

func (u *Unit) beside(i, j int) bool { return u.gap(i, j) != "" }

// separator is what stands between an argument and a new one behind it: a line break where every argument has a line of its own.
func (u *Unit) separator(i int) string {
	if text := u.gap(i-1, i); strings.Contains(text, "\n") {
		return text
	}
	return " "
}

// carryOut makes a change and compares the command line with what it ought to be.
func (u *Unit) carryOut(c *unitChange) (*Unit, error) {
	out := &Unit{Name: u.Name, unitFiles: u.unitFiles, data: maps.Clone(u.data), globs: u.globs}
	for file, splices := range c.splices {
		out.data[file] = splicedInto(u.data[file], splices)
	}
	err := out.build()
	if err == nil && !slices.Equal(out.Command(), c.want) {
		err = errors.New("something else would change as well")
	}
	if err != nil {
		return nil, fmt.Errorf("unit %s is written in a way that cannot be edited safely (a variable used twice, or unusual quotes), so it was left alone: "+
			"write the flag out in ExecStart= and run the same command again (%w)", u.Name, err)
	}
	return out, nil
}
