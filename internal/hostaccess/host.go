// Package hostaccess decides how a machine's files are changed, its units started and stopped, and its processes read.
// Edits are atomic: a reader of a file sees the old bytes or the new ones. What cannot be known of a process or a unit
// is an error and never "it is gone".
package hostaccess

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Host is one machine whose files can be edited and whose processes can be looked at. Paths are absolute on that
// machine. A host is safe for concurrent use.
type Host interface {
	// Name of the machine; a Node may be called differently.
	Name() string
	// ReadFile returns the bytes and the mode of a regular file. errors.Is(err, fs.ErrNotExist) holds when there is no
	// such file, and never when it cannot be known.
	ReadFile(ctx context.Context, path string) (File, error)
	// WriteFile replaces the file in one step, keeps its owner and gives it the permission bits of mode. It makes missing
	// directories (0700 for a file that only its owner may use, else 0755). After an error that says so, nothing was
	// changed.
	WriteFile(ctx context.Context, path string, data []byte, mode fs.FileMode) error
	// Remove takes a file away. That it is absent already is not an error.
	Remove(ctx context.Context, path string) error
	// List returns the sorted names of everything in a directory but directories. errors.Is(err, fs.ErrNotExist) as for
	// ReadFile.
	List(ctx context.Context, dir string) ([]string, error)
	// Processes returns the processes of the program with this base name, sorted by PID; for cloud-controller-manager also
	// those of a cloud's own, such as aws-cloud-controller-manager. Empty with a nil error means: certainly none runs.
	Processes(ctx context.Context, component string) ([]v1.Process, error)
	// RestartKubelet asks the machine's service manager to restart the kubelet and waits for its answer.
	RestartKubelet(ctx context.Context) error
}

// File is a file's content and its permission bits.
type File struct {
	Data []byte
	Mode fs.FileMode
	// Modified is when the file was modified last, by the host's clock; zero where that is not known.
	Modified time.Time
}

// SHA256 is the SHA-256 of data in hexadecimal digits.
func SHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
