package migrationconfig

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/shell"
)

// Correct returns the file that was meant, for manager of version 1.minor. It holds what could be read of data, with
// the loops under that version's names, and the loops that are missing. Its apiVersion is one that the version reads,
// and nothing in it is refused by a manager. Entries for other controllers stay. Where nothing could be read it is the
// default. It is false only for a version without leader migration.
func Correct(manager controllernames.Component, minor int, data []byte) ([]byte, bool) {
	if minor < firstMinor {
		return nil, false
	}
	config, _ := Parse(data) //nolint:errcheck // what is wrong is what is corrected here
	if first, known := firstMinorOf[config.Version]; !known || first > minor {
		config.Version = versionFor(minor)
	}
	if config.LeaderName == "" {
		config.LeaderName = component.MigrationLease
	}
	return write(config.Version, config.LeaderName, corrected(manager, minor, config.Leaders)), true
}

// corrected are the leaders under the right names, each once, in the file's order, with the cloud loops that were not
// there at the end.
func corrected(manager controllernames.Component, minor int, leaders []Leader) []Leader {
	var out []Leader
	put := func(l Leader) {
		if i := slices.IndexFunc(out, func(o Leader) bool { return o.Name == l.Name }); i >= 0 {
			out[i] = l // the last one counts, as in the managers
			return
		}
		out = append(out, l)
	}
	for _, l := range leaders {
		loop, _, known := controllernames.Lookup(l.Name)
		switch {
		case l.Name == "":
			continue
		case known:
			l.Name = controllernames.Name(manager, minor, loop)
		}
		other := !slices.Contains(controllernames.Components, controllernames.Component(l.Component)) &&
			l.Component != AnyComponent
		if other || slices.Contains(controllernames.CloudLoops, loop) && !l.Runs(manager) {
			l.Component = AnyComponent
		}
		put(l)
	}
	for _, loop := range controllernames.CloudLoops {
		name := controllernames.Name(manager, minor, loop)
		if !slices.ContainsFunc(out, func(l Leader) bool { return l.Name == name }) {
			put(Leader{Name: name, Component: AnyComponent})
		}
	}
	return out
}

// write is the file of a config, with every word quoted that YAML would take for something else than text.
func write(version, leaderName string, leaders []Leader) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s/%s\nkind: %s\nleaderName: %s\n", Group, version, Kind, word(leaderName))
	if version != V1 {
		fmt.Fprintf(&b, "resourceLock: %s\n", lockLeases)
	}
	b.WriteString("controllerLeaders:\n")
	for _, l := range leaders {
		fmt.Fprintf(&b, "- name: %s\n  component: %s\n", word(l.Name), word(l.Component))
	}
	return []byte(b.String())
}

// word is text as YAML, quoted where it has to be; double quotes around an asterisk, since single ones would end a
// shell's.
func word(text string) string {
	if text == AnyComponent {
		return `"*"`
	}
	out, err := yaml.Marshal(text)
	if err != nil {
		return fmt.Sprintf("%q", text)
	}
	return strings.TrimSpace(string(out))
}

// Command is a line of shell that writes a file of this package at a path, in one line so that it survives being
// indented.
func Command(file []byte, path string) string {
	var lines []string
	for line := range strings.Lines(string(file)) {
		lines = append(lines, shell.Literal(strings.TrimSuffix(line, "\n")))
	}
	return fmt.Sprintf(`printf '%%s\n' %s > %s`, strings.Join(lines, " "), shell.Quote(path))
}
