// Package jsonlines decides what a log of JSON lines is worth after a crash. A last line that was cut off is left out.
// Any other line that cannot be read is an error that names it, because a log with holes proves less than it seems to.
package jsonlines

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// maxLine bounds a line of a log. A call to the cloud with all its parameters is a few kilobytes, the counts of a
// thousand paths a hundred.
const maxLine = 4 << 20

// Each calls decode for every line that is not blank. An error of decode on an unterminated last line is forgiven.
func Each(r io.Reader, decode func([]byte) error) error {
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

// Read returns the values of a log's lines. check refuses a value that says too little; name is what errors call the
// log.
func Read[T any](r io.Reader, name string, check func(T) error) ([]T, error) {
	var out []T
	err := Each(r, func(line []byte) error {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		if err := check(v); err != nil {
			return err
		}
		out = append(out, v)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return out, nil
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

// Write writes a value as one line, in one piece.
func Write(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// File is a log that is appended to, safe for use by several goroutines.
type File[T any] struct {
	name string
	mu   sync.Mutex
	file *os.File
	err  error
}

// Open opens a log for appending, or makes one that only its owner can read. A line that a crash cut off is removed
// first, so that the log stays readable. The name is what errors call the log.
func Open[T any](path, name string) (*File[T], error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", name, err)
	}
	end, err := endOfLastLine(f)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", name, errors.Join(fmt.Errorf("%q: %w", path, err), f.Close()))
	}
	return &File[T]{name: name, file: f}, nil
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

// Append writes one value. The first error is kept for Close too, and nothing is written behind it.
func (f *File[T]) Append(v T) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = Write(f.file, v)
	}
	if f.err != nil {
		return fmt.Errorf("writing %s: %w", f.name, f.err)
	}
	return nil
}

// Close closes the file and returns the first error that writing it met.
func (f *File[T]) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.err, f.file.Close())
}
