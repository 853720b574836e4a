package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/document"
	"github.com/transplant-dev/transplant/internal/safeyaml"
	"github.com/transplant-dev/transplant/internal/visible"
	"github.com/transplant-dev/transplant/internal/wholefile"
)

// maxSize is more than a snapshot of 5,000 nodes takes.
const maxSize = 256 << 20

// Save writes a snapshot as YAML, so that Load sees when its end is missing.
func Save(w io.Writer, s *v1.Snapshot) error {
	data, err := yaml.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding the snapshot: %w", err)
	}
	if _, err := w.Write(wholefile.Mark("snapshot", data)); err != nil {
		return fmt.Errorf("writing the snapshot: %w", err)
	}
	return nil
}

// Load reads a snapshot from YAML or JSON. It refuses another kind, a version that it does not know, and fields that it
// does not know. Facts that it cannot see would be taken for facts that are not there.
func Load(r io.Reader) (*v1.Snapshot, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	case len(data) > maxSize:
		return nil, fmt.Errorf("reading the snapshot: it is larger than %d MiB; this is not a snapshot", maxSize>>20)
	}
	if wholefile.IsCutOff("snapshot", data) {
		return nil, errors.New(
			"reading the snapshot: its end is missing, it was cut off; copy it again, or take it again with transplant snapshot",
		)
	}
	if data, err = oneObject(data); err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	var head struct {
		v1.TypeMeta `json:",inline"`
		ToolVersion string `json:"toolVersion"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", plainly(err))
	}
	writer := "another version of transplant"
	if head.ToolVersion != "" {
		writer = "transplant " + head.ToolVersion
	}
	switch {
	case head.Kind == "":
		return nil, fmt.Errorf(
			"reading the snapshot: it names no kind, and a snapshot says %s; transplant snapshot writes one",
			v1.KindSnapshot,
		)
	case head.Kind != v1.KindSnapshot:
		return nil, fmt.Errorf(
			"reading the snapshot: kind is %q, not %s; transplant snapshot writes one",
			head.Kind,
			v1.KindSnapshot,
		)
	case head.APIVersion != v1.GroupVersion:
		return nil, fmt.Errorf(
			"reading the snapshot: apiVersion is %q, written by %s, and this version of transplant reads %s only; use the version that wrote it, or take it again with transplant snapshot",
			head.APIVersion,
			writer,
			v1.GroupVersion,
		)
	}
	if err := (document.Form{Object: "the snapshot", Known: v1.SnapshotSchema}).Judge(
		head.Schema,
		head.ToolVersion,
	); err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w; or take it again with transplant snapshot", err)
	}
	var out v1.Snapshot
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&out); err != nil {
		if _, field, ok := strings.Cut(err.Error(), "unknown field "); ok {
			return nil, fmt.Errorf(
				"reading the snapshot: it has the field %s, which this version of transplant does not know; it was written by %s: use that version, or take the snapshot again with transplant snapshot",
				field,
				writer,
			)
		}
		return nil, fmt.Errorf("reading the snapshot: %w", plainly(err))
	}
	return &out, nil
}

// oneObject returns the JSON of a file, which has to hold one object: the parsers take the first of several documents
// and drop the others.
func oneObject(data []byte) ([]byte, error) {
	// A JSON document is YAML too, but reads many times faster as what it is.
	if !json.Valid(data) {
		if n := documents(data); n > 1 {
			return nil, fmt.Errorf(
				"it holds %d YAML documents, and only the first would be judged; give each snapshot a file of its own",
				n,
			)
		}
		var err error
		if data, err = safeyaml.ToJSONStrict(data); err != nil {
			return nil, fmt.Errorf("not YAML or JSON: %s", firstLines(err.Error()))
		}
	}
	switch data = bytes.TrimSpace(data); {
	case len(data) == 0 || string(data) == "null":
		return nil, errors.New("it is empty; transplant snapshot writes one")
	case data[0] == '[':
		return nil, errors.New("it is a list and no snapshot; transplant snapshot writes one")
	case data[0] != '{':
		return nil, errors.New("it is a text and no snapshot; transplant snapshot writes one")
	}
	return data, nil
}

// documents counts the YAML documents that are not empty. A line that begins with --- or ... ends a document wherever
// it stands, in a block of text too.
func documents(data []byte) int {
	n, content := 0, false
	for line := range bytes.Lines(bytes.TrimPrefix(data, []byte("\ufeff"))) {
		if rest, ok := marker(line); ok {
			line, content = rest, false
		}
		text := bytes.TrimSpace(line)
		if content || len(text) == 0 || text[0] == '#' || line[0] == '%' {
			continue
		}
		n, content = n+1, true
	}
	return n
}

// marker returns what stands behind the sign between two documents, if the line begins with one.
func marker(line []byte) ([]byte, bool) {
	for _, sign := range []string{"---", "..."} {
		rest, ok := bytes.CutPrefix(line, []byte(sign))
		if ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0) {
			return rest, true
		}
	}
	return nil, false
}

const (
	errorLines = 3
	errorWidth = 300 // bytes of a line
)

// firstLines shortens the complaint of a parser, which has a line for each of its mistakes.
func firstLines(complaint string) string {
	var out []string
	rest, more := complaint, true
	for more && len(out) < errorLines {
		var line string
		line, rest, more = strings.Cut(rest, "\n")
		out = append(out, visible.Cut(line, errorWidth))
	}
	if more {
		out = append(out, fmt.Sprintf("  and %d more lines", strings.Count(rest, "\n")+1))
	}
	return strings.Join(out, "\n")
}

// plainly says which field holds what it cannot, without the names of Go types.
func plainly(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	return fmt.Errorf(
		"%s holds a value (%s) that no snapshot has there; it was edited: take it again with transplant snapshot",
		wrong.Field,
		wrong.Value,
	)
}
