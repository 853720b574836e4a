package bundle

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/visible"
)

// Bounds of a log, in bytes. A line is read to maxRead before it is masked, and shown to maxLine. A stream is read to
// maxStream: the API server is asked for no more, and may send more.
const (
	maxRead   = 64 << 10
	maxLine   = 16 << 10
	maxStream = 64 << 20
)

// tail is the end of a log.
type tail struct {
	lines []string
	// dropped are older lines that had no room.
	dropped int
	// isLong reports whether the stream was longer than is read of one.
	isLong bool
}

// readTail reads a log to its end and keeps the newest lines of it, most bytes of them. What was read before an error
// is returned with it.
func readTail(r io.Reader, most int) (tail, error) {
	var t tail
	size := 0
	limited := &io.LimitedReader{R: r, N: maxStream}
	in := bufio.NewReaderSize(limited, maxRead)
	for {
		line, isWhole, err := readLine(in)
		if !isWhole && line != "" {
			line = mask.Beginning(line+" ", len(line)) // half a password does not look like one
		}
		if line != "" || isWhole {
			t.lines = append(t.lines, line)
			size += len(line) + 1
		}
		for size > most && len(t.lines) > 0 {
			size -= len(t.lines[0]) + 1
			t.lines = t.lines[1:]
			t.dropped++
		}
		switch {
		case errors.Is(err, io.EOF):
			t.isLong = limited.N == 0
			return t, nil
		case err != nil:
			return t, err
		}
	}
}

// readLine reads a line, and keeps no more of it than is masked. A line is whole that has an end.
func readLine(in *bufio.Reader) (line string, isWhole bool, err error) {
	var kept bytes.Buffer
	for {
		piece, err := in.ReadSlice('\n')
		if room := maxRead + 1 - kept.Len(); room > 0 {
			kept.Write(piece[:min(room, len(piece))])
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return kept.String(), false, err
		}
		return strings.TrimSuffix(kept.String(), "\n"), true, nil
	}
}

// cleanLog is a log without secrets, each of whose lines is one line on a terminal.
func cleanLog(lines []string) []byte {
	plain := make([]string, len(lines))
	for i, line := range lines {
		plain[i] = mask.Beginning(withoutColors(line), maxRead)
	}
	var out bytes.Buffer
	for line := range strings.SplitSeq(mask.Lines(strings.Join(withoutKeys(plain), "\n")), "\n") {
		out.WriteString(visible.Cut(visible.Line(line), maxLine))
		out.WriteByte('\n')
	}
	if len(lines) == 0 {
		return nil
	}
	return out.Bytes()
}

// sequence is what a program sends a terminal to colour its log. Between the name and the value of a secret it would
// hide that they belong together.
var sequence = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?")

func withoutColors(line string) string {
	if !strings.Contains(line, "\x1b") {
		return line
	}
	return sequence.ReplaceAllString(line, "")
}

// Lines of a private key. maxKeyLines is more than one has.
const (
	keyBegins   = "-----BEGIN "
	keyEnds     = "-----END "
	keyIs       = "PRIVATE KEY"
	maxKeyLines = 200
)

// withoutKeys leaves out the lines of private keys. A log may begin in the middle of a key, or lack its end. Package
// mask takes texts that are whole, and would mask all that follows a key without an end.
func withoutKeys(lines []string) []string {
	out := append([]string(nil), lines...)
	for i, line := range lines {
		if !strings.Contains(line, keyIs) {
			continue
		}
		begin, end := strings.LastIndex(line, keyBegins), strings.Index(line, keyEnds)
		if begin >= 0 && end < begin {
			hideKey(out[i+1 : min(len(out), i+1+maxKeyLines)])
			out[i] = mask.Text(line)
		}
		if end >= 0 && (begin < 0 || end < begin) {
			if _, rest, found := strings.Cut(line[end+len(keyEnds):], "-----"); found {
				out[i] = mask.Masked + rest
			}
			from := max(0, i-maxKeyLines)
			hideLastKey(out[from:i])
		}
	}
	return out
}

// keyLine is a line that holds a piece of a key, behind the time at which it was written; or a header of one.
var keyLine = regexp.MustCompile(`(?:^|\s)(?:[A-Za-z0-9+/]{16,}={0,2}|[A-Za-z0-9+/]+={1,2}|Proc-Type: .*|DEK-Info: .*)\s*$`)

// hideKey masks lines from the first on, as long as they are of a key.
func hideKey(lines []string) {
	for i, line := range lines {
		if !keyLine.MatchString(line) {
			return
		}
		lines[i] = mask.Masked
	}
}

// hideLastKey masks lines from the last one back, as long as they are of a key.
func hideLastKey(lines []string) {
	for i := len(lines) - 1; i >= 0 && keyLine.MatchString(lines[i]); i-- {
		lines[i] = mask.Masked
	}
}

// newestLines is the end of a log: as many whole lines as have room.
func newestLines(data []byte, room int) []byte {
	if len(data) <= room {
		return data
	}
	if room <= 0 {
		return nil
	}
	data = data[len(data)-room:]
	_, whole, _ := bytes.Cut(data, []byte("\n"))
	return whole
}

// cutWords says what of a log is not there.
func (t tail) cutWords(o Options) string {
	words := ""
	if t.dropped > 0 {
		words = fmt.Sprintf("%d older lines: %s of a log are kept", t.dropped, Size(int64(o.LogBytes)))
	}
	if t.isLong {
		words = join(words, fmt.Sprintf("what comes after the first %s of its stream", Size(maxStream)))
	}
	return words
}
