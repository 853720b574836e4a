package commandline

import "fmt"

// ShellCommandError says that a component is started by a script inside the manifest, so that its flags are not known
// and cannot be edited.
type ShellCommandError struct {
	Shell     string
	Component string
}

func (e *ShellCommandError) Error() string {
	return fmt.Sprintf(
		"%s is started by a script of %s, so its flags cannot be read or edited; write the command as a list, one argument an element",
		e.Component,
		e.Shell,
	)
}
