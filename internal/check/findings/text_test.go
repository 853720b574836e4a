package findings

import (
	"strings"
	"testing"
)

func TestNumbersGoWithTheirWords(t *testing.T) {
	for _, c := range []struct {
		text   string
		n, all int
		want   string
	}{
		{"# [node waits|nodes wait] for it", 0, 0, "no node waits for it"},
		{"# [node waits|nodes wait] for it", 1, 5, "1 node waits for it"},
		{"# [node waits|nodes wait] for it", 2, 5, "2 nodes wait for it"},
		{"# of ## nodes [has|have] none", 1, 5, "1 of 5 nodes has none"},
		{"# of ## nodes [has|have] none", 12, 15, "12 of 15 nodes have none"},
		{"none is 100%", 3, 3, "none is 100%"},
	} {
		if got := Number(c.text, c.n, c.all); got != c.want {
			t.Errorf("%q of %d: got %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

func TestALongValueIsCutBetweenCharacters(t *testing.T) {
	for value, want := range map[string]string{
		"":                                "",
		"lab":                             "lab",
		strings.Repeat("x", 200):          strings.Repeat("x", 200),
		strings.Repeat("x", 1<<20):        strings.Repeat("x", 200) + "...",
		strings.Repeat("x", 199) + "éabc": strings.Repeat("x", 199) + "...",
	} {
		if got := Short(value); got != want {
			t.Errorf("of %d bytes there is %q", len(value), got)
		}
	}
}
