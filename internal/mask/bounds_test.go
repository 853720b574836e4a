package mask

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestTextsThatWereMadeToBeSlow masks half a megabyte, as two annotations may be. It took two hours where a value was
// read again for every name in it, and minutes where the words behind each name were counted to read the first, or the
// backslashes that are left in a list at each of them.
func TestTextsThatWereMadeToBeSlow(t *testing.T) {
	for _, c := range []struct{ before, piece string }{
		{"", "a="},
		{"", "token="},
		{"", "token=true,"},
		{"", `token="`},
		{"", "token: "},
		{"", "token: abc "},
		{"", "token=;a"},
		{"", `token=["`},
		{"token=[", `\`},
		{"", "tokenURL="},
		{"", "name=tokenURL,value=["},
		{"", "passwordFile: |\n "},
	} {
		text := c.before + strings.Repeat(c.piece, 512<<10/len(c.piece)) + " --password=hunter2hunter2"
		if strings.Contains(Text(text), "hunter2") {
			t.Errorf("%q: the password behind %d bytes of it is shown", c.before+c.piece, len(text))
		}
	}
}

func TestPasswordsBehindLongTexts(t *testing.T) {
	for _, piece := range []string{
		"a=", "token=", "token=true,", "token: ", `token="`, `token='`, `"token":`, "token=a,", "token= ", "--token ",
		`"--token","`, "://", "bearer ", "basic ", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "eyJ", "aA0", `\"`, "'",
		"a/", "password: the ", "sh -c \"", "sh -c '--token ", "token=[", `token=[\`, `token={"a":`, "token=&", "tokenURL=", "name=token,value=",
		"name=a,value=", "password: |\n  ", "://a@", "?signature=", "token: abc ", "token: [get ",
	} {
		text := strings.Repeat(piece, 8<<10/len(piece)) + " --password=hunter2hunter2"
		for name, masked := range map[string]string{
			"text": Text(text), "lines": Lines(text), "command": strings.Join(Command([]string{text}), " "),
			"document": Document([]byte(text)), "value": Named("note", text),
		} {
			if strings.Contains(masked, "hunter2") {
				t.Errorf("%q: the %s shows the password", piece, name)
			}
		}
	}
}

func TestAliasesOfYAML(t *testing.T) {
	laughs := "l0: &l0 [hunter2]\n"
	for i := 1; i <= 40; i++ {
		laughs += fmt.Sprintf("l%d: &l%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d,", i-1), 10), ","))
	}
	for name, c := range map[string]struct{ text, want string }{
		"an anchor that holds itself": {"a: &a [*a]\npassword: hunter2\n", "a: &a [*a]\npassword: (masked)\n"},
		"a mapping that holds itself": {"a: &a\n    b: *a\n    password: hunter2\n", "a: &a\n    b: *a\n    password: (masked)\n"},
		"a value behind an alias":     {"a: &a hunter2\npassword: *a\n", "a: &a (masked)\npassword: *a\n"},
		"its file is named before":    {"a: &a hunter2\npasswordFile: *a\npassword: *a\n", "a: &a (masked)\npasswordFile: *a\npassword: *a\n"},
		"an argument behind an alias": {"a: &a hunter2\nargs: [--password, *a]\n", "a: &a (masked)\nargs: [--password, *a]\n"},
		"a Secret's data by an alias": {"kind: Secret\nx: &x {y: hunter2}\ndata: *x\n", "kind: Secret\nx: &x {y: (masked)}\ndata: *x\n"},
		"aliases of aliases":          {laughs + "password: *l40\n", strings.Replace(laughs, "hunter2", "(masked)", 1) + "password: *l40\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if have := strings.ReplaceAll(YAML(c.text), ", ", ","); have != strings.ReplaceAll(c.want, ", ", ",") {
				t.Errorf("have\n%s\nwant\n%s", have, c.want)
			}
		})
	}
}

func TestAnnotationsThatAreTooLongAreLeftOut(t *testing.T) {
	have := Annotations(map[string]string{
		"a": strings.Repeat("x ", maxAnnotation/2), "b": strings.Repeat("x ", maxAnnotation/2) + "x", lastApplied: "{}",
	})
	if have["a"] != strings.Repeat("x ", maxAnnotation/2) || have["b"] != Masked || len(have) != 2 {
		t.Errorf("have %d annotations, b is %.20q", len(have), have["b"])
	}
}

// TestALongErrorIsCutBeforeItIsMasked: the other end of a connection writes into some.
func TestALongErrorIsCutBeforeItIsMasked(t *testing.T) {
	if got := Error(errors.New(strings.Repeat("a ", 10<<20))); len(got) > maxRead+10 || !strings.HasSuffix(got, "...") {
		t.Errorf("%d bytes are left", len(got))
	}
}

// TestACutThroughASecretShowsNoPartOfIt: where a text ends is chance, or the choice of the other end of a connection.
func TestACutThroughASecretShowsNoPartOfIt(t *testing.T) {
	for name, secret := range map[string]string{
		"the password of a URL":      "https://user:SW0RDFISHSW0RDFISH@proxy.example:3128/x",
		"a random word":              "SW0RDFISHaB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5z",
		"a key of AWS":               "AKIASW0RDFISHSW0RDFI",
		"a password in JSON in JSON": `{\"password\":\"SW0RDFISHSW0RDFISH\"}`,
	} {
		cut := func(limit, back int) string {
			return strings.Repeat("x ", limit)[:limit-back-1] + " " + secret + strings.Repeat(" x", limit)
		}
		for back := range len(secret) {
			shown := map[string]string{"Beginning": Text(Beginning(cut(512, back), 512)), "Cut": Cut(cut(512, back), 512)}
			if back%5 == 0 {
				shown["Cut of what is too long to be read"] = Cut(cut(maxRead, back), maxRead)
				shown["Error"] = Error(errors.New(cut(maxRead, back)))
			}
			for how, got := range shown {
				if strings.Contains(got, "SW0RD") {
					t.Errorf("%s, cut %d bytes behind its beginning: %s shows %q", name, back, how, got[strings.Index(got, "SW0RD"):])
				}
			}
		}
	}
}

// TestWhatIsLeftOfALongText has the words before the limit, and says that there was more.
func TestWhatIsLeftOfALongText(t *testing.T) {
	for text, want := range map[string]string{
		"as it is":                   "as it is",
		"one two three":              "one two ...",
		"one token=hunter2hunter2 x": "one ...",
		"onetwothreefour":            "...",
		`{"one":"two"}`:              `{"one":"...`,
	} {
		if got := Beginning(text, 10); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	if got, want := Cut("token=hunter2hunter2 "+strings.Repeat("é", 10), 20), "token=(masked) éé..."; got != want {
		t.Errorf("%q is shown, want %q", got, want)
	}
}
