package hosted

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/compare"
)

// notebook is a Ledger in memory.
type notebook struct{ begun map[Part]string }

func (n *notebook) Note(_ context.Context, part Part, p *v1.Plan) error {
	n.begun[part] = compare.Seal(p)
	if part == Handover {
		delete(n.begun, "back")
	}
	return nil
}

func (n *notebook) Check(_ context.Context, part Part, p *v1.Plan) error {
	if n.begun[part] != compare.Seal(p) {
		return &UnknownPlanError{SHA256: Sum(p.Steps)}
	}
	return nil
}

func (n *notebook) NoteBack(_ context.Context, p *v1.Plan) error {
	n.begun["back"] = compare.Seal(p)
	return nil
}

func (n *notebook) HasBack(_ context.Context, p *v1.Plan) (bool, error) {
	return n.begun["back"] == compare.Seal(p), nil
}

func (n *notebook) Forget(_ context.Context, part Part) error {
	delete(n.begun, part)
	if part == Handover {
		delete(n.begun, "back")
	}
	return nil
}

// plant writes the journal of a plan of which a step was begun.
func (w *world) plant(phase string, change func(*v1.Plan)) {
	w.t.Helper()
	plane := w.plane()
	snap := plane.Gather(w.t.Context())
	p, err := plane.Plan(snap, Handover)
	if err != nil {
		w.t.Fatal(describe(err))
	}
	change(p)
	doc := v1.Journal{Run: "20261121-120000", Phase: phase, Plan: *p, Records: []v1.StepRecord{{ID: p.Steps[0].ID, Result: v1.StepResultStarted}}}
	if _, err := plane.Location(Handover).Create(w.t.Context(), doc, snap); err != nil {
		w.t.Fatal(err)
	}
}

// withImage is a plan whose manager is another image, in its steps and its options.
func withImage(image string) func(*v1.Plan) {
	return func(p *v1.Plan) {
		for i := range p.Steps {
			p.Steps[i].Object = strings.ReplaceAll(p.Steps[i].Object, p.Options.Image, image)
		}
		p.Options.Image = image
	}
}

// managerImages are the images of the Deployments of cloud-controller-managers.
func (w *world) managerImages() []string {
	w.t.Helper()
	list, err := w.s.Kube.AppsV1().Deployments(ns).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(d appsv1.Deployment) bool { return !strings.HasSuffix(d.Name, component.CCM) })
	var out []string
	for _, d := range list.Items {
		out = append(out, d.Spec.Template.Spec.Containers[0].Image)
	}
	return out
}

// TestAnUnattendedRunDoesNotGoOnWithAPlanThatItHasNotBegun: the journal breaks no rule, and names its own image for the manager.
func TestAnUnattendedRunDoesNotGoOnWithAPlanThatItHasNotBegun(t *testing.T) {
	const evil = "registry.example.com/evil/cloud-controller-manager:v1.26.0"
	for phase, do := range map[string]func(*Plane) error{
		v1.RunApplying:    func(p *Plane) error { return p.Run(t.Context(), Handover, nil, nil) },
		v1.RunRollingBack: func(p *Plane) error { return p.Rollback(t.Context(), nil, nil) },
		v1.RunApplied:     func(p *Plane) error { return p.Rollback(t.Context(), nil, nil) },
	} {
		t.Run(phase, func(t *testing.T) {
			w := newWorld(t, 1, false)
			w.plant(phase, withImage(evil))
			p := w.plane()
			p.Ledger = &notebook{begun: map[Part]string{}}
			err := do(p)
			unknown, is := errors.AsType[*UnknownPlanError](err)
			if !is || unknown.Journal != ns+"/transplant-journal" || len(unknown.SHA256) != 64 {
				t.Errorf("it ends with %v", err)
			}
			if images := w.managerImages(); len(images) > 0 {
				t.Errorf("there are managers of the images %v", images)
			}
			w.owns(component.KCM)
		})
	}
}

// TestTheSameStepsWithOtherOptionsAreAnotherPlan: what a run reads next to the steps is held as well.
func TestTheSameStepsWithOtherOptionsAreAnotherPlan(t *testing.T) {
	w := newWorld(t, 1, false)
	p := w.plane()
	made, err := p.Plan(p.Gather(t.Context()), Handover)
	if err != nil {
		t.Fatal(describe(err))
	}
	book := &notebook{begun: map[Part]string{}}
	if err := book.Note(t.Context(), Handover, made); err != nil {
		t.Fatal(err)
	}
	w.plant(v1.RunApplying, func(p *v1.Plan) { p.Options.ClusterName = "another" })
	p.Ledger = book
	if err := p.Run(t.Context(), Handover, nil, nil); !errors.As(err, new(*UnknownPlanError)) {
		t.Errorf("it ends with %v", err)
	}
}

// TestTheWordsOfAJournalAreToldOfNoStep: who may write the journal writes them, and they stand in conditions and logs.
func TestTheWordsOfAJournalAreToldOfNoStep(t *testing.T) {
	w := newWorld(t, 1, false)
	lie := func(p *v1.Plan) {
		for i := range p.Steps {
			p.Steps[i].Title = "nothing"
		}
	}
	w.plant(v1.RunApplying, lie)
	told := 0
	tell := func(e step.Event) {
		told++
		if e.Step.Title == "nothing" || e.Step.Title == "" {
			t.Errorf("step %s is told of as %q", e.Step.ID, e.Step.Title)
		}
	}
	if err := w.plane().Run(t.Context(), Handover, tell, nil); err != nil {
		t.Fatal(describe(err))
	}
	w.owns(component.CCM)
	if told == 0 {
		t.Error("no step is told of")
	}
}

func TestAnUnattendedRunGoesOnAndBackWithItsOwnPlan(t *testing.T) {
	w := newWorld(t, 1, false)
	book := &notebook{begun: map[Part]string{}}
	run := func(ctx context.Context, p *Plane) error { p.Ledger = book; return p.Run(ctx, Handover, nil, nil) }
	if !killed(w, "during", "start/"+component.CCM, run) {
		t.Fatal("the step was not reached")
	}
	if err := run(t.Context(), w.plane()); err != nil { // with another process, and what it reads of the journal
		t.Fatal(describe(err))
	}
	w.owns(component.CCM)
	back := func(ctx context.Context, p *Plane) error { p.Ledger = book; return p.Rollback(ctx, nil, nil) }
	if err := back(t.Context(), w.plane()); err != nil {
		t.Fatal(err)
	}
	w.owns(component.KCM)
	if len(book.begun) != 0 {
		t.Errorf("after the rollback, a journal of the same plan would be gone on with: %v", book.begun)
	}
	if err := run(t.Context(), w.plane()); err != nil {
		t.Fatal(describe(err))
	}
	p := w.plane()
	p.Ledger = book
	if err := p.Run(t.Context(), Finish, nil, nil); err != nil {
		t.Fatal(describe(err))
	}
	if len(book.begun) != 0 {
		t.Errorf("when all is done, a journal of the same plans would be gone on with: %v", book.begun)
	}
}

// TestNothingIsBegunThatCannotBeNoted: a run that ended now could not be gone on with.
func TestNothingIsBegunThatCannotBeNoted(t *testing.T) {
	w := newWorld(t, 1, false)
	p := w.plane()
	p.Ledger = refusing{}
	if err := p.Run(t.Context(), Handover, nil, nil); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("it ends with %v", err)
	}
	if _, err := w.s.Kube.CoreV1().ConfigMaps(ns).Get(t.Context(), "transplant-journal", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a journal was begun: %v", err)
	}
}

type refusing struct{ *notebook }

func (refusing) Note(context.Context, Part, *v1.Plan) error { return errors.New("forbidden") }

// begunRollback is a world in which a rollback was begun and killed; its stored plan is changed.
func begunRollback(t *testing.T, book Ledger, change func(*v1.Journal)) *world {
	t.Helper()
	w := newWorld(t, 1, false)
	p := w.plane()
	p.Ledger = book
	if err := p.Run(t.Context(), Handover, nil, nil); err != nil {
		t.Fatal(describe(err))
	}
	reached := false
	for _, s := range w.backSteps() {
		if reached = killed(w, "during", s.ID, func(ctx context.Context, p *Plane) error { p.Ledger = book; return p.Rollback(ctx, nil, nil) }); reached {
			break
		}
	}
	if !reached {
		t.Fatal("no step was reached")
	}
	j, err := p.Location(Handover).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	doc := j.Doc()
	back := *doc.Rollback
	back.Steps = slices.Clone(back.Steps)
	doc.Rollback = &back
	change(&doc)
	if err := j.SetPhase(t.Context(), v1.RunRollingBack, doc.Rollback, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) backSteps() []v1.Step {
	w.t.Helper()
	back, _, err := w.plane().PlanRollback(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return back.Steps
}

// withoutProof is a rollback that gives the old manager its loops before the new one has ended.
func withoutProof(doc *v1.Journal) {
	doc.Rollback.Steps = slices.DeleteFunc(doc.Rollback.Steps, func(s v1.Step) bool { return s.Kind == v1.StepAwait || s.Kind == v1.StepDeleteObject })
}

// TestAStoredRollbackIsMadeAgain: it is in the journal like the plan, and no person looks when the operator goes on with it.
func TestAStoredRollbackIsMadeAgain(t *testing.T) {
	for name, change := range map[string]func(*v1.Journal){"as it was": func(*v1.Journal) {}, "without its proofs": withoutProof} {
		t.Run(name, func(t *testing.T) {
			book := &notebook{begun: map[Part]string{}}
			w := begunRollback(t, book, change)
			p := w.plane()
			p.Ledger = book
			err := p.Rollback(t.Context(), nil, nil)
			if name == "as it was" {
				if err != nil {
					t.Fatal(err)
				}
				w.fair()
				w.owns(component.KCM)
				return
			}
			unknown, is := errors.AsType[*UnknownPlanError](err)
			if !is || !unknown.Rollback || !strings.Contains(err.Error(), "is missing") {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

// TestARollbackThatGoesOnIsHeldToItsPin: between the look and the command, somebody changes what the journal holds.
func TestARollbackThatGoesOnIsHeldToItsPin(t *testing.T) {
	var pinned string
	w := begunRollback(t, nil, func(doc *v1.Journal) {
		pinned = Sum(doc.Rollback.Steps)
		withoutProof(doc)
	})
	before := w.template(kcmRef)
	p := w.plane()
	p.Pinned = pinned
	err := p.Rollback(t.Context(), nil, nil)
	if other, is := errors.AsType[*UnconfirmedError](err); !is || other.Confirmed != pinned {
		t.Errorf("it ends with %v", err)
	}
	if w.template(kcmRef) != before {
		t.Error("the control plane was changed")
	}
	p = w.plane()
	p.Pinned = Sum(w.backSteps())
	if err := p.Rollback(t.Context(), nil, nil); errors.As(err, new(*UnconfirmedError)) {
		t.Errorf("what stands there now cannot be pinned: %v", err)
	}
}

// TestThePhaseOfAJournalAloneTakesNothingBack: whoever may write ConfigMaps next to a control plane writes that word, and the
// rollback that the plan and its records give. No rollback was begun here.
func TestThePhaseOfAJournalAloneTakesNothingBack(t *testing.T) {
	for _, name := range []string{"the phase", "the phase and the rollback"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, false)
			book := &notebook{begun: map[Part]string{}}
			p := w.plane()
			p.Ledger = book
			if err := p.Run(t.Context(), Handover, nil, nil); err != nil {
				t.Fatal(describe(err))
			}
			j, err := p.Location(Handover).Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var planted *v1.Plan
			if strings.Contains(name, "rollback") {
				if planted, _, err = p.PlanRollback(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := j.SetPhase(t.Context(), v1.RunRollingBack, planted, nil); err != nil {
				t.Fatal(err)
			}
			before := w.template(kcmRef)
			p = w.plane()
			p.Ledger = book
			err = p.Rollback(t.Context(), nil, nil)
			unknown, is := errors.AsType[*UnknownPlanError](err)
			if !is || !unknown.Rollback || unknown.Journal != ns+"/transplant-journal" || len(unknown.SHA256) != 64 {
				t.Errorf("it ends with %v", err)
			}
			if w.template(kcmRef) != before || len(w.managerImages()) != 1 {
				t.Error("the control plane was changed")
			}
			w.owns(component.CCM)
		})
	}
}

// TestARollbackThatEndedBetweenItsNoteAndItsJournalGoesOn: the note stands, and the journal still says that it is applied.
func TestARollbackThatEndedBetweenItsNoteAndItsJournalGoesOn(t *testing.T) {
	w := newWorld(t, 1, false)
	book := &notebook{begun: map[Part]string{}}
	run := func(ctx context.Context, p *Plane) error { p.Ledger = book; return p.Run(ctx, Handover, nil, nil) }
	if !killed(w, "during", "start/"+component.CCM, run) {
		t.Fatal("the step was not reached")
	}
	ctx, kill := context.WithCancel(t.Context())
	p := w.plane()
	p.Ledger = killing{book, kill}
	if err := p.Rollback(ctx, nil, nil); err == nil {
		t.Fatal("it went on after it was killed")
	}
	if s, err := w.plane().Status(t.Context(), Handover); err != nil || s.Phase != v1.RunApplying {
		t.Fatalf("the journal says %q, %v", s.Phase, err)
	}
	if err := run(t.Context(), w.plane()); !errors.Is(err, ErrRollback) {
		t.Errorf("the handover goes on although its rollback is noted: %v", err)
	}
	p = w.plane()
	p.Ledger = book
	if err := p.Rollback(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	w.owns(component.KCM)
	w.fair()
	if len(book.begun) != 0 {
		t.Errorf("what is noted after the rollback: %v", book.begun)
	}
}

// killing ends the process right after a rollback was noted.
type killing struct {
	*notebook
	kill func()
}

func (k killing) NoteBack(ctx context.Context, p *v1.Plan) error {
	err := k.notebook.NoteBack(ctx, p)
	k.kill()
	return err
}

// cutRecord removes the record of a step from the journal, as an account that may write ConfigMaps next to the control plane can.
func (w *world) cutRecord(id string, change func(*v1.StepRecord) (keep bool)) {
	w.t.Helper()
	home := w.plane().Location(Handover)
	j, err := home.Open(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	before, err := home.Before(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	doc := j.Doc()
	found := false
	doc.Records = slices.DeleteFunc(slices.Clone(doc.Records), func(r v1.StepRecord) bool { found = found || r.ID == id; return r.ID == id && !change(&r) })
	for i := range doc.Records {
		if doc.Records[i].ID == id {
			change(&doc.Records[i])
		}
	}
	if !found {
		w.t.Fatalf("step %s has no record", id)
	}
	list, err := w.s.Kube.CoreV1().ConfigMaps(ns).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, cm := range list.Items {
		if strings.HasPrefix(cm.Name, "transplant-journal") {
			if err := w.s.Kube.CoreV1().ConfigMaps(ns).Delete(w.t.Context(), cm.Name, metav1.DeleteOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	if _, err := home.Create(w.t.Context(), doc, before); err != nil {
		w.t.Fatal(err)
	}
}

// TestARollbackLeavesNoManagerThatARecordWasCutOf: the old manager would get its loops while the new one runs them.
func TestARollbackLeavesNoManagerThatARecordWasCutOf(t *testing.T) {
	for name, change := range map[string]func(*v1.StepRecord) bool{
		"the record is cut":         func(*v1.StepRecord) bool { return false },
		"it says that it was there": func(r *v1.StepRecord) bool { r.Created = false; return true },
		"all that it says is there": func(*v1.StepRecord) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, false)
			book := &notebook{begun: map[Part]string{}}
			p := w.plane()
			p.Ledger = book
			if err := p.Run(t.Context(), Handover, nil, nil); err != nil {
				t.Fatal(describe(err))
			}
			w.cutRecord("start/"+component.CCM, change)
			journal := func() string {
				cm, err := w.s.Kube.CoreV1().ConfigMaps(ns).Get(t.Context(), "transplant-journal", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return cm.ResourceVersion
			}
			before, written := w.template(kcmRef), journal()
			p = w.plane()
			p.Ledger = book
			err := p.Rollback(t.Context(), nil, nil)
			w.fair()
			if strings.HasPrefix(name, "all") {
				if err != nil {
					t.Fatal(err)
				}
				w.owns(component.KCM)
				return
			}
			if !errors.As(err, new(*trust.UntrustedError)) || !strings.Contains(err.Error(), "Deployment/"+ns+"/") || !strings.Contains(err.Error(), "is live") {
				t.Errorf("it ends with %v", err)
			}
			if w.template(kcmRef) != before || journal() != written {
				t.Error("the control plane or the journal was changed")
			}
			w.owns(component.CCM)
		})
	}
}
