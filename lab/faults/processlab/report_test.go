package processlab

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/trial"
)

// report is the product's own judgement of the migration that ran last. Campaigns keep their ownership logs where the trial's commands do.
func report(t *testing.T, lab *Lab) v1.Report {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	must(t, lab, "report", "-o", "json", "--out", file, "--cloud", trial.Cloud, "--cloud-audit", lab.AuditFile(), "--cloud-keys", lab.KeysFile())
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r v1.Report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return r
}
