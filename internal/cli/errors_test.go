package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// needCluster are the commands that cannot do without a cluster.
var needCluster = []string{"check", "status", "verify", "snapshot", "plan", "apply", "rollback", "report"}

func TestClustersThatCannotBeReached(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	server := apitest.New(t)
	good := server.Kubeconfig(t)
	unreachable := file(t, "kubeconfig", strings.ReplaceAll(mustRead(t, good), server.URL, "https://"+closed.Addr().String()))
	for _, c := range []struct {
		name  string
		args  []string
		words []string
	}{
		{"an API server that is not there", []string{"--kubeconfig", unreachable}, []string{
			"reaching the API server https://127.0.0.1:", `(context "test")`, "connection refused", "name another one with --context or --kubeconfig",
		}},
		{"a kubeconfig that is not there", []string{"--kubeconfig", "/nonexistent/config"}, []string{"reading the kubeconfig", "/nonexistent/config: no such file or directory", "--kubeconfig"}},
		{"a kubeconfig that is none", []string{"--kubeconfig", file(t, "kubeconfig", "{]")}, []string{"reading the kubeconfig", "name one with --kubeconfig"}},
		{"no kubeconfig at all", nil, []string{"reading the kubeconfig", "name one with --kubeconfig"}},
		{"a context that is not there", []string{"--kubeconfig", good, "--context", "production"}, []string{`context "production" does not exist`, "--context"}},
		{"host access that is none", []string{"--kubeconfig", good, "--host-access", "ssh:cp-1"}, []string{"--host-access: "}},
		{"hosts that are not there", []string{"--kubeconfig", good, "--host-access", "local:/nonexistent"}, []string{"--host-access: ", "/nonexistent"}},
		{"a cloud that nobody knows", []string{"--kubeconfig", good, "--cloud", "alibaba"}, []string{"--cloud: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, cmd := range needCluster {
				if slices.Contains([]string{"status", "verify", "rollback", "report"}, cmd) && strings.HasPrefix(c.words[0], "--") {
					continue // it looks at no host and no cloud, or not before it has found a migration
				}
				fails(t, transplant(t, append([]string{cmd}, c.args...)...), exitcode.Error, c.words...)
			}
		})
	}
	if writes := server.Writes(); len(writes) > 0 {
		t.Errorf("something was written: %v", writes)
	}
}

// TestAnAcceptanceIsJudgedBeforeTheClusterIsAsked: apply took each code for one that a check has.
func TestAnAcceptanceIsJudgedBeforeTheClusterIsAsked(t *testing.T) {
	for _, cmd := range []string{"check", "plan", "apply"} {
		for accept, says := range map[string]string{
			"XY-999=reason": "there is no such check; transplant check --list names them",
			"LM-001=reason": "accepting LM-001: it is mandatory",
			"NODE-002= ":    "accepting NODE-002: give a reason",
		} {
			server := apitest.New(t)
			for _, to := range [][]string{nil, {"--seed-kubeconfig", server.Kubeconfig(t), "--seed-namespace", "cluster-x"}} {
				args := append([]string{cmd, "--kubeconfig", server.Kubeconfig(t), "--accept", accept}, to...)
				fails(t, transplant(t, args...), exitcode.Error, says)
			}
			if asked := server.Requests(); len(asked) > 0 {
				t.Errorf("%s --accept %s asked the API server: %v", cmd, accept, asked)
			}
		}
	}
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAnAPIServerThatRefusesTheCaller(t *testing.T) {
	server := apitest.New(t)
	server.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	fails(t, transplant(t, "status", "--kubeconfig", server.Kubeconfig(t)), exitcode.Error, "reaching the API server "+server.URL, "provide credentials")
}

func TestCommandLinesThatAreNone(t *testing.T) {
	snapshot := []string{"--from-snapshot", labSnapshot}
	for _, c := range []struct {
		name  string
		args  []string
		words []string
	}{
		{"a command that nobody knows", []string{"migrate"}, []string{`unknown command "migrate"`}},
		{"a command of fleet that nobody knows", []string{"fleet", "statos"}, []string{
			`unknown command "statos" for "transplant fleet"`, "did you mean status? see: transplant fleet --help",
		}},
		{"an argument where there is none", []string{"status", "now"}, []string{
			`transplant status takes no argument, and was given ["now"]`, "see: transplant status --help",
		}},
		{"two plans", []string{"apply", "a.yaml", "b.yaml"}, []string{`transplant apply takes [PLAN], and was given ["a.yaml" "b.yaml"]`}},
		{"a command that is mistyped", []string{"stauts"}, []string{`unknown command "stauts"`, "status"}},
		{"the name of bundle in other programs", []string{"support-bundle"}, []string{`unknown command "support-bundle"`, "Did you mean this?\n  | bundle\n"}},
		{"another name of snapshot", []string{"inventory"}, []string{`unknown command "inventory"`, "Did you mean this?\n  | snapshot\n"}},
		{"a flag that nobody knows", []string{"check", "--chatty"}, []string{"unknown flag: --chatty", "see: transplant check --help"}},
		{"a flag without its value", []string{"plan", "--image"}, []string{"flag needs an argument: --image"}},
		{"a length of time that is none", []string{"check", "--wait=soon"}, []string{`invalid argument "soon" for --wait: give a length of time, such as 90s or 10m`}},
		{"a negative length of time", []string{"check", "--wait=-1s"}, []string{`invalid argument "-1s" for --wait: give a length of time, and not a negative one`}},
		{"a probe that ends before it begins", []string{"probe", "--for=-1s"}, []string{`invalid argument "-1s" for --for: give a length of time, and not a negative one`}},
		{"a negative budget of probes", []string{"apply", "--probe-budget=-1s"}, []string{`invalid argument "-1s" for --probe-budget: give a length of time, and not a negative one`}},
		{"a negative watch of waves", []string{"fleet", "plan", "--soak=-1s"}, []string{`invalid argument "-1s" for --soak: give a length of time, and not a negative one`}},
		{"a negative patience", []string{"fleet", "apply", "--patience=-1s"}, []string{`invalid argument "-1s" for --patience: give a length of time, and not a negative one`}},
		{"a bundle that may take no time", []string{"bundle", "--timeout=0s"}, []string{`invalid argument "0s" for --timeout: give a length of time above 0`}},
		{"a cloud that may take less than none", []string{"remove-orphans", "--timeout=-5m"}, []string{`invalid argument "-5m" for --timeout: give a length of time above 0`}},
		{"neither true nor false", []string{"check", "--strict=perhaps"}, []string{`invalid argument "perhaps" for --strict: give true or false`}},
		{"an argument too many", []string{"check", "now"}, []string{`transplant check takes no argument, and was given ["now"]`}},
		{"two arguments too many", []string{"explain", "LM-001", "LM-002"}, []string{`transplant explain takes [CODE], and was given ["LM-001" "LM-002"]`}},
		{"a format that check has not", append([]string{"check", "-o", "html"}, snapshot...), []string{`invalid argument "html" for "-o, --output"`, "give table, wide, json, yaml or junit"}},
		{"a format that plan has not", append([]string{"plan", "-o", "table"}, snapshot...), []string{"give text, wide, markdown, json or yaml"}},
		{"a format that report has not", []string{"report", "-o", "pdf"}, []string{"give markdown, html, svg, json, yaml or junit"}},
		{"a snapshot that is not there", []string{"check", "--from-snapshot", "/nonexistent/s.yaml"}, []string{"reading the snapshot: open /nonexistent/s.yaml: no such file or directory"}},
		{"a directory of snapshots", []string{"check", "--from-snapshot", "testdata"}, []string{"snapshot testdata: reading the snapshot: it is a directory"}},
		{"a snapshot that is a list", []string{"check", "--from-snapshot", file(t, "list.yaml", "- a\n")}, []string{"list.yaml: reading the snapshot: it is a list and no snapshot"}},
		{"a snapshot that was cut off", []string{"check", "--from-snapshot", file(t, "s.yaml", "apiVersion: transplant.dev/v1alpha1\nkind: Snapshot\n")}, []string{"does not say when it was taken", "transplant snapshot"}},
		{"a snapshot that is none", []string{"plan", "--from-snapshot", file(t, "s.yaml", "kind: Pod")}, []string{`kind is "Pod", not Snapshot`}},
		{"accepting a check that nobody knows", append([]string{"check", "--accept", "ZZ-001=x"}, snapshot...), []string{"ZZ-001"}},
		{"accepting without a reason", append([]string{"plan", "--accept", "NODE-001"}, snapshot...), []string{"NODE-001", "reason"}},
		{"accepting what is mandatory", append([]string{"plan", "--accept", "LM-001=x"}, snapshot...), []string{"accepting LM-001: it is mandatory"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := transplant(t, c.args...)
			fails(t, r, exitcode.Error, c.words...)
			if r.out != "" {
				t.Errorf("standard output: %s", r.out)
			}
		})
	}
}

func TestOptionsThatSayNothingAreRefusedByEveryCommand(t *testing.T) {
	for _, c := range []struct{ flag, value, says string }{
		{"strategy", "Downtime", `strategy "Downtime" is not known: use leader-migration or downtime`},
		{"shape", "pod", `shape "pod" is not known: use static-pod or daemonset`},
		{"volumes", "none", `volumes "none" is not known: use csi or in-tree`},
		{"node-ipam", "drop", `node-ipam "drop" is not known: use keep or move`},
		{"renew-deadline", "60s", `renew deadline "60s": give a duration from 1s to below the lease duration of 15s`},
		{"retry-period", "10s", "retry period 10s is too long"},
		{"lease-name", "Our_Lease", `lease name "Our_Lease": an object is named with lower-case letters`},
		{"cluster-name", "our cluster", `cluster name "our cluster"`},
		{"target-version", "v1.27", "give one, e.g. v1.27.4"},
		{"ccm-env", "PROXY", `environment "PROXY": give NAME=VALUE`},
		{"ccm-env", "AWS_SECRET_ACCESS_KEY=planted", "AWS_SECRET_ACCESS_KEY is a secret, and a plan is kept in the cluster and printed; put the credentials into a file on each host and name it, e.g. AWS_SHARED_CREDENTIALS_FILE="},
	} {
		for command, code := range map[string]int{"check": exitcode.Error, "plan": exitcode.Error, "diff": exitcode.DiffError} {
			t.Run(command+" --"+c.flag+"="+c.value, func(t *testing.T) {
				r := transplant(t, command, "--from-snapshot", labSnapshot, "--"+c.flag, c.value)
				fails(t, r, code, c.says)
				if r.out != "" {
					t.Errorf("standard output: %s", r.out)
				}
			})
		}
	}
}

func TestFilesThatAreNoPlan(t *testing.T) {
	for name, c := range map[string]struct{ content, says string }{
		"an empty file":              {"", "is no plan, it is empty or names no kind"},
		"a snapshot":                 {"apiVersion: transplant.dev/v1alpha1\nkind: Snapshot\nhosts: []\n", "is a Snapshot, not a Plan"},
		"a plan of a later version":  {"apiVersion: transplant.dev/v1alpha2\nkind: Plan\nnews: 1\n", `is of "transplant.dev/v1alpha2", and this version of transplant reads transplant.dev/v1alpha1 only`},
		"bytes":                      {"\x00\x01\x02", "is no YAML or JSON: "},
		"a list":                     {"- a\n", "is no plan, but a list"},
		"a plan of a later schema":   {"apiVersion: transplant.dev/v1alpha1\nkind: Plan\nschema: 99\ntoolVersion: v9.1.0\nnews: 1\n", `has schema 99, and this version of transplant knows no more than schema 2 of it: use transplant v9.1.0, which wrote it`},
		"a plan with unknown fields": {"apiVersion: transplant.dev/v1alpha1\nkind: Plan\nnews: 1\n", `unknown field "news"`},
	} {
		t.Run(name, func(t *testing.T) {
			fails(t, transplant(t, "diff", "--from-snapshot", labSnapshot, file(t, "plan.yaml", c.content)), exitcode.DiffError, c.says)
		})
	}
}

func TestAFormatThatIsUnknownWritesNoPlan(t *testing.T) {
	out := filepath.Join(t.TempDir(), "plan.yaml")
	fails(t, transplant(t, "plan", "--from-snapshot", labSnapshot, "--out", out, "-o", "xml"), exitcode.Error)
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a plan was written: %v", err)
	}
}

func TestAPlaceThatCannotBeWritten(t *testing.T) {
	for name, place := range map[string]struct{ out, says string }{
		"no such directory":  {filepath.Join(t.TempDir(), "none", "plan.yaml"), "there is no directory"},
		"a directory":        {t.TempDir(), "writing "},
		"a file as its path": {filepath.Join(file(t, "f", ""), "plan.yaml"), "is no directory"},
	} {
		t.Run(name, func(t *testing.T) {
			out := place.out
			fails(t, transplant(t, "plan", "--from-snapshot", labSnapshot, "--out", out), exitcode.Error, place.says, out)
			left, err := filepath.Glob(filepath.Join(filepath.Dir(out), ".transplant-*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	lost := fmt.Errorf("%w: %w", lock.ErrLockLost, &step.StepError{Err: context.Canceled})
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, exitcode.OK},
		{errors.New("x"), exitcode.Error},
		{exitcode.With(exitcode.Pending, ""), exitcode.Pending},
		{fmt.Errorf("outer: %w", exitcode.With(exitcode.Blocked, "x")), exitcode.Blocked},
		{&step.StepError{Err: &step.VerifyError{}}, exitcode.Unverified},
		{fmt.Errorf("waiting: %w", context.DeadlineExceeded), exitcode.Timeout},
		{&step.StepError{Err: &step.StaleError{}}, exitcode.Stale},
		{exitcode.With(exitcode.NotApproved, "x"), exitcode.NotApproved},
		{&lock.HeldError{}, exitcode.Locked},
		{lost, exitcode.Locked},
		{step.ErrInterrupted, exitcode.Interrupted},
		{&step.StepError{Err: context.Canceled}, exitcode.Interrupted},
	} {
		if have := exitcode.Of(c.err); have != c.want {
			t.Errorf("%v: exit %d, want %d", c.err, have, c.want)
		}
	}
	for _, code := range []int{
		exitcode.OK, exitcode.Error, exitcode.Pending, exitcode.Blocked, exitcode.Unverified, exitcode.Timeout, exitcode.Stale, exitcode.NotApproved,
		exitcode.Locked, exitcode.Interrupted,
	} {
		if !strings.Contains(exitCodes, fmt.Sprintf("\n  %-4d ", code)) {
			t.Errorf("exit code %d is not in the help", code)
		}
	}
}

func TestACodeWithoutAMessagePrintsNothing(t *testing.T) {
	out := changed(t, func(*v1.Snapshot) {})
	r := transplant(t, "plan", "--from-snapshot", out, "--detailed-exitcode", "-q")
	if r.code != exitcode.Pending || r.errOut != "" {
		t.Errorf("exit %d, standard error %q", r.code, r.errOut)
	}
}

func TestAnswersAtTheTerminal(t *testing.T) {
	for _, tc := range []struct {
		word, answer string
		approved     bool
	}{
		{"", "yes\n", true},
		{"", "  yes  \n", true},
		{"", "y\n", false},
		{"", "no\n", false},
		{"", "\n", false},
		{"", "YES\n", false},
		{"prod-eu", "prod-eu\n", true},
		{"prod-eu", "yes\n", false},
		{"prod-eu", "prod\n", false},
	} {
		t.Run(fmt.Sprintf("%s %q", tc.word, tc.answer), func(t *testing.T) {
			main, terminal := openTerminal(t)
			if _, err := main.WriteString(tc.answer); err != nil {
				t.Fatal(err)
			}
			var asked bytes.Buffer
			c := console.New(console.Streams{In: terminal, Err: &asked})
			err := c.Approve(client.Question{What: "execute it", Word: tc.word})
			if (err == nil) != tc.approved || err != nil && exitcode.Of(err) != exitcode.NotApproved {
				t.Errorf("error: %v", err)
			}
			want := "execute it? Type yes to go on: "
			if tc.word != "" {
				want = "execute it? No rollback takes all of it back. Type prod-eu to go on: "
			}
			if asked.String() != want {
				t.Errorf("asked: %s", asked.String())
			}
		})
	}
	if err := console.New(console.Streams{}).Approve(client.Question{Yes: true, What: "execute it"}); err != nil {
		t.Errorf("with --yes: %v", err)
	}
}

func TestTheWidthOfATerminal(t *testing.T) {
	_, terminal := openTerminal(t)
	for _, width := range []uint16{50, 200} {
		setWidth(t, terminal, width)
		if have := console.New(console.Streams{}).LayoutFor(terminal, false).Width; have != int(width) {
			t.Errorf("%d columns, want %d", have, width)
		}
	}
	if have := console.New(console.Streams{}).LayoutFor(&bytes.Buffer{}, false).Width; have != printer.DefaultWidth {
		t.Errorf("a pipe: %d columns", have)
	}
}
