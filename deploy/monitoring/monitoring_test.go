package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	page = "../../docs/reference/alerts.md"
	base = "https://github.com/transplant-dev/transplant/blob/main/docs/reference/alerts.md#"
)

// tests are promtool's.
var tests = []string{"rules_test.yaml", "days_test.yaml"}

type rule struct {
	Record, Alert, Expr string
	Labels, Annotations map[string]string
}

func rules(t *testing.T) (out []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(read(t, "rules.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) < 20 {
		t.Fatalf("%d rules were read", len(out))
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Each alert says how bad it is and what to do, and is told in the page; and each section of the page is of an alert.
func TestEveryAlertIsExplained(t *testing.T) {
	text := read(t, page)
	var sections []string
	for _, m := range regexp.MustCompile(`(?m)^### (\S+)$`).FindAllStringSubmatch(text, -1) {
		sections = append(sections, m[1])
	}
	var alerts []string
	for _, r := range rules(t) {
		if r.Alert == "" {
			if !strings.Contains(text, "`"+r.Record+"`") {
				t.Errorf("%s does not say what %s is", page, r.Record)
			}
			continue
		}
		alerts = append(alerts, r.Alert)
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s has severity %q", r.Alert, r.Labels["severity"])
		}
		if a := r.Annotations; !strings.HasSuffix(a["summary"], ".") || strings.Contains(a["summary"], "{{") || a["description"] == "" {
			t.Errorf("%s: annotations %v", r.Alert, a)
		}
		if want := base + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url %s, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
	}
	if !slices.Equal(alerts, sections) {
		t.Errorf("alerts, and the sections of %s:\n%v\n%v", page, alerts, sections)
	}
}

// Every alert has a test in which it fires; what promtool makes of them, TestRulesDoWhatTheirTestsSay says.
func TestEveryAlertIsTested(t *testing.T) {
	fires := map[string]bool{}
	for _, name := range tests {
		var file struct {
			Tests []struct {
				Cases []struct {
					Alertname string
					Expected  []any `json:"exp_alerts"`
				} `json:"alert_rule_test"`
			}
		}
		if err := yaml.Unmarshal([]byte(read(t, name)), &file); err != nil {
			t.Fatal(err)
		}
		for _, test := range file.Tests {
			for _, c := range test.Cases {
				fires[c.Alertname] = fires[c.Alertname] || len(c.Expected) > 0
			}
		}
	}
	for _, r := range rules(t) {
		if r.Alert != "" && !fires[r.Alert] {
			t.Errorf("%s fires in no test of %v", r.Alert, tests)
		}
	}
}

// elsewhere are series of programs that are none of ours.
var elsewhere = []string{"kube_node_spec_taint"}

// No rule asks for a series that nothing has: it would be silent for ever.
func TestRulesAskForSeriesThatThereAre(t *testing.T) {
	known := ""
	for _, name := range []string{"metrics.md", "operator.md", "migration-metrics.md"} {
		known += read(t, "../../docs/reference/"+name)
	}
	name := regexp.MustCompile(`\b(transplant|node_controller|service_controller|running|kube|leader)_[a-z_]+`)
	var recorded []string
	for _, r := range rules(t) {
		recorded = append(recorded, r.Record)
	}
	asked := 0
	for _, r := range rules(t) {
		for _, series := range name.FindAllString(r.Expr, -1) {
			plain := strings.TrimSuffix(strings.TrimSuffix(series, "_bucket"), "_count")
			if !slices.Contains(elsewhere, series) && !strings.Contains(known, "`"+plain+"`") {
				t.Errorf("%s%s asks for %s, which nothing has", r.Alert, r.Record, series)
			}
			asked++
		}
		for _, series := range regexp.MustCompile(`transplant:[a-z0-9_:]+`).FindAllString(r.Expr, -1) {
			if !slices.Contains(recorded, series) {
				t.Errorf("%s%s asks for %s, which no rule records", r.Alert, r.Record, series)
			}
		}
	}
	if asked < 20 {
		t.Errorf("%d series were found in the rules", asked)
	}
}

// The workflow sets TRANSPLANT_PROMTOOL=required: a runner that loses the package would skip this test for ever and stay green.
func TestRulesDoWhatTheirTestsSay(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("TRANSPLANT_PROMTOOL") == "required" {
			t.Fatal("no promtool: the rules would go untested; install the package prometheus")
		}
		t.Skip("needs promtool: Debian's package prometheus has it")
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, append([]string{"test", "rules"}, tests...)} {
		out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		if err != nil {
			t.Error(fmt.Errorf("promtool %v: %w\n%s", args, err, out))
		}
	}
}
