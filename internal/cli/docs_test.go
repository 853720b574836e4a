package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"mvdan.cc/sh/v3/syntax"

	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client"
)

// An operator pastes the commands of the documentation into a shell, at times at night. So a flag that was renamed, a target of make that went and a path that
// moved fail here. docs/README.md says how a command is marked that this test cannot judge.
func TestTheCommandsOfTheDocumentationCanBeGiven(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	book, err := readBook(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	inWorkingDirectory(t)
	counted := map[string]int{}
	for _, c := range book.commands {
		counted[path.Base(c.words[0])]++
		if err := book.judge(t, c); err != nil {
			t.Errorf("%s:%d: %s: %v", c.page, c.line, strings.Join(c.words, " "), err)
		}
	}
	for _, line := range book.broken {
		t.Error(line)
	}
	if counted["transplant"] < 50 || counted["make"] < 20 || counted["kubectl"] < 20 {
		t.Errorf("hardly any command was found: %v", counted)
	}
}

func TestACommandThatCannotBeGivenIsFound(t *testing.T) {
	inWorkingDirectory(t)
	for _, c := range []struct{ page, want string }{
		{"```\ntransplant chek\n```", `unknown command "chek"`},
		{"```\ntransplant check --host-acess=pod\n```", "unknown flag: --host-acess"},
		{"```\ntransplant plan --strategy slow\n```", `strategy "slow" is not known`},
		{"```\ntransplant probe --for soon\n```", `invalid argument "soon"`},
		{"```\ntransplant status now\n```", `takes no argument, and was given ["now"]`},
		{"```\ntransplant apply --soak 1m plan.yaml\n```", "--soak has no effect next to a plan in a file"},
		{"```\ntransplant explain AB-999\n```", "exit code 1"},
		{"```\ntransplant check --from-snapshot none.yaml\n```", "none.yaml"},
		{"```\ncheck # a comment\n```\n```sh\n$ transplant check && \\\n  transplant veryfy | less\n```", `unknown command "veryfy"`},
		{"```\nkubectl transplant aply\n```", `unknown command "aply"`},
		{"Then `transplant fleet statos` says it.", `unknown command "statos"`},
		{"Run `transplant check --problem` then.", "unknown flag: --problem"},
		{"```\nmake evrything\n```", "the Makefile has no target evrything"},
		{"Run `make evrything` then.", "the Makefile has no target evrything"},
		{"```\nmake bench SCENERY=join\n```", "the Makefile has no variable SCENERY"},
		{"```\nkubectl apply -f deploy/rbac/cook.yaml\n```", "deploy/rbac/cook.yaml is not there"},
		{"```\nkubectl apply -k 'github.com/transplant-dev/transplant/deploy/none?ref=v0.1.0'\n```", "deploy/none is not there"},
		{"```\ncd lab && go run ./cmd/none\n```", "lab/cmd/none is not there"},
		{"```sh\ncurl https://example.com\n```", "curl is not in the table of docs/README.md"},
		{"<!-- not run: -->\n```\ntransplant chek\n```", "says no reason"},
		{"```\ntransplant check --from-snapshot snapshot.yaml\n```", ""},
		{"```\nerror: transplant chek\n```", ""},
		{"```\n$ transplant check \\\n  --strict\nblocked: it's\n$ transplant staus\n```", `unknown command "staus"`},
		{"```\nversion=v0.1.0 at=$HOME   # x\ntransplant chek\n```", `unknown command "chek"`},
		{"<!-- not run: the file is yours -->\n```\ntransplant chek FILE\n```", ""},
		{"```yaml\ntransplant: chek\n```", ""},
		{"```\nNAME=x sudo kubectl apply -f - <<EOF\nEOF\n```", ""},
		{"```\ntransplant plan --out plan.yaml > log   # 'and more\ntransplant apply plan.yaml --accept 'LM-006=x\n```", "without closing quote"},
	} {
		tree := fstest.MapFS{
			"README.md":           {Data: []byte(c.page + "\n")},
			"docs/README.md":      {Data: []byte("| `kubectl`, `go`, `less` | needs a cluster |\n")},
			"Makefile":            {Data: []byte("bench: ## x\n\techo $(SCENARIO)\n")},
			"deploy/rbac/a.yaml":  {Data: []byte("x")},
			"lab/cmd/lab/main.go": {Data: []byte("x")},
		}
		book, err := readBook(tree)
		if err != nil {
			t.Fatal(err)
		}
		broken := slices.Clone(book.broken)
		for _, command := range book.commands {
			if err := book.judge(t, command); err != nil {
				broken = append(broken, err.Error())
			}
		}
		if found := strings.Join(broken, "\n"); (c.want == "") != (found == "") || !strings.Contains(found, c.want) {
			t.Errorf("%s\nfinds %q, want %q", c.page, found, c.want)
		}
	}
}

func TestACommandLineIsReadAsAShellReadsIt(t *testing.T) {
	have, err := shellCommands("A=1 sudo x 'a b' \"c d\"$(date -u +%F) | y >out 2>&1 # no ; more\n  z \\\n  -k='{\"a\": 1}' && cd lab; v <in\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []shellCommand{
		{line: 1, words: []string{"x", "a b", "c d$(date -u +%F)"}}, {line: 1, words: []string{"y"}},
		{line: 2, words: []string{"z", `-k={"a": 1}`}}, {line: 3, words: []string{"cd", "lab"}}, {line: 3, words: []string{"v"}},
	}
	if diff := cmp.Diff(want, have, cmp.AllowUnexported(shellCommand{})); diff != "" {
		t.Error(diff)
	}
}

// inWorkingDirectory is where an operator has the files that pages name.
func inWorkingDirectory(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for name, from := range map[string]string{"snapshot.yaml": labSnapshot, "plan.yaml": "../../internal/plan/testdata/lab.plan.yaml"} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// book is the documentation, as far as a shell is told something.
type book struct {
	tree     fs.FS
	makefile string
	// excused are the programs that the table of docs/README.md has, which no test runs.
	excused  []string
	commands []docCommand
	broken   []string
}

type docCommand struct {
	page string
	line int
	// dir is where earlier commands of the block have gone.
	dir   string
	words []string
	// strict reports whether it is in a block of commands, each of which has to be known, and not in a sentence.
	strict bool
}

const (
	commandsIndex = "docs/README.md"
	notRun        = "<!-- not run:"
	ownModule     = "github.com/transplant-dev/transplant/"
)

// ourPrograms are judged here, or by a test of the lab.
var ourPrograms = []string{"transplant", "make", "lab", "cd", "export"}

func readBook(tree fs.FS) (*book, error) {
	b := &book{tree: tree}
	makefile, err := fs.ReadFile(tree, "Makefile")
	if err != nil {
		return nil, err
	}
	b.makefile = string(makefile)
	index, err := fs.ReadFile(tree, commandsIndex)
	if err != nil {
		return nil, err
	}
	for _, m := range regexp.MustCompile("(?m)^\\| ((?:`[a-z0-9-]+`(?:, )?)+) \\|").FindAllStringSubmatch(string(index), -1) {
		for _, program := range strings.Split(m[1], ", ") {
			b.excused = append(b.excused, strings.Trim(program, "`"))
		}
	}
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "out", "lab", "internal", "tools"}, name):
			return fs.SkipDir
		case path.Ext(name) != ".md" || name == "CHANGELOG.md":
			return nil // the latter names commands of the past
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		b.readPage(name, string(data))
		return nil
	})
	return b, err
}

var inlineCommand = regexp.MustCompile("`((?:transplant|make) [a-z][^`]*)`")

// readPage finds the commands of a page: those of blocks, and those in its sentences.
func (b *book) readPage(page, text string) {
	var block []string
	var language, mark string
	isOpen := false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case !isOpen && strings.HasPrefix(trimmed, "```"):
			isOpen, language, block = true, strings.TrimPrefix(trimmed, "```"), nil
		case !isOpen:
			if trimmed != "" {
				mark = trimmed
			}
			if strings.HasPrefix(trimmed, notRun) && strings.Trim(strings.TrimPrefix(trimmed, notRun), " ->") == "" {
				b.broken = append(b.broken, fmt.Sprintf("%s:%d: a block is not run, and the mark says no reason", page, i+1))
			}
			for _, m := range inlineCommand.FindAllStringSubmatch(line, -1) {
				b.addBlock(page, i+1, m[1], false)
			}
		case trimmed == "```":
			if (language == "" || language == "sh") && !strings.HasPrefix(mark, notRun) && (language == "sh" || b.holdsCommands(block)) {
				b.addBlock(page, i+1-len(block), strings.Join(block, "\n"), true)
			}
			isOpen, mark = false, ""
		default:
			block = append(block, line)
		}
	}
}

// holdsCommands reports whether a block without a language holds commands: its first line that is no comment and no assignment is one.
func (b *book) holdsCommands(block []string) bool {
	if prompt.MatchString(strings.Join(block, "\n")) {
		return true
	}
	for _, line := range block {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") || assignment.MatchString(line) {
			continue
		}
		return b.knows(path.Base(strings.Fields(line)[0]))
	}
	return false
}

func (b *book) knows(program string) bool {
	return slices.Contains(ourPrograms, program) || slices.Contains(b.excused, program)
}

// addBlock notes the commands of a block. In one with prompts, lines without are what the commands say.
func (b *book) addBlock(page string, line int, text string, strict bool) {
	if prompt.MatchString(text) {
		var lines []string
		goesOn := false
		for _, l := range strings.Split(text, "\n") {
			if !prompt.MatchString(l) && !goesOn {
				l = ""
			}
			lines, goesOn = append(lines, l), strings.HasSuffix(l, "\\")
		}
		text = prompt.ReplaceAllString(strings.Join(lines, "\n"), "$1")
	}
	commands, err := shellCommands(text)
	if err != nil {
		b.broken = append(b.broken, fmt.Sprintf("%s:%d: %v", page, line, err))
	}
	dir := "."
	for _, c := range commands {
		b.commands = append(b.commands, docCommand{page, line + c.line - 1, dir, c.words, strict})
		if c.words[0] == "cd" && len(c.words) > 1 {
			dir = path.Join(dir, c.words[1])
		}
	}
}

// judge returns why a command cannot be given as it stands.
func (b *book) judge(t *testing.T, c docCommand) error {
	t.Helper()
	program, args := path.Base(c.words[0]), c.words[1:]
	if program == "kubectl" && len(args) > 0 && args[0] == "transplant" {
		program, args = args[0], args[1:]
	}
	switch {
	case program == "transplant" && c.strict:
		return errors.Join(parses(args, true), runsOffline(t, args))
	case program == "transplant":
		return parses(args, false)
	case program == "make":
		return b.isMade(args)
	case !b.knows(program):
		return fmt.Errorf("%s is not in the table of %s: no test runs it", program, commandsIndex)
	}
	return b.hasFiles(c.dir, args)
}

// parses returns why our program would refuse a command line before it has asked anything. A sentence may name a command without its arguments.
func parses(args []string, whole bool) error {
	root := newRoot(console.Streams{Out: io.Discard, Err: io.Discard}, "transplant")
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpFlag()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	err = cmd.ParseFlags(rest)
	if !whole && errors.As(err, new(*pflag.ValueRequiredError)) {
		return nil // the sentence goes on without the value
	}
	rest = cmd.Flags().Args()
	if err == nil && cmd.HasSubCommands() && len(rest) > 0 {
		err = fmt.Errorf("unknown command %q for %q", rest[0], cmd.CommandPath())
	}
	if err != nil || !whole || cmd == root {
		return err
	}
	if err := cmd.ValidateArgs(rest); err != nil {
		return err
	}
	if len(rest) > 0 && cmd.Name() == "apply" { // the plan in the file has these options
		for _, name := range slices.Sorted(maps.Keys(client.PlanOptionFlags)) {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s has no effect next to a plan in a file", name)
			}
		}
	}
	if cmd.PreRunE != nil {
		return cmd.PreRunE(cmd, rest)
	}
	return nil
}

// runsOffline runs a command that asks no cluster, and returns what it says when it fails. A finding that blocks and a difference are no failure.
func runsOffline(t *testing.T, args []string) error {
	t.Helper()
	if len(args) == 0 || args[0] != "explain" && args[0] != "version" && !slices.Contains(args, "--list") && !slices.Contains(args, "--from-snapshot") {
		return nil
	}
	r := transplant(t, args...)
	if r.code == 0 || r.code == 3 || r.code == 1 && args[0] == "diff" {
		return nil
	}
	return fmt.Errorf("exit code %d: %s", r.code, r.errOut)
}

var (
	makeVariable = regexp.MustCompile(`^([A-Z_]+)=`)
	assignment   = regexp.MustCompile(`^(\w+=\S*\s*)+(#|$)`)
)

// isMade returns which target or variable the Makefile does not have.
func (b *book) isMade(args []string) error {
	for _, arg := range args {
		what, pattern := "target "+arg, `(?m)^`+regexp.QuoteMeta(arg)+`:`
		if m := makeVariable.FindStringSubmatch(arg); m != nil {
			what, pattern = "variable "+m[1], `\b`+m[1]+`\b`
		}
		if !regexp.MustCompile(pattern).MatchString(b.makefile) {
			return fmt.Errorf("the Makefile has no %s", what)
		}
	}
	return nil
}

// hasFiles returns which file of this repository an argument names that is not there.
func (b *book) hasFiles(dir string, args []string) error {
	for _, arg := range args {
		if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			arg = value
		}
		name, from := path.Clean(arg), dir
		if after, ok := strings.CutPrefix(arg, ownModule); ok {
			name, from = strings.FieldsFunc(after, func(r rune) bool { return r == '@' || r == '?' })[0], "."
		}
		first, _, inside := strings.Cut(name, "/")
		if !inside && !strings.HasPrefix(arg, "./") || first == "" || strings.ContainsAny(name, "{*$~") {
			continue
		}
		if !strings.HasPrefix(arg, "./") {
			if _, err := fs.Stat(b.tree, path.Join(from, first)); err != nil || first == "out" || first == "bin" {
				continue // it is no path of this repository
			}
		}
		if name = path.Join(from, name); !fs.ValidPath(name) {
			continue
		}
		if _, err := fs.Stat(b.tree, name); err != nil {
			return fmt.Errorf("%s is not there", name)
		}
	}
	return nil
}

// shellCommand is one command of a pipe or list, without its redirections and what stands before the program.
type shellCommand struct {
	line  int
	words []string
}

// shellCommands reads what a POSIX shell would run. What only a shell can know, such as $PWD, stays as it is written.
func shellCommands(text string) ([]shellCommand, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, err
	}
	var out []shellCommand
	syntax.Walk(file, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		if !ok {
			return true
		}
		c := shellCommand{line: int(call.Pos().Line())}
		for _, arg := range call.Args {
			c.words = append(c.words, wordText(arg))
		}
		if len(c.words) > 0 && c.words[0] == "sudo" {
			c.words = c.words[1:]
		}
		if len(c.words) > 0 {
			out = append(out, c)
		}
		return false // what a substitution runs is not looked at
	})
	return out, nil
}

var prompt = regexp.MustCompile(`(?m)^(\s*)\$ `)

// wordText is a word without its quotes.
func wordText(w *syntax.Word) string {
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(wordText(&syntax.Word{Parts: p.Parts}))
		default:
			_ = syntax.NewPrinter().Print(&b, p) // into memory
		}
	}
	return b.String()
}
