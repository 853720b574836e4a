package controlplane

import (
	"fmt"
	"maps"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// kubeletUnitFile reads one file of a kubelet's unit by itself: a unit, or a drop-in with Environment= settings. nil when it is no such file.
func kubeletUnitFile(data []byte) (*Unit, error) {
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
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(u.variables)), func(name string) bool { return !kubeletVariable.MatchString(name) })
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
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
