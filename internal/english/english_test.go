package english_test

import (
	"testing"

	"github.com/transplant-dev/transplant/internal/english"
)

func TestWordsGoWithTheirNumber(t *testing.T) {
	for have, want := range map[string]string{
		english.Word(1, "has", "have"):                               "has",
		english.Word(0, "has", "have"):                               "have",
		english.Count(1, "node"):                                     "1 node",
		english.Count(0, "node"):                                     "0 nodes",
		english.Count(10004, "class"):                                "10004 classes",
		english.FirstOf(2, nil):                                      "",
		english.FirstOf(2, []string{"a", "b"}):                       "a, b",
		english.FirstOf(2, []string{"a", "b", "c", "d"}):             "a, b and 2 more",
		english.FirstOf(0, []string{"a"}) + english.Word(2, "", "!"): " and 1 more!",
	} {
		if have != want {
			t.Errorf("have %q, want %q", have, want)
		}
	}
}

func TestASeriesHasItsWordBeforeTheLast(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}} {
		if got := english.Series("or", names); got != want {
			t.Errorf("%q: %q", names, got)
		}
	}
}
