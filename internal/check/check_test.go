package check

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/component"
)

func TestAHealthyClusterIsNotBlocked(t *testing.T) {
	for name, s := range map[string]*v1.Snapshot{"in-tree": healthy(), "migrated": migrated()} {
		t.Run(name, func(t *testing.T) {
			r := Run(s, facts.Options{})
			if r.Summary.Blocked {
				t.Error("the report blocks")
			}
			for _, f := range r.Findings {
				if f.Outcome != v1.Pass && f.Outcome != v1.Skip && f.Code != "GAP-001" {
					t.Errorf("%s is %s: %s (%s)", f.Code, f.Outcome, f.Summary, f.Found)
				}
			}
		})
	}
}

func TestTheReportIsInTheOrderOfTheListAndCounts(t *testing.T) {
	s := healthy()
	s.Nodes[0].Ready = "False"                           // warn
	s.Nodes[1].ProviderID = ""                           // fail
	s.Cloud.Errors = []string{"loadbalancers: no right"} // unknown
	r := Run(s, facts.Options{})
	var codes []string
	count := map[v1.Outcome]int{}
	for _, f := range r.Findings {
		codes = append(codes, f.Code)
		count[f.Outcome]++
	}
	var want []string
	for _, c := range List() {
		want = append(want, c.Code)
	}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	summary := v1.CheckSummary{
		Passed: count[v1.Pass], Warned: count[v1.Warn], Failed: count[v1.Fail], Skipped: count[v1.Skip], Unknown: count[v1.Unknown],
		Blocked: true,
	}
	if diff := cmp.Diff(summary, r.Summary); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if r.Summary.Warned != 2 || r.Summary.Failed != 1 || r.Summary.Unknown != 1 {
		t.Errorf("got %+v, want 2 warnings (GAP-001 and NODE-003), 1 failure and 1 unknown", r.Summary)
	}
}

func TestRunIsDeterministicAndLeavesTheSnapshotAlone(t *testing.T) {
	s := migrated()
	migrating(s, component.CCM, shortNames)
	setFlags(s, 1, component.KCM, map[string]string{"cluster-name": "other", "cluster-cidr": "10.0.0.0/8"})
	before := encode(t, s)
	first := encode(t, Run(s, facts.Options{}))
	for range 20 {
		if again := encode(t, Run(s, facts.Options{})); again != first {
			t.Fatalf("the same snapshot gave another report:\n%s", cmp.Diff(first, again))
		}
	}
	if after := encode(t, s); after != before {
		t.Errorf("the snapshot was changed:\n%s", cmp.Diff(before, after))
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestOneCauseIsOneLine(t *testing.T) {
	s := &v1.Snapshot{TakenAt: taken}
	cannotGather(s, "cluster/uid", "cluster/version", "nodes", "services", "leases", "access", "pods", "hosts")
	r := Run(s, facts.Options{})
	var unknown []string
	for _, f := range r.Findings {
		switch f.Outcome {
		case v1.Unknown:
			unknown = append(unknown, f.Code)
		case v1.Skip:
			if !strings.HasPrefix(f.Summary, "needs ") {
				t.Errorf("%s is skipped for another reason: %s", f.Code, f.Summary)
			}
		case v1.Pass, v1.Warn, v1.Fail:
			t.Errorf("%s is %s although nothing is known: %s", f.Code, f.Outcome, f.Summary)
		}
	}
	if diff := cmp.Diff([]string{"API-001", "HOST-001", "CLOUD-001"}, unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	if !r.Summary.Blocked {
		t.Error("nothing is known and nothing blocks")
	}
}

func TestAcceptTakesWhatIsNotMandatory(t *testing.T) {
	s := healthy()
	s.Nodes[0].ProviderID = ""
	r := Run(s, facts.Options{Accept: map[string]string{"node-001": "it is drained and about to go"}})
	if f := found(t, r, "NODE-001"); f.Outcome != v1.Fail || f.Accepted != "it is drained and about to go" {
		t.Errorf("got %+v, want a failure that is accepted", f)
	}
	if r.Summary.Blocked || r.Summary.Accepted != 1 {
		t.Errorf("got %+v, want one accepted and nothing blocked", r.Summary)
	}

	setFlags(s, 0, component.KCM, map[string]string{"leader-elect": "false"})
	if r = Run(s, facts.Options{Accept: map[string]string{"CP-002": "whatever"}}); !r.Summary.Blocked || found(t, r, "CP-002").Accepted != "" {
		t.Error("a mandatory finding was accepted")
	}
}

func TestAMandatoryCheckCanBeAcceptedOnlyWhenItIsUnknown(t *testing.T) {
	accept := facts.Options{Accept: map[string]string{"LM-006": "the kubeconfig has no certificate"}}
	s := healthy()
	s.Managers[2].Error = "no credentials"
	if r := Run(s, accept); r.Summary.Blocked || found(t, r, "LM-006").Accepted == "" {
		t.Errorf("an unknown owner was not accepted: %+v", found(t, r, "LM-006"))
	}
	s = healthy()
	s.Managers[1].Loops = []string{"service"}
	if r := Run(s, accept); !r.Summary.Blocked || found(t, r, "LM-006").Accepted != "" {
		t.Error("two owners were accepted")
	}
}

func TestAnAcceptanceSaysWhoGaveItAndWhen(t *testing.T) {
	s := healthy()
	s.Nodes[0].ProviderID = ""
	r := Run(s, facts.Options{Accept: map[string]string{"NODE-001": "it goes today"}, AcceptedBy: "ops@bastion", AcceptedAt: taken})
	f := found(t, r, "NODE-001")
	if f.Accepted != "it goes today" || f.AcceptedBy != "ops@bastion" || f.AcceptedAt == nil || !f.AcceptedAt.Equal(taken) {
		t.Errorf("got %q by %q at %v", f.Accepted, f.AcceptedBy, f.AcceptedAt)
	}
	if passed := found(t, r, "API-001"); passed.AcceptedBy != "" || passed.AcceptedAt != nil {
		t.Errorf("a check that passes was accepted by %s", passed.AcceptedBy)
	}
	if r = Run(s, facts.Options{Accept: map[string]string{"NODE-001": "it goes today"}}); found(t, r, "NODE-001").AcceptedAt != nil {
		t.Error("the zero time was taken for a time")
	}
}

func TestAcceptancesThatNothingNeedsAreNamed(t *testing.T) {
	s := healthy()
	s.Nodes[0].ProviderID = "" // fails
	s.Nodes[1].Ready = "False" // warns
	r := Run(s, facts.Options{Accept: map[string]string{"node-001": "going", "NODE-003": "known", "VER-006": "old kubelets"}})
	if diff := cmp.Diff([]string{"NODE-003", "VER-006"}, r.StaleAcceptances); diff != "" {
		t.Errorf("stale acceptances (-want +got):\n%s", diff)
	}
	if r = Run(s, facts.Options{}); r.StaleAcceptances != nil {
		t.Errorf("nobody accepted anything, and %v are stale", r.StaleAcceptances)
	}
}

func TestADependentOfAFailureSaysOnWhatItWaits(t *testing.T) {
	s := healthy()
	manager(s, 0, component.KCM).Error = "not a Pod"
	for _, f := range Run(s, facts.Options{}).Findings {
		if f.Code == "LM-011" && (f.Outcome != v1.Skip || f.DependsOn != "CP-003" || f.Summary != "needs CP-003 first") {
			t.Errorf("got %s, depends on %q: %s", f.Outcome, f.DependsOn, f.Summary)
		}
	}
}

// The whole list grows with the nodes and not with their square, on clusters where what could not be gathered is said node by node. How long it takes is
// BenchmarkRun's.
func TestFourTimesTheNodesAreFourTimesTheWork(t *testing.T) {
	work := func(nodes int) float64 {
		s := large(nodes, 4*nodes)
		for i := range s.Nodes {
			cannotGather(s, "hosts/"+s.Nodes[i].Name+"/kubelet", "preview/"+s.Nodes[i].Name, "clocks/"+s.Nodes[i].Name)
		}
		return testing.AllocsPerRun(1, func() { Run(s, facts.Options{}) })
	}
	if few, many := work(125), work(500); many > 6*few {
		t.Errorf("%.0f allocations for 125 nodes, %.0f for 500", few, many)
	}
}

func BenchmarkRun(b *testing.B) {
	for _, nodes := range []int{5, 500} {
		b.Run(fmt.Sprintf("%d nodes", nodes), func(b *testing.B) {
			s := large(nodes, 4*nodes)
			for b.Loop() {
				Run(s, facts.Options{})
			}
		})
	}
}

func TestValidateAccept(t *testing.T) {
	for name, tc := range map[string]struct {
		accept map[string]string
		want   string
	}{
		"a check that can be accepted":  {map[string]string{"NODE-002": "the nodes go anyway"}, ""},
		"a check whose unknown can be":  {map[string]string{"LM-006": "no certificate"}, ""},
		"a code that no check has":      {map[string]string{"XY-999": "reason"}, `accepting "XY-999": there is no such check`},
		"a mandatory check":             {map[string]string{"LM-001": "reason"}, "accepting LM-001: it is mandatory"},
		"a reason that is only a space": {map[string]string{"NODE-002": " "}, "accepting NODE-002: give a reason"},
	} {
		t.Run(name, func(t *testing.T) {
			err := ValidateAccept(tc.accept)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestEveryCheckIsComplete(t *testing.T) {
	code := regexp.MustCompile(`^[A-Z]+-\d{3}$`)
	reason := regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	levels := []string{findings.LevelInfo, findings.LevelWarning, findings.LevelError, findings.LevelCritical}
	seen, categories := map[string]bool{}, []string{}
	for _, c := range Checks {
		switch {
		case !code.MatchString(c.Code), !reason.MatchString(c.Reason):
			t.Errorf("%s %s is not a code and a CamelCase reason", c.Code, c.Reason)
		case seen[c.Code], seen[c.Reason]:
			t.Errorf("%s or %s is used twice", c.Code, c.Reason)
		case !slices.Contains(levels, c.Level), !slices.Contains(findings.Impacts, c.Impact):
			t.Errorf("%s has level %q and impact %q", c.Code, c.Level, c.Impact)
		case c.Judge == nil:
			t.Errorf("%s judges nothing", c.Code)
		}
		for _, on := range c.DependsOn {
			if !seen[on] {
				t.Errorf("%s depends on %s, which does not come before it", c.Code, on)
			}
		}
		seen[c.Code], seen[c.Reason] = true, true
		if len(categories) == 0 || categories[len(categories)-1] != c.Category {
			if slices.Contains(categories, c.Category) {
				t.Errorf("%s tears the category %q apart", c.Code, c.Category)
			}
			categories = append(categories, c.Category)
		}
	}
}

func TestRulesImportNoClient(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		for _, banned := range []string{"k8s.io/client-go", "github.com/aws/", "net/http"} {
			if strings.HasPrefix(strings.TrimSpace(dep), banned) {
				t.Errorf("the rules depend on %s: they judge facts and talk to nobody", strings.TrimSpace(dep))
			}
		}
	}
}
