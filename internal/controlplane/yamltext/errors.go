package yamltext

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

// Unsupported says that a manifest is written in a way that cannot be edited without touching more than the edit.
func Unsupported(line int, format string, args ...any) error {
	return fmt.Errorf(
		"line %d: %s: rewrite that part in block style, one value a line, and run the same command again",
		line,
		fmt.Sprintf(format, args...),
	)
}

var yamlLine = regexp.MustCompile(`(?s)^(?:yaml: )?(?:unmarshal errors:\s+)?(?:line (\d+): )?(.*)$`)

// NotYAML keeps what the reader says, without its prefixes.
func NotYAML(err error) error {
	var known *NotYAMLError
	if errors.As(err, &known) {
		return known
	}
	m := yamlLine.FindStringSubmatch(err.Error())
	line, _ := strconv.Atoi(m[1]) // absent: not known
	return &NotYAMLError{Line: line, Reason: strings.TrimSpace(m[2])}
}
