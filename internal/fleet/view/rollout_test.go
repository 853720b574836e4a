package view

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// TestARolloutStartsEveryClusterOnceInOrderAndStopsAtFailures simulates whole fleets under an operator that takes random times and fails at random.
func TestARolloutStartsEveryClusterOnceInOrderAndStopsAtFailures(t *testing.T) {
	stopped, finished := 0, 0
	for seed := range uint64(400) {
		w := newWorld(t, seed)
		n := w.play()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		if n.Stopped {
			stopped++
		} else {
			finished++
		}
	}
	if stopped == 0 || finished == 0 {
		t.Errorf("%d rollouts stopped and %d went through: the simulation shows one of the two only", stopped, finished)
	}
}

// world is a fleet under a simulated operator.
type world struct {
	t       *testing.T
	r       *rand.Rand
	now     time.Time
	rows    []v1.FleetCluster
	rollout Rollout
	started Started
	order   []Key
	busy    map[Key]time.Time // when a phase ends
	failing int               // one in so many fails
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 11)), now: noon, started: Started{}, busy: map[Key]time.Time{}}
	w.failing = 5 + w.r.IntN(60)
	w.rows = anyFleet(w.r, 1+w.r.IntN(40))
	w.rows = slices.DeleteFunc(w.rows, func(r v1.FleetCluster) bool {
		return r.Standing == v1.StandingFailed || r.Standing == v1.StandingBlocked
	})
	o := anyOptions(w.r)
	waves, _, err := Waves(w.rows, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	w.rollout = Rollout{Waves: waves, Options: o}
	return w
}

// play executes a rollout until it is finished, and judges each decision.
func (w *world) play() Next {
	for range 20000 {
		n := w.rollout.Next(w.rows, w.started, w.now)
		w.judge(n)
		for _, m := range n.Start {
			w.start(m)
		}
		if n.Finished || w.t.Failed() {
			w.whole(n)
			return n
		}
		w.now = w.now.Add(20 * time.Second)
		w.operate()
	}
	w.t.Fatal("the rollout comes to no end")
	return Next{}
}

func (w *world) judge(n Next) {
	if n.Running+len(n.Start) > max(w.rollout.Options.MaxParallel, n.Running) {
		w.t.Errorf("%d run and %d are started: at most %d may run", n.Running, len(n.Start), w.rollout.Options.MaxParallel)
	}
	if len(n.Start) > 0 && (n.Stopped || len(n.Failed) > w.rollout.Options.MaxFailures || !n.SoakUntil.IsZero()) {
		w.t.Errorf("clusters are started although %d failed (soaking: %v)", len(n.Failed), n.SoakUntil)
	}
	for _, m := range n.Start {
		if wave := w.waveOf(m); wave != n.Wave {
			w.t.Errorf("%s of wave %d is started in wave %d", m.Name, wave, n.Wave)
		}
		for _, before := range w.rollout.Waves[:n.Wave-1] {
			for _, b := range before.Clusters {
				if row := w.row(b); w.started[Key{b.Group, b.Name}].Error == "" && (row.Standing == v1.StandingMigrating || row.Standing == v1.StandingNotEnabled) {
					w.t.Errorf("%s of wave %d is started while %s of wave %d is %s", m.Name, n.Wave, b.Name, before.Number, row.Standing)
				}
			}
		}
	}
}

func (w *world) waveOf(m v1.FleetMember) int {
	for _, wave := range w.rollout.Waves {
		if slices.ContainsFunc(wave.Clusters, func(c v1.FleetMember) bool { return c.Name == m.Name && c.Group == m.Group }) {
			return wave.Number
		}
	}
	return 0
}

func (w *world) row(m v1.FleetMember) *v1.FleetCluster {
	for i := range w.rows {
		if w.rows[i].Name == m.Name && w.rows[i].Group == m.Group {
			return &w.rows[i]
		}
	}
	w.t.Fatalf("no cluster %s", m.Name)
	return nil
}

func (w *world) start(m v1.FleetMember) {
	key := Key{m.Group, m.Name}
	if slices.Contains(w.order, key) {
		w.t.Errorf("%s is started twice", m.Name)
	}
	w.order = append(w.order, key)
	w.started[key] = Start{At: w.now}
	if w.r.IntN(w.failing) == 0 {
		w.started[key] = Start{At: w.now, Error: "the webhook refused it"}
		return
	}
	row := w.row(m)
	row.External, row.Hold, row.Phase, row.Standing = true, "", kubermaticv1.PhaseQueued, v1.StandingWaiting
}

// operate lets the operator do what it does in the meantime.
func (w *world) operate() {
	next := map[string]string{
		kubermaticv1.PhaseQueued:     kubermaticv1.PhaseHandover,
		kubermaticv1.PhaseHandover:   kubermaticv1.PhaseComponents,
		kubermaticv1.PhaseComponents: kubermaticv1.PhaseMachines,
		kubermaticv1.PhaseMachines:   kubermaticv1.PhaseFinish,
		kubermaticv1.PhaseFinish:     kubermaticv1.PhaseCompleted,
		"":                           kubermaticv1.PhaseQueued,
	}
	for i := range w.rows {
		row := &w.rows[i]
		if row.Standing != v1.StandingMigrating && row.Standing != v1.StandingWaiting || row.Standing == v1.StandingWaiting && row.Hold+row.Paused != "" {
			continue
		}
		key := keyOf(*row)
		if _, ok := w.busy[key]; !ok {
			w.busy[key] = w.now.Add(time.Duration(w.r.IntN(300)) * time.Second)
		}
		if w.now.Before(w.busy[key]) {
			continue
		}
		delete(w.busy, key)
		row.Phase, row.Since = next[row.Phase], w.now
		row.Standing = v1.StandingMigrating
		switch {
		case row.Phase == "": // held before, and released by nobody
			row.Phase, row.Standing = kubermaticv1.PhaseQueued, v1.StandingWaiting
		case row.Phase == kubermaticv1.PhaseCompleted:
			row.Standing = v1.StandingCompleted
		case w.r.IntN(w.failing*4) == 0:
			row.Phase, row.Standing = kubermaticv1.PhaseFailed, v1.StandingFailed
		}
	}
}

// whole judges what a rollout came to: started in order, all of them where it was not stopped.
func (w *world) whole(n Next) {
	var want []Key
	for _, wave := range w.rollout.Waves {
		for _, m := range wave.Clusters {
			if m.Do != "" {
				want = append(want, Key{m.Group, m.Name})
			}
		}
	}
	if n.Stopped {
		if len(w.order) > len(want) || !slices.Equal(w.order, want[:len(w.order)]) {
			w.t.Errorf("started %v, want the first of %v", w.order, want)
		}
		return
	}
	if !slices.Equal(w.order, want) {
		w.t.Errorf("started %v, want %v", w.order, want)
	}
	if n.Running+n.ToDo > 0 {
		w.t.Errorf("finished, and %d run and %d are to do", n.Running, n.ToDo)
	}
}

func TestARolloutGoesOnFromTheClustersThemselves(t *testing.T) {
	w := newWorld(t, 4)
	w.failing = 1 << 30
	for range 40 { // some of it by a first process
		n := w.rollout.Next(w.rows, w.started, w.now)
		w.judge(n)
		for _, m := range n.Start {
			w.start(m)
		}
		w.now = w.now.Add(20 * time.Second)
		w.operate()
	}
	waves, _, err := Waves(w.rows, nil, w.rollout.Options) // and the rest by one that knows nothing
	if err != nil {
		t.Fatal(err)
	}
	for i := range waves {
		for j, m := range waves[i].Clusters {
			if old := w.rollout.Waves[i].Clusters[j]; old.Name != m.Name || old.Group != m.Group {
				t.Fatalf("wave %d has %s in the place of %s", i+1, m.Name, old.Name)
			}
		}
	}
	before := len(w.order)
	w.started = Started{}
	if n := w.play(); n.Stopped || len(w.order) == before {
		t.Errorf("%d clusters were started after %d: %+v", len(w.order)-before, before, n)
	}
}

// one is the state of a single cluster of a rollout.
func one(o Object, start *Start, opts v1.FleetOptions) Next {
	row := Row(o, false)
	r := Rollout{Waves: []v1.FleetWave{{Number: 1, Upto: "100%", Clusters: []v1.FleetMember{member(row)}}}, Options: opts}
	started := Started{}
	if start != nil {
		started[keyOf(row)] = *start
	}
	return r.Next([]v1.FleetCluster{row}, started, noon)
}

func TestWhatBecomesOfAMember(t *testing.T) {
	at := func(ago time.Duration) *Start { return &Start{At: noon.Add(-ago)} }
	handover := options(func(o *v1.FleetOptions) { o.Until = UntilHandover })
	stuck := condition(kubermaticv1.ConditionStuck, true, "", "Machines takes longer than 24h", 0)
	hold := annotate(kubermaticv1.AnnotationHold, "alice: not now")
	on := func(c *kubermaticv1.Cluster) {
		c.Spec.Features = map[string]bool{kubermaticv1.FeatureExternalCloudProvider: true}
	}
	for name, c := range map[string]struct {
		object Object
		start  *Start
		opts   v1.FleetOptions
		want   string // start, running, done, skipped or failed: and a part of the reason
	}{
		"not enabled": {cluster("a"), nil, options(), "start"},
		"enabled just now, and the list is older":    {cluster("a"), at(time.Second), options(), "running"},
		"enabled, and switched off by somebody":      {cluster("a"), at(time.Hour), options(), "failed: it was enabled and was switched off since"},
		"enabled, and refused by the webhook":        {cluster("a"), &Start{At: noon, Error: "denied: not supported"}, options(), "failed: denied: not supported"},
		"enabled, and no operator takes it up":       {cluster("a", enabled), at(time.Hour), options(), "failed: no operator has taken it up"},
		"enabled by somebody else a moment ago":      {cluster("a", enabled), nil, options(), "running"},
		"queued for long, which is not our business": {cluster("a", enabled, in(kubermaticv1.PhaseQueued, "", time.Hour)), at(time.Hour), options(), "running"},
		"blocked just now":                           {cluster("a", enabled, in(kubermaticv1.PhaseBlocked, "a node is not Ready", 10*time.Second)), nil, options(), "running"},
		"blocked for long":                           {cluster("a", enabled, in(kubermaticv1.PhaseBlocked, "NODE-003", time.Hour)), nil, options(), "failed: blocked: NODE-003"},
		"failed":                                     {cluster("a", enabled, in(kubermaticv1.PhaseFailed, "taken back", 0)), nil, options(), "failed: taken back"},
		"machines, when those count":                 {cluster("a", enabled, owned(OwnersExternal), in(kubermaticv1.PhaseMachines, "", 0)), nil, options(), "running"},
		"machines, when the handover is enough":      {cluster("a", enabled, owned(OwnersExternal), in(kubermaticv1.PhaseMachines, "", 0)), nil, handover, "done"},
		"stuck in what is not waited for":            {cluster("a", enabled, owned(OwnersExternal), in(kubermaticv1.PhaseMachines, "", 0), stuck), nil, handover, "done"},
		"stuck":                                      {cluster("a", enabled, in(kubermaticv1.PhaseMachines, "", 0), stuck), nil, options(), "failed: Machines takes longer"},
		"handed over, and taken back by hand":        {cluster("a", enabled, owned(OwnersInTree), in(kubermaticv1.PhaseMachines, "", 0)), nil, handover, "failed: kube-controller-manager runs"},
		"completed":                                  {cluster("a", enabled, in(kubermaticv1.PhaseCompleted, "", 0)), nil, options(), "done"},
		"completed, and two run the loops now":       {cluster("a", enabled, owned(OwnersBoth), in(kubermaticv1.PhaseCompleted, "", 0)), nil, options(), "failed: more than one manager"},
		"held by somebody meanwhile":                 {cluster("a", enabled, hold, in(kubermaticv1.PhaseHeld, "", 0)), nil, options(), "skipped: alice: not now"},
		"held by us": {
			cluster("a", enabled, annotate(kubermaticv1.AnnotationHold, "transplant fleet"), in(kubermaticv1.PhaseHeld, "", 0)),
			nil,
			options(),
			"start",
		},
		"released by us a moment ago": {
			cluster("a", enabled, annotate(kubermaticv1.AnnotationHold, "transplant fleet"), in(kubermaticv1.PhaseHeld, "", 0)),
			at(time.Second),
			options(),
			"running",
		},
		"held in the middle of its handover": {cluster("a", enabled, hold, in(kubermaticv1.PhaseHandover, "", 0)), nil, options(), "running"},
		"paused meanwhile": {
			cluster("a", enabled, in(kubermaticv1.PhaseHeld, "", 0), func(c *kubermaticv1.Cluster) { c.Spec.Pause, c.Spec.PauseReason = true, "fire" }),
			nil,
			options(),
			"skipped: fire",
		},
		"it has no in-tree provider after all":   {cluster("a", on, in(kubermaticv1.PhaseNotNeeded, "the cluster has no in-tree cloud provider", 0)), at(time.Second), options(), "done"},
		"enabled past the webhook, and not seen": {cluster("a", on), at(time.Second), options(), "running"},
		"enabled past the webhook, and never seen": {
			cluster("a", on, in(kubermaticv1.PhaseNotNeeded, "the feature externalCloudProvider is off", 0)),
			at(time.Hour),
			options(),
			"failed: no operator has taken it up",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := one(c.object, c.start, c.opts)
			word, reason, _ := strings.Cut(c.want, ": ")
			have := map[string]bool{"start": len(n.Start) == 1, "running": n.Running == 1, "done": n.Done == 1, "skipped": n.Skipped == 1, "failed": len(n.Failed) == 1}
			for w, is := range have {
				if is != (w == word) {
					t.Errorf("%s: %v in %+v", w, is, n)
				}
			}
			for _, l := range append(n.Failed, n.Left...) {
				if !strings.Contains(l.Reason, reason) {
					t.Errorf("the reason is %q", l.Reason)
				}
			}
		})
	}
}

// Whoever repairs a cluster and runs the same command again does not wait for the operator to look at it first.
func TestAClusterThatIsStuckWhenTheCommandBeginsMayHaveBeenMended(t *testing.T) {
	stuck := condition(kubermaticv1.ConditionStuck, true, "", "it takes longer", 0)
	for _, phase := range []string{kubermaticv1.PhaseQueued, kubermaticv1.PhaseHandover} {
		row := Row(cluster("a", enabled, in(phase, "", time.Hour), stuck), false)
		r := Rollout{Waves: []v1.FleetWave{{Number: 1, Clusters: []v1.FleetMember{member(row)}}}, Options: options(), Begun: noon}
		grace := r.gracePeriod()
		if n := r.Next([]v1.FleetCluster{row}, nil, noon.Add(grace-time.Second)); n.Running != 1 || n.Finished {
			t.Errorf("%s, before its grace is over: %+v", phase, n)
		}
		if n := r.Next([]v1.FleetCluster{row}, nil, noon.Add(grace)); len(n.Failed) != 1 || !n.Stopped {
			t.Errorf("%s, when its grace is over: %+v", phase, n)
		}
	}
}

func TestAMemberThatIsGoneIsPassedOver(t *testing.T) {
	r := Rollout{Waves: []v1.FleetWave{{Number: 1, Clusters: []v1.FleetMember{{Name: "a"}}}}, Options: options()}
	if n := r.Next(nil, nil, noon); n.Skipped != 1 || !n.Finished || n.Left[0].Reason != "it was deleted" {
		t.Errorf("%+v", n)
	}
}

func TestAWaveIsWatchedBeforeTheNextOneBegins(t *testing.T) {
	done := func(ago time.Duration) []v1.FleetCluster {
		return Rows([]Object{cluster("a", enabled, in(kubermaticv1.PhaseCompleted, "", ago)), cluster("b")})
	}
	o := options(func(o *v1.FleetOptions) { o.Waves, o.SoakSeconds = []string{"1", "100%"}, 600 })
	waves, _, err := Waves(done(time.Minute), nil, o)
	if err != nil {
		t.Fatal(err)
	}
	r := Rollout{Waves: waves, Options: o}
	if n := r.Next(done(time.Minute), nil, noon); len(n.Start) > 0 || !n.SoakUntil.Equal(noon.Add(9*time.Minute)) || n.Finished {
		t.Errorf("a minute after the first wave: %+v", n)
	}
	if n := r.Next(done(11*time.Minute), nil, noon); len(n.Start) != 1 || n.Wave != 2 {
		t.Errorf("eleven minutes after it: %+v", n)
	}
	bad := Rows([]Object{cluster("a", enabled, owned(OwnersNone), in(kubermaticv1.PhaseCompleted, "", time.Minute)), cluster("b")})
	if n := r.Next(bad, nil, noon); !n.Stopped || !strings.Contains(n.Failed[0].Reason, "no manager runs the cloud loops") {
		t.Errorf("the first wave went wrong while it was watched: %+v", n)
	}
}

func TestTheSoakBehindAHandoverDoesNotBeginAnewWithEveryMachine(t *testing.T) {
	rows := Rows([]Object{cluster("a", enabled, owned(OwnersExternal), in(kubermaticv1.PhaseFinish, "", time.Second)), cluster("b")})
	o := options(func(o *v1.FleetOptions) { o.Waves, o.SoakSeconds, o.Until = []string{"1", "100%"}, 600, UntilHandover })
	waves, _, err := Waves(rows, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	if n := (Rollout{Waves: waves, Options: o}).Next(rows, nil, noon); len(n.Start) != 1 { // its manager has been ready for an hour
		t.Errorf("%+v", n)
	}
}
