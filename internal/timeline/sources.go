package timeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/status"
)

// leadIn is how long before a run events are still of interest: what was wrong when it began.
const leadIn = 10 * time.Minute

// controlPlane are the beginnings of the names of pods whose events are shown.
var controlPlane = []string{
	component.Etcd,
	component.KAS,
	component.KCM,
	component.Scheduler,
	component.CCM,
}

// leases adds every change of a lease's holder that was seen. Of a lease that was not recorded, it adds the last change
// that the API shows.
func (b *builder) leases(in Input) {
	type state struct {
		holder string
		term   int32
	}
	last := map[string]state{}
	for _, e := range in.Ownership {
		if e.Source != v1.SourceLease || e.Error != "" {
			continue
		}
		now := state{e.Holder, e.Transitions}
		before, known := last[e.Lease]
		if last[e.Lease] = now; !known || before == now {
			continue
		}
		b.addMoment(
			e.Time,
			v1.TimelineLease,
			info,
			e.Lease,
			fmt.Sprintf("lease %s: %s -> %s", e.Lease, cmp.Or(before.holder, "no holder"), cmp.Or(now.holder, "no holder")),
		)
	}
	for _, name := range slices.Sorted(maps.Keys(in.Facts.Leases)) {
		spec := in.Facts.Leases[name].Spec
		holder := ptr.Deref(spec.HolderIdentity, "")
		if _, seen := last[name]; seen || holder == "" || spec.AcquireTime == nil || in.Facts.Journal == nil ||
			spec.AcquireTime.Time.Before(in.Facts.Journal.Started) {
			continue
		}
		b.addMoment(spec.AcquireTime.Time, v1.TimelineLease, info, name,
			fmt.Sprintf("lease %s was taken by %s; holders before it were not recorded on this machine", name, holder))
	}
}

// events adds what Kubernetes reported about nodes, the control plane's pods, and load balancers.
func (b *builder) events(f status.Facts) {
	names := slices.Concat(controlPlane, seedWorkloads(f.Journal))
	for _, e := range f.Events {
		at := status.EventTime(e)
		if !isRelevantEvent(e, names) || f.Journal != nil && at.Before(f.Journal.Started.Add(-leadIn)) ||
			f.Journal != nil && f.Journal.Ended != nil && at.After(f.Journal.Ended.Add(leadIn)) {
			continue
		}
		level := info
		if e.Type == corev1.EventTypeWarning {
			level = warning
		}
		message := fmt.Sprintf("%s: %s: %s", status.ObjectName(e), e.Reason, strings.TrimSpace(e.Message))
		count := int(e.Count)
		if e.Series != nil {
			count = max(count, int(e.Series.Count))
		}
		b.addMoment(at, v1.TimelineEvent, level, status.ObjectName(e), message)
		if count > 1 {
			b.entries[len(b.entries)-1].Count = count
		}
	}
}

// seedWorkloads are the beginnings of the names of pods whose Deployments in a seed the run changes. A seed calls them
// as it likes.
func seedWorkloads(doc *v1.Journal) []string {
	if doc == nil || doc.Plan.Cluster.Seed == "" {
		return nil
	}
	var out []string
	for _, s := range doc.Plan.Steps {
		if name, is := strings.CutPrefix(s.Ref, "Deployment/"+doc.Plan.Cluster.Seed+"/"); is {
			out = append(out, name+"-")
		}
	}
	return out
}

// isRelevantEvent reports whether an event says something about a migration. The names are those with which the names
// of the control plane's pods begin.
func isRelevantEvent(e *corev1.Event, names []string) bool {
	switch e.InvolvedObject.Kind {
	case "Node":
		return true
	case "Service":
		return strings.Contains(e.Reason, "LoadBalancer")
	case "Pod":
		return slices.ContainsFunc(
			names,
			func(name string) bool { return strings.HasPrefix(e.InvolvedObject.Name, name) },
		)
	}
	return false
}

// noOutages are the outages of kept connections that were closed while idle, by outageName.
func noOutages(events []v1.ProbeEvent) map[string]bool {
	out := map[string]bool{}
	for _, e := range events {
		if e.Event == v1.ProbeIdle && e.Since != nil {
			out[outageName(e.Path, *e.Since)] = true
		}
	}
	return out
}

func outageName(path string, since time.Time) string {
	return path + " " + since.UTC().Format(time.RFC3339Nano)
}

// probes adds the times during which a path that is probed did not answer, and those without samples.
func (b *builder) probes(events []v1.ProbeEvent) {
	type path struct{ kind, name string }
	down := map[path]v1.ProbeEvent{}
	none := noOutages(events)
	add := func(p path, to *time.Time) {
		e := down[p]
		delete(down, p)
		since := ptr.Deref(e.Since, e.Time)
		if p.kind == v1.PathTCPKept && none[outageName(p.name, since)] {
			return
		}
		text := "%s %s did not answer: %s"
		if p.kind == v1.PathTCPKept {
			text = "%s %s was cut: %s"
		}
		text = fmt.Sprintf(text, p.kind, p.name, cmp.Or(e.Error, "no reason given"))
		b.during(since, to, v1.TimelineProbe, failure, p.name, text)
	}
	for _, e := range events {
		p := path{e.Kind, e.Path}
		_, is := down[p]
		switch e.Event {
		case v1.ProbeDown:
			if !is {
				down[p] = e
			}
		case v1.ProbeUp, v1.ProbeGone:
			if is {
				add(p, &e.Time)
			}
		case v1.ProbeLost:
			to := e.Time
			b.during(
				ptr.Deref(e.Since, e.Time),
				&to,
				v1.TimelineProbe,
				warning,
				e.Path,
				fmt.Sprintf("%s %s was not looked at: %s", e.Kind, e.Path, cmp.Or(e.Error, "no reason given")),
			)
		}
	}
	for _, p := range slices.SortedFunc(
		maps.Keys(down),
		func(a, b path) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) },
	) {
		add(p, nil)
	}
}
