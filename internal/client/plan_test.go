package client

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/document"
)

// keptPlan is a file that transplant plan --out of commit ccfc4653 wrote, the last one of schema 1. It is of that commit's capture aws-v1.26.0.yaml.
const keptPlan = "testdata/kept/ccfc4653-aws.plan.yaml"

func TestAPlanFileOfSchema1IsReadAndNothingOfItIsLost(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(keptPlan)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ReadPlan(keptPlan)
	if err != nil {
		t.Fatal(err)
	}
	if p.Schema != 0 || p.ToolVersion != "v0.1.0" || len(p.Steps) != 54 || len(p.Facts) != 44 {
		t.Errorf("it is of schema %d by %s, with %d steps and %d facts", p.Schema, p.ToolVersion, len(p.Steps), len(p.Facts))
	}
	again, err := yaml.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var was, is any
	for into, text := range map[*any][]byte{&was: data, &is: again} {
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("what is read is not what is in the file:\n%s", diff)
	}
}

func TestAPlanFileOfALaterSchemaIsRefused(t *testing.T) {
	t.Parallel()
	p, err := ReadPlan(keptPlan)
	if err != nil {
		t.Fatal(err)
	}
	p.Schema, p.ToolVersion = v1.PlanSchema+1, "v9.1.0"
	data, err := yaml.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := ReadPlan(path)
	newer, is := errors.AsType[*document.NewerError](err)
	if read != nil || !is || newer.Writer != "v9.1.0" || newer.Known != v1.PlanSchema {
		t.Fatalf("it is read as %v, %v", read, err)
	}
	want := fmt.Sprintf("has schema %d, and this version of transplant knows no more than schema %d of it: use transplant v9.1.0, which wrote it, or a later version",
		v1.PlanSchema+1, v1.PlanSchema)
	if !strings.Contains(err.Error(), want) {
		t.Errorf("it ends with %v, want %s", err, want)
	}
}
