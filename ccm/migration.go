package ccm

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/controller-manager/config"
	migrationoptions "k8s.io/controller-manager/pkg/leadermigration/options"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
)

const (
	ownComponent = controllernames.CloudControllerManager
	// linkedMinor is the minor of the k8s.io/cloud-provider that this is built with. A test holds it to the names that the
	// library registers.
	linkedMinor = 37
	// lockLeases is the only kind of lock that client-go still makes.
	lockLeases = "leases"
)

// sortedKeys are the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// roster is what this manager can run.
type roster struct {
	controllers map[string]ControllerInitFuncConstructor
	aliases     map[string]string // short name -> name in controllers
}

// migration is what the flags of leader migration and the file come to.
type migration struct {
	enabled bool
	source  string // where the config comes from, for the log
	config  config.LeaderMigrationConfiguration
	notes   []string
}

// migration reads the flags and, once, the file that they name.
func (r roster) migration(given migrationoptions.LeaderMigrationOptions) (migration, error) {
	path := given.ControllerMigrationConfig
	switch {
	case !given.Enabled && path == "":
		return migration{}, nil
	case !given.Enabled:
		return migration{
			source: path,
			notes:  []string{"the file is ignored, because --enable-leader-migration is not set"},
		}, nil
	case path == "":
		return migration{
			enabled: true,
			source:  "default",
			config:  internal(migrationconfig.Default(ownComponent, linkedMinor)),
		}, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return migration{}, fmt.Errorf("reading the file of --leader-migration-config: %w", err)
	}
	file, err := migrationconfig.Parse(data)
	if err != nil {
		return migration{}, fmt.Errorf("parsing leader migration config %q: %w", path, err)
	}
	normal, notes, err := r.normalise(file)
	if err != nil {
		return migration{}, fmt.Errorf("using leader migration config %q: %w", path, err)
	}
	return migration{
		enabled: true,
		source:  path,
		config:  internal(normal),
		notes:   notes,
	}, nil
}

// canonical returns the name under which the manager registers a controller. Node IPAM is known even to a manager that
// does not run it, since a file for both sides lists it.
func (r roster) canonical(name string) (string, bool) {
	if loop, _, ok := controllernames.Lookup(name); ok {
		return controllernames.Name(ownComponent, linkedMinor, loop), true
	}
	if alias, ok := r.aliases[name]; ok {
		name = alias
	}
	_, ok := r.controllers[name]
	return name, ok
}

// knownNames lists every name that a file may hold.
func (r roster) knownNames() []string {
	names := controllernames.Known()
	for _, name := range sortedKeys(r.controllers) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// normalise turns a file's config into the one that is run: names are what the manager registers, each once. Notes say
// what was changed and what looks wrong but may be meant. It refuses a config with an unknown name, with two answers
// for one loop, or with a migration lease and nothing to run under it. The process would look healthy while no manager
// runs the loops.
func (r roster) normalise(file migrationconfig.Config) (migrationconfig.Config, []string, error) {
	var notes []string
	normal := file
	normal.Leaders = nil
	at := map[string]int{}
	for i, leader := range file.Leaders {
		name, known := r.canonical(leader.Name)
		switch earlier, twice := at[name]; {
		case !known:
			return normal, nil, fmt.Errorf(
				"controllerLeaders[%d].name: %s has no controller %q; it has %s",
				i,
				ownComponent,
				leader.Name,
				strings.Join(r.knownNames(), ", "),
			)
		case twice && normal.Leaders[earlier].Component != leader.Component:
			return normal, nil, fmt.Errorf(
				"controllerLeaders[%d]: %s is listed before with another component, %q; keep one",
				i,
				name,
				normal.Leaders[earlier].Component,
			)
		case twice:
			continue
		}
		if name != leader.Name {
			notes = append(notes, fmt.Sprintf("controllerLeaders[%d].name: %q is read as %s", i, leader.Name, name))
		}
		at[name] = len(normal.Leaders)
		normal.Leaders = append(normal.Leaders, migrationconfig.Leader{Name: name, Component: leader.Component})
	}
	judged, err := r.checkConfig(normal)
	return normal, append(notes, judged...), err
}

// checkConfig sorts what is wrong with a normalised config into notes and an error.
func (r roster) checkConfig(normal migrationconfig.Config) ([]string, error) {
	if !slices.ContainsFunc(normal.Leaders, r.runs) {
		return nil, fmt.Errorf(
			"controllerLeaders: %s would have nothing to run under the lease %s, and may be the only manager that could; give it a loop, "+
				"or leave out --enable-leader-migration",
			ownComponent,
			normal.LeaderName,
		)
	}
	var notes []string
	for _, p := range migrationconfig.Judge(ownComponent, linkedMinor, normal) {
		if p.Code == migrationconfig.BadResourceLock || p.Code == migrationconfig.UnknownComponent {
			return nil, fmt.Errorf("%s", p)
		}
		if p.Code == migrationconfig.ResourceLockInV1 {
			p.Summary, p.Fix = "v1 has no such field; it is ignored here, and other managers of 1.32 or later exit because of it", "remove it"
		}
		notes = append(notes, p.String())
	}
	for i, leader := range normal.Leaders {
		if _, registered := r.controllers[leader.Name]; !registered && leader.Runs(ownComponent) {
			notes = append(
				notes,
				fmt.Sprintf(
					"controllerLeaders[%d]: this manager has no %s, so that the entry has no effect; keep the controller enabled elsewhere",
					i,
					leader.Name,
				),
			)
		}
	}
	return notes, nil
}

// runs reports whether the manager would run an entry's controller.
func (r roster) runs(leader migrationconfig.Leader) bool {
	_, registered := r.controllers[leader.Name]
	return registered && leader.Runs(ownComponent)
}

// internal returns a config as upstream's types, and /configz, hold it.
func internal(normal migrationconfig.Config) config.LeaderMigrationConfiguration {
	lib := config.LeaderMigrationConfiguration{LeaderName: normal.LeaderName, ResourceLock: lockLeases}
	for _, leader := range normal.Leaders {
		lib.ControllerLeaders = append(
			lib.ControllerLeaders,
			config.ControllerLeaderConfiguration{Name: leader.Name, Component: leader.Component},
		)
	}
	return lib
}

// apply puts the config in place of upstream's, and says in the log what it is.
func (m migration) apply(generic *config.GenericControllerManagerConfiguration) {
	for _, note := range m.notes {
		klog.Warningf("Leader migration config %q: %s", m.source, note)
	}
	if !m.enabled {
		return
	}
	generic.LeaderMigrationEnabled, generic.LeaderMigration = true, m.config
	klog.InfoS(
		"Leader migration is enabled",
		"source",
		m.source,
		"lease",
		m.config.LeaderName,
		"leaders",
		m.config.ControllerLeaders,
	)
	if !generic.LeaderElection.LeaderElect {
		klog.Warning(
			"Leader migration has no effect, because --leader-elect is off: this manager runs every loop at once, even while another manager runs it",
		)
	}
}
