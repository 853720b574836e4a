// Package document decides whether a stored document may be read. It does so by its kind, by the number of its schema,
// and by whether each of its fields is known. A reader that leaves out what it does not know writes back less than it
// was given.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Form is what a document has to be.
type Form struct {
	// Object names the document in errors, e.g. journal ConfigMap kube-system/transplant-journal.
	Object string
	// Kind it has to be of; empty for a document that names none.
	Kind string
	// Known is the highest number of the schema that the reader knows.
	Known int
}

// NewerError says that a document was written by a version of the program that knows more than this one.
type NewerError struct {
	Object string
	// Has says what is not known, e.g. schema 3.
	Has string
	// Writer is the version that wrote it; empty where the document does not say.
	Writer string
	Known  int
}

func (e *NewerError) Error() string {
	use := "a later version of transplant"
	if e.Writer != "" {
		use = fmt.Sprintf("transplant %s, which wrote it, or a later version", e.Writer)
	}
	return fmt.Sprintf(
		"%s has %s, and this version of transplant knows no more than schema %d of it: use %s; this one reads nothing of it and changes nothing",
		e.Object,
		e.Has,
		e.Known,
		use,
	)
}

// Judge refuses a number that the reader does not know. No number is schema 1.
func (f Form) Judge(schema int, writer string) error {
	switch {
	case schema > f.Known:
		return &NewerError{
			Object: f.Object,
			Has:    fmt.Sprintf("schema %d", schema),
			Writer: writer,
			Known:  f.Known,
		}
	case schema < 0:
		return fmt.Errorf("%s has schema %d, which there is not: it was edited", f.Object, schema)
	}
	return nil
}

// Read reads a JSON document into a value. It says what the document is before it says which field is not known: of
// another kind, none would be.
func (f Form) Read(data []byte, into any) error {
	var head struct {
		v1.TypeMeta `json:",inline"`
		ToolVersion string `json:"toolVersion"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("%s is no JSON of this form: %w", f.Object, err)
	}
	if f.Kind != "" && (head.APIVersion != v1.GroupVersion || head.Kind != f.Kind) {
		return fmt.Errorf(
			"%s holds %s %s, which this version of transplant does not know: use the version that wrote it",
			f.Object,
			head.APIVersion,
			head.Kind,
		)
	}
	if err := f.Judge(head.Schema, head.ToolVersion); err != nil {
		return err
	}
	err := Strict(data, into)
	if field, ok := unknownField(err); ok {
		return &NewerError{
			Object: f.Object,
			Has:    "the field " + field,
			Writer: head.ToolVersion,
			Known:  f.Known,
		}
	} else if err != nil {
		return fmt.Errorf("%s: %w", f.Object, err)
	}
	return nil
}

// Strict decodes one JSON value; a field that the Go type does not have is an error, at any depth.
func Strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the end of the document")
	}
	return nil
}

// unknownField is the name of the field that a strict decoder does not know.
func unknownField(err error) (string, bool) {
	if err == nil {
		return "", false
	}
	_, field, ok := strings.Cut(err.Error(), "unknown field ")
	return field, ok
}
