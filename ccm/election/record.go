package election

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/ccm/election/testimony"
)

// observation is a version of a lease, or that there is none.
type observation struct {
	lease   *coordinationv1.Lease // nil: there is none
	version string                // its resourceVersion, or that of its deletion; empty when unknown
	// how many versions had been seen when it was asked for; it is news for certain if none came since
	before uint64
	asked  bool
}

// observeLease is what a request has told.
func observeLease(lease *coordinationv1.Lease, before uint64) observation {
	o := observation{lease: lease, before: before, asked: true}
	if lease != nil {
		o.version = lease.ResourceVersion
	}
	return o
}

// leaseRecord is what is known of one lease, and which of its versions this process wrote. The lock of its candidate
// guards it.
type leaseRecord struct {
	identity string // of this process
	// What was observed. It changes through take alone.
	known   bool                  // it was read, or found to be absent
	seen    *coordinationv1.Lease // its newest version; nil while there is none
	version string                // its resourceVersion, or that of its deletion
	count   uint64                // how many versions were taken in
	seenAt  time.Duration         // since when its spec is as it is, by our own observation
	freeAt  time.Time             // when it was seen to be released; zero while it is held
	// vanished is that the lease was deleted while another process held it. That one knows it at its next renewal.
	vanished bool
	watching bool
	stale    bool          // it may have changed without being seen: a watch began or ended
	heard    time.Duration // when it was last read or its watch last sent something
	// What a kubelet has testified. settle is what passes between its word that a holder has ended and taking the lease,
	// and between a deletion and that. A request that the holder sent with its last breath arrives within it. A holder
	// that lives renews within it, or tries to.
	settle  time.Duration
	ended   string        // the holder that has ended; no other process ever has its identity
	endedAt time.Duration // when that was heard
	// What this process wrote.
	written metav1.MicroTime   // the renewTime of the last renewal that succeeded
	sent    []metav1.MicroTime // the renewTimes that were sent since, with an outcome that is unknown
	used    stamps             // the renewTimes of all writes
}

// applyObservation takes in an observation. It reports whether that was news, and whether a request is needed to know.
func (r *leaseRecord) applyObservation(o observation, now time.Duration) (news, unsure bool) {
	r.heard = now
	if o.asked {
		r.stale = false
	}
	if news, unsure = r.isNews(o); !news {
		r.stale = r.stale || unsure
		return false, unsure
	}
	switch {
	case o.lease != nil && holder(o.lease) != "":
		r.freeAt = time.Time{}
	case r.isHeld():
		r.freeAt = time.Now()
	}
	r.vanished = o.lease == nil && (r.vanished || r.isHeld() && !r.isOwnWrite(r.seen))
	if !r.known || (r.seen == nil) != (o.lease == nil) ||
		o.lease != nil && !equality.Semantic.DeepEqual(r.seen.Spec, o.lease.Spec) {
		r.seenAt = now
	}
	r.known, r.seen, r.version = true, o.lease, o.version
	r.count++
	return true, false
}

// isNews reports whether an observation is newer than what is known. Events of the watch and answers to requests
// overtake each other. An event from before the lease was won must not look like another holder.
func (r *leaseRecord) isNews(o observation) (news, unsure bool) {
	if !r.known || o.asked && o.before == r.count {
		return true, false
	}
	newer, comparable := compare(o.version, r.version)
	return comparable && newer, !comparable && !o.asked && (o.lease == nil || !r.isOwnWrite(o.lease))
}

// compare reports whether a resource version is newer than another one. They are numbers in every API server; where
// they are not, reads decide.
func compare(a, b string) (newer, comparable bool) {
	x, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return false, false
	}
	y, err := strconv.ParseUint(b, 10, 64)
	return err == nil && x > y, err == nil
}

// lostBy is why a version of a held lease ends leadership; empty if it does not.
func (r *leaseRecord) lostBy(lease *coordinationv1.Lease) string {
	switch {
	case lease == nil:
		return "it was deleted" // anybody may create it now
	case holder(lease) == "":
		return "another client released it"
	case holder(lease) != r.identity:
		return "it is held by " + holder(lease)
	case !r.isOwnWrite(lease):
		return fmt.Sprintf("another process renews it as %s", r.identity)
	}
	return ""
}

// isHeld reports whether a process holds the lease, this one or another.
func (r *leaseRecord) isHeld() bool { return r.seen != nil && holder(r.seen) != "" }

// isOurs reports whether the newest version is one that this process wrote.
func (r *leaseRecord) isOurs() bool { return r.seen != nil && r.isOwnWrite(r.seen) }

// isOwnWrite reports whether a version is what this process wrote, or may have written where the answer was lost.
func (r *leaseRecord) isOwnWrite(lease *coordinationv1.Lease) bool {
	if holder(lease) != r.identity || lease.Spec.RenewTime == nil {
		return false
	}
	stamp := lease.Spec.RenewTime
	return stamp.Equal(&r.written) ||
		slices.ContainsFunc(r.sent, func(s metav1.MicroTime) bool { return s.Equal(stamp) })
}

// nextStamp is the renewTime of the next write: the wall clock's time, or soon after it. No two writes of a process
// have the same one, whatever the clock says. A standby may have missed what was written between two that are alike.
// It would see no renewal, and take the lease of a process that lives.
func (r *leaseRecord) nextStamp(wall time.Time) metav1.MicroTime {
	stamp := stampOf(wall)
	stamp.Time = r.used.unused(stamp.Time)
	r.used = r.used.with(stamp.Time)
	return stamp
}

// stamps are times that were used, in stretches. A stretch ends where the clock is set back, or far ahead.
type stamps []stretch

type stretch struct{ from, to time.Time }

const (
	// sameStretch is how much later than the one before a time may be and belong to its stretch.
	sameStretch = time.Minute
	// mostStretches bounds what is kept. Two stretches are taken for one where there are more.
	mostStretches = 16
)

// unused returns a time that was not used: the given one, or the next after those that were.
func (s stamps) unused(at time.Time) time.Time {
	for isUsed := true; isUsed; {
		isUsed = slices.ContainsFunc(s, func(u stretch) bool {
			if at.Before(u.from) || at.After(u.to) {
				return false
			}
			at = u.to.Add(time.Microsecond)
			return true
		})
	}
	return at
}

// with returns the stamps and one more.
func (s stamps) with(at time.Time) stamps {
	n := len(s)
	if n > 0 && at.After(s[n-1].to) && at.Sub(s[n-1].to) <= sameStretch {
		return append(slices.Clone(s[:n-1]), stretch{s[n-1].from, at})
	}
	if n == mostStretches {
		first := s[0]
		if s[1].from.Before(first.from) {
			first.from = s[1].from
		}
		if s[1].to.After(first.to) {
			first.to = s[1].to
		}
		s = append(stamps{first}, s[2:]...)
	}
	return append(slices.Clone(s), stretch{at, at})
}

// otherHolder is where another process runs that holds the lease; empty where that is not known.
func (r *leaseRecord) otherHolder() testimony.Claim {
	if c := testimony.ClaimOf(r.seen); c.Holder != r.identity {
		return c
	}
	return testimony.Claim{}
}

// expires is when the lease can be taken. That is its own duration after its spec was first seen to be as it is, as
// contenders with client-go count. It is sooner where the holder has ended, or the lease was deleted.
func (r *leaseRecord) expires() time.Duration {
	if r.vanished {
		return r.seenAt + r.settle
	}
	if !r.isHeld() || r.isOwnWrite(r.seen) {
		return r.seenAt
	}
	expires := r.seenAt + time.Duration(ptr.Deref(r.seen.Spec.LeaseDurationSeconds, 0))*time.Second
	if r.hasHolderEnded() {
		return min(expires, r.endedAt+r.settle)
	}
	return expires
}

// hasHolderEnded reports whether the lease is held by a process that has ended. One that is renewed after the testimony
// is held by a process that lives: the runtime was wrong. Then the lease has to expire.
func (r *leaseRecord) hasHolderEnded() bool {
	return r.isHeld() && r.ended == holder(r.seen) && r.seenAt <= r.endedAt
}

// readAt is from when the lease has to be read. That is at once when it is not known. Otherwise it is a period after it
// was last read, or longer with a watch.
func (r *leaseRecord) readAt(period time.Duration) time.Duration {
	if !r.known || r.stale {
		return 0
	}
	if r.watching {
		period = period * 3 / 2
	}
	return r.heard + period
}

func holder(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }
