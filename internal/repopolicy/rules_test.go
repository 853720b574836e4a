package repopolicy

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	modulePath  = "github.com/transplant-dev/transplant"
	maxLines    = 600 // of a Go file
	maxTestFile = 750 // lines of a test's file, whose tables take a line a row
	maxMainGo   = 60  // of a main.go
	goExtension = ".go"
)

// rule looks at a tree and returns what breaks it, a line each, sorted by path.
type rule func(tree fs.FS) ([]string, error)

// rules are all policies, by the sentence that they enforce.
var rules = map[string]rule{
	"every package says what it decides":      packageComments,
	"packages are named after what they hold": packageNames,
	"files stay short":                        fileSizes,
	"commands only start":                     startsOnly,
	"files name no machine's paths":           machinePaths,
	"files hold no unfinished business":       unfinished,
	"the product can be installed with go":    noReplace,
	"what decides knows no client":            pureImports,
	"the product does not know the lab":       productImports,
	"a cluster's kubeconfig has one reader":   kubeconfigDoors,
	"packages stay small":                     packageSizes,
	"names of one word mean one thing":        vagueNames,
	"predicates are named as such":            adjectives,
	"predicates say what they report":         reportingComments,
	"files of a package begin differently":    filePrefixes,
	"nothing embeds the engine or a draft":    embeddedWholes,
	"types stay small":                        methodCounts,
	"what a command does knows no cobra":      clientImports,
	"lines stay narrow":                       lineWidths,
	"a field of many has its own line":        crowdedLiterals,
	"findings are not taken apart":            textSplits,
	"no code is written twice":                identicalRuns,
	"components are named in one place":       componentNames,
	"providers are facts of the catalogue":    providerNames,
	"comments use plain words":                commentWords,
	"texts for users use plain words":         readWords,
	"pages use plain words":                   pageWords,
	"comments name the actor":                 namedActors,
	"names use plain words":                   plainNames,
	"sentences are short":                     shortSentences,
	"texts for users are short":               shortTexts,
	"sentences of documentation are short":    shortDocSentences,
	"the page of packages names each":         namedPackages,
	"links between pages lead somewhere":      deadLinks,
	"the index names each page":               unlistedPages,
	"blockers have codes":                     blockerCodes,
}

// files calls visit with every file of a tree that is or could be committed.
func files(tree fs.FS, visit func(name string, content []byte) error) error {
	return fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "bin", "out"}, name) {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || name == ".git" { // a worktree's .git is a file that names the repository
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(content, 0) >= 0 {
			return nil // not text
		}
		return visit(name, content)
	})
}

// each is a rule that looks at files one by one.
func each(judge func(name string, content []byte) []string) rule {
	return func(tree fs.FS) ([]string, error) {
		var broken []string
		err := files(tree, func(name string, content []byte) error {
			broken = append(broken, judge(name, content)...)
			return nil
		})
		return broken, err
	}
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

var fileSizes = each(func(name string, content []byte) []string {
	lines := bytes.Count(content, []byte("\n"))
	switch {
	case path.Base(name) == "main.go" && lines > maxMainGo:
		return []string{fmt.Sprintf("%s has %d lines, a main.go may have %d", name, lines, maxMainGo)}
	case isTest(name) && lines > maxTestFile:
		return []string{fmt.Sprintf("%s has %d lines, a test's file may have %d", name, lines, maxTestFile)}
	case path.Ext(name) == goExtension && !isTest(name) && lines > maxLines:
		return []string{fmt.Sprintf("%s has %d lines, a file may have %d", name, lines, maxLines)}
	}
	return nil
})

// startsOnly finds files of a command of the product next to its main.go: what they decide belongs in a package that is tested.
var startsOnly = each(func(name string, _ []byte) []string {
	if !within(name, "cmd") || path.Ext(name) != goExtension || isTest(name) || path.Base(name) == "main.go" {
		return nil
	}
	return []string{name + ": a command has its main.go alone, which starts a package"}
})

// machinePath matches absolute paths that exist on one machine only: homes, checkouts, scratch directories. Root's home as such is everybody's.
var machinePath = regexp.MustCompile("(?:^|[\\s\"'`(=:,])(/(?:(?:work|home/[a-z][^/\\s]*|Users/[A-Za-z][^/\\s]*|tmp/[a-z])/|root/[\\w.]))")

var machinePaths = each(func(name string, content []byte) []string {
	return matches(name, content, machinePath, "names a path of one machine")
})

var unfinishedWork = regexp.MustCompile(`(?:^|[^.|\w])(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

var unfinished = each(func(name string, content []byte) []string {
	return matches(name, content, unfinishedWork, "leaves something undone")
})

// matches reports every line of a file that a pattern matches.
func matches(name string, content []byte, pattern *regexp.Regexp, what string) []string {
	var broken []string
	number := 0
	for line := range bytes.Lines(content) {
		number++
		if found := pattern.FindSubmatch(line); found != nil {
			broken = append(broken, fmt.Sprintf("%s:%d %s: %s", name, number, what, found[1]))
		}
	}
	return broken
}

// noReplace is what "go install module@version" demands of a main module.
func noReplace(tree fs.FS) ([]string, error) {
	content, err := fs.ReadFile(tree, "go.mod")
	if err != nil {
		return nil, err
	}
	return matches("go.mod", content, regexp.MustCompile(`^\s*(replace|exclude)\b`), "cannot be installed with this directive"), nil
}

var packageNames = each(func(name string, content []byte) []string {
	if path.Ext(name) != goExtension {
		return nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.PackageClauseOnly)
	if err != nil {
		return []string{err.Error()}
	}
	if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "types", "misc", "shared"}, file.Name.Name) {
		return []string{fmt.Sprintf("%s: package %s says nothing about what it holds", name, file.Name.Name)}
	}
	return nil
})

// packageComments wants a comment that begins with "Package <name>", or with "Command <directory>" for a program.
func packageComments(tree fs.FS) ([]string, error) {
	said := map[string]bool{} // directory -> has its comment
	wanted := map[string]string{}
	err := files(tree, func(name string, content []byte) error {
		if path.Ext(name) != goExtension || isTest(name) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		wanted[dir] = "Package " + file.Name.Name + " "
		if file.Name.Name == "main" {
			wanted[dir] = "Command " + path.Base(dir) + " "
		}
		said[dir] = said[dir] || file.Doc != nil && strings.HasPrefix(file.Doc.Text(), wanted[dir])
		return nil
	})
	var broken []string
	for dir, ok := range said {
		if !ok {
			broken = append(broken, fmt.Sprintf("%s: no comment that begins with %q", dir, wanted[dir]))
		}
	}
	slices.Sort(broken)
	return broken, err
}

// imports returns what each directory's files import, tests left out: tests may compare with anything.
func imports(tree fs.FS) (map[string][]string, error) {
	imported := map[string][]string{}
	err := files(tree, func(name string, content []byte) error {
		if path.Ext(name) != goExtension || isTest(name) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			what, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			imported[path.Dir(name)] = append(imported[path.Dir(name)], what)
		}
		return nil
	})
	return imported, err
}

// pureImports follows the imports of the packages that decide through this module: none may reach a client, a cloud or a process.
func pureImports(tree fs.FS) ([]string, error) {
	imported, err := imports(tree)
	if err != nil {
		return nil, err
	}
	var broken []string
	for _, pure := range []string{"internal/check", "internal/plan", "internal/plan/diff", "internal/controllernames", "internal/migrationconfig",
		"internal/fleet/rules", "internal/fleet/state", "internal/fleet/view"} {
		seen := map[string]bool{}
		var follow func(dir, trail string)
		follow = func(dir, trail string) {
			if seen[dir] {
				return
			}
			seen[dir] = true
			for _, what := range imported[dir] {
				if what == "net/http" || what == "os/exec" || within(what, "k8s.io/client-go") || within(what, "github.com/aws") {
					broken = append(broken, fmt.Sprintf("%s imports %s", trail, what))
				}
				if within(what, modulePath) {
					next := strings.TrimPrefix(strings.TrimPrefix(what, modulePath), "/")
					follow(next, trail+" -> "+next)
				}
			}
		}
		follow(pure, pure)
	}
	slices.Sort(broken)
	return slices.Compact(broken), nil
}

func productImports(tree fs.FS) ([]string, error) {
	imported, err := imports(tree)
	if err != nil {
		return nil, err
	}
	var broken []string
	for dir, list := range imported {
		for _, what := range list {
			if within(what, modulePath+"/lab") && dir != "lab" && !strings.HasPrefix(dir, "lab/") {
				broken = append(broken, fmt.Sprintf("%s imports %s", dir, what))
			}
		}
	}
	slices.Sort(broken)
	return broken, nil
}

// within reports whether an import path is tree or below it.
func within(importPath, tree string) bool {
	return importPath == tree || strings.HasPrefix(importPath, tree+"/")
}
