package field

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	// What the command line is made of: it is built by the test, which the go command does not see, and a result from its cache would be an old one's.
	_ "github.com/transplant-dev/transplant/internal/check"
	_ "github.com/transplant-dev/transplant/internal/dryrun"
	_ "github.com/transplant-dev/transplant/internal/migrate"
	_ "github.com/transplant-dev/transplant/internal/plan"
	_ "github.com/transplant-dev/transplant/internal/preview"
	_ "github.com/transplant-dev/transplant/internal/report"
	_ "github.com/transplant-dev/transplant/internal/snapshot"
	"github.com/transplant-dev/transplant/lab/build"
)

var (
	update = flag.Bool("update", false, "write the captured snapshots")
	whole  = flag.Bool("field.all", false, "execute every fix, look at a cluster of five hundred nodes, and capture a second version")
)

var cli string // transplant, built once

func TestMain(m *testing.M) {
	if RunStandIn() {
		return
	}
	flag.Parse()
	os.Exit(func() int {
		if testing.Short() {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "field")
		if err == nil {
			defer os.RemoveAll(dir)
			cli, err = buildCLI(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func buildCLI(dir string) (string, error) {
	root, err := build.FindRoot()
	if err != nil {
		return "", err
	}
	product, err := build.BuildProduct(context.Background(), root, dir)
	return product.CLI, err
}

// start makes a field that ends with the test.
func start(t *testing.T, o Options) *Field {
	t.Helper()
	if testing.Short() {
		t.Skip("starts an API server")
	}
	o.Dir = t.TempDir()
	f, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// result is what came of a command line.
type result struct {
	code        int
	out, errOut string
}

// transplant runs the command line as an operator of the field would.
func (f *Field) transplant(t *testing.T, args ...string) result {
	t.Helper()
	live := !slices.Contains(args, "--from-snapshot") // with a file, neither the cluster nor its cloud is asked
	args = append(args, "--state-dir", f.path("state"))
	if live {
		args = append(args, "--kubeconfig", f.Kubeconfig, "--host-access", f.HostAccess())
	}
	if live && f.Account != nil {
		args = append(args, "--cloud", f.Cloud())
	}
	cmd := exec.CommandContext(t.Context(), cli, args...)
	cmd.Env = append(os.Environ(), "HOME="+f.path("home"), "NO_COLOR=1")
	if f.Account != nil {
		cmd.Env = append(cmd.Env, f.Account.Env()...)
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	r := result{out: out.String(), errOut: errOut.String()}
	switch {
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		t.Fatalf("running transplant %v: %v", args, err)
	}
	return r
}

func save(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
