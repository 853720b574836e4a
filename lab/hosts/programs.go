package hosts

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/cluster"
)

// CLIImage is the repository of the product's command, which host-access pods run.
const CLIImage = "ghcr.io/transplant-dev/transplant"

const (
	pauseImage = "registry.k8s.io/pause:3.9" // what kubeadm v1.26 gives the kubelet
	etcdTag    = "3.5.15-0"
)

// helpers are the lab's own programs that hosts need, by the directory of their command.
var helpers = []string{"lab-init", "lab-supervisor", "pause"}

// Build compiles what the cluster's hosts run, with the product. Up does it too; who calls Build first knows how long
// the cluster itself takes, since a compiler with empty caches takes longer than everything behind it.
func (c *Cluster) Build(ctx context.Context) error {
	if err := c.buildPrograms(ctx); err != nil {
		return err
	}
	return c.buildProduct(ctx)
}

// buildPrograms compiles what is not in the cache, and the checkout's own programs.
func (c *Cluster) buildPrograms(ctx context.Context) error {
	sets := []string{"etcd-v3.5.15", "kubernetes-" + Version, "node-" + Version}
	for _, v := range c.Versions {
		sets = append(sets, "kubernetes-"+v)
	}
	bins, err := build.Ensure(ctx, build.Options{Progress: c.Progress, Sets: sets})
	if err != nil {
		return err
	}
	c.binaries = bins
	if c.Root == "" {
		if c.Root, err = build.FindRoot(); err != nil {
			return err
		}
	}
	for _, dir := range []string{c.binDir(), c.imageDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making directory of cluster: %w", err)
		}
	}
	args := []string{"build", "-trimpath", "-ldflags=-s -w", "-o", c.binDir() + string(filepath.Separator)}
	for _, name := range helpers {
		args = append(args, "./hosts/cmd/"+name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = filepath.Join(c.Root, "lab"), append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the hosts' own programs: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// buildProduct compiles the product without cgo, so that its programs run in images that hold nothing else.
func (c *Cluster) buildProduct(ctx context.Context) error {
	cmd := exec.CommandContext(
		ctx,
		"go",
		"build",
		"-trimpath",
		"-tags",
		strings.Join(c.Tags, ","),
		"-o",
		c.binDir()+string(filepath.Separator),
		"./cmd/transplant",
		"./cmd/aws-cloud-controller-manager",
	)
	cmd.Dir, cmd.Env = c.Root, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the product in %q: %w: %s", c.Root, err, bytes.TrimSpace(out))
	}
	return nil
}

// CLI is the path of the product's command as the cluster's images have it.
func (c *Cluster) CLI() string { return filepath.Join(c.binDir(), "transplant") }

// Kubectl is the path of the kubectl of the cluster's version.
func (c *Cluster) Kubectl() string { return filepath.Join(c.usrDir(), "bin", "kubectl") }

// productImages are the images of the checkout's programs.
func (c *Cluster) productImages() []Image {
	out := []Image{{
		Ref: CLIImage + ":" + c.CLITag, Entrypoint: []string{"/transplant"},
		Files: map[string]string{"/transplant": c.CLI()},
	}}
	for _, tag := range c.CCMTags {
		out = append(out, Image{
			Ref: build.CCMImage + ":" + tag, Entrypoint: []string{"/aws-cloud-controller-manager"},
			Files: map[string]string{"/aws-cloud-controller-manager": filepath.Join(c.binDir(), "aws-cloud-controller-manager")},
		})
	}
	return out
}

// systemImages are the images that kubeadm's manifests name.
func (c *Cluster) systemImages() []Image {
	pause := filepath.Join(c.binDir(), "pause")
	out := []Image{{Ref: pauseImage, Files: map[string]string{"/pause": pause}, Entrypoint: []string{"/pause"}}}
	for _, ref := range c.binaries.Images() {
		file, _ := c.binaries.Image(ref)
		out = append(out, Image{Ref: ref, Files: map[string]string{"/usr/local/bin/" + filepath.Base(file): file}})
	}
	return out
}

// Load builds the product again and imports its images into every host that runs.
func (c *Cluster) Load(ctx context.Context) error {
	if c.Root == "" {
		root, err := build.FindRoot()
		if err != nil {
			return err
		}
		c.Root = root
	}
	if err := c.buildProduct(ctx); err != nil {
		return err
	}
	return c.Import(ctx, c.productImages()...)
}

// makeUsr makes what every host has below /usr next to the machine's files. The cache's programs are linked, not
// copied: hosts cannot write to them, since this is a lower directory of their overlay.
func (c *Cluster) makeUsr() error {
	bin := filepath.Join(c.usrDir(), "bin")
	system := filepath.Join(c.usrDir(), "lib", "systemd", "system")
	for _, dir := range []string{bin, system} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making directory of hosts' programs: %w", err)
		}
	}
	programs := map[string]string{"systemctl": filepath.Join(c.binDir(), "lab-init")}
	for _, name := range []string{"kubelet", "kubeadm", "kubectl"} {
		file, err := c.binaries.Path(name, Version)
		if err != nil {
			return err
		}
		programs[name] = file
	}
	for name, file := range programs {
		if err := linkOrCopy(file, filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(system, "kubelet.service"), []byte(kubeletUnit), 0o644); err != nil {
		return fmt.Errorf("writing unit of kubelet: %w", err)
	}
	return nil
}

// linkOrCopy gives a file a second name, or copies it to another file system.
func linkOrCopy(from, to string) error {
	if err := os.Remove(to); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("replacing program: %w", err)
	}
	if os.Link(from, to) == nil {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copying program: %w", err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		return fmt.Errorf("copying program: %w", err)
	}
	return nil
}

// AccessKey is the AWS access key of a manager on a host, as in the lab of processes, for example AKIALABCP1KCM.
func AccessKey(host, component string) string { return cluster.AccessKey(host, component) }
