// Package plain decides what a report says first: one sentence for a reader who knows no loop and no lease, and the
// numbers in it. A sentence holds only what there is evidence for. What was not measured, or failed, is called that.
package plain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/probe"
)

// Duration writes seconds for people.
func Duration(seconds float64) string {
	switch {
	case seconds < 0:
		return "-" + Duration(-seconds)
	case seconds < 10:
		return fmt.Sprintf("%.2f s", seconds)
	case seconds < 99.95:
		return fmt.Sprintf("%.1f s", seconds)
	}
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if d < time.Hour {
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// TimeTaken says how long a run took: the work, and then for how long it was paused, or no command executed it.
func TimeTaken(r v1.Report) string {
	took := Duration(r.DurationSeconds - r.IdleSeconds)
	if r.IdleSeconds >= 1 {
		took += ", and " + Duration(r.IdleSeconds) + " paused or stopped"
	}
	return took
}

// Outage writes the length of an outage. Looks are half a second apart, so none is said with one digit.
func Outage(seconds float64) string {
	switch {
	case seconds == 0:
		return "0.0 s"
	case seconds < 1:
		return fmt.Sprintf("%.0f ms", 1000*seconds)
	}
	return Duration(seconds)
}

// Clients is what the probes saw of a cluster's clients: for each kind the longest outage of one path.
type Clients struct {
	// Seconds is the longest of all, and Where the path that had it.
	Seconds float64
	Where   string
	// Services are load balancers, URLs and endpoints; API is the API server.
	Services, API float64
	// ServicePaths and APIPaths are how many paths were probed.
	ServicePaths, APIPaths int
	// ServicesOpen and APIOpen report whether a path was still out when the probes ended. Its outage is longer than was
	// measured.
	ServicesOpen, APIOpen bool
	// Unobserved is for how long no probe ran in between.
	Unobserved float64
}

// Noticed sums up what clients noticed. It is zero where nothing was probed: then no path was.
func Noticed(d *v1.Disruption) Clients {
	var c Clients
	if d == nil {
		return c
	}
	for _, p := range d.Paths {
		open := slices.ContainsFunc(p.Outages, func(o v1.Outage) bool { return o.Open })
		if p.Kind == v1.PathAPIRead || p.Kind == v1.PathAPIWatch {
			c.APIPaths++
			c.API, c.APIOpen = max(c.API, p.LongestSeconds), c.APIOpen || open
		} else {
			c.ServicePaths++
			c.Services, c.ServicesOpen = max(c.Services, p.LongestSeconds), c.ServicesOpen || open
		}
		if p.LongestSeconds > c.Seconds {
			c.Seconds, c.Where = p.LongestSeconds, probe.Title(p.Kind, p.Path)
		}
	}
	for _, u := range d.Unobserved {
		c.Unobserved += u.Seconds
	}
	return c
}

// Open reports whether any path was still out when the probes ended.
func (c Clients) Open() bool { return c.ServicesOpen || c.APIOpen }

// Measured reports whether there is a number at all.
func (c Clients) Measured() bool { return c.ServicePaths+c.APIPaths > 0 }

// OwnershipLog is the name of the source without which no time without a manager is known.
const OwnershipLog = "ownership log"

// IsWatched reports whether it was recorded who ran which loop.
func IsWatched(r v1.Report) bool {
	for _, s := range r.Sources {
		if s.Name == OwnershipLog {
			return s.Present
		}
	}
	return len(r.Tenures) > 0
}

// Sentence is the report in one sentence.
func Sentence(r v1.Report) string {
	parts := []string{doneWords(r), clientWords(Noticed(r.Disruption)), overlapWords(r), gapWords(r)}
	if lost := notAsBefore(r.Inventory); lost != "" {
		parts = append(parts, lost)
	}
	return strings.Join(parts, "; ") + "."
}

// doneWords says what was done to which hosts, and when.
func doneWords(r v1.Report) string {
	name := "cluster " + cmp.Or(r.Cluster.Name, r.Cluster.Context, r.Cluster.UID, "(no name)")
	back := r.Direction == "rollback"
	switch {
	case len(r.Steps) == 0:
		return "Of a migration of " + name + " no step is known"
	case back && r.Result == v1.ResultFailed:
		return fmt.Sprintf("%s the rollback of %s failed (%s)", dayWords(r), name, stepsDone(r))
	case back && r.Result == v1.ResultUnfinished:
		return fmt.Sprintf("%s the rollback of %s started and is not finished (%s)", dayWords(r), name, stepsDone(r))
	case back:
		return fmt.Sprintf("%s the migration of %s was rolled back", dayWords(r), name)
	case slices.ContainsFunc(r.Steps, hasFailed):
		return fmt.Sprintf("%s the migration of %s failed (%s)", dayWords(r), name, stepsDone(r))
	case r.Result == v1.ResultUnfinished || isUnfinished(r.Steps):
		return fmt.Sprintf("%s the migration of %s started and is not finished (%s)", dayWords(r), name, stepsDone(r))
	}
	what := cmp.Or(hostWords(r.Moved), "the cloud loops")
	left := ""
	if n := len(r.Without); n > 0 {
		left = fmt.Sprintf(" (%s left out)", english.Count(n, "lost host"))
	}
	were := "were"
	if m := r.Moved; m != nil && m.ControlPlanes+m.Workers == 1 {
		were = "was"
	}
	return fmt.Sprintf("%s %s of %s %s moved to the cloud-controller-manager%s", dayWords(r), what, name, were, left)
}

func isUnfinished(steps []v1.StepReport) bool {
	return slices.ContainsFunc(steps, func(s v1.StepReport) bool {
		return s.Result == v1.StepResultStarted || s.Result == v1.StepResultInterrupted ||
			s.Result == v1.StepResultPending
	})
}

// dayWords is the day of a run, or its days.
func dayWords(r v1.Report) string {
	const day = "2 January 2006"
	from, to := r.Started.UTC().Format(day), r.Ended.UTC().Format(day)
	switch {
	case r.Started.IsZero():
		return "On an unknown day,"
	case from == to || r.Ended.Before(r.Started):
		return "On " + from + ","
	}
	return "From " + from + " to " + to + ","
}

func stepsDone(r v1.Report) string {
	n := 0
	for _, s := range r.Steps {
		if s.Result == v1.StepResultDone || s.Result == v1.StepResultAlreadyDone || s.Result == v1.StepResultSkipped {
			n++
		}
	}
	return fmt.Sprintf("%d of %s done", n, english.Count(len(r.Steps), "step"))
}

// hostWords counts hosts; empty where there are none, as with a control plane that a seed hosts.
func hostWords(m *v1.MovedHosts) string {
	if m == nil {
		return ""
	}
	var out []string
	if m.ControlPlanes > 0 {
		out = append(out, english.Count(m.ControlPlanes, "control-plane host"))
	}
	if m.Workers > 0 {
		out = append(out, english.Count(m.Workers, "worker"))
	}
	return strings.Join(out, " and ")
}

func clientWords(c Clients) string {
	if !c.Measured() {
		return "what clients noticed was not measured"
	}
	length := func(seconds float64, open bool) string {
		if open {
			return "at least " + Outage(seconds)
		}
		return Outage(seconds)
	}
	var out string
	switch {
	case c.ServicePaths == 0:
		out = "no Service was probed, and clients of its API had no answer for " + length(c.API, c.APIOpen)
	case c.APIPaths == 0 || c.API == c.Services:
		out = "clients had no answer for " + length(c.Seconds, c.Open())
	default:
		out = fmt.Sprintf(
			"clients of its Services had no answer for %s, and clients of its API for %s",
			length(c.Services, c.ServicesOpen), length(c.API, c.APIOpen),
		)
	}
	if c.Unobserved > 0 {
		out += fmt.Sprintf(" (no probe ran for %s)", Duration(c.Unobserved))
	}
	return out
}

// overlapWords says whether two managers acted at a time.
func overlapWords(r v1.Report) string {
	switch {
	case len(r.Overlaps) > 0:
		var loops []string
		for _, o := range r.Overlaps {
			loops = append(loops, o.Loop)
		}
		return "TWO MANAGERS ACTED at the same time (" + loopNames(loops) + ")"
	case !IsWatched(r):
		return "whether two managers acted at the same time is unknown"
	case len(r.Unknown) > 0:
		return "two managers were not seen to act at the same time, but looks are missing"
	case r.Handover.OverlappingWrites == nil:
		return "at no moment were two managers seen to act"
	}
	return "at no moment did two managers act"
}

// longestGaps are the loops that have no owner in the end, and those that had none for longest. The last result reports
// whether no look was missing at any of these gaps.
func longestGaps(r v1.Report) (open, longest []string, certain bool) {
	certain = true
	for _, g := range r.Gaps {
		switch {
		case g.To == "":
			open = append(open, g.Loop)
		case g.Seconds == r.Handover.GapSeconds:
			longest = append(longest, g.Loop)
			certain = certain && g.Certain
		}
	}
	return open, longest, certain
}

// GapLength is the longest time without a manager, as a figure of a few letters.
func GapLength(r v1.Report) string {
	if !IsWatched(r) {
		return "unknown"
	}
	if _, _, certain := longestGaps(r); !certain {
		return "≤ " + Duration(r.Handover.GapSeconds)
	}
	return Duration(r.Handover.GapSeconds)
}

// gapWords says for how long no manager ran a loop that moves.
func gapWords(r v1.Report) string {
	open, longest, certain := longestGaps(r)
	switch {
	case len(open) > 0:
		return "NO MANAGER HAS TAKEN OVER the " + loopNames(open)
	case !IsWatched(r):
		return "for how long no manager acted is unknown"
	case len(longest) == 0:
		return "no time without a manager was seen"
	}
	most := ""
	if !certain {
		most = "at most "
	}
	return fmt.Sprintf(
		"the longest time without a manager was %s%s (%s)",
		most,
		Duration(r.Handover.GapSeconds),
		loopNames(longest),
	)
}

// notAsBefore says what was lost; empty when everything is as it was.
func notAsBefore(inv v1.InventoryReport) string {
	objects, accepted := map[string]bool{}, map[string]bool{}
	for _, d := range inv.Differences {
		switch {
		case d.Expected:
		case d.Accepted != "":
			accepted[d.Object] = true
		default:
			objects[d.Object] = true
		}
	}
	are := func(n int) string {
		return english.Count(n, "object") + english.Word(n, " is", " are") + " not as before"
	}
	switch {
	case len(objects) > 0:
		return are(len(objects))
	case len(accepted) > 0 && inv.Known:
		return are(len(accepted)) + ", which was accepted"
	case !inv.Known:
		return "whether anything was lost is unknown"
	}
	return ""
}

// loopWords are the loops as a reader of Kubernetes' documentation knows them.
var loopWords = map[string]string{
	"cloud-node-lifecycle": "node lifecycle",
	"nodeipam":             "node IPAM",
	"cloud-node":           "node",
}

// loopNames lists different loops: "service and route loops".
func loopNames(loops []string) string {
	var names []string
	for _, l := range loops {
		if name := cmp.Or(loopWords[l], l); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	list := strings.Join(names, ", ")
	if n := len(names) - 1; n > 0 {
		list = strings.Join(names[:n], ", ") + " and " + names[n]
	}
	return list + english.Word(len(names), " loop", " loops")
}

func hasFailed(s v1.StepReport) bool {
	return s.Result == v1.StepResultFailed || s.Result == v1.StepResultUndone
}
