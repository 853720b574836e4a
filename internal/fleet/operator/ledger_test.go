package operator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

func (w *world) ledger(name string, h *Hosted) planLedger {
	return h.seedOnly(Target{Name: name, Namespace: "cluster-" + name, Group: kubermaticv1.GroupName, Cluster: w.read(name)}).Ledger.(planLedger)
}

// idleWorld is a world whose operator does nothing.
func idleWorld(t *testing.T) *world {
	w := newWorld(t, nil)
	t.Cleanup(w.queue.ShutDown)
	return w
}

func isUnknown(err error) bool { return errors.As(err, new(*hosted.UnknownPlanError)) }

func TestPlansThatWereBegunAreKeptInTheStatusOfTheCluster(t *testing.T) {
	w := idleWorld(t)
	w.cluster("c", enabled)
	h := &Hosted{Seed: hosted.Clients{Kube: w.kube, Dynamic: w.dynamic}, Images: map[string]string{"aws": "mirror.example.com/ccm:v1"}}
	handover := &v1.Plan{Options: v1.Options{Image: "evil.example.com/ccm:v1"}, Steps: []v1.Step{{ID: "a"}}}
	finish := &v1.Plan{Steps: []v1.Step{{ID: "b"}}}
	ctx, l := t.Context(), w.ledger("c", h)
	if err := l.Check(ctx, hosted.Handover, handover); !isUnknown(err) {
		t.Errorf("a plan that was not begun: %v", err)
	}
	for part, p := range map[hosted.Part]*v1.Plan{hosted.Handover: handover, hosted.Finish: finish} {
		if err := l.Note(ctx, part, p); err != nil {
			t.Fatal(err)
		}
	}
	l = w.ledger("c", h) // another process reads it
	for part, p := range map[hosted.Part]*v1.Plan{hosted.Handover: handover, hosted.Finish: finish} {
		if err := l.Check(ctx, part, p); err != nil {
			t.Errorf("%s: %v", part, err)
		}
	}
	if err := l.Check(ctx, hosted.Finish, handover); !isUnknown(err) {
		t.Errorf("the plan of another part: %v", err)
	}
	other := *handover
	other.Options.Env = []string{"HTTPS_PROXY=evil.example.com"}
	if err := l.Check(ctx, hosted.Handover, &other); !isUnknown(err) {
		t.Errorf("the same steps with other options: %v", err)
	}
	if c := w.read("c").Status.Conditions[kubermaticv1.ConditionPlan]; len(c.Message) > 1024 || c.KubermaticVersion == "" || c.LastHeartbeatTime.IsZero() {
		t.Errorf("the schema of Clusters takes no such condition: %+v", c)
	}
	for _, part := range []hosted.Part{hosted.Handover, hosted.Finish} {
		if err := l.Forget(ctx, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Check(ctx, hosted.Handover, handover); !isUnknown(err) {
		t.Errorf("a plan that is forgotten: %v", err)
	}
}

// The page measures clusters by when their handovers began: a finish, hours later, does not count as a beginning.
func TestWhenTheHandoverBeganIsKeptUntilItIsForgotten(t *testing.T) {
	w := idleWorld(t)
	w.cluster("c", enabled)
	h := &Hosted{Seed: hosted.Clients{Kube: w.kube, Dynamic: w.dynamic}}
	ctx, l := t.Context(), w.ledger("c", h)
	note := func(part hosted.Part, id string) {
		t.Helper()
		if err := l.Note(ctx, part, &v1.Plan{Steps: []v1.Step{{ID: id}}}); err != nil {
			t.Fatal(err)
		}
	}
	began := func() string {
		return w.read("c").Status.Conditions[kubermaticv1.ConditionPlan].LastTransitionTime.UTC().Format(time.RFC3339)
	}
	const before = "2026-01-02T03:04:05Z"
	note(hosted.Handover, "a")
	w.patch("c", `{"status":{"conditions":{"`+string(kubermaticv1.ConditionPlan)+`":{"lastTransitionTime":"`+before+`"}}}}`)
	note(hosted.Finish, "b")
	if got := began(); got != before {
		t.Errorf("with the finish, the handover began at %s", got)
	}
	note(hosted.Handover, "another plan")
	if got := began(); got == before {
		t.Error("another handover began when the first one did")
	}
}

// An annotation can be written by whoever may change the Cluster. It approves of steps; a condition that says they were begun is in the status alone.
func TestAPlanOfAJournalIsApprovedByItsSHA256(t *testing.T) {
	official, ok := cloudprovider.OfficialImage("aws", 26)
	ours, has := cloudprovider.ImageFor("aws", 26)
	if !ok || !has {
		t.Fatal("the catalogue has no images")
	}
	for image, want := range map[string]bool{
		"evil.example.com/ccm:v1": false, "evil.example.com/transplant-dev/aws-cloud-controller-manager:v1": false, "mirror.example.com/ccm:v2": false,
		"mirror.example.com/ccm:v1": true, official.Ref: true, ours.Ref: true, repositoryOf(ours.Ref) + ":earlier": true, "": true,
	} {
		w := idleWorld(t)
		w.cluster("c", enabled)
		h := &Hosted{Seed: hosted.Clients{Kube: w.kube, Dynamic: w.dynamic}, Images: map[string]string{"aws": "mirror.example.com/ccm:v1"}}
		p := &v1.Plan{Options: v1.Options{Image: image}, Steps: []v1.Step{{ID: "a"}}}
		approve := func(sum string) {
			w.patch("c", `{"metadata":{"annotations":{"`+kubermaticv1.AnnotationPlan+`":"`+sum+`"}}}`)
		}
		approve(hosted.Sum(nil))
		if err := w.ledger("c", h).Check(t.Context(), hosted.Handover, p); !isUnknown(err) {
			t.Errorf("%s: with another plan approved: %v", image, err)
		}
		approve(hosted.Sum(p.Steps) + " a=12345678")
		err := w.ledger("c", h).Check(t.Context(), hosted.Handover, p)
		if want != (err == nil) || !want && !isUnknown(err) {
			t.Errorf("%s: approved: %v", image, err)
		}
		approve("")
		if err := w.ledger("c", h).Check(t.Context(), hosted.Handover, p); want != (err == nil) {
			t.Errorf("%s: what was approved once is not kept, or what was not is: %v", image, err)
		}
	}
}

// TestAnApprovedPlanWithRiskyVariablesIsLeftToAPerson: whoever approves of its steps by their sum need not have looked at them.
func TestAnApprovedPlanWithRiskyVariablesIsLeftToAPerson(t *testing.T) {
	for env, want := range map[string]bool{"AWS_REGION=eu-1": true, "AWS_CONTAINER_CREDENTIALS_FULL_URI=https://evil.example.com": false} {
		w := idleWorld(t)
		w.cluster("c", enabled)
		p := &v1.Plan{Options: v1.Options{Env: []string{env}}, Steps: []v1.Step{{ID: "a"}}}
		w.patch("c", `{"metadata":{"annotations":{"`+kubermaticv1.AnnotationPlan+`":"`+hosted.Sum(p.Steps)+`"}}}`)
		err := w.ledger("c", &Hosted{Seed: hosted.Clients{Kube: w.kube, Dynamic: w.dynamic}}).Check(t.Context(), hosted.Handover, p)
		if want != (err == nil) || !want && (!isUnknown(err) || !strings.Contains(err.Error(), "AWS_CONTAINER_CREDENTIALS_FULL_URI")) {
			t.Errorf("%s: %v", env, err)
		}
	}
}

func TestAClusterThatWasMadeAgainHasBegunNothing(t *testing.T) {
	w := idleWorld(t)
	w.cluster("c", enabled)
	l := w.ledger("c", &Hosted{Seed: hosted.Clients{Kube: w.kube, Dynamic: w.dynamic}})
	l.target.Cluster.UID = "of the one before"
	if err := l.Note(t.Context(), hosted.Handover, &v1.Plan{}); err == nil {
		t.Error("a plan for the cluster before is noted on this one")
	}
}

func TestAClusterWithAnothersJournalIsBlockedAndSaysWhatToDo(t *testing.T) {
	bubble(t, nil, func(w *world) {
		target := Target{Name: "c", Namespace: "cluster-c", Group: kubermaticv1.GroupName}
		sum := strings.Repeat("0123456789abcdef", 4)
		approved := false // its finish is the operator's own
		w.change("c", func(c *userCluster) {
			c.journal.Handover = state.Begun
			c.run = func(context.Context, func(step.Event), <-chan struct{}) error {
				approved = approved || w.read("c").Annotations[kubermaticv1.AnnotationPlan] == sum
				if approved {
					return nil
				}
				unknown := &hosted.UnknownPlanError{Journal: "cluster-c/transplant-journal", SHA256: sum}
				return &unapprovedError{message: approveBegun(target, state.Handover, unknown), err: unknown}
			}
		})
		w.cluster("c", enabled)
		w.until("c", kubermaticv1.PhaseBlocked, time.Minute)
		message := w.read("c").Status.Conditions[kubermaticv1.ConditionMigration].Message
		for _, want := range []string{"cluster-c/transplant-journal", "transplant apply --dry-run --seed-namespace cluster-c", kubermaticv1.AnnotationPlan + "=" + sum, "delete it"} {
			if !strings.Contains(message, want) {
				t.Errorf("the message does not say %q: %s", want, message)
			}
		}
		if tries := len(w.began()); tries > 5 {
			t.Errorf("it was tried %d times at once", tries)
		}
		// The API of these tests has no resource versions: while the cache is behind, the same may be told more than once.
		if !w.told("Warning Blocked", "not begun here") {
			t.Error("no event says why it is blocked")
		}
		synctest.Wait()
		for len(w.recorder.Events) > 0 {
			<-w.recorder.Events
		}
		<-time.After(time.Hour)
		for len(w.recorder.Events) > 0 {
			if e := <-w.recorder.Events; strings.HasPrefix(e, "Warning") {
				t.Errorf("it is told again: %s", e)
			}
		}
		w.patch("c", `{"metadata":{"annotations":{"`+kubermaticv1.AnnotationPlan+`":"`+sum+`"}}}`)
		w.until("c", kubermaticv1.PhaseCompleted, time.Minute)
	})
}

// TestARollbackIsNotedBesideThePlan: the note is of one plan, outlives the operator, and ends with the handover.
func TestARollbackIsNotedBesideThePlan(t *testing.T) {
	w := idleWorld(t)
	w.cluster("c", enabled)
	h := &Hosted{Seed: hosted.Clients{Kube: w.kube, Dynamic: w.dynamic}}
	p, other := &v1.Plan{Steps: []v1.Step{{ID: "a"}}}, &v1.Plan{Steps: []v1.Step{{ID: "b"}}}
	ctx := t.Context()
	noted := func(p *v1.Plan) bool {
		t.Helper()
		back, err := w.ledger("c", h).HasBack(ctx, p) // another process reads it
		if err != nil {
			t.Fatal(err)
		}
		return back
	}
	note := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	l := w.ledger("c", h)
	note(l.Note(ctx, hosted.Handover, p))
	note(l.Note(ctx, hosted.Finish, p))
	if noted(p) {
		t.Error("a plan that was begun counts as one that is taken back")
	}
	note(l.NoteBack(ctx, p))
	if !noted(p) || noted(other) {
		t.Error("the note is not that of the plan")
	}
	if c := w.read("c").Status.Conditions[kubermaticv1.ConditionPlan]; len(c.Message) > 1024 || !strings.Contains(c.Message, "back="+entryOf(p)) {
		t.Errorf("the condition is %+v", c)
	}
	if err := l.Check(ctx, hosted.Handover, p); err != nil {
		t.Errorf("the plan is forgotten by its rollback: %v", err)
	}
	note(l.Forget(ctx, hosted.Finish))
	if !noted(p) {
		t.Error("another part has ended, and the note is gone")
	}
	note(l.Forget(ctx, hosted.Handover))
	if noted(p) {
		t.Error("the note outlives the handover")
	}
	note(l.NoteBack(ctx, p))
	note(l.Note(ctx, hosted.Handover, p))
	if noted(p) {
		t.Error("the note outlives a new beginning")
	}
}

// TestARollbackThatWasNotedGoesOnWhateverTheJournalSays: the operator ended before the journal said that it goes back.
func TestARollbackThatWasNotedGoesOnWhateverTheJournalSays(t *testing.T) {
	w := idleWorld(t)
	w.cluster("c", enabled)
	h := &Hosted{Seed: hosted.Clients{Kube: w.kube, Dynamic: w.dynamic}}
	p := v1.Plan{Cluster: v1.Cluster{UID: "u", Seed: "cluster-c"}, Steps: []v1.Step{{ID: "a"}, {ID: "b"}}}
	home := journal.ObjectLocation{Kube: w.kube, Namespace: "cluster-c"}
	doc := v1.Journal{Run: "r", Phase: v1.RunApplying, Plan: p, Records: []v1.StepRecord{{ID: "a", Result: v1.StepResultDone}}}
	if _, err := home.Create(t.Context(), doc, &v1.Snapshot{}); err != nil {
		t.Fatal(err)
	}
	target := Target{Name: "c", Namespace: "cluster-c", Group: kubermaticv1.GroupName, Cluster: w.read("c")}
	for want, note := range map[state.Stage]func(planLedger) error{
		state.Begun:       func(l planLedger) error { return l.Note(t.Context(), hosted.Handover, &p) },
		state.RollingBack: func(l planLedger) error { return l.NoteBack(t.Context(), &p) },
	} {
		if err := note(w.ledger("c", h)); err != nil {
			t.Fatal(err)
		}
		if j, err := h.Journal(t.Context(), target); err != nil || j.Handover != want {
			t.Errorf("the handover is %q, %v; want %q", j.Handover, err, want)
		}
	}
	if err := w.ledger("c", h).NoteBack(t.Context(), &p); err != nil { // the order of the map is any
		t.Fatal(err)
	}
	for _, phase := range []string{v1.RunApplied, v1.RunRolledBack} {
		if err := w.kube.CoreV1().ConfigMaps("cluster-c").Delete(t.Context(), journal.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		doc.Phase = phase
		if _, err := home.Create(t.Context(), doc, &v1.Snapshot{}); err != nil {
			t.Fatal(err)
		}
		if j, err := h.Journal(t.Context(), target); err != nil || j.Handover != state.RollingBack {
			t.Errorf("the journal says %s, and the handover is %q, %v", phase, j.Handover, err)
		}
	}
}

func TestWhatToDoAboutARollbackThatWasNotBegun(t *testing.T) {
	target := Target{Name: "c", Namespace: "cluster-c", Group: kubermaticv1.GroupName}
	unknown := &hosted.UnknownPlanError{Journal: "cluster-c/transplant-journal", SHA256: "abc", Rollback: true}
	message := approveBegun(target, state.Handover, unknown)
	for _, want := range []string{
		"cluster-c/transplant-journal", "transplant rollback --dry-run --seed-namespace cluster-c", "transplant rollback --seed-namespace cluster-c --plan-sha256 abc",
		"who wrote the ConfigMap", "backup",
	} {
		if !strings.Contains(message, want) {
			t.Errorf("the message does not say %q: %s", want, message)
		}
	}
}

// TestALongErrorIsNotKeptWhole: a user cluster answers with what it likes, and the memory is for all clusters.
func TestALongErrorIsNotKeptWhole(t *testing.T) {
	var s state.Seen
	note(&s, time.Now(), errors.New("token=hunter2hunter2 "+strings.Repeat("é,é ", 1<<20)))
	if n := len(s.Error); n < maxText/2 || n > maxText+len("...") || strings.Contains(s.Error, "hunter2") || !strings.HasSuffix(s.Error, "...") ||
		!utf8.ValidString(s.Error) {
		t.Errorf("%d bytes are kept: %.100q", n, s.Error)
	}
}

// TestAPasswordInTheMiddleOfACutIsNotKept: the part of a URL before the cut does not look like one with a password.
func TestAPasswordInTheMiddleOfACutIsNotKept(t *testing.T) {
	const address = "https://user:hunter2hunter2@proxy.example:3128"
	for _, end := range []int{maxText, 64 << 10} {
		for back := range len(address) {
			text := strings.Repeat("x ", end/2)[:end-back-1] + " " + address + strings.Repeat(" x", end)
			if got := shownText(text); strings.Contains(got, "hunter") {
				t.Fatalf("%q is kept", got[strings.Index(got, "https"):])
			}
		}
	}
}

// TestARestartThatALeaderFindsTakesAPlace: it was begun by the leader before, so that nobody has asked this one for a place.
func TestARestartThatALeaderFindsTakesAPlace(t *testing.T) {
	m := newStateCache()
	m.withState("a", "", func(r *clusterState) { r.restarting.found(true) })
	m.withState("b", "", func(*clusterState) {})
	if m.claimRestartSlot("b", 1) {
		t.Error("two clusters have the one place")
	}
	m.withState("a", "", func(r *clusterState) { r.restarting.found(false) })
	if !m.claimRestartSlot("b", 1) {
		t.Error("a place that is free is not given")
	}
}

// TestAPlaceForRestartsIsNotBegunAgainAtWill: a cluster that said for one look that its machines were done had its place for six hours more.
func TestAPlaceForRestartsIsNotBegunAgainAtWill(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		var r restarting
		for range 6 {
			r.found(true)
			if !r.counts() {
				t.Error("a restart takes no place")
			}
			<-time.After(time.Hour)
			r.found(true)
			r.found(false)
			if r.counts() {
				t.Error("the end of a restart gives no place back")
			}
		}
		r.found(true)
		if r.counts() {
			t.Error("restarts of more than six hours, one behind the other, have a place")
		}
		r.found(false)
		<-time.After(maxRestarting)
		if r.found(true); !r.counts() {
			t.Error("a restart of another day takes no place")
		}
	})
}
