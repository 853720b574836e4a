package manual

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
)

// Programs that stand for those of an operator's machine and of the hosts: ssh runs its command in a host's directory, in which it moves the paths.
var operatorPrograms = map[string]string{
	"ssh": `host=$1; shift
cd "$HOSTS/$host" || exit 255
exec sh -c "$(printf '%s' "$*" | sed "s#\(^\|[ \"(=']\)/\(etc\|var\)/#\1$HOSTS/$host/\2/#g")"
`,
	"sudo":      "exec \"$@\"\n",
	"systemctl": "echo \"$@\" >> told\n",
}

// operator runs what is printed, word for word.
type operator struct {
	t      *testing.T
	hosts  string
	bin    string
	blocks []string
	// idle reports whether nobody reads.
	idle bool
	// fails reports whether the commands may fail.
	fails bool
}

func newOperator(t *testing.T, hosts string) *operator {
	t.Helper()
	o := &operator{t: t, hosts: hosts, bin: t.TempDir()}
	for name, text := range operatorPrograms {
		if err := os.WriteFile(filepath.Join(o.bin, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func (o *operator) Write(p []byte) (int, error) {
	o.blocks = append(o.blocks, string(p))
	if o.idle {
		return len(p), nil
	}
	cmd := exec.Command("sh", "-c", string(p))
	cmd.Env = []string{"PATH=" + o.bin + ":" + os.Getenv("PATH"), "HOSTS=" + o.hosts}
	if out, err := cmd.CombinedOutput(); err != nil && !o.fails {
		o.t.Errorf("running\n%s\n%v: %s", p, err, out)
	}
	return len(p), nil
}

// restarting is a host whose kubelet has a new process each time that systemctl was told to restart it.
type restarting struct{ *local.Host }

func (r restarting) Processes(_ context.Context, component string) ([]v1.Process, error) {
	data, err := os.ReadFile(filepath.Join(r.Dir, "told"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	n := strings.Count(string(data), "restart "+component)
	return []v1.Process{{PID: 100 + n, StartTicks: uint64(1000 * n)}}, nil
}

// byHand is a host whose changes an operator makes.
func byHand(t *testing.T) (*local.Host, *manual, *operator, string) {
	t.Helper()
	l := newMachine(t)
	o, state := newOperator(t, filepath.Dir(l.Dir)), filepath.Join(t.TempDir(), "state")
	return l, New([]hostaccess.Host{restarting{l}}, Options{Out: o, StateDir: state})[0].(*manual), o, state
}

func TestWhatIsPrintedForAHostIsRunWordForWord(t *testing.T) {
	t.Parallel()
	l, m, o, state := byHand(t)
	const manifest, backup = "/etc/kubernetes/manifests/kube-apiserver.yaml", "/etc/kubernetes/transplant/backup/run-1/step"
	writeTo(t, l, manifest, "old\n", 0o640)
	release, err := hostaccess.Grant(t.Context(), m, hostaccess.Need{Purpose: "roll/kube-apiserver@cp-1"})
	if err != nil {
		t.Fatal(err)
	}
	const secret = "token: planted-secret\n"
	for _, err := range []error{
		m.Backup(t.Context(), manifest, backup, hostaccess.SHA256([]byte("old\n"))),
		m.WriteFile(t.Context(), manifest, []byte(secret), 0o600),
		m.Commit(t.Context()),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	release(t.Context())
	if have := readFrom(t, l, manifest) + readFrom(t, l, backup); have != secret+"old\n" {
		t.Errorf("the host has %q", have)
	}
	if _, mode, err := l.Digest(t.Context(), manifest); err != nil || mode.Perm() != 0o600 {
		t.Errorf("mode %v, %v", mode, err)
	}
	want := []string{
		"/etc/",
		"/etc/kubernetes/",
		"/etc/kubernetes/manifests/",
		manifest,
		"/etc/kubernetes/transplant/",
		"/etc/kubernetes/transplant/backup/",
		"/etc/kubernetes/transplant/backup/run-1/",
		backup,
	}
	if have := listTree(t, l); !slices.Equal(have, want) {
		t.Errorf("the host has %q", have)
	}
	if len(o.blocks) != 1 {
		t.Fatalf("%d blocks: %q", len(o.blocks), o.blocks)
	}
	for _, part := range []string{"# run this on host cp-1, for step roll/kube-apiserver@cp-1\n", "sudo mv -T /etc/kubernetes/.transplant-kube-apiserver.yaml.new ", "Ctrl-C stops it; the same command goes on"} {
		if !strings.Contains(o.blocks[0], part) {
			t.Errorf("%q is not in\n%s", part, o.blocks[0])
		}
	}
	if strings.Contains(o.blocks[0], "planted") || strings.Contains(o.blocks[0], "There is no terminal") {
		t.Error(o.blocks[0])
	}
	if left, err := os.ReadDir(state); err != nil || len(left) > 0 {
		t.Errorf("staged files are left: %v, %v", left, err)
	}
	if err := m.Commit(t.Context()); err != nil || len(o.blocks) != 1 {
		t.Errorf("what shows already was printed again: %v, %q", err, o.blocks)
	}
}

func TestChangesThatPeopleMakeOnAHost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		do   func(context.Context, *manual) error
		// want is the file's content and mode, empty when it shall be gone
		path, want string
		told       string
		// parts are in the block.
		parts []string
	}{
		{name: "a file where there was none, in a directory that nobody else may enter", path: "/etc/kubernetes/transplant/ccm.conf", want: "0600 new",
			do: func(ctx context.Context, m *manual) error {
				return m.WriteFile(ctx, "/etc/kubernetes/transplant/ccm.conf", []byte("new"), 0o600)
			}, parts: []string{"sudo mkdir -p -m 0700 /etc/kubernetes/transplant "}},
		{name: "a file that keeps its name in spite of blanks and quotes", path: "/etc/kubernetes/it's a file", want: "0644 new",
			do: func(ctx context.Context, m *manual) error {
				return m.WriteFile(ctx, "/etc/kubernetes/it's a file", []byte("new"), 0o644)
			}},
		{name: "the mode alone", path: "/etc/kubernetes/there", want: "0600 there",
			do: func(ctx context.Context, m *manual) error {
				return m.WriteFile(ctx, "/etc/kubernetes/there", []byte("there"), 0o600)
			}},
		{name: "a file behind a symbolic link, which stays one", path: "/etc/kubernetes/link", want: "0644 new",
			do: func(ctx context.Context, m *manual) error {
				return m.WriteFile(ctx, "/etc/kubernetes/link", []byte("new"), 0o644)
			}},
		{name: "a file that goes", path: "/etc/kubernetes/there",
			do: func(ctx context.Context, m *manual) error { return m.Remove(ctx, "/etc/kubernetes/there") }},
		{name: "a file that was never there", path: "/etc/kubernetes/absent",
			do: func(ctx context.Context, m *manual) error { return m.Remove(ctx, "/etc/kubernetes/absent") }},
		{name: "a kubelet with its unit in one block", path: "/etc/systemd/system/kubelet.service", want: "0644 unit", told: "daemon-reload\nrestart kubelet\n",
			do: func(ctx context.Context, m *manual) error {
				err := m.WriteFile(ctx, "/etc/systemd/system/kubelet.service", []byte("unit"), 0o644)
				return errors.Join(err, m.DaemonReload(ctx), m.RestartKubelet(ctx))
			}},
		{name: "two files in their order", path: "/etc/kubernetes/two", want: "0644 2",
			do: func(ctx context.Context, m *manual) error {
				return errors.Join(m.WriteFile(ctx, "/etc/kubernetes/one", []byte("1"), 0o644), m.WriteFile(ctx, "/etc/kubernetes/two", []byte("2"), 0o644))
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l, m, o, _ := byHand(t)
			writeTo(t, l, "/etc/kubernetes/there", "there", 0o644)
			if err := os.Symlink("there", filepath.Join(l.Dir, "etc/kubernetes/link")); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(c.do(t.Context(), m), m.Commit(t.Context())); err != nil {
				t.Fatal(err)
			}
			have := ""
			if f, err := l.ReadFile(t.Context(), c.path); err == nil {
				have = fmt.Sprintf("%04o %s", f.Mode, f.Data)
			} else if !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if have != c.want {
				t.Errorf("%s: %q, want %q", c.path, have, c.want)
			}
			told, _ := os.ReadFile(filepath.Join(l.Dir, "told"))
			if string(told) != c.told || len(o.blocks) > 1 {
				t.Errorf("systemctl was told %q in %d blocks", told, len(o.blocks))
			}
			for _, part := range c.parts {
				if !strings.Contains(strings.Join(o.blocks, ""), part) {
					t.Errorf("%q is not in %q", part, o.blocks)
				}
			}
			if to, err := os.Readlink(filepath.Join(l.Dir, "etc/kubernetes/link")); err != nil || to != "there" {
				t.Errorf("the link: %q, %v", to, err)
			}
		})
	}
}

// passing is a clock on which each wait takes its time at once.
type passing struct {
	*clocktesting.FakeClock
	waits func(n int)
	n     *int
}

func (p passing) After(d time.Duration) <-chan time.Time {
	ch := p.FakeClock.After(d)
	p.Step(max(d, time.Minute))
	*p.n++
	p.waits(*p.n)
	return ch
}

func TestAWaitForPeopleEndsWhenItIsToldTo(t *testing.T) {
	t.Parallel()
	l := newMachine(t)
	writeTo(t, l, "/etc/f", "old", 0o644)
	o, state := newOperator(t, filepath.Dir(l.Dir)), t.TempDir()
	o.idle = true
	stop := make(chan struct{})
	clk := passing{FakeClock: clocktesting.NewFakeClock(time.Now()), n: new(int), waits: func(n int) {
		switch n {
		case 3:
			writeTo(t, l, "/etc/f", "somebody's own", 0o644)
		case 20:
			close(stop)
		}
	}}
	m := New([]hostaccess.Host{l}, Options{Out: o, StateDir: state, Clock: clk, Unattended: true})[0].(*manual)
	var said []string
	ctx := hostaccess.WithStopping(hostaccess.WithProgress(t.Context(), func(s string) { said = append(said, s) }), stop)
	if err := m.WriteFile(ctx, "/etc/f", []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := m.Commit(ctx); !errors.Is(err, hostaccess.ErrStopped) || !strings.Contains(err.Error(), "run the same command again to go on") {
		t.Errorf("error: %v", err)
	}
	if len(said) < 4 || len(said) > 5 ||
		!strings.Contains(
			said[0],
			"for host cp-1, printed above, to be run: /etc/f does not hold what it shall (it has SHA-256 "+hostaccess.SHA256([]byte("somebody's own"))[:12],
		) {
		t.Errorf("in 20 minutes it said %d times: %q", len(said), said)
	}
	if !strings.Contains(o.blocks[0], "# There is no terminal here: transplant waits all the same") {
		t.Error(o.blocks[0])
	}
	if left, err := os.ReadDir(state); err != nil || len(left) > 0 {
		t.Errorf("staged files are left: %v, %v", left, err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the lock was lost"))
	if err := m.Commit(ended); err == nil || !strings.Contains(err.Error(), "the lock was lost") && !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
	if have := readFrom(t, l, "/etc/f"); have != "somebody's own" {
		t.Errorf("the host has %q", have)
	}
}

func TestWhatIsStillToDoIsPrintedAgain(t *testing.T) {
	t.Parallel()
	l, m, o, state := byHand(t)
	o.idle = true
	stop := make(chan struct{})
	close(stop)
	ctx := hostaccess.WithStopping(t.Context(), stop)
	step := func(ctx context.Context) error {
		return errors.Join(m.WriteFile(ctx, "/etc/one", []byte("1"), 0o644), m.WriteFile(ctx, "/etc/two", []byte("2"), 0o644), m.Commit(ctx))
	}
	release, err := hostaccess.Grant(ctx, m, hostaccess.Need{Purpose: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := step(ctx); !errors.Is(err, hostaccess.ErrStopped) {
		t.Fatal(err)
	}
	release(ctx)
	writeTo(t, l, "/etc/one", "1", 0o644)                                             // somebody has begun
	if err := os.MkdirAll(filepath.Join(state, "manual-killed"), 0o700); err != nil { // and an earlier process was killed
		t.Fatal(err)
	}
	o.idle = false
	if err := step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := o.blocks[len(o.blocks)-1]; strings.Contains(last, "/etc/one") || !strings.Contains(last, "/etc/two") {
		t.Error(last)
	}
	if left, err := os.ReadDir(state); err != nil || len(left) > 0 {
		t.Errorf("staged files are left: %v, %v", left, err)
	}
}

func TestCommandsStopAtTheFirstThatFails(t *testing.T) {
	t.Parallel()
	l, m, o, _ := byHand(t)
	o.fails = true
	writeTo(t, l, "/etc/kubernetes/f", "old", 0o644)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := errors.Join(
		m.Backup(ctx, "/etc/kubernetes/is-gone", "/etc/kubernetes/backup/f", "x"),
		m.WriteFile(ctx, "/etc/kubernetes/f", []byte("new"), 0o644),
		m.Commit(ctx),
	)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error: %v", err)
	}
	if have := readFrom(t, l, "/etc/kubernetes/f"); have != "old" {
		t.Errorf("the file was written without its backup: %q", have)
	}
}

func TestAHostThatCannotBeReadIsNotAskedToBeChanged(t *testing.T) {
	t.Parallel()
	l, m, o, _ := byHand(t)
	if err := m.WriteFile(t.Context(), "/etc/f", []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(l.Dir); err != nil {
		t.Fatal(err)
	}
	if err := m.Commit(t.Context()); !hostaccess.IsUnreachable(err) || len(o.blocks) > 0 {
		t.Errorf("error: %v; printed: %q", err, o.blocks)
	}
}

func TestManualAccessIsOverAnotherOne(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"manual":                "pod true",
		"manual:pod:role=x":     "pod:role=x true",
		"manual:local:/srv":     "local:/srv true",
		"local:/srv":            "local:/srv false",
		"manually":              "manually false",
		"manual:":               "does not say what hosts are read through",
		"manual:manual:local:x": "manual twice",
		"manual:manual":         "manual twice",
		"manual:none":           "never see their effect",
	} {
		inner, manual, err := ParseSpec(spec)
		have := fmt.Sprint(inner, " ", manual)
		if err != nil {
			have = err.Error()
		}
		if !strings.Contains(have, want) {
			t.Errorf("%s: %s, want %s", spec, have, want)
		}
	}
	var out bytes.Buffer
	h := New([]hostaccess.Host{newMachine(t)}, Options{Out: &out})[0].(*manual)
	for name, err := range map[string]error{
		"a path that is relative": h.WriteFile(t.Context(), "etc/f", nil, 0o644), "a unit that is an option": h.Stop(t.Context(), "--now"),
	} {
		if err == nil || out.Len() > 0 {
			t.Errorf("%s: %v, %q", name, err, out.String())
		}
	}
}

// TestAPurposeIsNoCommand: the step for which a block is printed may have its name from a journal that someone changed.
func TestAPurposeIsNoCommand(t *testing.T) {
	t.Parallel()
	for _, purpose := range []string{"roll/kube-apiserver@cp-1\ntouch \"$HOSTS/planted\" #", "roll\r\x1b[2K\u202e", "roll\u2028x"} {
		l, m, o, _ := byHand(t)
		if _, err := hostaccess.Grant(t.Context(), m, hostaccess.Need{Purpose: purpose}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(m.WriteFile(t.Context(), "/etc/x", []byte("new"), 0o600), m.Commit(t.Context())); err != nil {
			t.Fatal(err)
		}
		if readFrom(t, l, "/etc/x") != "new" {
			t.Error("the file was not written")
		}
		if _, err := os.Stat(filepath.Join(o.hosts, "planted")); err == nil {
			t.Errorf("the purpose %q was executed:\n%s", purpose, o.blocks)
		}
		if text := strings.Join(o.blocks, ""); strings.ContainsFunc(text, isHidden) || strings.Count(text, "for step roll") != 1 {
			t.Errorf("what is printed holds what a terminal obeys: %q", text)
		}
	}
}

func TestCommandsWithWhatIsNotSeenAreNotPrinted(t *testing.T) {
	t.Parallel()
	_, m, o, _ := byHand(t)
	if _, err := hostaccess.Grant(t.Context(), m, hostaccess.Need{Purpose: "write"}); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(m.WriteFile(t.Context(), "/etc/x\x1b[1A", []byte("new"), 0o600), m.Commit(t.Context()))
	if err == nil || !strings.Contains(err.Error(), "characters that are not seen") || len(o.blocks) != 0 {
		t.Errorf("%v, printed: %q", err, o.blocks)
	}
}
