package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/browsertest"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/fleet/view"
)

// open opens the page of a world in a browser.
func open(t *testing.T, w *world) *browsertest.Tab {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	b := browsertest.Open(t, w.page.URL)
	b.Until(`document.activeElement.id === "token"`) // the document has the form before the script shows it: keys are lost until then
	return b
}

// signIn signs in with the keyboard alone.
func signIn(b *browsertest.Tab, who string) {
	b.Until(`document.activeElement.id === "token"`)
	b.Keys("token-of-" + who)
	b.Keys(kb.Enter)
	b.Until(`document.querySelector("#connection").classList.contains("live")`)
}

// variety is one cluster of each sort.
func variety(w *world) {
	both := cluster("h8both", kubermaticv1.PhaseHandover, "step 7 of 11: owners are looked at")
	condition(both.Cluster, kubermaticv1.ConditionLoopsOff, state.ReasonTwoOwners, "two managers run service", false)
	machines := cluster(
		"c5machines",
		kubermaticv1.PhaseMachines,
		"5 of 9 machines are external; restart the MachineDeployments, or have it done with the annotation transplant.dev/restart-machine-deployments",
	)
	condition(machines.Cluster, kubermaticv1.ConditionLoopsOff, state.ReasonObserved, "no kube-controller-manager runs a cloud loop", true)
	condition(machines.Cluster, kubermaticv1.ConditionCCMReady, state.ReasonObserved, "a cloud-controller-manager runs service, route", true)
	condition(machines.Cluster, kubermaticv1.ConditionMachines, state.ReasonWaiting, "5 of 9 machines are external: pool-a-x2v: its node has no providerID", false)
	stuck := cluster("d2stuck", kubermaticv1.PhaseComponents, "waiting for the Deployment machine-controller")
	condition(
		stuck.Cluster,
		kubermaticv1.ConditionStuck,
		state.ReasonTooLong,
		"Components takes longer than 30m: waiting for the Deployment machine-controller",
		true,
	)
	held := cluster("e7held", kubermaticv1.PhaseHeld, "it is held: alice: not before the sale ends")
	held.Cluster.Annotations[kubermaticv1.AnnotationHold] = "alice: not before the sale ends"
	held.Cluster.Spec.Cloud.ProviderName = "openstack"
	done := cluster("a9done", kubermaticv1.PhaseCompleted, "external CCM/CSI migration completed")
	waves := v1.FleetOptions{Waves: []string{"1", "100%"}, Until: view.UntilCompleted}
	done.Cluster.Annotations[kubermaticv1.AnnotationWave] = view.Place(1, 2, 1, waves)
	machines.Cluster.Annotations[kubermaticv1.AnnotationWave] = view.Place(2, 2, 2, waves)
	w.put(
		cluster("c1", "", ""),
		done,
		both,
		machines,
		stuck,
		held,
		cluster(
			"f3failed",
			kubermaticv1.PhaseFailed,
			"the handover was taken back, and the control plane is as before: aws-cloud-controller-manager did not become ready; to try again, put the annotation transplant.dev/hold on the Cluster and take it off",
		),
		cluster("g4blocked", kubermaticv1.PhaseBlocked, "2 findings: NODE-003 2 of 57 nodes have no providerID; LB-002 load balancers cannot be listed"),
		cluster("<img src=x onerror=alert(1)>", kubermaticv1.PhaseQueued, "<script>alert(1)</script>"),
	)
}

func TestInABrowserTheListIsThereAndLives(t *testing.T) {
	w := newWorld(t)
	variety(w)
	b := open(t, w)
	b.Shot("login")
	signIn(b, "alice")
	b.Until(`document.querySelectorAll("#rows tr").length === 9`)
	b.Shot("list-light")
	if first := browsertest.Eval[string](b, `document.querySelector("#rows tr a").textContent`); first != "h8both" {
		t.Errorf("the first row is %s, and not the one with two managers", first)
	}
	if two := browsertest.Eval[string](b, `document.querySelector('tr[data-key$="/h8both"] .badge.two-owners').textContent`); two != "Two managers · Handover" {
		t.Errorf("the badge of a cluster with two owners says %q", two)
	}
	if alarm := browsertest.Eval[string](b, `document.querySelector("#overall-owners:not([hidden])").textContent`); !strings.HasPrefix(alarm, "1 cluster has TWO MANAGERS") {
		t.Errorf("the alarm says %q", alarm)
	}
	if text := browsertest.Eval[string](b, `document.querySelector("#overall-text").textContent`); !strings.HasPrefix(text, "1 of 9 clusters done (11 %)") || !strings.Contains(text, "no estimate yet") {
		t.Errorf("the whole fleet is said to be %q", text)
	}
	if waves := browsertest.Eval[string](b, `[...document.querySelectorAll("#overall-waves li")].map((e) => e.textContent).join("; ")`); waves != "wave 1 of 2: done, 1 of 1 cluster done; wave 2 of 2: under way, 0 of 2 clusters done, 1 started" {
		t.Errorf("the waves are %q", waves)
	}
	mark := browsertest.Eval[float64](b, `window.mark = Math.random()`)
	b.Do(chromedp.Evaluate(`document.querySelector('tr[data-key$="/c5machines"] a').focus()`, nil))
	w.put(cluster("c1", kubermaticv1.PhaseHandover, "step 1 of 11"), cluster("new1", "", ""))
	b.Until(`document.querySelector('tr[data-key$="/c1"] .badge').textContent === "Handover" && document.querySelectorAll("#rows tr").length === 10`)
	b.Until(`document.querySelector("#live").textContent.includes("c1: Handover")`) // for who listens
	if browsertest.Eval[float64](b, `window.mark`) != mark {
		t.Error("the page was loaded again")
	}
	if at := browsertest.Eval[string](b, `document.activeElement.textContent`); at != "c5machines" {
		t.Errorf("the focus went to %q when rows changed", at)
	}
	if n := browsertest.Eval[int](b, `document.querySelectorAll("#rows img, #rows script").length`); n != 0 {
		t.Errorf("%d elements were made of a cluster's texts", n)
	}
	w.page.CloseClientConnections() // as when the operator is replaced
	b.Until(`document.querySelector("#connection").classList.contains("lost")`)
	w.put(cluster("c1", kubermaticv1.PhaseMachines, "1 of 3 machines"))
	b.Until(`document.querySelector("#connection").classList.contains("live") && document.querySelector('tr[data-key$="/c1"] .badge').textContent === "Machines"`)
	b.Forgive() // that the connection was lost
	b.Do(chromedp.Evaluate(`location.hash = document.querySelector('tr[data-key$="/c5machines"] a').hash`, nil))
	b.Until(`document.querySelector("#detail-body h2")`)
	if n := browsertest.Eval[int](b, `document.querySelectorAll("#detail-body svg.picture rect.span, #detail-body svg.picture .mark").length`); n < 2 {
		t.Errorf("the timeline's picture has %d bars and marks", n)
	}
	b.Shot("detail-light")
	for name, media := range map[string]string{"dark": "dark"} {
		b.Do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: media}}))
		b.Shot("detail-" + name)
		b.Do(chromedp.Evaluate(`location.hash = "#/"`, nil))
		b.Until(`!document.querySelector("#list").hidden`)
		b.Shot("list-" + name)
	}
	b.Do(emulation.SetDeviceMetricsOverride(390, 800, 1, true))
	b.Shot("list-narrow")
	if over := browsertest.Eval[bool](b, `document.documentElement.scrollWidth > 392`); over {
		t.Errorf("the page is wider than a telephone: %d", browsertest.Eval[int](b, `document.documentElement.scrollWidth`))
	}
	b.Do(chromedp.Evaluate(`location.hash = document.querySelector('tr[data-key$="/c5machines"] a').hash`, nil))
	b.Until(`document.querySelector("#detail-body h2")`)
	b.Shot("detail-narrow")
	if over := browsertest.Eval[bool](b, `document.documentElement.scrollWidth > 392`); over {
		t.Errorf("one cluster is wider than a telephone: %d", browsertest.Eval[int](b, `document.documentElement.scrollWidth`))
	}
	b.Do(emulation.ClearDeviceMetricsOverride(), emulation.SetEmulatedMedia().WithMedia("print"))
	b.Shot("detail-print")
	b.Quiet()
}

func TestInABrowserTheKeyboardDoesEverything(t *testing.T) {
	w := newWorld(t)
	variety(w)
	b := open(t, w)
	b.Keys("wrong")
	b.Keys(kb.Enter)
	b.Until(`document.querySelector("#login-error").textContent.includes("does not know this token")`)
	signIn(b, "alice")
	b.TabTo(`#standings button[data-standing="failed"]`)
	b.Keys(" ")
	b.Until(`document.querySelectorAll("#rows tr").length === 1 && document.activeElement.getAttribute("aria-pressed") === "true"`)
	b.Keys(" ")
	b.TabTo("#search")
	b.Keys("held")
	b.Until(`document.querySelectorAll("#rows tr").length === 1 && document.querySelector("#shown").textContent === "1 of 9 shown"`)
	b.Do(chromedp.Evaluate(`document.querySelector("#search").value = ""; document.querySelector("#search").dispatchEvent(new Event("input"))`, nil))
	b.TabTo("#heads th[data-id=name] button")
	b.Keys(kb.Enter)
	b.Until(`document.querySelector("#heads th[data-id=name]").getAttribute("aria-sort") === "ascending"`)
	b.TabTo(`tr[data-key$="/c1"] a`)
	b.Keys(kb.Enter)
	b.Until(`document.activeElement.id === "detail-title" && document.querySelector("#action-start")`)
	b.TabTo("#action-start")
	b.Keys(kb.Enter)
	b.Until(`document.querySelector("dialog").open && !document.querySelector("#confirm").hidden`)
	b.Shot("action")
	if steps := browsertest.Eval[int](b, `document.querySelectorAll("#dialog .steps > li").length`); steps != 3 {
		t.Errorf("%d steps are shown", steps)
	}
	b.Keys(kb.Escape)
	b.Until(`!document.querySelector("dialog").open && document.activeElement.id === "action-start"`)
	if len(w.written()) > 0 {
		t.Errorf("cancelling has written %v", w.written())
	}
	b.Keys(kb.Enter)
	b.Until(`!document.querySelector("#confirm").hidden && document.querySelector("dialog").open`)
	b.TabTo("#confirm")
	b.Keys(kb.Enter)
	b.Until(`!document.querySelector("dialog").open`)
	if got := w.written(); len(got) != 1 || !strings.Contains(got[0], `"externalCloudProvider":true`) {
		t.Errorf("written %v", got)
	}
	b.TabTo("#check")
	b.Keys(kb.Enter)
	b.Until(`document.querySelector("#found").textContent.startsWith("31 passed")`)
	b.Do(chromedp.Evaluate(`document.querySelector("#back").focus()`, nil))
	b.Keys(kb.Enter)
	b.Until(`!document.querySelector("#list").hidden && document.activeElement.matches('tr[data-key$="/c1"] a')`)
	b.Do(chromedp.Evaluate(`document.querySelector("#logout").focus()`, nil))
	b.Keys(kb.Enter)
	b.Until(`!document.querySelector("#login").hidden && document.querySelectorAll("#rows tr").length === 0`)
	b.Quiet()
}

func TestInABrowserAPlanThatChangedIsShownAgainAndABlockedOneCannotBeConfirmed(t *testing.T) {
	w := newWorld(t)
	variety(w)
	b := open(t, w)
	signIn(b, "alice")
	b.Do(chromedp.Evaluate(`location.hash = document.querySelector('tr[data-key$="/c1"] a').hash`, nil))
	b.Until(`document.querySelector("#action-start")`)
	b.Do(chromedp.Click("#action-start", chromedp.ByID))
	b.Until(`document.querySelector("dialog").open && !document.querySelector("#confirm").hidden`)
	w.plane.mu.Lock()
	w.plane.blocked = true
	w.plane.mu.Unlock()
	b.Do(chromedp.Click("#confirm", chromedp.ByID))
	b.Until(`document.querySelector("#dialog-error").textContent.includes("has changed since it was shown")`)
	b.Until(`document.querySelector("#confirm").hidden && document.querySelector("#dialog .findings").textContent.includes("NODE-001")`)
	b.Shot("action-blocked")
	if len(w.written()) > 0 {
		t.Errorf("written %v", w.written())
	}
	b.Quiet()
}

func TestInABrowserFiveHundredClustersStayResponsive(t *testing.T) {
	w := newWorld(t)
	for i := range 500 {
		w.put(cluster(fmt.Sprintf("c%03d", i), kubermaticv1.PhaseMachines, "waits for its machines"))
	}
	b := open(t, w)
	signIn(b, "vera")
	b.Until(`document.querySelectorAll("#rows tr").length === 500`)
	b.Do(
		chromedp.Evaluate(
			`window.long = 0; new PerformanceObserver((l) => { for (const e of l.getEntries()) window.long = Math.max(window.long, e.duration); }).observe({ type: "longtask" })`,
			nil,
		),
	)
	for i := range 500 { // all of them at once
		w.put(cluster(fmt.Sprintf("c%03d", i), kubermaticv1.PhaseFinish, "in-tree provider is removed"))
	}
	begun := time.Now()
	b.Until(`[...document.querySelectorAll("#rows .badge")].every((e) => e.textContent === "Finish")`)
	spent := browsertest.Eval[float64](
		b,
		`(() => { const t = performance.now(); const s = document.querySelector("#search"); s.value = "c49"; s.dispatchEvent(new Event("input")); return performance.now() - t; })()`,
	)
	shown := browsertest.Eval[int](b, `document.querySelectorAll("#rows tr").length`)
	long := browsertest.Eval[float64](b, `window.long`)
	t.Logf(
		"500 rows: all changed and drawn %s after the change, longest task %.0f ms, a key in the search %.0f ms",
		time.Since(begun).Round(time.Millisecond),
		long,
		spent,
	)
	// A machine that is idle takes half a second; one layout per row takes forty.
	if shown != 10 || spent > 3000 || long > 10000 {
		t.Errorf("%d rows are shown after %.0f ms; the longest task took %.0f ms", shown, spent, long)
	}
	b.Quiet()
}
