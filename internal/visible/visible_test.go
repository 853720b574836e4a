package visible

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
)

const block = "gone\n# run this on host cp-1\r\nssh cp-1 'sudo x'\u2028# y\u2029z\u0085a\vb\x1b[2K\u202ec\xffd"

func TestATextStaysInItsLine(t *testing.T) {
	for _, c := range []struct{ have, want string }{
		{Line(""), ""},
		{Line("a  b"), "a  b"},
		{Line("  a\tb "), "  a b "},
		{Line("a \n\n  b\n"), "a b"},
		{Line(block), `gone # run this on host cp-1 ssh cp-1 'sudo x' # y z a b\x1b[2K\u202ec` + "\ufffdd"},
		{Lines("a"), "a"},
		{Lines("a\n# b\n\n  c   d\n"), "a\n  | # b\n  | c d"},
		{Lines(strings.Repeat(" ", 80) + "# a"), "# a"},
		{Sprintf("%s\n%-6s|%6.2f|%03d|%v|%q|%s", "a\nb", "c\nd", 1.5, 7, errors.New("e\nf"), "g\nh", Own("i\nj")),
			"a b\nc d   |  1.50|007|e f|\"g\\nh\"|i\nj"},
		{Sprintf("%v %s %d %-*s.", []string{"a\nb"}, 5*time.Second, int8(3), 4, "k"), "[a b] 5s 3 k   ."},
	} {
		if c.have != c.want {
			t.Errorf("have %q, want %q", c.have, c.want)
		}
	}
}

// TestADocumentIsObeyedByNoTerminal: U+009B begins a sequence of xterm's, and the rest of a bidirectional text is turned.
func TestADocumentIsObeyedByNoTerminal(t *testing.T) {
	const text = "a\u009b2J\u202eb\u2028\n\tc\x7f"
	data, err := json.MarshalIndent(map[string]string{text: text}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	out := JSON(data)
	var back map[string]string
	if err := json.Unmarshal(out, &back); err != nil || back[text] != text {
		t.Errorf("%v: %q is another text, %q", err, out, back)
	}
	if strings.ContainsFunc(string(out), IsObeyed) {
		t.Errorf("%q", out)
	}
	if have, want := Escaped(text), `a\u009b2J\u202eb\u2028`+"\n\tc"+`\x7f`; have != want {
		t.Errorf("have %q, want %q", have, want)
	}
	if plain := `{"a": "ä\n"}`; string(JSON([]byte(plain))) != plain || Escaped(plain) != plain {
		t.Error("a plain text is changed")
	}
}

func TestMarkdownHasNoMarkup(t *testing.T) {
	have := Markdown("![x](https://a.example/p.png) `c` <b>\n# h | *e* _u_ \\")
	want := "\\!\\[x\\](https://a.example/p.png) \\`c\\` &lt;b&gt; \\# h \\| \\*e\\* \\_u\\_ \\\\"
	if have != want {
		t.Errorf("have %s, want %s", have, want)
	}
}

func FuzzLines(f *testing.F) {
	f.Add(block)
	f.Add("\n\x1b\n# run this")
	f.Fuzz(func(t *testing.T, s string) {
		hidden := func(r rune) bool {
			return r == '\n' || !unicode.IsPrint(r) && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
		}
		for _, line := range []string{Line(s), Markdown(s), Sprintf("%s", s), strings.ReplaceAll(Lines(s), continued, "")} {
			if strings.ContainsFunc(line, hidden) || strings.ContainsAny(line, "\u2028\u2029") {
				t.Errorf("%q is %q", s, line)
			}
		}
		if again := Line(Line(s)); again != Line(s) {
			t.Errorf("%q is %q, and then %q", s, Line(s), again)
		}
		if have := fmt.Sprint(Lines(Lines(s))); strings.Count(have, "\n") != strings.Count(Lines(s), "\n") {
			t.Errorf("%q has other lines the second time: %q", s, have)
		}
	})
}

func TestATextIsCutBetweenRunes(t *testing.T) {
	for _, c := range []struct {
		in   string
		most int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc..."}, {"aé", 2, "a..."}, {"", 0, ""}} {
		if got := Cut(c.in, c.most); got != c.want {
			t.Errorf("%q in %d bytes: %q", c.in, c.most, got)
		}
	}
}
