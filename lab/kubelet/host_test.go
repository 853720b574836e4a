package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	testNode = "ip-10-0-0-11.ec2.internal"
	podKCM   = "kube-controller-manager-" + testNode
	kcmFile  = "kube-controller-manager.yaml"
)

// quick is the short profile, ten times as fast.
func quick() Profile {
	return Profile{
		Name:           "test",
		FileCheck:      300 * time.Millisecond,
		InvalidAfter:   200 * time.Millisecond,
		StopDelay:      Range{10 * time.Millisecond, 20 * time.Millisecond},
		MaxGrace:       400 * time.Millisecond,
		StartGap:       Range{400 * time.Millisecond, 500 * time.Millisecond},
		StatusDelay:    10 * time.Millisecond,
		MirrorSync:     50 * time.Millisecond,
		ExitSeen:       30 * time.Millisecond,
		BackOff:        time.Second,
		BackOffMax:     2 * time.Second,
		BackOffReset:   10 * time.Second,
		SetupRetry:     50 * time.Millisecond,
		ProbeMax:       50 * time.Millisecond,
		NodeStatus:     50 * time.Millisecond,
		LeaseRenew:     50 * time.Millisecond,
		ServiceRestart: 100 * time.Millisecond,
	}
}

func options(dir string) Options {
	return Options{
		HostDir: dir, HostName: "cp-1", NodeName: testNode, Address: "127.0.0.1", InternalIP: "10.0.0.11",
		Env: []string{partVariable + "=program", "HOME=/nonexistent"},
		ResolveImage: func(image string) (string, error) {
			if strings.HasPrefix(image, "registry.k8s.io/") {
				return os.Executable()
			}
			return "", errors.New("no such image")
		},
		Profile: quick(),
	}
}

// host is a host under test.
type host struct {
	*Kubelet
	t   *testing.T
	dir string
}

// newHost makes a host for a test, which runs next to the others from here.
func newHost(t *testing.T, change func(*Options)) *host {
	t.Helper()
	t.Parallel()
	o := options(t.TempDir())
	if change != nil {
		change(&o)
	}
	k, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Stop(context.Background()); err != nil {
			t.Errorf("stopping the host: %v", err)
		}
	})
	return &host{Kubelet: k, t: t, dir: o.HostDir}
}

func (h *host) start() *host {
	h.t.Helper()
	if err := h.Start(context.Background()); err != nil {
		h.t.Fatal(err)
	}
	return h
}

func (h *host) path(elements ...string) string {
	return filepath.Join(append([]string{h.dir}, elements...)...)
}

// write replaces a file of the host by renaming, as a careful tool does.
func (h *host) write(name, content string) {
	h.t.Helper()
	path := h.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	temp := h.path(".writing")
	if err := os.WriteFile(temp, []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Rename(temp, path); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) manifest(name, content string) { h.t.Helper(); h.write(manifestDir+"/"+name, content) }

func (h *host) remove(name string) {
	h.t.Helper()
	if err := os.Remove(h.path(name)); err != nil {
		h.t.Fatal(err)
	}
}

// kcm is a manifest of a controller manager with some more flags.
func kcm(flags ...string) string {
	m := `apiVersion: v1
kind: Pod
metadata:
  name: kube-controller-manager
  namespace: kube-system
  labels: {component: kube-controller-manager}
spec:
  hostNetwork: true
  containers:
  - name: kube-controller-manager
    image: registry.k8s.io/kube-controller-manager:v1.26.0
    command:
    - /usr/local/bin/kube-controller-manager
`
	for _, f := range flags {
		m += "    - " + f + "\n"
	}
	return m
}

// eventually waits for a condition and tells what was found instead.
func eventually(t *testing.T, what string, ok func() (bool, any)) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for {
		good, found := ok()
		if good {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waiting for %s: found %+v", what, found)
		}
	}
}

// throughout checks that something stays as it is for a while.
func throughout(t *testing.T, d time.Duration, what string, ok func() (bool, any)) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(d); ; {
		if good, found := ok(); !good {
			t.Fatalf("%s: found %+v", what, found)
		}
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
}

// container returns the first container of the only pod, or of the pod with that name.
func (h *host) container() ContainerInfo {
	pods := h.Pods()
	if len(pods) != 1 {
		return ContainerInfo{}
	}
	return pods[0].Containers[0]
}

// running waits for the only pod to run a process other than the given ones.
func (h *host) running(but ...int) ContainerInfo {
	h.t.Helper()
	var c ContainerInfo
	eventually(h.t, "a new process", func() (bool, any) {
		c = h.container()
		for _, pid := range but {
			if c.PID == pid {
				return false, h.Pods()
			}
		}
		return c.PID != 0, h.Pods()
	})
	return c
}

func (h *host) hash() string {
	if pods := h.Pods(); len(pods) == 1 {
		return pods[0].Hash
	}
	return ""
}

func (h *host) sighting(name string) sighting {
	h.t.Helper()
	var s sighting
	eventually(h.t, "the program's sighting", func() (bool, any) {
		data, err := os.ReadFile(h.path(name))
		if err != nil {
			return false, err
		}
		return json.Unmarshal(data, &s) == nil, string(data)
	})
	return s
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
