package bench

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/wholefile"
)

// pageMarks are the lines between which the results of a make target are.
func pageMarks(target string) (begin, end string) {
	return "<!-- written by make " + target + " -->\n", "<!-- end of what make " + target + " writes -->\n"
}

// WritePage puts results into a page of the documentation, between the two marks of a make target. Taken says of which
// commit they are, and when they were measured. A page without the marks is left as it is.
func WritePage(path, target, taken string, results []Result) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the page of results: %w", err)
	}
	begin, end := pageMarks(target)
	before, rest, begins := bytes.Cut(page, []byte(begin))
	_, after, ends := bytes.Cut(rest, []byte(end))
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %q and %q to write results between", path, begin, end)
	}
	written := string(before) + begin + "\n" + taken + "\n\n" + markdown(results) + "\n" + end + string(after)
	if err := wholefile.Write(path, []byte(written), 0o644); err != nil {
		return fmt.Errorf("writing the page of results: %w", err)
	}
	return nil
}

// markdown writes results as a table, with the ratio to upstream behind each figure.
func markdown(results []Result) string {
	var b strings.Builder
	header := []string{"work", "manager"}
	for _, f := range figures {
		header = append(header, f.title)
	}
	writeRow(&b, header)
	writeRow(&b, strings.Split(strings.Repeat("---,", len(header)-1)+"---", ","))
	order, members := groups(results)
	for _, g := range order {
		base := baseline(members[g])
		for _, r := range members[g] {
			cells := []string{g.String(), r.Implementation}
			for _, f := range figures {
				cell := f.text(r)
				if times := ratio(f, r, base); times != "" {
					cell += " (" + times + ")"
				}
				cells = append(cells, cell)
			}
			writeRow(&b, cells)
		}
	}
	for i, line := range slices.Concat(growths(results), reached(results)) {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "- %s\n", line)
	}
	return b.String()
}

func writeRow(b *strings.Builder, cells []string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}
