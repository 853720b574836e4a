// Package shell puts what a cluster, a host or a cloud says into commands that a person pastes into a shell. An
// administrator of a cluster chooses URLs, flags, labels and image names, and nothing in them may be run.
package shell

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/transplant-dev/transplant/internal/visible"
)

// Refused stands for a word that no command is printed with. A terminal would obey a character of it, or the program
// would take it for an option.
const Refused = "'<refused: control characters, or a leading dash>'"

// IsPlain reports whether a shell takes a word for itself, and a program takes it for no option.
var IsPlain = regexp.MustCompile(`^[A-Za-z0-9/@%_+=:,.][A-Za-z0-9/@%_+=:,.-]*$`).MatchString

// Quote returns a text as one word of a command. A plain one stays as it is, so that commands of ordinary clusters are
// easy to read.
func Quote(text string) string {
	switch {
	case IsPlain(text):
		return text
	case strings.HasPrefix(text, "-"):
		return Refused
	}
	return InQuotes(text)
}

// InQuotes returns a text as one word, in quotes even where it needs none. A script of sed is easier to read in them.
func InQuotes(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, isControl) {
		return Refused
	}
	return Literal(text)
}

// Literal returns a text as one word in quotes, whatever it holds. It is for a file's own lines, which have to stay as
// they are.
func Literal(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// QuoteAll returns each text as one word.
func QuoteAll(texts []string) []string {
	out := make([]string, 0, len(texts))
	for _, text := range texts {
		out = append(out, Quote(text))
	}
	return out
}

func isControl(r rune) bool { return r == '\n' || r == '\t' || visible.IsObeyed(r) }
