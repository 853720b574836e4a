package repopolicy

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxColumns     = 120 // of a line, with a tab as one column
	maxTestColumns = 160 // of a test's line, where a row of a table may be one line
	generated      = 60  // columns above which a name can only come from a generator
)

// isGoSource reports whether a file is Go code that people write and read.
func isGoSource(name string) bool {
	return path.Ext(name) == goExtension && !strings.HasPrefix(path.Base(name), "zz_generated") &&
		!strings.Contains(name, "testdata/")
}

// scanned are what Go's scanner finds in a file: by line the width that no tool can break, and the comments.
type scanned struct {
	unbreakable map[int]int // columns of the longest string literal or generated name of a line, by its number from 1
	comments    map[int]string
}

func scan(content []byte) scanned {
	out := scanned{map[int]int{}, map[int]string{}}
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(content))
	s.Init(file, content, nil, scanner.ScanComments)
	for {
		pos, kind, text := s.Scan()
		first := file.Line(pos)
		switch kind {
		case token.EOF:
			return out
		case token.IDENT:
			if len(text) > generated {
				out.unbreakable[first] = len(text)
			}
		case token.STRING:
			for i, line := range strings.Split(text, "\n") {
				out.unbreakable[first+i] = max(out.unbreakable[first+i], utf8.RuneCountInString(line))
			}
		case token.COMMENT:
			out.comments[first] = text
		default:
		}
	}
}

// lineWidths reports lines that are too wide. A string literal may be as long as it is, and so may a URL and a
// directive in a comment: it is the rest of the line that is counted then. A drawing in a comment has a test's width.
var lineWidths = each(func(name string, content []byte) []string {
	if !isGoSource(name) {
		return nil
	}
	most := maxColumns
	if isTest(name) {
		most = maxTestColumns
	}
	found := scan(content)
	var broken []string
	for i, line := range bytes.Split(content, []byte("\n")) {
		width := utf8.RuneCount(line)
		comment := found.comments[i+1]
		if strings.HasPrefix(comment, "//\t") && width <= maxTestColumns {
			continue
		}
		if width-found.unbreakable[i+1] <= most || strings.Contains(comment, "://") || isDirective(comment) {
			continue
		}
		broken = append(broken, fmt.Sprintf("%s:%d has %d columns, a line may have %d", name, i+1, width, most))
	}
	return broken
})

func isDirective(comment string) bool {
	return regexp.MustCompile(`^//(go:|nolint|\+| \+)`).MatchString(comment)
}

// privateWords are words that a reader has to translate, by what to say instead.
var privateWords = map[*regexp.Regexp]string{
	regexp.MustCompile(`(?i)\btells?\s+(that|whether)\b`): "reports whether",
	regexp.MustCompile(`(?i)\bin\s+vain\b`):               "without success",
	regexp.MustCompile(`(?i)\banew\b`):                    "again",
	regexp.MustCompile(`(?i)\bgoes\s+behind\b`):           "follows",
	regexp.MustCompile(`(?i)\bmend(s|ed|ing)?\b`):         "repair",
	regexp.MustCompile(`(?i)\blets?\s+go\s+of\b`):         "release",
	regexp.MustCompile(`(?i)\bbeside\b`):                  "next to",
	between(`take|takes|taken|taking|took`, `out\s+of`):   "remove from, exclude",
	between(`carry|carries|carried|carrying`, `out`):      "execute",
}

// between matches a verb and the words that belong to it, with at most five other words of the same clause between them.
func between(verb, rest string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(` + verb + `)(\s+\S*[^\s.,;:!?]){0,5}?\s+` + rest + `\b`)
}

var commentWords = each(func(name string, content []byte) []string {
	if !isGoSource(name) {
		return nil
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", name, err)}
	}
	var broken []string
	for _, p := range commentsOf(set, file) {
		broken = append(broken, p.private(name)...)
	}
	slices.Sort(broken)
	return broken
})
