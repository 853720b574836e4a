package images

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var containerd = flag.String("images.run", "", "directory of built images: run each under a containerd of this test's own, as root")

// source is a module with one of the product's programs in it, which prints its version.
func source(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                          "module example.com/product\n\ngo 1.26\n",
		"cmd/transplant-operator/main.go": "package main\n\nimport \"fmt\"\n\nvar version string\n\nfunc main() { fmt.Println(version) }\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func optionsFor(t *testing.T, root, out string) Options {
	t.Helper()
	return Options{
		Root: root, Out: out, Version: "v1.2.3", Repository: "registry.example.com/product", Revision: "abc",
		Created: time.Unix(1700000000, 0).UTC(), Architectures: []string{"amd64", "arm64"}, Programs: []string{"transplant-operator"}, Log: t.Output(),
	}
}

func TestTheSameCommitGivesTheSameDigests(t *testing.T) {
	out := t.TempDir()
	first, err := Build(t.Context(), optionsFor(t, source(t), out))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "transplant-operator", "blobs", "left"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	second, err := Build(t.Context(), optionsFor(t, source(t), out)) // from another directory, and over the first
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(first, second) {
		t.Errorf("two builds: %v and %v", first, second)
	}
	if _, err := os.Stat(filepath.Join(out, "transplant-operator", "blobs", "left")); err == nil {
		t.Error("the first build's directory was not replaced")
	}
	left, err := filepath.Glob(filepath.Join(out, ".building-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	other := optionsFor(t, source(t), out)
	other.Version = "v1.2.4"
	third, err := Build(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	if third[0].Digest == first[0].Digest {
		t.Errorf("another version has the same digest, %s", third[0].Digest)
	}
}

func TestWhatIsInAnImage(t *testing.T) {
	out := t.TempDir()
	built, err := Build(t.Context(), optionsFor(t, source(t), out))
	if err != nil {
		t.Fatal(err)
	}
	if want := "registry.example.com/product/transplant-operator:v1.2.3"; built[0].Reference != want {
		t.Errorf("it is called %s, want %s", built[0].Reference, want)
	}
	path, err := layout.FromPath(filepath.Join(out, "transplant-operator"))
	if err != nil {
		t.Fatal(err)
	}
	top, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	index, err := top.ImageIndex(built[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var architectures []string
	for _, d := range manifest.Manifests {
		architectures = append(architectures, d.Platform.Architecture)
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if c := config.Config; !slices.Equal(c.Entrypoint, []string{"/transplant-operator"}) || c.User != unprivileged || config.Architecture != d.Platform.Architecture ||
			c.Labels["org.opencontainers.image.revision"] != "abc" || c.Labels["org.opencontainers.image.version"] != "v1.2.3" || !config.Created.Equal(time.Unix(1700000000, 0)) {
			t.Errorf("configuration %+v", config)
		}
		checkFiles(t, image)
	}
	if !slices.Equal(architectures, []string{"amd64", "arm64"}) {
		t.Errorf("architectures %v", architectures)
	}
	data, err := os.ReadFile(filepath.Join(out, "transplant-operator-arm64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(data), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if c := *bom.Components; len(c) != 1 || c[0].Name != "std" || !strings.HasPrefix(c[0].Version, "go1.") || bom.Metadata.Component.Version != "v1.2.3" {
		t.Errorf("components %+v of %+v", c, bom.Metadata.Component)
	}
}

// checkFiles looks at the file system of an image: the program, users, and whom it trusts. No file has a time of its own.
func checkFiles(t *testing.T, image v1.Image) {
	t.Helper()
	files := mutate.Extract(image)
	defer files.Close()
	var names []string
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%s %o", h.Name, h.Mode))
		if !h.ModTime.Equal(time.Unix(1700000000, 0)) || h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s is of %s, user %d, group %d", h.Name, h.ModTime, h.Uid, h.Gid)
		}
		if h.Name == "etc/ssl/certs/ca-certificates.crt" {
			data, err := io.ReadAll(r)
			if n := bytes.Count(data, []byte("BEGIN CERTIFICATE")); err != nil || n < 50 {
				t.Errorf("%d certificates, %v", n, err)
			}
		}
	}
	slices.Sort(names)
	want := []string{
		"etc 755", "etc/passwd 644", "etc/ssl 755", "etc/ssl/certs 755", "etc/ssl/certs/ca-certificates.crt 644", "transplant-operator 755",
	}
	if !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
}

func TestABuildThatCannotBe(t *testing.T) {
	root := source(t)
	for _, c := range []struct {
		name   string
		change func(*Options)
		says   string
	}{
		{"no such program", func(o *Options) { o.Programs = []string{"transplnat"} }, `there is no program "transplnat"`},
		{"no tag", func(o *Options) { o.Version = "v1.2.3+dirty" }, `version "v1.2.3+dirty" is no tag`},
		{"no such architecture", func(o *Options) { o.Architectures = []string{"amd46"} }, "compiling for amd46"},
		{"no source", func(o *Options) { o.Root = t.TempDir() }, "compiling for amd64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := t.TempDir()
			o := optionsFor(t, root, out)
			before, err := Build(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			c.change(&o)
			if _, err := Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one with %q", err, c.says)
			}
			index, err := layout.ImageIndexFromPath(filepath.Join(out, "transplant-operator"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := index.ImageIndex(before[0].Digest); err != nil {
				t.Errorf("the image of before is gone: %v", err)
			}
			if left, _ := filepath.Glob(filepath.Join(out, ".building-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// Every command of the product has an image, and no other.
func TestEveryCommandHasAnImage(t *testing.T) {
	entries, err := os.ReadDir("../../cmd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := products[e.Name()]; !ok {
			t.Errorf("cmd/%s has no image", e.Name())
		}
	}
	if len(entries) != len(products) {
		t.Errorf("%d commands and %d images", len(entries), len(products))
	}
}

// Each image that was built is imported by containerd and starts its program, which says the version of its tag: as the image's user, on a root file
// system that it cannot write to.
func TestImagesRunUnderContainerd(t *testing.T) {
	if *containerd == "" {
		t.Skip("needs containerd, root and built images: make images-run")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "containerd.sock")
	config := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = %q\n",
		filepath.Join(dir, "root"), filepath.Join(dir, "state"), socket)
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	daemon := exec.Command("containerd", "--config", filepath.Join(dir, "config.toml"))
	daemon.Stdout, daemon.Stderr = &log, &log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(os.Interrupt)
		if err := daemon.Wait(); err != nil && t.Failed() {
			t.Logf("containerd: %v\n%s", err, log.String())
		}
	})
	ctr := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "ctr", append([]string{"--address", socket}, args...)...).CombinedOutput()
		return string(out), err
	}
	for begin := time.Now(); ; {
		out, err := ctr("version")
		if err == nil {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("containerd does not answer: %v\n%s\n%s", err, out, log.String())
		}
		<-time.After(50 * time.Millisecond)
	}
	digests, err := os.ReadFile(filepath.Join(*containerd, "digests.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(digests)) {
		ref, digest, _ := strings.Cut(strings.TrimSpace(line), "@")
		program, version, _ := strings.Cut(filepath.Base(ref), ":")
		t.Run(program, func(t *testing.T) {
			file := filepath.Join(dir, program+".tar")
			if out, err := exec.CommandContext(t.Context(), "tar", "-C", filepath.Join(*containerd, program), "-cf", file, ".").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if out, err := ctr("images", "import", file); err != nil || !strings.Contains(out, ref) {
				t.Fatalf("importing: %v: %s", err, out)
			}
			if out, err := ctr("images", "ls", "name=="+ref); err != nil || !strings.Contains(out, digest) {
				t.Errorf("imported as another digest than %s: %v: %s", digest, err, out)
			}
			out, err := ctr("run", "--rm", "--read-only", "--net-host", ref, program+"-run", "/"+program, "--version")
			if err != nil || !strings.Contains(out, version) {
				t.Errorf("%s --version: %v: %s", program, err, out)
			}
			t.Log(strings.TrimSpace(out))
		})
	}
}
