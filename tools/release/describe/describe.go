// Package describe decides what a release says about the command of a program: completions for shells, and manual
// pages. It is compiled into the program, with an overlay of the go command, and runs in place of the program.
package describe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// Header is what every manual page begins with.
type Header struct {
	// Section of the manual: 1 for commands of users, 8 for daemons.
	Section string
	Version string
	// Date is the time of the commit: the same commit gives the same pages.
	Date time.Time
}

// Arguments are the header and a directory as arguments of a process, which Run reads.
func Arguments(dir string, h Header) []string {
	return []string{dir, h.Section, h.Version, strconv.FormatInt(h.Date.Unix(), 10)}
}

// Run writes the files about a command as its arguments say.
func Run(arguments []string, command func() (*cobra.Command, error)) error {
	if len(arguments) != 4 {
		return fmt.Errorf("%d arguments: this build of the program only describes its command", len(arguments))
	}
	unix, err := strconv.ParseInt(arguments[3], 10, 64)
	if err != nil {
		return fmt.Errorf("the date of manual pages: %w", err)
	}
	return Write(arguments[0], Header{arguments[1], arguments[2], time.Unix(unix, 0).UTC()}, command)
}

// Write writes completions/ and man/ of a command into a directory.
func Write(dir string, h Header, command func() (*cobra.Command, error)) error {
	root, err := command()
	if err != nil {
		return err
	}
	completions, pages := filepath.Join(dir, "completions"), filepath.Join(dir, "man", "man"+h.Section)
	for _, made := range []string{completions, pages} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			return err
		}
	}
	err = errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(completions, root.Name()+".bash"), true),
		root.GenZshCompletionFile(filepath.Join(completions, "_"+root.Name())),
		root.GenFishCompletionFile(filepath.Join(completions, root.Name()+".fish"), true),
	)
	if err != nil {
		return err
	}
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true
	asMarkdown(root, map[*pflag.Flag]bool{})
	return doc.GenManTree(root, &doc.GenManHeader{
		Section: h.Section, Date: &h.Date, Source: "Transplant " + h.Version, Manual: "Transplant",
	}, pages)
}

// asMarkdown changes texts of a command and its sub-commands into Markdown, for which cobra takes them. Without that,
// <cloud> would be taken for HTML and left out.
func asMarkdown(c *cobra.Command, done map[*pflag.Flag]bool) {
	c.InitDefaultHelpFlag()
	c.Short, c.Long = escape(c.Short), passages(c.Long)
	for _, set := range []*pflag.FlagSet{c.NonInheritedFlags(), c.InheritedFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if done[f] {
				return
			}
			done[f] = true
			f.Usage = strings.ReplaceAll(escape(f.Usage), "\n", "\n\t")
			if f.Value.Type() != "string" { // a string is quoted by the page
				f.DefValue = escape(f.DefValue)
			}
		})
	}
	for _, sub := range c.Commands() {
		asMarkdown(sub, done)
	}
}

var markup = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "<", `\<`, ">", `\>`,
	"[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`, "&", `\&`,
)

func escape(text string) string { return markup.Replace(text) }

// passages is a long text as Markdown. Indented lines, such as tables, keep their layout.
func passages(text string) string {
	var out strings.Builder
	indented := false
	for line := range strings.Lines(text) {
		is := strings.TrimLeft(line, " \t") != line && strings.TrimSpace(line) != ""
		if is != indented && strings.TrimSpace(line) != "" {
			out.WriteByte('\n')
			indented = is
		}
		if is {
			out.WriteString("    " + line)
		} else {
			out.WriteString(escape(line))
		}
	}
	return out.String()
}
