package recorder

import (
	"time"

	"github.com/transplant-dev/transplant/internal/component"
)

// t0 is when the processes of these tests have started.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	kcmName   = "kube-controller-manager"
	ccmName   = "cloud-controller-manager"
	migration = component.MigrationLease
)

var (
	cloudLoops = []string{"cloud-node-lifecycle", "route", "service"}
	inTree     = []string{"cloud-node-lifecycle", "nodeipam", "route", "service"}
)
