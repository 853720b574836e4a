package web

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/state"
)

// shots is where screenshots go; none are taken when it is empty.
var shots = os.Getenv("TRANSPLANT_SCREENSHOTS")

// tab is a headless Chromium with one page, whose requests and complaints are kept.
type tab struct {
	t   *testing.T
	w   *world
	ctx context.Context

	mu         sync.Mutex
	requests   []string
	complaints []string
}

// chromium is the browser of this machine.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	t.Skip("NOT TESTED IN A BROWSER: no Chromium was found in PATH; name one in $CHROMIUM. The page's script, keyboard, accessibility and policy are unproven here")
	return ""
}

func open(t *testing.T, w *world) *tab {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	profile, err := os.MkdirTemp("", "transplant-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(chromium(t)), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.UserDataDir(profile),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-extensions", true), chromedp.IgnoreCertErrors, chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(2 * time.Minute),
	}
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), options...)
	// The library says of every event that is newer than it that it does not know it.
	ctx, cancel := chromedp.NewContext(alloc, chromedp.WithErrorf(func(string, ...any) {}))
	ctx, cancelTime := context.WithTimeout(ctx, 4*time.Minute)
	b := &tab{t: t, w: w, ctx: ctx}
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until the browser has ended, if it was there
		cancelTime()
		cancel()
		cancelAlloc()
		remove(profile)
	})
	chromedp.ListenTarget(ctx, b.heard)
	b.do(network.Enable(), log.Enable(), runtime.Enable(), page.Enable(), chromedp.Navigate(w.page.URL+"/"), chromedp.WaitVisible("#token", chromedp.ByID))
	return b
}

// remove removes what a browser wrote. Processes of it may go on writing for a moment.
func remove(profile string) {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for range 100 {
		if os.RemoveAll(profile) == nil {
			return
		}
		<-again.C
	}
}

// heard keeps what the page asks for and what the browser complains of.
func (b *tab) heard(e any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := e.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, "exception: "+e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			b.complaints = append(b.complaints, fmt.Sprintf("console %s: %v", e.Type, e.Args))
		}
	case *log.EventEntryAdded:
		// A browser logs every answer of 401 and 409: these tests cause them.
		if e.Entry.Level == log.LevelError && !strings.Contains(e.Entry.Text, "the server responded with a status of 4") {
			b.complaints = append(b.complaints, "log: "+e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// quiet fails where the page asked another host for something, or the browser complained.
func (b *tab) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	home, err := url.Parse(b.w.page.URL)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, request := range b.requests {
		if u, err := url.Parse(request); err != nil || u.Host != home.Host {
			b.t.Errorf("a request leaves the host: %s", request)
		}
	}
	if len(b.requests) == 0 {
		b.t.Error("no request was seen at all")
	}
	for _, c := range b.complaints {
		b.t.Errorf("the browser complains: %s", c)
	}
}

func (b *tab) do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// eval is the value of an expression.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	var out T
	b.do(chromedp.Evaluate(expression, &out))
	return out
}

// until waits for an expression to be true.
func (b *tab) until(expression string) {
	b.t.Helper()
	var ok bool
	err := chromedp.Run(b.ctx, chromedp.Poll("!!("+expression+")", &ok, chromedp.WithPollingTimeout(time.Minute), chromedp.WithPollingInterval(50*time.Millisecond)))
	if err != nil {
		var text string
		_ = chromedp.Run(b.ctx, chromedp.Evaluate(`document.body.innerText + " / focus: " + (document.activeElement && (document.activeElement.id || document.activeElement.textContent))`, &text))
		b.t.Fatalf("%s does not become true (%v). The page says:\n%s", expression, err, text)
	}
}

// keys are typed as a person types them.
func (b *tab) keys(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// signIn signs in with the keyboard alone.
func (b *tab) signIn(who string) {
	b.t.Helper()
	b.until(`document.activeElement.id === "token"`)
	b.keys("token-of-" + who)
	b.keys(kb.Enter)
	b.until(`document.querySelector("#connection").classList.contains("live")`)
}

// tabTo presses Tab until an element has the focus, or fails.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 60 {
		if eval[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
		b.keys(kb.Tab)
	}
	b.t.Fatalf("the keyboard does not reach %s: it is at %s", selector, eval[string](b, "document.activeElement.outerHTML"))
}

// shot takes a screenshot of the whole page where that was asked for.
func (b *tab) shot(name string) {
	b.t.Helper()
	if shots == "" {
		return
	}
	var png []byte
	b.do(chromedp.FullScreenshot(&png, 100))
	if err := os.WriteFile(filepath.Join(shots, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// variety is one cluster of each sort.
func variety(w *world) {
	both := cluster("h8both", kubermaticv1.PhaseHandover, "step 7 of 11: owners are looked at")
	condition(both.Cluster, kubermaticv1.ConditionLoopsOff, state.ReasonTwoOwners, "two managers run service", false)
	machines := cluster("c5machines", kubermaticv1.PhaseMachines, "5 of 9 machines are external; restart the MachineDeployments, or have it done with the annotation transplant.dev/restart-machine-deployments")
	condition(machines.Cluster, kubermaticv1.ConditionLoopsOff, state.ReasonObserved, "no kube-controller-manager runs a cloud loop", true)
	condition(machines.Cluster, kubermaticv1.ConditionCCMReady, state.ReasonObserved, "a cloud-controller-manager runs service, route", true)
	condition(machines.Cluster, kubermaticv1.ConditionMachines, state.ReasonWaiting, "5 of 9 machines are external: pool-a-x2v: its node has no providerID", false)
	stuck := cluster("d2stuck", kubermaticv1.PhaseComponents, "waiting for the Deployment machine-controller")
	condition(stuck.Cluster, kubermaticv1.ConditionStuck, state.ReasonTooLong, "Components takes longer than 30m: waiting for the Deployment machine-controller", true)
	held := cluster("e7held", kubermaticv1.PhaseHeld, "it is held: alice: not before the sale ends")
	held.Cluster.Annotations[kubermaticv1.AnnotationHold] = "alice: not before the sale ends"
	held.Cluster.Spec.Cloud.ProviderName = "openstack"
	w.put(cluster("c1", "", ""), cluster("a9done", kubermaticv1.PhaseCompleted, "external CCM/CSI migration completed"), both, machines, stuck, held,
		cluster("f3failed", kubermaticv1.PhaseFailed, "the handover was taken back, and the control plane is as before: aws-cloud-controller-manager did not become ready; to try again, put the annotation transplant.dev/hold on the Cluster and take it off"),
		cluster("g4blocked", kubermaticv1.PhaseBlocked, "2 findings: NODE-003 2 of 57 nodes have no providerID; LB-002 load balancers cannot be listed"),
		cluster("<img src=x onerror=alert(1)>", kubermaticv1.PhaseQueued, "<script>alert(1)</script>"))
}

func TestInABrowserTheListIsThereAndLives(t *testing.T) {
	w := newWorld(t)
	variety(w)
	b := open(t, w)
	b.shot("login")
	b.signIn("alice")
	b.until(`document.querySelectorAll("#rows tr").length === 9`)
	b.shot("list-light")
	if first := eval[string](b, `document.querySelector("#rows tr a").textContent`); first != "d2stuck" {
		t.Errorf("the first row is %s, and not one that needs somebody", first)
	}
	mark := eval[float64](b, `window.mark = Math.random()`)
	b.do(chromedp.Evaluate(`document.querySelector('tr[data-key$="/c5machines"] a').focus()`, nil))
	w.put(cluster("c1", kubermaticv1.PhaseHandover, "step 1 of 11"), cluster("new1", "", ""))
	b.until(`document.querySelector('tr[data-key$="/c1"] .badge').textContent === "Handover" && document.querySelectorAll("#rows tr").length === 10`)
	b.until(`document.querySelector("#live").textContent.includes("c1: Handover")`) // for who listens
	if eval[float64](b, `window.mark`) != mark {
		t.Error("the page was loaded anew")
	}
	if at := eval[string](b, `document.activeElement.textContent`); at != "c5machines" {
		t.Errorf("the focus went to %q when rows changed", at)
	}
	if n := eval[int](b, `document.querySelectorAll("#rows img, #rows script").length`); n != 0 {
		t.Errorf("%d elements were made of a cluster's texts", n)
	}
	w.page.CloseClientConnections() // as when the operator is replaced
	b.until(`document.querySelector("#connection").classList.contains("lost")`)
	w.put(cluster("c1", kubermaticv1.PhaseMachines, "1 of 3 machines"))
	b.until(`document.querySelector("#connection").classList.contains("live") && document.querySelector('tr[data-key$="/c1"] .badge').textContent === "Machines"`)
	b.mu.Lock()
	b.complaints = nil // that the connection was lost
	b.mu.Unlock()
	b.do(chromedp.Evaluate(`location.hash = document.querySelector('tr[data-key$="/c5machines"] a').hash`, nil))
	b.until(`document.querySelector("#detail-body h2")`)
	b.shot("detail-light")
	for name, media := range map[string]string{"dark": "dark"} {
		b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: media}}))
		b.shot("detail-" + name)
		b.do(chromedp.Evaluate(`location.hash = "#/"`, nil))
		b.until(`!document.querySelector("#list").hidden`)
		b.shot("list-" + name)
	}
	b.do(emulation.SetDeviceMetricsOverride(390, 800, 1, true))
	b.shot("list-narrow")
	if over := eval[bool](b, `document.documentElement.scrollWidth > 392`); over {
		t.Errorf("the page is wider than a telephone: %d", eval[int](b, `document.documentElement.scrollWidth`))
	}
	b.do(chromedp.Evaluate(`location.hash = document.querySelector('tr[data-key$="/c5machines"] a').hash`, nil))
	b.until(`document.querySelector("#detail-body h2")`)
	b.shot("detail-narrow")
	if over := eval[bool](b, `document.documentElement.scrollWidth > 392`); over {
		t.Errorf("one cluster is wider than a telephone: %d", eval[int](b, `document.documentElement.scrollWidth`))
	}
	b.do(emulation.ClearDeviceMetricsOverride(), emulation.SetEmulatedMedia().WithMedia("print"))
	b.shot("detail-print")
	b.quiet()
}

func TestInABrowserTheKeyboardDoesEverything(t *testing.T) {
	w := newWorld(t)
	variety(w)
	b := open(t, w)
	b.keys("wrong")
	b.keys(kb.Enter)
	b.until(`document.querySelector("#login-error").textContent.includes("does not know this token")`)
	b.signIn("alice")
	b.tabTo(`#standings button[data-standing="failed"]`)
	b.keys(" ")
	b.until(`document.querySelectorAll("#rows tr").length === 1 && document.activeElement.getAttribute("aria-pressed") === "true"`)
	b.keys(" ")
	b.tabTo("#search")
	b.keys("held")
	b.until(`document.querySelectorAll("#rows tr").length === 1 && document.querySelector("#shown").textContent === "1 of 9 shown"`)
	b.do(chromedp.Evaluate(`document.querySelector("#search").value = ""; document.querySelector("#search").dispatchEvent(new Event("input"))`, nil))
	b.tabTo("#heads th[data-id=name] button")
	b.keys(kb.Enter)
	b.until(`document.querySelector("#heads th[data-id=name]").getAttribute("aria-sort") === "ascending"`)
	b.tabTo(`tr[data-key$="/c1"] a`)
	b.keys(kb.Enter)
	b.until(`document.activeElement.id === "detail-title" && document.querySelector("#action-start")`)
	b.tabTo("#action-start")
	b.keys(kb.Enter)
	b.until(`document.querySelector("dialog").open && !document.querySelector("#confirm").hidden`)
	b.shot("action")
	if steps := eval[int](b, `document.querySelectorAll("#dialog .steps > li").length`); steps != 3 {
		t.Errorf("%d steps are shown", steps)
	}
	b.keys(kb.Escape)
	b.until(`!document.querySelector("dialog").open && document.activeElement.id === "action-start"`)
	if len(w.written()) > 0 {
		t.Errorf("cancelling has written %v", w.written())
	}
	b.keys(kb.Enter)
	b.until(`!document.querySelector("#confirm").hidden && document.querySelector("dialog").open`)
	b.tabTo("#confirm")
	b.keys(kb.Enter)
	b.until(`!document.querySelector("dialog").open`)
	if got := w.written(); len(got) != 1 || !strings.Contains(got[0], `"externalCloudProvider":true`) {
		t.Errorf("written %v", got)
	}
	b.tabTo("#check")
	b.keys(kb.Enter)
	b.until(`document.querySelector("#found").textContent.startsWith("31 passed")`)
	b.do(chromedp.Evaluate(`document.querySelector("#back").focus()`, nil))
	b.keys(kb.Enter)
	b.until(`!document.querySelector("#list").hidden && document.activeElement.matches('tr[data-key$="/c1"] a')`)
	b.do(chromedp.Evaluate(`document.querySelector("#logout").focus()`, nil))
	b.keys(kb.Enter)
	b.until(`!document.querySelector("#login").hidden && document.querySelectorAll("#rows tr").length === 0`)
	b.quiet()
}

func TestInABrowserAPlanThatChangedIsShownAgainAndABlockedOneCannotBeConfirmed(t *testing.T) {
	w := newWorld(t)
	variety(w)
	b := open(t, w)
	b.signIn("alice")
	b.do(chromedp.Evaluate(`location.hash = document.querySelector('tr[data-key$="/c1"] a').hash`, nil))
	b.until(`document.querySelector("#action-start")`)
	b.do(chromedp.Click("#action-start", chromedp.ByID))
	b.until(`document.querySelector("dialog").open && !document.querySelector("#confirm").hidden`)
	w.plane.mu.Lock()
	w.plane.blocked = true
	w.plane.mu.Unlock()
	b.do(chromedp.Click("#confirm", chromedp.ByID))
	b.until(`document.querySelector("#dialog-error").textContent.includes("has changed since it was shown")`)
	b.until(`document.querySelector("#confirm").hidden && document.querySelector("#dialog .findings").textContent.includes("NODE-001")`)
	b.shot("action-blocked")
	if len(w.written()) > 0 {
		t.Errorf("written %v", w.written())
	}
	b.quiet()
}

func TestInABrowserFiveHundredClustersStayResponsive(t *testing.T) {
	w := newWorld(t)
	for i := range 500 {
		w.put(cluster(fmt.Sprintf("c%03d", i), kubermaticv1.PhaseMachines, "waits for its machines"))
	}
	b := open(t, w)
	b.signIn("vera")
	b.until(`document.querySelectorAll("#rows tr").length === 500`)
	b.do(chromedp.Evaluate(`window.long = 0; new PerformanceObserver((l) => { for (const e of l.getEntries()) window.long = Math.max(window.long, e.duration); }).observe({ type: "longtask" })`, nil))
	for i := range 500 { // all of them at once
		w.put(cluster(fmt.Sprintf("c%03d", i), kubermaticv1.PhaseFinish, "in-tree provider is taken out"))
	}
	begun := time.Now()
	b.until(`[...document.querySelectorAll("#rows .badge")].every((e) => e.textContent === "Finish")`)
	spent := eval[float64](b, `(() => { const t = performance.now(); const s = document.querySelector("#search"); s.value = "c49"; s.dispatchEvent(new Event("input")); return performance.now() - t; })()`)
	shown := eval[int](b, `document.querySelectorAll("#rows tr").length`)
	long := eval[float64](b, `window.long`)
	t.Logf("500 rows: all changed and drawn %s after the change, longest task %.0f ms, a key in the search %.0f ms", time.Since(begun).Round(time.Millisecond), long, spent)
	// A machine that is idle takes half a second; one layout per row takes forty.
	if shown != 10 || spent > 3000 || long > 10000 {
		t.Errorf("%d rows are shown after %.0f ms; the longest task took %.0f ms", shown, spent, long)
	}
	b.quiet()
}

// emulateScheme makes the person one who prefers light or dark.
func emulateScheme(scheme string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})
}
