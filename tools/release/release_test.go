package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/tools/images"
)

// standIns are the files of a module with two programs: one whose command is made as the command line's is, and one as a manager's.
var standIns = map[string]string{
	"go.mod": "module example.com/product\n\ngo 1.26\n\nrequire github.com/spf13/cobra v1.10.2\n\n" +
		"require (\n\tgithub.com/inconshreveable/mousetrap v1.1.0 // indirect\n\tgithub.com/spf13/pflag v1.0.10 // indirect\n)\n",
	"LICENSE":                   "free\n",
	"README.md":                 "[a](docs/a.md#b) [c](https://x.y/z) [d](#e)\n",
	".gitignore":                "/out/\n",
	"internal/client/client.go": "package client\n\nvar Version, PublishedHostImage = \"devel\", \"\"\n",
	"internal/cli/cli.go": `package cli

import (
	"github.com/spf13/cobra"

	"example.com/product/internal/client"
)

func NewCommand() *cobra.Command {
	root := &cobra.Command{Use: "transplant", Short: "Move", Version: client.Version}
	root.Flags().String("image", "i:"+client.PublishedHostImage, "the image")
	root.AddCommand(&cobra.Command{Use: "check", Short: "Find what is wrong", Run: func(*cobra.Command, []string) {}})
	return root
}
`,
	"cmd/transplant/main.go": `package main

import (
	"os"

	"example.com/product/internal/cli"
	"example.com/product/internal/client"
)

var version, hostImage string

func main() {
	client.Version, client.PublishedHostImage = version, hostImage
	if cli.NewCommand().Execute() != nil {
		os.Exit(1)
	}
}
`,
	"cmd/aws-cloud-controller-manager/main.go": `package main

import "github.com/spf13/cobra"

func main() {}

func newCommand() (*cobra.Command, error) {
	return &cobra.Command{Use: "aws-cloud-controller-manager", Short: "Manage", Run: func(*cobra.Command, []string) {}}, nil
}
`,
	"deploy/charts/transplant-operator/Chart.yaml":            "apiVersion: v2\nname: transplant-operator\nversion: 1.2.3\nappVersion: v1.2.3\n",
	"deploy/charts/transplant-operator/templates/deploy.yaml": "kind: Deployment\n",
	"deploy/manifests/aws.yaml":                               "image: ghcr.io/transplant-dev/aws-cloud-controller-manager:v1.2.3\n",
	"deploy/kustomize/overlays/aws/kustomization.yaml":        "images:\n- name: m\n  newName: ghcr.io/transplant-dev/aws-cloud-controller-manager\n  newTag: v1.2.3\n",
	"deploy/monitoring/rules_test.yaml":                       "tests: []\n",
	"deploy/monitoring/monitoring.go":                         "package monitoring\n",
}

var committed = time.Unix(1700000000, 0).UTC()

func gitIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	date := committed.Format(time.RFC3339)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
}

// commitIn commits all of a tree for the time of one test.
func commitIn(t *testing.T, root string) {
	t.Helper()
	gitIn(t, root, "add", "--all")
	gitIn(t, root, "commit", "-q", "-m", "Go on")
	t.Cleanup(func() { gitIn(t, root, "reset", "-q", "--hard", "HEAD~") })
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// checkout is a commit of the stand-ins in a directory of its own. Its hash is the same each time.
func checkout(t *testing.T) Options {
	t.Helper()
	root := t.TempDir()
	for name, text := range standIns {
		put(t, filepath.Join(root, name), text)
	}
	sums, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(root, "go.sum"), string(sums))
	gitIn(t, root, "init", "-q", "-b", "main")
	gitIn(t, root, "add", "-A")
	gitIn(t, root, "commit", "-q", "-m", "Begin")
	return Options{
		Root: root, Out: filepath.Join(root, "out", "release"), Images: filepath.Join(root, "out", "images"), Version: "v1.2.3",
		Platforms: []string{"linux/amd64", "linux/arm64"}, Programs: []string{"aws-cloud-controller-manager", "transplant"}, Log: t.Output(),
	}
}

// buildImages does what make images does.
func buildImages(t *testing.T, o Options) string {
	t.Helper()
	i := images.Options{
		Root: o.Root, Out: o.Images, Version: o.Version, Repository: "registry.example.com/product", Architectures: []string{"amd64"}, Programs: o.Programs, Log: o.Log,
	}
	var err error
	if i.Revision, i.Created, err = images.Commit(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	built, err := images.Build(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, b := range built {
		lines.WriteString(b.Reference + "@" + b.Digest.String() + "\n")
	}
	put(t, filepath.Join(o.Images, "digests.txt"), lines.String())
	return lines.String()
}

func filesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, e := range entries {
		if out[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestARelease(t *testing.T) {
	first, second := checkout(t), checkout(t)
	digests := buildImages(t, first)
	names, err := Build(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(second.Images, os.DirFS(first.Images)); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(second.Out, sumsFile), "of an earlier release\n")
	put(t, filepath.Join(second.Out, "transplant-v1.2.2-linux-amd64.tar.gz"), "an earlier release\n")
	if _, err := Build(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	files := filesOf(t, first.Out)
	t.Run("the same commit gives the same bytes in another directory", func(t *testing.T) {
		if again := filesOf(t, second.Out); !maps.EqualFunc(files, again, bytes.Equal) {
			t.Errorf("files %v and %v, or their bytes, differ", slices.Sorted(maps.Keys(files)), slices.Sorted(maps.Keys(again)))
		}
		if left, err := filepath.Glob(filepath.Join(second.Root, "out", ".release-*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	want := []string{
		"SHA256SUMS", "aws-cloud-controller-manager-v1.2.3-linux-amd64.tar.gz", "aws-cloud-controller-manager-v1.2.3-linux-arm64.tar.gz", "images.txt",
		"transplant-manifests-v1.2.3.tar.gz", "transplant-operator-1.2.3.tgz", "transplant-v1.2.3-linux-amd64.tar.gz", "transplant-v1.2.3-linux-arm64.tar.gz", "transplant.yaml",
	}
	if !slices.Equal(names, want) || !slices.Equal(slices.Sorted(maps.Keys(files)), want) {
		t.Fatalf("files %v, said %v, want %v", slices.Sorted(maps.Keys(files)), names, want)
	}
	if string(files["images.txt"]) != digests {
		t.Errorf("images.txt is %q, want %q", files["images.txt"], digests)
	}
	t.Run("checksums are those of all files", func(t *testing.T) { checkSums(t, first.Out, len(files)-1) })
	t.Run("archives", func(t *testing.T) { checkArchives(t, files) })
	t.Run("krew's manifest names the archives", func(t *testing.T) { checkKrew(t, files) })
	t.Run("the command runs, also as a plugin", func(t *testing.T) { checkRuns(t, first.Out) })
	t.Run("images are named by digest", func(t *testing.T) { checkPinned(t, files, digests) })
	t.Run("a failed build leaves the release of before", func(t *testing.T) {
		put(t, filepath.Join(first.Root, "cmd/transplant/main.go"), "package main\n")
		first.Development = true
		if _, err := Build(t.Context(), first); err == nil || !strings.Contains(err.Error(), "describing the command of transplant: compiling") {
			t.Errorf("error %v", err)
		}
		if after := filesOf(t, first.Out); !maps.EqualFunc(files, after, bytes.Equal) {
			t.Error("the release of before has changed")
		}
		if left, err := filepath.Glob(filepath.Join(first.Root, "out", ".release-*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}

// checkPinned asks the program itself, and the manifests, for the digests that make images gave.
func checkPinned(t *testing.T, files map[string][]byte, digests string) {
	t.Helper()
	manager, host, _ := strings.Cut(strings.TrimSpace(digests), "\n")
	_, digest, _ := strings.Cut(manager, "@")
	command := filepath.Join(t.TempDir(), "transplant")
	name := "transplant-v1.2.3-" + runtime.GOOS + "-" + runtime.GOARCH
	if err := os.WriteFile(command, contents(t, files[name+".tar.gz"])[name+"/transplant"].data, 0o755); err != nil {
		t.Fatal(err)
	}
	if help, err := exec.CommandContext(t.Context(), command, "--help").CombinedOutput(); err != nil || !strings.Contains(string(help), "i:"+host) {
		t.Errorf("%v: the program does not name %s:\n%s", err, host, help)
	}
	manifests := contents(t, files["transplant-manifests-v1.2.3.tar.gz"])
	for file, want := range map[string]string{
		"manifests/aws.yaml": "image: ghcr.io/transplant-dev/aws-cloud-controller-manager:v1.2.3@" + digest + "\n",
		"kustomize/overlays/aws/kustomization.yaml": "images:\n- name: m\n  newName: ghcr.io/transplant-dev/aws-cloud-controller-manager\n  newTag: v1.2.3\n" +
			"  digest: " + digest + "\n",
	} {
		if have := string(manifests["transplant-manifests-v1.2.3/"+file].data); have != want {
			t.Errorf("%s is\n%s\nwant\n%s", file, have, want)
		}
	}
}

func checkSums(t *testing.T, dir string, want int) {
	t.Helper()
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", sumsFile)
	check.Dir = dir
	out, err := check.CombinedOutput()
	if err != nil || strings.Count(string(out), ": OK\n") != want {
		t.Errorf("%v, want %d files:\n%s", err, want, out)
	}
}

// contents are the files of an archive. Nothing in it depends on where and when it was made.
func contents(t *testing.T, data []byte) map[string]entry {
	t.Helper()
	packed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if packed.Name != "" || !packed.ModTime.IsZero() {
		t.Errorf("the header of gzip has a name %q, a time %s", packed.Name, packed.ModTime)
	}
	out := map[string]entry{}
	var last string
	for r := tar.NewReader(packed); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || !h.ModTime.Equal(committed) || len(h.PAXRecords) > 0 {
			t.Errorf("%s has the header %+v", h.Name, h)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if h.Name <= last {
			t.Errorf("%s comes after %s", h.Name, last)
		}
		last = h.Name
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = entry{name: h.Name, mode: h.Mode, data: text, link: h.Linkname}
	}
}

func checkArchives(t *testing.T, files map[string][]byte) {
	t.Helper()
	for file, want := range map[string][]string{
		"transplant-v1.2.3-linux-arm64.tar.gz": {
			"LICENSE 644", "README.md 644", "completions/_transplant 644", "completions/transplant.bash 644", "completions/transplant.fish 644",
			"kubectl-transplant 777 transplant", "kubectl_complete-transplant 755", "man/man1/transplant-check.1 644", "man/man1/transplant-completion-bash.1 644",
			"man/man1/transplant-completion-fish.1 644", "man/man1/transplant-completion-powershell.1 644", "man/man1/transplant-completion-zsh.1 644",
			"man/man1/transplant-completion.1 644", "man/man1/transplant.1 644", "transplant 755",
		},
		"aws-cloud-controller-manager-v1.2.3-linux-amd64.tar.gz": {
			"LICENSE 644", "README.md 644", "aws-cloud-controller-manager 755", "completions/_aws-cloud-controller-manager 644",
			"completions/aws-cloud-controller-manager.bash 644", "completions/aws-cloud-controller-manager.fish 644", "man/man8/aws-cloud-controller-manager.8 644",
		},
		"transplant-operator-1.2.3.tgz":      {"Chart.yaml 644", "templates/deploy.yaml 644"},
		"transplant-manifests-v1.2.3.tar.gz": {"LICENSE 644", "kustomize/overlays/aws/kustomization.yaml 644", "manifests/aws.yaml 644"},
	} {
		top := strings.TrimSuffix(strings.TrimSuffix(file, ".tar.gz"), "-1.2.3.tgz") + "/" // Helm's have the chart's name alone
		var have []string
		for name, e := range contents(t, files[file]) {
			rest, ok := strings.CutPrefix(name, top)
			if !ok {
				t.Errorf("%s has %s outside of %s", file, name, top)
			}
			have = append(have, strings.TrimSpace(rest+" "+formatMode(e.mode)+" "+e.link))
		}
		slices.Sort(have)
		if !slices.Equal(have, want) {
			t.Errorf("%s has\n%s\nwant\n%s", file, strings.Join(have, "\n"), strings.Join(want, "\n"))
		}
	}
	command := contents(t, files["transplant-v1.2.3-linux-amd64.tar.gz"])
	page := string(command["transplant-v1.2.3-linux-amd64/man/man1/transplant.1"].data)
	if !strings.Contains(page, `"Nov 2023" "Transplant v1.2.3"`) || !strings.Contains(page, `="i:registry.example.com/product/transplant:v1.2.3@sha256:`) {
		t.Errorf("the manual page has another date, version or image:\n%s", page)
	}
	readme := string(command["transplant-v1.2.3-linux-amd64/README.md"].data)
	if !strings.HasPrefix(readme, "[a](https://github.com/transplant-dev/transplant/blob/") || !strings.HasSuffix(readme, "/docs/a.md#b) [c](https://x.y/z) [d](#e)\n") {
		t.Errorf("README: %s", readme)
	}
}

func formatMode(mode int64) string {
	return map[int64]string{0o644: "644", 0o755: "755", 0o777: "777"}[mode]
}

func checkKrew(t *testing.T, files map[string][]byte) {
	t.Helper()
	var p plugin
	if err := yaml.UnmarshalStrict(files["transplant.yaml"], &p); err != nil {
		t.Fatal(err)
	}
	if p.Kind != "Plugin" || p.Metadata["name"] != "transplant" || p.Spec.Version != "v1.2.3" || len(p.Spec.Platforms) != 2 {
		t.Fatalf("manifest:\n%s", files["transplant.yaml"])
	}
	for _, platform := range p.Spec.Platforms {
		file := "transplant-v1.2.3-" + platform.Selector.MatchLabels["os"] + "-" + platform.Selector.MatchLabels["arch"] + ".tar.gz"
		if want := "https://github.com/transplant-dev/transplant/releases/download/v1.2.3/" + file; platform.URI != want || platform.SHA256 != sum(files[file]) {
			t.Errorf("%s is at %s with %s, want %s with %s", file, platform.URI, platform.SHA256, want, sum(files[file]))
		}
		in := contents(t, files[file])
		var moved []string
		for _, f := range platform.Files {
			if _, ok := in[f.From]; !ok || f.To != "." {
				t.Errorf("%s has no %s, which goes to %s", file, f.From, f.To)
			}
			moved = append(moved, filepath.Base(f.From))
		}
		if !slices.Contains(moved, platform.Bin) || !slices.Contains(moved, "LICENSE") {
			t.Errorf("of %s krew installs %v and runs %s", file, moved, platform.Bin)
		}
	}
}

// checkRuns unpacks what is for this machine and runs it by its names. kubectl asks the plugin for completions through a program of its own.
func checkRuns(t *testing.T, dir string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the archives of this test are for Linux")
	}
	top := "transplant-v1.2.3-linux-" + runtime.GOARCH
	to := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-C", to, "-xzf", filepath.Join(dir, top+".tar.gz")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"transplant", []string{"--version"}, "transplant version v1.2.3\n"},
		{"kubectl-transplant", []string{"--version"}, "transplant version v1.2.3\n"},
		{"kubectl_complete-transplant", []string{"chec"}, "check\tFind what is wrong\n"},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(to, top, c.name), c.args...)
		cmd.Env = []string{"PATH=" + filepath.Join(to, top)}
		if out, err := cmd.Output(); err != nil || !strings.HasPrefix(string(out), c.want) {
			t.Errorf("%s %q: %v, %q, want %q", c.name, c.args, err, out, c.want)
		}
	}
}

func TestAReleaseThatIsRefused(t *testing.T) {
	good := checkout(t)
	digests := buildImages(t, good)
	file := filepath.Join(good.Images, "digests.txt")
	for _, c := range []struct {
		name   string
		change func(t *testing.T, o *Options)
		says   string
	}{
		{"no semantic version", func(_ *testing.T, o *Options) { o.Version = "1.0" }, `version "1.0" is none of a release`},
		{"half a version", func(_ *testing.T, o *Options) { o.Version = "v1.0" }, `version "v1.0" is none`},
		{"a version that images cannot have", func(_ *testing.T, o *Options) { o.Version = "v1.0.0+a" }, `version "v1.0.0+a" is none`},
		{"a path", func(_ *testing.T, o *Options) { o.Version = "v1.0.0/../.." }, "is none of a release"},
		{"no such platform", func(_ *testing.T, o *Options) { o.Platforms = []string{"plan9/amd64"} }, `platform "plan9/amd64": give some of darwin/amd64`},
		{"no such program", func(_ *testing.T, o *Options) { o.Programs = []string{"transplnat"} }, `no program "transplnat": give some of aws-`},
		{"no checkout", func(t *testing.T, o *Options) { o.Root = t.TempDir() }, "asking git for the commit"},
		{"changes", func(t *testing.T, o *Options) {
			put(t, filepath.Join(o.Root, "LICENSE"), "not free\n")
			t.Cleanup(func() { gitIn(t, o.Root, "checkout", "-q", "LICENSE") })
		}, "has changes, so that no commit gives this release: commit or remove them"},
		{"a new file", func(t *testing.T, o *Options) {
			put(t, filepath.Join(o.Root, "cmd/transplant/new.go"), "package main\n")
			t.Cleanup(func() { _ = os.Remove(filepath.Join(o.Root, "cmd/transplant/new.go")) })
		}, "?? cmd/transplant/new.go"},
		{"a tag of another commit", func(t *testing.T, o *Options) {
			gitIn(t, o.Root, "tag", "-m", "Release", "v1.2.3")
			gitIn(t, o.Root, "commit", "-q", "--allow-empty", "-m", "Go on")
			t.Cleanup(func() { gitIn(t, o.Root, "reset", "-q", "--hard", "v1.2.3"); gitIn(t, o.Root, "tag", "-d", "v1.2.3") })
		}, "tag v1.2.3 is not the commit"},
		{"manifests of another version", func(_ *testing.T, o *Options) { o.Version = "v1.2.4" }, "deploy/charts/transplant-operator/Chart.yaml: v1.2.3\n" +
			"deploy/kustomize/overlays/aws/kustomization.yaml: v1.2.3\ndeploy/manifests/aws.yaml: v1.2.3"},
		{"a format that may still change", func(t *testing.T, o *Options) {
			put(t, filepath.Join(o.Root, "internal/a/testdata/schemas/kept-2.txt"), "# kept, schema 2, not released\na.kept\n")
			commitIn(t, o.Root)
		}, "fields of internal/a/testdata/schemas/kept-2.txt could still change under their number"},
		{"no worlds of this version", func(t *testing.T, o *Options) {
			put(t, filepath.Join(o.Root, "internal/migrate/testdata/kept/v1.2.2-begun.json"), "{}\n")
			commitIn(t, o.Root)
		}, "internal/migrate/testdata/kept has no v1.2.3-*.json"},
		{"no images", func(_ *testing.T, o *Options) { o.Images = filepath.Join(o.Root, "none") }, "run make images VERSION=v1.2.3, then this again, or give --development"},
		{"images of another version", func(t *testing.T, _ *Options) { put(t, file, strings.ReplaceAll(digests, "v1.2.3", "v1.2.2")) },
			"/aws-cloud-controller-manager:v1.2.2, and this release is v1.2.3: run make images"},
		{"too few images", func(t *testing.T, _ *Options) { put(t, file, strings.SplitAfter(digests, "\n")[0]) }, "has no image of transplant: run make images"},
		{"no image", func(t *testing.T, _ *Options) { put(t, file, "nonsense\n") }, `line "nonsense" names no image`},
		{"another digest", func(t *testing.T, _ *Options) {
			put(t, file, digests[:strings.Index(digests, "@")]+"@sha256:"+strings.Repeat("0", 64)+"\n")
		}, "the image of aws-cloud-controller-manager in"},
		{"images of another commit", func(t *testing.T, o *Options) {
			gitIn(t, o.Root, "commit", "-q", "--allow-empty", "-m", "Go on")
			t.Cleanup(func() { gitIn(t, o.Root, "reset", "-q", "--hard", "HEAD~") })
		}, "it was built from commit"},
		{"another directory", func(t *testing.T, o *Options) { o.Out = o.Root }, "has files and no SHA256SUMS"},
		{"a file", func(t *testing.T, o *Options) { o.Out = filepath.Join(o.Root, "LICENSE") }, "reading the directory for the release"},
	} {
		t.Run(c.name, func(t *testing.T) {
			put(t, file, digests)
			o := good
			o.Log = t.Output()
			c.change(t, &o)
			if _, err := Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one with %q", err, c.says)
			}
			if _, err := os.Stat(good.Out); err == nil {
				t.Error("a release was written")
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(o.Out), ".release-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// The product's own manifests and charts are of one version, and each of its programs is released.
func TestTheProductCanBeReleased(t *testing.T) {
	if have := slices.Sorted(maps.Keys(products)); !slices.Equal(have, images.Programs()) {
		t.Errorf("released are %v, and the programs are %v", have, images.Programs())
	}
	providers := builder{source: source{root: "../.."}}
	for name, c := range credentialProviders {
		if c.module == "" {
			if _, err := os.Stat(filepath.Join("../..", credentialDir, "cmd", name)); err != nil {
				t.Error(err)
			}
		} else if version, err := providers.required(c.module); err != nil || !semver.IsValid(version) {
			t.Errorf("%s of %s %s: %v", name, c.module, version, err)
		}
	}
	if _, err := providers.required("example.com/none"); err == nil || !strings.Contains(err.Error(), "does not require example.com/none") {
		t.Errorf("a module that is not required: %v", err)
	}
	tracked, err := git(t.Context(), "../..", t.Output(), "ls-files", "-z")
	if err != nil {
		t.Skipf("no checkout of git: %v", err)
	}
	s := source{root: "../..", tracked: strings.Split(strings.TrimRight(tracked, "\x00"), "\x00")}
	data, err := s.read("deploy/charts/transplant-operator/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c chart
	if err := yaml.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	if err := checkVersion(c.AppVersion); err != nil {
		t.Error(err)
	}
	if err := s.checkNamedVersions(c.AppVersion); err != nil {
		t.Error(err)
	}
	b := builder{source: s, at: committed, files: map[string][]byte{}}
	if err := b.charts(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"cloud-controller-manager-" + c.Version + ".tgz", "transplant-operator-" + c.Version + ".tgz"} {
		if contents(t, b.files[want])[strings.TrimSuffix(want, "-"+c.Version+".tgz")+"/values.schema.json"].mode != 0o644 {
			t.Errorf("%s has no schema of its values", want)
		}
	}
}
