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
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/ownership"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/lab/cluster"
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
	// Recreated are the nodes and the objects of the cloud that were there before and were not the same afterwards.
	Recreated int `json:"recreated"`
}

// shown is what a migration and its rollback have shown so far.
type shown struct {
	there, back []v1.Gap
	overlaps    int
	recreated   int
	isWhole     bool // the test came to its end
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

func (s *shown) noteThere(j ownership.Judgement) {
	s.there, s.overlaps = j.Gaps, s.overlaps+len(j.Overlaps)
}
func (s *shown) noteBack(j ownership.Judgement) {
	s.back, s.overlaps = j.Gaps, s.overlaps+len(j.Overlaps)
}

// recreated counts the nodes and the objects of the cloud that are not the same as before.
func recreated(t *testing.T, lab *Trial, nodes []string, cloud string) int {
	t.Helper()
	state, err := lab.State()
	if err != nil {
		t.Fatal(err)
	}
	now := identities(t, lab)
	others := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return slices.Contains(now, n) })
	return changedObjects(t, cloud, state) + len(others)
}

// keep writes down what a migration and its rollback have shown, if that was asked for. It is deferred where a test begins: one that fails on the way says no
// in place of an earlier yes.
func (r run) keep(t *testing.T, moving []string, s *shown) {
	t.Helper()
	if *runsTo == "" || t.Skipped() {
		return
	}
	r.Commit, r.Date = faults.Commit(t.Context()), time.Now().UTC().Format(time.DateOnly)
	r.note(*s, t.Failed(), moving)
	keeping.Lock()
	defer keeping.Unlock()
	all := replaceRun(readRuns(t, *runsTo), r)
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*runsTo, append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// note takes over what was shown.
func (r *run) note(s shown, failed bool, moving []string) {
	r.Passed, r.Overlaps, r.Recreated = s.isWhole && !failed, s.overlaps, s.recreated
	r.GapThere = largest(s.there, moving)
	r.GapBack = largest(slices.DeleteFunc(slices.Clone(s.back), isInTreeRestart), moving)
}

// replaceRun puts a run in the place of an earlier one of the same.
func replaceRun(all []run, r run) []run {
	all = append(slices.DeleteFunc(slices.Clone(all), func(old run) bool { return old.key() == r.key() }), r)
	slices.SortFunc(all, func(a, b run) int { return cmp.Compare(a.key(), b.key()) })
	return all
}

// changedObjects counts the objects in the state of a cloud that are gone, or are others. An object is the outermost value with fields of its own.
func changedObjects(t *testing.T, before, after string) int {
	t.Helper()
	var was, is any
	if err := errors.Join(json.Unmarshal([]byte(before), &was), json.Unmarshal([]byte(after), &is)); err != nil {
		t.Fatal(err)
	}
	return differing(was, is)
}

func differing(was, is any) (n int) {
	children, isMap := was.(map[string]any)
	isObject := !isMap
	for _, child := range children {
		switch child.(type) {
		case map[string]any, []any, nil:
		default:
			isObject = true
		}
	}
	if isObject {
		list, isList := was.([]any)
		if !isList || len(list) == 0 {
			if reflect.DeepEqual(was, is) {
				return 0
			}
			return 1
		}
		for _, o := range list {
			now, _ := is.([]any)
			if !slices.ContainsFunc(now, func(other any) bool { return reflect.DeepEqual(o, other) }) {
				n++
			}
		}
		return n
	}
	now, _ := is.(map[string]any)
	for key, child := range children {
		n += differing(child, now[key])
	}
	return n
}

func TestWhatWasRecreatedIsCounted(t *testing.T) {
	before := `{"balancers":{"a":{"name":"a","ports":[80]},"b":{"name":"b"}},"tables":{"t":{"routes":[{"to":"x"},{"to":"y"}]}},"empty":{}}`
	for after, want := range map[string]int{
		before: 0,
		`{"balancers":{"b":{"name":"b"},"a":{"ports":[80],"name":"a"}},"tables":{"t":{"routes":[{"to":"y"},{"to":"x"}]}},"new":{"o":{"x":1}}}`: 0,
		`{"balancers":{"a":{"name":"a","ports":[81]}},"tables":{"t":{"routes":[{"to":"z"},{"to":"y"}]}}}`:                                      3,
		`{}`: 4,
	} {
		if got := changedObjects(t, before, after); got != want {
			t.Errorf("after %s, %d objects were recreated, want %d", after, got, want)
		}
	}
}

func TestARunThatFailsSaysNoInPlaceOfAnEarlierYes(t *testing.T) {
	gap := []v1.Gap{{Loop: "service", To: "ccm", Seconds: 1.25}}
	r := run{Provider: "aws", Version: "v1.26.0", Shape: "units", Strategy: "downtime", Cloud: "simulated"}
	good, other, bad := r, r, r
	good.note(shown{there: gap, back: gap, isWhole: true}, false, []string{"service"})
	if !good.Passed || good.GapThere != 1.25 || good.GapBack != 1.25 {
		t.Errorf("a whole run is %+v", good)
	}
	bad.note(shown{there: gap, recreated: 2}, true, []string{"service"})
	other.Shape = "static pods"
	all := replaceRun([]run{good, other}, bad)
	if len(all) != 2 || all[1].Passed || all[1].Recreated != 2 {
		t.Errorf("the runs are %+v", all)
	}
	if bad.note(shown{there: gap}, false, nil); bad.Passed {
		t.Error("a run that did not come to its end passes")
	}
	page := runsText(all)
	if !strings.Contains(page, "| **failed** | 1.25 s | - | 0 | 2 |") {
		t.Errorf("the page does not say what the failed run has shown:\n%s", page)
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

// gap writes a gap. A run that failed may have come to none, and of a manager that does not say what it runs none is seen.
func (r run) gap(seconds float64) string {
	switch {
	case seconds > 0:
		return fmt.Sprintf("%.2f s", seconds)
	case r.Passed:
		return "not seen"
	}
	return "-"
}

// runOf is a run of a lab, but for what it shows.
func runOf(lab *Trial, strategy string) run {
	return run{
		Provider: lab.Kind().Provider(), Version: lab.Kind().Version(), Shape: cmp.Or(string(lab.shape), staticPods), Strategy: strategy, Cloud: "simulated",
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

// notBuildable are the first minors of which no manager with a provider can be built, and why.
var notBuildable = []struct {
	provider string
	minor    int
	reason   string
}{
	{"aws", 27, "the in-tree code ended with 1.26 ([kubernetes/kubernetes#115838](https://github.com/kubernetes/kubernetes/pull/115838))"},
	{"azure", 30, "the in-tree code ended with 1.29 ([kubernetes/kubernetes#121355](https://github.com/kubernetes/kubernetes/pull/121355))"},
	{"gce", 31, "the in-tree code ended with 1.30 ([kubernetes/kubernetes#124519](https://github.com/kubernetes/kubernetes/pull/124519))"},
	{"openstack", 26, "the in-tree code ended with 1.25 ([kubernetes/kubernetes#67782](https://github.com/kubernetes/kubernetes/issues/67782))"},
	{"vsphere", 30, "the in-tree code ended with 1.29 ([kubernetes/kubernetes#122937](https://github.com/kubernetes/kubernetes/pull/122937))"},
}

func TestWhatCannotBeBuiltIsWhatTheCatalogueSays(t *testing.T) {
	var named []string
	for _, n := range notBuildable {
		named = append(named, n.provider)
		if p, ok := cloudprovider.Lookup(n.provider); !ok || p.LastInTree+1 != n.minor || !strings.Contains(n.reason, fmt.Sprintf("with 1.%d ", p.LastInTree)) {
			t.Errorf("%s is said to end before 1.%d (%s), and the catalogue has it until 1.%d", n.provider, n.minor, n.reason, p.LastInTree)
		}
	}
	for _, p := range cloudprovider.Providers() {
		if p.Unsupported == "" && !slices.Contains(named, p.Name) {
			t.Errorf("it is not said when %s ends", p.Name)
		}
	}
	if page := runsText(nil); !strings.Contains(page, "| Microsoft Azure | 1.30 | ") || strings.Contains(page, "| Google Compute Engine | 1.31") {
		t.Errorf("the page says of what cannot be built:\n%s", page)
	}
}

// Shapes of runs, next to those that are a cluster.Shape.
const (
	staticPods       = "static pods"
	thenADaemonSet   = "static pods, then a DaemonSet"
	replacedHosts    = "replaced hosts"
	upgradedOnTheWay = "static pods, upgraded on the way"
)

// shapesOfRuns are what a control plane is migrated as, with the strategies that are offered there.
var shapesOfRuns = []struct {
	shape      string
	strategies []string
}{
	{staticPods, []string{planstep.LeaderMigration, planstep.Downtime}},
	{thenADaemonSet, []string{planstep.LeaderMigration, planstep.Downtime}},
	{string(cluster.Units), []string{planstep.LeaderMigration, planstep.Downtime}},
	{string(cluster.Deployments), []string{planstep.Downtime}},
	{upgradedOnTheWay, []string{planstep.LeaderMigration}},
	{replacedHosts, []string{planstep.LeaderMigration}},
}

// notRun are the shapes with the strategies of which a provider has no row that passed.
func notRun(all []run, provider string) (missing []string) {
	for _, s := range shapesOfRuns {
		var lacks []string
		for _, strategy := range s.strategies {
			isIt := func(r run) bool {
				return r.Provider == provider && r.Shape == s.shape && r.Strategy == strategy && r.Passed
			}
			if !slices.ContainsFunc(all, isIt) {
				lacks = append(lacks, strategy)
			}
		}
		if len(lacks) > 0 {
			missing = append(missing, fmt.Sprintf("%s (%s)", s.shape, strings.Join(lacks, ", ")))
		}
	}
	return missing
}

func TestWhatWasNotRunIsSaid(t *testing.T) {
	row := run{Provider: "aws", Version: "v1.26.0", Shape: staticPods, Strategy: planstep.LeaderMigration, Cloud: "simulated", Passed: true}
	failed, upgraded := row, row
	failed.Strategy, failed.Passed = planstep.Downtime, false
	upgraded.upgradedTo("v1.27.4")
	want := []string{
		"static pods (downtime)", "static pods, then a DaemonSet (leader-migration, downtime)", "units (leader-migration, downtime)",
		"deployments (downtime)", "replaced hosts (leader-migration)",
	}
	if diff := gocmp.Diff(want, notRun([]run{failed, row, upgraded}, "aws")); diff != "" {
		t.Errorf("what was not run (-want +got):\n%s", diff)
	}
	if page := runsText([]run{upgraded}); !strings.Contains(page, "| v1.26.0 to v1.27.4 | static pods, upgraded on the way | leader-migration |") ||
		!strings.Contains(page, "| Microsoft Azure | 1.24, 1.25, ") || strings.Contains(page, "| Amazon Web Services | 1.24, 1.25, 1.26 |") {
		t.Errorf("the page says:\n%s", page)
	}
	kept := readRuns(t, runsFile)
	for _, r := range kept {
		isKnown := false
		for _, s := range shapesOfRuns {
			isKnown = isKnown || s.shape == r.Shape && slices.Contains(s.strategies, r.Strategy)
		}
		if !isKnown {
			t.Errorf("%s is no shape and strategy of shapesOfRuns", r.key())
		}
	}
}

// upgradedTo has a run be one whose control plane goes to another version in the restarts of the migration.
func (r *run) upgradedTo(version string) {
	r.Shape, r.Version = upgradedOnTheWay, r.Version+" to "+version
}

func runsText(all []run) string {
	var b strings.Builder
	b.WriteString(`# Providers, as they were migrated

Generated from ` + "`provider-runs.json`" + `, which ` + "`make providers`" + ` writes; do not edit. Each row is a cluster of real components that was migrated and brought back in the lab, at the commit that it names.
A gap is the longest time that a loop which moves had no manager. On the way back, restarts of kube-controller-manager from one to the other are not counted: they are
[that manager's own start](../explanation/known-limits.md#the-last-restart-of-a-rollback).
kube-controller-manager says since 1.26 which loops it runs. Of an older one, gaps are seen between new managers alone.

Every row is of this project's manager: AWS by default, the others with ` + "`--image=ours`" + `. The lab builds no official manager of GCE or Azure, and none was run.

A run passes only if the cluster has the same nodes afterwards, by UID and provider ID, and if the cloud holds the same objects: nothing was recreated. What is compared of the cloud:

- AWS: every object of the account that the simulator has, with all its fields.
- Azure: network interfaces, route tables and subnets with all fields, and which machines are in backend pools. Of public addresses the identity and the address. Of load balancers the identity, frontends, backend pools and
  rules. Probes, tags and the security group are not compared: [the new manager writes them](../explanation/azure.md#what-a-migration-writes-in-the-cloud).
- GCE: routes, and all that load balancers are made of, with all fields. Not compared are the ` + "`destinationRanges`" + ` of firewall rules: the in-tree provider writes none before 1.25.
- OpenStack: load balancers with their parts, ports, address pairs, security groups with their rules, floating IPs and routes. vSphere: the machines.
- Replaced hosts: the same, without the control-plane hosts and the routes to them, which are replaced.

| provider | in tree | control plane | strategy | cloud | there and back | gap there | gap back | overlaps | recreated | commit |
|---|---|---|---|---|---|---:|---:|---:|---:|---|
`)
	if len(all) == 0 {
		b.WriteString("\nNo run is recorded here yet: `make providers` records them. What the lab's tests have tried is in the [support matrix](support-matrix.md#providers).\n")
	}
	for _, r := range all {
		p, _ := cloudprovider.Lookup(r.Provider)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %d | %d | %s, %s |\n", cmp.Or(p.Title, r.Provider), r.Version, r.Shape, r.Strategy, r.Cloud,
			map[bool]string{true: "yes", false: "**failed**"}[r.Passed], r.gap(r.GapThere), r.gap(r.GapBack), r.Overlaps, r.Recreated, r.Commit, r.Date)
	}
	b.WriteString("\n## What was not run\n\nIn-tree minors without a row above, and shapes of control planes, with the strategy, of which no row passed under any minor. " +
		"Some of them were tried by other tests of the lab, which [known limits](../explanation/known-limits.md#which-shapes-were-tried) names.\n\n" +
		"| provider | minors | shapes |\n|---|---|---|\n")
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
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.Title, cmp.Or(strings.Join(missing, ", "), "none"), cmp.Or(strings.Join(notRun(all, p.Name), "; "), "none"))
	}
	b.WriteString("\n## What cannot be built\n\nMinors up to 1.30 of which no manager with the provider can be built, and why. Nothing can be migrated there.\n\n| provider | minors | reason |\n|---|---|---|\n")
	for _, n := range notBuildable {
		if n.minor > lastMinor {
			continue
		}
		p, _ := cloudprovider.Lookup(n.provider)
		minors := fmt.Sprintf("1.%d", n.minor)
		if n.minor < lastMinor {
			minors += fmt.Sprintf(" to 1.%d", lastMinor)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.Title, minors, n.reason)
	}
	return b.String()
}
