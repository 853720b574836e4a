package hosted

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// installManager plans the cloud-controller-manager of a control plane that was external from the start. It is what a
// handover ends with, without the steps by which an in-tree manager gives the loops up.
func installManager(d *draft.Draft, m *v1.Component) {
	prepare(d, m)
	startManager(d, m)
	ccm.StartNodeManagers(d, planstep.PhaseHandover)
	verifyOwners(d, planstep.PhaseVerify, "verify/installed", draft.OwnedBy(component.CCM))
}
