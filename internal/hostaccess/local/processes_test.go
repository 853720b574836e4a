package local

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

const kcm = "kube-controller-manager"

func find(t *testing.T, l *Host, component string) []v1.Process {
	t.Helper()
	got, err := l.Processes(t.Context(), component)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func pids(found []v1.Process) []int {
	var out []int
	for _, p := range found {
		out = append(out, p.PID)
	}
	return out
}

func TestProcessesFindsTheComponentOfTheHost(t *testing.T) {
	l, other := newHost(t), newHost(t)
	if got := find(t, l, kcm); got != nil {
		t.Fatalf("before anything runs: %v", got)
	}
	begun := time.Now()
	cmd, stop := program(t, "wait", l.Dir, "/usr/local/bin/"+kcm, "--cloud-provider=aws", "", "--controllers=*, a")
	program(t, "wait", other.Dir, kcm)                   // of another host
	program(t, "wait", filepath.Join(l.Dir, "etc"), kcm) // in a directory of the host
	program(t, "wait", l.Dir, "kube-apiserver", kcm)     // another program, with the name as an argument
	got := find(t, l, kcm)
	if len(got) != 1 {
		t.Fatalf("got %v", got)
	}
	p := got[0]
	if p.PID != cmd.Process.Pid || p.StartTicks == 0 || p.State == "" || p.State == "Z" {
		t.Errorf("got %+v, want PID %d", p, cmd.Process.Pid)
	}
	if diff := cmp.Diff(cmd.Args, p.Args); diff != "" {
		t.Errorf("arguments, -want +got:\n%s", diff)
	}
	if d := p.Started.Sub(begun); d < -3*time.Second || d > 3*time.Second {
		t.Errorf("it started at %v, want about %v", p.Started, begun)
	}
	if again := find(t, l, kcm)[0]; again.StartTicks != p.StartTicks || !again.Started.Equal(p.Started) {
		t.Errorf("the same process is %+v and %+v", p, again)
	}
	stop()
	if got := find(t, l, kcm); got != nil {
		t.Errorf("after its end: %v", got)
	}
}

func TestTwoProcessesOfOneName(t *testing.T) {
	l := newHost(t)
	a, _ := program(t, "wait", l.Dir, kcm)
	b, _ := program(t, "wait", l.Dir, kcm)
	if got := pids(find(t, l, kcm)); len(got) != 2 || got[0] >= got[1] || got[0]+got[1] != a.Process.Pid+b.Process.Pid {
		t.Errorf("got %v, want %d and %d", got, a.Process.Pid, b.Process.Pid)
	}
}

func TestAZombieHasEnded(t *testing.T) {
	l := newHost(t)
	cmd, _ := program(t, "wait", l.Dir, kcm)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, cmd.Process.Pid, syscall.WEXITED) // not reaped: it stays in /proc
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid))); err != nil {
		t.Fatal(err)
	}
	if got := find(t, l, kcm); got != nil {
		t.Errorf("got %v", got)
	}
}

func TestAStoppedProcessRuns(t *testing.T) {
	l := newHost(t)
	cmd, _ := program(t, "wait", l.Dir, kcm)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	await(t, cmd.Process.Pid, syscall.WSTOPPED)
	if got := find(t, l, kcm); len(got) != 1 || got[0].State != "T" {
		t.Errorf("got %+v", got)
	}
}

// A process whose first thread has ended shows as a zombie without arguments while its other threads go on.
func TestAProcessWithoutItsFirstThreadRuns(t *testing.T) {
	l := newHost(t)
	cmd, _ := program(t, "leaderless", l.Dir, kcm, "--x")
	leader := filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "stat")
	var ticks uint64
	until(t, "the first thread has ended", func() bool {
		data, err := os.ReadFile(leader)
		if err != nil {
			t.Fatal(err)
		}
		state, start, err := parseStat(data)
		ticks = start
		return err == nil && state == "Z"
	})
	got := find(t, l, kcm)
	if len(got) != 1 || got[0].PID != cmd.Process.Pid || got[0].StartTicks != ticks || got[0].State == "Z" || !cmp.Equal(got[0].Args, []string{kcm, "--x"}) {
		t.Errorf("got %+v, want the process %d since %d", got, cmd.Process.Pid, ticks)
	}
}

func TestAProcessThatRestartedIsAnotherOne(t *testing.T) {
	l := newHost(t)
	_, stop := program(t, "wait", l.Dir, kcm)
	before := find(t, l, kcm)
	stop()
	program(t, "wait", l.Dir, kcm)
	after := find(t, l, kcm)
	if len(before) != 1 || len(after) != 1 || before[0].PID == after[0].PID && before[0].StartTicks == after[0].StartTicks {
		t.Errorf("got %+v and %+v", before, after)
	}
}

func TestProcessesOfOtherUsers(t *testing.T) {
	needsRoot(t)
	l := newHost(t)
	for dir := l.Dir; dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	binary := self(t)
	scan := func(component string) answer {
		t.Helper()
		cmd := exec.Command(binary, l.Dir, component)
		cmd.Env = append(os.Environ(), roleVariable+"=scan")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.Output()
		if errors.Is(err, syscall.EPERM) {
			t.Skipf("changing users is not possible here: %v", err)
		}
		var a answer
		if err == nil {
			err = json.Unmarshal(out, &a)
		}
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	// Nobody else has the name of this one, so that other users' processes do not matter.
	const component = "hostaccess-test-component"
	if got := scan(component); got.Error != "" || got.PIDs != nil {
		t.Errorf("none runs: %+v", got)
	}
	program(t, "wait", l.Dir, component)
	if got := scan(component); !strings.Contains(got.Error, "may not read") || !strings.HasPrefix(got.Error, "looking for "+component+" on host cp-1: process ") {
		t.Errorf("one runs that cannot be looked at: %+v", got)
	}
	for _, dir := range []string{".", "etc/kubernetes", "etc/kubernetes/manifests"} {
		if err := os.Chown(filepath.Join(l.Dir, dir), 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if got, last := scan(component), dir == "etc/kubernetes/manifests"; (got.Error == "") != last || got.PIDs != nil {
			t.Errorf("with the host's directories up to %s being another user's: %+v", dir, got)
		}
	}
}

// procfs writes a /proc with processes as it would show them.
func procfs(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{"stat": "cpu 1 2\nbtime 1700000000\n", "1/stat": "1 (init) S 0"}
	for path, text := range files {
		all[path] = text
	}
	for path, text := range all {
		if text == "-" {
			continue
		}
		at := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case strings.HasSuffix(path, "/"):
			err = os.MkdirAll(at, 0o755)
		case strings.HasSuffix(path, "/cwd"):
			err = os.Symlink(text, at)
		default:
			err = os.WriteFile(at, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func stat(pid int, name, state string, ticks uint64) string {
	return strconv.Itoa(pid) + " (" + name + ") " + state + " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 " + strconv.FormatUint(ticks, 10) + " 23 24\n"
}

func TestProcessesReadsWhatTheKernelShows(t *testing.T) {
	l := newHost(t)
	one := func(state, name string) []v1.Process {
		return []v1.Process{{PID: 7, StartTicks: 12345, Started: time.Unix(1700000123, 450e6).UTC(), State: state, Args: []string{"/bin/" + kcm, name}}}
	}
	process := func(name, state string) map[string]string {
		return map[string]string{"7/cmdline": "/bin/" + kcm + "\x00" + name + "\x00", "7/cwd": l.Dir, "7/stat": stat(7, name, state, 12345)}
	}
	with := func(files map[string]string, path, text string) map[string]string { files[path] = text; return files }
	tests := map[string]struct {
		files map[string]string
		want  []v1.Process
		err   string
	}{
		"a running one":                           {files: process("x", "R"), want: one("R", "x")},
		"a name with spaces and parentheses":      {files: process("a) S (b c", "D"), want: one("D", "a) S (b c")},
		"a dead one":                              {files: process("x", "X")},
		"a zombie that still shows its arguments": {files: process("x", "Z")},
		"one that vanishes before its arguments":  {files: map[string]string{"7/": ""}},
		"one that vanishes before its directory":  {files: map[string]string{"7/cmdline": kcm + "\x00"}},
		"one that vanishes before its state":      {files: map[string]string{"7/cmdline": kcm + "\x00", "7/cwd": l.Dir}},
		"a kernel thread": {
			files: map[string]string{"7/cmdline": "", "7/task/7/cmdline": "", "7/stat": stat(7, kcm, "S", 1), "7/cwd": l.Dir},
		},
		"entries that are no processes": {files: map[string]string{"self/cmdline": kcm + "\x00", "self/cwd": l.Dir}},
		"a directory that was deleted":  {files: with(process("x", "R"), "7/cwd", l.Dir+" (deleted)")},
		"a state that is not understood": {
			files: with(process("x", "R"), "7/stat", "7 (x) R 1 2"),
			err:   "reading the state of process 7: unexpected format",
		},
		"a start that is not a number": {
			files: with(process("x", "R"), "7/stat", strings.Replace(stat(7, "x", "R", 12345), "12345", "x", 1)),
			err:   "reading the state of process 7: start time",
		},
		"arguments that cannot be read":              {files: map[string]string{"7/cmdline/": "", "7/cwd": l.Dir}, err: "reading the command line of process 7"},
		"a /proc that hides the processes of others": {files: map[string]string{"1/stat": "-"}, err: "the processes of other users are hidden"},
		"a /proc without a boot time":                {files: map[string]string{"stat": "cpu 1\n"}, err: "there is no btime"},
		"a /proc with a boot time that is no number": {files: map[string]string{"stat": "btime x\n"}, err: "reading the boot time"},
		"a thread that goes on without the first one": {
			files: map[string]string{
				"7/cmdline":        "",
				"7/stat":           stat(7, "x", "Z", 12345),
				"7/task/7/cmdline": "",
				"7/task/9/cmdline": "/bin/" + kcm + "\x00x\x00",
				"7/task/9/cwd":     l.Dir,
				"7/task/9/stat":    stat(9, "x", "S", 99999),
			},
			want: one("S", "x"),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l.proc = procfs(t, tt.files)
			got, err := l.Processes(t.Context(), kcm)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("err = %v, want %q", err, tt.err)
			}
		})
	}
}
