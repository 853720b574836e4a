// Package volume decides whether volumes stay attached and new ones can be made: CSI drivers, feature gates, storage
// classes, attachments.
package volume

import "github.com/transplant-dev/transplant/internal/check/rule"

// Checks are the checks about volumes while the in-tree plugins go.
var Checks = []rule.Check{
	volumesLeftBehind,    // VOL-001: in-tree volumes that no controller attaches any more
	migrationOrder,       // VOL-002: a kubelet waits for an attachment that no controller makes
	mountedInTree,        // VOL-003: what the in-tree plugin mounted, the driver cannot unmount
	unregisteredTooEarly, // VOL-004: a plugin that is gone while it is needed
	deletionLeaks,        // VOL-005: disks that outlive their volumes
	zoneUnknown,          // VOL-006: volumes that are scheduled to the wrong zone
	defaultClass,         // VOL-007: claims that get other disks, or none
	volumesUnsupported,   // VOL-008: disks that the driver does not take
	attachmentsStuck,     // VOL-009: disks that hang between two nodes
	attachLimits,         // VOL-010: nodes that take fewer volumes
	expansionLost,        // VOL-011: volumes that do not grow any more
	driverMissing,        // CSI-001: no driver to migrate to
	driverNotOnNode,      // CSI-002: nodes that cannot mount
	driverVersion,        // CSI-003: releases that do not migrate, or not here
	driverNotRunning,     // CSI-004: an object is no driver
	driverCluster,        // CSI-005: disks that a new driver does not know
	diskUUIDs,            // CSI-006: machines on which a driver finds no disk
}
