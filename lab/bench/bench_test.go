package bench

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
)

var (
	update = flag.Bool("update", false, "rewrite the golden files")
	whole  = flag.Bool("bench.all", false, "run every scenario, not one of each sort")
)

// some are the scenarios of make test: one of the work on nodes and one of that on load balancers, next to upstream, and one of a change of leaders.
// make e2e runs the others as well.
var some = []string{"join", "services", "handover-planned"}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "5"); err != nil { // the runs wait more than they work, whatever the machine
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func seconds(of ...int) []time.Duration {
	var out []time.Duration
	for _, n := range of {
		out = append(out, time.Duration(n)*time.Second)
	}
	return out
}

func TestPercentilesAreExact(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i+1) * time.Second
	}
	for _, c := range []struct {
		name   string
		sorted []time.Duration
		p      int
		want   time.Duration
	}{
		{"of nothing", nil, 99, 0},
		{"of one", seconds(7), 50, 7 * time.Second},
		{"the middle of an odd number", seconds(1, 2, 3), 50, 2 * time.Second},
		{"the lower middle of an even number", seconds(1, 2, 3, 4), 50, 2 * time.Second},
		{"99 of a hundred", hundred, 99, 99 * time.Second},
		{"99 of a few is the largest", seconds(1, 2, 3), 99, 3 * time.Second},
	} {
		if got := percentile(c.sorted, c.p); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestWhatWasNotDoneInTimeCountsWithTheLimit(t *testing.T) {
	var r Result
	samples{of: 4, times: seconds(1, 2), total: 2 * time.Second}.into(&r, time.Minute)
	want := Result{Seconds: 60, P50Seconds: 2, P99Seconds: 60, FirstSeconds: 1, Done: 2, Of: 4}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	samples{of: 4, times: seconds(1, 2), pending: seconds(62, 58), total: 2 * time.Second}.into(&r, time.Minute)
	want.P99Seconds = 62
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	samples{of: 1, pending: seconds(60)}.into(&r, time.Minute)
	if r.FirstSeconds != 0 {
		t.Errorf("the first of none was done after %v s", r.FirstSeconds)
	}
}

func TestTheNinetyNinthPercentileOfALargeClusterIsNotItsMaximum(t *testing.T) {
	for services, want := range map[int]int{200: 20, 2000: 100} {
		w := &world{setup: setup{services: services}}
		if got := w.newServiceCount(); got != want {
			t.Errorf("with %d load balancers %d Services are made, want %d", services, got, want)
		}
	}
	times := make([]time.Duration, 100)
	times[99] = time.Hour
	if got := percentile(times, 99); got != 0 {
		t.Errorf("one of a hundred that waits long makes the percentile %s", got)
	}
}

// figuresOfABench are results as a bench has them.
var figuresOfABench = []Result{
	{Scenario: "join", Implementation: "upstream", Nodes: 5000, Throttled: true, Seconds: 300, FirstSeconds: 0.31, P50Seconds: 251.2, P99Seconds: 300,
		CloudCalls: 2100, APIWrites: 6150, CPUSeconds: 31.2, MaxRSSBytes: 190 << 20, Done: 2010, Of: 5000, EventWrites: 2000},
	{Scenario: "join", Implementation: "ours", Nodes: 5000, Throttled: true, Seconds: 14.2, FirstSeconds: 0.9, P50Seconds: 7.01, P99Seconds: 12,
		CloudCalls: 21, APIWrites: 10000, CPUSeconds: 12.3, MaxRSSBytes: 150 << 20, Complete: true, Done: 5000, Of: 5000},
	{Scenario: oneNode, Implementation: "ours", Nodes: 500, Services: 200, Seconds: 0.62, FirstSeconds: 0.21, P50Seconds: 0.4, P99Seconds: 0.61,
		CloudCalls: 201, APIWrites: 0, CPUSeconds: 0.05, MaxRSSBytes: 80 << 20, Complete: true, Done: 200, Of: 200, MutatingCalls: 200, MostPerObject: 1},
	{Scenario: steadyStart, Implementation: "ours", Nodes: 5000, Seconds: 1.4, CloudCalls: 5, APIWrites: 1,
		CPUSeconds: 0.9, MaxRSSBytes: 108 << 20, Complete: true},
	{Scenario: steadyWindow, Implementation: "ours", Nodes: 5000, Seconds: 60, CorePercent: 0.35, CloudCalls: 6, APIWrites: 1,
		CPUSeconds: 1.1, MaxRSSBytes: 108 << 20, OwnBytes: 47 << 20, Complete: true},
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := writeFile(path, got); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestTheTableShowsFiguresWithTheirRatios(t *testing.T) {
	var out strings.Builder
	if err := WriteTable(&out, figuresOfABench); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", []byte(out.String()))
	if err := WriteTable(broken{}, figuresOfABench); err == nil {
		t.Error("a table that could not be written was")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestTheChartIsAPicture(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "bench.svg")
	if err := WriteChart(path, figuresOfABench); err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "chart.svg", picture)
	decoder := xml.NewDecoder(strings.NewReader(string(picture)))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("it is no XML: %v", err)
		}
	}
}

func TestResultsAreKeptUntilTheyAreMeasuredAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "results.json")
	if err := WriteJSON(path, figuresOfABench); err != nil {
		t.Fatal(err)
	}
	earlier, err := ReadJSON(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(figuresOfABench, earlier); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	again := figuresOfABench[1]
	again.CloudCalls = 20
	other := Result{Scenario: "join", Implementation: "upstream", Nodes: 1000}
	got := Merge(earlier, []Result{again, other})
	if diff := cmp.Diff([]Result{other, figuresOfABench[0], again, figuresOfABench[2], figuresOfABench[3], figuresOfABench[4]}, got); diff != "" {
		t.Errorf("merged results (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{path, path + "x"} {
		if _, err := ReadJSON(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	if err := WriteJSON(filepath.Join(path, "below-a-file"), nil); err == nil {
		t.Error("a file was made below a file")
	}
}

func TestThePlanPutsSideBySideWhatIsCompared(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want []string
	}{
		{"one scenario with its own sizes", Options{Scenarios: []string{"join"}, Throttle: ThrottleOn, Implementations: []string{"upstream", "ours"}}, []string{
			"join, upstream, 1000 nodes, throttled", "join, ours, 1000 nodes, throttled",
			"join, upstream, 5000 nodes, throttled", "join, ours, 5000 nodes, throttled",
		}},
		{"sizes of one's own", Options{Scenarios: []string{"services"}, Nodes: []int{3}, Services: 2, Throttle: ThrottleBoth}, []string{
			"services, upstream, 3 nodes, 2 services", "services, upstream-tuned, 3 nodes, 2 services", "services, ours, 3 nodes, 2 services",
			"services, upstream, 3 nodes, 2 services, throttled", "services, upstream-tuned, 3 nodes, 2 services, throttled",
			"services, ours, 3 nodes, 2 services, throttled",
		}},
		{"what has to do with the lease alone", Options{Scenarios: []string{"handover-planned"}, Throttle: ThrottleBoth}, []string{
			"handover-planned, upstream, 10 nodes", "handover-planned, ours, 10 nodes",
		}},
		{"several sizes", Options{Scenarios: []string{"steady"}, Nodes: []int{50, 150}, Throttle: ThrottleOff, Implementations: []string{"ours"}}, []string{
			"steady, ours, 50 nodes", "steady, ours, 150 nodes",
		}},
		{"what is never throttled", Options{Scenarios: []string{"steady"}, Throttle: ThrottleOn}, nil},
	} {
		var got []string
		for _, s := range plan(c.o) {
			got = append(got, s.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	_, err := Run(t.Context(), Options{Scenarios: []string{"jion"}, Implementations: []string{"theirs"}, Throttle: "some", Nodes: []int{-1}, Services: -1}, nil)
	for _, part := range []string{
		"path of sim-cloud-controller-manager", `scenario "jion" is none of join,`, `implementation "theirs"`, `throttle "some"`, "negative", "numbers of nodes are [-1]",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error is %v, want %q in it", err, part)
		}
	}
}

// TestEveryScenarioCountsTheWork runs scenarios with a few nodes, with -bench.all every one, and looks at what was done and how often, never at how long
// it took.
func TestEveryScenarioCountsTheWork(t *testing.T) {
	if testing.Short() {
		t.Skip("needs etcd and a kube-apiserver")
	}
	manager, err := ccmtest.Build(t.Context(), "lab", t.TempDir(), "sim-cloud-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
		if !*whole && !slices.Contains(some, s.name) {
			continue
		}
		for _, implementation := range []string{upstreamName, oursName} {
			if implementation == upstreamName && !slices.Contains([]string{"join", "services"}, s.name) {
				continue // the harness is the same; this is no test of upstream
			}
			t.Run(s.name+" "+implementation, func(t *testing.T) {
				t.Parallel()
				smoke(t, s, Options{Manager: manager, Scenarios: []string{s.name}, Implementations: []string{implementation}})
			})
		}
	}
	if len(names) != len(slices.Compact(slices.Sorted(slices.Values(names)))) {
		t.Errorf("two scenarios have one name: %q", names)
	}
}

func smoke(t *testing.T, s scenario, o Options) {
	o.Nodes, o.Services, o.Throttle, o.Rounds, o.Dir = []int{4}, 2, ThrottleOff, 1, t.TempDir()
	o.Limit, o.Window = 4*time.Minute, 10*time.Second // on a busy machine a manager gets little done in a short window
	o.pauses = pauses{start: time.Second, idle: 2 * time.Second, standby: time.Second, between: 50 * time.Millisecond}
	o.flags = []string{"--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=7s", "--leader-elect-retry-period=500ms"}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	results, err := Run(ctx, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	parts := s.parts
	if parts == nil {
		parts = []string{s.name}
	}
	if len(results) != len(parts) {
		t.Fatalf("results are %+v, want one for each of %q", results, parts)
	}
	for i, r := range results {
		if r.Scenario != parts[i] || !r.Complete || r.Done != r.Of || r.CPUSeconds <= 0 || r.MaxRSSBytes <= 0 {
			t.Errorf("result is %+v", r)
		}
		for _, problem := range problemsOf(r) {
			t.Error(problem)
		}
		t.Logf("%s: %d done, %d calls, %d for one load balancer, %d writes", r.Scenario, r.Done, r.CloudCalls, r.MostPerObject, r.APIWrites)
	}
}

// problemsOf compares what was counted with the tables below.
func problemsOf(r Result) (problems []string) {
	if want := minimalWork[r.Scenario]; r.Done < want.done || r.CloudCalls < want.calls || r.APIWrites < want.writes {
		problems = append(problems, fmt.Sprintf("%d done, %d calls, %d writes; want at least %+v", r.Done, r.CloudCalls, r.APIWrites, want))
	}
	most, known := mostWork[r.Scenario]
	if !known {
		return append(problems, fmt.Sprintf("the table of how much %s may take lacks it", r.Scenario))
	}
	if r.Implementation != oursName {
		return problems
	}
	if r.CloudCalls > most.calls || r.APIWrites > most.writes {
		problems = append(problems, fmt.Sprintf("%d calls, %d writes; want at most %+v", r.CloudCalls, r.APIWrites, most))
	}
	if most.perObject > 0 && r.MostPerObject > most.perObject {
		problems = append(problems, fmt.Sprintf("%d calls change one load balancer; want at most %d", r.MostPerObject, most.perObject))
	}
	return problems
}

func TestTwentyNodesMayChangeALoadBalancerTwice(t *testing.T) {
	r := Result{Scenario: twentyNodes, Implementation: oursName, Done: 2, CloudCalls: 10, APIWrites: 40, MostPerObject: 2}
	if got := problemsOf(r); got != nil {
		t.Errorf("two changes of each load balancer: %q", got)
	}
	r.MostPerObject = 3
	if got := problemsOf(r); len(got) != 1 || !strings.Contains(got[0], "3 calls change one load balancer") {
		t.Errorf("three changes of a load balancer: %q", got)
	}
	r.Implementation = upstreamName
	if got := problemsOf(r); got != nil {
		t.Errorf("three changes by upstream's: %q", got)
	}
}

func TestTheShareOfACoreIsOfTheWindowAlone(t *testing.T) {
	if got := corePercent(3*time.Second, 3600*time.Millisecond, time.Minute); got < 0.999 || got > 1.001 {
		t.Errorf("0.6 s of CPU in a minute are %v%% of a core, want 1", got)
	}
	window := Result{Scenario: steadyWindow, Seconds: 60, CPUSeconds: 0.6, CorePercent: 1}
	if got := figureOf("% of a core").text(window); got != "1.00" {
		t.Errorf("the table shows %q", got)
	}
	start := Result{Scenario: steadyStart, Seconds: 2, CPUSeconds: 3}
	if start.watched() || figureOf("% of a core").text(start) != "-" || figureOf("seconds").text(start) != "> 2.00" {
		t.Errorf("a start that was not over within the limit is shown as %q s, %q of a core",
			figureOf("seconds").text(start), figureOf("% of a core").text(start))
	}
}

func TestAListOfMembersIsJudgedOnce(t *testing.T) {
	asked := 0
	v := newVerdicts(func(members []string) bool {
		asked++
		return hasAll(members, []string{"b", "d"}) && hasNone(members, []string{"a", "z"})
	})
	good, bad, old := []string{"b", "c", "d"}, []string{"b", "c"}, []string{"a", "b", "d"}
	for range 3 {
		if !v.isGood(good) || v.isGood(bad) || v.isGood(old) {
			t.Errorf("the lists are judged %t, %t, %t", v.isGood(good), v.isGood(bad), v.isGood(old))
		}
	}
	if asked != 3 {
		t.Errorf("three lists were judged %d times", asked)
	}
	if v.isGood(nil) {
		t.Error("a load balancer without members passes")
	}
	changed := slices.Clone(bad) // as the cloud has it after a change
	if changed = append(changed, "d"); !v.isGood(changed) {
		t.Error("a new list is not judged by itself")
	}
}

func TestALargeClusterMayTakeLongerToPrepare(t *testing.T) {
	small, large := &world{setup: setup{nodes: 10}}, &world{setup: setup{nodes: 15000, services: 2000}}
	if s, l := small.preparing(), large.preparing(); s > 6*time.Minute || l < 20*time.Minute || l > time.Hour {
		t.Errorf("preparing may take %s and %s", s, l)
	}
}

func TestWhichGoalsAreReachedIsSaidOfWhatWasMeasured(t *testing.T) {
	join := Result{Scenario: "join", Implementation: oursName, Nodes: 15000, Seconds: 50, CloudCalls: 61, Complete: true}
	tuned := Result{Scenario: "join", Implementation: tunedName, Nodes: 15000, Seconds: 100, Complete: true}
	steady := Result{Scenario: steadyWindow, Implementation: oursName, Nodes: 15000, CorePercent: 0.9, Complete: true}
	throttled := join
	throttled.Throttled = true
	if got := reached([]Result{tuned, throttled}); len(got) != 0 {
		t.Errorf("of what has no goals, it is said %q", got)
	}
	want := []string{
		"goal of join: 15000 nodes: at most 1 seconds, in times of tuned upstream's: 0.50, reached",
		"goal of join: 15000 nodes: at most 60 cloud calls: 61.0, missed",
		"goal of steady: 15000 nodes: at most 1 percent of a core: 0.90, reached",
	}
	if got := reached([]Result{tuned, join, steady}); !slices.Equal(got, want) {
		t.Errorf("it is said %q, want %q", got, want)
	}
	join.Complete = false
	if got := reached([]Result{join}); len(got) != 1 || !strings.HasSuffix(got[0], "missed") {
		t.Errorf("of what was not done, and without upstream, it is said %q", got)
	}
	for _, g := range goals {
		r := Result{Scenario: g.scenario}
		if r.scenario() < 0 {
			t.Errorf("a goal is of the scenario %s, which is none", g.scenario)
		}
	}
}

func TestTheMemoryOfANodeIsSaidWhereItCanBe(t *testing.T) {
	small := Result{Scenario: steadyWindow, Implementation: oursName, Nodes: 5000, MaxRSSBytes: 60 << 20}
	large := Result{Scenario: steadyWindow, Implementation: oursName, Nodes: 15000, MaxRSSBytes: 60<<20 + 10000*6<<10}
	other := Result{Scenario: steadyWindow, Implementation: upstreamName, Nodes: 5000, MaxRSSBytes: 125 << 20}
	start := Result{Scenario: steadyStart, Implementation: oursName, Nodes: 15000, MaxRSSBytes: 1}
	want := "steady, ours: the memory grows by 6.00 KiB a node, from 5000 to 15000 nodes"
	if got := growths([]Result{small, other, start, large}); len(got) != 1 || got[0] != want {
		t.Errorf("it is said %q, want %q", got, want)
	}
	if got := markdown([]Result{small, large}); !strings.Contains(got, "|\n\n- "+want+"\n") {
		t.Errorf("the page does not have it:\n%s", got)
	}
	var table strings.Builder
	if err := WriteTable(&table, []Result{small, large}); err != nil || !strings.Contains(table.String(), want) {
		t.Errorf("the table lacks it, error %v:\n%s", err, table.String())
	}
}

func TestNodesAreAsLargeAsThoseOfKubelets(t *testing.T) {
	n := settled(12345)
	if len(n.Status.Images) != 50 || len(n.Annotations) < 3 || n.Status.NodeInfo.SystemUUID == settled(1).Status.NodeInfo.SystemUUID {
		t.Errorf("a node has %d images, annotations %v, UUID %s", len(n.Status.Images), n.Annotations, n.Status.NodeInfo.SystemUUID)
	}
	data, err := json.Marshal(n)
	if err != nil || len(data) < 8<<10 || len(data) > 24<<10 {
		t.Errorf("a node is %d bytes, %v", len(data), err)
	}
}

func TestAPageGetsTheResultsBetweenItsMarks(t *testing.T) {
	page := filepath.Join(t.TempDir(), "bench.md")
	write := func(text string) {
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	results := []Result{
		{Scenario: "join", Implementation: upstreamName, Nodes: 4, Seconds: 10, Complete: true, Done: 4, Of: 4, CloudCalls: 8, APIWrites: 8},
		{Scenario: "join", Implementation: oursName, Nodes: 4, Seconds: 5, Complete: true, Done: 4, Of: 4, CloudCalls: 2, APIWrites: 8},
	}
	begin, end := pageMarks("bench-short")
	otherBegin, otherEnd := pageMarks("bench-large")
	other := otherBegin + "of another target\n" + otherEnd
	write("before\n" + begin + "old\n" + end + "after\n" + other)
	if err := WritePage(page, "bench-short", "Measured on a day.", results); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"before\n", "Measured on a day.", "| join: 4 nodes | ours | 5.00 (0.5x) |", "| 2 (0.25x) | 8 (1x) |", "after\n" + other} {
		if !strings.Contains(string(got), part) {
			t.Errorf("the page lacks %q:\n%s", part, got)
		}
	}
	if strings.Contains(string(got), "old") {
		t.Error("the earlier results are still there")
	}
	write("no marks")
	if err := WritePage(page, "bench-short", "", results); err == nil || !strings.Contains(err.Error(), "to write results between") {
		t.Errorf("a page without marks: error %v", err)
	}
	if left, err := os.ReadFile(page); err != nil || string(left) != "no marks" {
		t.Errorf("it became %q, %v", left, err)
	}
}

// work is what has to be counted in a run, whoever does it.
type work struct{ done, calls, writes, perObject int }

// minimalWork is the least with which four nodes and two load balancers can be served.
var minimalWork = map[string]work{
	"join":                     {done: 4, calls: 1, writes: 4},
	oneNode:                    {done: 2, calls: 3, writes: 1},
	twentyNodes:                {done: 2, calls: 3, writes: 20},
	takeover:                   {},
	newServices:                {done: 20, calls: 23, writes: 41},
	replacedNodes:              {done: 22, calls: 23, writes: 1},
	"routes":                   {done: 4, calls: 5, writes: 4},
	"routes-failing":           {done: 4, calls: 5, writes: 4},
	"vanished":                 {done: 1, calls: 1, writes: 1},
	"zone-lost":                {done: 1},
	"parked":                   {done: 4},
	steadyStart:                {calls: 1},
	steadyWindow:               {},
	"handover-planned":         {done: 1, calls: 1, writes: 1},
	"handover-crash":           {done: 1, calls: 1, writes: 1},
	"handover-crash-migration": {done: 1, calls: 1, writes: 1},
}

// mostWork is how often ours may call the cloud and write, for four nodes and two load balancers. It is what was counted, and
// room for nodes that a busy machine keeps from being asked for together. Upstream's needs 4 calls for four nodes that join, 49
// for twenty nodes that follow each other, and 28 for a takeover. A load balancer may be changed perObject times; 0 is no bound.
var mostWork = map[string]work{
	"join":                     {calls: 3, writes: 14},
	oneNode:                    {calls: 4, writes: 8},
	twentyNodes:                {calls: 24, writes: 80, perObject: 2},
	takeover:                   {calls: 6, writes: 3},
	newServices:                {calls: 30, writes: 100},
	replacedNodes:              {calls: 30, writes: 36},
	"zone-lost":                {calls: 6, writes: 3},
	"routes":                   {calls: 10, writes: 8},
	"routes-failing":           {calls: 14, writes: 12},
	"vanished":                 {calls: 6, writes: 4},
	"parked":                   {calls: 6, writes: 2},
	steadyStart:                {calls: 5, writes: 2},
	steadyWindow:               {calls: 5, writes: 2},
	"handover-planned":         {calls: 6, writes: 6},
	"handover-crash":           {calls: 6, writes: 6},
	"handover-crash-migration": {calls: 6, writes: 6},
}
