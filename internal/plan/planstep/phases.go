package planstep

// Phases of a migration, in order.
const (
	PhasePrepare     = "prepare"
	PhaseMigration   = "leader-migration"
	PhaseHandover    = "handover"
	PhaseStart       = "start" // strategy downtime: the cloud-controller-managers come when no in-tree one is left
	PhaseVolumes     = "volumes"
	PhaseKubelets    = "kubelets"
	PhaseNodes       = "nodes"
	PhaseVolumesDone = "volumes-done"
	PhaseKubeadm     = "kubeadm"
	PhaseVerify      = "verify"
	PhaseFinish      = "finish"
)

// Phases are all phases of all plans: those of a migration, then those of a rollback.
var Phases = []string{
	PhasePrepare, PhaseServers, PhaseMigration, PhaseReplace, PhaseHandover, PhaseStart, PhaseVolumes, PhaseKubelets,
	PhaseNodes, PhaseVolumesDone, PhaseUpgrade, PhaseKubeadm, PhaseVerify, PhaseFinish,
	PhaseReenable, PhaseKubeletsBack, PhaseStopped, PhaseInTree, PhaseReplaceBack, PhaseServersBack, PhaseHandback,
	PhaseDowngrade, PhaseOriginal, PhaseCleanup,
}

// Directions of a plan.
const (
	Forward  = "forward"
	Rollback = "rollback"
)

// LeaderMigration is the strategy for replicated control planes; see also Downtime.
const LeaderMigration = "leader-migration"

// Downtime is the strategy for control planes that may be without a controller manager for a while: those of one host
// among them.
const Downtime = "downtime"

// PhaseReplace is the phase in which control-plane nodes of version N+1 come and those of version N go.
const PhaseReplace = "replace"

// Phases of a rollback, in order.
const (
	PhaseReenable     = "rollback-leader-migration"
	PhaseKubeletsBack = "rollback-kubelets"
	PhaseInTree       = "rollback-in-tree"
	PhaseHandback     = "rollback-handover"
	PhaseOriginal     = "rollback-original"
	PhaseCleanup      = "rollback-cleanup"
)

// MovingInfix stands in the ID of a record between a step and the manager that hands over before it.
const MovingInfix = "/moving-"

// PhaseStopped is the phase of a rollback in which no manager runs the loops.
const PhaseStopped = "rollback-stop"

// PhaseServersBack is the phase in which API servers that are Deployments are restored, while the cloud loops still
// run.
const PhaseServersBack = "rollback-api-servers"

// PhaseReplaceBack is the phase of a rollback in which control-plane nodes of version N come and those of version N+1
// go.
const PhaseReplaceBack = "rollback-replace"

// An upgrade on the way takes the control plane from version N to N+1 in the restarts that the migration needs anyway.
// It goes node by node, in the order of the version skew policy:
//
//	leader-migration   KCM learns the lease (N), then the host's API server: N+1, external     every host before the first manager of N+1
//	handover           KCM: N+1, external; CCM starts
//	upgrade            the schedulers: N+1
//	kubeadm            kubernetesVersion: N+1
//
// With the strategy downtime the API servers have a phase of their own, before the first manager is stopped. Back it
// goes in the reverse order: managers and schedulers before the first API server.
const (
	// PhaseServers are the API servers of an upgrade without leader migration.
	PhaseServers = "upgrade-api-servers"
	// PhaseUpgrade are the schedulers of an upgrade.
	PhaseUpgrade = "upgrade"
	// PhaseDowngrade are the schedulers of a rollback of one.
	PhaseDowngrade = "rollback-upgrade"
)
