package faults

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary stands for the product: it does the steps that a file does not name yet, asks the hook at each point, and fails when a host's file says so.
func TestMain(m *testing.M) {
	if dir := os.Getenv("FAKE_PRODUCT"); dir != "" {
		os.Exit(fakeProduct(dir))
	}
	os.Exit(m.Run())
}

var fakeSteps = []string{"create/a", "edit/b@one", "edit/b@two", "delete/c"}

func fakeProduct(dir string) int {
	stop := make(chan os.Signal, 4)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE)
	stopping := false
	for _, step := range fakeSteps {
		done, _ := os.ReadFile(filepath.Join(dir, "done"))
		if slices.Contains(strings.Split(string(done), "\n"), step) {
			continue
		}
		for _, point := range []string{Before, During, After} {
			if point == After {
				f, err := os.OpenFile(filepath.Join(dir, "done"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
				if err != nil {
					return 1
				}
				fmt.Fprintln(f, step)
				f.Close()
			}
			ask(point + ":" + step)
			if _, err := os.Stat(filepath.Join(dir, "lost-"+hostOf(step, []string{"one", "two"}))); err == nil {
				fmt.Fprintln(os.Stderr, "error: the host is lost")
				return 1
			}
			select {
			case <-stop:
				fmt.Fprintln(os.Stderr, "the current step is finished first")
				stopping = true
			default:
			}
		}
		if _, err := fmt.Fprintln(os.Stderr, "done", step); err != nil {
			return 130
		}
		if stopping {
			return 130
		}
	}
	return 0
}

func ask(at string) {
	path := os.Getenv("TRANSPLANT_TEST_HOOK")
	conn, err := net.Dial("unix", path)
	if err != nil {
		os.Exit(9)
	}
	defer conn.Close()
	fmt.Fprintln(conn, at)
	if answer, _ := bufio.NewReader(conn).ReadString('\n'); answer != "go on\n" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// fake is a cluster of two hosts that are files.
type fake struct {
	dir string
	ups int
}

var _ Cluster = (*fake)(nil)

func (f *fake) Name() string    { return "fake" }
func (f *fake) Hosts() []string { return []string{"one", "two"} }
func (f *fake) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "FAKE_PRODUCT="+f.dir)
	return cmd
}
func (f *fake) StopAPI(context.Context) (Heal, error) { return nil, ErrNotHere }
func (f *fake) LoseAccess(_ context.Context, host string) (Heal, error) {
	path := filepath.Join(f.dir, "lost-"+host)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return nil, err
	}
	return func(context.Context) error { return os.Remove(path) }, nil
}
func (f *fake) FillDisk(context.Context, string) (Heal, error) { return nil, ErrNotHere }
func (f *fake) Reboot(context.Context, string) (Heal, error)   { return nil, ErrNotHere }
func (f *fake) How(Kind) string                                { return "by hand" }
func (f *fake) Up(context.Context) error                       { f.ups++; return nil }
func (f *fake) Watch(context.Context) (Judge, error)           { return nil, ErrNotHere }
func (f *fake) Facts(context.Context) ([]string, error)        { return nil, ErrNotHere }

func run(t *testing.T, choose func(step, host string) []Fault) Result {
	t.Helper()
	c := Campaign{Cluster: &fake{dir: t.TempDir()}, Args: []string{"apply"}, Choose: choose, StateDir: t.TempDir(), Log: t.Logf}
	r, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Steps, fakeSteps) {
		t.Errorf("steps %v", r.Steps)
	}
	for _, o := range r.Outcomes {
		if o.Problem != "" || !o.Missed && o.Converged.Before(o.Injected) {
			t.Errorf("%+v", o)
		}
	}
	return r
}

// disturbable is a fake in which the cloud can go wrong.
type disturbable struct {
	*fake

	made, healed []string
}

func (d *disturbable) Disturb(_ context.Context, kind Kind, host string) (Heal, error) {
	d.made = append(d.made, string(kind)+" "+host)
	return func(context.Context) error { d.healed = append(d.healed, string(kind)+" "+host); return nil }, nil
}

// TestWhatManagersDependOnGoesWrongAndIsHealed before the next fault, and before the campaign ends.
func TestWhatManagersDependOnGoesWrongAndIsHealed(t *testing.T) {
	d := &disturbable{}
	l := Lengths{Off: time.Millisecond, ShortOutage: time.Millisecond, Outage: time.Millisecond, Frozen: time.Millisecond, Cloud: time.Millisecond}
	for turn := range OfTheSurroundings {
		d.fake = &fake{dir: t.TempDir()}
		c := Campaign{Cluster: d, Args: []string{"apply"}, Choose: InTurns(OfTheSurroundings, turn, l), StateDir: t.TempDir(), Log: t.Logf}
		r, err := c.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range r.Outcomes {
			if o.Missed || o.Problem != "" {
				t.Errorf("%+v", o)
			}
		}
	}
	for _, kind := range OfTheSurroundings {
		if !slices.ContainsFunc(d.made, func(made string) bool { return strings.HasPrefix(made, string(kind)+" ") }) {
			t.Errorf("%s never happened", kind)
		}
	}
	if !slices.Equal(d.made, d.healed) {
		t.Errorf("made %q, healed %q", d.made, d.healed)
	}
}

func TestACommandIsKilledOnceAtEachPointAndComesToItsEnd(t *testing.T) {
	r := run(t, KilledEverywhere)
	if len(r.Outcomes) != 3*len(fakeSteps) {
		t.Fatalf("%d faults: %+v", len(r.Outcomes), r.Outcomes)
	}
	for _, o := range r.Outcomes {
		if !slices.Equal(o.Codes, []int{-1}) {
			t.Errorf("%s:%s ended with %v", o.Point, o.Step, o.Codes)
		}
	}
}

func TestAHostIsLostForAWhileAndTheCommandIsRunAgainWhenItIsBack(t *testing.T) {
	r := run(t, InTurns([]Kind{AccessLost}, 0, Lengths{Access: 50 * time.Millisecond}))
	if len(r.Outcomes) != 2 {
		t.Fatalf("%+v", r.Outcomes)
	}
	for _, o := range r.Outcomes {
		if !slices.Equal(o.Codes, []int{1}) || o.Host == "" {
			t.Errorf("%+v", o)
		}
	}
}

func TestWhatAClusterCannotDoIsMissedAndSaidSo(t *testing.T) {
	r := run(t, InTurns([]Kind{APIGone}, 0, Whole))
	table := Table{Title: "apply", How: map[Kind]string{APIGone: "by hand"}}
	table.Add(r)
	var b strings.Builder
	if err := table.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := "## apply\n\n| step | API gone |\n|---|---|\n| create/a | – |\n| edit/b@one | – |\n| edit/b@two | – |\n| delete/c | – |\n\n" +
		"- API gone: 0 made, 0 not got over, 0 re-runs, at most 0.0 s until the step was done (by hand)\n\n"
	if b.String() != want {
		t.Errorf("table:\n%s\nwant:\n%s", b.String(), want)
	}
}

func TestACommandThatNobodyListensToStopsBehindItsStep(t *testing.T) {
	r := run(t, These([]Fault{{Kind: PipeBroken, Point: During, Step: "edit/b@one"}}))
	if len(r.Outcomes) != 1 || !slices.Equal(r.Outcomes[0].Codes, []int{130}) {
		t.Errorf("%+v", r.Outcomes)
	}
}

func TestAStepThatWaitedForItsTurnMayBeLeftAsItWas(t *testing.T) {
	for _, c := range []struct {
		step, point, want string
	}{
		{"external/kubelet@worker-1", Before, ""},
		{"undo/external/kubelet@worker-1", Before, ""},
		{"external/kubelet@worker-1", During, "the step was not finished before the end"},
		{"external/kube-apiserver@cp-1", Before, "the step was not finished before the end"},
	} {
		for _, kind := range []Kind{Interrupted, PipeBroken} {
			o := Outcome{Fault: Fault{Kind: kind, Point: c.point, Step: c.step}, Codes: []int{130}}
			between := ended{code: 130, stderr: "error: interrupted between two steps\n"}
			if got := endedWrongly(o, between); got != c.want {
				t.Errorf("%s at %s:%s: %q, want %q", kind, c.point, c.step, got, c.want)
			}
			if got := endedWrongly(o, ended{code: 130}); kind != PipeBroken && got == "" {
				t.Errorf("%s at %s:%s: a step is taken to be left alone, and the command does not say so", kind, c.point, c.step)
			}
			if got := endedWrongly(o, ended{code: 1}); got != "it ended with exit code 1, not 130" {
				t.Errorf("%s at %s:%s that failed: %q", kind, c.point, c.step, got)
			}
		}
	}
}

func TestACommandThatFailsForNoReasonFailsTheCampaign(t *testing.T) {
	f := &fake{dir: t.TempDir()}
	if _, err := f.LoseAccess(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	c := Campaign{Cluster: f, Args: []string{"apply"}, Choose: These(nil), StateDir: t.TempDir()}
	if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "although nothing was wrong") {
		t.Errorf("error %v", err)
	}
}

func TestProblemsAreBlamedOnTheFaultDuringWhichTheyHappened(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	outcomes := []Outcome{{Injected: at(10), Converged: at(20)}, {Injected: at(30), Converged: at(40)}}
	rest := Blame(outcomes, []Problem{{From: at(35), To: at(36), Text: "two owners"}, {From: at(50), To: at(51), Text: "late"}})
	if outcomes[0].Problem != "" || outcomes[1].Problem != "two owners" || len(rest) != 1 || rest[0].Text != "late" {
		t.Errorf("%+v, rest %+v", outcomes, rest)
	}
}

func TestFactsDifferByMoreThanTheirTokens(t *testing.T) {
	a := []string{"file x token: eyJhbGciOi.eyJpc3MiOi.c2lnbmF0dXJl", "node n"}
	b := []string{"file x token: eyJhbGciOi.eyJpc3MiOj.b3RoZXI", "node n"}
	if diff := Different(a, b); diff != "" {
		t.Error(diff)
	}
	if diff := Different(a, append(b, "file y")); diff != "+ file y" {
		t.Error(diff)
	}
}
