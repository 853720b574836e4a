package cli

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/rollout"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
)

// toldOfFleet are events in short: the type, the wave or the cluster, and the result, a line each. Which phases a look
// comes upon is chance, so progress is left out.
func toldOfFleet(events []v1.RunEvent) []string {
	var out []string
	for _, e := range events {
		line := string(e.Type)
		if e.Wave != nil {
			line += " " + strconv.Itoa(e.Wave.Number)
		}
		if e.Cluster != nil {
			line += " " + e.Cluster.Name
		}
		if e.Result != "" {
			line += " " + string(e.Result)
		}
		if e.Type != v1.EventClusterProgress {
			out = append(out, line)
		}
	}
	return out
}

func TestTheEventsOfARolloutAreLinesForPrograms(t *testing.T) {
	w := newSeed(t)
	w.plain("c0", "c1")
	o := w.operator()
	r := w.run("apply", "--waves", "1,100%", "--yes", "-o", "jsonl")
	o.stop()
	events := eventsOf(t, r.out)
	want := []string{
		"version", "plan",
		"wave.started 1", "cluster.started c0", "cluster.finished c0 done",
		"wave.started 2", "cluster.started c1", "cluster.finished c1 done",
		"rollout.finished", "finished",
	}
	if diff := cmp.Diff(want, toldOfFleet(events)); diff != "" || r.code != exitcode.OK {
		t.Fatalf("exit %d: %s\n%s", r.code, diff, r.errOut)
	}
	if e := events[0]; e.Command != "fleet apply" || e.Version != client.Version {
		t.Errorf("the first line: %+v", e)
	}
	if p := events[1].FleetPlan; p == nil || len(p.Waves) != 2 || p.Waves[1].Clusters[0].Name != "c1" || events[1].Plan != nil {
		t.Errorf("the plan: %+v", events[1])
	}
	if diff := cmp.Diff(&v1.RunWave{Number: 1, Total: 2, Clusters: 1}, events[2].Wave); diff != "" {
		t.Errorf("the first wave: %s", diff)
	}
	if diff := cmp.Diff(&v1.RunCluster{Name: "c0", Group: kubermaticv1.GroupName, Wave: 1}, events[3].Cluster); diff != "" {
		t.Errorf("a cluster that is started: %s", diff)
	}
	done := events[slices.IndexFunc(events, func(e v1.RunEvent) bool { return e.Type == v1.EventClusterFinished })]
	ended := &v1.RunCluster{Name: "c0", Group: kubermaticv1.GroupName, Wave: 1, Phase: kubermaticv1.PhaseCompleted, Standing: v1.StandingCompleted}
	if diff := cmp.Diff(ended, done.Cluster); diff != "" || done.Message != "" {
		t.Errorf("a cluster that is done: %q, %s", done.Message, diff)
	}
	progress := slices.IndexFunc(events, func(e v1.RunEvent) bool {
		return e.Type == v1.EventClusterProgress && e.Cluster.Name == "c1" && e.Cluster.Phase == kubermaticv1.PhaseCompleted
	})
	if progress < 0 {
		t.Errorf("no phase of a cluster is told: %s", r.out)
	}
	if diff := cmp.Diff(&v1.RunTotals{Done: 2}, events[len(events)-2].Totals); diff != "" {
		t.Errorf("the totals: %s", diff)
	}
	if e := events[len(events)-1]; e.ExitCode == nil || *e.ExitCode != 0 || e.Message != "" {
		t.Errorf("the last line: %+v", e)
	}
	for _, words := range []string{"wave 1 of 2: 1 cluster", "c1 · started", "2 done, 0 failed"} {
		if !strings.Contains(r.errOut, words) {
			t.Errorf("standard error does not say %q:\n%s", words, r.errOut)
		}
	}

	again := w.run("apply", "--waves", "1,100%", "-o", "jsonl")
	want = []string{
		"version", "plan", "cluster.finished c0 already-done", "cluster.finished c1 already-done", "rollout.finished", "finished",
	}
	if diff := cmp.Diff(want, toldOfFleet(eventsOf(t, again.out))); diff != "" || again.code != exitcode.OK {
		t.Errorf("with nothing left to be done: exit %d: %s", again.code, diff)
	}
}

func TestTheEventsOfARolloutThatStops(t *testing.T) {
	w := newSeed(t)
	w.plain("c0", "bad1", "c2")
	o := w.operator()
	r := w.run("apply", "--waves", "1,2,100%", "--yes", "-o", "jsonl")
	o.stop()
	events := eventsOf(t, r.out)
	want := []string{
		"version", "plan",
		"wave.started 1", "cluster.started c0", "cluster.finished c0 done",
		"wave.started 2", "cluster.started bad1", "cluster.finished bad1 failed",
		"rollout.finished", "finished",
	}
	if diff := cmp.Diff(want, toldOfFleet(events)); diff != "" || r.code != exitcode.Error {
		t.Fatalf("exit %d: %s\n%s", r.code, diff, r.errOut)
	}
	failed := events[slices.IndexFunc(events, func(e v1.RunEvent) bool { return e.Result == v1.StepResultFailed })]
	if failed.Message != "the handover was taken back: the new manager never became ready" || failed.Cluster.Standing != v1.StandingFailed {
		t.Errorf("the cluster that failed: %+v", failed)
	}
	if diff := cmp.Diff(&v1.RunTotals{Done: 1, Failed: 1, NotStarted: 1}, events[len(events)-2].Totals); diff != "" {
		t.Errorf("the totals: %s", diff)
	}
	last := events[len(events)-1]
	if last.ExitCode == nil || *last.ExitCode != exitcode.Error || !strings.HasPrefix(last.Message, "stopped in wave 2: 1 done, 1 failed") {
		t.Errorf("the last line: %+v", last)
	}
}

func TestTheClustersOfAWaveWaitUntilThoseBeforeWereWatched(t *testing.T) {
	w := newSeed(t)
	w.plain("c0", "c1")
	w.operator()
	r := w.run("apply", "--waves", "1,100%", "--soak", "3s", "--yes", "-o", "jsonl")
	events := eventsOf(t, r.out)
	at := slices.IndexFunc(events, func(e v1.RunEvent) bool { return e.Type == v1.EventWaveWaiting })
	if at < 0 || events[at].Wave.Number != 2 || events[at].Wave.Until == nil || r.code != exitcode.OK {
		t.Fatalf("exit %d: %v\n%s", r.code, toldOfFleet(events), r.errOut)
	}
	if rest := toldOfFleet(events[at+1:]); len(rest) == 0 || rest[0] != "cluster.started c1" {
		t.Errorf("what comes behind it: %v", rest)
	}
}

func TestARolloutThatIsRefusedSaysSoInItsLastEvent(t *testing.T) {
	w := filled(t)
	lookInto(t, func(o fleet.Object) (rollout.Plane, error) { return fakePlane{t: t, name: o.Cluster.Name}, nil })
	for _, tc := range []struct {
		name string
		args []string
		code int
		want []string
		says string
	}{
		{"no consent", []string{"b7k2m9x4fp"}, exitcode.NotApproved, []string{"version", "plan", "finished"}, "there is no terminal on which to ask whether to start"},
		{"a dry run", []string{"--dry-run"}, exitcode.OK, []string{"version", "plan", "finished"}, ""},
		{"findings", []string{"blocked-one", "--details", "short", "--yes"}, exitcode.Blocked, []string{"version", "plan", "finished"}, "the checks refuse or cannot judge 1 cluster"},
		{"a cluster that is none", []string{"ghost", "--yes"}, exitcode.Error, []string{"version", "finished"}, "there is no cluster ghost"},
		{"a choice that is none", []string{"--max-parallel", "0", "--yes"}, exitcode.Error, []string{"version", "finished"}, "max parallel 0"},
	} {
		r := w.run(append([]string{"apply", "-o", "jsonl"}, tc.args...)...)
		events := eventsOf(t, r.out)
		last := events[len(events)-1]
		if r.code != tc.code || last.ExitCode == nil || *last.ExitCode != tc.code || !strings.Contains(last.Message, tc.says) {
			t.Errorf("%s: exit %d, the last line is %+v", tc.name, r.code, last)
		}
		if have := toldOfFleet(events); !slices.Equal(have, tc.want) {
			t.Errorf("%s: %v", tc.name, have)
		}
		if tc.name == "findings" && events[1].FleetPlan.Waves[0].Clusters[0].Report == nil {
			t.Errorf("the plan does not say what blocks: %+v", events[1].FleetPlan)
		}
	}
	fails(t, w.run("apply", "-o", "json"), exitcode.Error, "give text or jsonl")
	lookInto(t, func(fleet.Object) (rollout.Plane, error) {
		return nil, errors.New("password=planted-secret was refused")
	})
	if r := w.run("apply", "b7k2m9x4fp", "--details", "short", "-o", "jsonl"); r.code != exitcode.Blocked || strings.Contains(r.out+r.errOut, "planted-secret") {
		t.Error(r.text(nil))
	}
	if writes := writesOf(w); len(writes) > 0 {
		t.Errorf("something was written: %v", writes)
	}
}

func TestARolloutWhoseEventsHaveNoReaderStartsNoFurtherCluster(t *testing.T) {
	w := newSeed(t)
	w.plain("mute0", "c1")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var out, narrated bytes.Buffer
	code := Run(
		t.Context(),
		[]string{"fleet", "apply", "--waves", "1,100%", "--yes", "-o", "jsonl", "--kubeconfig", w.kubeconfig},
		console.Streams{In: strings.NewReader(""), Out: &brokenAfter{w: &out, lines: 2}, Err: &narrated},
	)
	if code != exitcode.Interrupted || strings.Count(narrated.String(), "the events are incomplete") != 1 ||
		!strings.Contains(narrated.String(), "no further cluster is started; 0 are under way") {
		t.Errorf("exit %d:\n%s", code, narrated.String())
	}
	if have := toldOfFleet(eventsOf(t, out.String())); !slices.Equal(have, []string{"version", "plan"}) {
		t.Errorf("the lines: %v", have)
	}
	if started := w.started(); len(started) > 0 {
		t.Errorf("started %v", started)
	}
}
