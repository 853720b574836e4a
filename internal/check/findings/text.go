package findings

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/visible"
)

// OrElse returns s, or the other text when s is empty.
func OrElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Few joins names, the first of them when there are many.
func Few(names []string) string { return english.FirstOf(MaxShown, names) }

// maxQuoted is how many bytes of a value a finding shows.
const maxQuoted = 200

// Short returns a value of a cluster as a finding shows it. A flag's value may have a megabyte, and many objects may
// quote the same one.
func Short(value string) string {
	return visible.Cut(value, maxQuoted)
}

// HowMany is one of two phrases: the first for one thing, the second with the number before it for any other.
func HowMany(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Plural returns "1 node" or "3 nodes".
func Plural(n int, noun string) string { return english.Count(n, noun) }

// Also returns what there is to add to a sentence about n things; nothing when there are none.
func Also(n int, more string) string {
	if n == 0 {
		return ""
	}
	return more
}

// Counting returns "no node waits", "1 node waits" or "3 nodes wait".
func Counting(n int, noun, one, many string) string {
	if n == 0 {
		return "no " + noun + " " + one
	}
	return Plural(n, noun) + " " + english.Word(n, one, many)
}

// OrNothing joins values; it returns "nothing" when there are none.
func OrNothing(values []string) string {
	if len(values) == 0 {
		return "nothing"
	}
	return strings.Join(values, ", ")
}

// alternatives are the words for one thing and for another number of them, as in [node is|nodes are].
var alternatives = regexp.MustCompile(`\[([^|\]]*)\|([^|\]]*)\]`)

// Number puts a number into a text, and the words that go with it: "# of ## nodes [has|have] none", ## being all. A
// text that is about no thing begins as one about one: "no node has".
func Number(text string, n, all int) string {
	words := "$2"
	if n < 2 {
		words = "$1"
	}
	number := strconv.Itoa(n)
	if n == 0 {
		number = "no"
	}
	text = strings.ReplaceAll(alternatives.ReplaceAllString(text, words), "##", strconv.Itoa(all))
	return strings.ReplaceAll(text, "#", number)
}
