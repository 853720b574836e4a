package hosted

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
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
		Kube: p.User.Kube, Home: p.home(part), Check: p.keepsRules, Now: now, Clock: p.Clock,
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
	now := p.clock().Now().UTC()
	out := v1.Status{
		TypeMeta: v1.Type(v1.KindStatus),
		Time:     now,
		State:    v1.StateNotStarted,
		Phase:    v1.StateNotStarted,
		Cluster:  v1.Cluster{Name: p.Name, Seed: p.Namespace},
	}
	j, err := p.home(part).Open(ctx)
	if errors.Is(err, journal.ErrNoJournal) {
		return out, "", nil
	} else if err != nil {
		return out, "", err
	}
	doc := j.Doc()
	steps := &doc.Plan
	if doc.Rollback != nil && (doc.Phase == v1.RunRollingBack || doc.Phase == v1.RunRolledBack) {
		steps = doc.Rollback
	}
	out.Cluster, out.Run, out.Phase, out.State, out.Started = doc.Plan.Cluster, doc.Run, doc.Phase, doc.Phase, doc.Started
	out.PlanSHA256, out.Untrusted = compare.Digest(steps), status.UntrustedWords(p.keepsRules(doc))
	end := now
	if doc.Ended != nil {
		end = *doc.Ended
	}
	out.ElapsedSeconds, out.IdleSeconds = end.Sub(doc.Started).Seconds(), doc.IdleSince(doc.Started).Seconds()
	failed := countSteps(&out, steps, doc.Records)
	progress, err := p.lock(ctx, &out)
	if err != nil {
		return out, "", err
	}
	switch {
	case !doc.IsUnderWay():
	case out.Lock != nil && out.Lock.Expired:
		out.State = v1.StateStalled
	case out.Lock != nil:
		waiting(&out, progress)
	case failed:
		out.State = v1.StateFailed
	default:
		out.State = v1.StateStopped
	}
	addPlan(&out, &doc)
	return out, Part(doc.Plan.Options.Part), nil
}

// addPlan fills in what the plan was made with, and for how long its phases were executed.
func addPlan(out *v1.Status, doc *v1.Journal) {
	ago := func(t time.Time) time.Duration { return out.Time.Sub(t) }
	idling := time.Duration(0)
	if out.State == v1.StateStopped || out.State == v1.StateFailed {
		idling = ago(doc.LastSign())
	}
	out.SectionTimes, out.Findings = status.SectionTimes(doc, "", ago, idling), status.FindingsOf(&doc.Plan)
}

// countSteps fills in what the records say of the steps; it reports whether the last one that was begun went wrong.
func countSteps(out *v1.Status, steps *v1.Plan, records []v1.StepRecord) bool {
	of := map[string]v1.StepRecord{}
	for _, r := range records {
		of[r.ID] = r
	}
	failed := false
	var sections []string
	for _, s := range steps.Steps {
		if len(sections) == 0 || sections[len(sections)-1] != s.Phase {
			sections = append(sections, s.Phase)
		}
		rec, begun := of[s.ID]
		switch {
		case rec.IsEnded():
			out.StepsDone++
			continue
		case begun:
			out.Current = append(
				out.Current,
				v1.StepStatus{ID: s.ID, Title: planstep.Words(s), SinceSeconds: out.Time.Sub(rec.Started).Seconds()},
			)
			failed, out.LastError = rec.Error != "", rec.Error
		case out.Upcoming == "":
			out.Upcoming = s.ID
		}
		if out.Section == "" {
			out.Section, out.SectionNumber = s.Phase, len(sections)
		}
	}
	out.StepsTotal, out.Sections = len(steps.Steps), len(sections)
	if len(out.Current) > 0 {
		out.Upcoming = ""
	}
	return failed
}

// lock reads who holds the lock, and what they publish on it.
func (p *Plane) lock(ctx context.Context, out *v1.Status) (*v1.Progress, error) {
	l, err := p.Seed.Kube.CoordinationV1().Leases(p.Namespace).Get(ctx, lock.LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && ptr.Deref(l.Spec.HolderIdentity, "") == "" {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the lock Lease %s/%s: %w", p.Namespace, lock.LeaseName, err)
	}
	seen := lock.StateOf(l)
	out.Lock = &v1.LockStatus{
		Holder:  seen.Holder,
		User:    seen.User,
		Host:    seen.Host,
		PID:     seen.PID,
		AgeFrom: "this machine's clock and the holder's",
	}
	if l.Spec.RenewTime != nil {
		age := out.Time.Sub(l.Spec.RenewTime.Time).Seconds()
		out.Lock.AgeSeconds, out.Lock.Expired = age, age > float64(ptr.Deref(l.Spec.LeaseDurationSeconds, 0))
	}
	return lock.ReadProgress(l.Annotations[lock.ProgressAnnotation]), nil
}

// waiting fills in what the process that executes the run says it waits for.
func waiting(out *v1.Status, progress *v1.Progress) {
	if progress == nil || progress.Run != out.Run {
		return
	}
	for _, s := range progress.Steps {
		for i := range out.Current {
			if out.Current[i].ID != s.ID {
				continue
			}
			out.Current[i].Waiting, out.Current[i].Latest = s.Waiting, s.Latest
			if !s.WaitingSince.IsZero() {
				out.Current[i].WaitingSeconds = max(0, out.Time.Sub(s.WaitingSince).Round(time.Second).Seconds())
			}
		}
	}
}
