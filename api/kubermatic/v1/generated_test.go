package v1

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

// The sums are those of everything that generation reads and writes, so that neither a type nor a file that was generated can be changed alone. That
// needs no program that would have to be fetched.
func TestTheGeneratedFilesAreThoseOfTheTypes(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "deploy/crds/generated.sha256"))
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(data)) {
		want, path, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("line %q is not a sum and a path", line)
		}
		listed = append(listed, path)
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Errorf("%s was there at the last generation: %v; run make generate-api", path, err)
			continue
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s was changed after the last generation: run make generate-api", path)
		}
	}
	for _, pattern := range []string{"api/kubermatic/v1/*.go", "deploy/crds/*.yaml"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			path, _ = filepath.Rel(root, path)
			if !strings.HasSuffix(path, "_test.go") && !slices.Contains(listed, path) {
				t.Errorf("%s came after the last generation: run make generate-api", path)
			}
		}
	}
}

func TestBothGroupsHaveTheSameSchema(t *testing.T) {
	read := func(group string) string {
		data, err := os.ReadFile(filepath.Join(root, "deploy/crds", group+"_clusters.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	today, legacy := read(GroupName), read(LegacyGroupName)
	approval := ""
	for line := range strings.Lines(legacy) {
		if strings.Contains(line, "api-approved.kubernetes.io: \"unapproved, ") {
			approval = line
		}
	}
	if approval == "" {
		t.Error("the CRD of the protected group does not say that it is unapproved: API servers refuse it")
	}
	if strings.ReplaceAll(strings.Replace(legacy, approval, "", 1), LegacyGroupName, GroupName) != today {
		t.Error("the CRDs differ in more than the group: run make generate-api")
	}
}
