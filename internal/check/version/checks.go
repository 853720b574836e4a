// Package version decides whether the versions in a cluster allow a migration. It judges skew, what a version drops,
// flags that a manager refuses, and upgrades that a plan makes.
package version

import "github.com/transplant-dev/transplant/internal/check/rule"

// Checks are the checks about versions that fit each other.
var Checks = []rule.Check{
	inScope,            // VER-004: versions of which the tool knows nothing
	ccmRange,           // VER-001: our manager against this API server
	providerInTree,     // VER-002: the in-tree provider exists in this version
	providersDisabled,  // VER-005: a default of 1.29 that ends the owner when it leads
	managerSkew,        // VER-003: managers and API servers fit each other
	kubeletSkew,        // VER-006: kubelets too
	upgradeUnderway,    // VER-007: an upgrade rewrites the same manifests
	providerEnds,       // VER-010: how far the cluster may be upgraded before
	providerIDRequired, // VER-011: a node without one keeps its taint for ever
	flagRefused,        // VER-009: the next restart would be the last
	nextVersion,        // VER-008: and the next upgrade too
	imagesThere,        // VER-012: an upgrade on the way needs images
}
