package release

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// published are images with their digests, by program.
type published map[string]publishedImage

type publishedImage struct{ ref, digest string }

// reference is the image of a program, by tag and digest; empty for none.
func (p published) reference(program string) string {
	i, ok := p[program]
	if !ok {
		return ""
	}
	return i.ref + "@" + i.digest
}

// lines are the images as images.txt has them.
func (p published) lines() []byte {
	var out strings.Builder
	for _, program := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintln(&out, p.reference(program))
	}
	return []byte(out.String())
}

var (
	taggedImage = regexp.MustCompile(`(ghcr\.io/transplant-dev/([a-z-]+):v[0-9][0-9A-Za-z.+-]*)(@sha256:[0-9a-f]{64})?`)
	newTag      = regexp.MustCompile(`(?m)^( *)newName: ghcr\.io/transplant-dev/([a-z-]+)\n *newTag: .*$`)
)

// pin adds digests to the images of a manifest or a kustomization. A tag may be moved, and what it names runs with the
// rights of a manager.
func (p published) pin(manifest []byte) []byte {
	text := taggedImage.ReplaceAllStringFunc(string(manifest), func(found string) string {
		m := taggedImage.FindStringSubmatch(found)
		if i, ok := p[m[2]]; ok && m[3] == "" {
			return found + "@" + i.digest
		}
		return found
	})
	return []byte(newTag.ReplaceAllStringFunc(text, func(found string) string {
		m := newTag.FindStringSubmatch(found)
		if i, ok := p[m[2]]; ok {
			return found + "\n" + m[1] + "digest: " + i.digest
		}
		return found
	}))
}

// readDigests reads what make images wrote, as lines of a name and a digest. Images of another commit or version are
// refused: the digests that archives and manifests name would be of something else.
func readDigests(o Options, commit string) (published, error) {
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
	found := published{}
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
		found[program] = publishedImage{ref, digest}
	}
	for _, program := range o.Programs {
		_, isImage := products[program]
		if _, ok := found[program]; isImage && !ok {
			return nil, fmt.Errorf("%s has no image of %s: %s", file, program, again)
		}
	}
	return found, nil
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
