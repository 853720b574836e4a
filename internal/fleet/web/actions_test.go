package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/hosted"
)

func TestThePageIsReadOnlyUnlessItIsToldOtherwise(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.EnableActions = false })
	w.put(cluster("c1", "", ""))
	b := w.as("alice")
	for _, method := range []string{"GET", "POST"} {
		if r := b.ask(method, c1+"/actions/start", map[string]string{}); r.code != http.StatusForbidden || !strings.Contains(r.body, "--enable-actions") {
			t.Errorf("%s: %d %s", method, r.code, r.body)
		}
	}
	var d Detail
	b.ask("GET", c1, nil).into(t, &d)
	if len(d.Actions) > 0 || len(w.written()) > 0 {
		t.Errorf("actions %v, writes %v", d.Actions, w.written())
	}
}

func TestWhoMayOnlyLookDoesNothing(t *testing.T) {
	w := newWorld(t)
	w.put(cluster("c1", "", ""))
	for _, who := range []string{"vera", "otto"} {
		for _, method := range []string{"GET", "POST"} {
			if r := w.as(who).
				ask(method, c1+"/actions/start", map[string]string{}); r.code != http.StatusForbidden ||
				!strings.Contains(r.body, "you may not update cluster c1") {
				t.Errorf("%s: %d %s", who, r.code, r.body)
			}
		}
		var d Detail
		w.as(who).ask("GET", c1, nil).into(t, &d)
		if len(d.Actions) > 0 {
			t.Errorf("%s is offered %v", who, d.Actions)
		}
	}
}

func TestAnActionShowsTheStepsAndIsWrittenAsWhoAsked(t *testing.T) {
	w := newWorld(t)
	w.put(cluster("c1", "", ""))
	b := w.signIn("alice")
	var shown Preview
	b.ask("GET", c1+"/actions/start", nil).into(t, &shown)
	var titles []string
	for _, s := range shown.Steps {
		titles = append(titles, s.Title)
	}
	if got := strings.Join(
		titles,
		"; ",
	); got != "Start the migration; controller-manager gives the cloud loops up; Deployment aws-cloud-controller-manager" || shown.Blocked ||
		len(shown.SHA256) != 64 {
		t.Errorf("%q %+v", got, shown)
	}
	if len(w.written()) > 0 {
		t.Errorf("showing has written %v", w.written())
	}
	if r := b.ask("POST", c1+"/actions/start", map[string]string{"sha256": shown.SHA256}); r.code != http.StatusOK {
		t.Fatalf("%d %s", r.code, r.body)
	}
	want := fmt.Sprintf(
		`Bearer token-of-alice {"metadata":{"annotations":{"transplant.dev/plan-sha256":%q},"resourceVersion":"7","uid":"uid"},"spec":{"features":{"externalCloudProvider":true}}}`,
		hosted.Confirmation(shown.Steps[1:]),
	)
	if got := w.written(); len(got) != 1 || got[0] != want {
		t.Errorf("written %v, want %s", got, want)
	}
	if log := w.log(); !strings.Contains(log, `"action"="start" "cluster"="c1" "user"="alice"`) {
		t.Errorf("the log: %s", log)
	}
}

func TestAPlanThatChangedMeanwhileIsRefusedAndShownAgain(t *testing.T) {
	w := newWorld(t)
	w.put(cluster("c1", "", ""))
	b := w.as("alice")
	var shown Preview
	b.ask("GET", c1+"/actions/start", nil).into(t, &shown)
	w.plane.mu.Lock()
	w.plane.steps = []v1.Step{{ID: "other", Title: "something else"}}
	w.plane.mu.Unlock()
	r := b.ask("POST", c1+"/actions/start", map[string]string{"sha256": shown.SHA256})
	var no changedPreview
	r.into(t, &no)
	if r.code != http.StatusConflict || no.Preview.SHA256 == shown.SHA256 || no.Preview.Steps[1].Title != "something else" || len(w.written()) > 0 {
		t.Errorf("%d %+v, written %v", r.code, no, w.written())
	}
	if r := b.ask("POST", c1+"/actions/start", map[string]string{}); r.code != http.StatusConflict {
		t.Errorf("without a plan: %d", r.code)
	}
	if r := b.ask("POST", c1+"/actions/start", map[string]string{"sha256": no.Preview.SHA256}); r.code != http.StatusOK {
		t.Errorf("with the one that was shown then: %d %s", r.code, r.body)
	}
}

func TestWhatTheChecksRefuseIsRefusedWithTheirFindings(t *testing.T) {
	w := newWorld(t)
	w.put(cluster("c1", "", ""))
	w.plane.blocked = true
	b := w.as("alice")
	var shown Preview
	b.ask("GET", c1+"/actions/start", nil).into(t, &shown)
	if !shown.Blocked || len(shown.Findings) != 1 || shown.Findings[0].Code != "NODE-001" || shown.Findings[0].Fix != "transplant explain NODE-001" {
		t.Errorf("%+v", shown)
	}
	r := b.ask("POST", c1+"/actions/start", map[string]string{"sha256": shown.SHA256})
	if r.code != http.StatusUnprocessableEntity || !strings.Contains(r.body, "NODE-001") || len(w.written()) > 0 {
		t.Errorf("%d %s, written %v", r.code, r.body, w.written())
	}
}

func TestWhatTheRulesRefuseIsRefused(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Refusals = func(view.Object) []string { return []string{"vSphere 1.22 has no CSI driver"} }
	})
	w.put(cluster("c1", "", ""))
	var shown Preview
	w.as("alice").ask("GET", c1+"/actions/start", nil).into(t, &shown)
	if r := w.as("alice").
		ask("POST", c1+"/actions/start", map[string]string{"sha256": shown.SHA256}); r.code != http.StatusUnprocessableEntity ||
		!strings.Contains(r.body, "vSphere 1.22") {
		t.Errorf("%d %s", r.code, r.body)
	}
}

func TestActionsThatMakeNoSenseNowAreRefused(t *testing.T) {
	w := newWorld(t)
	w.put(cluster("c1", kubermaticv1.PhaseCompleted, ""))
	for action, code := range map[string]int{"start": http.StatusConflict, "release": http.StatusConflict, "restart-machines": http.StatusConflict, "explode": http.StatusNotFound} {
		if r := w.as("alice").ask("GET", c1+"/actions/"+action, nil); r.code != code {
			t.Errorf("%s: %d %s", action, r.code, r.body)
		}
	}
}

func TestHoldingSaysWhoAndWhyAndReleasingTakesItOff(t *testing.T) {
	w := newWorld(t)
	w.put(cluster("c1", kubermaticv1.PhaseQueued, ""))
	b := w.as("alice")
	var shown Preview
	b.ask("GET", c1+"/actions/hold?reason=after+the+sale", nil).into(t, &shown)
	if r := b.ask("POST", c1+"/actions/hold", map[string]string{"sha256": shown.SHA256, "reason": "another reason"}); r.code != http.StatusConflict {
		t.Errorf("with another reason than was shown: %d", r.code)
	}
	if r := b.ask("POST", c1+"/actions/hold", map[string]string{"sha256": shown.SHA256, "reason": "after the sale"}); r.code != http.StatusOK {
		t.Errorf("%d %s", r.code, r.body)
	}
	held := cluster("c1", kubermaticv1.PhaseHeld, "")
	held.Cluster.Annotations[kubermaticv1.AnnotationHold] = "alice: after the sale"
	w.put(held)
	b.ask("GET", c1+"/actions/release", nil).into(t, &shown)
	if shown.Steps[0].Changes[0].Before != "alice: after the sale" || len(shown.Steps) != 3 { // the migration begins then
		t.Errorf("%+v", shown.Steps)
	}
	if r := b.ask("POST", c1+"/actions/release", map[string]string{"sha256": shown.SHA256}); r.code != http.StatusOK {
		t.Errorf("%d %s", r.code, r.body)
	}
	want := []string{
		`Bearer token-of-alice {"metadata":{"annotations":{"transplant.dev/hold":"alice: after the sale"},"resourceVersion":"7","uid":"uid"}}`,
		fmt.Sprintf(
			`Bearer token-of-alice {"metadata":{"annotations":{"transplant.dev/hold":null,"transplant.dev/plan-sha256":%q},"resourceVersion":"8","uid":"uid"}}`,
			hosted.Confirmation(shown.Steps[1:]),
		),
	}
	if got := w.written(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("written\n%s", strings.Join(got, "\n"))
	}
	for _, reason := range []string{strings.Repeat("x", 201), "two\nlines"} {
		w.put(cluster("c1", kubermaticv1.PhaseQueued, ""))
		if r := b.ask("POST", c1+"/actions/hold", map[string]string{"reason": reason}); r.code != http.StatusBadRequest {
			t.Errorf("a reason of %d characters: %d", len(reason), r.code)
		}
	}
}

func TestAPlanThatChangedSinceItWasConfirmedIsConfirmedAnew(t *testing.T) {
	w := newWorld(t)
	blocked := cluster("c1", kubermaticv1.PhaseBlocked, "the plan is not the one that was confirmed")
	w.put(blocked)
	b := w.as("alice")
	if r := b.ask("GET", c1+"/actions/confirm", nil); r.code != http.StatusConflict {
		t.Errorf("where nothing was confirmed: %d %s", r.code, r.body)
	}
	blocked = cluster("c1", kubermaticv1.PhaseBlocked, "the plan is not the one that was confirmed")
	blocked.Cluster.Annotations[kubermaticv1.AnnotationPlan] = "0123 a=1"
	w.put(blocked)
	var d Detail
	b.ask("GET", c1, nil).into(t, &d)
	if !slices.Contains(d.Actions, Confirm) {
		t.Errorf("it offers %v", d.Actions)
	}
	var shown Preview
	b.ask("GET", c1+"/actions/confirm", nil).into(t, &shown)
	if len(shown.Steps) != 3 || shown.Steps[0].Changes[0].Before != "0123" || shown.Steps[0].Changes[0].After != hosted.Sum(shown.Steps[1:]) {
		t.Fatalf("%+v", shown.Steps)
	}
	if r := b.ask("POST", c1+"/actions/confirm", map[string]string{"sha256": shown.SHA256}); r.code != http.StatusOK {
		t.Fatalf("%d %s", r.code, r.body)
	}
	want := fmt.Sprintf(
		`Bearer token-of-alice {"metadata":{"annotations":{"transplant.dev/plan-sha256":%q},"resourceVersion":"8","uid":"uid"}}`,
		hosted.Confirmation(shown.Steps[1:]),
	)
	if got := w.written(); len(got) != 1 || got[0] != want {
		t.Errorf("written %v, want %s", got, want)
	}
}

func TestAHoldOnAHandoverThatWasBegunComesOffWithoutAPlan(t *testing.T) {
	w := newWorld(t)
	w.plane.begun, w.plane.blocked = true, true // a plan for what is half done would be refused
	held := cluster("c1", kubermaticv1.PhaseHeld, "")
	held.Cluster.Annotations[kubermaticv1.AnnotationHold] = "alice"
	w.put(held)
	var shown Preview
	w.as("alice").ask("GET", c1+"/actions/release", nil).into(t, &shown)
	if shown.Blocked || len(shown.Steps) != 1 || !strings.Contains(strings.Join(shown.Effects, "; "), "4 of 11 steps") {
		t.Errorf("%+v", shown)
	}
	if r := w.as("alice").ask("POST", c1+"/actions/release", map[string]string{"sha256": shown.SHA256}); r.code != http.StatusOK {
		t.Errorf("%d %s", r.code, r.body)
	}
	want := `Bearer token-of-alice {"metadata":{"annotations":{"transplant.dev/hold":null},"resourceVersion":"7","uid":"uid"}}`
	if got := w.written(); len(got) != 1 || got[0] != want {
		t.Errorf("written %v", got)
	}
}

func TestOneClusterIsShownWithWhatIsNotInItsObject(t *testing.T) {
	w := newWorld(t)
	w.plane.begun = true
	w.put(cluster("c1", kubermaticv1.PhaseHandover, "step 4 of 11"))
	var d Detail
	w.as("vera").ask("GET", c1, nil).into(t, &d)
	if d.Owners == nil || d.Owners.Loops["service"].Component != "kube-controller-manager" || len(d.Parts) != 1 || d.Parts[0].Status.StepsTotal != 11 ||
		len(d.NotRead) > 0 {
		t.Errorf("%+v", d)
	}
	if len(d.Timeline) != 2 || d.Timeline[0].Message != "step 4 of 11 (False)" || d.Timeline[1].Count != 3 || d.Timeline[1].Level != "warning" {
		t.Errorf("timeline %+v", d.Timeline)
	}
	if p := d.Picture; p == nil || len(p.Marks) != 2 || p.Marks[1].Level != "warning" || !strings.Contains(p.Summary, "2 events, of which 1 is a warning") {
		t.Errorf("picture %+v", p)
	}
	var report v1.CheckReport
	w.as("vera").ask("GET", c1+"/check", nil).into(t, &report)
	if report.Summary.Passed != 31 || len(report.Findings) != 0 {
		t.Errorf("%+v", report)
	}
}

func TestThePartsOfAMigrationAreSpansOfItsPicture(t *testing.T) {
	began := time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC)
	part := func(p hosted.Part, state string) PartStatus {
		return PartStatus{Part: p, Status: v1.Status{State: state, Started: began, ElapsedSeconds: 90}}
	}
	for state, want := range map[string]view.Span{
		v1.StateApplied:    {Name: "Handover", From: began, To: began.Add(90 * time.Second), State: view.SpanDone},
		v1.StateRolledBack: {Name: "Handover", From: began, To: began.Add(90 * time.Second), State: view.SpanBack},
		v1.StateFailed:     {Name: "Handover", From: began, State: view.SpanFailed},
		v1.StateApplying:   {Name: "Handover", From: began, State: view.SpanUnderWay},
		v1.StatePaused:     {Name: "Handover", From: began, State: "paused"},
	} {
		if got := spans(Detail{Parts: []PartStatus{part(hosted.Handover, state)}}); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %+v, want %+v", state, got, want)
		}
	}
	if got := spans(Detail{Parts: []PartStatus{part(hosted.Finish, v1.StateApplied)}}); got[0].Name != "Finish" {
		t.Errorf("%+v", got)
	}
}
