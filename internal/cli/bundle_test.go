package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	bundlecmd "github.com/transplant-dev/transplant/internal/cli/bundle"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/snapshot"
)

// unpacked are the files of a bundle, by the names in its directory.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		name, inside := strings.CutPrefix(h.Name, "transplant-bundle/")
		if !inside || h.Mode != 0o600 || h.Typeflag != tar.TypeReg {
			t.Errorf("entry %q has mode %o and type %c", h.Name, h.Mode, h.Typeflag)
		}
		files[name] = string(text)
	}
}

func manifestOf(t *testing.T, files map[string]string) v1.BundleManifest {
	t.Helper()
	var m v1.BundleManifest
	if err := json.Unmarshal([]byte(files["manifest.json"]), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// missing are the parts that a bundle says it lacks.
func missing(t *testing.T, files map[string]string) string {
	t.Helper()
	var out []string
	for _, gap := range manifestOf(t, files).Missing {
		out = append(out, gap.What+": "+gap.Error)
	}
	return strings.Join(out, "\n")
}

// logging has the pods of a server answer for their logs. What is there already answers first.
func logging(server *apitest.Server, write func(w http.ResponseWriter, r *http.Request)) {
	before := server.Intercept
	server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if before != nil && before(w, r) {
			return true
		}
		if !strings.HasSuffix(r.URL.Path, "/log") {
			return false
		}
		w.Header().Set("Content-Type", "text/plain")
		write(w, r)
		return true
	}
}

func (c *live) bundle(args ...string) (result, string) {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "bundle.tar.gz")
	return c.run(append([]string{"bundle", "--out", path}, args...)...), path
}

func TestABundleHoldsWhatItTakesToHelp(t *testing.T) {
	c := newLive(t)
	c.journal(v1.RunApplying, 3, 1)
	logging(c.api, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("timestamps") != "true" || q.Get("tailLines") != "7" || q.Get("limitBytes") == "" || q.Get("sinceTime") != "2026-11-21T11:50:00Z" {
			t.Errorf("the log is asked for with %s", r.URL.RawQuery)
		}
		_, _ = io.WriteString(w, "2026-11-21T12:00:00Z container "+q.Get("container")+" of "+r.URL.Path+", previous "+q.Get("previous")+"\n")
	})
	restarted := &corev1.Pod{}
	const path = "/api/v1/namespaces/kube-system/pods/kube-controller-manager-node-cp-1"
	if !c.api.Get(t, path, restarted) {
		t.Fatal("no pod of a kube-controller-manager")
	}
	restarted.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: component.KCM, RestartCount: 2}}
	old, now := metav1.NewTime(client.Now().Add(-time.Hour)), metav1.NewTime(client.Now().Add(-time.Minute))
	about := func(kind, name string) corev1.ObjectReference { return corev1.ObjectReference{Kind: kind, Name: name} }
	c.api.Put(t, restarted,
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "kube-system"}, Reason: "BackOff", InvolvedObject: about("Pod", "x"), LastTimestamp: now},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "kube-system"}, Reason: "Older", InvolvedObject: about("Pod", "x"), LastTimestamp: old},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}, Reason: "NodeNotReady", InvolvedObject: about("Node", "n"), LastTimestamp: now},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "default"}, Reason: "Killing", InvolvedObject: about("Pod", "shop"), LastTimestamp: now},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "coredns", Namespace: "kube-system"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Command: []string{"coredns"}}}},
		})
	before := len(c.api.Writes())
	asked := c.api.Record()
	r, out := c.bundle("--since", "2026-11-21T11:50:00Z", "--tail", "7")
	if r.code != exitcode.OK || r.out != out+"\n" {
		t.Fatal(r.text(nil))
	}
	files := unpacked(t, out)
	var names []string
	for name := range files {
		names = append(names, name)
		if !strings.Contains(r.errOut, "  "+name+" ") && name != "manifest.json" {
			t.Errorf("%s is not listed:\n%s", name, r.errOut)
		}
	}
	slices.Sort(names)
	want := []string{
		"check.json", "events.json", "journal.json", "leases.json", "logs/kube-apiserver-1.log", "logs/kube-apiserver-2.log", "logs/kube-controller-manager-1-previous.log",
		"logs/kube-controller-manager-1.log", "logs/kube-controller-manager-2.log", "manifest.json", "node-events.json", "plan.json", "pods.json", "snapshot.json",
		"status.json", "timeline.json", "versions.json",
	}
	if !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
	for name, says := range map[string]string{
		"logs/kube-controller-manager-1-previous.log": "pods/kube-controller-manager-node-cp-1/log, previous true", "status.json": `"run": "20261121-120000"`,
		"events.json": "BackOff", "node-events.json": "NodeNotReady", "leases.json": "cp-1_x", "pods.json": `"restarts": 2`, "versions.json": "v1.26.0",
		"timeline.json": `"kind": "Timeline"`, "check.json": `"kind": "CheckReport"`, "plan.json": `"kind": "Plan"`, "journal.json": `"kind": "Journal"`,
	} {
		if !strings.Contains(files[name], says) {
			t.Errorf("%s does not say %q:\n%.2000s", name, says, files[name])
		}
	}
	if text := files["events.json"] + files["node-events.json"]; strings.Contains(text, "Older") || strings.Contains(text, "Killing") {
		t.Errorf("events from before, or of others:\n%s", text)
	}
	for _, says := range []string{"saved " + out, "look through it before you hand it on", "log of kube-controller-manager, pod kube-controller-manager-node-cp-1 on node node-cp-1"} {
		if !strings.Contains(r.errOut, says) {
			t.Errorf("it does not say %q:\n%s", says, r.errOut)
		}
	}
	m := manifestOf(t, files)
	if m.TypeMeta != v1.Type(v1.KindBundleManifest) || m.Run != "20261121-120000" || m.Cluster.UID != apitest.UID || len(m.Files) != len(want)-1 || len(m.Missing) > 0 {
		t.Errorf("manifest %+v", m)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	saved := file(t, "snapshot.json", files["snapshot.json"])
	if _, err := snapshot.Load(strings.NewReader(files["snapshot.json"])); err != nil {
		t.Error(err)
	}
	if judged := transplant(t, "check", "--from-snapshot", saved); !strings.Contains(judged.out, "passed") {
		t.Errorf("the snapshot of the bundle is not judged:\n%s", judged.text(nil))
	}
	for _, right := range asked.Rights() {
		if right.Resource == "secrets" {
			t.Errorf("a Secret was asked for: %s", right)
		}
	}
	if writes := c.api.Writes(); len(writes) > before {
		t.Errorf("something was written: %q", writes[before:])
	}
}

// TestABundleSaysAsDataWhatIsInIt: the manifest on standard output is the one in the file, and replaces a file that is there.
func TestABundleSaysAsDataWhatIsInIt(t *testing.T) {
	c := newLive(t)
	logging(c.api, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a line\n") })
	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if err := os.WriteFile(path, []byte("an older one"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := c.run("bundle", "--out", path, "-o", "json", "--max-size", "20MiB")
	files := unpacked(t, path)
	if r.code != exitcode.OK || r.out != files["manifest.json"] {
		t.Errorf("code %d, printed:\n%s\nin the file:\n%s", r.code, r.out, files["manifest.json"])
	}
	m := manifestOf(t, files)
	notes := strings.Join(m.Notes, "\n")
	if m.Limits.MaxBytes != 20<<20 || files["journal.json"] != "" || !strings.Contains(notes, "journal.json is not there: no migration was started") {
		t.Errorf("manifest %+v", m)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestABundleIsRefusedBeforeAnythingIsRead(t *testing.T) {
	for line, says := range map[string]string{
		"bundle --out none/b.tar.gz": "there is no directory none", "bundle --max-size much": `--max-size "much": give a number of bytes, such as 50Mi`,
		"bundle --max-size 1Ki": "give 1Mi or more", "bundle --timeout 0s": `"0s" for --timeout: give a length of time above 0`, "bundle --tail 0": "--tail 0: give a number of lines",
		"bundle --since soon": `--since "soon": give a duration`, "bundle a": "takes no argument",
		"bundle --seed-namespace=cluster-x":                               "a bundle reads no Secret, and a hosted cluster is reached by one unless its kubeconfig is named",
		"bundle --seed-namespace=cluster-x --kubeconfig=k --cloud=aws":    "--cloud would have no effect",
		"bundle --seed-direct":                                            "--seed-direct needs --seed-namespace",
		"bundle --from-snapshot x.yaml":                                   "unknown flag: --from-snapshot",
		"bundle --kubeconfig=/none/of/them --out /dev/null/bundle.tar.gz": "/dev/null",
		"bundle --kubeconfig=/none/of/them --out /tmp":                    "writing /tmp: it is a directory",
	} {
		r := transplant(t, strings.Fields(line)...)
		fails(t, r, exitcode.Error, says)
		if r.out != "" {
			t.Errorf("%s: %s", line, r.out)
		}
	}
}

// TestABundleIsSavedWithoutWhatMayNotBeRead, and says so, on standard error and in the file.
func TestABundleIsSavedWithoutWhatMayNotBeRead(t *testing.T) {
	c := newLive(t)
	for _, denied := range [][2]string{{"get", "pods/log"}, {"list", "nodes"}, {"list", "events"}} {
		c.api.Deny(denied[0], denied[1])
	}
	r, out := c.bundle()
	fails(t, r, exitcode.Error, "missing: versions.json: listing the Nodes: nodes is forbidden", "missing: events.json: ", `cannot get resource "pods/log"`,
		"error: "+out+" is saved and not complete: 7 parts could not be read (versions.json, events.json, node-events.json, ", "manifest.json says why")
	files := unpacked(t, out)
	if files["snapshot.json"] == "" || files["pods.json"] == "" || files["events.json"] != "" || strings.Count(missing(t, files), "pods/log") != 4 {
		t.Errorf("missing:\n%s", missing(t, files))
	}
}

// TestALogThatDoesNotEndIsReadForItsTime: a kubelet that hangs holds up neither the other logs nor the command.
func TestALogThatDoesNotEndIsReadForItsTime(t *testing.T) {
	c := newLive(t)
	usual := bundlecmd.LogTimeout
	t.Cleanup(func() { bundlecmd.LogTimeout = usual })
	bundlecmd.LogTimeout = 2 * time.Second
	logging(c.api, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "the first line\nhalf of the sec")
		if strings.Contains(r.URL.Path, "controller-manager-node-cp-2") {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})
	started := time.Now()
	r, out := c.bundle()
	fails(t, r, exitcode.Error, "log of kube-controller-manager, pod kube-controller-manager-node-cp-2 on node node-cp-2: it did not end within 2s; what came until then is kept")
	files := unpacked(t, out)
	if text := files["logs/kube-controller-manager-2.log"]; text != "the first line\nhalf of the ...\n" {
		t.Errorf("the log that hung: %q", text)
	}
	if text := files["logs/kube-controller-manager-1.log"]; !strings.HasPrefix(text, "the first line\nhalf of the ") || len(manifestOf(t, files).Missing) != 1 {
		t.Errorf("another log: %q, missing:\n%s", text, missing(t, files))
	}
	if took := time.Since(started); took > time.Minute {
		t.Errorf("it took %s", took)
	}
}

// TestABundleEndsWithItsTime: what was read until then is saved.
func TestABundleEndsWithItsTime(t *testing.T) {
	c := newLive(t)
	logging(c.api, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	r, out := c.bundle("--timeout", "2s")
	fails(t, r, exitcode.Timeout, "with a larger --timeout the same command saves it, too", "the time was over before it was read")
	files := unpacked(t, out)
	if files["check.json"] != "" || len(manifestOf(t, files).Notes) == 0 || !strings.Contains(missing(t, files), "snapshot.json: the time was over") {
		t.Errorf("missing:\n%s", missing(t, files))
	}
}

// TestTheAPIServerMayGoAwayHalfWay: the bundle has what was read before.
func TestTheAPIServerMayGoAwayHalfWay(t *testing.T) {
	c := newLive(t)
	var gone atomic.Bool
	var front *httptest.Server
	front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/kube-system/leases") && !r.URL.Query().Has("fieldSelector") && !gone.Swap(true) {
			if err := front.Listener.Close(); err != nil {
				t.Error(err)
			}
		}
		if gone.Load() {
			panic(http.ErrAbortHandler) // the connection ends
		}
		c.api.ServeHTTP(w, r)
	}))
	t.Cleanup(front.CloseClientConnections)
	k, err := clientcmd.LoadFromFile(c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	k.Clusters["test"].Server = front.URL
	if err := clientcmd.WriteToFile(*k, c.kubeconfig); err != nil {
		t.Fatal(err)
	}
	r, out := c.bundle()
	fails(t, r, exitcode.Error, "is saved and not complete", "when the API server answers again, the same command saves it, too")
	files := unpacked(t, out)
	if files["versions.json"] == "" || files["pods.json"] == "" || files["leases.json"] != "" || !strings.Contains(missing(t, files), "leases.json: ") {
		t.Errorf("missing:\n%s", missing(t, files))
	}
}

// TestAnInterruptedBundleLeavesNothing: no half of a file is where a whole one was asked for.
func TestAnInterruptedBundleLeavesNothing(t *testing.T) {
	c := newLive(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	logging(c.api, func(_ http.ResponseWriter, r *http.Request) {
		interrupt()
		<-r.Context().Done()
	})
	dir := t.TempDir()
	r := transplantWith(ctx, t, "bundle", "--out", filepath.Join(dir, "b.tar.gz"), "--kubeconfig", c.kubeconfig, "--host-access=local:"+c.dir)
	left, err := os.ReadDir(dir)
	if r.code != exitcode.Interrupted || r.out != "" || err != nil || len(left) > 0 {
		t.Errorf("%v, %v\n%s", left, err, r.text(nil))
	}
}

// overTLS writes a kubeconfig that reaches a server by https, as the Secret of a seed has it.
func overTLS(t *testing.T, server string) string {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	return apitest.WriteKubeconfig(t, apitest.OverTLS(t, proxy, "admin", clientcmdapi.AuthInfo{Token: "a-token"}))
}

// TestABundleOfAHostedControlPlane: its pods are those of the seed's namespace, and no Secret is read in either cluster.
func TestABundleOfAHostedControlPlane(t *testing.T) {
	s := newSeededJournal(t)
	s.begin()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "controller-manager-1", Namespace: seededNamespace}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Command: []string{component.KCM, "--v=2"}}}
	s.seed.Put(t, p, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "admin-kubeconfig", Namespace: seededNamespace}, Data: map[string][]byte{"kubeconfig": []byte("x")}},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: seededNamespace}, Reason: "Unhealthy", LastTimestamp: metav1.NewTime(client.Now())})
	s.user.Put(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-of-the-cluster"}})
	logging(s.seed, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "log of "+r.URL.Path+"\n") })
	inSeed, inUser := s.seed.Record(), s.user.Record()
	out := filepath.Join(t.TempDir(), "b.tar.gz")
	fails(t, s.run("bundle", "--out", out), exitcode.Error, "has a server that is not reached by https") // a file that comes from a Secret is trusted as little
	r := transplant(t, "bundle", "--out", out, "--kubeconfig", overTLS(t, s.user.URL), s.flags[0], s.flags[1], s.flags[2], s.flags[3])
	if r.code != exitcode.OK || r.out != out+"\n" {
		t.Fatal(r.text(nil))
	}
	files := unpacked(t, out)
	for name, says := range map[string]string{
		"logs/kube-controller-manager-1.log": "log of /api/v1/namespaces/cluster-x/pods/controller-manager-1/log", "journal.json": `"run": "20261121-120000"`,
		"status.json": `"kind": "Status"`, "timeline.json": `"kind": "Timeline"`, "events.json": "Unhealthy",
		"versions.json": "worker-of-the-cluster", "snapshot.json": `"kind": "Snapshot"`,
		"check.json": `"kind": "CheckReport"`, "cluster-leases.json": `"kind": "BundleLeases"`, "plan.json": `"part": "handover"`,
	} {
		if !strings.Contains(files[name], says) {
			t.Errorf("%s does not say %q:\n%.2000s", name, says, files[name])
		}
	}
	for _, right := range slices.Concat(inSeed.Rights(), inUser.Rights()) {
		if right.Resource == "secrets" {
			t.Errorf("a Secret was asked for: %s", right)
		}
	}
	if !strings.Contains(r.errOut, "look through it") {
		t.Error(r.text(nil))
	}
}
