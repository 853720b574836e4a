package units

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// write puts files below a root.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	mainFile  = "/usr/lib/systemd/system/kubelet.service"
	kubeadm   = "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf"
	flagsFile = "/var/lib/kubelet/kubeadm-flags.env"
)

// kubelet is a root with the files of a kubelet as kubeadm's packages have them.
func kubelet(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write(t, root, map[string]string{
		mainFile: "[Unit]\nDescription=kubelet\n\n[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\nRestartSec=10\n",
		kubeadm: "[Service]\nEnvironment=\"CONFIG=--config=/c --kubeconfig=/k\"\nEnvironmentFile=-" + flagsFile +
			"\nEnvironmentFile=-/etc/default/kubelet\nExecStart=\nExecStart=/usr/bin/kubelet $CONFIG $ARGS $EXTRA\n",
		flagsFile: "ARGS=\"--cloud-provider=aws --node-labels=a=b\"\n",
	})
	return root
}

// world launches no real process: each start is recorded, and ended by the test.
type world struct {
	started [][]string
	env     [][]string
	done    []chan syscall.WaitStatus
	fail    error
}

func (w *world) launch(argv, env []string, _ string) (Process, error) {
	if w.fail != nil {
		return Process{}, w.fail
	}
	done := make(chan syscall.WaitStatus, 1)
	w.started, w.env, w.done = append(w.started, argv), append(w.env, env), append(w.done, done)
	return Process{PID: 1 << 30, Done: done}, nil // no such process: signals to it do nothing
}

// end lets the n-th process end with an exit code.
func (w *world) end(n, code int) { w.done[n] <- syscall.WaitStatus(code << 8) }

func systemctl(m *Manager, line string) (out, errs string, code int) {
	var o, e bytes.Buffer
	code = m.Systemctl(strings.Fields(line), &o, &e)
	return o.String(), e.String(), code
}

func TestAServiceStartsWithItsDropInsCommandAndEnvironmentFiles(t *testing.T) {
	w := &world{}
	m := NewManager(kubelet(t), w.launch)
	if err := m.Start("kubelet"); err != nil {
		t.Fatal(err)
	}
	want := []string{"/usr/bin/kubelet", "--config=/c", "--kubeconfig=/k", "--cloud-provider=aws", "--node-labels=a=b"}
	if !slices.Equal(w.started[0], want) {
		t.Errorf("started %q, want %q", w.started[0], want)
	}
	if !slices.Contains(w.env[0], "ARGS=--cloud-provider=aws --node-labels=a=b") {
		t.Errorf("environment is %q", w.env[0])
	}
}

func TestUnitFilesAreReadAtAReloadAndEnvironmentFilesAtEachStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		root := kubelet(t)
		m := NewManager(root, w.launch)
		restart := func(n int) {
			t.Helper()
			w.end(n, 0) // the stop that follows finds it ending
			if err := m.Restart("kubelet"); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Start("kubelet"); err != nil {
			t.Fatal(err)
		}
		write(t, root, map[string]string{
			flagsFile: "ARGS=--cloud-provider=external\n",
			"/etc/systemd/system/kubelet.service.d/20-more.conf": "[Service]\nEnvironment=EXTRA=--v=4\n",
		})
		restart(0)
		if got := strings.Join(w.started[1], " "); !strings.Contains(got, "--cloud-provider=external") || strings.Contains(got, "--v=4") {
			t.Errorf("before the reload it started %q", got)
		}
		if _, errs, code := systemctl(m, "daemon-reload"); code != 0 {
			t.Fatal(errs)
		}
		restart(1)
		if got := strings.Join(w.started[2], " "); !strings.Contains(got, "--v=4") {
			t.Errorf("after the reload it started %q", got)
		}
		w.end(2, 0)
		if err := m.Stop("kubelet"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAServiceThatEndsIsStartedAgainAfterItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		m := NewManager(kubelet(t), w.launch)
		if err := m.Start("kubelet"); err != nil {
			t.Fatal(err)
		}
		w.end(0, 1)
		synctest.Wait()
		if out, _, code := systemctl(m, "is-active kubelet"); out != "activating\n" || code != exitNotActive {
			t.Errorf("between two starts is-active says %q with code %d", out, code)
		}
		time.Sleep(9 * time.Second) //nolint:forbidigo // the bubble's clock
		if len(w.started) != 1 {
			t.Error("it was started again before its RestartSec")
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if len(w.started) != 2 {
			t.Fatalf("it was started %d times", len(w.started))
		}
		w.end(1, 0)
		synctest.Wait()
		if err := m.Stop("kubelet"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
		if out, _, _ := systemctl(m, "is-active kubelet"); out != "inactive\n" || len(w.started) != 2 {
			t.Errorf("after a stop it is %q and was started %d times", out, len(w.started))
		}
	})
}

func TestAnEnvironmentFileThatMustBeThereKeepsAServiceFromStarting(t *testing.T) {
	w := &world{}
	root := kubelet(t)
	write(t, root, map[string]string{"/etc/systemd/system/kubelet.service.d/30-must.conf": "[Service]\nEnvironmentFile=/etc/must\nRestart=no\n"})
	m := NewManager(root, w.launch)
	if err := m.Start("kubelet"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("started: %v", err)
	}
	if out, _, _ := systemctl(m, "is-active kubelet"); out != "failed\n" {
		t.Errorf("it is %q", out)
	}
}

func TestPropertiesAreThoseAskedFor(t *testing.T) {
	m := NewManager(kubelet(t), (&world{}).launch)
	out, _, code := systemctl(m, "show --property=LoadState,ActiveState kubelet.service nothing.service")
	want := "LoadState=loaded\nActiveState=inactive\n\nLoadState=not-found\nActiveState=inactive\n"
	if out != want || code != 0 {
		t.Errorf("show printed %q with code %d", out, code)
	}
	if out, _, _ := systemctl(m, "show -p FragmentPath --value kubelet"); out != mainFile+"\n" {
		t.Errorf("the main file is %q", out)
	}
}

func TestCatPrintsTheMainFileAndEveryDropIn(t *testing.T) {
	m := NewManager(kubelet(t), (&world{}).launch)
	out, _, code := systemctl(m, "cat kubelet")
	if code != 0 || !strings.HasPrefix(out, "# "+mainFile+"\n[Unit]") || !strings.Contains(out, "# "+kubeadm+"\n[Service]") {
		t.Errorf("cat printed %q with code %d", out, code)
	}
}

func TestValuesOfAUnitsEnvironmentAreNotShown(t *testing.T) {
	root := kubelet(t)
	write(t, root, map[string]string{"/etc/systemd/system/kubelet.service.d/20-aws.conf": "[Service]\nEnvironment=AWS_SECRET_ACCESS_KEY=swordfish\n"})
	m := NewManager(root, (&world{}).launch)
	for _, line := range []string{"show kubelet", "status kubelet"} {
		if out, _, _ := systemctl(m, line); strings.Contains(out, "swordfish") {
			t.Errorf("systemctl %s shows the secret", line)
		}
	}
}

func TestWhatIsNotKnownIsRefused(t *testing.T) {
	m := NewManager(kubelet(t), (&world{}).launch)
	for line, want := range map[string]string{
		"isolate rescue.target":   `does not know "isolate"`,
		"restart --force kubelet": `does not know the option "--force"`,
		"restart nothing":         "unit nothing.service could not be found",
		"restart":                 "needs a unit",
		"":                        "needs a command",
	} {
		_, errs, code := systemctl(m, line)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("systemctl %s: code %d, %q, want %q", line, code, errs, want)
		}
	}
}

func TestBadUnitFilesAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		"[Service]\nExecStart=/a\nExecStart=/b\n":      "a second ExecStart",
		"[Service]\nDescription=none\n":                "has no ExecStart",
		"[Service]\nExecStart=/a\nRestart=sometimes\n": "not supported",
		"[Service]\nExecStart=/a\nRestartSec=soon\n":   "no duration",
		"[Service]\nExecStart\n":                       "neither a section nor an assignment",
	} {
		root := t.TempDir()
		write(t, root, map[string]string{mainFile: text})
		if err := NewManager(root, (&world{}).launch).Start("kubelet"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestWordsAreSplitAsSystemdDoes(t *testing.T) {
	for line, want := range map[string][]string{
		`a  b`:             {"a", "b"},
		`"a b" 'c d'`:      {"a b", "c d"},
		`A="x y"`:          {"A=x y"},
		`"say \"hi\"" end`: {`say "hi"`, "end"},
		`"" x`:             {"", "x"},
	} {
		got, err := split(line)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
	if _, err := split(`"a`); err == nil {
		t.Error("a quote without end was taken")
	}
	got, err := commandLine("/bin/x $A ${B}c $NONE", map[string]string{"A": "1 '2 3'", "B": "b"})
	if want := []string{"/bin/x", "1", "2 3", "bc"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("command line is %q, %v; want %q", got, err, want)
	}
}

func ExampleManager_Systemctl() {
	m := NewManager(os.DevNull, nil)
	var out bytes.Buffer
	fmt.Println(m.Systemctl([]string{"is-active", "kubelet"}, &out, &out), strings.TrimSpace(out.String())) //nolint:forbidigo // an example prints
	// Output: 4 inactive
}
