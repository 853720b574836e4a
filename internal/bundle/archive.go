package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"path"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Directory is the one that an archive unpacks into, and ManifestName is the first file in it.
const (
	Directory    = "transplant-bundle"
	ManifestName = "manifest.json"
)

// fileMode lets the owner alone read what is unpacked.
const fileMode = 0o600

// Archive returns the bundle as a compressed tar file, and its manifest as it is in there. The same content gives the
// same bytes.
func (b *Bundle) Archive() ([]byte, v1.BundleManifest, error) {
	m, files := b.fit()
	first, err := encodeDocument(m)
	if err != nil {
		return nil, m, fmt.Errorf("writing the manifest of the bundle: %w", err)
	}
	m = v1.BundleManifest{}
	if err := json.Unmarshal(first, &m); err != nil { // as it is in the file: masked
		return nil, m, fmt.Errorf("reading the manifest of the bundle: %w", err)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, f := range append([]file{{BundleFile: v1.BundleFile{Name: ManifestName}, data: first}}, files...) {
		if err := writeEntry(w, path.Join(Directory, f.Name), f.data, m.Created); err != nil {
			return nil, m, fmt.Errorf("writing %s into the bundle: %w", f.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, m, fmt.Errorf("writing the bundle: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, m, fmt.Errorf("compressing the bundle: %w", err)
	}
	return out.Bytes(), m, nil
}

func writeEntry(w *tar.Writer, name string, data []byte, at time.Time) error {
	err := w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg,
		Name:     name,
		Mode:     fileMode,
		Size:     int64(len(data)),
		ModTime:  at.UTC().Truncate(time.Second),
		Format:   tar.FormatUSTAR,
	})
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}
