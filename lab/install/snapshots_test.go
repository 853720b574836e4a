package install

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/internal/manifests"
)

var update = flag.Bool("update", false, "write the snapshots of the charts")

const (
	snapshotDir    = "testdata/charts"
	valuesSuffix   = "-values.yaml"
	notesOfRelease = "# What helm install says then:\n"
)

// TestChartsRenderTheirSnapshots holds each chart to what it rendered last, so that a change of a template is seen where it
// changes what is installed. Each testdata/charts/CHART/NAME-values.yaml has a snapshot next to it, NAME.yaml.
func TestChartsRenderTheirSnapshots(t *testing.T) {
	o := withHelm(t)
	for chart, namespace := range map[string]string{manifests.ChartDir: kubeSystem, operatorChart: "transplant-system"} {
		files, err := filepath.Glob(filepath.Join(snapshotDir, filepath.Base(chart), "*"+valuesSuffix))
		if err != nil || len(files) < 2 {
			t.Fatalf("values of %s: %v, %v", chart, files, err)
		}
		for _, values := range files {
			name := strings.TrimSuffix(values, valuesSuffix)
			t.Run(name, func(t *testing.T) {
				given, err := filepath.Abs(values)
				if err != nil {
					t.Fatal(err)
				}
				got := release(t, o.must(
					t, o.helm, "install", "snapshot", chart, "--namespace", namespace, "--values", given, "--dry-run=client", "-o", "json",
				))
				objects(t, got) // it is YAML, and no object is there twice
				if *update {
					if err := os.WriteFile(name+".yaml", []byte(got), 0o644); err != nil { //nolint:gosec // as the repository has its files
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(name + ".yaml")
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Errorf("%s renders something else with %s; read it, and run go test ./install -install.all -update (-snapshot +chart):\n%s", chart, values, diff)
				}
			})
		}
	}
}

// release is what Helm would install: its manifest, and below it, as a comment, what it says to its user.
func release(t *testing.T, document string) string {
	t.Helper()
	var r struct {
		Manifest string
		Info     struct{ Notes string }
	}
	if err := json.Unmarshal([]byte(document), &r); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	if !strings.Contains(r.Manifest, "serviceAccountName: ") || !strings.Contains(r.Info.Notes, "kubectl") {
		t.Fatalf("Helm renders no manifest, or says nothing:\n%s", document)
	}
	var b strings.Builder
	b.WriteString(strings.TrimSpace(r.Manifest) + "\n---\n" + notesOfRelease)
	for line := range strings.Lines(strings.TrimSpace(r.Info.Notes)) {
		b.WriteString(strings.TrimRight("# "+strings.TrimRight(line, "\n"), " ") + "\n")
	}
	return b.String()
}
