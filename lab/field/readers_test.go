package field

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/lab/awssim"
)

// TestWhoeverLooksWritesNothing runs every command that only looks, and reads in the API server's audit log what it asked for. An access review is a
// create that stores nothing, and so is a request with dryRun=All; a token of the account that may read /metrics would be one, too.
func TestWhoeverLooksWritesNothing(t *testing.T) {
	f := start(t, Options{Version: "v1.26.0"})
	before := f.fileHashes(t)
	snapshot := f.transplant(t, "snapshot", "-q")
	if snapshot.code != 0 {
		t.Fatalf("snapshot: exit %d: %s", snapshot.code, snapshot.errOut)
	}
	saved := save(t, "snapshot.yaml", snapshot.out)
	plan := f.path("plan.yaml")
	for _, c := range []struct {
		args []string
		code []int
	}{
		{[]string{"check", "-o", "wide"}, []int{0, 3}},
		{[]string{"check", "--prove", "-o", "json"}, []int{0, 3}},
		{[]string{"check", "--from-snapshot", saved}, []int{0, 3}},
		{[]string{"explain", "NODE-002", "--from-snapshot", saved}, []int{0}},
		{[]string{"plan", "--out", plan}, []int{0, 3}},
		{[]string{"plan", "-o", "markdown"}, []int{0, 3}},
		{[]string{"diff"}, []int{0, 1}},
		{[]string{"diff", plan}, []int{0, 1}},
		{[]string{"status"}, []int{0, 1}},
		{[]string{"report"}, []int{0, 1}},
		{[]string{"verify"}, []int{0, 1, 3, 4}},
		{[]string{"apply", plan, "--dry-run"}, []int{0, 3}},
		{[]string{"apply", plan}, []int{3, 7}}, // nobody has approved it
	} {
		r := f.transplant(t, c.args...)
		if !slices.Contains(c.code, r.code) {
			t.Errorf("transplant %v: exit %d, want one of %v\n%s", c.args, r.code, c.code, r.errOut)
		}
	}
	writes, err := f.Server.Audit()
	if err != nil {
		t.Fatal(err)
	}
	reviews := 0
	for _, w := range writes {
		switch {
		case w.User != User:
		case strings.HasSuffix(w.Resource, "accessreviews") && w.Verb == "create":
			reviews++
		case w.DryRun:
		default:
			t.Errorf("a command that only looks has sent %s %s/%s %s/%s (answer %d)", w.Verb, w.Resource, w.Subresource, w.Namespace, w.Name, w.Code)
		}
	}
	if reviews == 0 {
		t.Error("the audit log does not hold what the commands asked for")
	}
	calls := f.Account.Audit().Calls(awssim.Filter{Keys: []string{KeyLooker}})
	for _, call := range calls {
		if call.Mutating {
			t.Errorf("a command that only looks has called %s of the cloud", call.Action)
		}
	}
	if len(calls) == 0 {
		t.Error("nobody has looked at the cloud")
	}
	for path, sum := range f.fileHashes(t) {
		if before[path] != sum {
			t.Errorf("a command that only looks has changed %s", path)
		}
	}
}

// fileHashes are those of all files of the hosts.
func (f *Field) fileHashes(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(f.path("hosts"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = hostaccess.SHA256(data)
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("the hosts have %d files: %v", len(out), err)
	}
	return out
}

// TestALookAtFiveHundredNodesIsAsManyListsAsAtFive counts what a check costs the API server, which does not grow with the cluster but for its pages.
func TestALookAtFiveHundredNodesIsAsManyListsAsAtFive(t *testing.T) {
	if !*whole {
		t.Skip("makes five hundred nodes: make e2e, or -field.all")
	}
	lists := map[int]int{}
	for _, workers := range []int{0, 495} {
		f := start(t, Options{Version: "v1.26.0", Workers: workers})
		begin := time.Now()
		if r := f.transplant(t, "check", "--problems"); r.code != 0 && r.code != 3 {
			t.Fatalf("exit %d: %s", r.code, r.errOut)
		}
		live := time.Since(begin)
		reads, err := f.Server.Reads()
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[string]int{}
		for _, r := range reads {
			if r.User != User {
				continue
			}
			if r.Verb == "list" {
				lists[workers]++
				kinds[r.Resource]++
			}
			if r.Verb == "get" && (r.Resource == "nodes" || r.Resource == "persistentvolumes" || r.Resource == "csinodes") {
				t.Errorf("with %d nodes: a get of %s %s, which is one for each", 5+workers, r.Resource, r.Name)
			}
		}
		saved := save(t, "snapshot.yaml", f.transplant(t, "snapshot", "-q").out)
		begin = time.Now()
		f.transplant(t, "check", "--from-snapshot", saved)
		t.Logf("%d nodes: %d list calls: %v; a live check took %s, one of the saved snapshot %s", 5+workers, lists[workers], kinds, live, time.Since(begin))
	}
	if lists[0] == 0 || lists[495] >= 50 || lists[495] > lists[0]+10 {
		t.Errorf("list calls by the number of further nodes: %v; want fewer than 50, and no more than a few pages apart", lists)
	}
}
