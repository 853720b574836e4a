// Package plan decides which steps migrate a cluster out of tree, in which order, and which facts each of them needs.
// It is a pure function of a snapshot and of options. The same snapshot and options give the same plan, byte for byte.
//
// The order keeps two promises. One owner: a manager that may run a loop needs the lease that the present owner holds.
// One planned handover of the loops: the host that owns them is rolled last. Also, no kube-apiserver is restarted while
// a manager that owns a loop depends on it.
//
//	prepare          RBAC, files on the hosts, image credential providers
//	leader-migration each in-tree kube-controller-manager learns the migration lease      owner last: handover KCM -> KCM
//	handover         host by host: KCM external, kube-apiserver external, CCM starts      owner last: handover KCM -> CCM
//	upgrade          the schedulers get the target version, where there is one; see upgrade.go for the rest of an upgrade on the way
//	volumes          the schedulers count volumes as CSI's, where volumes move
//	kubelets         --cloud-provider=external: the first worker of each kind alone, then as many at a time as may be
//	nodes            nodes without providerID get one
//	volumes-done     the in-tree volume plugins go, when the last kubelet is done
//	kubeadm          what kubeadm would write at the next upgrade
//	verify           owners and inventory
//	finish           leader migration off, lease and files gone                           owner last: handover CCM -> CCM
//
// With the strategy downtime the phases leader-migration and handover are one. Each kube-controller-manager becomes
// external, the owner's last, and then the cloud-controller-managers start. Between the two no manager runs the loops,
// and the plan says for how long.
package plan

import (
	"errors"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/hosted"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Make plans the migration of the cluster in the snapshot.
func Make(snap *v1.Snapshot, opts v1.Options, findings []v1.Finding, now time.Time) (*v1.Plan, error) {
	opts = options.Defaults(opts)
	if err := options.Validate(opts); err != nil {
		return nil, err
	}
	d := draft.New(snap, opts)
	if err := errors.Join(identifyCluster(d), hosted.CheckCandidates(snap)); err != nil {
		return nil, err
	}
	if handled, err := planOtherControlPlane(d); err != nil {
		return nil, err
	} else if !handled {
		if err := resolveTarget(d); err != nil {
			return nil, err
		}
		migrate(d)
	}
	if err := errors.Join(d.Refusals...); err != nil {
		return nil, err
	}
	p := &v1.Plan{
		TypeMeta: v1.Type(v1.KindPlan), Created: now.UTC(), ToolVersion: snap.ToolVersion, Cluster: snap.Cluster,
		Strategy: d.Options.Strategy, Direction: planstep.Forward, Options: d.Options, Facts: d.SortedFacts(), Steps: d.Steps,
		Effects: append(describeEffects(d), ccm.DescribeManager(d)...), Findings: compare.NotPassed(findings),
	}
	if d.Options.PauseAfterCanary {
		p.Until = planstep.LastCanary(p)
	}
	if err := planstep.CheckUniqueIDs(p.Steps); err != nil {
		return nil, err
	}
	return p, invariant.Verify(p, snap)
}
