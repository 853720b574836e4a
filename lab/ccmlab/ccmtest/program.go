package ccmtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/poll"
)

// OnVersions runs a test against the lab's API server, or against all those of proven.VersionsOf for a provider.
func OnVersions(t *testing.T, provider string, all bool, test func(t *testing.T, version string)) {
	t.Helper()
	versions := []string{apiserver.DefaultVersion}
	if all {
		versions = proven.VersionsOf(provider)
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) { test(t, version) })
	}
}

// ProgramOptions say which program of a provider runs, and how.
type ProgramOptions struct {
	// Version is that of the API server; empty for apiserver.DefaultVersion.
	Version string
	// Provider is the value of --cloud-provider.
	Provider string
	// Program builds the cloud-controller-manager, unless that was done, and returns its path.
	Program func() (string, error)
	// CloudConfig is what its cloud config says.
	CloudConfig []byte
	// Env and Flags are more than each program gets.
	Env, Flags []string
}

// Program is a provider's cloud-controller-manager at work on a real API server.
type Program struct {
	*process.Process

	Log   string
	Admin kubernetes.Interface
}

// StartProgram starts a program, which ends with the test. It reaches no cloud but one on this machine.
func StartProgram(t *testing.T, o ProgramOptions) *Program {
	t.Helper()
	dir := t.TempDir()
	api, admin := API(t, apiserver.Options{Version: o.Version}) // short tests end here
	program, err := o.Program()
	if err != nil {
		t.Fatal(err)
	}
	file := WriteFile(t, dir, "cloud-config", o.CloudConfig)
	m, err := ccmlab.Start(ccmlab.Options{
		API: api, Name: "manager", Program: program, Dir: dir, Env: append([]string{"HTTPS_PROXY=http://127.0.0.1:9"}, o.Env...),
		Flags: append([]string{
			"--v=2", "--cloud-provider=" + o.Provider, "--cloud-config=" + file, "--cluster-name=lab", "--allocate-node-cidrs=true",
			"--configure-cloud-routes=true", "--cluster-cidr=10.244.0.0/16", "--node-monitor-period=500ms",
			"--node-deletion-grace-after-takeover=0",
		}, o.Flags...),
	})
	if err != nil {
		t.Fatal(err)
	}
	ShowLog(t, "manager", m.Log)
	t.Cleanup(func() {
		_ = m.Signal(syscall.SIGINT) // it may have ended
		<-m.Done()
	})
	return &Program{m.Process, m.Log, admin}
}

// WriteFile writes a file that only its owner reads, and returns its path.
func WriteFile(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Join adds a node as a kubelet does, with the range of pods that kube-controller-manager gives it; empty for none.
func (p *Program) Join(t *testing.T, name, podCIDR string) {
	t.Helper()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}},
	}
	if podCIDR != "" {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = podCIDR, []string{podCIDR}
	}
	if _, err := p.Admin.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.SetReady(t, name, corev1.ConditionTrue)
}

// SetReady writes the condition Ready of a node.
func (p *Program) SetReady(t *testing.T, name string, status corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test"}]}}`, status)
	nodes := p.Admin.CoreV1().Nodes()
	_, err := nodes.Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

// UntilNode waits until a node is as it should be.
func (p *Program) UntilNode(t *testing.T, name, what string, isIt func(*corev1.Node) bool) {
	t.Helper()
	poll.EventuallyComplete(t, "node "+name+" to be "+what, func(ctx context.Context) string {
		n, err := p.Admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil || !isIt(n) {
			return fmt.Sprint("it is not, error ", err)
		}
		return ""
	})
}

// UntilLog waits until the program's log has a text. It must not have the secret at that time, unless that is empty.
func (p *Program) UntilLog(t *testing.T, says, secret string) {
	t.Helper()
	poll.EventuallyComplete(t, fmt.Sprintf("the log to have %q", says), func(context.Context) string {
		text, err := os.ReadFile(p.Log)
		if err != nil || !strings.Contains(string(text), says) {
			return fmt.Sprint("it has not, error ", err)
		}
		if secret != "" && strings.Contains(string(text), secret) {
			return "it has the secret"
		}
		return ""
	})
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}
