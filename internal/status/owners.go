package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// defaultLeaseDuration is that of a lease that does not say how long it lasts: the managers' default.
const defaultLeaseDuration = 15 * time.Second

// LeaseNames are the leases that say who runs the loops, of a run, or of a cluster without one.
func LeaseNames(doc *v1.Journal) []string {
	migration := component.MigrationLease
	if doc != nil && doc.Plan.Options.LeaseName != "" {
		migration = doc.Plan.Options.LeaseName
	}
	return []string{component.KCM, component.CCM, migration}
}

// NoOwner stands in an owner's place where no manager may run a loop.
const NoOwner = "nobody"

// How an owner is known where the managers are asked.
const (
	// FromGauges: the manager says which loops it runs.
	FromGauges = "gauges"
	// ByLeaseAndFlags: the manager does not say it. It holds its lease, and its flags leave the loop on.
	ByLeaseAndFlags = "lease and flags: the manager does not say what it runs"
)

// leases say who holds which lease.
func leases(f Facts) []v1.LeaseStatus {
	var out []v1.LeaseStatus
	for _, name := range slices.Sorted(maps.Keys(f.Leases)) {
		l := f.Leases[name]
		s := v1.LeaseStatus{Name: name, Holder: ptr.Deref(l.Spec.HolderIdentity, "")}
		if s.Holder != "" {
			age := f.Now.Sub(touched(l))
			lasts := time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, int32(defaultLeaseDuration/time.Second))) * time.Second
			s.AgeSeconds, s.Expired = roundSeconds(max(0, age)), age > lasts+clockTolerance
		}
		out = append(out, s)
	}
	return out
}

// touched is when a lease was written last, by the API server's clock where the server says so, else by its holder's.
func touched(l *coordinationv1.Lease) time.Time {
	at := time.Time{}
	for _, m := range l.ManagedFields {
		if m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	if at.IsZero() {
		at = ptr.Deref(l.Spec.RenewTime, metav1.MicroTime{}).Time
	}
	return at
}

// owners say for each loop of the plan who runs it, as far as leases show that, and how it is known. A lease tells who
// may act; which loops a manager runs under it follows from the plan's steps that are done.
func owners(f Facts) (who, from map[string]string) {
	if f.Owners != nil {
		return f.Owners, f.OwnersFrom
	}
	if f.Journal == nil {
		return nil, nil
	}
	held := holders(f)
	migration := LeaseNames(f.Journal)[2]
	who, from = map[string]string{}, map[string]string{}
	stopped := stoppedBy(f.Journal)
	for loop, promise := range promised(f.Journal) {
		if stopped != "" && promise.moves && promise.step == "" {
			if held[component.CCM] == "" {
				who[loop], from[loop] = NoOwner, "step "+stopped
				continue
			}
			promise.component, promise.step = component.CCM, stopped
		}
		lease := promise.component
		owner := promise.component
		if promise.moves && held[migration] != "" {
			lease, owner = migration, leader(held, migration)
		}
		by, shown, known := ownerBy(f, held, lease, owner)
		if !known {
			continue
		}
		who[loop], from[loop] = by, shown
		if lease != migration && promise.step != "" && held[lease] != "" {
			from[loop] += ", after step " + promise.step
		}
	}
	return who, from
}

// holders are those of the leases that have not expired, by the lease's name.
func holders(f Facts) map[string]string {
	held := map[string]string{}
	for _, l := range leases(f) {
		if !l.Expired {
			held[l.Name] = l.Holder
		}
	}
	return held
}

// ownerBy says who runs a loop by the lease under which its manager leads, and how that is known. It is not where the
// lease is not there: it may be one that is not read.
func ownerBy(f Facts, held map[string]string, lease, owner string) (who, from string, known bool) {
	switch {
	case f.Leases[lease] == nil:
		return "", "", false
	case held[lease] == "":
		return NoOwner, "lease " + lease + ", which no manager holds", true
	case owner == "":
		return "unknown@" + hostOf(held[lease]), fmt.Sprintf("lease %s, whose holder leads neither manager", lease), true
	}
	return owner + "@" + hostOf(held[lease]), "lease " + lease, true
}

// stoppedBy is the step of a downtime after which no manager of the cluster runs the loops that move, until the new one
// does. kube-controller-manager comes back without them and holds its lease again. It is empty before that step, and
// when the run does not stop managers.
func stoppedBy(doc *v1.Journal) string {
	if doc.Plan.Strategy != planstep.Downtime || doc.Rollback != nil {
		return ""
	}
	have, last := results(doc), ""
	for _, s := range doc.Plan.Steps {
		if !strings.HasPrefix(s.ID, "stop/"+component.KCM+"@") {
			continue
		}
		if !have[s.ID].IsEnded() {
			return "" // another host's manager may still lead
		}
		last = s.ID
	}
	return last
}

// promise is who runs a loop after the steps that are done.
type promise struct {
	component string
	// step promised it; empty for before the first.
	step string
	// moves reports whether the loop changes its manager during the run.
	moves bool
}

func promised(doc *v1.Journal) map[string]promise {
	have := results(doc)
	out := map[string]promise{}
	steps := doc.Plan.Steps
	if doc.Rollback != nil {
		steps = slices.Concat(steps, doc.Rollback.Steps)
	}
	for _, s := range steps {
		for loop, manager := range s.Expect {
			p, ok := out[loop]
			if !ok {
				p.component = component.KCM
			}
			p.moves = p.moves || manager == component.CCM
			if have[s.ID].IsEnded() && manager != "" {
				p.component, p.step = manager, s.ID
			}
			out[loop] = p
		}
	}
	return out
}

// leader is the manager whose own lease the holder of the migration lease holds too: both elections of a process have
// one identity.
func leader(held map[string]string, migration string) string {
	for _, manager := range []string{component.CCM, component.KCM} {
		if held[manager] != "" && held[manager] == held[migration] {
			return manager
		}
	}
	return ""
}

// hostOf is the host in an identity, HOST_ID.
func hostOf(identity string) string {
	if at := strings.LastIndex(identity, "_"); at > 0 {
		return identity[:at]
	}
	return identity
}
