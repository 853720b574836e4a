package systemdunit

// UnreadableError says that one of a unit's files is there and could not be read: what it says is unknown, not wrong.
type UnreadableError struct{ Err error }

func (e *UnreadableError) Error() string { return e.Err.Error() }

func (e *UnreadableError) Unwrap() error { return e.Err }
