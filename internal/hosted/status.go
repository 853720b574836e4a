package hosted

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/status"
)

// Error says how many findings refuse, and which is the first of them.
func (e *BlockedError) Error() string {
	blocking := e.Blocking()
	if len(blocking) == 0 {
		return "the checks refuse the migration"
	}
	first := blocking[0]
	more := ""
	if n := len(blocking) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Sprintf("%s: %s%s", first.Code, first.Summary, more)
}

func (e *UnplannedError) Error() string {
	return fmt.Sprintf("making the plan of the %s: %v", e.Part, e.Err)
}

func (e *UnplannedError) Unwrap() error { return e.Err }

// Blocking are the findings that refuse, in the order of the report.
func (e *BlockedError) Blocking() []v1.Finding {
	var out []v1.Finding
	for _, f := range e.Report.Findings {
		if (f.Outcome == v1.Fail || f.Outcome == v1.Unknown) && f.Accepted == "" {
			out = append(out, f)
		}
	}
	return out
}

// Status says how a part stands, from the journal and the lock in the seed alone.
func (p *Plane) Status(ctx context.Context, part Part) (v1.Status, error) {
	out, _, err := p.StatusOf(ctx, part)
	return out, err
}

// openTimeout bounds the first look at the journal of what is followed.
const openTimeout = 15 * time.Second

// Board is what a status is made from. The journal, the lock and the managers' pods are in the seed; leases, nodes and
// events are in the cluster. The time is that of the seed's API server.
func (p *Plane) Board(ctx context.Context, part Part, now func() time.Time) *status.Board {
	o := status.Options{
		Kube: p.User.Kube, Home: p.Location(part), Check: p.keepsRules, Now: now, Clock: p.Clock,
		Cluster: v1.Cluster{Name: p.Name, Seed: p.Namespace},
	}
	var doc *v1.Journal
	opening, cancel := context.WithTimeout(ctx, openTimeout) // a client that follows changes has no limit
	defer cancel()
	if j, err := o.Home.Open(opening); err == nil { // the board says why there is none
		read := j.Doc()
		doc, o.Cluster = &read, read.Plan.Cluster
	}
	return status.NewBoard(o, status.LeaseNames(doc))
}

// StatusOf is Status, and says which part the plan in the journal is for: an Install stands in the place of a Handover.
// The part is empty without a journal.
func (p *Plane) StatusOf(ctx context.Context, part Part) (v1.Status, Part, error) {
	f := status.Facts{Now: p.clock().Now(), IsLocalTime: true, Cluster: v1.Cluster{Name: p.Name, Seed: p.Namespace}}
	home := p.Location(part)
	j, err := home.Open(ctx)
	if errors.Is(err, journal.ErrNoJournal) {
		return status.JudgeRun(f), "", nil
	} else if err != nil {
		return v1.Status{}, "", err
	}
	doc := j.Doc()
	f.Journal, f.Cluster, f.Untrusted = &doc, doc.Plan.Cluster, p.keepsRules(doc)
	if f.Lock, err = lock.ReadAt(ctx, home); err != nil && !errors.Is(err, lock.ErrNoLock) {
		return v1.Status{}, "", err
	}
	return status.JudgeRun(f), Part(doc.Plan.Options.Part), nil
}
