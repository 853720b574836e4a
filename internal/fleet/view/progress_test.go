package view

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// began makes the operator have begun the handover of a cluster, ago.
func began(ago time.Duration) func(*kubermaticv1.Cluster) {
	return condition(kubermaticv1.ConditionPlan, true, "Begun", "handover=abc.def", ago)
}

// done is a cluster that took so long, and is done since then.
func done(name string, took, ago time.Duration) Object {
	return cluster(name, enabled, began(took+ago), in(kubermaticv1.PhaseCompleted, "", ago))
}

func TestTheProgressOfAFleet(t *testing.T) {
	moving := cluster("m1", enabled, began(10*time.Minute), in(kubermaticv1.PhaseMachines, "", time.Minute))
	for _, c := range []struct {
		name     string
		objects  []Object
		want     v1.FleetProgress
		sentence string
	}{
		{"nothing", nil, v1.FleetProgress{Parallel: 1}, "no cluster has to be migrated"},
		{
			"all made external",
			[]Object{cluster("a", func(c *kubermaticv1.Cluster) {
				c.Spec.Features = map[string]bool{kubermaticv1.FeatureExternalCloudProvider: true}
			})},
			v1.FleetProgress{Parallel: 1}, "no cluster has to be migrated",
		},
		{
			"a provider that was never in tree", []Object{cluster("a", func(c *kubermaticv1.Cluster) { c.Spec.Cloud.ProviderName = "hetzner" })},
			v1.FleetProgress{Parallel: 1}, "no cluster has to be migrated",
		},
		{
			"nothing is finished", []Object{moving, cluster("n1")},
			v1.FleetProgress{Total: 2, UnderWay: 1, NotEnabled: 1, Parallel: 1},
			"0 of 2 clusters done (0 %), 1 under way · no estimate yet: no cluster is finished",
		},
		{
			"what is finished does not show when it began",
			[]Object{cluster("d1", enabled, in(kubermaticv1.PhaseCompleted, "", time.Hour)), cluster("n1")},
			v1.FleetProgress{Done: 1, Total: 2, NotEnabled: 1, Parallel: 1},
			"1 of 2 clusters done (50 %) · no estimate yet: no finished cluster shows when it began",
		},
		{
			// One finished cluster is too few for quartiles: half to twice its time, less the ten minutes that the moving one had.
			"one is finished", []Object{done("d1", 40*time.Minute, time.Hour), moving},
			v1.FleetProgress{Done: 1, Total: 2, UnderWay: 1, Parallel: 1, Measured: 1, Remaining: &v1.Range{LowSeconds: 600, HighSeconds: 4200}},
			"1 of 2 clusters done (50 %), 1 under way · 10 min to 70 min left, 1 at a time, by the times of 1 finished cluster",
		},
		{
			// Four took 20, 20, 40 and 60 minutes, two at a time; the quartiles are 20 and 60. Two more side by side take 20 at
			// least, and no more than the mean of both ends of 60: half of 120, and half of the last.
			"two at a time", []Object{
				done("d1", 20*time.Minute, 100*time.Minute), done("d2", 20*time.Minute, 100*time.Minute), done("d3", 40*time.Minute, time.Minute),
				done("d4", 60*time.Minute, 20*time.Minute), cluster("n1"), cluster("n2"),
			},
			v1.FleetProgress{Done: 4, Total: 6, NotEnabled: 2, Parallel: 2, Measured: 4, Remaining: &v1.Range{LowSeconds: 1200, HighSeconds: 5400}},
			"4 of 6 clusters done (66 %) · 20 min to 1.5 h left, 2 at a time, by the times of 4 finished clusters, with the 2 that are not enabled",
		},
		{
			"what needs a person is in no estimate", []Object{
				done("d1", 40*time.Minute, time.Hour), cluster("f1", enabled, in(kubermaticv1.PhaseFailed, "", 0)),
				cluster("h1", enabled, annotate(kubermaticv1.AnnotationHold, "alice"), in(kubermaticv1.PhaseHeld, "", 0)),
				cluster("b1", enabled, owned(OwnersBoth), in(kubermaticv1.PhaseHandover, "", 0)),
			},
			v1.FleetProgress{Done: 1, Total: 4, NeedPerson: 3, TwoOwners: 1, Parallel: 1, Measured: 1},
			"1 of 4 clusters done (25 %) · no cluster goes on by itself · 3 need a person (failed, blocked, held, paused or stuck), and are in no estimate",
		},
		{"everything is done", []Object{done("d1", time.Minute, time.Hour)}, v1.FleetProgress{Done: 1, Total: 1, Parallel: 1, Measured: 1}, "1 of 1 cluster done (100 %)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Progress(Rows(c.objects), noon)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
			if text := ProgressSentence(got); text != c.sentence {
				t.Errorf("it is said\n%s\nwant\n%s", text, c.sentence)
			}
		})
	}
}

func TestWhenAClusterBeganIsKnownOrLeftOut(t *testing.T) {
	off := func(ago time.Duration) func(*kubermaticv1.Cluster) {
		return condition(kubermaticv1.ConditionLoopsOff, true, "", "", ago)
	}
	for name, c := range map[string]struct {
		object Object
		want   time.Time
	}{
		"it has begun":       {cluster("a", enabled, began(time.Hour)), noon.Add(-time.Hour)},
		"and is handed over": {cluster("a", enabled, began(time.Hour), off(50*time.Minute)), noon.Add(-time.Hour)},
		"an operator before this version wrote when it finished": {cluster("a", enabled, began(time.Minute), off(50*time.Minute)), time.Time{}},
		"no plan":                        {cluster("a", enabled), time.Time{}},
		"it was taken back":              {cluster("a", enabled, condition(kubermaticv1.ConditionPlan, false, "NotBegun", "", 0)), time.Time{}},
		"only the finish, taken by hand": {cluster("a", enabled, condition(kubermaticv1.ConditionPlan, true, "Begun", "finish=abc.def", 0)), time.Time{}},
	} {
		if got := Row(c.object, false).Began; !got.Equal(c.want) {
			t.Errorf("%s: it began at %s, want %s", name, got, c.want)
		}
	}
}

func TestTheWavesOfARollout(t *testing.T) {
	o := options()
	at := func(wave, clusters int) func(*kubermaticv1.Cluster) {
		return annotate(kubermaticv1.AnnotationWave, Place(wave, 4, clusters, o))
	}
	handover := options(func(o *v1.FleetOptions) { o.Until = UntilHandover })
	rows := Rows([]Object{
		cluster("a", enabled, at(1, 1), in(kubermaticv1.PhaseCompleted, "", time.Hour)),
		cluster("b", enabled, at(2, 3), in(kubermaticv1.PhaseCompleted, "", time.Hour)),
		cluster("c", enabled, at(2, 3), owned(OwnersExternal), in(kubermaticv1.PhaseMachines, "", time.Minute)),
		cluster("d", enabled, at(3, 2), in(kubermaticv1.PhaseFailed, "", time.Minute)),
		cluster("e"),
		cluster("f", enabled, annotate(kubermaticv1.AnnotationWave, Place(1, 2, 1, handover)), owned(OwnersExternal), in(kubermaticv1.PhaseMachines, "", time.Minute)),
	})
	got := map[string][]string{}
	for _, r := range Progress(rows, noon).Rollouts {
		for _, w := range r.Waves {
			got[r.ID] = append(got[r.ID], WaveSentence(w, len(r.Waves)))
		}
	}
	want := map[string][]string{
		RolloutID(o): {
			"wave 1 of 4: done, 1 of 1 cluster done",
			"wave 2 of 4: under way, 1 of 3 clusters done, 1 started",
			"wave 3 of 4: needs a person, 0 of 2 clusters done, 1 needs a person",
			"wave 4 of 4: not started",
		},
		RolloutID(handover): {"wave 1 of 2: done, 1 of 1 cluster done", "wave 2 of 2: not started"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("waves (-want +got):\n%s", diff)
	}
}

// TestAnAnnotationDoesNotFillThePage: one says how many waves there are.
func TestAnAnnotationDoesNotFillThePage(t *testing.T) {
	o := options()
	rows := Rows([]Object{cluster("a", annotate(kubermaticv1.AnnotationWave, Place(1, 9999, 1, o)))})
	if r := Progress(rows, noon).Rollouts; len(r) != 1 || len(r[0].Waves) != maxWaves {
		t.Errorf("%d rollouts: %.300v", len(r), r)
	}
}

func TestARolloutIsTheSameAsLongAsItsChoicesAre(t *testing.T) {
	id := RolloutID(options())
	same := options(func(o *v1.FleetOptions) { o.MaxParallel, o.MaxFailures, o.SoakSeconds, o.PatienceSeconds = 99, 9, 9, 9 })
	if RolloutID(same) != id {
		t.Error("how fast it goes makes it another rollout")
	}
	for name, change := range map[string]func(*v1.FleetOptions){
		"waves": func(o *v1.FleetOptions) { o.Waves = []string{"100%"} }, "names": func(o *v1.FleetOptions) { o.Names = []string{"a"} },
		"selector": func(o *v1.FleetOptions) { o.Selector = "a=b" }, "until": func(o *v1.FleetOptions) { o.Until = UntilHandover },
	} {
		if RolloutID(options(change)) == id {
			t.Errorf("other %s are the same rollout", name)
		}
	}
}

func TestAPlaceThatWasWrittenByHandIsNone(t *testing.T) {
	good := Place(2, 4, 5, options())
	for value, want := range map[string]bool{
		good: true, "": false, "2": false, "5 of 4, 5 clusters, until completed, rollout 0123abcd": false, "0 of 4, 5 clusters, until completed, rollout 0123abcd": false,
		"1 of 99999, 5 clusters, until completed, rollout 0123abcd": false, "1 of 4, 99999999 clusters, until completed, rollout 0123abcd": false,
		strings.Replace(good, "completed", "<script>", 1): false, good + "\n<img>": false, "x" + good: false,
	} {
		row := Row(cluster("a", annotate(kubermaticv1.AnnotationWave, value)), false)
		if (row.Place != nil) != want {
			t.Errorf("%q is read as %+v", value, row.Place)
		}
	}
}

func TestEstimatesAreSaidAsExactlyAsTheyMayBe(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "1 min", 59: "1 min", 200: "3 min", 700: "10 min", 4200: "70 min", 5400: "1.5 h", 86400: "24 h", 250000: "3 days", 216000: "2.5 days",
	} {
		if got := about(seconds); got != want {
			t.Errorf("about(%v) is %q, want %q", seconds, got, want)
		}
	}
	if got := aboutRange(v1.Range{LowSeconds: 601, HighSeconds: 640}); got != "about 10 min" {
		t.Errorf("%q", got)
	}
}
