package machines

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/transplant-dev/transplant/internal/mask"
)

var wanted = Policy{Wanted: true}

func TestNothingIsRestartedWithoutTheAnnotation(t *testing.T) {
	s := simulate(1, md("a", 3), md("b", 0))
	o, _ := s.run(Policy{}, 60)
	if len(s.started) > 0 || o.Complete || o.Waiting != 3 {
		t.Errorf("restarted %v: %s", s.started, o.Message())
	}
}

func TestTheCanaryIsTheSmallestAndComesAlone(t *testing.T) {
	s := simulate(1, md("big", 5), md("none", 0), md("small", 1), md("middle", 3))
	for range 500 {
		o, step := s.pass(wanted)
		if step.Restart != nil {
			for _, d := range o.Deployments {
				if _, begun := s.facts.Record.Restart.Began[d.Key()]; begun && d.Name != step.Restart.Name && (d.Done != d.Machines || !d.Settled) {
					t.Fatalf("%s was restarted while %s is not done: %+v", step.Restart.Name, d.Name, d)
				}
			}
		}
		if step.Done {
			break
		}
		s.tick()
	}
	if diff := cmp.Diff([]string{"small", "middle", "big", "none"}, s.started); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if o, _ := s.run(wanted, 10); !o.Complete || o.Done != 9 || len(o.Warnings) > 0 {
		t.Errorf("in the end: %s, warnings %v", o.Message(), o.Warnings)
	}
}

func TestNoMoreMachinesAreMissingThanTheBudget(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		var list []Deployment
		for i := range 1 + r.IntN(5) {
			list = append(list, md(fmt.Sprintf("md%d", i), r.IntN(7), []string{"0", "1", "2", "25%", "50%"}[r.IntN(5)], []string{"0", "1", "25%"}[r.IntN(3)]))
		}
		s := simulate(seed, list...)
		budget := 1 + r.IntN(3)
		o, step := s.run(Policy{Wanted: true, MaxUnavailable: fmt.Sprint(budget)}, 600)
		if s.most > budget {
			t.Fatalf("seed %d: %d machines were missing, %d may be: %+v", seed, s.most, budget, list)
		}
		blocked := slices.ContainsFunc(list, func(d Deployment) bool { return d.Replicas > 0 && unavailable(d) > budget })
		if o.Complete == blocked {
			t.Fatalf("seed %d: complete %t, a MachineDeployment needs more than the budget: %t; %s; %s", seed, o.Complete, blocked, step.Waiting, o.Message())
		}
		if blocked && !strings.Contains(step.Waiting, "lower it, or raise the annotation transplant.dev/max-unavailable") {
			t.Fatalf("seed %d: nobody is told what to do: %q", seed, step.Waiting)
		}
	}
}

func TestNothingStartsWhileTooMuchIsMissingAlready(t *testing.T) {
	s := simulate(1, md("a", 3), md("b", 3))
	for i := range 2 {
		s.facts.Nodes[i].Ready = false
		s.facts.Nodes[i].NotReadySince = s.facts.Time
	}
	if _, step := s.pass(wanted); step.Restart != nil || !strings.Contains(step.Waiting, "2 machines are missing") {
		t.Errorf("got %+v", step)
	}
}

func TestAMachineThatComesUpInTreeStopsEverything(t *testing.T) {
	s := simulate(1, md("canary", 3), md("rest", 9))
	s.inTree["canary"] = true
	var did []string
	for range 120 {
		_, step := s.pass(wanted)
		if step.Pause != nil {
			did = append(did, "pause "+step.Pause.Name)
		}
		s.tick()
	}
	_, step := s.pass(wanted)
	if diff := cmp.Diff([]string{"canary"}, s.started); diff != "" || step.Stopped == nil {
		t.Fatalf("restarted %v, stopped %+v", s.started, step.Stopped)
	}
	if !strings.Contains(step.Stopped.Reason, "is not external") || len(did) == 0 || did[0] != "pause canary" {
		t.Errorf("stopped %+v, did %v", step.Stopped, did)
	}
	olds, _ := s.of(s.facts.Deployments[0], false)
	if len(olds) < 2 {
		t.Errorf("%d old machines are left, the rollout went on", len(olds))
	}
}

func TestAMachineThatNeverJoinsStopsEverythingInTime(t *testing.T) {
	s := simulate(1, md("canary", 2), md("rest", 9))
	s.dead["canary"] = true
	at := 0
	for i := range 60 {
		if _, step := s.pass(wanted); step.Stopped != nil {
			at = i
			break
		}
		s.tick()
	}
	if at < 20 || at > 25 || s.most > 0 {
		t.Errorf("stopped after %d minutes, want 20 or a few more; %d machines were missing", at, s.most)
	}
	if !strings.Contains(s.facts.Record.Restart.Stopped.Reason, "does not work after 20m0s: has no node") {
		t.Errorf("reason: %s", s.facts.Record.Restart.Stopped.Reason)
	}
}

func TestTakingTheAnnotationOffAndOnTriesAgain(t *testing.T) {
	s := simulate(1, md("canary", 2), md("rest", 3))
	s.dead["canary"] = true
	s.run(wanted, 40)
	if s.facts.Record.Restart.Stopped == nil || !s.facts.Deployments[0].Paused {
		t.Fatal("it was not stopped")
	}
	if _, step := s.pass(Policy{}); step.Restart != nil || step.Resume != nil || step.Pause != nil {
		t.Errorf("without the annotation something is done: %+v", step)
	}
	s.dead["canary"] = false
	for _, m := range s.facts.Machines { // what never joined is deleted by hand
		if !slices.ContainsFunc(s.facts.Nodes, func(n Node) bool { return n.OwnedBy == m.UID }) {
			s.remove(m.UID)
		}
	}
	o, step := s.run(wanted, 120)
	if !o.Complete || !step.Done || s.facts.Deployments[0].Paused {
		t.Errorf("%s; %s", step.Waiting, o.Message())
	}
}

// The owner's wish is one thing, and whether the operator may begin now another: it may not whenever it has just begun to lead, or could not look.
func TestAStoppedRestartStaysStoppedWhileNothingMayBegin(t *testing.T) {
	s := simulate(1, md("canary", 3), md("rest", 3))
	s.inTree["canary"] = true
	s.run(wanted, 60)
	olds, _ := s.of(s.facts.Deployments[0], false)
	if s.facts.Record.Restart.Stopped == nil || !s.facts.Deployments[0].Paused {
		t.Fatal("it was not stopped")
	}
	for i := range 60 {
		p := wanted
		if i%2 == 0 {
			p.Hold = "nothing was looked at yet"
		}
		if _, step := s.pass(p); step.Resume != nil || step.Restart != nil || step.Stopped == nil || step.Rolling {
			t.Fatalf("pass %d: %+v", i, step)
		}
		s.tick()
	}
	if left, _ := s.of(s.facts.Deployments[0], false); len(left) != len(olds) || len(s.started) != 1 {
		t.Errorf("%d of %d old machines are left, restarted %v", len(left), len(olds), s.started)
	}
}

func TestWhatWasBegunIsSeenToItsEndWhileNothingFurtherMayBegin(t *testing.T) {
	s := simulate(1, md("canary", 2), md("rest", 3))
	if _, step := s.pass(wanted); step.Restart == nil || !step.Rolling {
		t.Fatalf("%+v", step)
	}
	held := Policy{Wanted: true, Hold: "no place is free"}
	_, step := s.run(held, 60)
	if d := s.facts.Deployments[0]; len(s.started) != 1 || step.Rolling || step.Waiting != held.Hold {
		t.Errorf("restarted %v; %s: %+v", s.started, d.Name, step)
	}
	s.dead["rest"] = true
	s.pass(wanted)
	if _, step := s.run(held, 60); step.Stopped == nil || !s.facts.Deployments[1].Paused || step.Rolling {
		t.Errorf("a machine that never joins: %+v", step)
	}
}

func TestALateMachineLetsTheRestartGoOn(t *testing.T) {
	s := simulate(1, md("canary", 2), md("rest", 3))
	s.dead["canary"] = true
	s.run(wanted, 40)
	if s.facts.Record.Restart.Stopped == nil {
		t.Fatal("it was not stopped")
	}
	s.dead["canary"] = false
	for _, m := range s.facts.Machines {
		if !slices.ContainsFunc(s.facts.Nodes, func(n Node) bool { return n.OwnedBy == m.UID }) {
			s.facts.Nodes = append(
				s.facts.Nodes,
				Node{Name: m.Name, UID: m.Name, OwnedBy: m.UID, Created: s.facts.Time, Uninitialized: true, ProviderIDBy: "x-cloud-controller-manager"},
			)
		}
	}
	if o, step := s.run(wanted, 120); !o.Complete {
		t.Errorf("%s; %s", step.Waiting, o.Message())
	}
}

func TestARolloutThatHangsSaysOnWhat(t *testing.T) {
	s := simulate(1, md("canary", 2))
	s.pass(wanted)
	s.tick()
	s.facts.Machines[0].Deleting = s.facts.Time // and a PodDisruptionBudget holds its pods
	s.facts.Deployments[0].Paused = true        // so that the simulation keeps it
	var stopped *Stopped
	for range 40 {
		if _, step := s.pass(wanted); step.Stopped != nil {
			stopped = step.Stopped
			break
		}
		s.tick()
	}
	if stopped == nil || stopped.Machine != "" || !strings.Contains(stopped.Reason, "PodDisruptionBudget") || stopped.Paused {
		t.Errorf("got %+v", stopped)
	}
}

func TestWhatCannotBeRestartedIsNamedAndOthersGoOn(t *testing.T) {
	s := simulate(1, md("paused", 1), md("unsettled", 2), md("good", 3))
	s.facts.Deployments[0].Paused = true
	s.facts.Deployments[1].Generation = 9
	s.facts.Deployments[1].ObservedGeneration = 1
	_, step := s.pass(wanted)
	if step.Restart == nil || step.Restart.Name != "good" {
		t.Fatalf("got %+v", step)
	}
	_, step = s.run(wanted, 60)
	if !strings.Contains(step.Waiting, "MachineDeployment paused is paused") || step.Done {
		t.Errorf("waiting: %q", step.Waiting)
	}
}

func TestARestartThatDidNotLandIsDoneAgainWithTheSameValue(t *testing.T) {
	s := simulate(1, md("a", 1))
	_, one := s.pass(wanted)
	s.facts.Deployments[0].ForceRestart = "" // the write was lost
	s.facts.Time = s.facts.Time.Add(time.Second)
	_, two := s.pass(wanted)
	if one.Restart == nil || two.Restart == nil || one.Value != two.Value {
		t.Errorf("first %+v, then %+v", one, two)
	}
}

func TestWhatSomebodyElseRestartedIsNotRestartedAgain(t *testing.T) {
	s := simulate(1, md("a", 2))
	s.facts.Deployments[0].ForceRestart = "1627548987807804576" // by hand, after the change
	o, _ := s.run(wanted, 60)
	if len(s.started) > 0 || !o.Complete {
		t.Errorf("restarted %v: %s", s.started, o.Message())
	}
}

func TestNothingStartsBeforeNewMachinesWouldBeExternal(t *testing.T) {
	s := simulate(1, md("a", 2))
	s.facts.CCMReady = false
	if _, step := s.pass(wanted); step.Restart != nil {
		t.Error("restarted without a cloud-controller-manager")
	}
	s.facts.CCMReady, s.facts.Record.ExternalSince = true, nil
	if _, step := s.pass(wanted); step.Restart != nil {
		t.Error("restarted although machine-controller makes in-tree machines")
	}
	s.facts.Record.ExternalSince, s.facts.Unknown = &changed, []string{"listing nodes: refused"}
	if _, step := s.pass(wanted); step.Restart != nil {
		t.Error("restarted without knowing the nodes")
	}
}

func TestAVolumeThatIsStillAttachedToAGoneNodeIsWaitedFor(t *testing.T) {
	s := simulate(1, md("a", 2))
	s.facts.Attachments = []Attachment{{Name: "csi-1", Node: "gone", Volume: "pv-1"}}
	if _, step := s.pass(wanted); step.Restart != nil || !strings.Contains(step.Waiting, "volume pv-1 is still attached to node gone") {
		t.Errorf("got %+v", step)
	}
}

func TestBudgets(t *testing.T) {
	for value, want := range map[string]int{"": 1, "0": 0, "3": 3, "10%": 2, "1%": 1, "100%": 25, " 2 ": 2} {
		if got, err := Budget(value, 25); err != nil || got != want {
			t.Errorf("%q of 25: %d, %v; want %d", value, got, err, want)
		}
	}
	for _, value := range []string{"-1", "many", "101%", "%", "1.5"} {
		if _, err := Budget(value, 25); err == nil || !strings.Contains(err.Error(), "transplant.dev/max-unavailable") {
			t.Errorf("%q: %v", value, err)
		}
	}
	s := simulate(1, md("a", 1))
	if _, step := s.pass(Policy{Wanted: true, MaxUnavailable: "many"}); step.Restart != nil || step.Waiting == "" {
		t.Errorf("got %+v", step)
	}
}

func TestMachinesThatAreExternalAlreadyAreNotReplaced(t *testing.T) {
	s := simulate(1, md("rolled-just-before", 2), md("old", 2))
	for i := range s.facts.Nodes {
		if strings.HasPrefix(s.facts.Nodes[i].Name, "rolled") {
			s.facts.Nodes[i].ProviderIDBy = "aws-cloud-controller-manager" // the change was noticed only after they came up
		}
	}
	o, _ := s.run(wanted, 60)
	if diff := cmp.Diff([]string{"old"}, s.started); diff != "" || !o.Complete {
		t.Errorf("restarted (-want +got):\n%s; %s", diff, o.Message())
	}
}

func TestAnErrorOfAMachineIsShort(t *testing.T) {
	if got := noNode(Machine{Error: strings.Repeat("no quota\n", 200)}); len(got) > 230 || strings.Contains(got, "\n") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// TestAPasswordInTheErrorOfAMachineIsNotShown: it is cut twice, and either cut may go through the password.
func TestAPasswordInTheErrorOfAMachineIsNotShown(t *testing.T) {
	const address = "https://user:hunter2hunter2@keystone.example:5000"
	for _, end := range []int{longest, maxText} {
		for back := range len(address) {
			said := strings.Repeat("\n", end-longest) + strings.Repeat("x ", longest)[:longest-back-1] + " " + address + strings.Repeat(" x", maxText)
			m := machineOf(&unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"errorMessage": said}}})
			if got := mask.Text(noNode(m)); strings.Contains(got, "hunter") || !strings.Contains(got, "x") {
				t.Fatalf("cut %d bytes behind its beginning at %d: %q", back, end, got)
			}
		}
	}
}

func TestWhatFailsAfterTheLastRestartIsNotItsAffair(t *testing.T) {
	s := simulate(1, md("a", 2))
	if o, _ := s.run(wanted, 60); !o.Complete {
		t.Fatal("it was not finished")
	}
	s.facts.Nodes[0].Ready, s.facts.Nodes[0].NotReadySince = false, s.facts.Time
	s.facts.Time = s.facts.Time.Add(24 * time.Hour)
	if _, step := s.pass(wanted); step.Stopped != nil || step.Pause != nil || !step.Done {
		t.Errorf("got %+v", step)
	}
}

func TestACanaryThatFailsLaterStopsTheOthers(t *testing.T) {
	s := simulate(1, md("canary", 1), md("paused", 2))
	s.facts.Deployments[1].Paused = true // the owner is not ready for it
	s.run(wanted, 60)
	s.facts.Deployments[1].Paused = false
	for i := range s.facts.Nodes {
		if n := &s.facts.Nodes[i]; strings.HasPrefix(n.Name, "canary") {
			n.Ready, n.NotReadySince = false, s.facts.Time
		}
	}
	s.facts.Time = s.facts.Time.Add(time.Hour)
	if _, step := s.pass(wanted); step.Stopped == nil || step.Stopped.Deployment != "kube-system/canary" || step.Restart != nil {
		t.Errorf("got %+v", step)
	}
}
