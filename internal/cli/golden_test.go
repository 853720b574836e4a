package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/help"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/wholefile"
)

// credentials are the options with which the lab's plan is made.
var credentials = []string{"--ccm-env", "AWS_SHARED_CREDENTIALS_FILE=/etc/kubernetes/cloud-controller-manager.credentials"}

func TestHelp(t *testing.T) {
	golden(t, "help", transplant(t, "--help"), nil)
	for _, cmd := range newRoot(console.Streams{}, "transplant").Commands() {
		golden(t, "help-"+cmd.Name(), transplant(t, cmd.Name(), "--help"), nil)
	}
}

func TestHelpOfThePlugin(t *testing.T) {
	if have := calledAs("/usr/local/bin/kubectl-transplant"); have != "kubectl transplant" {
		t.Errorf("called as %q", have)
	}
	var out bytes.Buffer
	root := newRoot(console.Streams{Out: &out, Err: &out}, "kubectl transplant")
	root.SetArgs([]string{"plan", "--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"kubectl transplant plan [flags]", "  kubectl transplant plan --out plan.yaml"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the help does not say %q:\n%s", part, out.String())
		}
	}
}

// Where only kubectl-transplant is installed, advice that begins with "transplant" could not be typed.
func TestThePluginSaysWhatCanBeTyped(t *testing.T) {
	c := console.New(console.Streams{})
	root := rootOf(c, pluginName)
	for _, text := range []struct{ has, want string }{
		{"next: transplant status --watch, or transplant pause", "next: kubectl transplant status --watch, or kubectl transplant pause"},
		{"there is no check \"X\": transplant check --list names them", "there is no check \"X\": kubectl transplant check --list names them"},
		{"next: kubectl transplant apply plan.yaml", "next: kubectl transplant apply plan.yaml"},
		{"transplant changes nothing; see transplant.dev/plan", "transplant changes nothing; see transplant.dev/plan"},
		{"next to transplant, then in PATH: transplant-operator check", "next to transplant, then in PATH: transplant-operator check"},
	} {
		if have := c.AsCalled(text.has); have != text.want {
			t.Errorf("%q is said as %q", text.has, have)
		}
	}
	var out bytes.Buffer
	c.Out, c.Err = &out, &out
	root.SetArgs([]string{"check", "--from-snapshot", labSnapshot})
	_ = root.Execute() // what it finds is not asked here
	if text := strings.ReplaceAll(out.String(), pluginName, ""); !strings.Contains(out.String(), pluginName+" explain ") ||
		strings.Contains(text, programName+" explain") {
		t.Errorf("a check advises what cannot be typed:\n%s", out.String())
	}
	out.Reset()
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs([]string{"completion", "bash"})
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), `unknown command "completion" for "kubectl transplant"`) {
		t.Errorf("a completion of the wrong program: %v, %.80s", err, out.String())
	}
	root.SetArgs([]string{cobra.ShellCompRequestCmd, "chec"}) // what kubectl_complete-transplant asks
	if err := root.Execute(); err != nil || !strings.HasPrefix(out.String(), "check\t") {
		t.Errorf("completing chec: %v\n%s", err, out.String())
	}
}

func TestCheckOutputs(t *testing.T) {
	args := append([]string{"check", "--from-snapshot", labSnapshot}, credentials...)
	golden(t, "check", transplant(t, args...), nil)
	golden(t, "check-ascii", transplant(t, append(args, "--ascii")...), nil)
	golden(t, "check-verbose", transplant(t, append(args, "-v", "-q")...), nil)
	for _, format := range []string{"wide", "json", "yaml"} {
		golden(t, "check-"+format, transplant(t, append(args, "-o", format)...), nil)
	}
	golden(t, "check-list", transplant(t, "check", "--list"), nil)
	golden(t, "check-list-wide", transplant(t, "check", "--list", "-o", "wide"), nil)
	golden(t, "check-list-json", transplant(t, "check", "--list", "-o", "json"), nil)
}

func TestCheckFindings(t *testing.T) {
	failing := changed(t, func(s *v1.Snapshot) {
		s.Nodes[3].ProviderID = ""
		s.Hosts[0].Components[1].Flags["leader-elect"] = "false"
	})
	v := volatile{failing: "snapshot.yaml"}
	golden(t, "check-failing", transplant(t, "check", "--from-snapshot", failing), v)
	golden(t, "check-accepted", transplant(t, "check", "--from-snapshot", failing, "--accept", "NODE-001=the node is about to be removed"), v)
	unknown := changed(t, func(s *v1.Snapshot) {
		s.Nodes, s.Cloud = nil, nil
		s.Errors = []v1.GatherError{
			{Fact: "cloud", Error: "403 from https://ec2.amazonaws.com: role reader lacks ec2:DescribeInstances"},
			{Fact: "nodes", Error: `listing nodes: forbidden: User "ops" cannot list resource "nodes" in API group "" at the cluster scope`},
		}
	})
	golden(t, "check-unknown", transplant(t, "check", "--from-snapshot", unknown), volatile{unknown: "snapshot.yaml"})
	if r := transplant(t, "check", "--from-snapshot", labSnapshot, "--strict", "-q"); r.code != exitcode.Blocked || r.errOut != "" {
		t.Errorf("warnings with --strict: exit %d, %q", r.code, r.errOut)
	}
}

// TestDocumentsAreTheSameWithVerbose: who reads JSON gets everything, whatever is asked for.
func TestDocumentsAreTheSameWithVerbose(t *testing.T) {
	for _, command := range []string{"check", "plan"} {
		for _, format := range []string{"json", "yaml"} {
			args := []string{command, "--from-snapshot", labSnapshot, "-o", format}
			if plain, verbose := transplant(t, args...), transplant(t, append(args, "-v")...); plain.out != verbose.out || plain.code != verbose.code {
				t.Errorf("%v is another document with -v", args)
			}
		}
	}
}

func TestPlanOutputs(t *testing.T) {
	args := append([]string{"plan", "--from-snapshot", labSnapshot}, credentials...)
	golden(t, "plan", transplant(t, args...), nil)
	golden(t, "plan-ascii", transplant(t, append(args, "--ascii", "-q")...), nil)
	golden(t, "plan-verbose", transplant(t, append(args, "-v", "-q")...), nil)
	for _, format := range []string{"wide", "markdown", "json"} {
		golden(t, "plan-"+format, transplant(t, append(args, "-o", format)...), nil)
	}
	if r := transplant(t, append(args, "--detailed-exitcode")...); r.code != exitcode.Pending || strings.Contains(r.errOut, "error") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
	blocked := changed(t, func(s *v1.Snapshot) { s.Nodes[3].ProviderID = "" })
	golden(t, "plan-blocked", transplant(t, append([]string{"plan", "--from-snapshot", blocked}, credentials...)...), volatile{blocked: "snapshot.yaml"})
	fails(t, transplant(t, "plan", "--from-snapshot", blocked, "-o", "json"), exitcode.Blocked, "this plan is blocked by 1 finding: see transplant check")
	half := changed(t, func(s *v1.Snapshot) { s.Hosts[0].Components[1].Flags["cloud-provider"] = "external" })
	golden(t, "plan-impossible", transplant(t, "plan", "--from-snapshot", half), volatile{half: "snapshot.yaml"})
}

func TestAPlanFileHoldsThePlanThatIsPrinted(t *testing.T) {
	out := filepath.Join(t.TempDir(), "plan.yaml")
	args := append([]string{"plan", "--from-snapshot", labSnapshot, "--out", out}, credentials...)
	printed := transplant(t, append(args, "-o", "yaml")...)
	if printed.code != exitcode.OK || !strings.Contains(printed.errOut, "next: transplant apply "+out) {
		t.Fatalf("exit %d: %s", printed.code, printed.errOut)
	}
	saved, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if string(saved) != string(wholefile.Mark("plan", []byte(printed.out))) {
		t.Error("the saved plan is not the printed one")
	}
	lines := bytes.SplitAfter(saved, []byte("\n"))
	for _, n := range []int{len(lines) / 2, len(lines) - 2} { // the last one is empty
		cut := filepath.Join(t.TempDir(), "cut.yaml")
		if err := os.WriteFile(cut, bytes.Join(lines[:n], nil), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := client.ReadPlan(cut); err == nil || !strings.Contains(err.Error(), "plan "+cut+": its end is missing, it was cut off") {
			t.Errorf("cut behind line %d of %d: %v", n, len(lines), err)
		}
	}
	if _, err := client.ReadPlan(out); err != nil {
		t.Error(err)
	}
	files, err := os.ReadDir(filepath.Dir(out))
	if err != nil || len(files) != 1 {
		t.Errorf("more than the plan was written: %v, %v", files, err)
	}
}

// TestTheDocumentationShowsWhatIsPrinted holds the samples of the documentation to the program: each line of theirs is printed, in this order.
func TestTheDocumentationShowsWhatIsPrinted(t *testing.T) {
	page, err := os.ReadFile("../../docs/explanation/check-and-plan.md")
	if err != nil {
		t.Fatal(err)
	}
	samples := 0
	for i, block := range strings.Split(string(page), "```\n") {
		command, sample, shown := strings.Cut(block, "\n")
		if i%2 == 0 || !shown || !strings.HasPrefix(command, "$ transplant ") {
			continue
		}
		samples++
		args := append(strings.Fields(strings.TrimPrefix(command, "$ transplant ")), "--from-snapshot", labSnapshot)
		rest := transplant(t, append(args, credentials...)...).out
		for line := range strings.Lines(sample) {
			if line == "...\n" {
				continue
			}
			_, after, is := strings.Cut(rest, line)
			if !is {
				t.Fatalf("%s does not print, behind the lines before it: %s", command, line)
			}
			rest = after
		}
	}
	if samples < 2 {
		t.Errorf("only %d samples were found", samples)
	}
}

func TestExplainOutputs(t *testing.T) {
	golden(t, "explain", transplant(t, "explain", "lm-001"), nil)
	golden(t, "explain-unknown", transplant(t, "explain", "LM-999"), nil)
}

func TestVersionOutputs(t *testing.T) {
	golden(t, "version", transplant(t, "version"), nil)
	var v map[string]string
	if err := json.Unmarshal([]byte(transplant(t, "version", "-o", "json").out), &v); err != nil {
		t.Fatal(err)
	}
	if v["kind"] != "Version" || v["apiVersion"] != v1.GroupVersion || v["version"] != client.Version || v["go"] == "" || v["platform"] == "" {
		t.Errorf("version %v", v)
	}
}

func TestEveryDocumentNamesItsKind(t *testing.T) {
	for kind, args := range map[string][]string{
		v1.KindCheckReport: {
			"check", "--from-snapshot", labSnapshot,
		}, v1.KindCheckList: {"check", "--list"}, v1.KindPlan: {"plan", "--from-snapshot", labSnapshot}, v1.KindVersion: {"version"},
	} {
		var meta v1.TypeMeta
		r := transplant(t, append(args, "-o", "json")...)
		if err := json.Unmarshal([]byte(r.out), &meta); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		if meta != v1.Type(kind) {
			t.Errorf("%v: %+v", args, meta)
		}
	}
}

func TestNarrowTerminals(t *testing.T) {
	snap, err := client.ReadSnapshot(labSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	r := transplant(t, "plan", "--from-snapshot", labSnapshot, "-o", "yaml")
	plan, err := client.ReadPlan(file(t, "plan.yaml", r.out))
	if err != nil {
		t.Fatal(err)
	}
	for width, want := range map[int]int{10: printer.MinWidth, 60: 60, 100: 100} {
		var out bytes.Buffer
		if err := printer.PrintPlan(&out, plan, printer.Layout{Width: width}); err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(out.String(), "plan sha256")
		wrapped := 0
		for line := range strings.Lines(text) {
			words := strings.Fields(line)
			long := slices.ContainsFunc(words, func(word string) bool { return len(word) > want-12 }) // no word is broken
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > want && !long {
				t.Errorf("width %d: a line of %d: %s", width, n, line)
			}
			if strings.HasPrefix(strings.TrimLeft(line, " "), "| ") {
				wrapped++
			}
		}
		if wrapped == 0 {
			t.Errorf("width %d: nothing is wrapped", width)
		}
		for _, s := range plan.Steps {
			for _, c := range s.Changes { // a flag's value is whole, in however many lines
				if value := strings.Fields(c.After); strings.HasPrefix(c.Field, "--") && len(value) == 1 && !strings.Contains(text, value[0]) {
					t.Errorf("width %d: %s of %s is cut: %s", width, c.Field, s.ID, c.After)
				}
			}
		}
	}
	if (printer.Layout{Width: 40, Ascii: true}).Cut(strings.Repeat("x", 50)) != strings.Repeat("x", 37)+"..." || snap.Kind != v1.KindSnapshot {
		t.Error("a cut in ASCII")
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := transplant(t, "completion", shell); r.code != exitcode.OK || !strings.Contains(r.out, "transplant") {
			t.Errorf("%s: exit %d", shell, r.code)
		}
	}
	if r := transplant(t, "completion", "zhs"); r.code != exitcode.Error || !strings.Contains(r.errOut, "did you mean zsh?") || r.out != "" {
		t.Errorf("a shell that there is no script for: exit %d\n%s%s", r.code, r.out, r.errOut)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"explain", "LM-00"}, "LM-001\t"}, {[]string{"check", "-o", ""}, "wide\n"}, {[]string{"report", "-o", ""}, "html\n"}, {[]string{"ro"}, "rollback\t"},
	} {
		if r := transplant(t, append([]string{"__complete"}, c.args...)...); !strings.Contains(r.out, c.want) {
			t.Errorf("completing %v gives %q", c.args, r.out)
		}
	}
}

// TestEveryFixIsACommandOfOurs: a fix that is not understood when it is pasted is worse than none.
func TestEveryFixIsACommandOfOurs(t *testing.T) {
	seen := 0
	for _, change := range []func(*v1.Snapshot){
		func(*v1.Snapshot) {},
		func(s *v1.Snapshot) { *s = v1.Snapshot{TypeMeta: s.TypeMeta, TakenAt: s.TakenAt} },
		func(s *v1.Snapshot) { s.Nodes[0].ProviderID, s.Nodes[1].Ready = "", "False" },
		func(s *v1.Snapshot) {
			for i := range s.Access {
				s.Access[i].Allowed = false
			}
		},
		func(s *v1.Snapshot) { s.Hosts = s.Hosts[:1] },
	} {
		var report v1.CheckReport
		r := transplant(t, "check", "--from-snapshot", changed(t, change), "-o", "json")
		if err := json.Unmarshal([]byte(r.out), &report); err != nil {
			t.Fatal(err)
		}
		for _, f := range report.Findings {
			for line := range strings.Lines(f.Fix) {
				words := strings.Fields(line)
				if len(words) == 0 || words[0] != "transplant" {
					continue
				}
				seen++
				cmd, rest, err := newRoot(console.Streams{}, "transplant").Find(words[1:])
				if err == nil {
					err = cmd.ParseFlags(rest)
				}
				if err != nil {
					t.Errorf("%s: %q: %v", f.Code, line, err)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no fix was tried")
	}
}

const reference = "../../docs/reference/cli.md"

func TestTheReferencePageIsWhatTheCommandsSay(t *testing.T) {
	want := referencePage(newRoot(console.Streams{}, "transplant"))
	if *update {
		if err := os.WriteFile(reference, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s is old; run go test ./internal/cli -update", reference)
	}
}

// referencePage is the reference of all commands in Markdown.
func referencePage(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Commands\n\nGenerated from the program; do not edit. %s\n\n```\n%s\n```\n\n%s\n\nFlags of every command:\n\n%s\n```\n%s\n```\n",
		root.Short+".", root.Example, root.Long, flagTable(root.PersistentFlags()), exitCodes)
	for _, g := range root.Groups() {
		for _, cmd := range root.Commands() {
			if cmd.GroupID != g.ID {
				continue
			}
			b.WriteString(referenceOf(cmd))
			for _, sub := range cmd.Commands() {
				b.WriteString(referenceOf(sub))
			}
		}
	}
	return b.String()
}

// referenceOf is the reference of one command.
func referenceOf(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n%s.", strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.Short)
	if cmd.Long != "" {
		fmt.Fprintf(&b, "\n\n%s", cmd.Long)
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\n\n```\n%s\n```", cmd.Example)
	}
	if rights := help.Rights(cmd); rights != "" {
		fmt.Fprintf(&b, "\n\n%s", rights)
	}
	b.WriteString(flagTables(cmd) + "\n")
	return b.String()
}

// flagTables are the flags of a command, those of every command left out, under the headings that its help has.
func flagTables(cmd *cobra.Command) string {
	own := cmd.LocalNonPersistentFlags()
	groups := help.Groups(cmd)
	if len(groups) == 0 {
		groups = []help.Group{{Flags: own}}
	}
	out := ""
	for _, g := range groups {
		flags := pflag.NewFlagSet(g.Title, pflag.ContinueOnError)
		g.Flags.VisitAll(func(f *pflag.Flag) {
			if own.Lookup(f.Name) != nil {
				flags.AddFlag(f)
			}
		})
		table := strings.TrimSuffix(flagTable(flags), "\n")
		switch {
		case table == "":
		case g.Title == "":
			out += "\n\n" + table
		default:
			out += "\n\n" + g.Title + ":\n\n" + table
		}
	}
	return out
}

func flagTable(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
			value = "`" + f.DefValue + "`"
		}
		if b.Len() == 0 {
			b.WriteString("| flag | default | |\n|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, value, strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(f.Usage))
	})
	return b.String()
}
