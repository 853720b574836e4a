package facts

import "time"

// Options are what a check needs to know next to the snapshot. The zero value judges a cluster before a leader
// migration with this tool's own cloud-controller-manager.
type Options struct {
	// Strategy is leader-migration or downtime; empty means leader-migration.
	Strategy string
	// Shape, NodeIPAM and Volumes are the choices of the plan of the same names; empty means that the plan chooses.
	Shape, NodeIPAM, Volumes string
	// ReplaceHosts reports whether new hosts take the place of the old ones instead of edits.
	ReplaceHosts bool
	// TargetVersion is the version that the plan takes the control plane to, e.g. v1.27.4; empty means that no version
	// changes.
	TargetVersion string
	// Image of the cloud-controller-manager that the migration brings in; empty means this project's own.
	Image string
	// CCMMinor is the minor version (37 for v1.37) of the library in that image. 0 means what the tag of a foreign image
	// says, DefaultCCMMinor for our own.
	CCMMinor int
	// LeaseName is the migration lease; empty means component.MigrationLease.
	LeaseName string
	// CCMEnv are the names of the environment variables that the new manager gets.
	CCMEnv []string
	// CCMFiles are those of them whose value is the path of a file, by name; {host} stands for the host's name.
	CCMFiles map[string]string
	// RenewDeadline is the --leader-elect-renew-deadline that the plan gives the managers during the migration, e.g. 3s;
	// empty means unknown.
	RenewDeadline string
	// CredentialProvider reports whether the plan adds the cloud's image credential provider to kubelets that lack it.
	CredentialProvider bool
	// Part is that of the migration of a hosted control plane: handover, finish or install. Provider is what its owner
	// says the cloud is; empty if that is not known.
	Part, Provider string
	// InProgress reports whether a journal of an unfinished run exists. States between the two ends are what that run
	// left, and do not block its continuation.
	InProgress bool
	// Accept maps codes to the reason for which a finding that would block is accepted. A mandatory check that fails
	// ignores it.
	Accept map[string]string
	// AcceptedBy and AcceptedAt say who gave Accept and when; both are copied to the findings that are accepted. The zero
	// time is left out.
	AcceptedBy string
	AcceptedAt time.Time
}

// DefaultCCMMinor is the minor version of the library in this project's cloud-controller-manager.
const DefaultCCMMinor = 37

// Strategies of a plan.
const (
	StrategyLeaderMigration = "leader-migration"
	StrategyDowntime        = "downtime"
)
