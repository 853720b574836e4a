package snapshot

import (
	"fmt"
	"io"

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

// Load reads a snapshot from YAML or JSON. It refuses another kind, and a version that it does not know: facts that it cannot see would be
// taken for facts that are not there. Fields that it does not know within a known version are ignored.
func Load(r io.Reader) (*v1.Snapshot, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	case len(data) > maxSize:
		return nil, fmt.Errorf("reading the snapshot: it is larger than %d MiB; this is not a snapshot", maxSize>>20)
	}
	var meta v1.TypeMeta
	if err := yaml.Unmarshal(data, &meta); err != nil {
		return nil, fmt.Errorf("reading the snapshot: not YAML or JSON: %w", err)
	}
	switch {
	case meta.Kind != v1.KindSnapshot:
		return nil, fmt.Errorf("reading the snapshot: kind is %q, not %s; transplant snapshot writes one", meta.Kind, v1.KindSnapshot)
	case meta.APIVersion != v1.GroupVersion:
		return nil, fmt.Errorf("reading the snapshot: apiVersion is %q and this version of transplant reads %s only; use the version that wrote it, or take it again",
			meta.APIVersion, v1.GroupVersion)
	}
	var out v1.Snapshot
	if err := yaml.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	return &out, nil
}
