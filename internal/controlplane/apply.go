package controlplane

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Operations of an Edit.
const (
	setFlag        = "setFlag"
	unsetFlag      = "unsetFlag"
	addHostPath    = "addHostPath"
	removeHostPath = "removeHostPath"
	setImage       = "setImage"
)

// maxChanges bounds the single changes of one edit; a flag that is given more often than that is no manifest.
const maxChanges = 1000

// change is one edit of the text, with what the manifest must then say.
type change struct {
	splices []splice
	want    func(tree map[string]any)
}

// Apply carries edits out on a manifest, in order. A manifest that needs none is returned with the same bytes. Each change is checked: when the
// manifest does not say afterwards exactly what it said before, and the edit, then the result is an error.
func Apply(data []byte, edits []v1.Edit) ([]byte, error) {
	if _, err := Parse(data); err != nil {
		return nil, err
	}
	for _, e := range edits {
		out, err := applyOne(data, e)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", e.Op, e.Name, err)
		}
		data = out
	}
	return data, nil
}

func applyOne(data []byte, e v1.Edit) ([]byte, error) {
	if err := validate(e); err != nil {
		return nil, err
	}
	var before []string
	for range maxChanges {
		m, err := Parse(data)
		if err != nil {
			return nil, err
		}
		if before == nil {
			before = m.Command()
		}
		c, err := m.next(e)
		if err != nil {
			return nil, err
		}
		if c == nil {
			if err := sameOthers(e, before, m.Command()); err != nil {
				return nil, err
			}
			return data, nil
		}
		if data, err = m.carryOut(c); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("it would take too many changes")
}

// sameOthers returns an error when an edit has changed another flag than its own: "--a --b c" is read as a flag --b with the value c unless --b is
// a boolean, and then taking --b away would make c the value of --a.
func sameOthers(e v1.Edit, before, after []string) error {
	own := flagName(e.Name)
	had, have := FlagsOf(before), FlagsOf(after)
	if e.Op == setFlag || e.Op == unsetFlag {
		delete(had, own)
		delete(have, own)
	}
	if !maps.Equal(had, have) {
		return errors.New("a word that belongs to no flag would become the value of another one: take the stray word out of the command and run the same command again")
	}
	return nil
}

// next is the next change that an edit needs; nil when the manifest is as the edit wants it.
func (m *Manifest) next(e v1.Edit) (*change, error) {
	switch e.Op {
	case setFlag:
		return m.setFlag(flagName(e.Name), e.Value)
	case unsetFlag:
		return m.unsetFlag(flagName(e.Name))
	case addHostPath:
		return m.addHostPath(e)
	case setImage:
		return m.setImage(e.Name, e.Value)
	default:
		return m.removeHostPath(e)
	}
}

// carryOut makes a change and compares what the manifest says with what it ought to say.
func (m *Manifest) carryOut(c *change) ([]byte, error) {
	want, err := m.doc.tree()
	if err != nil {
		return nil, err
	}
	c.want(want)
	out := m.doc.apply(c.splices)
	doc, err := newDocument(out)
	if err != nil {
		return nil, entangled(err)
	}
	have, err := doc.tree()
	if err != nil {
		return nil, entangled(err)
	}
	if !reflect.DeepEqual(want, have) {
		return nil, entangled(errors.New("something else would change as well"))
	}
	return out, nil
}

func entangled(err error) error {
	return fmt.Errorf("the manifest is written in a way that cannot be edited safely (anchors, tags or unusual line breaks), so it was left alone: "+
		"write it out in plain block style and run the same command again (%w)", err)
}

var (
	flagPattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	volumePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	pathTypes     = map[string]bool{"": true, "File": true, "Directory": true, "FileOrCreate": true, "DirectoryOrCreate": true}
)

// validate refuses an edit that would make a manifest that no kubelet takes.
func validate(e v1.Edit) error {
	switch e.Op {
	case setFlag, unsetFlag:
		if !flagPattern.MatchString(flagName(e.Name)) {
			return fmt.Errorf("%q is no name of a flag", e.Name)
		}
	case addHostPath, removeHostPath:
		if !volumePattern.MatchString(e.Name) {
			return fmt.Errorf("%q is no name of a volume", e.Name)
		}
		if (e.Op == addHostPath || e.Value != "") && (!strings.HasPrefix(e.Value, "/") || path.Clean(e.Value) != e.Value || strings.Contains(e.Value, ":")) {
			return fmt.Errorf("%q is no absolute path in its shortest form", e.Value)
		}
		if !pathTypes[e.PathType] {
			return fmt.Errorf("%q is no type of a host path", e.PathType)
		}
	case setImage:
		if !tagPattern.MatchString(e.Value) {
			return fmt.Errorf("%q is no tag of an image", e.Value)
		}
	default:
		return errors.New("this operation is not known")
	}
	if !utf8.ValidString(e.Value) || strings.ContainsFunc(e.Value, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("its value holds a character that cannot be printed")
	}
	return nil
}
