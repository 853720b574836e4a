package check

import (
	"fmt"
	"strings"
)

// Explain returns what there is to know about a check, as text; false when no check has the code. The case of the code
// does not matter.
func Explain(code string) (string, bool) {
	c, ok := find(strings.TrimSpace(code))
	if !ok {
		return "", false
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n\nPasses when %s.\n\n", c.Code, c.Reason, c.Title)
	fmt.Fprintf(&b, "%s\n", c.About())
	for _, paragraph := range c.Explain {
		fmt.Fprintf(&b, "\n%s\n", paragraph)
	}
	return b.String(), true
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
	for _, c := range Checks {
		fmt.Fprintf(
			&b,
			"| [%s](#%s) | %s | %s | %s | %s |\n",
			c.Code,
			strings.ToLower(c.Code),
			c.Reason,
			c.Level,
			c.Impact,
			c.Title,
		)
	}
	category := ""
	for _, c := range Checks {
		if c.Category != category {
			category = c.Category
			fmt.Fprintf(&b, "\n## %s\n", strings.ToUpper(category[:1])+category[1:])
		}
		fmt.Fprintf(&b, "\n### %s\n\n**%s**: %s.\n\n%s\n", c.Code, c.Reason, c.Title, c.About())
		for _, paragraph := range c.Explain {
			fmt.Fprintf(&b, "\n%s\n", paragraph)
		}
	}
	return b.String()
}
