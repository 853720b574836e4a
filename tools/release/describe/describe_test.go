package describe

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

var header = Header{Section: "1", Version: "v1.2.3", Date: time.Date(2026, 11, 27, 1, 2, 3, 0, time.UTC)}

func toy() (*cobra.Command, error) {
	root := &cobra.Command{Use: "toy", Short: "Play", Long: "Toy plays\nwith a_b_c and *.\n\nExit codes:\n  0  done\n  1  error", Version: "v1.2.3"}
	root.PersistentFlags().String("cloud", "a_b", "the program of <cloud>: `NAME` or [none]\nsecond | line")
	root.PersistentFlags().StringSlice("loops", []string{"*"}, "loops")
	root.AddCommand(
		&cobra.Command{Use: "ball [SIZE]", Short: "Play with a ball", Example: "  toy ball 5", Run: func(*cobra.Command, []string) {}},
		&cobra.Command{Use: "secret", Hidden: true, Run: func(*cobra.Command, []string) {}},
	)
	return root, nil
}

func TestWhatIsSaidAboutACommand(t *testing.T) {
	dir := t.TempDir()
	if err := Run(Arguments(dir, header), toy); err != nil {
		t.Fatal(err)
	}
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"completions/_toy", "completions/toy.bash", "completions/toy.fish", "man/man1/toy-ball.1", "man/man1/toy-completion-bash.1",
		"man/man1/toy-completion-fish.1", "man/man1/toy-completion-powershell.1", "man/man1/toy-completion-zsh.1", "man/man1/toy-completion.1", "man/man1/toy.1",
	}
	if !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
	for file, parts := range map[string][]string{
		"completions/_toy":     {"#compdef toy"},
		"completions/toy.bash": {"complete -o default -F __start_toy toy"},
		"completions/toy.fish": {"complete -c toy"},
		"man/man1/toy.1": {
			`.TH "TOY" "1" "Nov 2026" "Transplant v1.2.3" "Transplant"`, "a_b_c and *", "  0  done\n", "of <cloud>: `NAME` or [none]", "\tsecond | line", `="a_b"`,
			`=[*]`, `toy-ball(1)`,
		},
		"man/man1/toy-ball.1": {"toy ball 5", "Play with a ball", `\fBtoy(1)\fP`, "of <cloud>"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s does not say %q:\n%s", file, part, text)
			}
		}
		if strings.Contains(string(text), "secret") || strings.Contains(string(text), "Auto generated") {
			t.Errorf("%s names a hidden command, or what made it:\n%s", file, text)
		}
	}
}

func TestACommandThatCannotBeDescribed(t *testing.T) {
	dir := t.TempDir()
	no := func() (*cobra.Command, error) { return nil, errors.New("no cloud") }
	for _, c := range []struct {
		arguments []string
		command   func() (*cobra.Command, error)
		want      string
	}{
		{Arguments(dir, header), no, "no cloud"},
		{[]string{"check"}, toy, "only describes its command"},
		{[]string{dir, "1", "v1", "today"}, toy, "the date of manual pages"},
		{Arguments(filepath.Join(dir, "none", "\x00"), header), toy, "invalid argument"},
	} {
		if err := Run(c.arguments, c.command); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.arguments, err, c.want)
		}
	}
}
