package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/cloud-provider/app"
	"k8s.io/controller-manager/config"

	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
)

const (
	ccm = controllernames.CloudControllerManager
	// linkedMinor is the minor of the k8s.io/cloud-provider that this is built with. A test holds it to the names that the library registers.
	linkedMinor = 37
	// lockLeases is the only kind of lock that client-go still makes.
	lockLeases = "leases"
)

// manager is what the manager at hand can run.
type manager struct {
	controllers map[string]app.ControllerInitFuncConstructor
	aliases     map[string]string // short name -> name in controllers
}

// canonical returns the name under which the manager registers a controller. Node IPAM is known even to a manager that does not run it, since
// a file for both sides lists it.
func (m manager) canonical(name string) (string, bool) {
	if loop, _, ok := controllernames.Lookup(name); ok {
		return controllernames.Name(ccm, linkedMinor, loop), true
	}
	if alias, ok := m.aliases[name]; ok {
		name = alias
	}
	_, ok := m.controllers[name]
	return name, ok
}

// known lists every name that a file may hold.
func (m manager) known() []string {
	names := controllernames.Known()
	for _, name := range slices.Sorted(maps.Keys(m.controllers)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// normalise turns a file's config into the one that the library is to run: names are what the manager registers, each once. Notes say what
// was changed and what looks wrong but may be meant. It refuses a config that would leave the manager with a name it does not know, with two
// answers for one loop, or with the migration lease and nothing to run under it.
func (m manager) normalise(file migrationconfig.Config) (config.LeaderMigrationConfiguration, []string, error) {
	var notes []string
	normal := file
	normal.Leaders = nil
	at := map[string]int{}
	for i, leader := range file.Leaders {
		name, known := m.canonical(leader.Name)
		switch earlier, twice := at[name]; {
		case !known:
			return config.LeaderMigrationConfiguration{}, nil, fmt.Errorf("controllerLeaders[%d].name: %s has no controller %q; it has %s",
				i, ccm, leader.Name, strings.Join(m.known(), ", "))
		case twice && normal.Leaders[earlier].Component != leader.Component:
			return config.LeaderMigrationConfiguration{}, nil, fmt.Errorf("controllerLeaders[%d]: %s is listed before with another component, %q; keep one",
				i, name, normal.Leaders[earlier].Component)
		case twice:
			continue
		}
		if name != leader.Name {
			notes = append(notes, fmt.Sprintf("controllerLeaders[%d].name: %q is read as %s", i, leader.Name, name))
		}
		at[name] = len(normal.Leaders)
		normal.Leaders = append(normal.Leaders, migrationconfig.Leader{Name: name, Component: leader.Component})
	}
	judged, err := m.judge(normal)
	return m.internal(normal), append(notes, judged...), err
}

// judge sorts what is wrong with a normalised config into notes and an error.
func (m manager) judge(normal migrationconfig.Config) ([]string, error) {
	if !slices.ContainsFunc(normal.Leaders, m.runs) {
		return nil, fmt.Errorf("controllerLeaders: %s would hold the lease %s with nothing to run under it, and keep every other manager from running the loops; "+
			"give it a loop, or leave out --enable-leader-migration", ccm, normal.LeaderName)
	}
	var notes []string
	for _, p := range migrationconfig.Judge(ccm, linkedMinor, normal) {
		if p.Code == migrationconfig.BadResourceLock || p.Code == migrationconfig.UnknownComponent {
			return nil, fmt.Errorf("%s", p)
		}
		if p.Code == migrationconfig.ResourceLockInV1 {
			p.Summary, p.Fix = "v1 has no such field; it is ignored here, and other managers of 1.32 or later exit because of it", "remove it"
		}
		notes = append(notes, p.String())
	}
	for i, leader := range normal.Leaders {
		if _, registered := m.controllers[leader.Name]; !registered && leader.Runs(ccm) {
			notes = append(notes, fmt.Sprintf("controllerLeaders[%d]: this manager has no %s, so that the entry has no effect; keep the controller enabled elsewhere", i, leader.Name))
		}
	}
	return notes, nil
}

// runs tells whether the manager would run an entry's controller.
func (m manager) runs(leader migrationconfig.Leader) bool {
	_, registered := m.controllers[leader.Name]
	return registered && leader.Runs(ccm)
}

// internal returns a config as the library holds it.
func (m manager) internal(normal migrationconfig.Config) config.LeaderMigrationConfiguration {
	lib := config.LeaderMigrationConfiguration{LeaderName: normal.LeaderName, ResourceLock: lockLeases}
	for _, leader := range normal.Leaders {
		lib.ControllerLeaders = append(lib.ControllerLeaders, config.ControllerLeaderConfiguration{Name: leader.Name, Component: leader.Component})
	}
	return lib
}
