package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// kubeletStep shows what a step changes in each of several files.
func (d *differ) kubeletStep(s v1.Step) error {
	files, edits := planstep.EditsByFile(s)
	for _, at := range files {
		part := s
		part.Path, part.Edits, part.Files = at, edits[at], nil
		c, err := d.differenceAt(part.Host+at, func() (string, error) { return d.file(part) })
		if err != nil {
			return err
		}
		if c.After, err = d.edited(part, c.After); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}

// isConfig reports whether the edits are of gates in a kubelet's configuration file.
func isConfig(s v1.Step) bool {
	return slices.ContainsFunc(
		s.Edits,
		func(e v1.Edit) bool { return e.Op == v1.EditSetGate || e.Op == v1.EditUnsetGate },
	)
}

// kubeletLines are what a snapshot knows of one file that a kubelet is started with: its flags, or its gates.
func kubeletLines(k *v1.Kubelet, s v1.Step) string {
	if isConfig(s) {
		var b strings.Builder
		b.WriteString("featureGates:\n")
		for _, gate := range slices.Sorted(maps.Keys(k.Config.FeatureGates)) {
			if cmp.Or(k.Config.GateFiles[gate], k.Config.Path) == s.Path {
				fmt.Fprintf(&b, "  %s: %v\n", gate, k.Config.FeatureGates[gate])
			}
		}
		return b.String()
	}
	flags := map[string]string{}
	for name, value := range k.Flags {
		if cmp.Or(k.Sources[name], k.Source) == s.Path || slices.Contains(k.Also[name], s.Path) {
			flags[name] = value
		}
	}
	return flagLines(flags)
}
