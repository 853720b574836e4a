package catalogue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// inTreeSource is the last version of the in-tree provider that the table was read from, and its directory.
var inTreeSource = map[string][2]string{
	"aws": {"1.26.0", "aws"}, "azure": {"1.29.0", "azure"}, "gce": {"1.30.14", "gce"}, "openstack": {"1.25.0", "openstack"},
}

// TestWhatBeginsIsNotInTree holds the table to the in-tree providers' source: an annotation that stands there does something already.
func TestWhatBeginsIsNotInTree(t *testing.T) {
	for provider, at := range inTreeSource {
		source := sourceOf(filepath.Join(moduleDir("legacy-cloud-providers", at[0]), at[1]))
		if source == "" {
			t.Logf("legacy-cloud-providers %s is not on this machine", at[0])
			continue
		}
		for _, row := range annotationRows[provider] {
			closing := `"`
			if row.Family {
				closing = ""
			}
			there := strings.Contains(source, `"`+row.Key+closing)
			switch {
			case row.Reading == Begins && there:
				t.Errorf("%s: %s is known to the in-tree provider of %s", provider, row.Key, at[0])
			case row.Reading == Lost && there:
				t.Errorf("%s: %s is lost before %s, by the table", provider, row.Key, at[0])
			case (row.Reading == Elsewhere || row.Reading == Refused && row.With == nil) && !there:
				t.Errorf("%s: %s is not known to the in-tree provider of %s", provider, row.Key, at[0])
			}
		}
	}
}

func TestWhatAWSReadsIsInItsExternalProvider(t *testing.T) {
	source := sourceOf(filepath.Join(filepath.Dir(moduleDir("cloud-provider", "1.26.0")), "cloud-provider-aws@v1.37.0", "pkg", "providers", "v1"))
	if source == "" {
		t.Skip("cloud-provider-aws v1.37.0 is not on this machine")
	}
	for _, row := range annotationRows["aws"] {
		if !strings.Contains(source, `"`+row.Key+`"`) {
			t.Errorf("%s is not known to cloud-provider-aws v1.37.0", row.Key)
		}
	}
}

// sourceOf is the text of a package without its tests; empty when it is not there.
func sourceOf(dir string) string {
	files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	var out strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		data, err := os.ReadFile(file)
		if err == nil {
			out.Write(data)
		}
	}
	return out.String()
}
