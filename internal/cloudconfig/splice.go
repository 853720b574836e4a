package cloudconfig

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/catalogue"
)

// splice replaces data[start:end].
type splice struct {
	start, end int
	text       string
}

// edits collects what is done to an INI file.
type edits struct {
	*file
	eol      string
	splices  []splice
	changes  []string
	problems []string
}

func newEdits(in []byte) (*edits, error) {
	f, err := parseFile(in)
	if err != nil {
		return nil, err
	}
	e := &edits{file: f, eol: "\n"}
	if bytes.Contains(in, []byte("\r\n")) {
		e.eol = "\r\n"
	}
	return e, nil
}

// derived applies the edits.
func (d *edits) derived() Derived {
	return Derived{
		Data:     d.bytes(),
		Format:   FormatINI,
		Changes:  d.changes,
		Problems: d.problems,
	}
}

func (d *edits) say(format string, args ...any) {
	d.changes = append(d.changes, fmt.Sprintf(format, args...))
}

func (d *edits) addProblem(format string, args ...any) {
	d.problems = append(d.problems, fmt.Sprintf(format, args...))
}

// dropInTreeKeys takes away the keys that the external provider does not read, with the sections that it does not read
// at all. Those of sections that are removed already are not told again.
func (d *edits) dropInTreeKeys(provider string) {
	for _, b := range d.blocks {
		if d.isRemoved(b) {
			continue
		}
		var gone []*entry
		for _, e := range b.entries {
			if k, ok := catalogue.ConfigKeyOf(provider, b.section, e.key); ok && !k.External {
				gone = append(gone, e)
				d.say("%s: %s is left out: %s", b.title(), k.Key, k.Why)
			}
		}
		if len(gone) > 0 && len(gone) == len(b.entries) && !isExternalSection(provider, b.section) {
			d.splices = append(d.splices, splice{start: b.start, end: b.end})
			continue
		}
		for _, e := range gone {
			d.splices = append(d.splices, splice{start: e.from, end: e.to})
		}
	}
}

// isExternalSection reports whether the external provider reads a section.
func isExternalSection(provider, section string) bool {
	return slices.ContainsFunc(catalogue.ConfigKeys(provider), func(k catalogue.ConfigKey) bool {
		return k.External && strings.EqualFold(k.Section, section)
	})
}

func (d *edits) isRemoved(b *block) bool {
	return slices.ContainsFunc(d.splices, func(s splice) bool { return s.start <= b.start && s.end > b.start })
}

// bytes applies the splices. What a splice removes, others inside it do not bring back.
func (d *edits) bytes() []byte {
	slices.SortStableFunc(d.splices, func(a, b splice) int { return a.start - b.start })
	var out bytes.Buffer
	at := 0
	for _, s := range d.splices {
		if s.end < at {
			continue
		}
		out.Write(d.data[at:max(at, s.start)])
		out.WriteString(s.text)
		at = max(at, s.end)
	}
	out.Write(d.data[at:])
	return out.Bytes()
}

// value is the last value of a key in a file, and whether it is there.
func (f *file) value(section, key string) (string, bool) {
	value, found := "", false
	for _, b := range f.blocks {
		if !b.is(section) {
			continue
		}
		for _, e := range b.entries {
			if strings.EqualFold(e.key, key) {
				value, found = trimmed(e.value), true
			}
		}
	}
	return value, found
}

func trimmed(value string) string { return strings.TrimSpace(value) }

// isTruthy reports whether the providers' reader (gopkg.in/gcfg.v1/types) reads a value as true; one of a key alone is.
func isTruthy(value string) bool {
	return slices.Contains([]string{"", "true", "yes", "on", "1"}, strings.ToLower(value))
}
