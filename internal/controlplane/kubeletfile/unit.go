package kubeletfile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
)

// KubeletVariables are the variables whose values become flags of the kubelet that a host's unit starts, in the order
// of its command line. None when there is no unit, or it does not read that file. A unit that cannot be read is an
// error: to go by usual names then would miss a flag in a variable of another one.
func KubeletVariables(files systemdunit.Files, at string) ([]string, error) {
	u, err := systemdunit.ReadUnit(files, component.Kubelet)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !slices.Contains(u.Paths(), at) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range u.Settings("ExecStart") {
		value, literal, err := systemdunit.TrimPrefixes(s.Value)
		words, wordsErr := systemdunit.SplitValue(value)
		if err != nil || wordsErr != nil || literal {
			return nil, errors.Join(err, wordsErr)
		}
		for i, w := range words {
			if name, ok := systemdunit.VariableAlone(systemdunit.TextOf(w.Letters)); i > 0 && ok && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out, nil
}

// KubeletKeeps says which flag a host's unit would still give the kubelet against the edits of its files. Such a flag
// is where no edit reaches it. Empty when there is none, and when there is no unit.
func KubeletKeeps(files systemdunit.Files, edits []v1.Edit) (string, error) {
	u, err := systemdunit.ReadUnit(files, component.Kubelet)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	all := commandline.FindFlags(u.Command())
	for _, e := range edits {
		have := commandline.OccurrencesOf(all, commandline.NormalizeName(e.Name))
		switch {
		case e.Op == v1.EditSetFlag && len(have) == 0:
			return "without --" + commandline.NormalizeName(e.Name), nil
		case e.Op == v1.EditUnsetFlag && len(have) > 0,
			e.Op == v1.EditSetFlag && have[len(have)-1].Value != e.Value:
			last := have[len(have)-1]
			return fmt.Sprintf("with --%s=%s of %s", last.Name, last.Value, u.Arguments[last.Index].File), nil
		}
	}
	return "", nil
}

// kubeletUnitFile reads one file of a kubelet's unit by itself: a unit, or a drop-in with Environment= settings. nil
// when it is no such file.
func kubeletUnitFile(data []byte, used ...string) (*systemdunit.Unit, error) {
	const self, rest = "file", "rest" // names of files that are not looked for
	if !slices.ContainsFunc(
		systemdunit.ReadUnitFile(data),
		func(s systemdunit.Setting) bool { return s.Section == "Service" },
	) {
		return nil, nil
	}
	u := &systemdunit.Unit{Name: "kubelet.service", UnitFiles: []string{self}, Contents: map[string][]byte{self: data}}
	if len(u.Settings("ExecStart")) > 0 {
		return u, u.ReadCommand()
	}
	if err := u.ReadVariables(); err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(
		slices.Sorted(maps.Keys(u.Variables)),
		func(name string) bool { return !holdsFlags(name, used) },
	)
	slices.SortStableFunc(names, func(a, b string) int { return variableRank(a, used) - variableRank(b, used) })
	command := "[Service]\nExecStart=kubelet"
	for _, name := range names {
		command += " $" + name
	}
	u.UnitFiles, u.Contents[rest] = append(u.UnitFiles, rest), []byte(command)
	return u, u.ReadCommand()
}

func applyKubeletUnit(u *systemdunit.Unit, edits []v1.Edit) ([]byte, error) {
	file := u.UnitFiles[0]
	for _, e := range edits {
		if e.Op != v1.EditSetFlag && e.Op != v1.EditUnsetFlag {
			return nil, fmt.Errorf("%s %s: %w", e.Op, e.Name, errKubeletOperation)
		}
	}
	changes, err := systemdunit.ApplyUnit(u, edits)
	if err != nil {
		return nil, err
	}
	for name := range changes {
		if name != file {
			return nil, fmt.Errorf(
				"the file assigns no %s: add a line Environment=\"%s=\" to its section [Service] if the kubelet's unit uses it",
				extraVariable,
				extraVariable,
			)
		}
	}
	if out, ok := changes[file]; ok {
		return out, nil
	}
	return u.Contents[file], nil
}
