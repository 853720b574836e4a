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
	maxTextWords = 25 // of what is between two stops of a text for users; values come into it, too
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

// private are the private words of a passage.
func (p passage) private(name string) []string {
	var broken []string
	for word, instead := range privateWords {
		if found := word.FindString(p.text); found != "" {
			broken = append(broken, fmt.Sprintf("%s:%d says %q, say %q", name, p.line, strings.Join(strings.Fields(found), " "), instead))
		}
	}
	return broken
}

// unnamed are the words of a passage that hide who acts.
func (p passage) unnamed(name string) []string {
	var broken []string
	for _, found := range unnamedActors.FindAllString(p.text, -1) {
		broken = append(broken, fmt.Sprintf("%s:%d says %q, name the actor", name, p.line, found))
	}
	return broken
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
// Literals that are joined are one.
func stringsOf(set *token.FileSet, file *ast.File) []passage {
	var out []passage
	ast.Inspect(file, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		text, whole := literalOf(e)
		if strings.Contains(text, " ") {
			out = append(out, passage{set.Position(e.Pos()).Line, text})
		}
		return !whole
	})
	return out
}

// literalOf returns the text of a string literal, or of those that are joined; whole reports whether it is nothing else.
func literalOf(e ast.Expr) (text string, whole bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.BinaryExpr:
		left, isLeft := literalOf(e.X)
		right, isRight := literalOf(e.Y)
		if e.Op == token.ADD && isLeft && isRight {
			return left + right, true
		}
	}
	return "", false
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
		broken = append(append(broken, p.private(name)...), p.unnamed(name)...)
	}
	slices.Sort(broken)
	return broken
})

var namedActors = each(func(name string, content []byte) []string {
	var broken []string
	for _, p := range passagesOf(name, content, false) {
		broken = append(broken, p.unnamed(name)...)
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

var (
	stop     = regexp.MustCompile(`[:;]\s`) // between what happened, to what, and what to do next
	anyPoint = regexp.MustCompile(`[.,:;%]`)
)

// shortTexts looks at what users read, but for lists of words.
var shortTexts = each(func(name string, content []byte) []string {
	var broken []string
	for _, p := range passagesOf(name, content, true) {
		if !anyPoint.MatchString(p.text) || strings.HasPrefix(name, explanations) {
			continue
		}
		if strings.HasPrefix(p.text, "A metric counting the number of route reconciles") {
			continue // upstream's own text: with another one its collector could not be adopted
		}
		for _, sentence := range longSentences(stop.ReplaceAllString(p.text, ". "), maxTextWords) {
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

// codeSpan is code in a line of Markdown: a value such as `nobody` is no word there.
var codeSpan = regexp.MustCompile("`[^`]*`")

// pageWords refuses private words and unnamed actors in pages and in what is deployed. The page of words has them as
// what not to say, and the log of changes keeps what was said.
var pageWords = each(func(name string, content []byte) []string {
	deployed := strings.HasPrefix(name, "deploy/") && path.Ext(name) != ".json"
	if name == "docs/contributing/words.md" || name == "CHANGELOG.md" || !deployed && !isPage(name) {
		return nil
	}
	var broken []string
	for _, p := range saidIn(content, !deployed, path.Ext(name) == ".md") {
		broken = append(append(broken, p.private(name)...), p.unnamed(name)...)
	}
	return broken
})

// saidIn returns what a page or a manifest says, without code: paragraphs, list items and rows of Markdown, and of
// another file the comments and each other line. With hasFences, what is between fences is code.
func saidIn(content []byte, hasFences, isMarkdown bool) []passage {
	var out []passage
	number, code, open, wasMarked := 0, false, false, false
	for line := range strings.Lines(string(content)) {
		number++
		text := strings.TrimSpace(codeSpan.ReplaceAllString(line, ""))
		isMarked := strings.HasPrefix(text, "#") // as a comment or a heading
		text = strings.TrimLeft(text, "# ")
		isItem := listItem.MatchString(line) || strings.HasPrefix(text, "|")
		switch {
		case hasFences && strings.HasPrefix(strings.TrimSpace(line), "```"):
			code, open = !code, false
		case code || text == "":
			open = false
		case open && isMarked == wasMarked && (isMarked || isMarkdown) && !isItem:
			out[len(out)-1].text += " " + text
		default:
			out, open = append(out, passage{number, text}), true
		}
		wasMarked = isMarked
	}
	return out
}

func isPage(name string) bool {
	return path.Ext(name) == ".md" && (path.Dir(name) == "." || strings.HasPrefix(name, "docs/"))
}

// shortDocSentences looks at the pages in docs and at those at the top of the repository.
var shortDocSentences = each(func(name string, content []byte) []string {
	if !isPage(name) {
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
