package release

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/transplant-dev/transplant/tools/images"
)

// credentialProvider is a program that kubelets ask for the credentials of images.
type credentialProvider struct {
	// module is that of upstream, of which the program is a command; empty for one of this project.
	module string
	// version is the variable that holds the program's version.
	version string
}

// credentialDir is the directory of their module. What they need of the clouds is in no other one.
const credentialDir = "credentials"

var credentialProviders = map[string]credentialProvider{
	"acr-credential-provider": {
		module: "sigs.k8s.io/cloud-provider-azure", version: "sigs.k8s.io/cloud-provider-azure/pkg/version.gitVersion",
	},
	"ecr-credential-provider": {module: "k8s.io/cloud-provider-aws", version: "gitVersion"},
	"gcr-credential-provider": {version: "version"},
}

// pack is the package of a provider, as the go command takes it in the directory of its module.
func (c credentialProvider) pack(name string) string {
	if c.module == "" {
		return "./cmd/" + name
	}
	return c.module + "/cmd/" + name
}

// credentialArchives adds the archives of an image credential provider: kubelets run on Linux.
func (b *builder) credentialArchives(ctx context.Context, name string) error {
	for _, platform := range linux {
		if !slices.Contains(b.Platforms, platform) {
			continue
		}
		if err := b.credentialProvider(ctx, name, platform); err != nil {
			return fmt.Errorf("the archive of %s for %s: %w", name, platform, err)
		}
	}
	return nil
}

// credentialProvider adds the archive of an image credential provider for a platform.
func (b *builder) credentialProvider(ctx context.Context, name, platform string) error {
	c := credentialProviders[name]
	root := filepath.Join(b.Root, credentialDir)
	version := b.Version
	if c.module != "" {
		var err error
		if version, err = b.required(c.module); err != nil {
			return err
		}
	}
	system, arch, _ := strings.Cut(platform, "/")
	file := filepath.Join(b.scratch, name, system, arch, name)
	target := images.Target{
		Root: root, Program: name, Package: c.pack(name), Version: b.Version, Set: map[string]string{c.version: version},
		OS: system, Arch: arch, Log: b.Log,
	}
	if err := target.Compile(ctx, file); err != nil {
		return err
	}
	code, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	license, err := b.source.read("LICENSE")
	if err != nil {
		return err
	}
	notices, err := notices(ctx, target)
	if err != nil {
		return fmt.Errorf("collecting the licenses of what it is built from: %w", err)
	}
	archived := archiveName(name, b.Version, platform)
	data, err := archive(below(archived, []entry{
		{name: name, mode: 0o755, data: code},
		{name: "LICENSE", mode: 0o644, data: license},
		{name: "NOTICES", mode: 0o644, data: notices},
		{name: "README.md", mode: 0o644, data: []byte(c.readme(name, version))},
	}), b.at)
	b.files[archived+archiveSuffix] = data
	fmt.Fprintf(b.Log, "%s%s: %.1f MB\n", archived, archiveSuffix, float64(len(data))/1e6)
	return err
}

// required is the version of a module that the module of the providers names.
func (b *builder) required(module string) (string, error) {
	name := credentialDir + "/go.mod"
	data, err := b.source.read(name)
	if err != nil {
		return "", err
	}
	parsed, err := modfile.Parse(name, data, nil)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(parsed.Require, func(r *modfile.Require) bool { return r.Mod.Path == module })
	if i < 0 {
		return "", fmt.Errorf("%s does not require %s: name the version that is built there", name, module)
	}
	return parsed.Require[i].Mod.Version, nil
}

// readme says what the program is, and where it goes.
func (c credentialProvider) readme(name, version string) string {
	from := "Transplant's own " + version
	if c.module != "" {
		from = c.module + " " + version + ", built by Transplant without a change"
	}
	return "# " + name + "\n\n" +
		"A kubelet asks this program for the credentials of images (`" + from + "`).\n\n" +
		"`transplant plan --credential-provider ./" + name + "` has a migration install and configure it on each host:\n" +
		project + "/blob/main/docs/how-to/volumes-and-image-credentials.md.\n\n" +
		"NOTICES has the licenses of all modules that it is built from.\n"
}

// licenses are the files of a module that go with what is built from it.
var licenses = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|patents)[^/]*$`)

// notices returns the licenses and notices of the modules that a program is built from, and of Go. A module without a
// license is an error: the program must not be published.
func notices(ctx context.Context, t images.Target) ([]byte, error) {
	lines, err := t.List(ctx, `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}	{{.Dir}}{{end}}{{end}}`)
	if err != nil {
		return nil, err
	}
	goRoot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("asking where Go is: %w", err)
	}
	lines = append(lines, "the Go standard library\t"+strings.TrimSpace(string(goRoot)))
	slices.Sort(lines)
	var out strings.Builder
	for _, line := range slices.Compact(lines) {
		module, dir, _ := strings.Cut(line, "\t")
		texts, err := licenseTexts(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", module, err)
		}
		fmt.Fprintf(&out, "%s\n%s\n\n%s\n\n", module, strings.Repeat("=", len(module)), strings.Join(texts, "\n\n"))
	}
	return []byte(out.String()), nil
}

// licenseTexts are those of a module, each below the name of its file.
func licenseTexts(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if !licenses.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go" || !e.Type().IsRegular() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, e.Name()+":\n\n"+strings.TrimSpace(string(data)))
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no license in it, without which nothing built from it is published")
	}
	return out, nil
}
