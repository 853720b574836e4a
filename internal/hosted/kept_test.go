package hosted

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

var keep = flag.String("keep", "", "name of the version, e.g. v0.2.0, under which worlds in the middle of a run are written to testdata/kept")

// keptWorlds are where worlds are kept in which an earlier version was at work: its journals, and all that it had changed by then.
const keptWorlds = "testdata/kept"

// keptWorld is a seed and its user cluster in the middle of a run. The run holds its lock.
type keptWorld struct {
	Commit string    `json:"commit"`
	Time   time.Time `json:"time"`
	Pods   int       `json:"pods"` // how many were started
	// Dying is for how many looks pods have been ending.
	Dying map[string]int `json:"dying,omitempty"`
	// Noted is what the version noted of its plans in a Ledger; none where it had no ledger.
	Noted map[Part]string `json:"noted,omitempty"`
	// Before are the pod templates of the Deployments before the migration, by name.
	Before map[string]corev1.PodTemplateSpec `json:"before"`
	Seed   map[string]map[string]any         `json:"seed"`
	User   map[string]map[string]any         `json:"user"`
}

func (w *world) templates() map[string]corev1.PodTemplateSpec {
	w.t.Helper()
	list, err := w.s.Kube.AppsV1().Deployments(ns).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]corev1.PodTemplateSpec{}
	for _, d := range list.Items {
		out[d.Name] = d.Spec.Template
	}
	return out
}

// keep writes a world down under the version that -keep names.
func (w *world) keep(name string, before map[string]corev1.PodTemplateSpec, noted *notebook) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	data, err := json.MarshalIndent(keptWorld{
		Commit: *keep,
		Time:   w.clock.Now(),
		Pods:   w.n,
		Dying:  w.dying,
		Noted:  noted.begun,
		Before: before,
		Seed:   w.seed.Objects(),
		User:   w.user.Objects(),
	}, "", " ")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(keptWorlds, *keep+"-"+name+".json"), append(data, '\n'), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// TestKeepTheWorldsOfThisVersion writes what later versions have to go on with: go test ./internal/hosted -run TestKeepTheWorlds -keep v0.2.0.
func TestKeepTheWorldsOfThisVersion(t *testing.T) {
	if *keep == "" {
		t.Skip("worlds are kept with -keep, when a version is released")
	}
	for _, c := range []struct {
		name     string
		replicas int32
		wrapped  bool
		// parts are executed before, and do is what is under way.
		parts []Part
		do    func(context.Context, *Plane) error
		// during is in the ID of the step at which the world is kept; empty for after do.
		during string
	}{
		{"begun", 2, true, nil, begin, ""},
		{"in-a-handover", 2, true, nil, run(Handover), "loops-off/"},
		{"in-a-downtime", 1, false, nil, run(Handover), "loops-off/"},
		{"applied", 2, true, []Part{Handover}, nil, ""},
		{"rolling-back", 2, true, []Part{Handover}, rollBack, "undo/leader-migration/"},
		{"finishing", 2, true, []Part{Handover}, run(Finish), "external/kube-apiserver@"},
	} {
		w := newWorld(t, c.replicas, c.wrapped)
		before, book := w.templates(), &notebook{begun: map[Part]string{}}
		p := w.plane()
		p.Ledger = book
		for _, part := range c.parts {
			if err := p.Run(t.Context(), part, nil, nil); err != nil {
				t.Fatalf("%s: %s: %s", c.name, part, describe(err))
			}
		}
		ctx, kill := context.WithCancel(t.Context())
		kept := false
		p.Hook = func(at, of string) {
			if at == "during" && c.during != "" && strings.Contains(of, c.during) && !kept {
				kept = true
				w.keep(c.name, before, book)
				kill()
			}
		}
		if c.do != nil {
			if err := c.do(ctx, p); err != nil && !kept {
				t.Fatalf("%s: %s", c.name, describe(err))
			}
		}
		kill()
		if kept != (c.during != "") {
			t.Fatalf("%s: its step was not come to", c.name)
		}
		if !kept {
			w.keep(c.name, before, book)
		}
	}
}

func run(part Part) func(context.Context, *Plane) error {
	return func(ctx context.Context, p *Plane) error { return p.Run(ctx, part, nil, nil) }
}

func rollBack(ctx context.Context, p *Plane) error { return p.Rollback(ctx, nil, nil) }

// begin makes the journal of a handover, and begins no step.
func begin(ctx context.Context, p *Plane) error {
	return p.locked(ctx, func(ctx context.Context, _ func(string)) error {
		_, _, _, err := p.openPart(ctx, Handover)
		return err
	})
}

// resumed is a world that was kept, and the operator of this version in it.
type resumed struct {
	*world
	was keptWorld
	// book is what the operator noted; nil where the earlier version had no ledger, and a person approves.
	book *notebook
}

// laterVersion stands in what this version writes.
const laterVersion = "v9.1.0"

// takeUp makes a world that was kept.
func takeUp(t *testing.T, path string) *resumed {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := &resumed{world: emptyWorld(t)}
	if err := json.Unmarshal(data, &r.was); err != nil {
		t.Fatal(err)
	}
	r.clock.SetTime(r.was.Time)
	r.n = r.was.Pods
	maps.Copy(r.dying, r.was.Dying)
	r.seed.Restore(r.was.Seed)
	r.user.Restore(r.was.User)
	if r.was.Noted != nil {
		r.book = &notebook{begun: r.was.Noted}
	}
	return r
}

func (r *resumed) later() *Plane {
	p := r.plane()
	p.ToolVersion = laterVersion
	if r.book != nil {
		p.Ledger = r.book
	}
	return p
}

// journal is the journal of a part; without records where there is none.
func (r *resumed) journal(part Part) v1.Journal {
	r.t.Helper()
	j, err := r.later().Location(part).Open(r.t.Context())
	if errors.Is(err, ErrNothingBegun) {
		return v1.Journal{}
	} else if err != nil {
		r.t.Fatal(err)
	}
	return j.Doc()
}

// finish goes on with a part until its end. What was recorded before must still be in its journal.
func (r *resumed) finish(part Part) {
	r.t.Helper()
	was := r.journal(part)
	if err := r.later().Run(r.t.Context(), part, r.logFailure, nil); err != nil {
		r.t.Fatalf("%s: %s", part, describe(err))
	}
	r.fair()
	r.owns(component.CCM)
	r.holds(part, v1.RunApplied, was)
}

func (r *resumed) logFailure(e step.Event) {
	if e.Kind == step.EventFailed {
		r.t.Logf("%s: %s", e.Step.ID, e.Message)
	}
}

// holds fails the test unless a journal has a phase, all records that it had, and the marks of this version where that has written it.
func (r *resumed) holds(part Part, phase string, was v1.Journal) {
	r.t.Helper()
	now := r.journal(part)
	if now.Phase != phase {
		r.t.Errorf("the journal of the %s is %s, want %s", part, now.Phase, phase)
	}
	if was.Phase != phase && (now.Schema != v1.JournalSchema || now.ToolVersion != laterVersion) {
		r.t.Errorf("what was written to the journal of the %s is of schema %d by %q", part, now.Schema, now.ToolVersion)
	}
	for i, rec := range was.Records {
		if i >= len(now.Records) {
			r.t.Fatalf("the record of %s is gone", rec.ID)
		}
		is := now.Records[i]
		done := rec.Result == v1.StepResultDone && (is.Result != v1.StepResultDone || is.AfterSHA256 != rec.AfterSHA256)
		if is.ID != rec.ID || is.Before != rec.Before || is.Backup != rec.Backup || is.Created != rec.Created || done {
			r.t.Errorf("what was recorded is not there any longer: %+v, now %+v", rec, is)
		}
	}
}

// startOver hands over once more, after a rollback. Its journal is a new one.
func (r *resumed) startOver() {
	r.t.Helper()
	if err := r.later().Run(r.t.Context(), Handover, r.logFailure, nil); err != nil {
		r.t.Fatalf("a handover after the rollback: %s", describe(err))
	}
	r.fair()
	r.owns(component.CCM)
}

// goBack takes the handover back. All is as before it then.
func (r *resumed) goBack() {
	r.t.Helper()
	was := r.journal(Handover)
	if err := r.later().Rollback(r.t.Context(), r.logFailure, nil); err != nil {
		r.t.Fatalf("rollback: %s", describe(err))
	}
	r.fair()
	r.owns(component.KCM)
	r.holds(Handover, v1.RunRolledBack, was)
	for name, want := range r.was.Before {
		raw, err := want.Marshal()
		if err != nil {
			r.t.Fatal(err)
		}
		if after := r.template(name); after != string(raw) {
			r.t.Errorf("the pod template of %s is not as it was:\n%s\n%s", name, raw, after)
		}
	}
	for _, name := range []string{layout.SeedKubeconfig, layout.SeedCloudConfig} {
		if _, err := r.s.Kube.CoreV1().Secrets(ns).Get(r.t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			r.t.Errorf("Secret %s is still there: %v", name, err)
		}
	}
}

// isFinished fails the test unless manager and API server have left the in-tree provider.
func (r *resumed) isFinished() {
	r.t.Helper()
	for _, name := range []string{kcmRef, "apiserver"} {
		d, err := r.s.Kube.AppsV1().Deployments(ns).Get(r.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		if provider := flagsOf(&corev1.Pod{Spec: d.Spec.Template.Spec})["cloud-provider"]; provider != "external" {
			r.t.Errorf("%s has the provider %q", name, provider)
		}
	}
	r.isTooLate()
}

// isTooLate fails the test unless the way back is closed.
func (r *resumed) isTooLate() {
	r.t.Helper()
	if err := r.later().Rollback(r.t.Context(), nil, nil); !errors.Is(err, ErrTooLate) {
		r.t.Errorf("a rollback ended with %v", err)
	}
}

// TestWhatEarlierVersionsBeganInASeedIsFinishedAndTakenBack goes on with every journal that was kept, from where its run was left.
func TestWhatEarlierVersionsBeganInASeedIsFinishedAndTakenBack(t *testing.T) {
	t.Parallel()
	all, err := filepath.Glob(filepath.Join(keptWorlds, "*.json"))
	if err != nil || len(all) == 0 {
		t.Fatalf("no world was kept: %v", err)
	}
	type resume = map[string]func(*resumed)
	onAndBack := func(r *resumed) { r.finish(Handover); r.goBack() }
	ways := map[string]resume{
		"begun":         {"goes on and back": onAndBack, "goes back": (*resumed).goBack},
		"in-a-handover": {"goes on and back": onAndBack, "goes back": (*resumed).goBack},
		"in-a-downtime": {"goes on and back": onAndBack, "goes back": (*resumed).goBack},
		"applied": {
			"goes back":       func(r *resumed) { r.goBack(); r.startOver() },
			"goes to the end": func(r *resumed) { r.finish(Handover); r.finish(Finish); r.isFinished() },
		},
		"rolling-back": {"goes back": func(r *resumed) {
			if err := r.later().Run(t.Context(), Handover, nil, nil); !errors.Is(err, ErrRollback) {
				r.t.Errorf("a run forward ended with %v", err)
			}
			r.goBack()
			r.startOver()
		}},
		"finishing": {"goes to the end": func(r *resumed) { r.isTooLate(); r.finish(Finish); r.isFinished() }},
	}
	for _, path := range all {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		var taken resume
		for state, way := range ways {
			if strings.HasSuffix(name, "-"+state) {
				taken = way
			}
		}
		if len(taken) == 0 {
			t.Errorf("%s is taken up by no test", name)
		}
		for what, do := range taken {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				do(takeUp(t, path))
			})
		}
	}
}

// TestTheOperatorAsksAboutWhatWasBegunBeforeItHadALedger: no plan of that time is noted, and a person decides.
func TestTheOperatorAsksAboutWhatWasBegunBeforeItHadALedger(t *testing.T) {
	t.Parallel()
	for state, c := range map[string]struct {
		part Part
		do   func(context.Context, *Plane) error
	}{
		"in-a-handover": {Handover, run(Handover)},
		"applied":       {Handover, rollBack},
		"rolling-back":  {Handover, rollBack},
		"finishing":     {Finish, run(Finish)},
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			r := takeUp(t, filepath.Join(keptWorlds, "660a25f-"+state+".json"))
			if r.book != nil {
				t.Fatalf("that version noted %v", r.book.begun)
			}
			r.book = &notebook{begun: map[Part]string{}}
			was := jsonOf(t, r.journal(c.part))
			err := c.do(t.Context(), r.later())
			unknown, is := errors.AsType[*UnknownPlanError](err)
			if !is || unknown.SHA256 != Sum(r.journal(c.part).Plan.Steps) {
				t.Errorf("it ended with %v", err)
			}
			if now := jsonOf(t, r.journal(c.part)); now != was {
				t.Errorf("the journal was changed:\n%s\n%s", was, now)
			}
		})
	}
}
