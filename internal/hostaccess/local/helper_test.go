package local

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
)

// roleVariable makes the test binary a program of a simulated host.
const roleVariable = "HOSTACCESS_TEST_ROLE"

func init() {
	if os.Getenv(roleVariable) == "leaderless" {
		runtime.LockOSThread() // main keeps the first thread, to end it
	}
}

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		goleak.VerifyTestMain(m)
	case "wait":
		ready()
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "leaderless":
		ready()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
	case "scan":
		scanForParent()
	}
}

func ready() { fmt.Println("ready") }

// answer is what a scan in another process found.
type answer struct {
	PIDs  []int
	Error string
}

// scanForParent looks for the processes that its arguments name: host directory and component.
func scanForParent() {
	var a answer
	l, err := New("cp-1", os.Args[1])
	if err == nil {
		found, scanErr := l.Processes(context.Background(), os.Args[2])
		err = scanErr
		for _, p := range found {
			a.PIDs = append(a.PIDs, p.PID)
		}
	}
	if err != nil {
		a.Error = err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(a)
}

// self is the test binary, where everybody may execute it.
func self(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hostaccess")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	data, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "program"), data, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "program")
}

// program starts a program of a name in a directory and waits until it runs. It ends with the test, or when stop is called.
func program(t *testing.T, role, dir string, args ...string) (cmd *exec.Cmd, stop func()) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe")
	cmd.Args, cmd.Dir = args, dir
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "GOMAXPROCS=4", "GOGC=off")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ended bool
	stop = func() {
		if !ended {
			ended = true
			_ = in.Close()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(stop)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the program said %q, %v", line, err)
	}
	return cmd, stop
}

// await waits until a child is in a state (WEXITED, WSTOPPED or WCONTINUED) and leaves it there.
func await(t *testing.T, pid int, state uintptr) {
	t.Helper()
	const byPID = 1
	var info [128]byte // siginfo_t
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), state|syscall.WNOWAIT, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			t.Fatalf("waiting for %d: %v", pid, errno)
		}
		return
	}
}

// until polls a condition that nothing announces.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// newHost is a host in a directory of its own.
// newHost returns a host in a directory whose programs are the test's own, and so are run.
func newHost(t *testing.T) *Host {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cp-1")
	if err := os.MkdirAll(filepath.Join(dir, "etc/kubernetes/manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := New("cp-1", dir)
	if err != nil {
		t.Fatal(err)
	}
	l.programs = true
	return l
}

func put(t *testing.T, l *Host, path, text string, mode os.FileMode) string {
	t.Helper()
	at := filepath.Join(l.Dir, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(at, mode); err != nil {
		t.Fatal(err)
	}
	return at
}

func get(t *testing.T, l *Host, path string) string {
	t.Helper()
	f, err := l.ReadFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return string(f.Data)
}

// tree lists every file and directory of a host but its root.
func tree(t *testing.T, l *Host) []string {
	t.Helper()
	var out []string
	err := filepath.Walk(l.Dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && path != l.Dir {
			name := strings.TrimPrefix(path, l.Dir)
			if info.IsDir() {
				name += "/"
			}
			out = append(out, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("it takes root to do this")
	}
}

// mount puts a file system of a size on a directory, or skips.
func mount(t *testing.T, dir, options string) {
	t.Helper()
	needsRoot(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("mounting is not possible here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}
