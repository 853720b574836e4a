package hostaccess

import "context"

// Committer is a Host whose changes of files may wait until Commit, so that somebody who makes them by hand gets them
// at once. They are made in their order, and none is lost but by an end of this process, which what was changed before
// does not depend upon. A restart, stop or start commits too.
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
