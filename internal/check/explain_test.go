package check

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/hosted"
	"github.com/transplant-dev/transplant/internal/component"
)

var update = flag.Bool("update", false, "write the reference page")

const referencePage = "../../docs/reference/checks.md"

func TestTheReferencePageIsWhatTheChecksSay(t *testing.T) {
	if *update {
		if err := os.WriteFile(referencePage, []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), Markdown()); diff != "" {
		t.Errorf("the page is old; run go test ./internal/check -update (-page +checks):\n%s", diff)
	}
}

func TestExplain(t *testing.T) {
	text, ok := Explain(" lm-001 ")
	if !ok {
		t.Fatal("LM-001 is not explained")
	}
	for _, part := range []string{"LM-001 WrongControllerNames", "cannot be accepted", "service-lb-controller", "depends on HOST-001, CP-003"} {
		if !strings.Contains(text, part) {
			t.Errorf("the text does not say %q:\n%s", part, text)
		}
	}
	text, _ = Explain("NODE-005")
	for _, part := range []string{
		"\n\nIf the finding has a `look:` command, find in its output: the nodes whose", "\n\nDelete, drain or stop something only if its pods", "\n\nWarning: all pods of the node",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the text does not say %q:\n%s", part, text)
		}
	}
	if _, ok := Explain("LM-999"); ok {
		t.Error("a check that does not exist is explained")
	}
}

// layout is that of a check's file: a heading, a clause that ends the sentence "Passes when", and paragraphs of a line each.
var layout = regexp.MustCompile(`^# [A-Z]+-[0-9]{3} [A-Za-z]+\n\nPasses when [^\n]+[^.\n]\.\n(\n[^\n]+\.\n)+$`)

func TestEachCheckHasOneExplanation(t *testing.T) {
	left := map[string]bool{}
	entries, err := pages.ReadDir("explain")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left[e.Name()] = true
	}
	for _, c := range slices.Concat(Checks, hosted.Checks) {
		name := c.Code + ".md"
		content, err := pages.ReadFile("explain/" + name)
		switch {
		case err != nil:
			t.Errorf("%s: %v", c.Code, err)
		case !layout.Match(content):
			t.Errorf("%s has another layout than a heading, when the check passes, and paragraphs that end with a full stop", name)
		case pageOf(c).heading != c.Code+" "+c.Reason:
			t.Errorf("%s has the heading %q, the check is %s %s", name, pageOf(c).heading, c.Code, c.Reason)
		}
		delete(left, name)
	}
	for name := range left {
		t.Errorf("no check has the explanation %s", name)
	}
}

// asked are the providers whose programs can be asked, as a sentence has them.
func asked() string {
	var names []string
	for _, p := range cloudprovider.Providers() {
		if p.Unsupported == "" && cloudprovider.HasProgram(p.Name) {
			names = append(names, p.Name)
		}
	}
	return cloudprovider.Enumerate("and", names)
}

// TestExplanationsNameWhatTheCatalogueHas holds the versions and providers in the texts to the code that decides by them.
func TestExplanationsNameWhatTheCatalogueHas(t *testing.T) {
	var ends, unsupported []string
	for _, p := range cloudprovider.Providers() {
		if p.Unsupported == "" {
			ends = append(ends, fmt.Sprintf("%s after 1.%d", p.Name, p.LastInTree))
		} else {
			unsupported = append(unsupported, p.Name)
		}
	}
	for code, parts := range map[string][]string{
		"VER-001":  {": " + strings.Join(proven.Versions(), ", ") + ".", fmt.Sprintf("built from 1.%d.", facts.DefaultCCMMinor)},
		"NODE-010": {asked() + " have a program that answers"},
		"VER-002":  {": " + strings.Join(ends, ", ") + ".", ": " + strings.Join(unsupported, ", ") + "."},
		"VER-004":  {fmt.Sprintf("from Kubernetes 1.%d on", component.Oldest)},
		"VER-011":  {fmt.Sprintf("Up to 0.%d the library", catalogue.ProviderIDRequired-1), fmt.Sprintf("From 0.%d on", catalogue.ProviderIDRequired)},
	} {
		text, _ := Explain(code)
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("explain/%s.md does not say %q", code, part)
			}
		}
	}
}
