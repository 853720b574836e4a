package findings

// Levels of a finding: how bad it is when the check does not pass.
const (
	LevelInfo     = "info"
	LevelWarning  = "warning"
	LevelError    = "error"
	LevelCritical = "critical"
)

// Impacts of a finding: what suffers when the check does not pass and the migration goes on.
const (
	ImpactNone          = "none"
	ImpactNodeDeletion  = "node deletion"
	ImpactNoLoops       = "no cloud loops"
	ImpactTwoOwners     = "two owners"
	ImpactLoadBalancers = "load balancer traffic"
	ImpactRoutes        = "routes"
	ImpactAPI           = "API"
	ImpactGap           = "gap"
	ImpactNodeJoin      = "node join"
	ImpactScheduling    = "scheduling"
	ImpactVolumes       = "volume attach"
	ImpactImagePulls    = "image pulls"
	ImpactDataLoss      = "data loss"
)

// Categories, in reporting order: who has to act.
const (
	CategoryTooling         = "tooling and RBAC"
	CategoryControlPlane    = "control plane"
	CategoryLeaderMigration = "leader migration"
	CategoryVersions        = "versions and skew"
	CategoryCloud           = "cloud config and credentials"
	CategoryNodes           = "nodes and identity"
	CategoryBalancers       = "load balancers"
	CategoryRoutes          = "routes and node IPAM"
	CategoryVolumes         = "volumes and CSI"
	CategoryKubelets        = "kubelets and image credentials"
	CategoryScheduling      = "webhooks and scheduling deadlocks"
	CategoryFacts           = "facts"
)
