package check

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/check/hosted"
	"github.com/transplant-dev/transplant/internal/check/rule"
)

// pages has a Markdown file for each check. It has a heading with code and reason, a line that says when the check
// passes, and an explanation of any length.
//
//go:embed explain/*.md
var pages embed.FS

// page is what a check's file says. All of it is empty when there is no such file.
type page struct{ heading, title, text string }

func pageOf(c rule.Check) page {
	content, err := pages.ReadFile("explain/" + c.Code + ".md")
	if err != nil {
		return page{}
	}
	heading, rest, _ := strings.Cut(string(content), "\n\nPasses when ")
	title, text, _ := strings.Cut(rest, ".\n\n")
	return page{strings.TrimPrefix(heading, "# "), title, text}
}

// Title says in one clause what holds when a check passes.
func Title(c rule.Check) string { return pageOf(c).title }

// Explain returns what there is to know about a check, as text; false when no check has the code. The case of the code
// does not matter.
func Explain(code string) (string, bool) {
	c, ok := Find(strings.TrimSpace(code))
	if !ok {
		return "", false
	}
	p := pageOf(c)
	return fmt.Sprintf("%s\n\nPasses when %s.\n\n%s\n\n%s", p.heading, p.title, c.About(), p.text+c.Advice()), true
}

// Markdown is the reference page of all checks, docs/reference/checks.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Checks

What ` + "`transplant check`" + ` looks at before a migration. This page is made from the checks' own text; ` + "`transplant explain CODE`" + ` prints the same, offline.

A check passes, warns, fails, is skipped with a reason, or is unknown with an error. Failed and unknown checks block ` + "`apply`" + ` alike; those that are not
mandatory can be accepted with ` + "`--accept CODE=\"reason\"`" + `. A code is never reused.

| code | reason | level | impact | passes when |
|---|---|---|---|---|
`)
	all := slices.Concat(Checks, hosted.Checks)
	for _, c := range all {
		anchor := strings.ToLower(c.Code)
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s | %s |\n", c.Code, anchor, c.Reason, c.Level, c.Impact, Title(c))
	}
	category := ""
	for _, c := range all {
		if c.Category != category {
			category = c.Category
			fmt.Fprintf(&b, "\n## %s\n", strings.ToUpper(category[:1])+category[1:])
		}
		p := pageOf(c)
		fmt.Fprintf(&b, "\n### %s\n\n**%s**: %s.\n\n%s\n\n%s", c.Code, c.Reason, p.title, c.About(), p.text+c.Advice())
	}
	return b.String()
}
