// Package english has what goes with a number in a sentence: the form of a noun or a verb, and the first of many names.
package english

import (
	"fmt"
	"strings"
)

// Word returns the form for one, or the form for any other number.
func Word(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Count returns "1 node", "3 nodes" or "3 classes".
func Count(n int, noun string) string {
	many := noun + "s"
	if strings.HasSuffix(noun, "s") {
		many = noun + "es"
	}
	return fmt.Sprintf("%d %s", n, Word(n, noun, many))
}

// FirstOf returns the names, or the first of them and how many more there are.
func FirstOf(most int, names []string) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Series joins names with commas, and the last one with a word such as "or".
func Series(word string, names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + word + " " + names[last]
}
