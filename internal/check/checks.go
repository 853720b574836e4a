package check

import "slices"

// Categories, in reporting order: who has to act.
const (
	categoryTooling         = "tooling and RBAC"
	categoryControlPlane    = "control plane"
	categoryLeaderMigration = "leader migration"
	categoryVersions        = "versions and skew"
	categoryCloud           = "cloud config and credentials"
	categoryNodes           = "nodes and identity"
	categoryBalancers       = "load balancers"
	categoryRoutes          = "routes and node IPAM"
	categoryVolumes         = "volumes and CSI"
	categoryKubelets        = "kubelets and image credentials"
	categoryScheduling      = "webhooks and scheduling deadlocks"
	categoryFacts           = "facts"
)

// Checks are all checks in reporting order, a list for each category. A check comes after those it depends on.
var Checks = slices.Concat(
	toolingChecks,
	controlPlaneChecks,
	leaderMigrationChecks,
	versionChecks,
	cloudChecks,
	nodeChecks,
	balancerChecks,
	routeChecks,
	volumeChecks,
	kubeletChecks,
	schedulingChecks,
	factChecks,
)

// List returns a copy of all checks in reporting order.
func List() []Check { return slices.Clone(Checks) }
