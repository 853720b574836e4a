package images

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Commit returns the hash of the commit that is built, and its time. A tree with changes is built at the same time; its
// version says that it is none of this commit.
func Commit(ctx context.Context, o Options) (hash string, at time.Time, err error) {
	cmd := exec.CommandContext(ctx, "git", "-C", o.Root, "log", "-1", "--format=%H %ct")
	cmd.Stderr = o.Log
	out, err := cmd.Output()
	if err != nil {
		return "", at, fmt.Errorf("asking git for the commit of %s: %w", o.Root, err)
	}
	hash, seconds, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return "", at, fmt.Errorf("reading the time of commit %s: %w", hash, err)
	}
	return hash, time.Unix(unix, 0).UTC(), nil
}
