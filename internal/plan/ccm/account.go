// Package ccm decides what the new cloud-controller-manager is: its image, flags, environment, account, and the pod
// in which it runs.
package ccm

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// EnsureRights makes the accounts and rights in the cluster that a migration needs. They are for reading the managers'
// /metrics and for the migration lease; others are the cloud-controller-manager's own.
func EnsureRights(d *draft.Draft) {
	d.EnsureObjects(
		planstep.PhasePrepare,
		"reads the managers' /metrics with a token that may do nothing else",
		layout.ObserverObjects(),
	)
	if d.Options.Strategy == planstep.LeaderMigration {
		d.EnsureObjects(
			planstep.PhasePrepare,
			"the built-in role does not cover the migration lease: without this no cloud loop runs, and nothing says so",
			layout.MigrationObjects(d.Options.LeaseName),
		)
	}
	d.EnsureObjects(planstep.PhasePrepare, "identity and rights of the cloud-controller-manager", IdentityObjects(d))
}

// IdentityObjects is that of the cloud-controller-manager of this plan.
func IdentityObjects(d *draft.Draft) []layout.Object {
	objects := layout.IdentityObjects(d.Provider.Name, layout.Manager{
		Ours: d.Program.Ours, RenewsToken: renewsToken(d), Secrets: secretsRead(d),
	})
	for _, o := range layout.StateObjects(d.Provider.Name, d.Snapshot.Cluster.UID) {
		if d.Program.Ours || layout.Ref(o) == layout.CloudIdentity {
			objects = append(objects, o)
		}
	}
	return objects
}

// secretsRead are the Secrets that the manager reads in its namespace: none where no cloud config names one.
func secretsRead(d *draft.Draft) layout.Secrets {
	name := clusterview.CredentialSecret(d.Snapshot)
	if !d.Program.Ours {
		return layout.Secrets{Followed: name != ""}
	}
	return layout.Secrets{Name: name}
}

// renewsToken reports whether the manager renews its token by itself: ours, where it has one in a file of its host. The
// kubelet renews that of a pod of a DaemonSet or a Deployment.
func renewsToken(d *draft.Draft) bool {
	return d.Program.Ours && d.Shape == v1.ShapeStaticPod && d.Snapshot.Cluster.Seed == ""
}

// WriteToken puts a token of the cloud-controller-manager's account on a host: a static pod is given none by its
// kubelet.
func WriteToken(d *draft.Draft, h v1.Host) {
	derivation, note := TokenDerivation(d)
	d.Add(v1.Step{
		ID:              "write/" + layout.CCMToken + "@" + h.Name,
		Phase:           planstep.PhasePrepare,
		Kind:            v1.StepWriteFile,
		Title:           "write " + layout.CCMToken + " on " + h.Name,
		Why:             "a static pod gets no token from its kubelet; this one ends by itself, and is in no other place",
		Host:            h.Name,
		Path:            layout.CCMToken,
		Derive:          derivation,
		Source:          layout.AccountRef,
		Mode:            "0600",
		Requires:        []string{"cluster:uid", d.AddFileFact(h, layout.CCMToken)},
		Undo:            "restore what was there",
		EstimateSeconds: 0.2,
		Changes:         []v1.Change{{Field: layout.CCMToken, After: "a token of " + layout.AccountRef + note}},
	})
}

// TokenDerivation returns which token a manager on a host gets, and what is said of it.
func TokenDerivation(d *draft.Draft) (derivation, note string) {
	if renewsToken(d) {
		return layout.DeriveRenewingToken, ", for 90 days; the manager renews it from the 30th on"
	}
	return layout.DeriveToken, ", for 365 days; transplant renew renews it"
}
