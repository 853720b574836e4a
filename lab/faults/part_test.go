package faults

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// watched is a cluster in which something happened that must not, before any fault.
type watched struct {
	*fake
	problems []Problem
	facts    []string
}

func (w watched) Watch(context.Context) (Judge, error) {
	return func() ([]Problem, error) { return w.problems, nil }, nil
}

func (w watched) Facts(context.Context) ([]string, error) { return w.facts, nil }

func TestAPartIsKeptWheneverAFaultIsOver(t *testing.T) {
	cluster := watched{
		fake:     &fake{dir: t.TempDir()},
		problems: []Problem{{From: time.Unix(1, 0), To: time.Unix(2, 0), Text: "two owners"}},
		facts:    []string{"node n"},
	}
	c := &Campaign{Cluster: cluster, Args: []string{"apply"}, Choose: KilledEverywhere, StateDir: t.TempDir(), Log: t.Logf}
	store := Store(filepath.Join(t.TempDir(), "parts"))
	var kept []int
	p := &Part{Name: "all_killed_apply", Campaign: "killed"}
	err := p.Try(t.Context(), c, func(p *Part) error {
		kept = append(kept, len(p.Outcomes))
		return store.Keep(p)
	})
	if err == nil || err.Error() != "two owners" {
		t.Errorf("error %v", err)
	}
	if len(kept) < len(p.Outcomes)-1 || !slices.IsSorted(kept) {
		t.Errorf("kept with %v faults, of %d", kept, len(p.Outcomes))
	}
	parts, err := store.Parts()
	if err != nil {
		t.Fatal(err)
	}
	if before := parts[p.Name]; before == nil || before.Ended || len(before.Outcomes) != kept[len(kept)-1] || before.Outcomes[0].Step != fakeSteps[0] {
		t.Errorf("kept before the end: %+v", before)
	}
	if !p.Ended || p.Passed || p.Took == 0 || !slices.Equal(p.Wrong, []string{"two owners"}) {
		t.Errorf("at the end: %+v", p)
	}
	if err := p.Alike(t.Context(), cluster, []string{"node n"}); err != nil {
		t.Error(err)
	}
	if err := p.Alike(t.Context(), cluster, []string{"node m"}); err == nil || !strings.Contains(err.Error(), "- node m") || len(p.Wrong) != 2 {
		t.Errorf("error %v, wrong %q", err, p.Wrong)
	}
}

func TestVerifyIsGivenTimeToPass(t *testing.T) {
	runs := 0
	verify := func(context.Context) (int, string, error) {
		if runs++; runs < 3 {
			return 4, "nobody runs service", nil
		}
		return 0, "", nil
	}
	p := &Part{Campaign: "killed"}
	if err := p.verified(t.Context(), verify, time.Millisecond, time.Minute); err != nil || runs != 3 || len(p.Wrong) != 0 {
		t.Errorf("error %v after %d runs, wrong %q", err, runs, p.Wrong)
	}
	runs = -1 << 30
	if err := p.verified(t.Context(), verify, time.Millisecond, 0); err == nil || !strings.Contains(err.Error(), "nobody runs service") || len(p.Wrong) != 1 {
		t.Errorf("error %v, wrong %q", err, p.Wrong)
	}
}

func TestAMatrixIsWrittenOfThePartsThatThereAre(t *testing.T) {
	dir := t.TempDir()
	store := Store(filepath.Join(dir, "parts"))
	at := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	made := func(kind Kind, problem string) Table {
		return Table{Title: "apply, all", How: map[Kind]string{kind: "by hand"}, Steps: []string{"edit/b"}, Outcomes: []Outcome{
			{Fault: Fault{Kind: kind, Point: During, Step: "edit/b"}, Injected: at, Converged: at.Add(time.Second), Problem: problem},
		}}
	}
	for _, p := range []*Part{
		{Name: "lost", Campaign: "lost", Commit: "abc", Began: at, Took: time.Minute, Ended: true, Passed: true, Table: made(AccessLost, "")},
		{Name: "full", Campaign: "full", Commit: "abd+", Began: at, Table: made(DiskFull, "")},
		{Name: "gone", Campaign: "gone", Commit: "abc", Began: at, Ended: true, Wrong: []string{"two owners"}, Table: made(APIGone, "")},
		{Name: "boot", Campaign: "boot", Commit: "abc", Began: at, Ended: true, Table: made(Rebooted, "stuck")},
		{Name: "other", Campaign: "other", Began: at, Table: made(Killed, "")},
	} {
		if err := store.Keep(p); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "matrix.md")
	if err := store.Write(
		file,
		[]Group{{Title: "apply", Names: []string{"lost", "full", "gone", "boot", "missing"}}, {Title: "none", Names: []string{"nothing"}}},
	); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| apply | lost | passed | 1 | 1m0s | 2026-01-02 03:04 | abc |\n",
		"| apply | full | not ended | 1 | 0s | 2026-01-02 03:04 | abd+ |\n",
		"| apply | gone | **FAIL** | 1 |",
		"| apply | boot | **FAIL** | 1 |",
		"| apply | missing | not run | | | | |\n",
		"| none | nothing | not run |",
		"| step | access lost | disk full | API gone | rebooted |\n",
		"| edit/b | 1.0 s | 1.0 s | 1.0 s | **FAIL** stuck |\n",
		"- gone: **FAIL** two owners\n",
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %q in\n%s", want, data)
		}
	}
	if err := store.Clear(); err != nil {
		t.Fatal(err)
	}
	if parts, err := store.Parts(); err != nil || len(parts) != 0 {
		t.Errorf("cleared: %v, %v", parts, err)
	}
}

func TestOnlyWhatPassedAtTheVeryCommitIsNotTriedAgain(t *testing.T) {
	passed := &Part{Commit: "abc", Passed: true}
	if !passed.Still("abc") {
		t.Error("tried again though it passed")
	}
	for name, again := range map[string]bool{
		"another commit":     passed.Still("abd"),
		"no commit":          (&Part{Passed: true}).Still(""),
		"an uncommitted one": (&Part{Commit: "abc+", Passed: true}).Still("abc+"),
		"failed":             (&Part{Commit: "abc"}).Still("abc"),
		"never run":          (*Part)(nil).Still("abc"),
	} {
		if again {
			t.Errorf("%s is not tried again", name)
		}
	}
}
