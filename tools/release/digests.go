package release

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// readDigests reads what make images wrote, as lines of a name and a digest. Images of another commit or version are
// refused; none of what they hold is in the archives, so that nothing else would show it.
func readDigests(o Options, commit string) ([]byte, error) {
	file := filepath.Join(o.Images, "digests.txt")
	again := "run make images VERSION=" + o.Version + ", then this again"
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if o.Development {
			fmt.Fprintf(o.Log, "images.txt is left out, since %s is not there: %s\n", file, again)
			return nil, nil
		}
		return nil, fmt.Errorf(
			"%s is not there, which has the digests of the images: %s, or give --development to leave images.txt out",
			file, again,
		)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the digests of the images: %w", err)
	}
	var found []string
	var lines strings.Builder
	for line := range strings.Lines(string(data)) {
		ref, digest, _ := strings.Cut(strings.TrimSpace(line), "@")
		tag, err := name.NewTag(ref, name.StrictValidation)
		if err != nil {
			return nil, fmt.Errorf("%s: line %q names no image: %s: %w", file, strings.TrimSpace(line), again, err)
		}
		program := path.Base(tag.RepositoryStr())
		if err := checkImage(filepath.Join(o.Images, program), digest, commit); err != nil {
			return nil, fmt.Errorf("the image of %s in %s: %w: %s", program, o.Images, err, again)
		}
		if tag.TagStr() != o.Version {
			return nil, fmt.Errorf("%s names %s, and this release is %s: %s", file, ref, o.Version, again)
		}
		found = append(found, program)
		fmt.Fprintf(&lines, "%s@%s\n", ref, digest)
	}
	for _, program := range o.Programs {
		if !slices.Contains(found, program) {
			return nil, fmt.Errorf("%s has no image of %s: %s", file, program, again)
		}
	}
	return []byte(lines.String()), nil
}

// checkImage refuses an image that is not what its digest says, or was built from another commit.
func checkImage(dir, digest, commit string) error {
	hash, err := v1.NewHash(digest)
	if err != nil {
		return err
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	index, err := top.ImageIndex(hash)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			return err
		}
		config, err := image.ConfigFile()
		if err != nil {
			return err
		}
		if of := config.Config.Labels["org.opencontainers.image.revision"]; of != commit {
			return fmt.Errorf("it was built from commit %s, and this release is of %s", of, commit)
		}
	}
	return nil
}
