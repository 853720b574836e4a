// Package hostaccess decides how files on a host are read and replaced, and which processes run there. A file is replaced whole or not at all; a
// process that could not be looked for is unknown, never gone.
package hostaccess

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Host is one machine whose files can be edited and whose processes can be looked at. Paths are absolute, as on the host.
type Host interface {
	Name() string
	// ReadFile returns a file; errors.Is(err, fs.ErrNotExist) when it is absent.
	ReadFile(ctx context.Context, path string) (File, error)
	// WriteFile replaces a file atomically. The temporary file lies on the same file system, but never in a manifests directory, where a kubelet
	// would take it for a second pod.
	WriteFile(ctx context.Context, path string, data []byte, mode fs.FileMode) error
	// Remove removes a file; one that is absent is no error.
	Remove(ctx context.Context, path string) error
	// List returns the names of the files in a directory, sorted.
	List(ctx context.Context, dir string) ([]string, error)
	// Processes returns the processes of a component (the base name of argv[0]); none and a nil error mean that certainly none runs.
	Processes(ctx context.Context, component string) ([]v1.Process, error)
	// RestartKubelet restarts the kubelet with the flags that its files hold now.
	RestartKubelet(ctx context.Context) error
}

// File is a file's content and permissions.
type File struct {
	Data []byte
	Mode fs.FileMode
}

// SHA256 is the hash by which files are compared, in hex.
func SHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Open returns the hosts that a specification names, sorted by name: "local:DIR" takes every directory in DIR that looks like a host's root,
// "local:NAME=DIR,..." names them.
func Open(spec string) ([]Host, error) {
	scheme, rest, ok := strings.Cut(spec, ":")
	if !ok || scheme != "local" || rest == "" {
		return nil, fmt.Errorf("%q is not understood: give local:DIR or local:NAME=DIR,NAME=DIR", spec)
	}
	dirs, err := directories(rest)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(dirs))
	for name := range dirs {
		names = append(names, name)
	}
	sort.Strings(names)
	var out []Host
	for _, name := range names {
		h, err := newLocal(name, dirs[name])
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

func directories(rest string) (map[string]string, error) {
	out := map[string]string{}
	if strings.Contains(rest, "=") {
		for _, pair := range strings.Split(rest, ",") {
			name, dir, ok := strings.Cut(pair, "=")
			if !ok || name == "" || dir == "" {
				return nil, fmt.Errorf("%q is not NAME=DIR", pair)
			}
			if out[name] != "" {
				return nil, fmt.Errorf("host %q is named twice", name)
			}
			out[name] = dir
		}
		return out, nil
	}
	entries, err := os.ReadDir(rest)
	if err != nil {
		return nil, fmt.Errorf("reading the directory of the hosts: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(rest, e.Name())
		for _, sub := range []string{"etc/kubernetes", "var/lib/kubelet"} {
			if info, err := os.Stat(filepath.Join(dir, sub)); err == nil && info.IsDir() {
				out[e.Name()] = dir
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no directory in %s holds etc/kubernetes or var/lib/kubelet: give the directory that has a directory for each host", rest)
	}
	return out, nil
}
