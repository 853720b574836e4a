package repopolicy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	maxWords     = 25 // of a sentence
	explanations = "internal/check/explain/"
)

// unnamedActors are words that hide who acts. One of them alone, such as an owner's value "nobody", is data.
var unnamedActors = regexp.MustCompile(`(?i)\b(nobody|somebody|someone|whoever)\b`)

var (
	abbreviation = regexp.MustCompile(`\b(e\.g|i\.e|etc|vs)\.\s`)
	sentenceEnd  = regexp.MustCompile(`[.!?][)"'”’]*\s+|\n\s*\n|\n\s*([-*|]|\d+\.)\s`)
)

// longSentences returns the sentences of a text that have more than maxWords words.
func longSentences(text string) []string {
	var long []string
	for _, sentence := range sentenceEnd.Split(abbreviation.ReplaceAllString(text, "$1 "), -1) {
		count := 0
		for word := range strings.FieldsSeq(sentence) {
			if strings.ContainsFunc(word, isAlphanumeric) {
				count++
			}
		}
		if count > maxWords {
			long = append(long, fmt.Sprintf("%d words: %.60s", count, strings.Join(strings.Fields(sentence), " ")))
		}
	}
	return long
}

func isAlphanumeric(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// passage is a comment or a string of a Go file, or a paragraph of an explanation.
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
		for _, sentence := range longSentences(p.text) {
			broken = append(broken, fmt.Sprintf("%s:%d has a sentence of %s", name, p.line, sentence))
		}
	}
	return broken
})

// unnamedYet and longYet are how many comments of a directory are not rewritten yet. A number may only fall.
var (
	unnamedYet = map[string]int{}
	longYet    = map[string]int{
		"internal/answerlimit":             7,
		"internal/catalogue":               1,
		"internal/catalogue/cloudprovider": 2,
		"internal/check/controlplane":      1,
		"internal/cli/printer":             2,
		"internal/client":                  1,
		"internal/cloudconfig":             1,
		"internal/controllernames":         1,
		"internal/fleet/admission":         1,
		"internal/fleet/machines":          1,
		"internal/fleet/parts":             5,
		"internal/fleet/userclusters":      2,
		"internal/fleet/web":               2,
		"internal/handover":                1,
		"internal/holder":                  1,
		"internal/hosted":                  2,
		"internal/hostproof":               4,
		"internal/jsonweight":              1,
		"internal/managerprogram":          1,
		"internal/migrate/lock":            1,
		"internal/migrate/lostnode":        1,
		"internal/migrate/precondition":    3,
		"internal/migrate/step":            1,
		"internal/migrate/step/staticpod":  1,
		"internal/migrate/step/verify":     1,
		"internal/migrate/takeover":        1,
		"internal/migrationconfig":         7,
		"internal/ownership":               9,
		"internal/ownership/recorder":      5,
		"internal/plan":                    10,
		"internal/plan/allowed":            13,
		"internal/plan/ccm":                9,
		"internal/plan/clusterview":        2,
		"internal/plan/compare":            3,
		"internal/plan/diff":               1,
		"internal/plan/draft":              5,
		"internal/plan/effect":             1,
		"internal/plan/external":           1,
		"internal/plan/hosted":             1,
		"internal/plan/invariant":          4,
		"internal/plan/kubeadm":            1,
		"internal/plan/kubelet":            8,
		"internal/plan/layout":             7,
		"internal/plan/manual":             2,
		"internal/plan/planstep":           4,
		"internal/plan/program":            2,
		"internal/plan/replace":            1,
		"internal/plan/rollback":           4,
		"internal/plan/upgrade":            1,
		"internal/preview":                 1,
		"internal/probe":                   11,
		"internal/repopolicy":              1,
		"internal/report":                  8,
		"internal/schematest":              1,
		"internal/snapshot":                3,
		"internal/snapshot/blame":          1,
		"internal/snapshot/collect":        7,
		"internal/snapshot/host":           2,
		"internal/snapshot/hosted":         2,
		"internal/snapshot/objects":        1,
		"internal/snapshot/permission":     3,
		"internal/snapshot/workloads":      5,
		"internal/status":                  5,
		"internal/timeline":                3,
		"internal/visible":                 3,
		"provider/openstack":               7,
		"provider/openstack/client":        3,
		"provider/openstack/cloudconf":     1,
		"provider/transport":               1,
	}
)

// except lets a rule be broken so often in the listed directories, and no less: a list that was worked off is shortened.
func except(judge rule, allowed map[string]int) rule {
	return func(tree fs.FS) ([]string, error) {
		all, err := judge(tree)
		byDirectory := map[string][]string{}
		for _, line := range all {
			name, _, _ := strings.Cut(line, ":")
			byDirectory[path.Dir(name)] = append(byDirectory[path.Dir(name)], line)
		}
		var broken []string
		for dir, lines := range byDirectory {
			if len(lines) > allowed[dir] {
				broken = append(broken, lines...)
			}
		}
		for dir, most := range allowed {
			if _, err := fs.Stat(tree, dir); err == nil && len(byDirectory[dir]) < most {
				broken = append(broken, fmt.Sprintf("%s has %d left, not %d: lower its number", dir, len(byDirectory[dir]), most))
			}
		}
		slices.Sort(broken)
		return broken, err
	}
}
