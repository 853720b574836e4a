package election

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// AdoptedAnnotation is on a lease since when managers that are built on this package hold it, and the term for which
// that was last known:
//
//	transplant.dev/adopted: 2026-11-21T12:00:00.5Z term 7
//
// Every change of holder begins a new term (leaseTransitions). So a lease that is found in the term of the annotation
// had no other holder since. Other managers leave the annotation as it is, and their terms make it void. Releasing a
// lease does not change the term.
const AdoptedAnnotation = "transplant.dev/adopted"

// adoptedAt is since when managers of this kind hold a lease that this process takes, or renews, now. isInherited is
// that another one held it before. The term says so, and clocks do not matter for that. An adoption after now is of a
// process whose clock was ahead of this one's: then only its time is not believed.
func adoptedAt(lease *coordinationv1.Lease, now time.Time) (at time.Time, isInherited bool) {
	if lease == nil {
		return now, false
	}
	var text string
	var term int32
	if _, err := fmt.Sscanf(lease.Annotations[AdoptedAnnotation], "%s term %d", &text, &term); err != nil {
		return now, false
	}
	adopted, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || term != ptr.Deref(lease.Spec.LeaseTransitions, 0) {
		return now, false
	}
	if adopted.After(now) {
		return now, true
	}
	return adopted, true
}

// markAdopted writes the annotation for a term.
func markAdopted(lease *coordinationv1.Lease, tenure Tenure) {
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[AdoptedAnnotation] = fmt.Sprintf(
		"%s term %d",
		tenure.AdoptedAt.UTC().Format(time.RFC3339Nano),
		tenure.Epoch,
	)
}
