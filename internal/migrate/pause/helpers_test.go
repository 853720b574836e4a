package pause

import (
	"strings"
	"time"
)

func verbs(writes []string) []string {
	var out []string
	for _, w := range writes {
		verb, _, _ := strings.Cut(w, " ")
		out = append(out, verb)
	}
	return out
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
