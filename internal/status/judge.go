package status

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Judge sums the facts up. The same facts give the same status.
func Judge(f Facts) v1.Status {
	s := judgeRun(f)
	if f.Journal != nil {
		s.Remaining = remaining(f, s)
		s.Nodes = nodes(f, s)
	}
	s.Leases = leases(f)
	s.Owners, s.OwnersFrom = owners(f)
	s.Health = health(f, s)
	s.Next = next(s)
	return WithoutSecrets(s)
}

// JudgeRun says how far a run is and whether anybody executes it, by its journal and its lock alone. It says nothing of
// the managers' leases, nodes and pods, which an operator of many clusters does not read for each of them.
func JudgeRun(f Facts) v1.Status { return WithoutSecrets(judgeRun(f)) }

func judgeRun(f Facts) v1.Status {
	s := v1.Status{
		TypeMeta:  v1.Type(v1.KindStatus),
		Cluster:   f.Cluster,
		Time:      f.Now.UTC(),
		Phase:     v1.StateNotStarted,
		NotRead:   f.NotRead,
		Untrusted: UntrustedWords(f.Untrusted),
	}
	s.Lock = lockOf(f)
	if f.Journal != nil {
		s.Run, s.Phase, s.Started = f.Journal.Run, f.Journal.Phase, f.Journal.Started.UTC()
		s.Paused = pause.Requested(f.Control, f.Journal.Run)
		countSteps(f, &s)
		noteEnding(f, &s)
		s.ElapsedSeconds = elapsed(f)
	}
	s.State = stateOf(f, s)
	s.IdleSeconds = idle(f, s)
	if p := published(f); p != nil {
		s.Disruption, s.Probes, s.Objectives = p.Disruption, p.Probes, p.Objectives
	}
	if f.Journal != nil {
		s.SectionTimes = sectionTimes(f, s)
		s.Findings = findingsOf(&f.Journal.Plan)
	}
	return s
}

// WithoutSecrets is a status whose texts of others are masked. An event, an error of an API server or a reason to pause
// may repeat what its author was given.
func WithoutSecrets(s v1.Status) v1.Status {
	s.LastError, s.Disruption, s.Untrusted = mask.Text(s.LastError), mask.Text(s.Disruption), mask.Text(s.Untrusted)
	s.Objectives = mask.Text(s.Objectives)
	s.NotRead = mask.Texts(s.NotRead)
	if s.Lock != nil {
		of := *s.Lock
		of.Holder, of.User, of.Host = mask.Text(of.Holder), mask.Text(of.User), mask.Text(of.Host)
		s.Lock = &of
	}
	if s.Paused != nil {
		of := *s.Paused
		of.By, of.Reason = mask.Text(of.By), mask.Text(of.Reason)
		s.Paused = &of
	}
	s.Current, s.Nodes = slices.Clone(s.Current), slices.Clone(s.Nodes)
	s.Health, s.Leases = slices.Clone(s.Health), slices.Clone(s.Leases)
	for i := range s.Current {
		s.Current[i].Waiting, s.Current[i].Latest = mask.Text(s.Current[i].Waiting), mask.Text(s.Current[i].Latest)
	}
	for i := range s.Nodes {
		s.Nodes[i].Message = mask.Text(s.Nodes[i].Message)
	}
	for i := range s.Health {
		s.Health[i].Message = mask.Text(s.Health[i].Message)
	}
	for i := range s.Leases {
		s.Leases[i].Holder = mask.Text(s.Leases[i].Holder)
	}
	return s
}

// published is what the holder of the lock says about this run; nil when it says nothing.
func published(f Facts) *v1.Progress {
	if f.Lock == nil || f.Lock.Progress == nil || f.Journal == nil || f.Lock.Progress.Run != f.Journal.Run {
		return nil
	}
	return f.Lock.Progress
}

func lockOf(f Facts) *v1.LockStatus {
	if f.Lock == nil {
		return nil
	}
	l := &v1.LockStatus{
		Holder: f.Lock.Holder,
		User:   f.Lock.User,
		Host:   f.Lock.Host,
		PID:    f.Lock.PID,
	}
	written := f.Lock.Renewed
	switch {
	case f.IsLocalTime:
		l.AgeFrom = "this machine's clock and the holder's"
	case f.Lock.Touched.IsZero():
		l.AgeFrom = "the clocks of its holder and of the API server"
	default:
		written, l.AgeFrom = f.Lock.Touched, "the API server's clock"
	}
	if !written.IsZero() { // a lock without a time is not called expired
		age := f.Now.Sub(written)
		l.AgeSeconds, l.Expired = roundSeconds(max(0, age)), age > f.Lock.Lasts
	}
	return l
}

// stateOf is the table of the package's comment.
func stateOf(f Facts, s v1.Status) string {
	switch {
	case f.JournalUnknown:
		return v1.StateUnknown
	case f.Journal == nil:
		return v1.StateNotStarted
	case !f.isRunning():
		return f.Journal.Phase
	case s.Lock != nil && s.Lock.Expired:
		return v1.StateStalled
	case s.Lock == nil && !f.LockUnknown && s.LastError != "":
		return v1.StateFailed
	case s.Paused != nil && (len(s.Current) == 0 || s.Lock == nil): // the step that is under way is finished first
		return v1.StatePaused
	case s.Lock == nil && !f.LockUnknown:
		return v1.StateStopped
	}
	return f.Journal.Phase
}

// brokenRulesNamed is how many broken rules are named; the rest is counted.
const brokenRulesNamed = 3

// UntrustedWords says in one line which rules a journal breaks; empty when it breaks none.
func UntrustedWords(err error) string {
	if err == nil {
		return ""
	}
	what := "the journal"
	if of, is := errors.AsType[*trust.UntrustedError](err); is {
		what, err = of.What, of.Err
	}
	broken := strings.Split(strings.TrimSpace(err.Error()), "\n")
	words := what + " is not what a migration writes, and no command goes on with it: " +
		strings.Join(broken[:min(len(broken), brokenRulesNamed)], "; ")
	if more := len(broken) - brokenRulesNamed; more > 0 {
		words += fmt.Sprintf("; and %d more", more)
	}
	return words
}

// next is the command that an operator runs next, or several to choose from.
func next(s v1.Status) string {
	if s.Untrusted != "" {
		return "find out who wrote the journal: kubectl -n " + namespace + " get configmap " + journal.Name + " --show-managed-fields -o yaml"
	}
	command := "transplant apply"
	if s.Phase == v1.RunRollingBack {
		command = "transplant rollback"
	}
	either := command
	if s.Phase != v1.RunRollingBack {
		either += ", or transplant rollback"
	}
	switch s.State {
	case v1.StateNotStarted:
		return "transplant check"
	case v1.StateStalled:
		return "transplant unlock, then " + command
	case v1.StatePaused:
		if s.Lock == nil {
			return "transplant resume, then " + command
		}
		return "transplant resume"
	case v1.StateFailed:
		return "repair the error, then " + either
	case v1.StateStopped:
		return either
	case v1.StateApplied, v1.StateRolledBack:
		return "transplant verify"
	case v1.StateUnknown:
		if slices.ContainsFunc(s.NotRead, isRefusedJournal) {
			return "ask for the right to read the ConfigMap kube-system/" + journal.Name
		}
		return "repair why the journal was not read, then transplant status"
	}
	if s.Paused != nil {
		return "transplant resume, or transplant status --watch"
	}
	return "transplant status --watch, or transplant pause"
}

// results are the records by step; of two of one step the later one counts.
func results(doc *v1.Journal) map[string]v1.StepRecord {
	out := map[string]v1.StepRecord{}
	for _, r := range doc.Records {
		out[r.ID] = r
	}
	return out
}

func isBegun(r v1.StepRecord) bool { return r.Result != "" && !r.IsEnded() }

// countSteps says how many steps are done, which are under way and which comes next.
func countSteps(f Facts, s *v1.Status) {
	steps, have := f.steps(), results(f.Journal)
	s.StepsTotal = len(steps)
	if f.Journal != nil && len(steps) > 0 {
		s.PlanSHA256 = compare.Digest(&f.Journal.Plan)
		if f.Journal.Rollback != nil {
			s.PlanSHA256 = compare.Digest(f.Journal.Rollback)
		}
	}
	var sections []string
	var pending []v1.Step
	for _, step := range steps {
		if !slices.Contains(sections, step.Phase) {
			sections = append(sections, step.Phase)
		}
		r := have[step.ID]
		switch {
		case r.IsEnded():
			s.StepsDone++
			continue
		case isBegun(r):
			s.Current = append(s.Current, current(f, step, r))
			if r.Error != "" {
				s.LastError, s.LastErrorStep = r.Error, step.ID
			}
		default:
			pending = append(pending, step)
		}
		if s.Section == "" {
			s.Section = step.Phase
		}
	}
	if len(s.Current) == 0 {
		s.Upcoming = upcoming(f, pending)
	}
	s.Sections = len(sections)
	s.SectionNumber = slices.Index(sections, s.Section) + 1
}

// upcoming is the step that comes next of those that are not begun. As in a run, the group of a host whose manager
// holds a lease comes after the others of its phase. It is empty where that host is not known. A holder bears the name
// that its machine has, and a plan the name by which the machine is reached.
func upcoming(f Facts, pending []v1.Step) string {
	if len(pending) == 0 {
		return ""
	}
	owners, groups := map[string]bool{}, map[string]bool{}
	for _, s := range pending {
		if s.Group == "" || s.Phase != pending[0].Phase || len(s.Leases) == 0 {
			continue
		}
		groups[s.Group] = true
		if f.holdsOneOf(s) {
			owners[s.Group] = true
		}
	}
	if len(groups) > 1 && !slices.ContainsFunc(f.steps(), f.holdsOneOf) {
		return ""
	}
	for _, s := range pending {
		if s.Phase == pending[0].Phase && !owners[s.Group] {
			return s.ID
		}
	}
	return pending[0].ID
}

// holdsOneOf reports whether the manager of a step's host holds one of the step's leases.
func (f Facts) holdsOneOf(s v1.Step) bool {
	return slices.ContainsFunc(s.Leases, func(lease string) bool {
		l := f.Leases[lease]
		return l != nil && strings.HasPrefix(ptr.Deref(l.Spec.HolderIdentity, ""), s.Host+"_")
	})
}

// noteEnding takes in how the last command on the run ended. A step that was not begun has no record that says so.
func noteEnding(f Facts, s *v1.Status) {
	note := pause.EndingOf(f.Control, f.Journal.Run)
	if note == nil || !f.isRunning() {
		return
	}
	if note.Reason == "" {
		s.StoppedBehind = note.Step
		return
	}
	if s.LastError == "" {
		s.LastError, s.LastErrorStep = note.Reason, note.Step
	}
	if s.LastErrorStep == note.Step && !note.At.IsZero() {
		s.LastErrorSeconds = since(f.Now.Sub(note.At))
	}
}

// current is a step that was begun, with what its executor says about it.
func current(f Facts, step v1.Step, r v1.StepRecord) v1.StepStatus {
	out := v1.StepStatus{
		ID: step.ID, Title: planstep.Words(step), Host: step.Host, SinceSeconds: roundSeconds(f.since(r.Started)),
	}
	p := published(f)
	if p == nil {
		return out
	}
	for _, said := range p.Steps {
		if said.ID != step.ID {
			continue
		}
		out.SinceSeconds = roundSeconds(f.since(said.Since)) // it may have been begun by a run before
		out.Latest = said.Latest
		if said.Waiting != "" {
			out.Waiting, out.WaitingSeconds = said.Waiting, roundSeconds(f.since(said.WaitingSince))
		}
	}
	return out
}

// elapsed is from the beginning of the run to its end, or to now while it is not ended.
func elapsed(f Facts) float64 {
	if f.Journal.Ended != nil {
		return roundSeconds(f.Journal.Ended.Sub(f.Journal.Started))
	}
	return roundSeconds(f.since(f.Journal.Started))
}

// idle is for how long of elapsed the run was paused, or no command executed it, and still is.
func idle(f Facts, s v1.Status) float64 {
	if f.Journal == nil {
		return 0
	}
	return roundSeconds(f.Journal.IdleSince(f.Journal.Started) + idling(f, s))
}

// idling is for how long the run has been paused by now, or no command has executed it; zero while one does.
func idling(f Facts, s v1.Status) time.Duration {
	if s.State == v1.StateStopped || s.State == v1.StateFailed || s.State == v1.StatePaused {
		return f.since(f.Journal.LastSign())
	}
	return 0
}
