package trial

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/lab/faults"
)

var (
	runsTo     = flag.String("trial.runs", "", "keep what each migration there and back has shown in this file (make providers)")
	updateRuns = flag.Bool("trial.update", false, "write docs/reference/providers.md again")
)

// run is a migration of one provider there and back: what it was of, and what it has shown.
type run struct {
	Provider string `json:"provider"`
	Version  string `json:"version"` // of the control plane with the in-tree provider
	Shape    string `json:"shape"`   // what the control plane runs as
	Strategy string `json:"strategy"`
	Cloud    string `json:"cloud"` // simulated or real

	Commit string `json:"commit"`
	Date   string `json:"date"`
	Passed bool   `json:"passed"`
	// For how long a loop that moves had no manager, in seconds. On the way back without restarts of kube-controller-manager from one to the other, which are
	// that manager's own start.
	GapThere float64 `json:"gapThere"`
	GapBack  float64 `json:"gapBack"`
	Overlaps int     `json:"overlaps"`
}

func (r run) key() string {
	return strings.Join([]string{r.Provider, r.Version, r.Shape, r.Strategy, r.Cloud}, " ")
}

const (
	runsFile = "../../docs/reference/provider-runs.json"
	runsPage = "../../docs/reference/providers.md"
)

// keeping is held while the file is written: tests run side by side.
var keeping sync.Mutex

// keep writes down what a migration and its rollback have shown, if that was asked for. It comes last in a test: whether that has passed is part of it.
func (r run) keep(t *testing.T, moving []string, there, back []v1.Gap, overlaps int) {
	t.Helper()
	if *runsTo == "" {
		return
	}
	r.Commit, r.Date, r.Passed, r.Overlaps = faults.Commit(t.Context()), time.Now().UTC().Format(time.DateOnly), !t.Failed(), overlaps
	r.GapThere = largest(there, moving)
	r.GapBack = largest(slices.DeleteFunc(slices.Clone(back), isInTreeRestart), moving)
	keeping.Lock()
	defer keeping.Unlock()
	all := slices.DeleteFunc(readRuns(t, *runsTo), func(old run) bool { return old.key() == r.key() })
	all = append(all, r)
	slices.SortFunc(all, func(a, b run) int { return cmp.Compare(a.key(), b.key()) })
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*runsTo, append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func largest(gaps []v1.Gap, moving []string) float64 {
	longest := 0.0
	for _, g := range gaps {
		if slices.Contains(moving, g.Loop) && g.To != "" {
			longest = max(longest, g.Seconds)
		}
	}
	return float64(int(100*longest+0.5)) / 100
}

// runOf is a run of a lab, but for what it shows.
func runOf(lab *Trial, strategy string) run {
	return run{
		Provider: lab.Kind().Provider(), Version: lab.Kind().Version(), Shape: cmp.Or(string(lab.shape), "static pods"), Strategy: strategy, Cloud: "simulated",
	}
}

func readRuns(t *testing.T, file string) (all []run) {
	t.Helper()
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// No row says yes without a run: the page is what the file of the runs has.
func TestThePageOfProvidersIsWhatRunsHaveShown(t *testing.T) {
	want := runsText(readRuns(t, runsFile))
	if *updateRuns {
		if err := os.WriteFile(runsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(runsPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, string(have)); diff != "" {
		t.Errorf("%s is old; run go test ./trial -run PageOfProviders -trial.update in lab/:\n%s", filepath.Base(runsPage), diff)
	}
}

// Minors of which a provider is worth a run: the older ones have no manager of ours, and the newer ones no in-tree provider.
const firstMinor, lastMinor = 24, 30

func runsText(all []run) string {
	var b strings.Builder
	b.WriteString(`# Providers, as they were migrated

Generated from ` + "`provider-runs.json`" + `, which ` + "`make providers`" + ` writes; do not edit. Each row is a cluster of real components that was migrated and brought back in the lab, at the commit that it names.
A gap is the longest time that a loop which moves had no manager. On the way back, restarts of kube-controller-manager from one to the other are not counted: they are
[that manager's own start](../explanation/known-limits.md#the-last-restart-of-a-rollback). A run passes only if the cloud holds the same objects afterwards: nothing was made again.

| provider | in tree | control plane | strategy | cloud | there and back | gap there | gap back | overlaps | commit |
|---|---|---|---|---|---|---:|---:|---:|---|
`)
	if len(all) == 0 {
		b.WriteString("\nNo run is recorded here yet: `make providers` records them. What the lab's tests have tried is in the [support matrix](support-matrix.md#providers).\n")
		return b.String()
	}
	for _, r := range all {
		p, _ := cloudprovider.Lookup(r.Provider)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %.2f s | %.2f s | %d | %s, %s |\n", cmp.Or(p.Title, r.Provider), r.Version, r.Shape, r.Strategy, r.Cloud,
			map[bool]string{true: "yes", false: "**failed**"}[r.Passed], r.GapThere, r.GapBack, r.Overlaps, r.Commit, r.Date)
	}
	b.WriteString("\n## What was not run\n\nIn-tree minors without a row above. The lab builds the programs of those that have one, and of no other.\n\n| provider | minors |\n|---|---|\n")
	for _, p := range cloudprovider.Providers() {
		if p.Unsupported != "" {
			continue
		}
		var missing []string
		for minor := firstMinor; minor <= min(lastMinor, p.LastInTree); minor++ {
			prefix := fmt.Sprintf("v1.%d.", minor)
			if !slices.ContainsFunc(all, func(r run) bool { return r.Provider == p.Name && strings.HasPrefix(r.Version, prefix) }) {
				missing = append(missing, fmt.Sprintf("1.%d", minor))
			}
		}
		fmt.Fprintf(&b, "| %s | %s |\n", p.Title, strings.Join(missing, ", "))
	}
	return b.String()
}
