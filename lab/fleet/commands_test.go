package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/seed"
)

// The program that is delivered, with the roles of deploy/rbac, on a seed: a rollout that is interrupted, stops on a failure, and goes on by the same command.
func TestTheFleetCommandsOnASeed(t *testing.T) {
	onlyWithAll(t)
	w := newWorld(t)
	ctx := within(t)
	must(t, w.InstallOperator(ctx, append(quick, "--stuck-queued=10s")...))
	for _, role := range []string{"fleet-viewer", "fleet-migrator"} {
		must(t, w.Apply(ctx, filepath.Join(w.root, "deploy", "rbac", role+".yaml"), nil))
	}
	x := newCommands(ctx, t, w)
	clusters := map[string]*seed.Cluster{}
	for _, name := range []string{"one", "two"} {
		clusters[name] = w.addCluster(t, seed.ClusterOptions{Name: name}, 1)
		o, err := w.Create(ctx, kv1.GroupName, name, map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: false}})
		must(t, err)
		must(t, o.AwaitPhase(ctx, kv1.PhaseNotNeeded))
		x.objects[name] = o
		t.Cleanup(load(t, clusters[name]))
	}

	x.sees(t, map[string]string{"one": v1.StandingNotEnabled, "two": v1.StandingNotEnabled})
	x.ends(t, 0, "2 clusters", x.as(t, "admin", "plan", "--waves=1,100%", "--seed-direct"))
	x.ends(t, 1, "forbidden", x.as(t, "viewer", "apply", "--waves=1,100%", "--yes"))
	x.sees(t, map[string]string{"one": v1.StandingNotEnabled, "two": v1.StandingNotEnabled})
	x.ends(t, 7, "--yes", x.as(t, "migrator", "apply", "--waves=1,100%"))

	apply := []string{"apply", "--waves=1,100%", "--first=one", "--until=handover", "--yes", "--patience=30s"}
	x.interrupted(ctx, t, apply)
	must(t, x.objects["one"].AwaitPhase(ctx, kv1.PhaseMachines)) // nobody runs the command meanwhile
	x.sees(t, map[string]string{"one": v1.StandingMigrating, "two": v1.StandingNotEnabled})

	clusters["two"].Front().Cut()
	x.ends(t, 1, "stopped in wave 2: 1 done, 1 failed", x.as(t, "migrator", apply...))
	must(t, clusters["two"].Front().Heal())
	x.ends(t, 0, "2 done, 0 failed", x.as(t, "migrator", apply...))
	x.ends(t, 0, "2 done, 0 failed", x.as(t, "migrator", apply...))
	for name, c := range clusters {
		goesOn(ctx, t, c, x.objects[name])
	}
}

// commands runs transplant fleet with the accounts of a seed.
type commands struct {
	program     string
	kubeconfigs map[string]string
	objects     map[string]*Object
}

func newCommands(ctx context.Context, t *testing.T, w *World) *commands {
	t.Helper()
	x := &commands{kubeconfigs: map[string]string{}, objects: map[string]*Object{}}
	var err error
	x.program, err = build.BuildCommand(ctx, w.root, t.TempDir(), "transplant")
	must(t, err)
	x.kubeconfigs["admin"], err = w.Kubeconfig()
	must(t, err)
	for user, groups := range map[string][]string{"viewer": {"transplant:fleet-viewers"}, "migrator": {"transplant:fleet-viewers", "transplant:fleet-migrators"}} {
		x.kubeconfigs[user], err = w.API().Kubeconfig(user, groups...)
		must(t, err)
	}
	return x
}

// as is the command of one user, not yet started.
func (x *commands) as(t *testing.T, user string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(within(t), x.program, append([]string{"fleet"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+x.kubeconfigs[user])
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// ends runs a command to its end, which has to have that exit code and to say that.
func (x *commands) ends(t *testing.T, code int, says string, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	t.Logf("%s\n%s", strings.Join(cmd.Args[1:], " "), out)
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), says) {
		t.Fatalf("%s ended with %d, want %d and %q", strings.Join(cmd.Args[1:], " "), got, code, says)
	}
}

// sees compares what fleet status says, which a viewer may ask.
func (x *commands) sees(t *testing.T, want map[string]string) {
	t.Helper()
	cmd := x.as(t, "viewer", "status", "-o", "json")
	out, err := cmd.Output()
	must(t, err)
	var s v1.FleetStatus
	must(t, json.Unmarshal(out, &s))
	got := map[string]string{}
	for _, row := range s.Clusters {
		got[row.Name] = row.Standing
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(s.NotRead) > 0 {
		t.Errorf("fleet status says %v, want %v; not read: %v", got, want, s.NotRead)
	}
}

// interrupted begins a rollout and stops it with Ctrl-C when the first cluster was started.
func (x *commands) interrupted(ctx context.Context, t *testing.T, args []string) {
	t.Helper()
	cmd := x.as(t, "migrator", args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	must(t, cmd.Start())
	must(t, x.objects["one"].AwaitPhase(ctx, kv1.PhaseHandover))
	must(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // its exit code is looked at
	t.Logf("%s\n%s", strings.Join(cmd.Args[1:], " "), said.String())
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(said.String(), "1 is under way, which the operator carries on") {
		t.Fatalf("Ctrl-C ended it with %d", code)
	}
}
