package v1alpha1

import "time"

// Kinds of documents about many clusters.
const (
	KindFleetStatus = "FleetStatus"
	KindFleetPlan   = "FleetPlan"
)

// FleetStatus is how the migrations of many clusters stand, by their Cluster objects in the seed alone.
type FleetStatus struct {
	TypeMeta `json:",inline"`
	// Time by which the ages here were measured.
	Time time.Time `json:"time"`
	// Seed is the cluster that the objects are in.
	Seed    Cluster      `json:"seed"`
	Summary FleetSummary `json:"summary"`
	// Progress is how far the fleet is, and for how much longer it takes.
	Progress FleetProgress `json:"progress"`
	// Clusters sorted by name, then by group.
	Clusters []FleetCluster `json:"clusters"`
	// NotRead are the sentences that name what could not be read, and so is not in this document.
	NotRead []string `json:"notRead,omitempty"`
}

// FleetSummary counts clusters.
type FleetSummary struct {
	Clusters int `json:"clusters"`
	// Standings counts the clusters by their Standing; every cluster is in exactly one.
	Standings map[string]int `json:"standings"`
	// Machines of the clusters whose machines were counted, and how many of those are external.
	Machines FleetMachines `json:"machines"`
}

// FleetProgress is how far a fleet is. A cluster that was made external counts for nothing in it, and so does one whose
// provider was never in tree.
type FleetProgress struct {
	// Done of Total clusters are migrated.
	Done  int `json:"done"`
	Total int `json:"total"`
	// UnderWay are being migrated.
	UnderWay int `json:"underWay,omitempty"`
	// NotEnabled were not asked for. They count as clusters that are left.
	NotEnabled int `json:"notEnabled,omitempty"`
	// NeedPerson go on only when a person does something: they failed, are blocked, stuck, held, paused, deleted or have
	// two owners.
	NeedPerson int `json:"needPerson,omitempty"`
	// TwoOwners are clusters whose loops more than one manager runs.
	TwoOwners int `json:"twoOwners,omitempty"`
	// Parallel is the most clusters that were under way at a time.
	Parallel int `json:"parallel"`
	// Measured are the finished clusters by whose times Remaining is an estimate. Those that need a person are not in it.
	// It is nil where there is none, and where nothing is left.
	Measured  int    `json:"measured"`
	Remaining *Range `json:"remaining,omitempty"`
	// Rollouts are those of "transplant fleet apply" that started clusters, by ID.
	Rollouts []FleetRollout `json:"rollouts,omitempty"`
}

// FleetRollout is how the waves of a rollout stand, by what it wrote on the clusters that it started.
type FleetRollout struct {
	// ID is the same for commands with the same choice of clusters and waves.
	ID    string              `json:"id"`
	Waves []FleetWaveProgress `json:"waves"`
}

// FleetWaveProgress is how a wave stands.
type FleetWaveProgress struct {
	Number int `json:"number"`
	// State is "not started", "under way", "done" or "needs a person".
	State string `json:"state"`
	// Clusters that the rollout starts in this wave; 0 where none was started, since only started clusters say it.
	Clusters int `json:"clusters,omitempty"`
	// Started of them, of which Done are done and NeedPerson need a person.
	Started    int `json:"started"`
	Done       int `json:"done"`
	NeedPerson int `json:"needPerson,omitempty"`
}

// FleetPlace is the wave in which a rollout started a cluster.
type FleetPlace struct {
	Rollout string `json:"rollout"`
	Wave    int    `json:"wave"`
	Of      int    `json:"of"`
	// Clusters that the rollout starts in the wave.
	Clusters int `json:"clusters"`
	// Until is when the cluster counts as done: completed, or handover.
	Until string `json:"until"`
}

// FleetMachines counts machines.
type FleetMachines struct {
	Migrated int `json:"migrated"`
	Total    int `json:"total"`
}

// FleetCluster is one cluster of a fleet.
type FleetCluster struct {
	// Name and Group of the Cluster object: the group is kubermatic.k8c.io or kubermatic.k8s.io.
	Name  string `json:"name"`
	Group string `json:"group"`
	UID   string `json:"uid,omitempty"`
	// Created is when the object was made.
	Created time.Time `json:"created,omitzero"`
	// HumanName is what people call it.
	HumanName string `json:"humanName,omitempty"`
	// Namespace of the control plane in the seed.
	Namespace string `json:"namespace,omitempty"`
	Provider  string `json:"provider,omitempty"`
	Version   string `json:"version,omitempty"`
	// External reports whether the external cloud provider is asked for: spec.features.externalCloudProvider.
	External bool `json:"external"`
	// Phase is the operator's; empty when no operator has said anything about this cluster.
	Phase string `json:"phase,omitempty"`
	// Standing is what the phase comes to: not-enabled, external, waiting, migrating, blocked, failed or completed.
	Standing string `json:"standing"`
	// Since is when the phase began; zero where that is not known.
	Since time.Time `json:"since,omitzero"`
	// Began is when the operator began the handover; zero where that is not known.
	Began time.Time `json:"began,omitzero"`
	// Place is the wave in which "transplant fleet apply" started it; nil where that did not.
	Place *FleetPlace `json:"place,omitempty"`
	// Message is what is waited for, or what is wrong, in one line.
	Message string `json:"message,omitempty"`
	// Owners is which manager runs the cloud loops: in-tree, external, both or no manager (OwnersNone). It is empty if
	// that was not read.
	Owners string `json:"owners,omitempty"`
	// Machines is nil when they were not counted.
	Machines *FleetMachines `json:"machines,omitempty"`
	// Stuck is why the phase takes too long; empty when it does not.
	Stuck string `json:"stuck,omitempty"`
	// Hold is who keeps the cluster from being migrated and why; empty without a hold, "held" when the annotation says
	// nothing.
	Hold string `json:"hold,omitempty"`
	// Paused is why every controller stays away from the cluster; empty when it is not paused.
	Paused string `json:"paused,omitempty"`
	// RestartsMachines reports whether the operator was asked to restart the MachineDeployments.
	RestartsMachines bool `json:"restartsMachines,omitempty"`
	// Confirmed reports whether a person confirmed a plan for it, and that the operator begins with no other.
	Confirmed bool `json:"confirmed,omitempty"`
	// Twice reports whether there is a Cluster of this name under the other group, too: neither is migrated.
	Twice bool `json:"twice,omitempty"`
	// Deleting reports whether the object is being deleted.
	Deleting bool `json:"deleting,omitempty"`
	// Conditions sorted by type.
	Conditions []FleetCondition `json:"conditions,omitempty"`
}

// Standings of a cluster in a fleet.
const (
	// StandingNotEnabled: the in-tree provider runs it, and no migration was requested.
	StandingNotEnabled = "not-enabled"
	// StandingExternal: it was made with the external provider.
	StandingExternal = "external"
	// StandingWaiting: its migration is asked for and does not go on: it is queued, held, paused, or no operator has
	// looked yet.
	StandingWaiting = "waiting"
	// StandingMigrating: its migration is under way.
	StandingMigrating = "migrating"
	// StandingBlocked: the checks refuse it.
	StandingBlocked = "blocked"
	// StandingFailed: a step failed in a way that trying again does not repair.
	StandingFailed = "failed"
	// StandingCompleted: it was migrated.
	StandingCompleted = "completed"
)

// FleetCondition is a condition of a Cluster.
type FleetCondition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// FleetPlan is which clusters are migrated in which wave.
type FleetPlan struct {
	TypeMeta    `json:",inline"`
	Created     time.Time `json:"created"`
	ToolVersion string    `json:"toolVersion"`
	Seed        Cluster   `json:"seed"`
	// Options are the choices that the waves were made with.
	Options FleetOptions `json:"options"`
	Waves   []FleetWave  `json:"waves"`
	// Left are the clusters that were selected and are in no wave, with the reason.
	Left []FleetLeft `json:"left,omitempty"`
	// NotRead are the sentences that name what could not be read.
	NotRead []string `json:"notRead,omitempty"`
}

// FleetOptions are the choices of a fleet plan.
type FleetOptions struct {
	// Waves as they were given: each says how many clusters are migrated when it is over, as a number or a percentage of
	// all.
	Waves []string `json:"waves"`
	// MaxParallel is how many clusters are under way at a time.
	MaxParallel int `json:"maxParallel"`
	// MaxFailures is how many clusters may fail before no further one is started.
	MaxFailures int `json:"maxFailures"`
	// Until is when a cluster counts as done: completed, or handover (the control plane is external, machines are left to
	// their owners).
	Until string `json:"until"`
	// SoakSeconds is how long the clusters of a wave are watched before the next one begins.
	SoakSeconds float64 `json:"soakSeconds,omitempty"`
	// PatienceSeconds is for how long a cluster may be blocked, or not taken up by any operator, before it counts as
	// failed.
	PatienceSeconds float64  `json:"patienceSeconds,omitempty"`
	Selector        string   `json:"selector,omitempty"`
	Providers       []string `json:"providers,omitempty"`
	// Names are the clusters that were named on the command line; all when there are none.
	Names []string `json:"names,omitempty"`
	// First are the names of the clusters that come before all others.
	First []string `json:"first,omitempty"`
	// Except are the names of the clusters that are left out.
	Except []string `json:"except,omitempty"`
	// ReleaseHolds includes clusters that are on hold.
	ReleaseHolds bool `json:"releaseHolds,omitempty"`
	// RestartMachines asks the operator to restart the MachineDeployments of every cluster that is started.
	RestartMachines bool `json:"restartMachines,omitempty"`
}

// FleetWave is a set of clusters that are migrated before those of the next wave begin.
type FleetWave struct {
	// Number from 1; Upto is the wave as it was given.
	Number   int           `json:"number"`
	Upto     string        `json:"upto"`
	Clusters []FleetMember `json:"clusters"`
}

// FleetMember is a cluster of a wave.
type FleetMember struct {
	Name     string `json:"name"`
	Group    string `json:"group"`
	Provider string `json:"provider,omitempty"`
	Version  string `json:"version,omitempty"`
	Standing string `json:"standing"`
	// Do is what apply does to the Cluster object: enable, release, or nothing because it is under way or done.
	Do string `json:"do,omitempty"`
	// Hold is whose hold a release takes off.
	Hold string `json:"hold,omitempty"`
	// Plan is what the operator would do, if that was requested. Report is what the checks say, without those that passed.
	// Error is why neither could be had.
	Plan   *Plan        `json:"plan,omitempty"`
	Report *CheckReport `json:"report,omitempty"`
	Error  string       `json:"error,omitempty"`
}

// What apply does to the Cluster object of a member.
const (
	FleetEnable  = "enable"
	FleetRelease = "release"
)

// FleetLeft is a cluster that is in no wave.
type FleetLeft struct {
	Name   string `json:"name"`
	Group  string `json:"group"`
	Reason string `json:"reason"`
}
