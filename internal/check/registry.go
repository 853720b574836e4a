package check

import (
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/check/access"
	"github.com/transplant-dev/transplant/internal/check/cloudconfig"
	"github.com/transplant-dev/transplant/internal/check/controlplane"
	"github.com/transplant-dev/transplant/internal/check/hosted"
	"github.com/transplant-dev/transplant/internal/check/kubelet"
	"github.com/transplant-dev/transplant/internal/check/leadermigration"
	"github.com/transplant-dev/transplant/internal/check/loadbalancer"
	"github.com/transplant-dev/transplant/internal/check/node"
	"github.com/transplant-dev/transplant/internal/check/route"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/check/scheduling"
	"github.com/transplant-dev/transplant/internal/check/version"
	"github.com/transplant-dev/transplant/internal/check/volume"
)

// Checks are all checks in reporting order, a list for each category. A check comes after those it depends on.
var Checks = slices.Concat(
	access.Checks,
	controlplane.Checks,
	leadermigration.Checks,
	version.Checks,
	cloudconfig.Checks,
	node.Checks,
	loadbalancer.Checks,
	route.Checks,
	volume.Checks,
	kubelet.Checks,
	scheduling.Checks,
	factChecks,
)

// CodeOf returns the code of the check that a user names by its reason, such as InTreeOwnerUnfenced. Of any other name
// it returns the name.
func CodeOf(name string) string {
	for _, k := range Checks {
		if strings.EqualFold(k.Reason, name) {
			return k.Code
		}
	}
	return name
}

// List returns a copy of all checks in reporting order.
func List() []rule.Check { return slices.Clone(Checks) }

// All returns every check that some cluster is judged with: those of a hosted control plane come first.
func All() []rule.Check { return slices.Concat(hosted.Checks, Checks) }
