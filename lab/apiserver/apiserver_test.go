package apiserver

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/transplant-dev/transplant/lab/edge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client returns a client whose connections end with the test.
func client(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	c, disconnect, err := Connect(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(disconnect)
	return c
}

func startServer(t *testing.T, o Options) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs etcd and a kube-apiserver")
	}
	o.Dir, o.Progress = t.TempDir(), os.Stderr
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func user(t *testing.T, s *Server, name string, groups ...string) kubernetes.Interface {
	t.Helper()
	config, err := s.Config(name, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return client(t, config)
}

func TestEveryUserMayDoEverythingAndTheAuditLogTellsThemApart(t *testing.T) {
	s := startServer(t, Options{Audit: true})
	alice, bob := user(t, s, "alice"), user(t, s, "bob")
	if _, err := alice.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := bob.CoreV1().Nodes().Delete(t.Context(), "n2", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("deleting a node that is not there: %v", err)
	}
	carol := user(t, s, "carol", "")
	if _, err := carol.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without groups: %v, want that it is forbidden", err)
	}
	writes, err := s.Audit()
	if err != nil {
		t.Fatal(err)
	}
	var got []Write
	for _, w := range writes {
		if w.User == "alice" || w.User == "bob" || w.User == "carol" {
			got = append(got, w)
		}
	}
	want := []Write{
		{User: "alice", UserAgent: "lab", Verb: "create", Resource: "nodes", Name: "n1", URI: "/api/v1/nodes", Code: 201},
		{User: "bob", UserAgent: "lab", Verb: "delete", Resource: "nodes", Name: "n2", URI: "/api/v1/nodes/n2", Code: 404},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(time.Time{})); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if !got[0].Accepted() || got[1].Accepted() || got[0].Lease() {
		t.Errorf("%+v and %+v are judged wrongly", got[0], got[1])
	}
	if again, err := s.Audit(); err != nil || len(again) < len(writes) {
		t.Errorf("a second look finds %d writes, %v, after %d", len(again), err, len(writes))
	}
}

func TestAUserCanBeSentThroughAProxy(t *testing.T) {
	s := startServer(t, Options{})
	proxy, err := edge.Start(edge.Options{Name: "alice->kube-apiserver", Listen: "127.0.0.1:0", Target: s.Address()})
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	path, err := s.KubeconfigVia(proxy.Addr(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	config.Timeout = 5 * time.Second
	alice := client(t, config)
	if _, err := alice.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	proxy.Cut()
	if _, err := alice.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the proxy is cut and requests still pass")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig, which holds a key, has mode %v, %v", info.Mode(), err)
	}
	if writes, err := s.Audit(); err != nil || writes != nil {
		t.Errorf("without an audit log there are %d writes, %v", len(writes), err)
	}
}

func TestAServerThatCannotStartSaysWhyAndLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("needs etcd and a kube-apiserver")
	}
	_, err := Start(t.Context(), Options{Dir: t.TempDir(), Flags: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("error is %v, want the reason out of the server's log", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Options{Dir: t.TempDir()}); err == nil {
		t.Error("it started after its context had ended")
	}
	if _, err := Start(t.Context(), Options{Dir: t.TempDir(), Version: "v0.1.0"}); err == nil || !strings.Contains(err.Error(), "v0.1.0 is not among the sets") {
		t.Errorf("error is %v, want that the version is not known", err)
	}
	if _, err := Start(t.Context(), Options{Dir: filepath.Join(t.TempDir(), "file\x00")}); err == nil {
		t.Error("it started in a directory that cannot be")
	}
}

func TestAnAPIThatStandsStillGoesOnAfterwards(t *testing.T) {
	s := startServer(t, Options{})
	alice := user(t, s, "alice")
	_, api := s.Processes()
	if err := api.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	answers := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := alice.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err == nil
	}
	// The signal has arrived when its call returns, and each of the server's threads stops when it is scheduled next.
	for deadline := time.Now().Add(20 * time.Second); answers(); {
		if time.Now().After(deadline) {
			t.Fatal("a server that stands still answers")
		}
	}
	if err := api.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitReady(t.Context()); err != nil {
		t.Error(err)
	}
}
