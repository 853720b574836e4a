package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mounted is a machine whose root is a directory.
func mounted(t *testing.T, parts ...string) (Machine, string) {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"etc/kubernetes/manifests", "opt/k8s", "data/kubelet", "usr/bin"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m, err := OpenMounted(MountedRoot{Name: "cp-1", Dir: dir, Parts: parts, Refused: "ask who refused it"})
	if err != nil {
		t.Fatal(err)
	}
	return m, dir
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func TestALinkOfAWholeMachineMeansItsOwnPath(t *testing.T) {
	for _, c := range []struct{ name, to, at, path string }{
		{"an absolute link of a directory", "/data/kubelet", "var-kubelet", "/var-kubelet/config.yaml"},
		{"a relative link of a directory", "data/kubelet", "var-kubelet", "/var-kubelet/config.yaml"},
		{"an absolute link of a file", "/data/kubelet/config.yaml", "etc/config", "/etc/config"},
		{"a link that goes up further than the root", "../../../../data/kubelet", "etc/kubelet", "/etc/kubelet/config.yaml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, dir := mounted(t)
			link(t, c.to, filepath.Join(dir, c.at))
			if err := m.WriteFile(t.Context(), c.path, []byte("a"), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(dir, "data/kubelet/config.yaml"))
			if err != nil || string(got) != "a" {
				t.Errorf("%q, %v", got, err)
			}
			if f, err := m.ReadFile(t.Context(), c.path); err != nil || string(f.Data) != "a" {
				t.Errorf("%q, %v", f.Data, err)
			}
			if err := m.Remove(t.Context(), c.path); err != nil {
				t.Error(err)
			}
			_, err = m.ReadFile(t.Context(), c.path)
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after its end: %v", err)
			}
		})
	}
}

func TestWhatIsNotMountedIsNotAbsent(t *testing.T) {
	m, dir := mounted(t, "/etc/kubernetes")
	link(t, "/data/kubelet", filepath.Join(dir, "etc/kubernetes/kubelet"))
	for _, p := range []string{"/data/kubelet/config.yaml", "/etc/kubernetes/kubelet/config.yaml", "/etc/passwd", "/"} {
		_, err := m.ReadFile(t.Context(), p)
		if !errors.Is(err, ErrOutside) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("reading %s: %v", p, err)
		}
		if err := m.WriteFile(t.Context(), p, nil, 0o600); !errors.Is(err, ErrOutside) {
			t.Errorf("writing %s: %v", p, err)
		}
	}
	if err := m.WriteFile(t.Context(), "/etc/kubernetes/a", nil, 0o600); err != nil {
		t.Error(err)
	}
}

func TestLinksThatNeverEnd(t *testing.T) {
	m, dir := mounted(t)
	link(t, "/b", filepath.Join(dir, "a"))
	link(t, "/a", filepath.Join(dir, "b"))
	if _, err := m.ReadFile(t.Context(), "/a/x"); err == nil || !strings.Contains(err.Error(), "too many levels") {
		t.Errorf("%v", err)
	}
}

func TestWhatHasToBeMountedForAFile(t *testing.T) {
	m, dir := mounted(t)
	link(t, "/opt/k8s", filepath.Join(dir, "etc/k8s"))
	for p, want := range map[string]Place{
		"/etc/kubernetes/manifests/kcm.yaml":    {"/etc/kubernetes/manifests/kcm.yaml", "/etc/kubernetes"}, // a temporary file in there would be a pod
		"/etc/kubernetes/transplant/backup":     {"/etc/kubernetes/transplant/backup", "/etc/kubernetes"},
		"/etc/k8s/a":                            {"/opt/k8s/a", "/opt/k8s"},
		"/data/kubelet/kubeadm-flags.env":       {"/data/kubelet/kubeadm-flags.env", "/data/kubelet"},
		"/data/kubelet":                         {"/data/kubelet", "/data/kubelet"},
		"/nowhere/at/all":                       {"/nowhere/at/all", "/"},
		"/etc/kubernetes/manifests/sub/kcm.yml": {"/etc/kubernetes/manifests/sub/kcm.yml", "/etc/kubernetes"},
	} {
		got, err := m.Place(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, -want +got:\n%s", p, diff)
		}
	}
}

func TestProcessesOfAWholeMachineAreThoseInItsNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("seeing every process' network needs root")
	}
	m, _ := mounted(t)
	const name = "transplant-test-whole"
	cmd, stop := program(t, "wait", t.TempDir(), name)
	got, err := m.Processes(t.Context(), name)
	if err != nil || len(got) != 1 || got[0].PID != cmd.Process.Pid {
		t.Fatalf("%v, %v", got, err)
	}
	stop()
	if got, err := m.Processes(t.Context(), name); err != nil || len(got) != 0 {
		t.Errorf("after its end: %v, %v", got, err)
	}
}

func BenchmarkProcessesOfAWholeMachine(b *testing.B) {
	m, err := OpenMounted(MountedRoot{Name: "cp-1", Dir: "/"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := m.Processes(b.Context(), "kube-controller-manager"); err != nil {
			b.Fatal(err)
		}
	}
}
