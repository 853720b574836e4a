// Package release decides what a release of the product consists of, and writes it: archives of programs, charts and
// manifests, a krew manifest, digests of images, and checksums. The same commit, Go and version give the same bytes.
package release

import (
	"context"
	"crypto/sha256"
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

	"github.com/transplant-dev/transplant/tools/images"
)

// Options of a release.
type Options struct {
	// Root is the directory of the product's module, a checkout of git.
	Root string
	// Out is the directory that is written. One of an earlier run is replaced, another is refused.
	Out     string
	Version string
	// Images is what make images wrote.
	Images string
	// Platforms and Programs are what is built. Default: all.
	Platforms, Programs []string
	// Development takes a tree with changes, manifests that name another version, and no images.
	Development bool
	// Log is what is said on the way, and what the go command and git complain to.
	Log io.Writer
}

const (
	project  = "https://github.com/transplant-dev/transplant"
	sumsFile = "SHA256SUMS"
)

// product is how a program is released.
type product struct {
	// platforms are those that it is compiled for. Managers run on Linux; on other systems transplant asks the cloud
	// through them.
	platforms []string
	// section of the manual: 1 for commands of users, 8 for daemons.
	section string
	// construct is the Go code that returns the program's command, and imports what that needs, below the module.
	construct string
	imports   []string
	// hostImage reports whether the program starts pods of its own image on hosts.
	hostImage bool
}

var (
	linux   = []string{"linux/amd64", "linux/arm64"}
	desktop = []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64"}
	manager = product{platforms: desktop, section: "8", construct: "return newCommand()"}
)

// command is the program of krew's plugin.
const command = "transplant"

var products = map[string]product{
	command: {
		platforms: desktop, section: "1", construct: "client.Version, client.PublishedHostImage = version, hostImage\n\treturn cli.NewCommand(), nil",
		imports: []string{"internal/cli", "internal/client"}, hostImage: true,
	},
	"transplant-operator":                {platforms: linux, section: "8", construct: "return newCommand(), nil"},
	"aws-cloud-controller-manager":       manager,
	"azure-cloud-controller-manager":     manager,
	"gce-cloud-controller-manager":       manager,
	"openstack-cloud-controller-manager": manager,
	"vsphere-cloud-controller-manager":   manager,
}

// Build writes a release and returns the names of its files. On an error, what was there before is as it was.
func Build(ctx context.Context, o Options) (names []string, err error) {
	if o, err = o.complete(); err != nil {
		return nil, err
	}
	commit, at, err := images.Commit(ctx, images.Options{Root: o.Root, Log: o.Log})
	if err != nil {
		return nil, err
	}
	s, err := readSource(ctx, o, commit)
	if err != nil {
		return nil, err
	}
	published, err := readDigests(o, commit)
	if err != nil {
		return nil, err
	}
	if err := mayReplace(o.Out); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(filepath.Dir(o.Out), ".release-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	b := builder{
		Options: o, source: s, at: at, published: published,
		scratch: filepath.Join(work, "scratch"), files: map[string][]byte{},
	}
	if err := b.build(ctx); err != nil {
		return nil, err
	}
	whole := filepath.Join(work, "release")
	if err := os.Mkdir(whole, 0o755); err != nil {
		return nil, err
	}
	for name, data := range b.files {
		if err := os.WriteFile(filepath.Join(whole, name), data, 0o644); err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(b.files)), replace(whole, o.Out, filepath.Join(work, "before"))
}

// complete refuses what cannot be released, before anything is compiled.
func (o Options) complete() (Options, error) {
	if err := checkVersion(o.Version); err != nil {
		return o, err
	}
	if len(o.Platforms) == 0 {
		o.Platforms = desktop
	}
	known := slices.Concat(slices.Sorted(maps.Keys(products)), slices.Sorted(maps.Keys(credentialProviders)))
	if len(o.Programs) == 0 {
		o.Programs = known
	}
	for _, platform := range o.Platforms {
		if !slices.Contains(desktop, platform) {
			return o, fmt.Errorf("nothing is released for platform %q: give some of %s", platform, strings.Join(desktop, ", "))
		}
	}
	for _, program := range o.Programs {
		if !slices.Contains(known, program) {
			return o, fmt.Errorf("there is no program %q: give some of %s", program, strings.Join(known, ", "))
		}
	}
	var err error
	if o.Root, err = filepath.Abs(o.Root); err != nil {
		return o, err
	}
	if o.Out, err = filepath.Abs(o.Out); err != nil {
		return o, err
	}
	return o, os.MkdirAll(filepath.Dir(o.Out), 0o755)
}

// builder collects the files of a release.
type builder struct {
	Options
	source source
	// published are the images of this version; nil where they were left out.
	published published
	// at is the time of the commit, which every file of an archive has.
	at      time.Time
	scratch string
	files   map[string][]byte
}

func (b *builder) build(ctx context.Context) error {
	sums := map[string]string{} // of the archives of the command, by platform
	for _, program := range b.Programs {
		if _, ok := credentialProviders[program]; ok {
			if err := b.credentialArchives(ctx, program); err != nil {
				return err
			}
			continue
		}
		described, err := b.describe(ctx, program)
		if err != nil {
			return fmt.Errorf("describing the command of %s: %w", program, err)
		}
		for _, platform := range products[program].platforms {
			if !slices.Contains(b.Platforms, platform) {
				continue
			}
			name, err := b.program(ctx, program, platform, described)
			if err != nil {
				return fmt.Errorf("the archive of %s for %s: %w", program, platform, err)
			}
			if program == command {
				sums[platform] = sum(b.files[name])
			}
		}
	}
	if err := errors.Join(b.charts(), b.manifests()); err != nil {
		return err
	}
	if len(sums) > 0 {
		manifest, err := krewManifest(b.Version, sums)
		if err != nil {
			return err
		}
		b.files[command+".yaml"] = manifest
	}
	if b.published != nil {
		b.files["images.txt"] = b.published.lines()
	}
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		fmt.Fprintf(&lines, "%s  %s\n", sum(b.files[name]), name)
	}
	b.files[sumsFile] = []byte(lines.String())
	return nil
}

func sum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// archiveName is the name of a program's archive, without what says that it is one: also the directory in it.
func archiveName(program, version, platform string) string {
	return strings.Join([]string{program, version, strings.ReplaceAll(platform, "/", "-")}, "-")
}

const archiveSuffix = ".tar.gz"

// set are the variables of a program besides its version.
func (b *builder) set(program string) map[string]string {
	ref := b.published.reference(program)
	if !products[program].hostImage || ref == "" {
		return nil
	}
	return map[string]string{"hostImage": ref}
}

// program adds the archive of a program for a platform.
func (b *builder) program(ctx context.Context, program, platform string, described []entry) (string, error) {
	system, arch, _ := strings.Cut(platform, "/")
	file := filepath.Join(b.scratch, program, system, arch, program)
	target := images.Target{
		Root: b.Root, Program: program, Version: b.Version, OS: system, Arch: arch, Set: b.set(program), Log: b.Log,
	}
	if err := target.Compile(ctx, file); err != nil {
		return "", err
	}
	code, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	license, err := b.source.read("LICENSE")
	if err != nil {
		return "", err
	}
	readme, err := b.readme()
	if err != nil {
		return "", err
	}
	entries := append([]entry{
		{name: program, mode: 0o755, data: code},
		{name: "LICENSE", mode: 0o644, data: license},
		{name: "README.md", mode: 0o644, data: readme},
	}, described...)
	if program == command {
		entries = append(entries,
			entry{name: pluginFile, link: program},
			entry{name: completionFile, mode: 0o755, data: []byte(completionScript)},
		)
	}
	name := archiveName(program, b.Version, platform)
	data, err := archive(below(name, entries), b.at)
	b.files[name+archiveSuffix] = data
	fmt.Fprintf(b.Log, "%s%s: %.1f MB\n", name, archiveSuffix, float64(len(data))/1e6)
	return name + archiveSuffix, err
}

// manifests adds what is in deploy apart from the charts, as it is applied with kubectl.
func (b *builder) manifests() error {
	name := "transplant-manifests-" + b.Version
	var entries []entry
	for _, file := range b.source.below("deploy") {
		inDeploy := strings.TrimPrefix(file, "deploy/")
		base := path.Base(file)
		if strings.HasPrefix(inDeploy, "charts/") || path.Ext(base) != ".yaml" || strings.HasSuffix(base, "_test.yaml") {
			continue
		}
		data, err := b.source.read(file)
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: inDeploy, mode: 0o644, data: b.published.pin(data)})
	}
	license, err := b.source.read("LICENSE")
	if err != nil {
		return err
	}
	data, err := archive(below(name, append(entries, entry{name: "LICENSE", mode: 0o644, data: license})), b.at)
	b.files[name+archiveSuffix] = data
	return err
}
