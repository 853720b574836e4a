// Package textdiff compares two texts line by line, in the unified format.
package textdiff

import (
	"fmt"
	"strings"
)

// context is how many equal lines a unified diff shows around what differs.
const diffContext = 3

// edit is a line of two texts: of the first ('-'), of the second ('+'), or of both (' ').
type edit struct {
	op   byte
	text string
}

// Unified compares two texts line by line, in the format that patch reads. A text that is empty is a file that is not
// there.
func Unified(name, before, after string) string {
	edits := compareLines(splitLines(before), splitLines(after))
	var b strings.Builder
	from, to := "a/"+name, "b/"+name
	if before == "" {
		from = "/dev/null"
	}
	if after == "" {
		to = "/dev/null"
	}
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", from, to)
	for start := 0; start < len(edits); {
		first := start
		for first < len(edits) && edits[first].op == ' ' {
			first++
		}
		if first == len(edits) {
			break
		}
		end := hunkEnd(edits, first)
		writeHunk(&b, edits, max(start, first-diffContext), end)
		start = end
	}
	return b.String()
}

// hunkEnd is behind the last line of a hunk whose first difference is given: two differences that are close share a
// hunk.
func hunkEnd(edits []edit, first int) int {
	last := first
	for i := first; i < len(edits) && i-last <= 2*diffContext; i++ {
		if edits[i].op != ' ' {
			last = i
		}
	}
	return min(last+1+diffContext, len(edits))
}

func writeHunk(b *strings.Builder, edits []edit, from, to int) {
	before, after := 1, 1
	for _, e := range edits[:from] {
		before, after = advance(e, before, after)
	}
	lastBefore, lastAfter := before, after
	for _, e := range edits[from:to] {
		lastBefore, lastAfter = advance(e, lastBefore, lastAfter)
	}
	fmt.Fprintf(b, "@@ -%s +%s @@\n", span(before, lastBefore-before), span(after, lastAfter-after))
	for _, e := range edits[from:to] {
		fmt.Fprintf(b, "%c%s\n", e.op, e.text)
	}
}

func advance(e edit, before, after int) (int, int) {
	if e.op != '+' {
		before++
	}
	if e.op != '-' {
		after++
	}
	return before, after
}

func span(first, count int) string {
	if count == 0 {
		return fmt.Sprintf("%d,0", first-1)
	}
	return fmt.Sprintf("%d,%d", first, count)
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// compareLines finds the longest common part of two texts; of several, always the same one.
func compareLines(a, b []string) []edit {
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
				continue
			}
			common[i][j] = max(common[i+1][j], common[i][j+1])
		}
	}
	var out []edit
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, edit{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, edit{'-', a[i]})
			i++
		default:
			out = append(out, edit{'+', b[j]})
			j++
		}
	}
	return out
}
