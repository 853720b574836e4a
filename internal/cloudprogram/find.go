package cloudprogram

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
)

// Ours are the clouds whose programs, of this project, can be asked.
var Ours = []string{"aws", "azure", "gce", "openstack", "vsphere"}

// cloudName is what a cloud may be called: it becomes the name of a file.
var cloudName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// Programs say where the providers' programs are. Only the administrator who runs transplant chooses them: by --cloud,
// by --cloud-program, and by what is installed. Nothing that a cluster says becomes the name of a program.
type Programs struct {
	// Cloud is what --cloud says: the name of a cloud, and its settings.
	Cloud string
	// Path is what --cloud-program says: the program of that cloud; empty means that it is looked for.
	Path string
}

// parseCloud takes what --cloud says apart: "aws", or "aws:cluster=NAME,routeTable=ID".
func parseCloud(spec string) (cloud string, settings map[string]string, err error) {
	cloud, rest, _ := strings.Cut(spec, ":")
	if !cloudName.MatchString(cloud) {
		return "", nil, fmt.Errorf("cloud %q is not known: use %s, or aws:cluster=NAME,routeTable=ID", spec, known())
	}
	if rest == "" {
		return cloud, nil, nil
	}
	settings = map[string]string{}
	for pair := range strings.SplitSeq(rest, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || value == "" {
			return "", nil, fmt.Errorf("cloud %q: %q is not key=value", spec, pair)
		}
		settings[key] = value
	}
	return cloud, settings, nil
}

func known() string { return english.Series("or", Ours) }

// MayPreview reports whether a cloud that the cluster names may be asked: one of ours, or the one that --cloud names.
func (p Programs) MayPreview(cloud string) bool {
	named, _, _ := strings.Cut(p.Cloud, ":")
	return cloudName.MatchString(cloud) && (slices.Contains(Ours, cloud) || cloud == named)
}

// find returns the program of a cloud: the one that was named, else the one next to this program, else the one in PATH.
func (p Programs) find(cloud string) (string, error) {
	if p.Path != "" {
		at, err := filepath.Abs(p.Path)
		if err != nil {
			return "", fmt.Errorf("--cloud-program: %w", err)
		}
		if err := runnable(at); err != nil {
			return "", fmt.Errorf("--cloud-program: %w", err)
		}
		return at, nil
	}
	name := cloud + "-" + component.CCM
	for _, dir := range ownDirectories() {
		if at := filepath.Join(dir, name); runnable(at) == nil {
			return at, trusted(at)
		}
	}
	if at, err := exec.LookPath(name); err == nil {
		return at, nil
	} else if errors.Is(err, exec.ErrDot) {
		return "", fmt.Errorf("%s is in PATH by a relative directory only, from which nothing is run: name it with --cloud-program", name)
	}
	if !slices.Contains(Ours, cloud) {
		return "", fmt.Errorf(
			"cloud %q is not known: use %s; for a provider of your own put its %s next to transplant or into PATH, or name it with --cloud-program",
			cloud, known(), name,
		)
	}
	return "", fmt.Errorf(
		"%s, through which %s is asked, is neither next to transplant nor in PATH: install that of the same release "+
			"(go install github.com/transplant-dev/transplant/cmd/%s@<version>), or name it with --cloud-program",
		name, cloud, name,
	)
}

// ownDirectories are those of this program: of the name that it was started by, and of the file behind a link.
func ownDirectories() []string {
	at, err := os.Executable()
	if err != nil {
		return nil
	}
	out := []string{filepath.Dir(at)}
	if file, err := filepath.EvalSymlinks(at); err == nil && filepath.Dir(file) != out[0] {
		out = append(out, filepath.Dir(file))
	}
	return out
}

// trusted says why a program next to this one must not be run without being named. In a directory where each user may
// write, as /tmp, it may be another user's.
func trusted(at string) error {
	info, err := os.Stat(at)
	if err != nil {
		return err
	}
	users := []uint32{0, uint32(os.Geteuid())}
	if own, err := os.Executable(); err == nil {
		if is, err := os.Stat(own); err == nil {
			users = append(users, ownerOf(is))
		}
	}
	if owner := ownerOf(info); !slices.Contains(users, owner) {
		return fmt.Errorf("%s, next to transplant, belongs to user id %d: name it with --cloud-program if that is meant", at, owner)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("%s, next to transplant, may be written by each user: take that right away (chmod o-w %s)", at, at)
	}
	return nil
}

func ownerOf(info os.FileInfo) uint32 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Uid
	}
	return 0
}

// runnable says why a file is no program.
func runnable(at string) error {
	info, err := os.Stat(at)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is no program: it is no file that may be run", at)
	}
	return nil
}
