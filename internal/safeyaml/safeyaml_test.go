package safeyaml

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestADocumentThatGrowsByItsAliasesIsRefused: of a few kilobytes the decoder would make gigabytes.
func TestADocumentThatGrowsByItsAliasesIsRefused(t *testing.T) {
	var doubled strings.Builder
	fmt.Fprintf(&doubled, "a0: &a0 %s\n", strings.Repeat("x", 100))
	for i := 1; i < 40; i++ {
		fmt.Fprintf(&doubled, "a%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	many := "a: &a " + strings.Repeat("x", 100<<10) + "\nb: [" + strings.Repeat("*a, ", 1000) + "]\n"
	for name, text := range map[string]string{"doubled": doubled.String(), "many": many} {
		var into any
		// The decoder reads no further than the end of the first document, and what follows is no YAML.
		for _, end := range []string{"...\n@", "---\n@", "\t- x"} {
			for call, err := range map[string]error{
				"Unmarshal": Unmarshal([]byte(text+end), &into), "UnmarshalStrict": UnmarshalStrict([]byte(text+end), &into), "Check": Check([]byte(text + end)),
			} {
				if !errors.Is(err, ErrNotWeighed) && !errors.Is(err, ErrTooLarge) {
					t.Errorf("%s, %s with %q behind it: %v", name, call, end, err)
				}
			}
			if _, err := ToJSONStrict([]byte(text + end)); err == nil {
				t.Errorf("%s with %q behind it is decoded", name, end)
			}
		}
		for call, err := range map[string]error{
			"Unmarshal": Unmarshal([]byte(text), &into), "UnmarshalStrict": UnmarshalStrict([]byte(text), &into), "Check": Check([]byte(text)),
		} {
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s, %s: %v", name, call, err)
			}
		}
		if _, err := ToJSONStrict([]byte(text)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Check([]byte("a: &a [*a]\n")); !errors.Is(err, errCycle) {
		t.Errorf("an anchor that holds itself: %v", err)
	}
}

func TestAnOrdinaryDocumentIsDecoded(t *testing.T) {
	var into struct{ B map[string]string }
	if err := Unmarshal([]byte("a: &a {x: y & z}\nb: *a\n"), &into); err != nil || into.B["x"] != "y & z" {
		t.Errorf("%v, %v", into, err)
	}
	if err := Unmarshal([]byte("a: ["+strings.Repeat("x, ", 2<<20)+"]\n"), &struct{}{}); err != nil {
		t.Errorf("a large one without aliases: %v", err)
	}
	if err := Unmarshal([]byte("a: &\n*"), &into); err == nil {
		t.Error("one that is no YAML is decoded")
	}
}
