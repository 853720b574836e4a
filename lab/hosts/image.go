package hosts

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Image is a container image of a few programs.
type Image struct {
	Ref        string            // for example "registry.k8s.io/pause:3.9"
	Files      map[string]string // what is in it: absolute path in the image to file of this machine
	Entrypoint []string          // may be empty: then the pod must name a command
}

// descriptor is the reference to a blob in an OCI image layout.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

const (
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// Write writes the image to a tar file of the OCI image layout ("OCI Image Layout Specification" 1.0), with one layer.
// The same files give the same digests.
func (i Image) Write(ctx context.Context, file string) (err error) {
	out, err := os.CreateTemp(filepath.Dir(file), ".image-*")
	if err != nil {
		return fmt.Errorf("creating image file: %w", err)
	}
	defer func() {
		if closing := out.Close(); err == nil && closing != nil {
			err = fmt.Errorf("writing image %s: %w", i.Ref, closing)
		}
		if err == nil {
			err = os.Rename(out.Name(), file)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	layer, err := i.describeLayer(ctx)
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, "Entrypoint": i.Entrypoint},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}},
	})
	if err != nil {
		return fmt.Errorf("encoding configuration of image %s: %w", i.Ref, err)
	}
	configured := describe(mediaConfig, config)
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": mediaManifest, "config": configured, "layers": []descriptor{layer},
	})
	if err != nil {
		return fmt.Errorf("encoding manifest of image %s: %w", i.Ref, err)
	}
	described := describe(mediaManifest, manifest)
	described.Annotations = map[string]string{"io.containerd.image.name": i.Ref}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{described}})
	if err != nil {
		return fmt.Errorf("encoding index of image %s: %w", i.Ref, err)
	}
	archive := tar.NewWriter(out)
	for _, f := range []struct {
		name string
		data []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", index},
		{blob(configured), config}, {blob(described), manifest},
	} {
		if err := addBytes(archive, f.name, f.data); err != nil {
			return fmt.Errorf("writing image %s: %w", i.Ref, err)
		}
	}
	if err := archive.WriteHeader(header(blob(layer), tar.TypeReg, 0o644, layer.Size)); err != nil {
		return fmt.Errorf("writing image %s: %w", i.Ref, err)
	}
	if err := i.writeLayer(ctx, archive); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("writing image %s: %w", i.Ref, err)
	}
	return nil
}

func describe(media string, data []byte) descriptor {
	sum := sha256.Sum256(data)
	return descriptor{MediaType: media, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(data))}
}

func blob(d descriptor) string { return "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:") }

// describeLayer runs over the layer without keeping it: a tar file says sizes before contents.
func (i Image) describeLayer(ctx context.Context) (descriptor, error) {
	sum, size := sha256.New(), &counter{}
	if err := i.writeLayer(ctx, io.MultiWriter(sum, size)); err != nil {
		return descriptor{}, err
	}
	return descriptor{MediaType: mediaLayer, Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)), Size: size.n}, nil
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// writeLayer writes the image's files: the programs, their directories, and what a program expects of a root file
// system.
func (i Image) writeLayer(ctx context.Context, out io.Writer) error {
	layer := tar.NewWriter(out)
	dirs := map[string]bool{"etc": true, "tmp": true}
	for name := range i.Files {
		for dir := path.Dir(strings.TrimPrefix(name, "/")); dir != "."; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		mode := int64(0o755)
		if dir == "tmp" {
			mode = 0o1777
		}
		if err := layer.WriteHeader(header(dir+"/", tar.TypeDir, mode, 0)); err != nil {
			return fmt.Errorf("writing layer of image %s: %w", i.Ref, err)
		}
	}
	for name, text := range map[string]string{"etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\n"} {
		if err := addBytes(layer, name, []byte(text)); err != nil {
			return fmt.Errorf("writing layer of image %s: %w", i.Ref, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.Files)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := addFile(layer, strings.TrimPrefix(name, "/"), i.Files[name]); err != nil {
			return fmt.Errorf("writing layer of image %s: %w", i.Ref, err)
		}
	}
	if err := layer.Close(); err != nil {
		return fmt.Errorf("writing layer of image %s: %w", i.Ref, err)
	}
	return nil
}

func header(name string, kind byte, mode, size int64) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Mode: mode, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
}

func addBytes(archive *tar.Writer, name string, data []byte) error {
	if err := archive.WriteHeader(header(name, tar.TypeReg, 0o644, int64(len(data)))); err != nil {
		return err
	}
	_, err := io.Copy(archive, bytes.NewReader(data))
	return err
}

func addFile(archive *tar.Writer, name, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it is only read
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(header(name, tar.TypeReg, int64(info.Mode().Perm()), info.Size())); err != nil {
		return err
	}
	_, err = io.Copy(archive, in)
	return err
}

// imageFile is the file name of an image.
func imageFile(ref string) string {
	return strings.NewReplacer("/", "_", ":", "_").Replace(ref) + ".tar"
}

// Import writes the image and gives it to every host that runs; pods get it at their next start. A tag that was there
// moves.
func (c *Cluster) Import(ctx context.Context, images ...Image) error {
	files := make([]string, 0, len(images))
	for _, i := range images {
		file := filepath.Join(c.imageDir(), imageFile(i.Ref))
		if err := i.Write(ctx, file); err != nil {
			return err
		}
		files = append(files, file)
	}
	defer removeAll(files)
	return c.importAll(ctx, files)
}

func (c *Cluster) importAll(ctx context.Context, files []string) error {
	for _, h := range c.hosts {
		if !h.Running() {
			continue
		}
		if err := h.importFiles(ctx, files); err != nil {
			return err
		}
	}
	return nil
}

// ImportLayout gives the image of an OCI layout, as make images writes it, to every host that runs, under the name that
// it has there.
func (c *Cluster) ImportLayout(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "oci-layout")); err != nil {
		return fmt.Errorf("%q is no OCI layout of an image (make images writes them): %w", dir, err)
	}
	file := filepath.Join(c.imageDir(), filepath.Base(dir)+".layout.tar")
	if err := run(ctx, "tar", "-C", dir, "-cf", file, "."); err != nil {
		return fmt.Errorf("packing the OCI layout %q: %w", dir, err)
	}
	defer removeAll([]string{file})
	return c.importAll(ctx, []string{file})
}

// removeAll removes image files that every host has by now; what stays goes with the cluster.
func removeAll(files []string) {
	for _, f := range files {
		_ = os.Remove(f)
	}
}

// importFiles gives image files to the host's containerd. They are handed over as its input: the host does not see the
// machine's directories.
func (h *Host) importFiles(ctx context.Context, files []string) error {
	for _, file := range files {
		in, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("opening image: %w", err)
		}
		var said bytes.Buffer
		err = h.Exec(ctx, in, &said, &said, "ctr", "-n", "k8s.io", "images", "import", "-")
		_ = in.Close() // it was only read
		if err != nil {
			return fmt.Errorf("importing %s into host %s: %w: %s", filepath.Base(file), h.Name, err, tail(said.String()))
		}
	}
	return nil
}
