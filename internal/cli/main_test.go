package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/complete"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/internal/fault"
	"github.com/transplant-dev/transplant/internal/managerprogram"
)

var update = flag.Bool("update", false, "write the golden files")

// labSnapshot was captured from a real lab.
const labSnapshot = "../../internal/plan/testdata/lab.yaml"

func TestMain(m *testing.M) {
	if component := filepath.Base(os.Args[0]); strings.HasPrefix(component, "kube-") {
		runManager() // this is a process of a host; see live_test.go
		return
	}
	if strings.HasPrefix(filepath.Base(os.Args[0]), cloudprogram.Argument0) {
		os.Exit(managerprogram.Run(awsProgram)) // this is the provider's program; see prove_test.go
	}
	fault.HostProcesses = func(string) bool { return true } // those of simulated hosts run here
	complete.Limit = 10 * time.Minute                       // what is offered does not depend on how busy this machine is
	client.Now = func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }
	goleak.VerifyTestMain(m)
}

// result is what came of a command line.
type result struct {
	args        []string
	code        int
	out, errOut string
}

// transplant runs a command line as main does; kubeconfig and state directory are the test's own.
func transplant(t *testing.T, args ...string) result {
	t.Helper()
	return transplantWith(t.Context(), t, args...)
}

func transplantWith(ctx context.Context, t *testing.T, args ...string) result {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var out, errOut bytes.Buffer
	code := Run(ctx, args, console.Streams{In: strings.NewReader(""), Out: &out, Err: &errOut})
	return result{args, code, out.String(), errOut.String()}
}

// volatile are parts of an output that differ from run to run, and what stands for them in a golden file.
type volatile map[string]string

func (r result) text(v volatile) string {
	s := fmt.Sprintf("$ transplant %s\nexit %d\n", strings.Join(r.args, " "), r.code)
	for _, part := range []struct{ name, text string }{{"standard output", r.out}, {"standard error", r.errOut}} {
		if part.text != "" {
			s += "--- " + part.name + "\n" + part.text
		}
	}
	for from, to := range v {
		s = strings.ReplaceAll(s, from, to)
	}
	return planSum.ReplaceAllString(s, "${1}(of the plan)")
}

// planSum is the SHA-256 of a plan where it is printed: it is of the cluster's uid too, which is another one in each test.
var planSum = regexp.MustCompile(`(plan sha256: |plan +sha256 |"?planSHA256"?: "?)[0-9a-f]{64}`)

// golden compares what came of a command line with testdata/NAME.txt.
func golden(t *testing.T, name string, r result, v volatile) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	have := r.text(v)
	if *update {
		if err := os.WriteFile(path, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), have); diff != "" {
		t.Errorf("%s differs; review it and run go test ./internal/cli -update (-golden +now):\n%s", path, diff)
	}
}

// fails checks the exit code and the words of an error.
func fails(t *testing.T, r result, code int, words ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("transplant %s: exit %d, want %d\n%s%s", strings.Join(r.args, " "), r.code, code, r.out, r.errOut)
	}
	for _, w := range words {
		if !strings.Contains(r.errOut, w) {
			t.Errorf("transplant %s: the error does not say %q:\n%s", strings.Join(r.args, " "), w, r.errOut)
		}
	}
	if regexp.MustCompile(`(?m)^Usage:`).MatchString(r.errOut + r.out) {
		t.Errorf("transplant %s prints its whole help at an error", strings.Join(r.args, " "))
	}
}

// changed writes the lab's snapshot with changes, and returns the file.
func changed(t *testing.T, change func(*v1.Snapshot)) string {
	t.Helper()
	s, err := client.ReadSnapshot(labSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	change(s)
	return file(t, "snapshot.yaml", s)
}

// file writes a document as YAML, or a string as it is, and returns the path.
func file(t *testing.T, name string, doc any) string {
	t.Helper()
	data, ok := doc.(string)
	if !ok {
		raw, err := yaml.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		data = string(raw)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
