package pod

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/agent"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAHostIsReadThroughItsPod(t *testing.T) {
	c := newCluster(t, "cp-1", "cp-2")
	c.write("etc/kubernetes/manifests/kcm.yaml", "kind: Pod\n")
	hosts := c.open(nil)
	if len(hosts) != 2 || hosts[0].Name() != "cp-1" {
		t.Fatalf("%v", hosts)
	}
	f, err := hosts[0].ReadFile(t.Context(), "/etc/kubernetes/manifests/kcm.yaml")
	if err != nil || string(f.Data) != "kind: Pod\n" || f.Mode != 0o600 {
		t.Errorf("%+v, %v", f, err)
	}
	names, err := hosts[1].List(t.Context(), "/etc/kubernetes/manifests")
	if err != nil || len(names) != 1 || names[0] != "kcm.yaml" {
		t.Errorf("%v, %v", names, err)
	}
	sum, mode, err := hostaccess.Digest(t.Context(), hosts[0], "/etc/kubernetes/manifests/kcm.yaml")
	if err != nil || sum != hostaccess.SHA256(f.Data) || mode != 0o600 {
		t.Errorf("%s, %v, %v", sum, mode, err)
	}
	offset, within, err := hosts[0].(hostaccess.Clock).Offset(t.Context())
	if err != nil || offset.Abs() > within || within > time.Second {
		t.Errorf("the clock of this machine is %v ahead of itself, to within %v: %v", offset, within, err)
	}
	if !strings.Contains(c.says(), "looking at 2 hosts through pods in kube-system; --host-access=none asks the API alone") {
		t.Error(c.says())
	}
}

func TestErrorsOfAHostKeepWhatTheyAre(t *testing.T) {
	c := newCluster(t, "cp-1")
	c.write("etc/dir/file", "")
	h := c.open(nil)[0]
	for _, e := range []struct {
		path string
		is   error
		says string
	}{
		{"/etc/absent", fs.ErrNotExist, "reading /etc/absent on host cp-1"},
		{"/etc/dir", local.ErrNotRegular, "reading /etc/dir on host cp-1: it is not a regular file"},
	} {
		_, err := h.ReadFile(t.Context(), e.path)
		if !errors.Is(err, e.is) || !strings.Contains(err.Error(), e.says) || strings.Contains(err.Error(), c.root) {
			t.Errorf("%s: %v", e.path, err)
		}
		if hostaccess.IsUnreachable(err) {
			t.Errorf("%s: the host was reached", e.path)
		}
	}
}

func TestNothingIsChangedWithoutAGrant(t *testing.T) {
	c := newCluster(t, "cp-1")
	h := c.open(nil)[0]
	const path = "/etc/kubernetes/manifests/kcm.yaml"
	refused := func(when string, errs ...error) {
		t.Helper()
		for _, err := range errs {
			if !errors.Is(err, agent.ErrNotGranted) || !strings.Contains(err.Error(), "cp-1") {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	refused("before", h.WriteFile(t.Context(), path, nil, 0o600), h.Remove(t.Context(), path), h.RestartKubelet(t.Context()))
	release, err := hostaccess.Grant(t.Context(), h, hostaccess.Need{Write: []string{path, "/etc/kubernetes/transplant/backup"}, Purpose: "step"})
	if err != nil {
		t.Fatal(err)
	}
	if pods := c.pods(); len(pods) != 2 {
		t.Errorf("%v", pods)
	}
	refused(
		"another file",
		h.WriteFile(t.Context(), "/etc/kubernetes/manifests/kas.yaml", nil, 0o600),
		h.WriteFile(t.Context(), "/etc/kubernetes/manifests/kcm.yaml2", nil, 0o600),
		h.RestartKubelet(t.Context()),
	)
	if err := h.WriteFile(t.Context(), path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.WriteFile(t.Context(), "/etc/kubernetes/transplant/backup/a/b", []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(c.root, path)); err != nil || string(data) != "new" {
		t.Errorf("%q, %v", data, err)
	}
	if err := h.Remove(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	release(t.Context())
	refused("afterwards", h.WriteFile(t.Context(), path, nil, 0o600))
	if pods := c.pods(); len(pods) != 1 || !strings.Contains(pods[0], "-look-") {
		t.Errorf("after the release: %v", pods)
	}
}

func TestTheWholeRootIsNeverOpenedForChanges(t *testing.T) {
	h := newCluster(t, "cp-1").open(nil)[0]
	_, err := hostaccess.Grant(t.Context(), h, hostaccess.Need{Write: []string{"/opt/x/y"}})
	if err == nil || !strings.Contains(err.Error(), "never opened") {
		t.Error(err)
	}
}

func TestALinkIsFollowedOnTheHostBeforeItsDirectoryIsMounted(t *testing.T) {
	c := newCluster(t, "cp-1")
	c.write("data/kubelet/keep", "")
	if err := os.Symlink("/data/kubelet", filepath.Join(c.root, "etc/kubelet")); err != nil {
		t.Fatal(err)
	}
	h := c.open(nil)[0]
	release, err := hostaccess.Grant(t.Context(), h, hostaccess.Need{Write: []string{"/etc/kubelet/config.yaml"}})
	if err != nil {
		t.Fatal(err)
	}
	defer release(t.Context())
	if err := h.WriteFile(t.Context(), "/etc/kubelet/config.yaml", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(c.root, "data/kubelet/config.yaml")); err != nil {
		t.Error(err)
	}
}

func TestASessionThatIsCutInTheMiddleOfACall(t *testing.T) {
	c := newCluster(t, "cp-1")
	// A program of the host that is under way when the session is cut. It counts how often it was started.
	c.write("run.sh", "")
	h := c.open(nil)[0].(*host)
	for range 20 { // calls that look, cut at any time
		done := make(chan error, 1)
		go func() {
			_, err := h.List(t.Context(), "/etc/kubernetes")
			done <- err
		}()
		c.cut()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if c.opened < 2 {
		t.Errorf("%d sessions were opened", c.opened)
	}
}

func TestNothingIsDoneTwice(t *testing.T) {
	c := newCluster(t, "cp-1")
	h := c.open(nil)[0]
	release, err := hostaccess.Grant(t.Context(), h, hostaccess.Need{Write: []string{"/etc/kubernetes/a"}})
	if err != nil {
		t.Fatal(err)
	}
	defer release(t.Context())
	var wg sync.WaitGroup
	stop, written := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		const first = time.Millisecond
		after := first // twice as long after each cut: on a busy machine no session would last for a call
		for {
			select {
			case <-stop:
				return
			case <-written:
				after = first
			case <-time.After(after):
				c.cut()
				after *= 2
			}
		}
	})
	at := filepath.Join(c.root, "etc/kubernetes/a")
	for i := range 30 {
		want := strings.Repeat("x", 1000*i)
		if err := h.WriteFile(t.Context(), "/etc/kubernetes/a", []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if have, err := os.ReadFile(at); err != nil || string(have) != want {
			t.Fatalf("write %d: %d bytes, %v", i, len(have), err)
		}
		if err := os.Remove(at); err != nil { // a second try of the same call would bring it back
			t.Fatal(err)
		}
		written <- struct{}{}
	}
	close(stop)
	wg.Wait()
	if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a call was done twice: %v", err)
	}
	if c.opened < 10 {
		t.Errorf("%d sessions were opened: hardly one was cut", c.opened)
	}
}

func TestAnAPIServerThatIsAwayForAWhile(t *testing.T) {
	c := newCluster(t, "cp-1")
	h := c.open(nil)[0]
	c.setDown(true)
	c.cut()
	done := make(chan error, 1)
	go func() {
		_, err := h.List(t.Context(), "/etc/kubernetes")
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("the call did not wait: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	c.setDown(false)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAHostThatIsAwayForGoodIsUnreachable(t *testing.T) {
	c := newCluster(t, "cp-1")
	h := c.open(func(o *Options) { o.Look = 300 * time.Millisecond })[0]
	c.setDown(true)
	c.cut()
	_, err := h.ReadFile(t.Context(), "/etc/passwd")
	if !hostaccess.IsUnreachable(err) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no answer in 300ms") {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := h.ReadFile(ctx, "/etc/passwd"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's own limit: %v", err)
	}
	c.setDown(false)
}

func TestAPodThatIsLostIsMadeAnew(t *testing.T) {
	c := newCluster(t, "cp-1")
	h := c.open(nil)[0]
	if err := c.kube.CoreV1().Pods("kube-system").Delete(t.Context(), c.pods()[0], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.List(t.Context(), "/etc/kubernetes"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(c.says(), "the pod on host cp-1 is gone (it was deleted): making another one") {
		t.Error(c.says())
	}
	// Evicted: the object stays.
	p, err := c.kube.CoreV1().Pods("kube-system").Get(t.Context(), c.pods()[0], metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "the node was low on memory"}
	if _, err := c.kube.CoreV1().Pods("kube-system").UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.end(p.Name)
	if _, err := h.List(t.Context(), "/etc/kubernetes"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(c.says(), "Evicted: the node was low on memory") || len(c.pods()) != 1 {
		t.Errorf("%s\n%v", c.says(), c.pods())
	}
}

func TestATunnelIsEndToEnd(t *testing.T) {
	c := newCluster(t, "cp-1")
	h := c.open(nil)[0].(hostaccess.Dialer)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization")+strings.Repeat("m", 1<<20))
	}))
	s.Listener = listener(t)
	s.StartTLS()
	defer s.Close()
	pool := s.Client().Transport.(*http.Transport).TLSClientConfig
	client := &http.Client{Transport: &http.Transport{DialContext: h.DialContext, TLSClientConfig: &tls.Config{RootCAs: pool.RootCAs}, DisableKeepAlives: true}}
	for range 5 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer secret")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !strings.HasPrefix(string(data), "Bearer secretmmm") || len(data) != 1<<20+13 {
			t.Errorf("%d bytes, %v", len(data), err)
		}
	}
	free := listener(t)
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.DialContext(t.Context(), "tcp", address); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestPodsThatDoNotStart(t *testing.T) {
	waiting := func(reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}},
			}
		}
	}
	for _, k := range []struct {
		name   string
		status func(*corev1.Pod)
		says   []string
	}{
		{"no such image", waiting("ImagePullBackOff", "not found"), []string{"image image cannot be pulled", "not found", "--host-image"}},
		{"an image that must be there and is not", waiting("ErrImageNeverPull", "x"), []string{"cannot be used", "--host-image"}},
		{"the kubelet refuses it", func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "Node didn't have enough resource: pods", StartTime: p.Status.StartTime}
		}, []string{"ended at once: OutOfpods: Node didn't have enough resource: pods"}},
		{"it never gets further", waiting("ContainerCreating", ""), []string{"does not run after 400ms: pod ", " on node cp-1: ContainerCreating"}},
	} {
		t.Run(k.name, func(t *testing.T) {
			c := newCluster(t, "cp-1")
			c.status = k.status
			h := c.open(func(o *Options) { o.Start = 400 * time.Millisecond })[0]
			begun := time.Now()
			_, err := h.ReadFile(t.Context(), "/etc/passwd")
			if !hostaccess.IsUnreachable(err) || time.Since(begun) > 200*time.Millisecond { // it is known by now
				t.Errorf("after %v: %v", time.Since(begun), err)
			}
			for _, w := range append(k.says, "reaching host cp-1: starting a pod on node cp-1") {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("it does not say %q: %v", w, err)
				}
			}
		})
	}
}

// No wait is silent. A pod that does not start was waited for two minutes without a word.
func TestItIsSaidWhichHostsAreWaitedFor(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "cp-1")
	c.status = func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}},
		}
	}
	var mu sync.Mutex
	var told []string
	c.open(func(o *Options) {
		o.Start = 2*impatience + 2*time.Second
		o.Tell = func(s string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, s)
		}
	})
	mu.Lock()
	defer mu.Unlock()
	is := func(s string) bool {
		return strings.HasPrefix(s, "still waiting for 1 of 1 host, host cp-1 among them: ") && strings.Contains(s, "ContainerCreating")
	}
	if !slices.ContainsFunc(told, is) {
		t.Errorf("it was told %q", told)
	}
}

func TestPodsThatAreRefused(t *testing.T) {
	for message, hint := range map[string]string{
		`violates PodSecurity "restricted:latest": privileged`:                                       "pod-security.kubernetes.io/enforce=privileged",
		`admission webhook "gate" denied the request: no hostPath`:                                   "exempt pods with the label transplant.dev/host-access",
		`User "me" cannot create resource "pods" in API group "" in the namespace "kube-system"`:     "deploy/rbac/host-access.yaml",
		`exceeded quota: pods, requested: count/pods=1, used: count/pods=10, limited: count/pods=10`: "ResourceQuota",
	} {
		c := newCluster(t, "cp-1")
		c.kube.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "x", errors.New(message))
		})
		_, err := c.open(nil)[0].ReadFile(t.Context(), "/etc/passwd")
		if !hostaccess.IsUnreachable(err) || !strings.Contains(err.Error(), hint) || !strings.Contains(err.Error(), "--host-access=manual") {
			t.Errorf("%s: %v", message, err)
		}
	}
}

func TestAHostWithPrivateMountsIsMountedAsItIs(t *testing.T) {
	c := newCluster(t, "cp-1")
	c.status = func(p *corev1.Pod) {
		if p.Spec.Containers[0].VolumeMounts[1].MountPropagation != nil {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "CreateContainerError", Message: `path "/" is mounted on "/" but it is not a shared or slave mount`}}}}
			return
		}
		c.status = nil
		c.mu.Unlock()
		c.start(p)
		c.mu.Lock()
	}
	if _, err := c.open(nil)[0].List(t.Context(), "/etc/kubernetes"); err != nil {
		t.Error(err)
	}
}

func TestHostsAreTheLinuxNodesThatAreSelected(t *testing.T) {
	c := newCluster(t, "cp-1", "worker-1")
	for _, n := range []*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "windows", Labels: map[string]string{corev1.LabelOSStable: "windows"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "virtual", Labels: map[string]string{"type": "virtual-kubelet"}}},
		{
			ObjectMeta: metav1.ObjectMeta{Name: "marked", Labels: map[string]string{"role": "x"}},
			Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux"}},
		},
	} {
		if _, err := c.kube.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	names := func(hosts []hostaccess.Host) (out string) {
		for _, h := range hosts {
			out += h.Name() + " "
		}
		return out
	}
	if got := names(c.open(nil)); got != "cp-1 marked worker-1 " {
		t.Error(got)
	}
	_, _, err := Open(t.Context(), Options{Kube: c.kube, exec: c.exec, Selector: "role=none"})
	if err == nil || !strings.Contains(err.Error(), `no Linux node has the labels "role=none"`) {
		t.Error(err)
	}
}

func TestAPodServesTheNextStepThatNeedsTheSameDirectories(t *testing.T) {
	c := newCluster(t, "cp-1")
	c.write("var/lib/kubelet/keep", "")
	h := c.open(func(o *Options) { o.Linger = time.Hour })[0]
	changed := func(path string) string {
		t.Helper()
		release, err := hostaccess.Grant(t.Context(), h, hostaccess.Need{Write: []string{path}})
		if err != nil {
			t.Fatal(err)
		}
		defer release(t.Context())
		if err := h.WriteFile(t.Context(), path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		pods := slices.DeleteFunc(c.pods(), func(name string) bool { return strings.Contains(name, "-look-") })
		return strings.Join(pods, " ")
	}
	first := changed("/etc/kubernetes/a")
	if again := changed("/etc/kubernetes/b"); again != first {
		t.Errorf("the same directory: %s, then %s", first, again)
	}
	if err := h.WriteFile(t.Context(), "/etc/kubernetes/b", nil, 0o600); !errors.Is(err, agent.ErrNotGranted) {
		t.Errorf("between two steps: %v", err)
	}
	if other := changed("/var/lib/kubelet/config.yaml"); other == first || !strings.Contains(other, first) {
		t.Errorf("another directory: %s, then %s", first, other)
	}
	if pods := c.pods(); len(pods) != 2 {
		t.Errorf("one pod is kept at most: %v", pods)
	}
}

func TestAPodThatNobodyNeedsAnyLongerIsTakenAway(t *testing.T) {
	c := newCluster(t, "cp-1")
	h := c.open(func(o *Options) { o.Linger = 10 * time.Millisecond })[0]
	release, err := hostaccess.Grant(t.Context(), h, hostaccess.Need{Write: []string{"/etc/kubernetes/a"}})
	if err != nil {
		t.Fatal(err)
	}
	release(t.Context())
	eventually(t, "the change pod to be gone", func() bool { return len(c.pods()) == 1 })
}

func TestAHostThatCannotBeAskedIsSpokenOfNowAndThen(t *testing.T) {
	var said []string
	a := &access{Options: Options{Tell: func(s string) { said = append(said, s) }}, told: map[string]time.Time{}}
	refused := errors.New("connection refused")
	a.reportUnreachable("node-1", impatience, refused) // it may be a moment
	a.reportUnreachable("node-1", 7*time.Second, refused)
	a.reportUnreachable("node-1", 8*time.Second, refused) // the other pod of the same host
	a.reportUnreachable("node-2", 9*time.Second, refused)
	a.told["node-1"] = time.Now().Add(-2 * reminder)
	a.reportUnreachable("node-1", 70*time.Second, refused)
	want := []string{
		"host node-1 cannot be asked for 7s now, trying again: connection refused",
		"host node-2 cannot be asked for 9s now, trying again: connection refused",
		"host node-1 cannot be asked for 1m10s now, trying again: connection refused",
	}
	if !slices.Equal(said, want) {
		t.Errorf("said was %q, not %q", said, want)
	}
}
