package controlplane

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// plain are the texts that may need no quotes in block style: flags, paths, images and names. What could be a
// number or a date does not begin so.
var plain = regexp.MustCompile(`^(--?[A-Za-z][A-Za-z0-9_.-]*(=[A-Za-z0-9_./:,=@%+$()~*-]*)?|[A-Za-z/][A-Za-z0-9_./:@+-]*)$`)

// reserved are booleans and nulls in some version of YAML.
var reserved = regexp.MustCompile(`(?i)^(y|n|yes|no|on|off|true|false|null)$`)

// quote writes a text as a YAML scalar in the style of its neighbours, with quotes where they are needed.
func quote(value string, style yaml.Style, flow bool) string {
	style &^= yaml.TaggedStyle
	switch {
	case style&yaml.DoubleQuotedStyle != 0, flow && style&yaml.SingleQuotedStyle == 0:
		return doubleQuoted(value)
	case style&yaml.SingleQuotedStyle != 0, !plain.MatchString(value) || reserved.MatchString(value) || strings.HasSuffix(value, ":"):
		return "'" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	return value
}

// doubleQuoted is a JSON string, which is a YAML scalar too.
func doubleQuoted(value string) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // a string can always be encoded
	return strings.TrimSuffix(out.String(), "\n")
}

// field is a key with a text, or with fields of its own.
type field struct {
	key    string
	value  string
	raw    bool // value is no text (a boolean)
	fields []field
}

// block writes fields one a line, as an element of a block list whose dashes have this indentation.
func block(fields []field, indent string) []string {
	var out []string
	var write func(fields []field, indent string)
	write = func(fields []field, indent string) {
		for _, f := range fields {
			switch {
			case f.fields != nil:
				out = append(out, indent+f.key+":")
				write(f.fields, indent+"  ")
			case f.raw:
				out = append(out, indent+f.key+": "+f.value)
			default:
				out = append(out, indent+f.key+": "+quote(f.value, 0, false))
			}
		}
	}
	write(fields, indent+"  ")
	out[0] = indent + "- " + strings.TrimPrefix(out[0], indent+"  ")
	return out
}

// inline writes fields as a JSON object, which is a flow map too.
func inline(fields []field) string {
	var parts []string
	for _, f := range fields {
		switch {
		case f.fields != nil:
			parts = append(parts, doubleQuoted(f.key)+": "+inline(f.fields))
		case f.raw:
			parts = append(parts, doubleQuoted(f.key)+": "+f.value)
		default:
			parts = append(parts, doubleQuoted(f.key)+": "+doubleQuoted(f.value))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// values are the fields as they are read back.
func values(fields []field) map[string]any {
	out := map[string]any{}
	for _, f := range fields {
		switch {
		case f.fields != nil:
			out[f.key] = values(f.fields)
		case f.raw:
			out[f.key] = f.value == "true"
		default:
			out[f.key] = f.value
		}
	}
	return out
}
