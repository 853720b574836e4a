package units

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// split divides a line into words as systemd does: quotes group, a backslash in double quotes escapes.
func split(line string) ([]string, error) {
	var out []string
	var word strings.Builder
	open, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == '"' && c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '"' || c == '\'':
			open, quote = true, c
		case c == ' ' || c == '\t':
			if open {
				out = append(out, word.String())
				word.Reset()
				open = false
			}
		default:
			open = true
			word.WriteByte(c)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("line %q has a quote that does not end", line)
	}
	if open {
		out = append(out, word.String())
	}
	return out, nil
}

var (
	wholeVariable = regexp.MustCompile(`^\$([A-Za-z_][A-Za-z0-9_]*)$`)
	partVariable  = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
)

// commandLine splits a line and replaces variables: $NAME as a whole word becomes as many words as its value has,
// ${NAME} one part of a word.
func commandLine(line string, env map[string]string) ([]string, error) {
	words, err := split(line)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, w := range words {
		if m := wholeVariable.FindStringSubmatch(w); m != nil {
			several, err := split(env[m[1]])
			if err != nil {
				return nil, fmt.Errorf("variable %s: %w", m[1], err)
			}
			out = append(out, several...)
			continue
		}
		out = append(out, partVariable.ReplaceAllStringFunc(w, func(s string) string { return env[s[2:len(s)-1]] }))
	}
	if len(out) == 0 {
		return nil, errors.New("the command line is empty")
	}
	return out, nil
}

// environment is what a service starts with: the manager's own basics, the unit's assignments, then its files, read
// now.
func (u *Unit) environment(root string) (map[string]string, error) {
	env := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
	add := func(assignment string) {
		if name, value, found := strings.Cut(assignment, "="); found {
			env[strings.TrimSpace(name)] = value
		}
	}
	for _, a := range u.Environment {
		add(a)
	}
	for _, file := range u.EnvironmentFiles {
		path, optional := strings.CutPrefix(file, "-")
		data, err := os.ReadFile(filepath.Join(root, path))
		if optional && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading environment file: %w", err)
		}
		for _, line := range logicalLines(string(data)) {
			name, value, found := strings.Cut(line, "=")
			if !found {
				continue // systemd warns and goes on
			}
			words, err := split(value)
			if err != nil {
				return nil, fmt.Errorf("environment file %s: %w", path, err)
			}
			env[strings.TrimSpace(name)] = strings.Join(words, " ")
		}
	}
	return env, nil
}
