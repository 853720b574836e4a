package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file, or a link, of an archive.
type entry struct {
	name string
	mode int64
	data []byte
	// link is what a symbolic link leads to; empty for a file.
	link string
}

// below puts entries into a directory.
func below(dir string, entries []entry) []entry {
	out := slices.Clone(entries)
	for i := range out {
		out[i].name = path.Join(dir, out[i].name)
	}
	return out
}

// archive writes entries and their directories as a compressed archive. It depends on nothing else than these and a
// time: neither on their order, nor on the machine, its users and its clock.
func archive(entries []entry, at time.Time) ([]byte, error) {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	packed := gzip.NewWriter(&out) // without a name and a time, which a gzip header may have
	w := tar.NewWriter(packed)
	made := map[string]bool{".": true}
	for _, e := range entries {
		if err := directories(w, path.Dir(e.name), made, at); err != nil {
			return nil, err
		}
		header := tar.Header{
			Name: e.name, Typeflag: tar.TypeReg, Mode: e.mode, Size: int64(len(e.data)),
			ModTime: at, Format: tar.FormatPAX,
		}
		if e.link != "" {
			header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, e.link, 0o777
		}
		if err := w.WriteHeader(&header); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", e.name, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", e.name, err)
		}
	}
	err := errors.Join(w.Close(), packed.Close())
	return out.Bytes(), err
}

// directories writes those of a path that the archive does not have yet, the outermost first.
func directories(w *tar.Writer, dir string, made map[string]bool, at time.Time) error {
	if made[dir] {
		return nil
	}
	if err := directories(w, path.Dir(dir), made, at); err != nil {
		return err
	}
	made[dir] = true
	header := tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: at, Format: tar.FormatPAX}
	err := w.WriteHeader(&header)
	if err != nil {
		return fmt.Errorf("archiving %s: %w", dir, err)
	}
	return nil
}

// entriesOf are the files of a directory. None is executable.
func entriesOf(dir string) ([]entry, error) {
	var out []entry
	err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		out = append(out, entry{name: filepath.ToSlash(name), mode: 0o644, data: data})
		return err
	})
	return out, err
}
