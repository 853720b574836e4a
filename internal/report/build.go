// Package report decides whether a migration kept its promises. It says so in a document (JSON, YAML), in a text
// (Markdown), and on a page that needs no network (HTML).
//
// Build is a pure function of the evidence. That is the journal, the inventory before and after, the ownership log and,
// where there is one, the cloud's own audit log. A promise is kept only where evidence shows it; what evidence is
// missing is named, and where it matters the result is "unknown", not "ok". Write renders a report and looks at nothing
// else, so that a stored report.json gives the same page years later.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/objectives"
	"github.com/transplant-dev/transplant/internal/ownership"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/report/plain"
)

// Directions of a report.
const (
	directionForward  = "forward"
	directionRollback = "rollback"
)

// Input is the evidence.
type Input struct {
	Journal v1.Journal
	// Before and After are the snapshots whose inventories are compared; nil when there is none.
	Before, After *v1.Snapshot
	// Events are the ownership log.
	Events []v1.OwnershipEvent
	// Calls are the cloud's audit log; nil when there is none, which is something else than one without calls.
	Calls []v1.CloudCall
	// Keys say whose the access keys in Calls are.
	Keys map[string]ownership.Owner
	// Probes are the disruption log; empty when the run was not probed.
	Probes []v1.ProbeEvent
	// Accept are reasons for living with a difference, next to those in the journal. The key is an object, or an object
	// and a field; a star stands for any part between two slashes.
	Accept map[string]string
	// Now is when the report is made.
	Now         time.Time
	ToolVersion string
}

// Build makes the report. The same input gives the same report.
func Build(in Input) v1.Report {
	j := in.Journal
	r := v1.Report{
		TypeMeta: v1.Type(
			v1.KindReport,
		),
		ToolVersion: in.ToolVersion,
		Created:     in.Now.UTC(),
		Cluster:     j.Plan.Cluster,
		Run:         j.Run,
		Strategy:    j.Plan.Strategy,
		Direction:   direction(j),
		Started:     j.Started.UTC(),
		Ended:       endTime(j, in.Now).UTC(),
		Findings:    j.Plan.Findings,
		Gaps:        []v1.Gap{},
		Steps:       steps(j),
		Moved:       movedHosts(j),
		Without:     j.Without,
		User:        mask.Text(j.User),
		Waits:       maskedWaits(j.Pauses),
		Stops:       maskedStops(j.Stops),
	}
	if len(j.Plan.Steps) > 0 {
		r.PlanSHA256 = compare.Digest(&j.Plan)
	}
	if j.Rollback != nil {
		r.RollbackSHA256 = compare.Digest(j.Rollback)
	}
	r.DurationSeconds, r.IdleSeconds = round(r.Ended.Sub(r.Started)), round(j.IdleSince(j.Started))
	judged := judgeOwnership(in, r.Ended)
	r.Tenures, r.Overlaps, r.LateEffects = judged.Tenures, judged.Overlaps, judged.LateEffects
	for _, g := range judged.Gaps {
		if stays(j.Plan, g.Loop) {
			r.Pauses = append(r.Pauses, g)
		} else {
			r.Gaps = append(r.Gaps, g)
		}
	}
	r.Unknown, r.Notes = judged.Unknown, judged.Notes
	r.Handover = handover(in, judged, r.Gaps)
	r.Inventory = inventory(in.Before, in.After, r.Direction, going(j))
	accept(r.Inventory.Differences, in.Accept, j.Accepted)
	r.Disruption = disruption(in, r.Steps)
	r.Objectives = objectives.Of(j, r.Ended, in.Before, in.After, in.Events)
	r.Unpromised = unpromised(in, judged)
	r.Sources = sources(in, r)
	r.Result, r.Reasons = verdict(in, r)
	r.Sentence = plain.Sentence(r)
	return r
}

// maskedWaits are the pauses of a run without the secrets that their reasons may hold.
func maskedWaits(pauses []v1.PauseRecord) []v1.PauseRecord {
	out := slices.Clone(pauses)
	for i := range out {
		out[i].Reason, out[i].By = mask.Text(out[i].Reason), mask.Text(out[i].By)
	}
	return out
}

func maskedStops(stops []v1.StopRecord) []v1.StopRecord {
	out := slices.Clone(stops)
	for i := range out {
		out[i].By = mask.Text(out[i].By)
	}
	return out
}

// movedHosts counts the hosts of a migration that a step has changed; nil for a rollback, and without any.
func movedHosts(j v1.Journal) *v1.MovedHosts {
	if direction(j) == directionRollback {
		return nil
	}
	done := map[string]bool{}
	for _, rec := range j.Records {
		done[rec.ID] = rec.Result == v1.StepResultDone || rec.Result == v1.StepResultAlreadyDone
	}
	controlPlanes, others := map[string]bool{}, map[string]bool{}
	for _, s := range j.Plan.Steps {
		if s.Host == "" || !done[s.ID] {
			continue
		}
		if s.Kind == v1.StepKubelet {
			others[s.Host] = true
		} else if s.Component == component.KCM || s.Component == component.KAS || s.Component == component.CCM {
			controlPlanes[s.Host] = true
		}
	}
	maps.DeleteFunc(others, func(host string, _ bool) bool { return controlPlanes[host] })
	if len(controlPlanes)+len(others) == 0 {
		return nil
	}
	return &v1.MovedHosts{ControlPlanes: len(controlPlanes), Workers: len(others)}
}

func direction(j v1.Journal) string {
	if j.Rollback != nil || j.Phase == v1.RunRollingBack || j.Phase == v1.RunRolledBack {
		return directionRollback
	}
	return directionForward
}

// endTime is when the run ended, or what is known of it so far.
func endTime(j v1.Journal, now time.Time) time.Time {
	if j.Ended != nil {
		return *j.Ended
	}
	last := j.Started
	for _, rec := range j.Records {
		switch {
		case rec.Ended == nil && rec.Result == v1.StepResultStarted:
			return now // it goes on
		case rec.Ended != nil && rec.Ended.After(last):
			last = *rec.Ended
		}
	}
	return last
}

// round gives seconds to the millisecond.
func round(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// judgeOwnership asks who ran which loop while the run went on. The journal knows when processes that were waited for
// had ended, and which step went on when.
func judgeOwnership(in Input, ended time.Time) ownership.Judgement {
	o := ownership.Options{
		MigrationLease: in.Journal.Plan.Options.LeaseName,
		Loops:          expectedLoops(in.Journal.Plan),
		Mute:           muteManagers(in.Journal.Plan),
	}
	if n := len(in.Events); n > 0 {
		first, last := in.Events[0].Time, in.Events[0].Time
		for _, e := range in.Events {
			if e.Time.Before(first) {
				first = e.Time
			}
			if e.Time.After(last) {
				last = e.Time
			}
		}
		if !in.Journal.Started.IsZero() && in.Journal.Started.Before(first) {
			o.From = in.Journal.Started
		}
		if ended.After(last) {
			o.Until = ended
		}
	}
	events := slices.Clone(in.Events)
	for _, rec := range in.Journal.Records {
		w := ownership.CauseWindow{Name: rec.ID, From: rec.Started}
		if rec.Ended != nil {
			w.To = *rec.Ended
		}
		o.Causes = append(o.Causes, w)
		for _, h := range rec.Handovers {
			if h.Ended != nil && len(in.Events) > 0 {
				events = append(events, v1.OwnershipEvent{
					Time:       *h.Ended,
					Source:     v1.SourceProcess,
					Component:  h.Component,
					Host:       h.Host,
					PID:        h.PID,
					StartTicks: h.StartTicks,
					Ended:      true,
				})
			}
		}
	}
	return ownership.Judge(events, in.Calls, in.Keys, o)
}

// expectedLoops are the loops that some manager must run: those that a step expects anywhere. A plan for vSphere
// expects neither services nor routes. Where no step expects any loop it is empty, and all of them must run.
func expectedLoops(p v1.Plan) []string {
	return slices.DeleteFunc(ownership.CoreLoops(), func(loop string) bool {
		return !slices.ContainsFunc(p.Steps, func(s v1.Step) bool { return s.Expect[loop] != "" })
	})
}

// muteManagers are the components of a plan whose managers have no gauge of the loops that they run.
func muteManagers(p v1.Plan) (mute []string) {
	cluster, err := version.ParseGeneric(p.Cluster.Version)
	if err == nil && !catalogue.ShowsLoops(component.KCM, int(cluster.Minor())) {
		mute = append(mute, component.KCM)
	}
	isOurs := p.Options.Image != "" && proven.Ours(p.Options.Image)
	if provider, _ := cloudprovider.Lookup(p.Cluster.Provider); provider.Silent && !isOurs {
		mute = append(mute, component.CCM)
	}
	return mute
}

// stays reports whether a loop runs in kube-controller-manager before, during and after: the plan expects it nowhere
// else.
func stays(p v1.Plan, loop string) bool {
	expected := false
	for _, s := range p.Steps {
		component, ok := s.Expect[loop]
		if ok && component != string(controllernames.KubeControllerManager) {
			return false
		}
		expected = expected || ok
	}
	return expected
}

// allGaps are the gaps and the pauses, in the order of time.
func allGaps(r v1.Report) []v1.Gap {
	all := slices.Concat(r.Gaps, r.Pauses)
	slices.SortStableFunc(all, func(a, b v1.Gap) int { return a.Start.Compare(b.Start) })
	return all
}

func handover(in Input, j ownership.Judgement, gaps []v1.Gap) v1.Handover {
	var h v1.Handover
	for _, g := range gaps {
		h.GapSeconds = max(h.GapSeconds, g.Seconds)
	}
	if in.Calls != nil {
		overlapping, late := j.OverlappingWrites(), len(j.LateEffects)
		h.OverlappingWrites, h.LateEffects = &overlapping, &late
	}
	for _, rec := range in.Journal.Records {
		for _, x := range rec.Handovers {
			if x.Released != nil {
				h.Assisted++
			}
		}
	}
	return h
}

// steps are those of the plan, and then those of the rollback, with what the journal says of each.
func steps(j v1.Journal) []v1.StepReport {
	records := map[string]v1.StepRecord{}
	for _, rec := range j.Records {
		records[rec.ID] = rec // of two records of one step the later one counts
	}
	out := []v1.StepReport{}
	add := func(plan v1.Plan, skipPending bool) {
		for _, s := range plan.Steps {
			r := v1.StepReport{
				ID:     s.ID,
				Phase:  s.Phase,
				Title:  s.Title,
				Host:   s.Host,
				Result: v1.StepResultPending,
			}
			if rec, ok := records[s.ID]; ok {
				started := rec.Started.UTC()
				r.Result, r.Error, r.Started, r.Handovers = rec.Result, rec.Error, &started, rec.Handovers
				if rec.Ended != nil {
					r.DurationSeconds = round(rec.Ended.Sub(rec.Started))
				}
			} else if skipPending {
				continue
			}
			out = append(out, r)
		}
	}
	add(j.Plan, j.Rollback != nil) // what a migration had not begun when it was rolled back does not wait for anything
	if j.Rollback != nil {
		add(*j.Rollback, false)
	}
	return out
}

// sources say which evidence there was, and what the absence of one leaves unproven.
func sources(in Input, r v1.Report) []v1.Source {
	log := v1.Source{
		Name:    plain.OwnershipLog,
		Present: len(in.Events) > 0,
		Detail:  "missing: which manager ran which loop, and for how long none did, is unknown",
	}
	if log.Present {
		log.Detail = logDetail(in.Events)
	}
	audit := v1.Source{
		Name:    "cloud audit log",
		Present: in.Calls != nil,
		Detail: "missing: overlapping writes and calls that took effect late are not counted. That no two managers acted rests on what they say of themselves " +
			"(their gauges) and on the ends of their processes",
	}
	if audit.Present {
		mutating := 0
		for _, c := range in.Calls {
			if c.Mutating {
				mutating++
			}
		}
		audit.Detail = fmt.Sprintf(
			"%d calls, of which %d mutating, by %d known access keys",
			len(in.Calls),
			mutating,
			len(in.Keys),
		)
	}
	all := []v1.Source{
		log,
		audit,
		inventorySource("inventory before", in.Before),
		inventorySource("inventory after", in.After),
		{
			Name:    "journal",
			Present: true,
			Detail: fmt.Sprintf(
				"run %s, %d of %d steps recorded, phase %s",
				r.Run,
				recorded(r.Steps),
				len(r.Steps),
				in.Journal.Phase,
			),
		},
	}
	if probes, ok := disruptionSource(in, r.Disruption); ok {
		all = append(all, probes)
	}
	return all
}

func recorded(steps []v1.StepReport) int {
	n := 0
	for _, s := range steps {
		if s.Result != v1.StepResultPending {
			n++
		}
	}
	return n
}

func logDetail(events []v1.OwnershipEvent) string {
	managers, leases := map[string]bool{}, map[string]bool{}
	failed := 0
	first, last := events[0].Time, events[0].Time
	for _, e := range events {
		if e.Source == v1.SourceLease {
			leases[e.Lease] = true
		} else {
			managers[e.Component+"@"+e.Host] = true
		}
		if e.Error != "" {
			failed++
		}
		if e.Time.Before(first) {
			first = e.Time
		}
		if e.Time.After(last) {
			last = e.Time
		}
	}
	return fmt.Sprintf("%d lines about %d managers and %d leases, %s to %s UTC; %d times a source stopped answering",
		len(events), len(managers), len(leases), first.UTC().Format(time.TimeOnly), last.UTC().Format(time.TimeOnly), failed)
}

func inventorySource(name string, s *v1.Snapshot) v1.Source {
	if s == nil {
		return v1.Source{Name: name, Detail: "missing: what was lost or changed cannot be said"}
	}
	out := v1.Source{
		Name:    name,
		Present: true,
		Detail:  fmt.Sprintf("%d nodes, %d services", len(s.Nodes), len(s.Services)),
	}
	if s.Cloud != nil {
		out.Detail += fmt.Sprintf(", %d load balancers, %d routes", len(s.Cloud.LoadBalancers), len(s.Cloud.Routes))
	}
	out.Detail += ", taken " + s.TakenAt.UTC().Format(time.DateTime) + " UTC"
	for _, missing := range gatherErrors(s) {
		out.Detail += "; unknown: " + missing
	}
	return out
}

// Formats are what Write knows.
var Formats = []string{"html", "json", "markdown", "svg", "yaml"}

// Write renders the report in one of Formats.
func Write(w io.Writer, r v1.Report, format string) error {
	var err error
	if r.Sentence == "" { // a stored report of an earlier version
		r.Sentence = plain.Sentence(r)
	}
	switch format {
	case "html":
		err = writeHTML(w, r)
	case "svg":
		err = writePicture(w, r)
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		err = e.Encode(r)
	case "markdown":
		_, err = io.WriteString(w, markdown(r))
	case "yaml":
		var text []byte
		if text, err = yaml.Marshal(r); err == nil {
			_, err = w.Write(text)
		}
	default:
		return fmt.Errorf("format %q is not known: use one of %s", format, strings.Join(Formats, ", "))
	}
	if err != nil {
		return fmt.Errorf("writing the report as %s: %w", format, err)
	}
	return nil
}
