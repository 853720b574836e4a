package view

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
)

// beganAt is when the operator began the handover of a cluster. It is zero where that is not known. An operator before
// this version wrote the time of the last part there, which is after the handover.
func beganAt(c kubermaticv1.ClusterConditions) time.Time {
	plan, off := c[kubermaticv1.ConditionPlan], c[kubermaticv1.ConditionLoopsOff]
	handover := slices.ContainsFunc(strings.Fields(plan.Message), func(word string) bool {
		return strings.HasPrefix(word, "handover=")
	})
	late := off.Status == corev1.ConditionTrue && plan.LastTransitionTime.After(off.LastTransitionTime.Time)
	if plan.Status != corev1.ConditionTrue || !handover || late || plan.LastTransitionTime.IsZero() {
		return time.Time{}
	}
	return plan.LastTransitionTime.UTC()
}

// Place is the value of the annotation AnnotationWave. It says in which wave a rollout starts a cluster, and how many
// it starts in that wave.
func Place(wave, of, clusters int, o v1.FleetOptions) string {
	return fmt.Sprintf("%d of %d, %s, until %s, rollout %s", wave, of, english.Count(clusters, "cluster"), o.Until, RolloutID(o))
}

var placeText = regexp.MustCompile(
	`^([1-9]\d{0,3}) of ([1-9]\d{0,3}), ([1-9]\d{0,6}) clusters?, until (completed|handover), rollout ([0-9a-f]{8})$`,
)

// placeOf reads the annotation; nil where it is not there, or was written by hand.
func placeOf(annotations map[string]string) *v1.FleetPlace {
	m := placeText.FindStringSubmatch(annotations[kubermaticv1.AnnotationWave])
	if m == nil {
		return nil
	}
	wave, _ := strconv.Atoi(m[1]) // at most seven digits each, as matched
	of, _ := strconv.Atoi(m[2])
	clusters, _ := strconv.Atoi(m[3])
	if wave > of {
		return nil
	}
	return &v1.FleetPlace{
		Rollout:  m[5],
		Wave:     wave,
		Of:       of,
		Clusters: clusters,
		Until:    m[4],
	}
}

// RolloutID names a rollout by what chooses its clusters and waves. So the same command, run again, goes on with the
// same rollout.
func RolloutID(o v1.FleetOptions) string {
	chosen := v1.FleetOptions{
		Waves: o.Waves, Until: o.Until, Selector: o.Selector, Providers: o.Providers, Names: o.Names,
		First: o.First, Except: o.Except, ReleaseHolds: o.ReleaseHolds,
	}
	data, _ := json.Marshal(chosen) // texts and numbers
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%x", sum[:4])
}

// Progress is how far a fleet is. Clusters that were made external, or have nothing to migrate, count for nothing.
func Progress(rows []v1.FleetCluster, now time.Time) v1.FleetProgress {
	p := v1.FleetProgress{Parallel: mostUnderWay(rows, now)}
	var took []float64
	var left []time.Time // when each cluster that is left began; zero for one that has not
	for _, r := range rows {
		switch {
		case r.Standing == v1.StandingExternal || hasNothingToMigrate(r):
			continue
		case r.Standing == v1.StandingCompleted:
			p.Done++
			if !r.Began.IsZero() && r.Since.After(r.Began) {
				took = append(took, r.Since.Sub(r.Began).Seconds())
			}
		case needsPerson(r):
			p.NeedPerson++
		default:
			left = append(left, r.Began)
			switch r.Standing {
			case v1.StandingMigrating:
				p.UnderWay++
			case v1.StandingNotEnabled:
				p.NotEnabled++
			}
		}
		if r.Owners == OwnersBoth {
			p.TwoOwners++
		}
		p.Total++
	}
	p.Measured = len(took)
	p.Remaining = estimate(took, left, p.Parallel, now)
	p.Rollouts = rolloutsOf(rows)
	return p
}

// hasNothingToMigrate reports whether a cluster that is not enabled is of a provider that was never in tree.
func hasNothingToMigrate(r v1.FleetCluster) bool {
	provider, known := rules.Lookup(r.Provider)
	return r.Standing == v1.StandingNotEnabled && known && provider.InTree == ""
}

// needsPerson reports whether a cluster goes on only when a person does something about it.
func needsPerson(r v1.FleetCluster) bool {
	return r.Standing == v1.StandingBlocked || r.Standing == v1.StandingFailed || r.Twice || r.Deleting ||
		r.Standing != v1.StandingMigrating && (r.Hold != "" || r.Paused != "") || r.Stuck != "" || r.Owners == OwnersBoth
}

// mostUnderWay is the most clusters that were under way at a time, as far as it is known when they began; at least one.
func mostUnderWay(rows []v1.FleetCluster, now time.Time) int {
	type change struct {
		at   time.Time
		more int
	}
	var changes []change
	underWay := 0
	for _, r := range rows {
		end := now
		switch {
		case r.Standing == v1.StandingMigrating:
			underWay++
		case r.Standing == v1.StandingCompleted:
			end = r.Since
		default:
			continue
		}
		if !r.Began.IsZero() && end.After(r.Began) {
			changes = append(changes, change{r.Began, 1}, change{end, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), a.more-b.more) })
	most, open := 0, 0
	for _, c := range changes {
		open += c.more
		most = max(most, open)
	}
	return max(1, most, underWay)
}

// estimate is how much longer the clusters take that are left; nil where no finished cluster says how long one takes.
func estimate(took []float64, left []time.Time, parallel int, now time.Time) *v1.Range {
	if len(took) == 0 || len(left) == 0 {
		return nil
	}
	slices.Sort(took)
	last := float64(len(took) - 1)
	low, high := took[int(math.Floor(last/4))], took[int(math.Ceil(3*last/4))]
	if len(took) < 3 { // too few for quartiles
		low, high = took[0]/2, 2*took[len(took)-1]
	}
	lowSum, lowLongest := workLeft(left, low, now)
	highSum, highLongest := workLeft(left, high, now)
	n := float64(parallel)
	return &v1.Range{
		LowSeconds:  math.Round(max(lowSum/n, lowLongest)),
		HighSeconds: math.Round(highSum/n + highLongest*(1-1/n)),
	}
}

// workLeft is the time that clusters of this duration still take together, and the longest of them.
func workLeft(left []time.Time, duration float64, now time.Time) (sum, longest float64) {
	for _, began := range left {
		rest := duration
		if !began.IsZero() {
			rest = max(0, duration-now.Sub(began).Seconds())
		}
		sum, longest = sum+rest, max(longest, rest)
	}
	return sum, longest
}

// maxWaves is how many waves of a rollout are shown. An annotation of one cluster says how many there are.
const maxWaves = 100

// rolloutsOf are those that left a mark on clusters, by their names, each with its waves.
func rolloutsOf(rows []v1.FleetCluster) []v1.FleetRollout {
	byID := map[string][]v1.FleetCluster{}
	for _, r := range rows {
		if r.Place != nil {
			byID[r.Place.Rollout] = append(byID[r.Place.Rollout], r)
		}
	}
	var out []v1.FleetRollout
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		of := mostCommon(byID[id], func(p v1.FleetPlace) int { return p.Of })
		rollout := v1.FleetRollout{ID: id}
		for n := 1; n <= min(of, maxWaves); n++ {
			members := slices.DeleteFunc(slices.Clone(byID[id]), func(r v1.FleetCluster) bool { return r.Place.Wave != n })
			rollout.Waves = append(rollout.Waves, waveProgress(n, members))
		}
		out = append(out, rollout)
	}
	return out
}

// mostCommon is the number that most clusters give; the greater one of several.
func mostCommon(members []v1.FleetCluster, of func(v1.FleetPlace) int) int {
	votes := map[int]int{}
	best := 0
	for _, r := range members {
		votes[of(*r.Place)]++
	}
	for n, count := range votes {
		if count > votes[best] || count == votes[best] && n > best {
			best = n
		}
	}
	return best
}

// States of a wave.
const (
	WaveNotStarted = "not started"
	WaveUnderWay   = "under way"
	WaveDone       = "done"
	WaveStopped    = "needs a person"
)

func waveProgress(number int, members []v1.FleetCluster) v1.FleetWaveProgress {
	w := v1.FleetWaveProgress{Number: number, Started: len(members), State: WaveNotStarted}
	if len(members) == 0 {
		return w
	}
	w.Clusters = max(len(members), mostCommon(members, func(p v1.FleetPlace) int { return p.Clusters }))
	for _, r := range members {
		switch {
		case isDone(r):
			w.Done++
		case needsPerson(r):
			w.NeedPerson++
		}
	}
	switch {
	case w.NeedPerson > 0:
		w.State = WaveStopped
	case w.Done >= w.Clusters:
		w.State = WaveDone
	default:
		w.State = WaveUnderWay
	}
	return w
}

// isDone reports whether a cluster is done for its rollout.
func isDone(r v1.FleetCluster) bool {
	if r.Standing == v1.StandingCompleted {
		return true
	}
	handedOver := r.Phase == kubermaticv1.PhaseMachines || r.Phase == kubermaticv1.PhaseFinish
	return r.Place.Until == UntilHandover && handedOver && r.Owners == OwnersExternal
}

// ProgressSentence is the progress of a fleet in words.
func ProgressSentence(p v1.FleetProgress) string {
	if p.Total == 0 {
		return "no cluster has to be migrated"
	}
	out := fmt.Sprintf("%d of %s done (%d %%)", p.Done, english.Count(p.Total, "cluster"), 100*p.Done/p.Total)
	if p.UnderWay > 0 {
		out += fmt.Sprintf(", %d under way", p.UnderWay)
	}
	left := p.Total - p.Done - p.NeedPerson
	switch {
	case left == 0 && p.NeedPerson == 0:
	case left == 0:
		out += " · no cluster goes on by itself"
	case p.Remaining != nil:
		out += fmt.Sprintf(
			" · %s left, %d at a time, by the times of %s",
			aboutRange(*p.Remaining), p.Parallel, english.Count(p.Measured, "finished cluster"),
		)
	case p.Done > 0:
		out += " · no estimate yet: no finished cluster shows when it began"
	default:
		out += " · no estimate yet: no cluster is finished"
	}
	if p.NotEnabled > 0 && p.Remaining != nil {
		out += fmt.Sprintf(", with the %d that are not enabled", p.NotEnabled)
	}
	if p.NeedPerson > 0 {
		out += fmt.Sprintf(" · %d %s a person (failed, blocked, held, paused or stuck), and %s in no estimate", p.NeedPerson,
			english.Word(p.NeedPerson, "needs", "need"), english.Word(p.NeedPerson, "is", "are"))
	}
	return out
}

// WaveSentence is a wave in words.
func WaveSentence(w v1.FleetWaveProgress, of int) string {
	out := fmt.Sprintf("wave %d of %d: %s", w.Number, of, w.State)
	if w.Started == 0 {
		return out
	}
	out += fmt.Sprintf(", %d of %s done", w.Done, english.Count(w.Clusters, "cluster"))
	if n := w.Started - w.Done - w.NeedPerson; n > 0 {
		out += fmt.Sprintf(", %d started", n)
	}
	if w.NeedPerson > 0 {
		out += fmt.Sprintf(", %d %s a person", w.NeedPerson, english.Word(w.NeedPerson, "needs", "need"))
	}
	return out
}

func aboutRange(r v1.Range) string {
	low, high := about(r.LowSeconds), about(r.HighSeconds)
	if low == high {
		return "about " + low
	}
	return low + " to " + high
}

// about writes a time as exactly as an estimate may be said.
func about(seconds float64) string {
	minutes := seconds / 60
	switch {
	case minutes <= 1:
		return "1 min"
	case minutes < 10:
		return fmt.Sprintf("%.0f min", minutes)
	case minutes < 90:
		return fmt.Sprintf("%.0f min", 5*math.Round(minutes/5))
	case minutes < 36*60:
		return fmt.Sprintf("%g h", math.Round(minutes/30)/2)
	}
	return fmt.Sprintf("%g days", math.Round(minutes/720)/2)
}
