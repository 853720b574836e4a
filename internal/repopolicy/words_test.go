package repopolicy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	maxWords     = 25 // of a sentence
	maxDocWords  = 30 // of a sentence of the documentation
	explanations = "internal/check/explain/"
)

// unnamedActors are words that hide who acts. One of them alone, such as an owner's value "nobody", is data.
var unnamedActors = regexp.MustCompile(`(?i)\b(nobody|somebody|someone|whoever)\b`)

var (
	abbreviation = regexp.MustCompile(`\b(e\.g|i\.e|etc|vs)\.\s`)
	sentenceEnd  = regexp.MustCompile(`[.!?][)"'”’]*\s+|\n\s*\n|\n\s*([-*|]|\d+\.)\s`)
	listItem     = regexp.MustCompile(`^\s*([-*]|\d+\.)\s`)
	noProse      = regexp.MustCompile("^\\s*($|[|#]|<!--|```)") // between passages of Markdown
)

// longSentences returns the sentences of a text that have more than so many words.
func longSentences(text string, most int) []string {
	var long []string
	for _, sentence := range sentenceEnd.Split(abbreviation.ReplaceAllString(text, "$1 "), -1) {
		count := 0
		for word := range strings.FieldsSeq(sentence) {
			if strings.ContainsFunc(word, isAlphanumeric) {
				count++
			}
		}
		if count > most {
			long = append(long, fmt.Sprintf("%d words: %.60s", count, strings.Join(strings.Fields(sentence), " ")))
		}
	}
	return long
}

func isAlphanumeric(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// passage is a comment or a string of a Go file, an explanation, or a paragraph or list item of the documentation.
type passage struct {
	line int
	text string
}

// commentsOf returns the groups of comments of a Go file, without directives and drawings.
func commentsOf(set *token.FileSet, file *ast.File) []passage {
	var out []passage
	for _, group := range file.Comments {
		var b strings.Builder
		for _, c := range group.List {
			line := strings.TrimPrefix(c.Text, "//")
			if strings.HasPrefix(line, "\t") || isDirective(c.Text) {
				line = "\n"
			}
			b.WriteString(line + "\n")
		}
		out = append(out, passage{set.Position(group.Pos()).Line, b.String()})
	}
	return out
}

// stringsOf returns the string literals of a Go file that hold more than one word.
func stringsOf(set *token.FileSet, file *ast.File) []passage {
	var out []passage
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(literal.Value); err == nil && strings.Contains(text, " ") {
			out = append(out, passage{set.Position(literal.Pos()).Line, text})
		}
		return true
	})
	return out
}

// passagesOf returns what one rule reads of a file: with ofReaders the strings of Go code, else its comments. The
// explanations of checks belong to both.
func passagesOf(name string, content []byte, ofReaders bool) []passage {
	if strings.HasPrefix(name, explanations) && path.Ext(name) == ".md" {
		return []passage{{1, string(content)}}
	}
	if !isProduct(name) || isTest(name) {
		return nil
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []passage{{1, err.Error()}}
	}
	if ofReaders {
		return stringsOf(set, file)
	}
	return commentsOf(set, file)
}

// readWords refuses private words and unnamed actors in what users read: strings of the product and explanations.
var readWords = each(func(name string, content []byte) []string {
	var broken []string
	for _, p := range passagesOf(name, content, true) {
		for word, instead := range privateWords {
			if found := word.FindString(p.text); found != "" {
				broken = append(broken, fmt.Sprintf("%s:%d says %q, say %q", name, p.line, found, instead))
			}
		}
		if found := unnamedActors.FindString(p.text); found != "" {
			broken = append(broken, fmt.Sprintf("%s:%d says %q, name the actor", name, p.line, found))
		}
	}
	slices.Sort(broken)
	return broken
})

var namedActors = each(func(name string, content []byte) []string {
	var broken []string
	for _, p := range passagesOf(name, content, false) {
		for _, found := range unnamedActors.FindAllString(p.text, -1) {
			broken = append(broken, fmt.Sprintf("%s:%d says %q, name the actor", name, p.line, found))
		}
	}
	return broken
})

var shortSentences = each(func(name string, content []byte) []string {
	var broken []string
	for _, p := range passagesOf(name, content, false) {
		for _, sentence := range longSentences(p.text, maxWords) {
			broken = append(broken, fmt.Sprintf("%s:%d has a sentence of %s", name, p.line, sentence))
		}
	}
	return broken
})

// proseOf returns the paragraphs and list items of a page, without code blocks, tables, headings and comments.
func proseOf(content []byte) []passage {
	var out []passage
	number, code, open := 0, false, false
	for line := range strings.Lines(string(content)) {
		number++
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		switch {
		case code || noProse.MatchString(line):
			open = false
		case open && !listItem.MatchString(line):
			out[len(out)-1].text += line
		default:
			out, open = append(out, passage{number, line}), true
		}
	}
	return out
}

// shortDocSentences looks at the pages in docs and at those at the top of the repository.
var shortDocSentences = each(func(name string, content []byte) []string {
	if path.Ext(name) != ".md" || path.Dir(name) != "." && !strings.HasPrefix(name, "docs/") {
		return nil
	}
	var broken []string
	for _, p := range proseOf(content) {
		for _, sentence := range longSentences(p.text, maxDocWords) {
			broken = append(broken, fmt.Sprintf("%s:%d has a sentence of %s", name, p.line, sentence))
		}
	}
	return broken
})
