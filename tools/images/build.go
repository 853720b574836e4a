// Package images decides what is in the container images of the product's programs, and builds them as OCI layouts.
package images

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Options of a build.
type Options struct {
	Root, Out  string
	Version    string
	Repository string
	// Revision and Created are the commit's hash and its time: they stand in the images in place of a time of the build.
	Revision      string
	Created       time.Time
	Architectures []string
	// Programs are the directories below cmd that are built. Default: all of products.
	Programs []string
	// Log is what the go command and git complain to.
	Log io.Writer
}

// product is a program and what its image needs.
type product struct {
	title string
	// user is what its process runs as; empty for root.
	user string
}

// unprivileged is the user of programs that need nothing of their host. Managers and the command line read files that
// only root may read where they run as static pods and in the pods of --host-access=pod; the manifests and the charts
// give managers this user, too.
const unprivileged = "65532:65532"

// products are the programs of the product, by their directories below cmd.
var products = map[string]product{
	"transplant":                         {title: "The command line of Transplant, and what its pods run on hosts"},
	"transplant-operator":                {title: "The operator of Transplant", user: unprivileged},
	"aws-cloud-controller-manager":       {title: "The cloud-controller-manager of Transplant for AWS"},
	"azure-cloud-controller-manager":     {title: "The cloud-controller-manager of Transplant for Azure"},
	"gce-cloud-controller-manager":       {title: "The cloud-controller-manager of Transplant for GCE"},
	"openstack-cloud-controller-manager": {title: "The cloud-controller-manager of Transplant for OpenStack"},
	"vsphere-cloud-controller-manager":   {title: "The cloud-controller-manager of Transplant for vSphere"},
}

// Built is an image.
type Built struct {
	Program   string
	Reference string
	Digest    v1.Hash
}

// Build builds the images of the options below o.Out, one OCI layout a program with an index over its architectures,
// and returns them by name. On an error what was there before is as it was, or replaced whole.
func Build(ctx context.Context, o Options) ([]Built, error) {
	names := o.Programs
	if len(names) == 0 {
		for program := range products {
			names = append(names, program)
		}
	}
	slices.Sort(names)
	var out []Built
	for _, program := range names {
		p, ok := products[program]
		if !ok {
			return nil, fmt.Errorf("there is no program %q", program)
		}
		b, err := o.image(ctx, program, p)
		if err != nil {
			return nil, fmt.Errorf("building the image of %s: %w", program, err)
		}
		out = append(out, b)
	}
	return out, nil
}

// image builds one program's, in a directory that takes its place when it is whole.
func (o Options) image(ctx context.Context, program string, p product) (b Built, err error) {
	ref, err := name.NewTag(o.Repository + "/" + program + ":" + o.Version)
	if err != nil {
		return b, fmt.Errorf("version %q is no tag of an image: %w", o.Version, err)
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return b, err
	}
	work, err := os.MkdirTemp(o.Out, ".building-")
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range o.Architectures {
		binary := filepath.Join(work, arch, program)
		target := Target{Root: o.Root, Program: program, Version: o.Version, OS: "linux", Arch: arch, Log: o.Log}
		if err := target.Compile(ctx, binary); err != nil {
			return b, err
		}
		image, err := o.assemble(program, p, arch, binary)
		if err != nil {
			return b, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
		list, err := components(binary, program, o)
		if err != nil {
			return b, err
		}
		file := filepath.Join(o.Out, program+"-"+arch+".cdx.json")
		if err := os.WriteFile(file, list, 0o644); err != nil {
			return b, err
		}
	}
	digest, err := index.Digest()
	if err != nil {
		return b, err
	}
	if err := write(index, digest, ref.String(), filepath.Join(work, "layout"), filepath.Join(o.Out, program)); err != nil {
		return b, err
	}
	return Built{Program: program, Reference: ref.String(), Digest: digest}, nil
}

// write puts an image into an OCI layout, under the name by which containerd imports it.
func write(index v1.ImageIndex, digest v1.Hash, ref, work, dir string) error {
	path, err := layout.Write(work, empty.Index)
	if err != nil {
		return fmt.Errorf("making an OCI layout: %w", err)
	}
	err = path.ReplaceIndex(index, match.Digests(digest), layout.WithAnnotations(map[string]string{
		"io.containerd.image.name": ref, "org.opencontainers.image.ref.name": ref,
	}))
	if err != nil {
		return fmt.Errorf("writing the OCI layout: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(work, dir)
}

// assemble makes an image of a program: a layer with what it takes of a system, and one with the program.
func (o Options) assemble(program string, p product, arch, binary string) (v1.Image, error) {
	code, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	base := []file{
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
	}
	var layers []mutate.Addendum
	for _, l := range []struct {
		what  string
		files []file
	}{{"certificates and users", base}, {program, []file{{program, 0o755, code}}}} {
		data, err := archive(l.files, o.Created)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(
			func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
			tarball.WithMediaType(types.OCILayer),
		)
		if err != nil {
			return nil, fmt.Errorf("making the layer of %s: %w", l.what, err)
		}
		layers = append(layers, mutate.Addendum{
			Layer: layer, History: v1.History{Created: v1.Time{Time: o.Created}, CreatedBy: "make images", Comment: l.what},
		})
	}
	none := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(none, layers...)
	if err != nil {
		return nil, fmt.Errorf("putting the layers together: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: o.Created}
	config.Config.Entrypoint, config.Config.User = []string{"/" + program}, p.user
	config.Config.Env = []string{"PATH=/"}
	config.Config.Labels = map[string]string{
		"org.opencontainers.image.title":    p.title,
		"org.opencontainers.image.source":   "https://github.com/transplant-dev/transplant",
		"org.opencontainers.image.version":  o.Version,
		"org.opencontainers.image.revision": o.Revision,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	return mutate.ConfigFile(image, config)
}

// file is one of a layer.
type file struct {
	path string
	mode int64
	data []byte
}

// archive is a layer with files and their directories, all of the same time.
func archive(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{".": true}
	for _, f := range files {
		var dirs []string
		for dir := filepath.Dir(f.path); !made[dir]; dir = filepath.Dir(dir) {
			dirs, made[dir] = append(dirs, dir), true
		}
		slices.Reverse(dirs)
		for _, dir := range dirs {
			if err := w.WriteHeader(&tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: at}); err != nil {
				return nil, fmt.Errorf("archiving %s: %w", dir, err)
			}
		}
		if err := w.WriteHeader(&tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.data)), ModTime: at}); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", f.path, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", f.path, err)
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// authorities are Mozilla's, as golang.org/x/crypto carries them: the machine that builds has no part in whom the
// programs trust. A list in a file cannot say that an authority is trusted only for certificates from before some day,
// so that those with such a limit are left out.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
	}
	return out.Bytes()
}
