package systemdunit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// UnitDirs are the directories in which systemd looks for units. A unit in an earlier one replaces that in a later one.
var UnitDirs = []string{
	"/etc/systemd/system",
	"/run/systemd/system",
	"/usr/local/lib/systemd/system",
	"/usr/lib/systemd/system",
	"/lib/systemd/system",
}

// Files is where a unit's files are read from. errors.Is(err, fs.ErrNotExist) holds for what is not there.
type Files interface {
	Read(path string) ([]byte, error)
	List(dir string) ([]string, error)
}

// Unit is a systemd service that starts a component, with its drop-ins and environment files.
type Unit struct {
	// Name is the unit's, e.g. kube-controller-manager.service.
	Name string
	// UnitFiles are the unit and its drop-ins in their order; envFiles the environment files that are there, in theirs.
	UnitFiles, envFiles []string
	Contents            map[string][]byte
	Variables           map[string]assignment
	Arguments           []unitArgument
	// globs are the files that each EnvironmentFile= setting was found to mean.
	globs map[string][]string
	// specifiers are those that systemd replaces and that are not known here.
	specifiers []string
}

// unitArgument is an argument of the command line with the place in which it is written.
type unitArgument struct {
	value string
	File  string
	// start and end are its place in the file, with its quotes.
	start, end int
	// variable it is a word of; empty when it stands in ExecStart= itself.
	variable string
}

// ReadUnit reads a service with its drop-ins and environment files, as systemd would start it. errors.Is(err,
// fs.ErrNotExist) holds when there is no such unit. Whatever leaves its command line in doubt is an error.
func ReadUnit(files Files, name string) (*Unit, error) {
	u := &Unit{Name: unitFull(name), Contents: map[string][]byte{}, globs: map[string][]string{}}
	fragment, err := u.fragment(files)
	if err != nil {
		return nil, err
	}
	dropIns, err := u.dropIns(files)
	if err != nil {
		return nil, err
	}
	u.UnitFiles = append([]string{fragment}, dropIns...)
	for _, p := range dropIns {
		if u.Contents[p], err = files.Read(p); err != nil {
			return nil, fmt.Errorf("reading a drop-in of %s: %w", u.Name, &UnreadableError{err})
		}
	}
	if err := u.environmentFiles(files); err != nil {
		return nil, err
	}
	return u, u.ReadCommand()
}

func unitFull(name string) string {
	if path.Ext(name) == "" {
		return name + ".service"
	}
	return name
}

// templateOf is the name of the template that an instance is made from; empty when a unit is none.
func templateOf(name string) string {
	prefix, rest, ok := strings.Cut(name, "@")
	if !ok {
		return ""
	}
	return prefix + "@" + path.Ext(rest)
}

func (u *Unit) fragment(files Files) (string, error) {
	for _, name := range []string{u.Name, templateOf(u.Name)} {
		for _, dir := range UnitDirs {
			if name == "" {
				continue
			}
			p := path.Join(dir, name)
			data, err := files.Read(p)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return "", fmt.Errorf("reading unit %s: %w", u.Name, &UnreadableError{err})
			}
			if len(bytes.TrimSpace(data)) == 0 {
				return "", fmt.Errorf("unit %s is masked by an empty file %s: systemd does not start it", u.Name, p)
			}
			u.Contents[p] = data
			return p, nil
		}
	}
	return "", fmt.Errorf("there is no unit %s in %s: %w", u.Name, strings.Join(UnitDirs, ", "), fs.ErrNotExist)
}

// dropIns are the drop-ins of a unit in the order in which they are read: by their names, whatever directory they are
// in.
func (u *Unit) dropIns(files Files) ([]string, error) {
	found := map[string]string{}
	for _, owner := range dropInOwners(u.Name) {
		for _, dir := range UnitDirs {
			dir = path.Join(dir, owner+".d")
			names, err := files.List(dir)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("looking for drop-ins of %s: %w", u.Name, &UnreadableError{err})
			}
			for _, name := range names {
				if strings.HasSuffix(name, ".conf") && !strings.HasPrefix(name, ".") && found[name] == "" {
					found[name] = path.Join(dir, name)
				}
			}
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[name])
	}
	return out, nil
}

// dropInOwners are the names whose drop-ins a unit has. These are its own, its template's, those of every prefix that
// ends in a dash, and its type.
func dropInOwners(name string) []string {
	ext := path.Ext(name)
	out := []string{name}
	if t := templateOf(name); t != "" {
		out = append(out, t)
	}
	for base := strings.TrimSuffix(name, ext); ; {
		i := strings.LastIndexByte(strings.TrimSuffix(base, "-"), '-')
		if i < 0 {
			return append(out, strings.TrimPrefix(ext, "."))
		}
		base = base[:i+1]
		out = append(out, base+ext)
	}
}

// environmentFiles reads what the unit's EnvironmentFile= settings name.
func (u *Unit) environmentFiles(files Files) error {
	for _, s := range u.Settings("EnvironmentFile") {
		pattern, optional, err := u.environmentPath(s)
		if err != nil {
			return err
		}
		if pattern == "" || u.globs[pattern] != nil {
			continue
		}
		paths, err := expandPattern(files, pattern)
		if err != nil {
			return fmt.Errorf("looking for the environment files of %s: %w", u.Name, err)
		}
		u.globs[pattern] = []string{}
		for _, p := range paths {
			data, err := files.Read(p)
			if errors.Is(err, fs.ErrNotExist) && optional {
				continue
			}
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf(
					"unit %s reads the environment file %s, which is not there: systemd does not start it (%w)",
					u.Name,
					p,
					errNoEnvironment,
				)
			}
			if err != nil {
				return fmt.Errorf("reading an environment file of %s: %w", u.Name, &UnreadableError{err})
			}
			u.Contents[p] = data
			u.globs[pattern] = append(u.globs[pattern], p)
		}
	}
	return nil
}

// errNoEnvironment is not fs.ErrNotExist: the unit is there.
var errNoEnvironment = errors.New("no such file")

func expandPattern(files Files, pattern string) ([]string, error) {
	dir, base := path.Split(pattern)
	if !strings.ContainsAny(pattern, "*?[") {
		return []string{pattern}, nil
	}
	if strings.ContainsAny(dir, "*?[") {
		return nil, fmt.Errorf("%s has a pattern for a directory, which is not understood", pattern)
	}
	names, err := files.List(path.Clean(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range names {
		ok, err := path.Match(base, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pattern, err)
		}
		if ok {
			out = append(out, path.Join(dir, name))
		}
	}
	slices.Sort(out)
	return out, nil
}

// environmentPath reads an EnvironmentFile= setting; empty for one that resets the list.
func (u *Unit) environmentPath(s located) (pattern string, optional bool, err error) {
	text := TextOf(s.Value)
	text, optional = strings.CutPrefix(text, "-")
	pattern, unknown := u.specify(strings.Trim(text, `"'`))
	if unknown != "" {
		return "", false, fmt.Errorf(
			"%s line %d: the environment file %s holds %s, which is not known here",
			s.file,
			s.line,
			text,
			unknown,
		)
	}
	if pattern != "" && !strings.HasPrefix(pattern, "/") {
		return "", false, fmt.Errorf("%s line %d: the environment file %q is no absolute path", s.file, s.line, pattern)
	}
	return pattern, optional, nil
}

// located is a setting with its file.
type located struct {
	Setting
	file string
}

// Settings are those of the service section with a key, in order and behind the last one that resets them.
func (u *Unit) Settings(key string) []located {
	var out []located
	for _, p := range u.UnitFiles {
		for _, s := range ReadUnitFile(u.Contents[p]) {
			switch {
			case s.Section != "Service" || s.key != key:
			case len(s.Value) == 0:
				out = nil
			default:
				out = append(out, located{s, p})
			}
		}
	}
	return out
}

// specify replaces the specifiers that the unit's name gives. unknown is the first of the others.
func (u *Unit) specify(text string) (out, unknown string) {
	full := strings.TrimSuffix(u.Name, path.Ext(u.Name))
	prefix, instance, _ := strings.Cut(full, "@")
	known := map[byte]string{'n': u.Name, 'N': full, 'p': prefix, 'P': prefix, 'i': instance, 'I': instance, '%': "%"}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		value, ok := known[text[i+1]]
		if !ok {
			value = text[i : i+2]
			if unknown == "" {
				unknown = value
			}
		}
		b.WriteString(value)
		i++
	}
	return b.String(), unknown
}
