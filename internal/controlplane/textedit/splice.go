// Package textedit reads words with the places where they are written, and replaces pieces of a text.
package textedit

import (
	"bytes"
	"sort"
)

// Splice replaces data[start:end].
type Splice struct {
	Start, End int
	Text       string
}

// ApplySplices applies splices to a text. Where two remove the same bytes, they are removed once.
func ApplySplices(data []byte, splices []Splice) []byte {
	sort.SliceStable(splices, func(i, j int) bool { return splices[i].Start < splices[j].Start })
	var out bytes.Buffer
	at := 0
	for _, s := range splices {
		out.Write(data[at:max(at, s.Start)])
		out.WriteString(s.Text)
		at = max(at, s.End)
	}
	out.Write(data[at:])
	return out.Bytes()
}
