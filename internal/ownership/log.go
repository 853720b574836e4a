package ownership

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// maxLine bounds a line of a log: a call to the cloud with all its parameters is a few kilobytes.
const maxLine = 4 << 20

// ReadLog reads an ownership log. A last line that was cut off, as by a crash while it was written, is left out; any other line that cannot be
// read is an error that names it, because a log with holes proves less than it seems to.
func ReadLog(r io.Reader) ([]v1.OwnershipEvent, error) {
	var events []v1.OwnershipEvent
	err := readLines(r, func(line []byte) error {
		var e v1.OwnershipEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		switch {
		case e.Time.IsZero():
			return errors.New("it has no time")
		case e.Source != v1.SourceLease && e.Source != v1.SourceScrape && e.Source != v1.SourceProcess:
			return fmt.Errorf("source %q is not known", e.Source)
		}
		events = append(events, e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the ownership log: %w", err)
	}
	return events, nil
}

// ReadCalls reads a cloud audit log, as ReadLog does. An empty log gives an empty slice that is not nil: there was a log, and it has no calls.
func ReadCalls(r io.Reader) ([]v1.CloudCall, error) {
	calls := []v1.CloudCall{}
	err := readLines(r, func(line []byte) error {
		var c v1.CloudCall
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		if c.Arrived.IsZero() || c.Action == "" {
			return errors.New("it has no arrival or no action")
		}
		calls = append(calls, c)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the cloud audit log: %w", err)
	}
	return calls, nil
}

// readLines calls decode for every line that is not blank. An error on an unterminated last line is forgiven.
func readLines(r io.Reader, decode func([]byte) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for number := 1; ; number++ {
		line, ended, err := readLine(in)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			if err := decode(text); err != nil && ended {
				return fmt.Errorf("line %d: %w", number, err)
			}
		}
		if !ended {
			return nil
		}
	}
}

// readLine returns the next line, and whether it was terminated.
func readLine(in *bufio.Reader) (line []byte, ended bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, false, fmt.Errorf("it is longer than %d bytes", maxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return line, false, nil
		case err != nil:
			return nil, false, err
		}
		return line, true, nil
	}
}

// WriteLog writes events as an ownership log.
func WriteLog(w io.Writer, events []v1.OwnershipEvent) error {
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("writing the ownership log: %w", err)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("writing the ownership log: %w", err)
		}
	}
	return nil
}

// LogFile is an ownership log that is appended to, safe for use by several goroutines.
type LogFile struct {
	mu   sync.Mutex
	file *os.File
	err  error
}

// OpenLog opens an ownership log for appending, or makes one that only its owner can read. A line that a crash cut off is taken out first, so
// that the log stays readable.
func OpenLog(path string) (*LogFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the ownership log: %w", err)
	}
	end, err := endOfLastLine(f)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the ownership log %q: %w", path, err), f.Close())
	}
	return &LogFile{file: f}, nil
}

// endOfLastLine is the offset behind the last newline.
func endOfLastLine(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 4096)
	for end := info.Size(); end > 0; {
		start := max(0, end-int64(len(buf)))
		n, err := f.ReadAt(buf[:end-start], start)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// Append writes one event. An error is kept and returned by Close as well, so that it can serve as a recorder's sink.
func (l *LogFile) Append(e v1.OwnershipEvent) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = WriteLog(l.file, []v1.OwnershipEvent{e})
	}
	return l.err
}

// Close closes the file and returns the first error that writing it met.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.err, l.file.Close())
}
