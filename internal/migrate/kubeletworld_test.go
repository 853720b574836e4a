package migrate

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/kubeletfile"
)

const (
	flagsFile    = "/var/lib/kubelet/kubeadm-flags.env"
	defaultsFile = "/etc/default/kubelet"
	configFile   = "/var/lib/kubelet/config.yaml"
	dropInFile   = "/etc/systemd/system/kubelet.service.d/10-cloud.conf"
)

// kubeletLife is the process of a simulated kubelet.
type kubeletLife struct {
	pid  int
	args []string
	// renewals are how many more times it renews its lease for somebody who looks; a kubelet does so for ever, and nobody looks for ever.
	renewals int
}

// fate is what becomes of a kubelet that starts with some flags; nil when it lives and changes nothing else.
type fate func(host string, flags map[string]string) *start

// start is how a kubelet starts that does not start well.
type start struct {
	// err is what the service manager says; the kubelet is not there then.
	err error
	// silent is a kubelet that runs and never says anything to the API.
	silent bool
	// then is what it does to its cluster when it has come up.
	then func()
}

// kubeletArgs are the arguments that the files of a host give to its kubelet.
func (w *world) kubeletArgs(host string) []string {
	flags := map[string]string{}
	for _, at := range []string{flagsFile, dropInFile, defaultsFile} {
		data, err := os.ReadFile(w.at(host, at))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			w.t.Error(err)
		}
		have, err := kubeletfile.ParseKubeletFlags(data)
		if err != nil {
			w.t.Errorf("%s on %s: %v", at, host, err)
		}
		maps.Copy(flags, have)
	}
	args := []string{"/usr/bin/kubelet"}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		args = append(args, "--"+name+"="+flags[name])
	}
	return args
}

// kubeletOf is the process of a host's kubelet, which has run since before anybody looked. The world is locked.
func (w *world) kubeletOf(host string) *kubeletLife {
	if w.lives == nil {
		w.lives = map[string]*kubeletLife{}
	}
	if _, known := w.lives[host]; !known {
		w.lastPID++
		w.lives[host] = &kubeletLife{pid: w.lastPID, args: w.kubeletArgs(host)}
	}
	return w.lives[host]
}

// startKubelet ends a host's kubelet and starts another one. The world is locked.
func (w *world) startKubelet(host string) error {
	w.lastPID++
	k := &kubeletLife{pid: w.lastPID, args: w.kubeletArgs(host), renewals: 60}
	w.lives[host] = k
	var s *start
	if w.fate != nil {
		s = w.fate(host, commandline.FlagsOf(k.args))
	}
	switch {
	case s == nil:
		w.heartbeat(host, corev1.ConditionTrue)
		return nil
	case s.err != nil:
		w.lives[host] = nil
		return s.err
	case s.silent:
		k.renewals = 0
		return nil
	}
	w.heartbeat(host, corev1.ConditionTrue)
	s.then()
	return nil
}

func (w *world) kubeletProcesses(host string) []v1.Process {
	k := w.kubeletOf(host)
	if k == nil {
		return nil
	}
	return []v1.Process{{PID: k.pid, StartTicks: uint64(k.pid) * 100, State: "S", Args: k.args}}
}

// renewLeases lets every kubelet that somebody may look at renew its node's lease. The world is locked.
func (w *world) renewLeases() {
	for host, k := range w.lives {
		if k != nil && k.renewals > 0 {
			k.renewals--
			w.nodeLease(host)
		}
	}
}

// heartbeat is what a kubelet says of its node. The world is locked.
func (w *world) heartbeat(host string, status corev1.ConditionStatus) {
	w.changeNode(host, func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.NewTime(w.clock.Now().Truncate(time.Second))}}
	})
}

func (w *world) changeNode(host string, change func(*corev1.Node)) {
	var n corev1.Node
	if !w.api.Get(w.t, "/api/v1/nodes/node-"+host, &n) {
		return
	}
	change(&n)
	w.api.Put(w.t, &n)
}

func (w *world) node(host string) corev1.Node {
	var n corev1.Node
	w.api.Get(w.t, "/api/v1/nodes/node-"+host, &n)
	return n
}

// running is a flag of the kubelet's process on a host.
func (w *world) running(host, flag string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.kubeletOf(host)
	if k == nil {
		return "(no process)"
	}
	return commandline.FlagsOf(k.args)[flag]
}

// external is what a kubelet dies or lives of, for fates.
func external(flags map[string]string) bool {
	return strings.EqualFold(flags["cloud-provider"], "external")
}
