package repopolicy

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
)

// maxRun is how many lines one after the other may be the same in two places.
const maxRun = 8

// codeLine is a line of code with its white space folded.
type codeLine struct {
	text string
	file string
	at   int
}

// codeLines are the lines of a file that count: no imports, comments, blank lines and lone punctuation.
func codeLines(name string, content []byte) ([]codeLine, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	left := bytes.Clone(content)
	blank := func(from, to token.Pos) {
		for i := set.Position(from).Offset; i < set.Position(to).Offset; i++ {
			if left[i] != '\n' {
				left[i] = ' '
			}
		}
	}
	blank(file.Package, file.Name.End())
	for _, group := range file.Comments {
		blank(group.Pos(), group.End())
	}
	for _, spec := range file.Imports {
		blank(spec.Pos(), spec.End())
	}
	var out []codeLine
	for i, line := range strings.Split(string(left), "\n") {
		text := strings.Join(strings.Fields(line), " ")
		if strings.ContainsFunc(text, isWordRune) && text != "import (" && text != "import" {
			out = append(out, codeLine{text, name, i + 1})
		}
	}
	return out, nil
}

func isWordRune(r rune) bool {
	return r == '_' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z'
}

// identicalRuns reports each run of more lines than that which stands in the product before, in a file or another one.
func identicalRuns(tree fs.FS) ([]string, error) {
	var lines []codeLine
	err := files(tree, func(name string, content []byte) error {
		if !isProduct(name) || isTest(name) {
			return nil
		}
		of, err := codeLines(name, content)
		lines = append(append(lines, of...), codeLine{}) // no run goes over the end of a file
		return err
	})
	var broken []string
	first := map[string]int{} // a window of lines -> where it is first
	for i, until := 0, 0; i+maxRun < len(lines); i++ {
		var window strings.Builder
		for _, l := range lines[i : i+maxRun+1] {
			window.WriteString(l.text + "\n")
		}
		before, seen := first[window.String()]
		switch {
		case strings.HasPrefix(window.String(), "\n") || strings.Contains(window.String(), "\n\n"):
		case !seen:
			first[window.String()] = i
		case i >= until && before+maxRun < i:
			n := 0
			for i+n < len(lines) && before+n < i && lines[i+n].text != "" && lines[i+n].text == lines[before+n].text {
				n++
			}
			until = i + n
			broken = append(broken, fmt.Sprintf("%s:%d repeats %d lines of %s:%d, two places may share %d",
				lines[i].file, lines[i].at, n, lines[before].file, lines[before].at, maxRun))
		}
	}
	return broken, err
}
