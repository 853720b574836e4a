package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files again")

// golden compares a text with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs; if that is meant, run the test with -update (-want +got):\n%s", path, diff)
	}
}

func rendered(t *testing.T, r v1.Report, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r, format); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var extensions = map[string]string{"html": "html", "json": "json", "markdown": "md", "svg": "svg", "yaml": "yaml"}

func TestGoldenReportOfAMigration(t *testing.T) {
	r := Build(migration())
	for _, format := range Formats {
		golden(t, "migration."+extensions[format], rendered(t, r, format))
	}
}

func TestALabelTellsHostsApart(t *testing.T) {
	for manager, want := range map[string]string{
		"kube-controller-manager@ip-10-77-0-11.ec2.internal": "KCM ip-10-77-0-11",
		"cloud-controller-manager@cp-1":                      "CCM cp-1",
		"cloud-controller-manager@10.0.0.1":                  "CCM 10.0.0.1",
		"nobody":                                             "nobody",
	} {
		if got := short(manager); got != want {
			t.Errorf("%s is labelled %q, not %q", manager, got, want)
		}
	}
}
