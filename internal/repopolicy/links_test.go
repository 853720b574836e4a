package repopolicy

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// docsIndex names every page of the documentation.
const docsIndex = "docs/README.md"

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	linkedText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	heading      = regexp.MustCompile(`^#+ +(.*)$`)
	anchorTag    = regexp.MustCompile(`<a (?:id|name)="([^"]+)">`)
)

// pages are the Markdown files that people read, without what stands in fences.
func pages(tree fs.FS) (map[string][]string, error) {
	out := map[string][]string{}
	err := files(tree, func(name string, content []byte) error {
		if path.Ext(name) != ".md" || strings.Contains(name, "testdata/") {
			return nil
		}
		lines := strings.Split(string(content), "\n")
		fenced := false
		for i, line := range lines {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced, lines[i] = !fenced, ""
			} else if fenced {
				lines[i] = ""
			}
		}
		out[name] = lines
		return nil
	})
	return out, err
}

// slug is the anchor that a heading has on a page, as GitHub makes it.
func slug(heading string) string {
	text := linkedText.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

func anchors(lines []string) []string {
	var out []string
	for _, line := range lines {
		if m := heading.FindStringSubmatch(line); m != nil {
			out = append(out, slug(m[1]))
		}
		for _, m := range anchorTag.FindAllStringSubmatch(line, -1) {
			out = append(out, m[1])
		}
	}
	return out
}

// deadLinks reports links between pages that lead nowhere. Those to other sites are not followed.
func deadLinks(tree fs.FS) ([]string, error) {
	all, err := pages(tree)
	if err != nil {
		return nil, err
	}
	known := map[string][]string{} // anchors by page
	for name, lines := range all {
		known[name] = anchors(lines)
	}
	var broken []string
	for name, lines := range all {
		for i, line := range lines {
			for _, m := range markdownLink.FindAllStringSubmatch(line, -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				to, anchor, _ := strings.Cut(m[1], "#")
				target := name
				if to != "" {
					target = path.Join(path.Dir(name), to)
				}
				if _, err := fs.Stat(tree, target); err != nil {
					broken = append(broken, fmt.Sprintf("%s:%d links to %s, which is not there", name, i+1, target))
				} else if anchor != "" && path.Ext(target) == ".md" && !slices.Contains(known[target], anchor) {
					broken = append(broken, fmt.Sprintf("%s:%d links to #%s, which %s does not have", name, i+1, anchor, target))
				}
			}
		}
	}
	slices.Sort(broken)
	return broken, nil
}

// unlistedPages reports pages of the documentation that its index does not lead to.
func unlistedPages(tree fs.FS) ([]string, error) {
	all, err := pages(tree)
	if err != nil {
		return nil, err
	}
	var broken []string
	index := strings.Join(all[docsIndex], "\n")
	for name := range all {
		if strings.HasPrefix(name, "docs/") && name != docsIndex && !strings.Contains(index, "]("+strings.TrimPrefix(name, "docs/")+")") {
			broken = append(broken, name+" is not in "+docsIndex)
		}
	}
	slices.Sort(broken)
	return broken, nil
}
