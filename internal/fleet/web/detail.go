package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/together"
)

// looking bounds what is asked of one control plane for the page.
const looking = 30 * time.Second

// maxLooks is how many control planes are read for the page at a time. A read costs the user cluster, and a user who
// may see a cluster may ask for many.
const maxLooks = 8

// turns has one look at a cluster at a time. Else one that answers nothing, asked for again and again, would have all
// places.
type turns struct {
	mu    sync.Mutex
	taken map[string]chan struct{} // closed when the look has ended
}

// waitForTurn waits for the turn of a cluster; done ends it.
func (t *turns) waitForTurn(ctx context.Context, key string) (done func(), err error) {
	for {
		t.mu.Lock()
		before := t.taken[key]
		if before == nil {
			mine := make(chan struct{})
			if t.taken == nil {
				t.taken = map[string]chan struct{}{}
			}
			t.taken[key] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				delete(t.taken, key)
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, errors.New("this cluster is looked at by others, and answers slowly: try again")
		}
	}
}

// opened is a control plane to look at, when it is its turn and there is a place among the looks; done gives both back.
func (s *server) opened(ctx context.Context, o view.Object) (_ context.Context, plane Plane, done func(), err error) {
	ended, err := s.turns.waitForTurn(ctx, o.Cluster.Name)
	if err != nil {
		return nil, nil, nil, err
	}
	select {
	case s.looks <- struct{}{}:
	case <-ctx.Done():
		ended()
		return nil, nil, nil, errors.New("too many clusters are looked at at a time: try again")
	}
	ctx, passed := answerlimit.Pass(ctx)
	done = func() {
		passed()
		<-s.looks
		ended()
	}
	opened := false
	defer func() {
		if !opened { // also after a panic
			done()
		}
	}()
	plane, err = s.Plane(ctx, o)
	opened = err == nil
	return ctx, plane, done, err
}

// Detail is one cluster: its row, and what is not in its object.
type Detail struct {
	Cluster v1.FleetCluster `json:"cluster"`
	// Owners is who runs each loop now; nil when that could not be read.
	Owners *hosted.Owners `json:"owners,omitempty"`
	// Parts are the parts of the migration that were begun, by their journals in the seed.
	Parts []PartStatus `json:"parts,omitempty"`
	// Timeline is what happened, the last first.
	Timeline []v1.TimelineEntry `json:"timeline"`
	// Picture is the timeline as a drawing; nil where there is nothing to draw.
	Picture *view.Picture `json:"picture,omitempty"`
	// Actions are what may be done now, in order; none where the page is read-only or the person may not update the
	// object.
	Actions []ActionName `json:"actions"`
	// NotRead are the sentences that name what could not be looked at.
	NotRead []string `json:"notRead,omitempty"`
}

// PartStatus is how a part of the migration stands.
type PartStatus struct {
	Part   hosted.Part `json:"part"`
	Status v1.Status   `json:"status"`
}

func (s *server) detail(w http.ResponseWriter, r *http.Request, p *person) {
	object, twice, err := s.find(r, p, "get")
	if err != nil {
		s.writeError(w, err)
		return
	}
	d := Detail{Cluster: view.Row(object, twice), Timeline: []v1.TimelineEntry{}, Actions: []ActionName{}}
	ctx, cancel := context.WithTimeout(r.Context(), looking)
	defer cancel()
	s.askForDetail(ctx, object, &d)
	d.Picture = view.Draw(spans(d), d.Timeline, s.now())
	if s.EnableActions {
		yes, err := s.auth.may(ctx, p, "update", object.Key())
		if err != nil {
			d.NotRead = append(d.NotRead, mask.Error(err))
		}
		if yes {
			d.Actions = possible(d.Cluster)
		}
	}
	s.write(w, http.StatusOK, d)
}

// isWorthAsking reports whether a control plane is worth asking: something is or was under way in it.
func isWorthAsking(row v1.FleetCluster) bool {
	return row.Standing == v1.StandingMigrating || row.Standing == v1.StandingFailed ||
		row.Standing == v1.StandingBlocked ||
		row.Standing == v1.StandingCompleted
}

// askForDetail asks for what is not in the object, side by side.
func (s *server) askForDetail(ctx context.Context, o view.Object, d *Detail) {
	var mu sync.Mutex
	var wg together.Group
	missing := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		d.NotRead = append(d.NotRead, mask.Text(fmt.Sprintf(format, args...)))
	}
	wg.Go(func() {
		entries, err := s.timeline(ctx, o)
		d.Timeline = entries
		if err != nil {
			missing("events: %v", err)
		}
	})
	if s.Plane != nil && (isWorthAsking(d.Cluster) || d.Cluster.External) {
		ctx, plane, done, err := s.opened(ctx, o)
		if err != nil {
			missing("its control plane: %v", err)
		} else {
			defer done()
			wg.Go(func() {
				owners, err := plane.Owners(ctx)
				if err != nil {
					missing("who runs the loops: %v", err)
					return
				}
				d.Owners = &owners
			})
			wg.Go(func() { d.Parts = parts(ctx, plane, missing) })
		}
	}
	wg.Wait()
	slices.Sort(d.NotRead)
}

func parts(ctx context.Context, plane Plane, missing func(string, ...any)) []PartStatus {
	var out []PartStatus
	for _, part := range []hosted.Part{hosted.Handover, hosted.Finish} {
		status, err := plane.Status(ctx, part)
		switch {
		case err != nil:
			missing("the journal of the %s: %v", part, err)
		case status.Run != "":
			out = append(out, PartStatus{Part: part, Status: status})
		}
	}
	return out
}

// spans are the parts of a migration for which it is known when they went on.
func spans(d Detail) []view.Span {
	var out []view.Span
	names := map[hosted.Part]string{hosted.Handover: "Handover", hosted.Finish: "Finish"}
	for _, p := range d.Parts {
		span := view.Span{Name: names[p.Part], From: p.Status.Started, State: view.SpanUnderWay}
		switch p.Status.State {
		case v1.StateApplied:
			span.State = view.SpanDone
		case v1.StateRolledBack:
			span.State = view.SpanBack
		case v1.StateFailed:
			span.State = view.SpanFailed
		case v1.StatePaused, v1.StateStalled, v1.StateStopped: // it does not go on by itself
			span.State = p.Status.State
		}
		if span.State == view.SpanDone || span.State == view.SpanBack {
			span.To = span.From.Add(time.Duration(p.Status.ElapsedSeconds * float64(time.Second)))
		}
		out = append(out, span)
	}
	if machines, ok := view.MachinesSpan(d.Cluster); ok {
		out = append(out, machines)
	}
	return out
}

// timeline are the transitions of the conditions and the events of the object, the last first.
func (s *server) timeline(ctx context.Context, o view.Object) ([]v1.TimelineEntry, error) {
	out := []v1.TimelineEntry{}
	for _, c := range view.Row(o, false).Conditions {
		if c.Since.IsZero() {
			continue
		}
		level := "info"
		if c.Type == string(kubermaticv1.ConditionStuck) && c.Status == "True" || c.Reason == kubermaticv1.PhaseFailed ||
			c.Reason == kubermaticv1.PhaseBlocked {
			level = "error"
		}
		out = append(
			out,
			v1.TimelineEntry{
				Time:    c.Since,
				Source:  "condition",
				Level:   level,
				Object:  c.Type,
				Message: cmp.Or(c.Message, c.Reason) + " (" + c.Status + ")",
			},
		)
	}
	events, err := s.eventsOf(ctx, o)
	out = append(out, events...)
	slices.SortStableFunc(out, func(a, b v1.TimelineEntry) int { return b.Time.Compare(a.Time) })
	return out[:min(len(out), maxEvents)], err
}

// Bounds of the events of a cluster. Root of any node may write them, and one has up to a megabyte and a half.
const (
	eventPage, maxEvents = 20, 200
	maxEventText         = 1 << 10
	maxEventBytes        = 4 << 20
)

// eventsOf are the events of an object, in pages: many large ones are not in memory at the same time.
func (s *server) eventsOf(ctx context.Context, o view.Object) (out []v1.TimelineEntry, err error) {
	options := metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Cluster,involvedObject.name=" + o.Cluster.Name, Limit: eventPage,
	}
	for size := 0; size < maxEventBytes && len(out) < maxEvents; {
		list, err := s.Kube.CoreV1().Events(metav1.NamespaceDefault).List(ctx, options)
		if err != nil {
			return out, err
		}
		for _, e := range list.Items {
			size += e.Size()
			if e.InvolvedObject.Kind != "Cluster" || e.InvolvedObject.Name != o.Cluster.Name {
				continue
			}
			out = append(out, v1.TimelineEntry{
				Time:    cmp.Or(e.LastTimestamp.Time, e.EventTime.Time).UTC(),
				Source:  v1.TimelineEvent,
				Level:   map[bool]string{true: "warning", false: "info"}[e.Type == "Warning"],
				Object:  e.Reason,
				Message: mask.Cut(e.Message, maxEventText),
				Count:   int(max(e.Count, 1)),
			})
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	return out, nil
}

// check runs the checks that the operator runs before a migration, and answers with what did not pass.
func (s *server) check(w http.ResponseWriter, r *http.Request, p *person) {
	object, _, err := s.find(r, p, "get")
	if err == nil && s.Plane == nil {
		err = &refusal{http.StatusNotImplemented, "this operator opens no control planes for the page"}
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	report, err := s.checked(r.Context(), object)
	if err != nil {
		s.writeError(w, &refusal{http.StatusBadGateway, mask.Error(err)})
		return
	}
	s.write(w, http.StatusOK, report)
}

// checked gives the place of its look back before anything is written: a client may take its time to read.
func (s *server) checked(ctx context.Context, o view.Object) (v1.CheckReport, error) {
	ctx, cancel := context.WithTimeout(ctx, looking)
	defer cancel()
	ctx, plane, done, err := s.opened(ctx, o)
	if err != nil {
		return v1.CheckReport{}, err
	}
	defer done()
	return troubles(plane.Check(plane.Gather(ctx))), nil
}

// troubles is a report without what passed and what was skipped.
func troubles(r v1.CheckReport) v1.CheckReport {
	r.Findings = slices.DeleteFunc(
		slices.Clone(r.Findings),
		func(f v1.Finding) bool { return f.Outcome == v1.Pass || f.Outcome == v1.Skip },
	)
	return r
}
