package cli

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
)

const tried = "server dry run: the API server would take "

func TestADryRunOnTheServerChangesNothing(t *testing.T) {
	c := newLive(t)
	good := c.plan()
	r := c.run("apply", good, "--dry-run=server")
	if r.code != exitcode.OK || !strings.Contains(r.out, tried) || !strings.Contains(r.out, "files of hosts were not tried") {
		t.Errorf("%s", r.text(nil))
	}
	if r := c.run("apply", good, "--dry-run"); strings.Contains(r.out, tried) {
		t.Errorf("the server was asked: %s", r.text(nil))
	}
	fails(t, c.run("apply", good, "--dry-run=cluster"), exitcode.Error, "give none, client or server")
	fails(t, c.run("apply", good, "--dry-run=none"), exitcode.NotApproved, "there is no terminal on which to ask")
	c.unchanged()
}

func TestWhatTheServerRefusesInADryRun(t *testing.T) {
	c := newLive(t)
	good := c.plan()
	c.api.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/rolebindings") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, err := io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"rolebindings is forbidden: no"}`)
		return err == nil
	}
	r := c.run("apply", good, "--dry-run=server", "--ascii")
	fails(t, r, exitcode.Blocked, " in the dry run the API server refused ", " and gave no answer to 0; nothing was changed")
	if !strings.Contains(r.out, "FAIL create RoleBinding/kube-system/") || !strings.Contains(r.out, "forbidden: ") {
		t.Errorf("the refusal is not shown:\n%s", r.out)
	}
	r = c.run("apply", good, "--dry-run=server", "-o", "jsonl")
	events := eventsOf(t, r.out)
	i := slices.IndexFunc(events, func(e v1.RunEvent) bool { return e.Type == v1.EventPlan })
	if r.code != exitcode.Blocked || i < 0 || !slices.ContainsFunc(events[i].DryRuns, func(d v1.DryRun) bool { return !d.OK && strings.HasPrefix(d.Ref, "RoleBinding/") }) {
		t.Errorf("exit %d, events %+v", r.code, events)
	}
	c.unchanged()
}

func TestADryRunOnTheServerOfWhatIsLeft(t *testing.T) {
	c := newLive(t)
	c.journal(v1.RunApplying, 20, 1)
	before := len(c.api.Writes())
	r := c.run("apply", "--dry-run=server")
	if r.code != exitcode.OK || !strings.Contains(r.out, tried) {
		t.Errorf("%s", r.text(nil))
	}
	if r := c.run("rollback", "--dry-run=server"); r.code != exitcode.OK || !strings.Contains(r.out, tried) {
		t.Errorf("%s", r.text(nil))
	}
	if writes := c.api.Writes(); len(writes) != before {
		t.Errorf("written: %q", writes[before:])
	}
}

func TestRequestsAreToldOfAndMadeInAnothersName(t *testing.T) {
	c := newLive(t)
	var mu sync.Mutex
	users := map[string]bool{}
	c.api.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		users[r.Header.Get("Impersonate-User")+" "+strings.Join(r.Header.Values("Impersonate-Group"), ",")] = true
		return false
	}
	r := c.run("status", "-v=2", "--as", "jane", "--as-group", "ops", "--as-group", "on-call")
	if r.code != exitcode.OK || !strings.Contains(r.errOut, "GET /version?timeout=15s: 200 OK in ") {
		t.Errorf("%s", r.text(nil))
	}
	if len(users) != 1 || !users["jane ops,on-call"] {
		t.Errorf("requests of %v", users)
	}
	if r := c.run("status", "-v"); strings.Contains(r.errOut, "GET /") {
		t.Errorf("requests are told of: %s", r.text(nil))
	}
	fails(t, c.run("status", "-v=much"), exitcode.Error, "give a level: 0, 1 or more")
	fails(t, c.run("status", "--cluster=absent"), exitcode.Error, "absent")
}
