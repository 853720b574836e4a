package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/visible"
)

// encodeDocument writes a document as JSON without secrets, and without characters that a terminal obeys. What holds
// none of either is written as -o json writes it.
func encodeDocument(doc any) ([]byte, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encoding it: %w", err)
	}
	m := masker{in: json.NewDecoder(bytes.NewReader(raw))}
	m.in.UseNumber()
	if err := m.next(""); err != nil {
		return nil, fmt.Errorf("masking it: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, m.out.Bytes(), "", "  "); err != nil {
		return nil, fmt.Errorf("masking it: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// masker copies JSON, and masks each text by the name that it has. A document of some thousand nodes is not taken
// apart in memory for that.
type masker struct {
	in  *json.Decoder
	out bytes.Buffer
}

// next copies the next value, which is under a name.
func (m *masker) next(name string) error {
	token, err := m.in.Token()
	if err != nil {
		return err
	}
	return m.value(token, name)
}

// value copies the value that begins with a token.
func (m *masker) value(token json.Token, name string) error {
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return m.object()
		}
		return m.list(name)
	case string:
		return m.text(mask.Named(name, t))
	case nil:
		m.out.WriteString("null")
	default: // a number or a truth value
		fmt.Fprint(&m.out, t)
	}
	return nil
}

// object copies the fields of an object, to its end. A field "value" has the name that the field "name" before it says.
func (m *masker) object() error {
	m.out.WriteByte('{')
	pair := ""
	for first := true; m.in.More(); first = false {
		token, err := m.in.Token()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok {
			return errors.New("a field without a name")
		}
		if !first {
			m.out.WriteByte(',')
		}
		if err := m.text(mask.Text(key)); err != nil {
			return err
		}
		m.out.WriteByte(':')
		if token, err = m.in.Token(); err != nil {
			return err
		}
		named := key
		if key == "value" && pair != "" {
			named = pair
		}
		if text, is := token.(string); is && key == "name" {
			pair = text
		}
		if err := m.value(token, named); err != nil {
			return err
		}
	}
	return m.copyEnd('}')
}

// list copies the items of a list, to its end. Texts next to each other may be a command line, in which a flag's value
// stands behind it.
func (m *masker) list(name string) error {
	m.out.WriteByte('[')
	before := ""
	for first := true; m.in.More(); first = false {
		if !first {
			m.out.WriteByte(',')
		}
		token, err := m.in.Token()
		if err != nil {
			return err
		}
		if text, is := token.(string); is {
			token = mask.Command([]string{before, text})[1]
			before = text
		}
		if err := m.value(token, name); err != nil {
			return err
		}
	}
	return m.copyEnd(']')
}

// copyEnd copies the end of an object or a list.
func (m *masker) copyEnd(with byte) error {
	m.out.WriteByte(with)
	_, err := m.in.Token()
	return err
}

// text writes a text in which no terminal obeys anything.
func (m *masker) text(s string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return err
	}
	m.out.Write(visible.JSON(bytes.TrimSuffix(b.Bytes(), []byte("\n"))))
	return nil
}
