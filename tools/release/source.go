package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"
)

// source is the commit of which a release is made.
type source struct {
	root   string
	commit string
	// tracked are the files that git knows, below the root.
	tracked []string
}

// checkVersion refuses what is no version of a release. Image tags, charts and krew take the same word.
func checkVersion(version string) error {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf(
			"version %q is none of a release: give v and a whole semantic version without build metadata, "+
				"such as VERSION=v0.1.0 or v0.2.0-rc.1",
			version,
		)
	}
	return nil
}

// git returns what git prints about the tree.
func git(ctx context.Context, root string, log io.Writer, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...)
	cmd.Stderr = log
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s in %s: %w", args[0], root, err)
	}
	return string(out), nil
}

// readSource reads which files a release is made of. A tree with changes is no commit that others could build again.
func readSource(ctx context.Context, o Options, commit string) (source, error) {
	s := source{root: o.Root, commit: commit}
	changes, err := git(ctx, o.Root, o.Log, "status", "--porcelain", "--untracked-files=all", "--", ".")
	if err != nil {
		return s, err
	}
	if changes != "" && !o.Development {
		lines := strings.Split(strings.TrimRight(changes, "\n"), "\n")
		if more := len(lines) - 5; more > 0 {
			lines = append(lines[:5], fmt.Sprintf("   and %d more", more))
		}
		return s, fmt.Errorf(
			"the tree %s has changes, so that no commit gives this release: commit or remove them, "+
				"or give --development for a build that is not published\n%s",
			o.Root, strings.Join(lines, "\n"),
		)
	}
	// A tag that is not there yet is no error: the release is built before it is tagged, too.
	tagged, err := git(ctx, o.Root, o.Log, "for-each-ref", "--format=%(objectname) %(*objectname)", "refs/tags/"+o.Version)
	if err != nil {
		return s, err
	}
	if tagged = strings.TrimSpace(tagged); tagged != "" && !strings.Contains(tagged, commit) && !o.Development {
		return s, fmt.Errorf(
			"tag %s is not the commit %s that is checked out: check out the tag, or give another version", o.Version, commit,
		)
	}
	files, err := git(ctx, o.Root, o.Log, "ls-files", "-z", "--", ".")
	if err != nil {
		return s, err
	}
	for file := range strings.SplitSeq(strings.TrimRight(files, "\x00"), "\x00") {
		s.tracked = append(s.tracked, file)
	}
	if !o.Development {
		err = errors.Join(s.checkNamedVersions(o.Version), s.checkFormats(o.Version))
	}
	return s, err
}

// below are the tracked files of a directory.
func (s source) below(dir string) []string {
	var out []string
	for _, file := range s.tracked {
		if strings.HasPrefix(file, dir+"/") {
			out = append(out, file)
		}
	}
	return out
}

// read returns a file of the tree.
func (s source) read(file string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.root, filepath.FromSlash(file)))
}

// namedVersion is a tag of one of the project's images, in a manifest or a kustomization.
var namedVersion = regexp.MustCompile(`(?:ghcr\.io/transplant-dev/[a-z-]+:|newTag: *)(v[0-9][0-9A-Za-z.+-]*)`)

// checkNamedVersions refuses manifests and charts that would install another version than they are released with.
func (s source) checkNamedVersions(version string) error {
	var wrong []string
	for _, file := range s.below("deploy") {
		data, err := s.read(file)
		if err != nil {
			return err
		}
		var named []string
		if path.Base(file) == "Chart.yaml" {
			var c chart
			if err := yaml.Unmarshal(data, &c); err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
			named = []string{"v" + c.Version, c.AppVersion}
		}
		for _, m := range namedVersion.FindAllSubmatch(bytes.TrimSpace(data), -1) {
			named = append(named, string(m[1]))
		}
		for _, other := range named {
			if other != version {
				wrong = append(wrong, fmt.Sprintf("%s: %s", file, other))
				break
			}
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf(
			"these files name another version than %s: change them and commit, "+
				"or give --development for a build that is not published\n%s",
			version, strings.Join(wrong, "\n"),
		)
	}
	return nil
}

// keptWorlds are the directories of worlds in the middle of a migration, as released versions left them.
var keptWorlds = []string{"internal/migrate/testdata/kept", "internal/hosted/testdata/kept"}

// checkFormats refuses a version of which later ones could not go on: a format that is not marked as released may
// change under its number, and without worlds no test resumes what this version has begun.
func (s source) checkFormats(version string) error {
	var open []string
	for _, file := range s.tracked {
		if path.Base(path.Dir(file)) != "schemas" || path.Ext(file) != ".txt" {
			continue
		}
		data, err := s.read(file)
		if err != nil {
			return err
		}
		if first, _, _ := strings.Cut(string(data), "\n"); strings.HasSuffix(first, ", not released") {
			open = append(open, file)
		}
	}
	var err error
	if len(open) > 0 {
		err = fmt.Errorf(
			"fields of %s could still change under their number: write \"released\" into their first lines",
			strings.Join(open, ", "),
		)
	}
	for _, dir := range keptWorlds {
		worlds := s.below(dir)
		isOfVersion := func(file string) bool { return strings.HasPrefix(path.Base(file), version+"-") }
		if len(worlds) > 0 && !slices.ContainsFunc(worlds, isOfVersion) {
			err = errors.Join(err, fmt.Errorf(
				"%s has no %s-*.json, with which later versions are tested: go test ./%s -run TestKeepTheWorlds -keep %[2]s",
				dir, version, path.Dir(path.Dir(dir)),
			))
		}
	}
	return err
}
