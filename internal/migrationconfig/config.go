// Package migrationconfig decides what a leader migration config says and whether the manager that reads it will do
// what was meant.
//
// It reads LeaderMigrationConfiguration files of every version more strictly than any manager does. It judges them
// against the controller names of the version that will read them (package controllernames). It writes the file for one
// side of a migration. It touches no file and no cluster.
//
// The strictness has a reason. Up to 1.31 the managers ignore fields that they do not know; from 1.32 on they exit. No
// version of them minds a controller name that matches nothing, which leaves both managers running the loop.
package migrationconfig

import (
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// Group, Kind and the versions are what a file must say it is.
const (
	Group    = "controllermanager.config.k8s.io"
	Kind     = "LeaderMigrationConfiguration"
	V1Alpha1 = "v1alpha1" // read by 1.21 and later
	V1Beta1  = "v1beta1"  // read by 1.22 and later
	V1       = "v1"       // read by 1.24 and later; has no resourceLock
)

// AnyComponent as a leader's component lets every manager that reads the file run the loop.
const AnyComponent = "*"

// The kinds of lock that a file may name. Managers accept endpoints in a file and then fail to create such a lock:
// client-go dropped it.
const (
	lockLeases    = "leases"
	lockEndpoints = "endpoints"
)

// Config is a leader migration config.
type Config struct {
	// Version is V1Alpha1, V1Beta1 or V1.
	Version string
	// LeaderName is the name of the migration lease.
	LeaderName string
	// ResourceLock is what the file says, "" when it says nothing. In V1 the field does not exist, and what a manager does
	// about it depends on its version: see Judge.
	ResourceLock string
	// Leaders are the controllers that run under the migration lease, in the file's order.
	Leaders []Leader
}

// Leader says which component may run a controller under the migration lease.
type Leader struct {
	Name      string
	Component string
}

// Runs reports whether manager runs the leader's controller under the migration lease.
func (l Leader) Runs(manager controllernames.Component) bool {
	return l.Component == AnyComponent || l.Component == string(manager)
}

// Default returns the config that a manager without a file should have. In it every cloud loop is under the migration
// lease, by the names that manager of version 1.minor registers. Upstream's own default has held names that match
// nothing since 0.28.
func Default(manager controllernames.Component, minor int) Config {
	config := Config{Version: versionFor(minor), LeaderName: component.MigrationLease}
	for _, loop := range controllernames.CloudLoops {
		config.Leaders = append(
			config.Leaders,
			Leader{Name: controllernames.Name(manager, minor, loop), Component: AnyComponent},
		)
	}
	return config
}
