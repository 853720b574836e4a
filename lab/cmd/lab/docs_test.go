package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Commands of this program in the documentation, and what its pages give to make hosts-up.
var (
	documented = regexp.MustCompile("(?m)(?:^\\s*(?:cd lab && )?|`)(?:bin/lab|go run \\./cmd/lab) ([^#`\\n]*)")
	hostsArgs  = regexp.MustCompile(`[ (]HOSTS_ARGS='([^']*)'`)
)

// The tests of the product cannot know this program: those of its commands that pages name are tried here.
func TestTheCommandsOfTheDocumentationAreKnown(t *testing.T) {
	lines := map[string]string{} // the page of each
	for _, root := range []string{"docs", "README.md", "CONTRIBUTING.md"} {
		err := filepath.WalkDir(filepath.Join("../../..", root), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(name) != ".md" {
				return err
			}
			page, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			for _, m := range documented.FindAllStringSubmatch(string(page), -1) {
				lines[m[1]] = name
			}
			for _, m := range hostsArgs.FindAllStringSubmatch(string(page), -1) {
				lines["hosts up "+m[1]] = name
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(lines) < 6 {
		t.Errorf("%d commands were found: %v", len(lines), lines)
	}
	for line, page := range lines {
		if err := parses(line); err != nil {
			t.Errorf("%s: lab %s: %v", page, line, err)
		}
	}
	for _, line := range []string{"hosts jump cp-1", "hosts up --worker 1", "hosts reboot", "seed up now"} {
		if parses(line) == nil {
			t.Errorf("lab %s is taken", line)
		}
	}
}

func parses(line string) error {
	cmd, args, err := command().Find(strings.Fields(line))
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(args); err != nil {
		return err
	}
	if !cmd.Runnable() {
		return errors.New("it is no command, but the name of several")
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
