package hostaccess

import "context"

// Committer is a Host whose changes of files may wait until Commit, so that a person who makes them by hand gets them
// at once. They are made in their order. Only the end of this process loses any, and earlier changes do not depend on
// them. A restart, stop or start commits too.
type Committer interface {
	Commit(ctx context.Context) error
}

// Commit makes what was asked of a host true, where it is not already.
func Commit(ctx context.Context, h Host) error {
	if c, ok := h.(Committer); ok {
		return c.Commit(ctx)
	}
	return nil
}

// Backer is a Host that copies a file on the machine itself. The copy is there before any change that is asked for
// later.
type Backer interface {
	// Backup copies the file from, whose hash is sum, to a path that only its owner may read.
	Backup(ctx context.Context, from, to, sum string) error
}
