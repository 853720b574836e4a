package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// KubeletVariables are the variables whose values become flags of the kubelet that a host's unit starts, in the order of its command line. None when there is
// no unit, or it does not read that file. A unit that cannot be read is an error: to go by usual names then would miss a flag in a variable of another one.
func KubeletVariables(files Files, at string) ([]string, error) {
	u, err := ReadUnit(files, "kubelet")
	if errors.Is(err, fs.ErrNotExist) || err == nil && !slices.Contains(u.Paths(), at) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range u.settings("ExecStart") {
		value, literal, err := prefixes(s.value)
		words, wordsErr := splitUnit(value)
		if err != nil || wordsErr != nil || literal {
			return nil, errors.Join(err, wordsErr)
		}
		for i, w := range words {
			if name, ok := splitVariable(textOf(w.letters)); i > 0 && ok && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out, nil
}

// KubeletKeeps says what flag a host's unit would still give the kubelet otherwise than edits of its files want it: one that stands where no edit reaches it.
// Empty when there is none, and when there is no unit.
func KubeletKeeps(files Files, edits []v1.Edit) (string, error) {
	u, err := ReadUnit(files, "kubelet")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	all := occurrences(u.Command())
	for _, e := range edits {
		have := named(all, flagName(e.Name))
		switch {
		case e.Op == setFlag && len(have) == 0:
			return "without --" + flagName(e.Name), nil
		case e.Op == unsetFlag && len(have) > 0, e.Op == setFlag && have[len(have)-1].value != e.Value:
			last := have[len(have)-1]
			return fmt.Sprintf("with --%s=%s of %s", last.name, last.value, u.args[last.index].file), nil
		}
	}
	return "", nil
}

// kubeletUnitFile reads one file of a kubelet's unit by itself: a unit, or a drop-in with Environment= settings. nil when it is no such file.
func kubeletUnitFile(data []byte, used ...string) (*Unit, error) {
	const self, rest = "file", "rest" // names of files that are not looked for
	if !slices.ContainsFunc(readUnitFile(data), func(s setting) bool { return s.section == "Service" }) {
		return nil, nil
	}
	u := &Unit{Name: "kubelet.service", unitFiles: []string{self}, data: map[string][]byte{self: data}}
	if len(u.settings("ExecStart")) > 0 {
		return u, u.build()
	}
	if err := u.readVariables(); err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(u.variables)), func(name string) bool { return !holdsFlags(name, used) })
	slices.SortStableFunc(names, func(a, b string) int { return rank(a, used) - rank(b, used) })
	command := "[Service]\nExecStart=kubelet"
	for _, name := range names {
		command += " $" + name
	}
	u.unitFiles, u.data[rest] = append(u.unitFiles, rest), []byte(command)
	return u, u.build()
}

func applyKubeletUnit(u *Unit, edits []v1.Edit) ([]byte, error) {
	file := u.unitFiles[0]
	for _, e := range edits {
		if e.Op != setFlag && e.Op != unsetFlag {
			return nil, fmt.Errorf("%s %s: %w", e.Op, e.Name, errKubeletOperation)
		}
	}
	changes, err := ApplyUnit(u, edits)
	if err != nil {
		return nil, err
	}
	for name := range changes {
		if name != file {
			return nil, fmt.Errorf("the file assigns no %s: add a line Environment=\"%s=\" to its section [Service] if the kubelet's unit uses it", extraVariable, extraVariable)
		}
	}
	if out, ok := changes[file]; ok {
		return out, nil
	}
	return u.data[file], nil
}
