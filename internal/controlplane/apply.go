package controlplane

import (
	"errors"
	"fmt"
	"reflect"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/textedit"
	"github.com/transplant-dev/transplant/internal/controlplane/yamltext"
)

// change is one edit of the text, with what the manifest must then say.
type change struct {
	splices []textedit.Splice
	want    func(tree map[string]any)
}

// Apply applies edits to a manifest, in order. A manifest that needs none is returned with the same bytes. Each
// change is checked: when the manifest does not say afterwards exactly what it said before, and the edit, then the
// result is an error.
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
	if err := commandline.ValidateEdit(e); err != nil {
		return nil, err
	}
	var before []string
	for range commandline.MaxChanges {
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
			if err := commandline.CheckOtherFlags(e, before, m.Command()); err != nil {
				return nil, err
			}
			return data, nil
		}
		if data, err = m.applyChange(c); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("it would take too many changes")
}

// next is the next change that an edit needs; nil when the manifest is as the edit wants it.
func (m *Manifest) next(e v1.Edit) (*change, error) {
	switch e.Op {
	case v1.EditSetFlag:
		return m.setFlag(commandline.NormalizeName(e.Name), e.Value)
	case v1.EditUnsetFlag:
		return m.unsetFlag(commandline.NormalizeName(e.Name))
	case v1.EditAddHostPath:
		return m.addHostPath(e)
	case v1.EditSetImage:
		return m.setImage(e.Name, e.Value)
	default:
		return m.removeHostPath(e)
	}
}

// applyChange makes a change and compares what the manifest says with what it ought to say.
func (m *Manifest) applyChange(c *change) ([]byte, error) {
	want, err := m.doc.ParseTree()
	if err != nil {
		return nil, err
	}
	c.want(want)
	out := m.doc.ApplySplices(c.splices)
	doc, err := yamltext.NewDocument(out)
	if err != nil {
		return nil, entangled(err)
	}
	have, err := doc.ParseTree()
	if err != nil {
		return nil, entangled(err)
	}
	if !reflect.DeepEqual(want, have) {
		return nil, entangled(errors.New("something else would change as well"))
	}
	return out, nil
}

func entangled(err error) error {
	return fmt.Errorf(
		"the manifest is written in a way that cannot be edited safely (anchors, tags or unusual line breaks), so it was not changed; "+
			"write it out in plain block style and run the same command again (%w)",
		err,
	)
}
