package controlplane

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// NotYAMLError says that a manifest cannot be read as YAML; a kubelet would kill the pod that it held before.
type NotYAMLError struct {
	// Line where reading stopped, from 1; 0 when it is not known.
	Line   int
	Reason string
}

func (e *NotYAMLError) Error() string {
	if e.Line == 0 {
		return "it is not YAML: " + e.Reason
	}
	return fmt.Sprintf("it is not YAML: line %d: %s", e.Line, e.Reason)
}

// NotPodError says that a manifest is YAML and not a usable v1 Pod.
type NotPodError struct {
	// Kind that the manifest names; empty when it names none.
	Kind string
	// Reason is set when the kind is Pod and something in it is wrong.
	Reason string
}

func (e *NotPodError) Error() string {
	switch {
	case e.Reason != "":
		return "it is not a usable Pod: " + e.Reason
	case e.Kind == "":
		return "it is not a Pod: it names no kind"
	default:
		return fmt.Sprintf("it is a %q, not a v1 Pod", e.Kind)
	}
}

// ShellCommandError says that a component is started by a script inside the manifest, so that its flags are not known and cannot be edited.
type ShellCommandError struct {
	Shell     string
	Component string
}

func (e *ShellCommandError) Error() string {
	return fmt.Sprintf("%s is started by a script of %s, so that its flags cannot be read or edited: write the command as a list, one argument an element", e.Component, e.Shell)
}

// UnreadableError says that one of a unit's files is there and could not be read: what it says is unknown, not wrong.
type UnreadableError struct{ Err error }

func (e *UnreadableError) Error() string { return e.Err.Error() }
func (e *UnreadableError) Unwrap() error { return e.Err }

// unsupported says that a manifest is written in a way that cannot be edited without touching more than the edit.
func unsupported(line int, format string, args ...any) error {
	return fmt.Errorf("line %d: %s: rewrite that part in block style, one value a line, and run the same command again", line, fmt.Sprintf(format, args...))
}

var yamlLine = regexp.MustCompile(`(?s)^(?:yaml: )?(?:unmarshal errors:\s+)?(?:line (\d+): )?(.*)$`)

// notYAML keeps what the reader says, without its prefixes.
func notYAML(err error) error {
	var known *NotYAMLError
	if errors.As(err, &known) {
		return known
	}
	m := yamlLine.FindStringSubmatch(err.Error())
	line, _ := strconv.Atoi(m[1]) // absent: not known
	return &NotYAMLError{Line: line, Reason: strings.TrimSpace(m[2])}
}
