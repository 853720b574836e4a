package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Formats are what Write knows.
var Formats = []string{"html", "json", "markdown", "yaml"}

// Write renders the report in one of Formats.
func Write(w io.Writer, r v1.Report, format string) error {
	var err error
	switch format {
	case "html":
		err = writeHTML(w, r)
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		err = e.Encode(r)
	case "markdown":
		_, err = io.WriteString(w, markdown(r))
	case "yaml":
		var text []byte
		if text, err = yaml.Marshal(r); err == nil {
			_, err = w.Write(text)
		}
	default:
		return fmt.Errorf("format %q is not known: use one of %s", format, strings.Join(Formats, ", "))
	}
	if err != nil {
		return fmt.Errorf("writing the report as %s: %w", format, err)
	}
	return nil
}
