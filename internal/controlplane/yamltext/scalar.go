package yamltext

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// plain are the texts that may need no quotes in block style: flags, paths, images and names. What could be a
// number or a date does not begin so.
var plain = regexp.MustCompile(
	`^(--?[A-Za-z][A-Za-z0-9_.-]*(=[A-Za-z0-9_./:,=@%+$()~*-]*)?|[A-Za-z/][A-Za-z0-9_./:@+-]*)$`,
)

// reserved are booleans and nulls in some version of YAML.
var reserved = regexp.MustCompile(`(?i)^(y|n|yes|no|on|off|true|false|null)$`)

// QuoteScalar writes a text as a YAML scalar in the style of its neighbours, with quotes where they are needed.
func QuoteScalar(value string, style yaml.Style, flow bool) string {
	style &^= yaml.TaggedStyle
	switch {
	case style&yaml.DoubleQuotedStyle != 0, flow && style&yaml.SingleQuotedStyle == 0:
		return QuoteDouble(value)
	case style&yaml.SingleQuotedStyle != 0,
		!plain.MatchString(value) || reserved.MatchString(value) || strings.HasSuffix(value, ":"):
		return "'" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	return value
}

// QuoteDouble is a JSON string, which is a YAML scalar too.
func QuoteDouble(value string) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // a string can always be encoded
	return strings.TrimSuffix(out.String(), "\n")
}

// Field is a key with a text, or with fields of its own.
type Field struct {
	Key    string
	Value  string
	Raw    bool // value is no text (a boolean)
	Fields []Field
}

// FormatBlock writes fields one a line, as an element of a block list whose dashes have this indentation.
func FormatBlock(fields []Field, indent string) []string {
	var out []string
	var write func(fields []Field, indent string)
	write = func(fields []Field, indent string) {
		for _, f := range fields {
			switch {
			case f.Fields != nil:
				out = append(out, indent+f.Key+":")
				write(f.Fields, indent+"  ")
			case f.Raw:
				out = append(out, indent+f.Key+": "+f.Value)
			default:
				out = append(out, indent+f.Key+": "+QuoteScalar(f.Value, 0, false))
			}
		}
	}
	write(fields, indent+"  ")
	out[0] = indent + "- " + strings.TrimPrefix(out[0], indent+"  ")
	return out
}

// FormatFlow writes fields as a JSON object, which is a flow map too.
func FormatFlow(fields []Field) string {
	var parts []string
	for _, f := range fields {
		switch {
		case f.Fields != nil:
			parts = append(parts, QuoteDouble(f.Key)+": "+FormatFlow(f.Fields))
		case f.Raw:
			parts = append(parts, QuoteDouble(f.Key)+": "+f.Value)
		default:
			parts = append(parts, QuoteDouble(f.Key)+": "+QuoteDouble(f.Value))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// FieldValues are the fields as they are read back.
func FieldValues(fields []Field) map[string]any {
	out := map[string]any{}
	for _, f := range fields {
		switch {
		case f.Fields != nil:
			out[f.Key] = FieldValues(f.Fields)
		case f.Raw:
			out[f.Key] = f.Value == "true"
		default:
			out[f.Key] = f.Value
		}
	}
	return out
}
