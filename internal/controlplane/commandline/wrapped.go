package commandline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// A program that waits for an API server and then starts the component stands before it in the control planes of a
// seed. It is told what to start by a flag whose value is a JSON object, {"command": ..., "args": [...]}; Kubermatic's
// http-prober is one of them.
const wrapFlag = "command"

// wrapped is such a command.
type wrapped struct {
	// at is the index of the argument with the JSON object, and prefix what stands before the object in that argument.
	at     int
	prefix string
	fields map[string]json.RawMessage
	// command is the program that is started, args what it is given.
	command string
	args    []string
}

// unwrap finds the command that a program is told to start; nil when there is none.
func unwrap(command []string) *wrapped {
	for i, a := range command {
		if !IsFlag(a) {
			continue
		}
		f := readFlag(a)
		w := &wrapped{at: i}
		switch {
		case f.Name != wrapFlag:
			continue
		case f.Form == equals:
			w.prefix = a[:len(a)-len(f.Value)]
		case i+1 < len(command):
			w.at, f.Value = i+1, command[i+1]
		}
		if w.readCommand(f.Value) {
			return w
		}
	}
	return nil
}

func (w *wrapped) readCommand(text string) bool {
	if json.Unmarshal([]byte(text), &w.fields) != nil || json.Unmarshal(w.fields["command"], &w.command) != nil ||
		w.command == "" {
		return false
	}
	args, ok := w.fields["args"]
	return !ok || json.Unmarshal(args, &w.args) == nil
}

// text is the argument again, with other args.
func (w *wrapped) text(args []string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	// In the order in which its makers write it; what else stands in the object stays.
	if err := e.Encode(w.command); err != nil {
		return "", fmt.Errorf("writing the wrapped command: %w", err)
	}
	out := `{"command":` + string(bytes.TrimSpace(b.Bytes()))
	b.Reset()
	if err := e.Encode(args); err != nil {
		return "", fmt.Errorf("writing the arguments of the wrapped command: %w", err)
	}
	out += `,"args":` + string(bytes.TrimSpace(b.Bytes()))
	var more []string
	for name := range w.fields {
		if name != "command" && name != "args" {
			more = append(more, name)
		}
	}
	slices.Sort(more)
	for _, name := range more {
		key, err := json.Marshal(name)
		if err != nil {
			return "", fmt.Errorf("writing the wrapped command: %w", err)
		}
		out += "," + string(key) + ":" + string(w.fields[name])
	}
	return w.prefix + out + "}", nil
}

// Unwrapped is a container's command with its arguments as the component sees them. If a program such as Kubermatic's
// http-prober starts the component later, it is what that program starts. Otherwise it is the command itself.
func Unwrapped(command []string) []string {
	if w := unwrap(command); w != nil {
		return append([]string{w.command}, w.args...)
	}
	return command
}

// applyWrapped is ApplyArguments for a component that another program starts.
func applyWrapped(command, args []string, w *wrapped, edits []v1.Edit) (newCommand, newArgs []string, err error) {
	_, inner, err := ApplyArguments([]string{w.command}, w.args, edits)
	if err != nil {
		return nil, nil, err
	}
	newCommand, newArgs = slices.Clone(command), slices.Clone(args)
	if slices.Equal(inner, w.args) {
		return newCommand, newArgs, nil
	}
	text, err := w.text(inner)
	if err != nil {
		return nil, nil, err
	}
	if w.at < len(command) {
		newCommand[w.at] = text
	} else {
		newArgs[w.at-len(command)] = text
	}
	return newCommand, newArgs, nil
}
