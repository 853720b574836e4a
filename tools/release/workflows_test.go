package release

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
)

// pinned is an action by its commit: a tag can be moved to other code.
var pinned = regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`)

// lintWorkflow returns what is wrong with a workflow: for GitHub, by actionlint, and by the rules of this repository.
func lintWorkflow(t *testing.T, name string, content []byte) []string {
	t.Helper()
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{Color: actionlint.ColorOptionKindNever})
	if err != nil {
		t.Fatal(err)
	}
	found, err := linter.Lint(name, content, nil)
	if err != nil {
		t.Fatal(err)
	}
	var broken []string
	for _, e := range found {
		broken = append(broken, fmt.Sprintf("line %d: %s", e.Line, e.Message))
	}
	w, _ := actionlint.Parse(content)
	if w == nil {
		return append(broken, "it is no workflow")
	}
	if w.Permissions == nil {
		broken = append(broken, "it has no permissions of its own")
	} else {
		broken = append(broken, writes("the workflow", w.Permissions)...)
	}
	for id, job := range w.Jobs {
		if job.TimeoutMinutes == nil {
			broken = append(broken, "job "+id+" has no timeout-minutes")
		}
		uses, runs := lintSteps(job, &broken)
		if job.Permissions != nil {
			if written := writes("job "+id, job.Permissions); len(written) > 0 && (runs || slices.Contains(uses, "actions/checkout")) {
				broken = append(broken, written...)
			}
		}
	}
	slices.Sort(broken)
	return broken
}

// lintSteps returns which actions a job uses, and whether it runs something of the repository.
func lintSteps(job *actionlint.Job, broken *[]string) (uses []string, runs bool) {
	for _, step := range job.Steps {
		switch e := step.Exec.(type) {
		case *actionlint.ExecAction:
			name, _, _ := strings.Cut(e.Uses.Value, "@")
			uses = append(uses, name)
			if !pinned.MatchString(e.Uses.Value) {
				*broken = append(*broken, e.Uses.Value+" is not pinned by a commit")
			}
			if kept := e.Inputs["persist-credentials"]; name == "actions/checkout" && (kept == nil || kept.Value.Value != "false") {
				*broken = append(*broken, "a checkout keeps its credentials")
			}
		case *actionlint.ExecRun:
			if strings.Contains(e.Run.Value, "${{") {
				*broken = append(*broken, "a script has an expression in it, whose value the shell would run: give it in env")
			}
			runs = runs || regexp.MustCompile(`\b(make|go)\b`).MatchString(e.Run.Value)
		}
	}
	return uses, runs
}

// writes are the permissions that allow a job to change something.
func writes(of string, p *actionlint.Permissions) []string {
	var out []string
	if p.All != nil && p.All.Value != "read-all" {
		out = append(out, of+" may "+p.All.Value)
	}
	for name, scope := range p.Scopes {
		if scope.Value.Value == "write" {
			out = append(out, of+" may write "+name)
		}
	}
	return out
}

func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(file))
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lintWorkflow(t, file, content) {
			t.Errorf("%s: %s", file, line)
		}
		for _, run := range map[string][]string{
			"ci.yaml": {"run: make test SHUFFLE=on\n", "run: make lint\n"}, "release.yaml": {"    tags: ['v*']\n", "images release VERSION=\"$VERSION\"", "diff --recursive"},
		}[filepath.Base(file)] {
			if !strings.Contains(string(content), run) {
				t.Errorf("%s does not say %q", file, run)
			}
		}
	}
	if want := []string{"ci.yaml", "release.yaml"}; !slices.Equal(names, want) {
		t.Errorf("workflows %v, want %v", names, want)
	}
}

func TestAWorkflowThatIsRefused(t *testing.T) {
	const head = "on: push\npermissions: {contents: read}\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    timeout-minutes: 5\n"
	for name, c := range map[string]struct{ content, says string }{
		"no YAML":                      {"on: [", "could not parse as YAML"},
		"an unknown key":               {head + "    step: []\n    steps:\n    - run: make lint\n", `unexpected key "step"`},
		"an unknown runner":            {strings.Replace(head, "ubuntu-24.04", "ubuntu-1", 1) + "    steps:\n    - run: make lint\n", `label "ubuntu-1" is unknown`},
		"no such context":              {head + "    steps:\n    - run: make lint\n      env: {A: \"${{ github.reff }}\"}\n", `property "reff" is not defined`},
		"no permissions":               {strings.Replace(head, "permissions: {contents: read}\n", "", 1) + "    steps:\n    - run: make lint\n", "no permissions of its own"},
		"all permissions":              {strings.Replace(head, "{contents: read}", "write-all", 1) + "    steps:\n    - run: make lint\n", "may write-all"},
		"a job that builds and writes": {head + "    permissions: {contents: write}\n    steps:\n    - run: make lint\n", "job a may write contents"},
		"no time limit":                {strings.Replace(head, "    timeout-minutes: 5\n", "", 1) + "    steps:\n    - run: make lint\n", "job a has no timeout-minutes"},
		"an action by its tag":         {head + "    steps:\n    - uses: actions/setup-go@v6\n", "actions/setup-go@v6 is not pinned"},
		"a checkout with credentials":  {head + "    steps:\n    - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1\n", "keeps its credentials"},
		"an expression in a script":    {head + "    steps:\n    - run: echo ${{ github.ref_name }}\n", "give it in env"},
	} {
		if broken := lintWorkflow(t, name, []byte(c.content)); !strings.Contains(strings.Join(broken, "\n"), c.says) {
			t.Errorf("%s: %q does not say %q", name, broken, c.says)
		}
	}
}
