package repopolicy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// mostMeanings is in how many packages a function may have the same name of one word. A word that many packages use means something else in each.
const mostMeanings = 3

var oneWord = regexp.MustCompile(`^[a-z][a-z0-9]*$`)

// usualMethods are the words that a method may have in any package: its type says of what, and Go's own libraries use them so. Nouns return what they name.
var usualMethods = strings.Fields(`
	add apply check close count create explain find finish forget get has insert list next observe open patch provider read release
	remove run send set start step stop update validate wait watch write
	clock file members metadata name names node nodes now page routes service text unit`)

// vagueNames reports functions and methods with a name of one word that more than three packages have.
func vagueNames(tree fs.FS) ([]string, error) {
	packages := map[string]map[string]bool{} // by name: "read" or "T.read" as a method
	err := files(tree, func(name string, content []byte) error {
		if !isProduct(name) || isTest(name) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parsing %s: %w", name, err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !oneWord.MatchString(f.Name.Name) || f.Name.Name == "main" || f.Name.Name == "init" {
				continue
			}
			kind := "function "
			if f.Recv != nil {
				kind = "method "
			}
			if f.Recv != nil && slices.Contains(usualMethods, f.Name.Name) {
				continue
			}
			key := kind + f.Name.Name
			if packages[key] == nil {
				packages[key] = map[string]bool{}
			}
			packages[key][path.Dir(name)] = true
		}
		return nil
	})
	var broken []string
	for key, in := range packages {
		if len(in) > mostMeanings {
			broken = append(broken, fmt.Sprintf("%s is in %d packages, at most %d may have it (say of what): %s", key, len(in), mostMeanings,
				strings.Join(slices.Sorted(maps.Keys(in)), ", ")))
		}
	}
	slices.Sort(broken)
	return broken, err
}

// predicate is how a function of one word may be called that returns a bool and nothing else: a verb in the third person.
var predicate = regexp.MustCompile(`^(is|has|should|can)$|[^s]s$`)

// adjectives reports functions that return a bool and whose name of one word does not say that they are asked.
func adjectives(tree fs.FS) ([]string, error) {
	var broken []string
	err := files(tree, func(name string, content []byte) error {
		if !isProduct(name) || isTest(name) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parsing %s: %w", name, err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !oneWord.MatchString(f.Name.Name) || !returnsBool(f.Type) || predicate.MatchString(f.Name.Name) {
				continue
			}
			broken = append(broken, fmt.Sprintf("%s: %s returns a bool: its name begins with is, has, should or can, or says what it does", name, f.Name.Name))
		}
		return nil
	})
	return broken, err
}

// asked is the name of a function that reports whether something holds.
var asked = regexp.MustCompile(`^(?i:is|has|should|can)[A-Z]`)

// saysWhether is how its comment says so. One that implements an interface says that.
var saysWhether = regexp.MustCompile(`\breports? whether\b|\bimplements\b`)

// reportingComments reports predicates whose comment does not say what they report.
func reportingComments(tree fs.FS) ([]string, error) {
	var broken []string
	err := files(tree, func(name string, content []byte) error {
		if !isProduct(name) || isTest(name) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parsing %s: %w", name, err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Doc == nil || !asked.MatchString(f.Name.Name) || !returnsBool(f.Type) {
				continue
			}
			if text := strings.Join(strings.Fields(f.Doc.Text()), " "); !saysWhether.MatchString(text) {
				broken = append(broken, fmt.Sprintf("%s: the comment of %s says not that it reports whether something holds", name, f.Name.Name))
			}
		}
		return nil
	})
	return broken, err
}

func returnsBool(f *ast.FuncType) bool {
	if f.Results.NumFields() != 1 {
		return false
	}
	result, ok := f.Results.List[0].Type.(*ast.Ident)
	return ok && result.Name == "bool"
}
