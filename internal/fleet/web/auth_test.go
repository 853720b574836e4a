package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

const c1 = "/api/clusters/" + kubermaticv1.GroupName + "/c1"

// data are all paths behind which there is something of a cluster.
var data = []string{"/api/clusters", "/api/events", c1, c1 + "/check", c1 + "/actions/start"}

func TestNobodySeesAnythingWithoutAToken(t *testing.T) {
	w := newWorld(t)
	w.put(cluster("c1", "", ""))
	for _, b := range []*browser{{w: w}, {w: w, bearer: "guessed"}, {w: w, cookie: &http.Cookie{Name: cookieName, Value: "guessed"}}} {
		for _, path := range data {
			if r := b.ask("GET", path, nil); r.code != http.StatusUnauthorized || strings.Contains(r.body, "c1") || r.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: %d %s", path, r.code, r.body)
			}
		}
		if r := b.ask("POST", c1+"/actions/start", map[string]string{}); r.code != http.StatusUnauthorized {
			t.Errorf("an action: %d %s", r.code, r.body)
		}
	}
	if r := (&browser{w: w}).ask(
		"POST",
		"/api/session",
		map[string]string{"token": "guessed"},
	); r.code != http.StatusUnauthorized ||
		len(r.header["Set-Cookie"]) > 0 {
		t.Errorf("signing in with a token that is none: %d %v", r.code, r.header)
	}
}

func TestWhoMaySeeOneClusterSeesThatOne(t *testing.T) {
	w := newWorld(t)
	w.put(cluster("c1", "", ""), cluster("c2", kubermaticv1.PhaseHandover, ""))
	for who, want := range map[string]int{"alice": 2, "vera": 2, "otto": 1} {
		r := w.as(who).ask("GET", "/api/clusters", nil)
		var s v1.FleetStatus
		r.into(t, &s)
		if r.code != http.StatusOK || len(s.Clusters) != want || s.Summary.Clusters != want {
			t.Errorf("%s sees %d clusters: %d %s", who, len(s.Clusters), r.code, r.body)
		}
	}
	otto := w.as("otto")
	if r := otto.ask("GET", c1, nil); r.code != http.StatusOK {
		t.Errorf("the one that he may: %d %s", r.code, r.body)
	}
	for _, name := range []string{"c2", "ghost"} { // whether there is one is not said either
		if r := otto.ask("GET", strings.Replace(c1, "c1", name, 1), nil); r.code != http.StatusForbidden || r.body != `{"error":"you may not get cluster `+name+`"}` {
			t.Errorf("%s: %d %s", name, r.code, r.body)
		}
	}
	if r := w.as("nora").ask("GET", "/api/clusters", nil); r.code != http.StatusForbidden {
		t.Errorf("who may nothing: %d %s", r.code, r.body)
	}
	if r := w.as("alice").ask("GET", strings.Replace(c1, "c1", "ghost", 1), nil); r.code != http.StatusNotFound {
		t.Errorf("a cluster that is not there: %d", r.code)
	}
}

func TestTheCookieIsForThisPageAlone(t *testing.T) {
	w := newWorld(t)
	b := w.signIn("alice")
	c := b.cookie
	if c.Name != "__Host-transplant" || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("%+v", c)
	}
	if len(c.Value) < 26 || strings.Contains(c.Value, "alice") {
		t.Errorf("the cookie is %q", c.Value)
	}
	if r := b.ask("DELETE", "/api/session", nil); r.code != http.StatusOK || (&http.Response{Header: r.header}).Cookies()[0].MaxAge >= 0 {
		t.Errorf("signing out: %d %v", r.code, r.header)
	}
	if r := b.ask("GET", "/api/clusters", nil); r.code != http.StatusUnauthorized {
		t.Errorf("after signing out: %d", r.code)
	}
}

func TestATokenIsNeitherLoggedNorAnswered(t *testing.T) {
	w := newWorld(t)
	w.put(cluster("c1", "", ""))
	b, seen := w.signIn("alice"), ""
	for _, path := range append([]string{"/", "/assets/app.js", "/api/session"}, data[:1]...) {
		r := b.ask("GET", path, nil)
		for name, values := range r.header {
			seen += name + strings.Join(values, "")
		}
		seen += r.body
	}
	seen += b.ask("GET", c1, nil).body + b.ask("GET", c1+"/actions/start", nil).body
	w.mu.Lock()
	w.refusing = "the token token-of-alice is not liked"
	w.mu.Unlock()
	var shown Preview
	b.ask("GET", c1+"/actions/start", nil).into(t, &shown)
	refused := b.ask("POST", c1+"/actions/start", map[string]string{"sha256": shown.SHA256})
	if refused.code != http.StatusForbidden || !strings.Contains(refused.body, "is not liked") {
		t.Errorf("a write that the seed refuses: %d %s", refused.code, refused.body)
	}
	seen += refused.body + (&browser{w: w}).ask("POST", "/api/session", map[string]string{"token": "secret-that-is-no-token"}).body + w.log()
	for _, secret := range []string{"token-of-alice", "secret-that-is-no-token", "operators-own-token"} {
		if strings.Contains(seen, secret) {
			t.Errorf("%s is told", secret)
		}
	}
	if !strings.Contains(w.log(), `"user"="alice"`) {
		t.Errorf("the log does not say who signed in: %s", w.log())
	}
}

func TestAChangeThatAnotherSiteSendsIsRefused(t *testing.T) {
	w := newWorld(t)
	w.put(cluster("c1", "", ""))
	b := w.signIn("alice")
	var shown Preview
	b.ask("GET", c1+"/actions/start", nil).into(t, &shown)
	body := map[string]string{"sha256": shown.SHA256}
	for name, header := range map[string][]string{
		"without the number of the session": {csrfHeader, ""},
		"with another number":               {csrfHeader, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"},
		"from another site":                 {"Sec-Fetch-Site", "cross-site"},
		"from another host of the same":     {"Sec-Fetch-Site", "same-site"},
		"with another origin":               {"Origin", "https://evil.example"},
	} {
		if r := b.ask("POST", c1+"/actions/start", body, header...); r.code != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, r.code, r.body)
		}
	}
	if r := b.ask("POST", c1+"/actions/start", body, "Content-Type", "text/plain"); r.code != http.StatusUnsupportedMediaType {
		t.Errorf("as a form sends it: %d", r.code)
	}
	if r := b.ask("POST", "/api/session", map[string]string{"token": "token-of-vera"}, "Sec-Fetch-Site", "cross-site"); r.code != http.StatusForbidden {
		t.Errorf("signing somebody in from another site: %d", r.code)
	}
	if r := b.ask("DELETE", "/api/session", nil, csrfHeader, "no"); r.code != http.StatusForbidden {
		t.Errorf("signing somebody out: %d", r.code)
	}
	if len(w.written()) > 0 {
		t.Errorf("something was written: %v", w.written())
	}
	if r := b.ask("POST", c1+"/actions/start", body, "Sec-Fetch-Site", "same-origin"); r.code != http.StatusOK {
		t.Errorf("from the page itself: %d %s", r.code, r.body)
	}
}

func TestATokenThatIsRevokedEndsItsSession(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	w := newWorld(t, aClock(clock))
	b := w.signIn("alice")
	w.mu.Lock()
	w.revoked["token-of-alice"] = true
	w.mu.Unlock()
	if r := b.ask("GET", "/api/session", nil); r.code != http.StatusOK {
		t.Errorf("while the answer is remembered: %d", r.code)
	}
	clock.Step(remembered + time.Second)
	if r := b.ask("GET", "/api/session", nil); r.code != http.StatusUnauthorized {
		t.Errorf("after that: %d", r.code)
	}
	w.mu.Lock()
	w.revoked = map[string]bool{}
	w.mu.Unlock()
	clock.Step(remembered + time.Second)
	if r := b.ask("GET", "/api/session", nil); r.code != http.StatusUnauthorized {
		t.Errorf("the session lives again: %d", r.code)
	}
}

func TestASessionEndsWithoutUseAndInAnyCaseAfterHalfADay(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	w := newWorld(t, aClock(clock))
	idler, worker := w.signIn("alice"), w.signIn("vera")
	for range 11 {
		clock.Step(time.Hour)
		if r := worker.ask("GET", "/api/session", nil); r.code != http.StatusOK {
			t.Fatalf("who works: %d", r.code)
		}
	}
	if r := idler.ask("GET", "/api/session", nil); r.code != http.StatusUnauthorized {
		t.Errorf("who was away for hours: %d", r.code)
	}
	clock.Step(time.Hour + time.Minute)
	if r := worker.ask("GET", "/api/session", nil); r.code != http.StatusUnauthorized {
		t.Errorf("after half a day: %d", r.code)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	s := newSessions(clocktesting.NewFakeClock(time.Now()))
	for range maxSessions + 50 {
		s.openSession("t")
	}
	if len(s.byID) != maxSessions {
		t.Errorf("%d sessions", len(s.byID))
	}
}

func TestAnswersAboutPeopleAreAskedOncePerHalfMinute(t *testing.T) {
	w := newWorld(t)
	w.put(cluster("c1", "", ""))
	for range 20 {
		w.as("alice").ask("GET", "/api/clusters", nil)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reviews != 1 {
		t.Errorf("%d reviews of one token", w.reviews)
	}
}

func TestEveryAnswerKeepsTheBrowserWithinThePage(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/", "/assets/app.js", "/assets/app.css", "/assets/icon.svg", "/api/clusters", "/nothing", "/assets/../server.go"} {
		h := (&browser{w: w}).ask("GET", path, nil).header
		if csp := h.Get(
			"Content-Security-Policy",
		); strings.Contains(csp, "unsafe") || !strings.Contains(csp, "default-src 'none'") ||
			!strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", path, csp)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, h)
		}
	}
	if r := (&browser{w: w}).ask("GET", "/assets/..%2fserver.go", nil); r.code != http.StatusNotFound {
		t.Errorf("a file that is no asset: %d", r.code)
	}
}
