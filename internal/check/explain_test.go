package check

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the reference page")

const page = "../../docs/reference/checks.md"

func TestTheReferencePageIsWhatTheChecksSay(t *testing.T) {
	if *update {
		if err := os.WriteFile(page, []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
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
	if _, ok := Explain("LM-999"); ok {
		t.Error("a check that does not exist is explained")
	}
}
