package hostaccess

import (
	"context"
	"errors"
	"io/fs"
	"time"
)

// KubeletPatience is how long a guarded kubelet may take to be up after its restart. After it, its host restores its
// files. systemd waits up to 10 s between two starts.
const KubeletPatience = 90 * time.Second

// ErrPutBack says that a kubelet did not stay up, and that it was restarted with its files as they had been.
var ErrPutBack = errors.New("its files were put back and it was restarted with them")

// GuardedFile is a file as it was before it was changed.
type GuardedFile struct {
	Path string      `json:"path"`
	Data []byte      `json:"data"`
	Mode fs.FileMode `json:"mode"`
}

// KubeletGuard is a Host that is reached through its kubelet. If the kubelet does not start, the host cannot be
// reached, and transplant could not put anything back.
type KubeletGuard interface {
	// RestartKubeletGuarded restarts the kubelet, and sees on the host itself that it stays up. If it does not, the files
	// are put back and it is restarted once more; errors.Is(err, ErrPutBack) holds then. The files must be covered by the
	// grant.
	RestartKubeletGuarded(ctx context.Context, before []GuardedFile) error
}
