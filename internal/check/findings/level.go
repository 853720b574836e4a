package findings

import (
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

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

// Impacts are all of them, the worst one first.
var Impacts = []string{
	ImpactDataLoss, ImpactTwoOwners, ImpactNodeDeletion, ImpactVolumes, ImpactLoadBalancers, ImpactRoutes,
	ImpactAPI, ImpactNoLoops, ImpactGap, ImpactNodeJoin, ImpactScheduling, ImpactImagePulls, ImpactNone,
}

// AcceptedBecause is the reason for which a finding was accepted, with who gave it and when; empty when it was not.
func AcceptedBecause(f v1.Finding) string {
	return Reason(f.Accepted, f.AcceptedBy, f.AcceptedAt)
}

// Reason is a reason for living with something, with who gave it and when, as far as that is known.
func Reason(reason, by string, at *time.Time) string {
	if at != nil {
		by = strings.TrimPrefix(by+", "+at.UTC().Format("2006-01-02 15:04 MST"), ", ")
	}
	if reason == "" || by == "" {
		return reason
	}
	return reason + " (" + by + ")"
}

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
