// Package browsertest decides how a page is tried in a browser. It uses the Chromium of this machine, without a window,
// with the keys that a person presses. It keeps what the page asks for and what the browser complains of. It is for
// tests alone.
package browsertest

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
)

// shots is where screenshots go; none are taken when it is empty.
var shots = os.Getenv("TRANSPLANT_SCREENSHOTS")

// Tab is a headless Chromium with one page, whose requests and complaints are kept.
type Tab struct {
	t    *testing.T
	home string
	ctx  context.Context

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
	t.Skip(
		"NOT TESTED IN A BROWSER: no Chromium was found in PATH; name one in $CHROMIUM. The page's script, keyboard, accessibility and policy are unproven here",
	)
	return ""
}

// Open opens a page in a browser that ends with the test, and skips the test loudly where there is no browser.
func Open(t *testing.T, home string) *Tab {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	profile, err := os.MkdirTemp("", "transplant-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(
			chromium(t),
		),
		chromedp.Headless,
		chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck,
		chromedp.UserDataDir(profile),
		chromedp.Flag(
			"disable-quic",
			true,
		),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag(
			"disable-dev-shm-usage",
			true,
		),
		chromedp.Flag("disable-extensions", true),
		chromedp.IgnoreCertErrors,
		chromedp.WindowSize(1280, 900),
		chromedp.WSURLReadTimeout(2 * time.Minute),
	}
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	// The library says of every event that is newer than it that it does not know it.
	ctx, cancel := chromedp.NewContext(alloc, chromedp.WithErrorf(func(string, ...any) {}))
	ctx, cancelTime := context.WithTimeout(ctx, 30*time.Minute)
	b := &Tab{t: t, home: home, ctx: ctx}
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until the browser has ended, if it was there
		cancelTime()
		cancel()
		cancelAlloc()
		remove(profile)
	})
	chromedp.ListenTarget(ctx, b.heard)
	b.Do(network.Enable(), log.Enable(), runtime.Enable(), page.Enable(), chromedp.Navigate(home+"/"))
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
func (b *Tab) heard(e any) {
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
		// A browser logs every answer of 401 and 409: these tests cause them. It also ends every connection when this
		// machine's interfaces change, as other tests that make hosts do. The page has to survive that, and the tests check
		// what it shows after it.
		caused := strings.Contains(e.Entry.Text, "the server responded with a status of 4") ||
			strings.Contains(e.Entry.Text, "net::ERR_NETWORK_CHANGED")
		if e.Entry.Level == log.LevelError && !caused {
			b.complaints = append(b.complaints, "log: "+e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// Forgive forgets what the browser has complained of so far, because the test has caused it.
func (b *Tab) Forgive() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = nil
}

// Quiet fails where the page asked another host for something, or the browser complained.
func (b *Tab) Quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	home, err := url.Parse(b.home)
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

// Do does things one after the other, or fails the test.
func (b *Tab) Do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// Eval is the value of an expression.
func Eval[T any](b *Tab, expression string) T {
	b.t.Helper()
	var out T
	b.Do(chromedp.Evaluate(expression, &out))
	return out
}

// Until waits for an expression to be true.
func (b *Tab) Until(expression string) {
	b.t.Helper()
	var ok bool
	err := chromedp.Run(
		b.ctx,
		chromedp.Poll(
			"!!("+expression+")",
			&ok,
			chromedp.WithPollingTimeout(time.Minute),
			chromedp.WithPollingInterval(50*time.Millisecond),
		),
	)
	if err != nil {
		var text string
		_ = chromedp.Run(
			b.ctx,
			chromedp.Evaluate(
				`document.body.innerText + " / focus: " + (document.activeElement && (document.activeElement.id || document.activeElement.textContent))`,
				&text,
			),
		)
		b.t.Fatalf("%s does not become true (%v). The page says:\n%s", expression, err, text)
	}
}

// Keys are typed as a person types them.
func (b *Tab) Keys(keys string) {
	b.t.Helper()
	b.Do(chromedp.KeyEvent(keys))
}

// TabTo presses Tab until an element has the focus, or fails.
func (b *Tab) TabTo(selector string) {
	b.t.Helper()
	for range 60 {
		if Eval[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
		b.Keys(kb.Tab)
	}
	b.t.Fatalf(
		"the keyboard does not reach %s: it is at %s",
		selector,
		Eval[string](b, "document.activeElement.outerHTML"),
	)
}

// Shot takes a screenshot of the whole page where that was asked for.
func (b *Tab) Shot(name string) {
	b.t.Helper()
	if shots == "" {
		return
	}
	var png []byte
	b.Do(chromedp.FullScreenshot(&png, 100))
	if err := os.WriteFile(filepath.Join(shots, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// Scheme makes the person one who prefers light or dark.
func Scheme(scheme string) chromedp.Action {
	return emulation.SetEmulatedMedia().
		WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})
}
