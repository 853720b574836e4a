package parts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The machine components read their flags by Go's flag package, with one dash or two. A switch takes no value from the
// next argument ("-x true" is x and then a word at which reading ends). So they are edited here and not as Kubernetes'
// components are.

// commandLine is what a container starts. That is its own command and args, or what a program that waits for the API
// server starts afterwards. Such a program, like Kubermatic's http-prober, has a flag "command" whose value is
// {"command": ..., "args": [...]}.
type commandLine struct {
	command, args []string
	// at is the index in args of the argument with the JSON object, prefix what stands before the object there; -1 when
	// there is none.
	at     int
	prefix string
	fields map[string]json.RawMessage
	// inner are the arguments that the component reads.
	inner []string
	// inCommand reports whether inner is command without its first word.
	inCommand bool
}

func readCommandLine(command, args []string) *commandLine {
	c := &commandLine{command: slices.Clone(command), args: slices.Clone(args), at: -1}
	for i, a := range c.args {
		name, text, attached := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if !strings.HasPrefix(a, "-") || name != "command" {
			continue
		}
		at, prefix := i, ""
		if attached {
			prefix = a[:len(a)-len(text)]
		} else if at = i + 1; at < len(c.args) {
			text = c.args[at]
		}
		if c.unwrapCommand(at, prefix, text) {
			return c
		}
	}
	c.inner = c.args
	if len(c.args) == 0 && len(c.command) > 1 {
		c.inner, c.inCommand = c.command[1:], true
	}
	return c
}

func (c *commandLine) unwrapCommand(at int, prefix, text string) bool {
	var fields map[string]json.RawMessage
	var program string
	var inner []string
	if json.Unmarshal([]byte(text), &fields) != nil || json.Unmarshal(fields["command"], &program) != nil ||
		program == "" {
		return false
	}
	if args, ok := fields["args"]; ok && json.Unmarshal(args, &inner) != nil {
		return false
	}
	c.at, c.prefix, c.fields, c.inner = at, prefix, fields, inner
	return true
}

// result is the container's command and args with what inner has become.
func (c *commandLine) result() (command, args []string, err error) {
	switch {
	case c.inCommand:
		return append(c.command[:1:1], c.inner...), c.args, nil
	case c.at < 0:
		return c.command, c.inner, nil
	}
	inner, err := json.Marshal(c.inner)
	if err != nil {
		return nil, nil, fmt.Errorf("writing a wrapped command: %w", err)
	}
	c.fields["args"] = inner
	text, err := json.Marshal(c.fields)
	if err != nil {
		return nil, nil, fmt.Errorf("writing a wrapped command: %w", err)
	}
	out := slices.Clone(c.args)
	out[c.at] = c.prefix + string(text)
	return c.command, out, nil
}

// find returns where a flag stands last, its value, and whether that is in the next argument. Index -1 means that it is
// not there.
func (c *commandLine) find(name string, boolean bool) (index int, value string, next bool) {
	index = -1
	for i := 0; i < len(c.inner); i++ {
		a := c.inner[i]
		if a == "--" {
			break
		}
		if len(a) < 2 || a[0] != '-' {
			continue
		}
		n, v, attached := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-"), "=")
		if n != name {
			continue
		}
		switch {
		case attached:
			index, value, next = i, v, false
		case boolean:
			index, value, next = i, "true", false
		case i+1 < len(c.inner):
			index, value, next = i, c.inner[i+1], true
			i++
		}
	}
	return index, value, next
}

// setSwitch sets a switch and reports whether that changed anything.
func (c *commandLine) setSwitch(name string) bool {
	i, value, _ := c.find(name, true)
	switch {
	case i < 0:
		c.insert("-" + name)
	case isTrue(value):
		return false
	default:
		c.inner[i] = c.inner[i][:strings.Index(c.inner[i], "=")+1] + "true"
	}
	return true
}

func isTrue(v string) bool {
	return slices.Contains([]string{"1", "t", "T", "TRUE", "true", "True"}, v) // strconv.ParseBool, which flag uses
}

// setGates adds feature gates to a flag that holds a list of them, and reports whether that changed anything. usual is
// the flag's default, which a value would replace.
func (c *commandLine) setGates(name, usual string, gates []string) bool {
	if len(gates) == 0 {
		return false
	}
	i, value, next := c.find(name, false)
	if i < 0 {
		value = usual
	}
	var parts []string
	have := map[string]string{}
	for p := range strings.SplitSeq(value, ",") {
		if gate, v, ok := strings.Cut(strings.TrimSpace(p), "="); ok && gate != "" {
			if _, seen := have[gate]; !seen {
				parts = append(parts, gate)
			}
			have[gate] = v
		}
	}
	changed := false
	for _, g := range gates {
		if !isTrue(have[g]) {
			if _, seen := have[g]; !seen {
				parts = append(parts, g)
			}
			have[g], changed = "true", true
		}
	}
	if !changed {
		return false
	}
	for k, p := range parts {
		parts[k] = p + "=" + have[p]
	}
	text := strings.Join(parts, ",")
	switch {
	case i < 0:
		c.insert("-" + name + "=" + text)
	case next:
		c.inner[i+1] = text
	default:
		c.inner[i] = c.inner[i][:strings.Index(c.inner[i], "=")+1] + text
	}
	return true
}

// insert puts an argument before the first flag: behind a word that is none, nothing is read.
func (c *commandLine) insert(arg string) {
	at := slices.IndexFunc(c.inner, func(a string) bool { return strings.HasPrefix(a, "-") })
	if at < 0 {
		at = len(c.inner)
	}
	c.inner = slices.Insert(slices.Clone(c.inner), at, arg)
}
