package conformance

import (
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/names"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged // several managers of one process set the same loggers
	logNothing()
	os.Setenv("KUBE_FEATURE_WatchListClient", "false") // the API servers of these tests list, then watch
	os.Exit(m.Run())
}

// logNothing keeps hours of simulated time out of a failed test's output, where nobody found what had failed.
func logNothing() { klog.SetSlogLogger(slog.New(slog.DiscardHandler)) }

// isRaced is set in tests that are built with the race detector.
var isRaced bool

// needUnraced skips a test in which upstream's service controller runs under the race detector. It reads a Service in its
// cache while another worker writes it (controller.go:503 and 339 of v0.37.2), so that the test would fail by chance.
func needUnraced(t *testing.T) {
	t.Helper()
	if isRaced {
		t.Skip("upstream's service controller has a data race: run this test without -race")
	}
}

func TestOursDoesWhatUpstreamDoes(t *testing.T) {
	needUnraced(t)
	results := slices.Concat(Run(t, Scenarios(), nil), runManagers(t))
	t.Log("\n" + Table(results))
	compareMeant(t, results)
	seen := map[Difference]bool{}
	for _, r := range results {
		seen[r.Scenario.Meant] = seen[r.Scenario.Meant] || len(r.Differences) > 0
		if r.Scenario.Meant != "" && !slices.Contains(Differences, r.Scenario.Meant) {
			t.Errorf("%q shows a difference that is not listed: %s", r.Scenario.Name, r.Scenario.Meant)
		}
	}
	for _, d := range Differences {
		if !seen[d] {
			t.Errorf("no scenario shows the difference that is listed: %s", d)
		}
	}
}

var update = flag.Bool("update", false, "write testdata/meant.txt again")

// A difference that is meant is one that was looked at: what ours does there, and no other thing that upstream does not do either.
func compareMeant(t *testing.T, results []Result) {
	t.Helper()
	const file = "testdata/meant.txt"
	var b strings.Builder
	for _, r := range results {
		if r.Scenario.Meant == "" {
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", r.Scenario.Controller, r.Scenario.Name)
		changes := r.Ours.Changes
		if r.Scenario.Endless {
			changes = once(changes)
		}
		for _, object := range slices.Sorted(maps.Keys(changes)) {
			for _, call := range changes[object] {
				fmt.Fprintf(&b, "  calls %s\n", call)
			}
		}
		for _, event := range r.Ours.Events {
			fmt.Fprintf(&b, "  tells %s\n", event)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); diff != "" {
		t.Errorf("ours does something else where it is meant to differ (-want +got); look at it, and run go test ./ccm/conformance -update:\n%s", diff)
	}
}

// The issue allows six differences at most, each in the table of "Change one import", with its reason.
func TestEveryMeantDifferenceIsDocumentedWithItsReason(t *testing.T) {
	page, err := os.ReadFile("../../docs/explanation/cloud-controller-manager.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### Change one import\n")
	_, section, _ = strings.Cut(section, "\n| difference | reason |\n|---|---|\n")
	var documented []string
	for line := range strings.SplitSeq(section, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 4 { // the table is over
			break
		}
		documented = append(documented, strings.TrimSpace(cells[1]))
		if strings.TrimSpace(cells[2]) == "" {
			t.Errorf("the documented difference %q has no reason", cells[1])
		}
	}
	var listed []string
	for _, d := range Differences {
		listed = append(listed, string(d))
	}
	if !slices.Equal(documented, listed) {
		t.Errorf("the documented differences are\n%s\nand those that are listed\n%s", strings.Join(documented, "\n"), strings.Join(listed, "\n"))
	}
	if n := len(Differences); n > 6 {
		t.Errorf("%d differences are meant", n)
	}
}

// A difference must say what it is about, or it would excuse whatever a scenario of another controller shows.
func TestTheComparedDifferenceNamesWhatItsScenariosShow(t *testing.T) {
	about := map[string]string{
		names.ServiceLBController: "load balancers", names.NodeRouteController: "routes",
		names.CloudNodeController: "Nodes", names.CloudNodeLifecycleController: "Nodes",
	}
	shown := map[string]bool{}
	for _, s := range Scenarios() {
		if s.Meant != ComparedWithWhatShouldBe {
			continue
		}
		what := about[s.Controller]
		shown[what] = true
		if !strings.Contains(string(s.Meant), what) {
			t.Errorf("%s: %q shows a difference that is not about %s: %s", s.Controller, s.Name, what, s.Meant)
		}
	}
	for _, what := range about {
		if !shown[what] {
			t.Errorf("no scenario shows how %s are compared", what)
		}
	}
}

// What the suite compares has to be seen by it: a controller that does something else is found.
func TestTheSuiteSeesWhatIsDifferent(t *testing.T) {
	needUnraced(t)
	s := Scenario{Name: "test", Controller: serviceScenarios()[0].Controller, Before: serviceScenarios()[3].Before}
	base := observe(t, upstreams, s, nil)
	for what, change := range map[string]func(*Observed){
		"calls that change the cloud": func(o *Observed) { o.Changes = map[string][]string{} },
		"objects":                     func(o *Observed) { o.Objects = nil },
		"events":                      func(o *Observed) { o.Events = o.Events[1:] },
		"series that have counted":    func(o *Observed) { o.Metrics = nil },
		"GetLoadBalancer is called":   func(o *Observed) { o.Reads = map[string]int{"GetLoadBalancer": 7} },
	} {
		other := base
		change(&other)
		if found := differences(s, base, other); len(found) != 1 || !strings.HasPrefix(found[0], what) {
			t.Errorf("%s: found %q", what, found)
		}
	}
	if found := differences(s, base, base); len(found) > 0 {
		t.Errorf("nothing is different, found %q", found)
	}
}

// authors is a provider of an author's, as far as the scenarios that need no set-up ask it.
type authors struct{ *simulated }

func (authors) ProviderName() string { return "authors" }

func TestAnAuthorsProviderRunsTheScenariosThatSetUpNothing(t *testing.T) {
	needUnraced(t)
	made := 0
	results := Run(t, Scenarios(), func() cloudprovider.Interface {
		made++
		return authors{&simulated{&Cloud{Status: &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: "authors.example"}}}}}}
	})
	if len(results) < 70 || made != 2*len(results) {
		t.Errorf("%d scenarios were run, with %d providers", len(results), made)
	}
	for _, r := range results {
		if r.Scenario.Cloud != nil {
			t.Errorf("%q was run, and needs the simulated cloud", r.Scenario.Name)
		}
	}
}
