package hosted

import (
	"context"
	"errors"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// TestANotedRollbackGoesOnWhateverPhaseTheJournalSays: somebody writes another phase in the middle of a rollback. With
// that of a finished handover the in-tree provider would be removed, and with that of a finished rollback the
// managers would stay as they are.
func TestANotedRollbackGoesOnWhateverPhaseTheJournalSays(t *testing.T) {
	for _, phase := range []string{v1.RunApplied, v1.RunApplying, v1.RunRolledBack} {
		t.Run(phase, func(t *testing.T) {
			w := newWorld(t, 1, false)
			book := &notebook{begun: map[Part]string{}}
			noted := func() *Plane { p := w.plane(); p.Ledger = book; return p }
			if err := noted().Run(t.Context(), Handover, nil, nil); err != nil {
				t.Fatal(describe(err))
			}
			back, _, err := noted().PlanRollback(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			rollback := func(ctx context.Context, p *Plane) error { p.Ledger = book; return p.Rollback(ctx, nil, nil) }
			if step := back.Steps[0].ID; !killed(w, "during", step, rollback) {
				t.Fatalf("step %s was not reached", step)
			}
			j, err := noted().Location(Handover).Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := j.SetPhase(t.Context(), phase, nil, nil); err != nil {
				t.Fatal(err)
			}
			for _, part := range []Part{Handover, Finish} {
				if err := noted().Run(t.Context(), part, nil, nil); !errors.Is(err, ErrRollback) {
					t.Errorf("the %s is run although the rollback is noted: %v", part, err)
				}
			}
			if err := noted().Rollback(t.Context(), nil, nil); err != nil {
				t.Fatal(describe(err))
			}
			w.owns(component.KCM)
			w.fair()
			if images := w.managerImages(); len(images) > 0 || len(book.begun) > 0 {
				t.Errorf("after the rollback there are managers of %v, and %v is noted", images, book.begun)
			}
		})
	}
}

// TestARollbackThatEndedBetweenItsJournalAndItsNoteIsFinished: the journal says that it is rolled back, and that is so.
func TestARollbackThatEndedBetweenItsJournalAndItsNoteIsFinished(t *testing.T) {
	w := newWorld(t, 1, false)
	book := &notebook{begun: map[Part]string{}}
	p := w.plane()
	p.Ledger = book
	if err := p.Run(t.Context(), Handover, nil, nil); err != nil {
		t.Fatal(describe(err))
	}
	p = w.plane()
	p.Ledger = unforgetting{book}
	if err := p.Rollback(t.Context(), nil, nil); err == nil {
		t.Fatal("the note could be taken off")
	}
	p = w.plane()
	p.Ledger = book
	if err := p.Rollback(t.Context(), nil, nil); err != nil {
		t.Fatal(describe(err))
	}
	w.owns(component.KCM)
	if len(book.begun) > 0 {
		t.Errorf("what is noted after the rollback: %v", book.begun)
	}
	if s, err := w.plane().Status(t.Context(), Handover); err != nil || s.Phase != v1.RunRolledBack {
		t.Errorf("the journal says %q, %v", s.Phase, err)
	}
}

// unforgetting ends before the note is taken off.
type unforgetting struct{ *notebook }

func (unforgetting) Forget(context.Context, Part) error { return errors.New("the API server is away") }
