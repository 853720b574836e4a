package build

import (
	"fmt"
	"path/filepath"
	"sort"
)

// Binaries are the programs that Ensure and Product found or built, by name and version and by image.
type Binaries struct {
	programs map[string]string // "name@version" -> absolute path
	images   map[string]string // image reference -> absolute path
}

func newBinaries() Binaries {
	return Binaries{programs: map[string]string{}, images: map[string]string{}}
}

func (b Binaries) add(s Set, dir string) {
	for _, c := range s.Commands {
		file := filepath.Join(dir, binDir, c.Name)
		b.programs[c.Name+"@"+s.Version] = file
		if c.Image != "" {
			b.images[c.Image] = file
		}
	}
}

// Path returns the absolute path of a program, for example ("kube-apiserver", "v1.26.0").
func (b Binaries) Path(name, version string) (string, error) {
	if file, ok := b.programs[name+"@"+version]; ok {
		return file, nil
	}
	return "", fmt.Errorf("program %s %s was not built: add its set to the ones that are built", name, version)
}

// Image returns the program that an image reference stands for, and whether there is one.
func (b Binaries) Image(ref string) (string, bool) {
	file, ok := b.images[ref]
	return file, ok
}

// Images lists the image references that have a program, sorted.
func (b Binaries) Images() []string {
	out := make([]string, 0, len(b.images))
	for ref := range b.images {
		out = append(out, ref)
	}
	sort.Strings(out)
	return out
}
