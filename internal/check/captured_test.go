package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/findings"
)

// allRules are the cases of all checks.
func allRules() []ruleCase {
	return slices.Concat(
		accessRules,
		controlPlaneRules,
		leaderMigrationRules,
		ownershipRules,
		versionRules,
		configRules,
		nodeRules,
		cloudRules,
		toolingRules,
		planeRules,
		migrationRules,
		skewRules,
		credentialRules,
		identityRules,
		balancerRules,
		routeRules,
		volumeRules,
		machineRules,
		kubeletRules,
		schedulingRules,
		factRules,
	)
}

// capturedJSON are captured snapshots as JSON, by name: YAML is read once, since tests change what they get and take it many times.
var capturedJSON = map[string][]byte{}

// captured is a snapshot that was taken of real API servers, with a preview in which nothing changes.
func captured(t *testing.T, name string) *v1.Snapshot {
	t.Helper()
	if capturedJSON[name] == nil {
		data, err := os.ReadFile(filepath.Join("testdata", "captured", name))
		if err != nil {
			t.Fatal(err)
		}
		if capturedJSON[name], err = yaml.YAMLToJSONStrict(data); err != nil {
			t.Fatal(err)
		}
	}
	s := &v1.Snapshot{}
	decoder := json.NewDecoder(bytes.NewReader(capturedJSON[name]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(s); err != nil {
		t.Fatal(err)
	}
	if s.Preview == nil {
		previewed(s)
	}
	return s
}

// problemNumber is how the name of a case says which problem of the field it is: the numbers of docs/reference/field-problems.md.
var problemNumber = regexp.MustCompile(`\bF(\d\d)\b`)

// problemsOf are the numbers in the name of a case.
func problemsOf(name string) []string {
	var out []string
	for _, m := range problemNumber.FindAllStringSubmatch(name, -1) {
		out = append(out, m[1])
	}
	return out
}

// elsewhere are field problems that cannot be made of the captured cluster of AWS by the change of a case alone.
var elsewhere = map[string]string{
	"02": "its instances are named by address",
	"13": "it is vSphere's",
	"32": "it is OpenStack's",
	"46": "a right is missing while the new manager runs, and the captured cluster has none yet",
	"49": "it is Azure's",
	"50": "its instances let pods reach the metadata service",
	"61": "its kubelets have no CSI migration to be out of order",
	"65": "its kubelets have no CSI migration to be left early",
	"67": "it has one StorageClass",
	"70": "its StorageClass allows no expansion",
	"82": "it has no machine objects",
}

// TestEveryFieldProblemIsFoundOnACapturedCluster does each problem of the field to a cluster that was captured from real API servers. The cases were
// written for a small invented one; where a case asks for an object that the captured cluster does not have, another one of the same problem must do.
func TestEveryFieldProblemIsFoundOnACapturedCluster(t *testing.T) {
	seen, misses := map[string]bool{}, map[string][]string{}
	for _, tc := range allRules() {
		ids := problemsOf(tc.name)
		if len(ids) == 0 || tc.want != fails && tc.want != warn {
			continue
		}
		got, fits := tc.onCaptured(t)
		for _, id := range ids {
			seen[id] = seen[id] || fits && got == tc.want
			if !fits || got != tc.want {
				misses[id] = append(misses[id], fmt.Sprintf("%s %s: %s", tc.code, tc.name, findings.OrElse(string(got), "does not fit")))
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		if elsewhere[id] == "" && !seen[id] {
			t.Errorf("F%s is not found on the captured cluster: %q", id, misses[id])
		}
	}
}

// onCaptured runs a case on the captured cluster; it does not fit where the case reaches for what that cluster does not have.
func (tc ruleCase) onCaptured(t *testing.T) (outcome v1.Outcome, fits bool) {
	t.Helper()
	if tc.base != nil {
		return "", false
	}
	s := captured(t, "aws-v1.26.0.yaml")
	defer func() {
		if recover() != nil {
			outcome, fits = "", false
		}
	}()
	if tc.change != nil {
		tc.change(s)
	}
	return found(t, Run(s, tc.opts), tc.code).Outcome, true
}

// TestEveryFieldProblemHasACase holds each check that the reference names for a problem to a case of that problem.
func TestEveryFieldProblemHasACase(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "field-problems.md"))
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]bool{}
	for _, tc := range allRules() {
		for _, id := range problemsOf(tc.name) {
			cases[id+" "+tc.code] = true
		}
	}
	code := regexp.MustCompile(`\[([A-Z]+-\d{3})\]\(checks\.md`)
	rows := 0
	for _, row := range regexp.MustCompile(`(?m)^\| F(\d\d) .*$`).FindAllStringSubmatch(string(page), -1) {
		rows++
		for _, answer := range code.FindAllStringSubmatch(row[0], -1) {
			if !cases[row[1]+" "+answer[1]] {
				t.Errorf("F%s is answered by %s, which has no case of it", row[1], answer[1])
			}
		}
	}
	if rows == 0 {
		t.Error("the page lists no problem")
	}
}
