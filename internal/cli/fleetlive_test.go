package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	fleetcmd "github.com/transplant-dev/transplant/internal/cli/fleet"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/rollout"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/hosted"
)

// operate is an operator that migrates what is enabled, a phase each 20 ms; one whose name begins with "bad" fails, "mute" is never taken up, "refused" is
// blocked. It remembers how many were under way at a time.
type operate struct {
	w      *seedWorld
	most   int
	ctx    context.Context
	end    func()
	done   chan struct{}
	phases []string
	// clusters are those of today's group.
	clusters dynamic.ResourceInterface
}

func (w *seedWorld) operator() *operate {
	o := &operate{
		w:      w,
		done:   make(chan struct{}),
		phases: []string{kubermaticv1.PhaseQueued, kubermaticv1.PhaseHandover, kubermaticv1.PhaseMachines, kubermaticv1.PhaseCompleted},
	}
	o.ctx, o.end = context.WithCancel(context.Background())
	_, dyn := w.api.Clients(w.t)
	o.clusters = dyn.Resource(objects.Resource(kubermaticv1.GroupName))
	go o.run()
	w.t.Cleanup(o.stop)
	return o
}

func (o *operate) stop() {
	o.end()
	<-o.done
}

func (o *operate) run() {
	defer close(o.done)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	at := map[string]int{}
	for {
		select {
		case <-o.ctx.Done():
			return
		case <-tick.C:
			o.pass(at)
		}
	}
}

func (o *operate) pass(at map[string]int) {
	under := 0
	for _, name := range o.w.names() {
		u, err := o.clusters.Get(o.ctx, name, metav1.GetOptions{})
		if err != nil {
			continue // deleted, or this operator ends
		}
		c, err := objects.Decode(u)
		if err != nil {
			o.w.t.Error(err)
			continue
		}
		if _, held := c.Annotations[kubermaticv1.AnnotationHold]; !c.External() || held || strings.HasPrefix(name, "mute") {
			continue
		}
		if at[name] < len(o.phases) {
			under++
		}
		o.advance(name, at)
	}
	o.most = max(o.most, under)
}

func (o *operate) advance(name string, at map[string]int) {
	n := at[name]
	at[name]++
	switch {
	case n >= len(o.phases):
	case n == 1 && strings.HasPrefix(name, "bad"):
		at[name] = len(o.phases)
		o.w.phase(name, kubermaticv1.PhaseFailed, "the handover was taken back: the new manager never became ready")
	case n == 1 && strings.HasPrefix(name, "refused"):
		at[name] = len(o.phases)
		o.w.phase(name, kubermaticv1.PhaseBlocked, "1 finding: NODE-001 1 of 3 nodes has no providerID")
	default:
		o.w.phase(name, o.phases[n], "")
	}
}

// started are the clusters in the order of the first write to each.
func (w *seedWorld) started() (out []string) {
	for _, line := range w.api.Writes() {
		if name, ok := strings.CutPrefix(line, "update "+clusterPath("")); ok && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func clusterPath(name string) string { return "/apis/kubermatic.k8c.io/v1/clusters/" + name }

// names are those of the clusters of today's group, in order of their making.
func (w *seedWorld) names() (out []string) {
	for _, line := range w.api.Writes() {
		if name, ok := strings.CutPrefix(line, "create "+clusterPath("")); ok {
			out = append(out, name)
		}
	}
	return out
}

func TestARolloutSaysOnEachClusterInWhichWaveItWasStarted(t *testing.T) {
	w := newSeed(t)
	w.plain("c0", "c1", "c2", "c3", "c4", "c5")
	w.operator()
	if r := w.run("apply", "--waves", "1,50%,100%", "--yes"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	for name, want := range map[string]string{
		"c0": "1 of 3, 1 cluster, until completed, ", "c1": "2 of 3, 2 clusters, until completed, ", "c5": "3 of 3, 3 clusters, until completed, ",
	} {
		if got := w.api.Field(clusterPath(name), "metadata", "annotations", kubermaticv1.AnnotationWave); !strings.HasPrefix(got, want+"rollout ") {
			t.Errorf("%s says %q, want %q and the rollout", name, got, want)
		}
	}
	if r := w.run("status"); !strings.Contains(r.out, "wave 3 of 3: done, 3 of 3 clusters done") || !strings.Contains(r.out, "6 of 6 clusters done (100 %)") {
		t.Errorf("the status afterwards is\n%s", r.out)
	}
}

func TestARolloutStartsWavesInOrderAndFollowsThem(t *testing.T) {
	w := newSeed(t)
	names := []string{"c0", "c1", "c2", "c3", "c4", "c5"}
	w.plain(names...)
	o := w.operator()
	r := w.run("apply", "--waves", "1,50%,100%", "--max-parallel", "2", "--yes", "--restart-machines")
	o.stop()
	if r.code != exitcode.OK || !strings.Contains(r.errOut, "6 done, 0 failed, 0 passed over, 0 under way, 0 not started") {
		t.Fatal(r.text(nil))
	}
	if started := w.started(); !slices.Equal(started, names) || o.most > 2 {
		t.Errorf("started %v, at most %d at a time", started, o.most)
	}
	for _, words := range []string{"wave 1 of 3: 1 cluster", "wave 2 of 3: 2 clusters", "wave 3 of 3: 3 clusters", "c4 · started", "c4 · Completed"} {
		if !strings.Contains(r.errOut, words) {
			t.Errorf("it does not say %q:\n%s", words, r.errOut)
		}
	}
	for _, name := range names {
		if w.api.Field(clusterPath(name), "metadata", "annotations", kubermaticv1.AnnotationRestartMachines) != "true" {
			t.Errorf("%s is not asked to restart its machines", name)
		}
		if w.api.Field(clusterPath(name), "spec", "cloud", "aws", "secretAccessKey") != "planted-secret" {
			t.Errorf("%s has lost a field that we do not know", name)
		}
	}
	again := w.run("apply", "--waves", "1,50%,100%", "--max-parallel", "2")
	if again.code != exitcode.OK || !strings.Contains(again.errOut, "6 done") {
		t.Errorf("with nothing left to be done: %s", again.text(nil))
	}
}

func TestWhoWasShownTheStepsBindsTheOperatorToThem(t *testing.T) {
	w := newSeed(t)
	w.plain("c0", "c1")
	lookInto(t, func(o fleet.Object) (rollout.Plane, error) { return fakePlane{t: t, name: o.Cluster.Name}, nil })
	w.operator()
	if r := w.run("apply", "c0", "--details", "whole", "--yes"); r.code != exitcode.OK {
		t.Fatal(r.text(nil))
	}
	if r := w.run("apply", "c1", "--details", "short", "--yes"); r.code != exitcode.OK {
		t.Fatal(r.text(nil))
	}
	made, err := fakePlane{t: t}.Plan(nil, hosted.Handover)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.api.Field(clusterPath("c0"), "metadata", "annotations", kubermaticv1.AnnotationPlan); got != hosted.Confirmation(made.Steps) {
		t.Errorf("of the plan that was shown it says %q", got)
	}
	if got := w.api.Field(clusterPath("c1"), "metadata", "annotations", kubermaticv1.AnnotationPlan); got != "" {
		t.Errorf("of a plan whose steps nobody has seen it says %q", got)
	}
}

func TestARolloutStopsAtAFailureAndGoesOnWhenItIsMended(t *testing.T) {
	w := newSeed(t)
	w.plain("c0", "bad1", "c2", "c3")
	o := w.operator()
	r := w.run("apply", "--waves", "1,2,100%", "--yes")
	o.stop()
	fails(t, r, exitcode.Error, "failed: bad1: the handover was taken back", "stopped in wave 2: 1 done, 1 failed, 0 passed over, 0 under way, 2 not started")
	if started := w.started(); !slices.Equal(started, []string{"c0", "bad1"}) {
		t.Errorf("started %v", started)
	}
	fails(t, w.run("apply", "--waves", "1,2,100%", "--yes"), exitcode.Error, "failed: bad1") // as long as it is not repaired
	w.phase("bad1", kubermaticv1.PhaseCompleted, "")
	o = w.operator()
	o.phases = o.phases[:4]
	if r := w.run("apply", "--waves", "1,2,100%", "--yes", "--except", "bad1"); r.code != exitcode.OK || !strings.Contains(r.errOut, "3 done") {
		t.Error(r.text(nil))
	}
}

func TestOnlyFindingsAreExitCodeThree(t *testing.T) {
	w := newSeed(t)
	w.plain("refused0", "c1")
	o := w.operator()
	r := w.run("apply", "--waves", "1,100%", "--yes", "--patience", "100ms")
	o.stop()
	fails(t, r, exitcode.Blocked, "failed: refused0: blocked: 1 finding: NODE-001", "stopped in wave 1")
}

func TestFailuresThatAreAllowedStopNothing(t *testing.T) {
	w := newSeed(t)
	w.plain("c0", "bad1", "c2")
	w.operator()
	if r := w.run("apply", "--waves", "100%", "--max-failures", "1", "--yes"); r.code != exitcode.OK || !strings.Contains(r.errOut, "2 done, 1 failed") {
		t.Error(r.text(nil))
	}
}

func TestAClusterThatNoOperatorTakesUpIsAFailure(t *testing.T) {
	w := newSeed(t)
	w.plain("mute0", "c1")
	r := w.run("apply", "--waves", "1,100%", "--patience", "300ms", "--yes")
	fails(t, r, exitcode.Error, "failed: mute0: no operator has taken it up: see whether transplant-operator runs")
	if w.api.Field(clusterPath("c1"), "spec", "features", kubermaticv1.FeatureExternalCloudProvider) != "" {
		t.Error("the next wave was begun")
	}
}

func TestWhatTheWebhookRefusesIsAFailureInItsWords(t *testing.T) {
	w := newSeed(t)
	w.plain("c0", "c1")
	w.api.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch {
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusForbidden)
		fmt.Fprint(
			rw,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"admission webhook denied the request: not supported"}`,
		)
		return true
	}
	fails(
		t,
		w.run("apply", "--waves", "1,100%", "--yes"),
		exitcode.Error,
		"failed: c0: starting it was refused",
		"admission webhook denied the request: not supported",
	)
}

func TestAHoldOfFleetsOwnIsTakenOffAndAnotherIsNot(t *testing.T) {
	w := newSeed(t)
	w.plain("c0", "c1")
	for name, who := range map[string]string{"c0": "transplant fleet: not before its wave", "c1": "alice: after the sale"} {
		w.patch(name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"spec":{"features":{"externalCloudProvider":true}}}`, kubermaticv1.AnnotationHold, who))
		w.phase(name, kubermaticv1.PhaseHeld, "held")
	}
	w.operator()
	r := w.run("apply", "--yes")
	if r.code != exitcode.OK || !strings.Contains(r.errOut, "it is held: alice: after the sale: c1") || !strings.Contains(r.errOut, "1 done") {
		t.Error(r.text(nil))
	}
	if w.api.Field(clusterPath("c1"), "metadata", "annotations", kubermaticv1.AnnotationHold) == "" {
		t.Error("alice's hold was taken off")
	}
	if r := w.run("apply", "--yes", "--release-holds"); r.code != exitcode.OK || !strings.Contains(r.errOut, "2 done") {
		t.Error(r.text(nil))
	}
}

func TestAnInterruptedRolloutSaysHowToGoOn(t *testing.T) {
	w := newSeed(t)
	w.plain("mute0", "c1")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(1500*time.Millisecond, cancel)
	r := w.as(transplantWith(ctx, t, "fleet", "apply", "--waves", "1,100%", "--yes", "--kubeconfig", w.kubeconfig))
	fails(
		t,
		r,
		exitcode.Interrupted,
		"interrupted: no further cluster is started; 1 is under way, which the operator carries on",
		"to go on: run the same command again",
	)
}

func TestAPipeThatWatchesAFleetGetsALineForEachChange(t *testing.T) {
	w := newSeed(t)
	w.plain("c0", "c1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i, change := range []func(){
		func() { w.phase("c0", kubermaticv1.PhaseHandover, "step 1 of 9") },
		func() { w.api.Delete(clusterPath("c1")) },
		cancel,
	} {
		time.AfterFunc(time.Duration(i+1)*1500*time.Millisecond, change)
	}
	r := w.as(transplantWith(ctx, t, "fleet", "status", "--watch", "--kubeconfig", w.kubeconfig))
	var lines []string
	for line := range strings.Lines(r.out) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		lines = append(lines, rest)
	}
	if want := []string{"c0 · -", "c1 · -", "c0 · Handover · step 1 of 9", "c1 · deleted"}; !slices.Equal(lines, want) || r.code != exitcode.Interrupted {
		t.Errorf("%q\n%s", lines, r.text(nil))
	}
}

func TestJSONOfAWatchedFleetIsADocumentALine(t *testing.T) {
	w := newSeed(t)
	w.plain("c0")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(1500*time.Millisecond, func() { w.phase("c0", kubermaticv1.PhaseCompleted, "") })
	time.AfterFunc(3*time.Second, cancel)
	r := transplantWith(ctx, t, "fleet", "status", "-w", "-o", "json", "--kubeconfig", w.kubeconfig)
	var standings []string
	for line := range strings.Lines(r.out) {
		var s v1.FleetStatus
		if err := json.Unmarshal([]byte(line), &s); err != nil || s.Kind != v1.KindFleetStatus {
			t.Fatalf("%v: %s", err, line)
		}
		standings = append(standings, s.Clusters[0].Standing)
	}
	if !slices.Equal(standings, []string{v1.StandingNotEnabled, v1.StandingCompleted}) {
		t.Errorf("%v", standings)
	}
}

func TestANarrowTerminalShowsWhatMattersMost(t *testing.T) {
	s := fleetcmd.NewDocument(fleet.Rows([]fleet.Object{{Group: kubermaticv1.GroupName, Cluster: &kubermaticv1.Cluster{}}}), v1.Cluster{}, nil, time.Now())
	s.Clusters[0].Name, s.Clusters[0].Phase, s.Clusters[0].Message = strings.Repeat("n", 63), "Machines", strings.Repeat("wait ", 40)
	for _, width := range []int{40, 80, 100, 200} {
		for line := range strings.Lines(printer.FleetText(s, printer.Layout{Width: width})) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > width {
				t.Errorf("width %d: a line of %d: %s", width, n, line)
			}
		}
	}
	if text := printer.FleetText(s, printer.Layout{Width: 80}); strings.Contains(text, "PROVIDER") || !strings.Contains(text, "MACHINES") {
		t.Errorf("80 columns:\n%s", text)
	}
}

func TestTheRolesOfAFleetAreWhatItsCommandsTake(t *testing.T) {
	w := newSeed(t)
	w.plain("c0")
	asked := w.api.Record()
	for _, args := range [][]string{{"status"}, {"plan", "--details", "none"}} {
		if r := w.run(args...); r.code != exitcode.OK {
			t.Error(r.text(nil))
		}
	}
	looked := asked.Rights()
	if len(looked) == 0 {
		t.Error("nothing was asked for")
	}
	holds(t, looked, "fleet-viewer")
	w.operator()
	if r := w.run("apply", "--yes"); r.code != exitcode.OK {
		t.Error(r.text(nil))
	}
	holds(t, asked.Rights(), "fleet-viewer", "fleet-migrator")
}
