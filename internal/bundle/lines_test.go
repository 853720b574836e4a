package bundle

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/internal/visible"
)

func TestOfALogTheEndIsKept(t *testing.T) {
	var log strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&log, "line %03d\n", i)
	}
	have, err := readTail(strings.NewReader(log.String()), 3*len("line 000\n"))
	want := tail{lines: []string{"line 997", "line 998", "line 999"}, dropped: 997}
	if diff := cmp.Diff(want, have, cmp.AllowUnexported(tail{})); diff != "" || err != nil {
		t.Errorf("(-want +have), %v:\n%s", err, diff)
	}
}

// endless is a line without an end, as long as it is read.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read += int64(len(p))
	return len(p), nil
}

// TestALineWithoutAnEndTakesNoMemory: a log line of 100 MB is read to the bound of a stream and shown to that of a line.
func TestALineWithoutAnEndTakesNoMemory(t *testing.T) {
	source := &endless{}
	have, err := readTail(io.LimitReader(source, 100<<20), 1<<20)
	if err != nil || !have.isLong || source.read > maxStream+maxRead {
		t.Errorf("%v, too long: %v, read %d bytes", err, have.isLong, source.read)
	}
	if size := len(strings.Join(have.lines, "")); size > maxRead+1 {
		t.Errorf("%d bytes of the line are kept", size)
	}
	if text := cleanLog(have.lines); len(text) > maxLine+10 {
		t.Errorf("%d bytes of the line are shown", len(text))
	}
	long, err := readTail(strings.NewReader(strings.Repeat("words of a line ", 100_000)+"\nthe next line\n"), 1<<20)
	if err != nil || len(long.lines) != 2 || long.lines[1] != "the next line" || len(long.lines[0]) > maxRead+1 {
		t.Errorf("%v, %d lines, the first of %d bytes", err, len(long.lines), len(long.lines[0]))
	}
}

// TestWhatCameBeforeAnErrorIsKept, but for a word that may be half of a password.
func TestWhatCameBeforeAnErrorIsKept(t *testing.T) {
	broken := errors.New("the connection broke")
	have, err := readTail(io.MultiReader(strings.NewReader("whole\nhalf a passw"), iotest.ErrReader(broken)), 1<<20)
	if !errors.Is(err, broken) || cmp.Diff([]string{"whole", "half a ..."}, have.lines) != "" {
		t.Errorf("%v, %q", err, have.lines)
	}
}

func TestALogIsCleanedLineByLine(t *testing.T) {
	const at = "2026-11-21T12:00:00.000000001Z "
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"as it is":                {[]string{at + `I1121 12:00:00.1 1 main.go:7] "Started" pods=3`}, at + `I1121 12:00:00.1 1 main.go:7] "Started" pods=3` + "\n"},
		"no line":                 {nil, ""},
		"a password":              {[]string{"OS_PASSWORD=hunter2hunter2 is wrong"}, "OS_PASSWORD=(masked) is wrong\n"},
		"a flag's value below it": {[]string{"--token", "hunter2hunter2"}, "--token\n(masked)\n"},
		"colours":                 {[]string{"\x1b[36mpassword\x1b[0m=hunter2hunter2 \x1b]0;title\x07end"}, "password=(masked) end\n"},
		"what a terminal obeys":   {[]string{"a\x1bcb\rc\x00d\u009b2Je\u202ef"}, `a\x1bcb c\x00d\u009b2Je\u202ef` + "\n"},
		"no text":                 {[]string{"a\xff\xfeb"}, "a\ufffdb\n"},
		"a key": {
			[]string{at + "-----BEGIN EC PRIVATE KEY-----", at + "MHcCAQEEIIabcdefghijklmn", at + "abc=", at + "-----END EC PRIVATE KEY----- read", "next"},
			at + "(masked)\n(masked)\n(masked)\n(masked) read\nnext\n",
		},
		"a key without its begin":   {[]string{"a line", at + "MHcCAQEEIIabcdefghijklmn", at + "-----END RSA PRIVATE KEY-----", "next"}, "a line\n(masked)\n(masked)\nnext\n"},
		"a key without its end":     {[]string{"-----BEGIN PRIVATE KEY-----", "MHcCAQEEIIabcdefghijklmn", "the log goes on", "and on"}, "(masked)\n(masked)\nthe log goes on\nand on\n"},
		"a key that is not there":   {[]string{"no -----BEGIN PRIVATE KEY----- found", "the log goes on"}, "no (masked)\nthe log goes on\n"},
		"a path that leads outside": {[]string{"../../etc/passwd"}, "../../etc/passwd\n"},
	} {
		have := string(cleanLog(c.lines))
		if diff := cmp.Diff(c.want, have); diff != "" {
			t.Errorf("%s (-want +have):\n%s", name, diff)
		}
		if !utf8.ValidString(have) || strings.ContainsFunc(strings.ReplaceAll(have, "\n", ""), visible.IsObeyed) {
			t.Errorf("%s: a terminal obeys something in %q", name, have)
		}
	}
}

func FuzzACleanedLogIsShownLineByLine(f *testing.F) {
	f.Add("-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\x1b[3")
	f.Add("-----END PRIVATE KEY-----\n-----END PRIVATE KEY----------BEGIN PRIVATE KEY-----")
	f.Fuzz(func(t *testing.T, log string) {
		read, err := readTail(strings.NewReader(log), 1<<16)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(cleanLog(read.lines)), "\n") {
			if strings.ContainsFunc(line, visible.IsObeyed) || len(line) > maxLine+3 {
				t.Errorf("a terminal obeys something in %q, or it is long", line)
			}
		}
	})
}
