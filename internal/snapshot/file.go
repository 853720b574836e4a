package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// maxSize is more than a snapshot of 5,000 nodes takes.
const maxSize = 256 << 20

// Save writes a snapshot as YAML.
func Save(w io.Writer, s *v1.Snapshot) error {
	data, err := yaml.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding the snapshot: %w", err)
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("writing the snapshot: %w", err)
	}
	return nil
}

// Load reads a snapshot from YAML or JSON. It refuses another kind, a version that it does not know, and fields that it does not know: facts that it
// cannot see would be taken for facts that are not there.
func Load(r io.Reader) (*v1.Snapshot, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	case len(data) > maxSize:
		return nil, fmt.Errorf("reading the snapshot: it is larger than %d MiB; this is not a snapshot", maxSize>>20)
	}
	// A JSON document is YAML too, but reads many times faster as what it is.
	if !json.Valid(data) {
		if data, err = yaml.YAMLToJSONStrict(data); err != nil {
			return nil, fmt.Errorf("reading the snapshot: not YAML or JSON: %w", err)
		}
	}
	var head struct {
		v1.TypeMeta `json:",inline"`
		ToolVersion string `json:"toolVersion"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("reading the snapshot: not YAML or JSON of a snapshot: %w", err)
	}
	writer := "another version of transplant"
	if head.ToolVersion != "" {
		writer = "transplant " + head.ToolVersion
	}
	switch {
	case head.Kind != v1.KindSnapshot:
		return nil, fmt.Errorf("reading the snapshot: kind is %q, not %s; transplant snapshot writes one", head.Kind, v1.KindSnapshot)
	case head.APIVersion != v1.GroupVersion:
		return nil, fmt.Errorf("reading the snapshot: apiVersion is %q, written by %s, and this version of transplant reads %s only; use the version that wrote it, or take it again with transplant snapshot",
			head.APIVersion, writer, v1.GroupVersion)
	}
	var out v1.Snapshot
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&out); err != nil {
		if _, field, ok := strings.Cut(err.Error(), "unknown field "); ok {
			return nil, fmt.Errorf("reading the snapshot: it has the field %s, which this version of transplant does not know; it was written by %s: use that version, or take the snapshot again with transplant snapshot",
				field, writer)
		}
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	return &out, nil
}
