package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
	"github.com/transplant-dev/transplant/internal/snapshot"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

const manifests = "/etc/kubernetes/manifests/"

// skipping is a clock on which waiting takes no time: whoever waits finds the time passed, and the world a little older.
type skipping struct {
	*clocktesting.FakeClock
	w *world
}

func (c skipping) After(d time.Duration) <-chan time.Time {
	ch := c.FakeClock.After(d)
	c.Step(max(d, 2*time.Second)) // looks in between would find nothing else
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.catchUp()
	return ch
}

// world is a cluster whose hosts are real directories, whose API server is real to a client, and whose kubelets and managers are simulated: each
// time that somebody looks at processes or gauges, they catch up with the manifests and with the leases.
type world struct {
	t     *testing.T
	dir   string
	api   *apitest.Server
	kube  kubernetes.Interface
	dyn   dynamic.Interface
	hosts []hostaccess.Host
	clock skipping
	// home is where the journal is kept.
	home journal.ObjectLocation

	mu      sync.Mutex
	parsed  map[string]*controlplane.Manifest // by content
	procs   map[string]*process               // by component@host
	renewed map[string]time.Time
	lastPID int
	// expired counts leases that ran out since nobody released them.
	expired int
	// restarts counts starts by component@host.
	restarts map[string]int
	// stuck are processes that do not end when their manifest goes.
	stuck map[string]bool
	// full are hosts whose disks are.
	full map[string]bool
	// deaf are managers that do not answer.
	deaf map[string]bool
	// more is what else the cluster does when it catches up.
	more func()
	// readLocal reads the files of this machine.
	readLocal func(string) ([]byte, error)
	// lives are the kubelets by host; nil for one that is down. fate decides what becomes of one that starts.
	lives map[string]*kubeletLife
	fate  fate
	// unjudged reports whether a test executes steps that no migration has.
	unjudged bool
	// ended are the ends of processes of DaemonSets, by component@host.
	ended map[string]time.Time
	// revisions counts the templates that DaemonSets had.
	revisions int64
	// told are the calls of service managers, "verb unit@host".
	told []string
}

type process struct {
	pid       int
	args      []string
	sum       string
	flags     map[string]string
	component string
	host      string
	// unit reports whether systemd started it, and no kubelet ends it.
	unit bool
	// called is its identity in leases, where it is not its host's.
	called string
}

func (p *process) identity() string {
	if p.called != "" {
		return p.called
	}
	return fmt.Sprintf("%s_%d", p.host, p.pid)
}

// host is a real directory with simulated processes.
type host struct {
	hostaccess.Host
	w *world
}

func (h host) Processes(_ context.Context, component string) ([]v1.Process, error) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.w.catchUp()
	if component == "kubelet" {
		return h.w.kubeletProcesses(h.Name()), nil
	}
	p, ok := h.w.procs[component+"@"+h.Name()]
	if !ok {
		return nil, nil
	}
	return []v1.Process{{PID: p.pid, StartTicks: uint64(p.pid) * 100, State: "S", Args: p.args}}, nil
}

func (h host) WriteFile(ctx context.Context, path string, data []byte, mode fs.FileMode) error {
	if h.w.full[h.Name()] {
		return &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
	}
	return h.Host.WriteFile(ctx, path, data, mode)
}

func (h host) Digest(ctx context.Context, path string) (string, fs.FileMode, error) {
	return hostaccess.Digest(ctx, h.Host, path)
}

func (h host) RestartKubelet(context.Context) error {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.w.restarts["kubelet@"+h.Name()]++
	h.w.told = append(h.w.told, "restart kubelet@"+h.Name())
	h.w.clock.Step(time.Second)
	h.w.kubeletOf(h.Name())
	return h.w.startKubelet(h.Name())
}

// newWorld makes a world of control-plane hosts; lay changes what lies on them before anything runs.
func newWorld(t *testing.T, count int, lay ...func(*world)) *world {
	t.Helper()
	w := &world{
		t:        t,
		dir:      t.TempDir(),
		api:      apitest.New(t),
		parsed:   map[string]*controlplane.Manifest{},
		procs:    map[string]*process{},
		renewed:  map[string]time.Time{},
		restarts: map[string]int{},
		stuck:    map[string]bool{},
		full:     map[string]bool{},
		deaf:     map[string]bool{},
		ended:    map[string]time.Time{},
		lastPID:  1000,
	}
	w.clock = skipping{clocktesting.NewFakeClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)), w}
	w.api.Now = w.clock.Now
	w.kube, w.dyn = w.api.Clients(t)
	w.home = journal.InCluster(w.kube)
	for i := 1; i <= count; i++ {
		w.layOut(i)
	}
	if count > 0 {
		w.openHosts(lay...)
	}
	return w
}

// openHosts opens the directories that are there, and lets the world catch up with them when lay has changed what lies there.
func (w *world) openHosts(lay ...func(*world)) {
	w.t.Helper()
	opened, err := local.Open("local:" + w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range opened {
		w.hosts = append(w.hosts, host{h, w})
	}
	for _, change := range lay {
		change(w)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.catchUp()
}

// layOut makes a control-plane host as kubeadm does, and its node.
func (w *world) layOut(i int) {
	name := fmt.Sprintf("cp-%d", i)
	pod := func(component, more string, args ...string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %[1]s\n  namespace: kube-system\nspec:\n  containers:\n  - name: %[1]s\n"+
			"    image: registry.k8s.io/%[1]s:v1.26.0\n    command:\n    - %[1]s\n    - %[2]s\n%[3]s", component, strings.Join(args, "\n    - "), more)
	}
	mounts := "    volumeMounts:\n    - mountPath: /etc/kubernetes/cloud.conf\n      name: cloud-config\n  volumes:\n  - hostPath:\n      path: /etc/kubernetes/cloud.conf\n    name: cloud-config\n"
	address := fmt.Sprintf("--bind-address=127.9.9.%d", i)
	w.write(name, manifests+"kube-apiserver.yaml", pod(component.KAS, mounts, address, "--cloud-config=/etc/kubernetes/cloud.conf", "--cloud-provider=aws"), 0o600)
	w.write(
		name,
		manifests+"kube-controller-manager.yaml",
		pod(component.KCM, mounts, "--allocate-node-cidrs=true", address, "--cloud-config=/etc/kubernetes/cloud.conf",
			"--cloud-provider=aws", "--cluster-cidr=10.200.0.0/16", "--cluster-name=lab", "--configure-cloud-routes=true", "--leader-elect=true"),
		0o600,
	)
	w.write(name, "/etc/kubernetes/cloud.conf", "[Global]\nVPC = vpc-1\n", 0o644)
	w.write(name, layout.KCMKubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: kcm\nclusters: [{name: lab, cluster: {server: https://10.0.0.1:6443}}]\n"+
		"contexts: [{name: kcm, context: {cluster: lab, user: kcm}}]\nusers: [{name: kcm, user: {token: planted}}]\n", 0o600)
	w.write(name, "/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--cloud-provider=aws --hostname-override=node-"+name+"\"\n", 0o644)
	w.api.Put(w.t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-" + name}, Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-" + name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
	w.nodeLease(name)
}

func (w *world) nodeLease(host string) {
	now := metav1.NewMicroTime(w.clock.Now())
	w.api.Put(
		w.t,
		&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "node-" + host, Namespace: component.NodeLeaseNamespace},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &now},
		},
	)
}

func (w *world) at(host, path string) string { return filepath.Join(w.dir, host, path) }

func (w *world) write(host, path, content string, mode os.FileMode) {
	w.t.Helper()
	at := w.at(host, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), mode); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(host, path string) string {
	w.t.Helper()
	data, err := os.ReadFile(w.at(host, path))
	if errors.Is(err, os.ErrNotExist) {
		return "(absent)"
	} else if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

// files are all files of all hosts with their content and mode, backups left out.
func (w *world) files() map[string]string {
	out := map[string]string{}
	err := filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, layout.Dir+"/backup/") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		out[strings.TrimPrefix(path, w.dir)] = fmt.Sprintf("%04o %s", info.Mode().Perm(), data)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// catchUp lets kubelets and managers do what is due.
func (w *world) catchUp() {
	w.kubelets()
	w.renewLeases()
	w.tokens()
	if w.more != nil {
		w.more()
	}
	for _, component := range []string{component.KCM, component.CCM} {
		w.elect(component, func(p *process) bool { return p.component == component })
	}
	w.elect(component.MigrationLease, func(p *process) bool {
		return p.flags["enable-leader-migration"] == "true" && w.holds(p, p.component) && (p.component == component.CCM || p.flags["cloud-provider"] == "aws")
	})
	for loop, owners := range w.owners() {
		if len(owners) > 1 {
			w.t.Errorf("loop %s is run by %v at once", loop, owners)
		}
	}
}

func (w *world) kubelets() {
	for _, name := range w.hostNames() {
		wanted := map[string]bool{}
		entries, err := os.ReadDir(w.at(name, manifests))
		if err != nil {
			w.t.Error(err)
			return
		}
		for _, e := range entries {
			data, err := os.ReadFile(w.at(name, manifests+e.Name()))
			if err != nil || strings.HasPrefix(e.Name(), ".") {
				continue
			}
			m := w.parsed[string(data)]
			if m == nil {
				if m, err = controlplane.Parse(data); err != nil {
					w.t.Errorf("manifest %s on %s: %v", e.Name(), name, err)
					continue
				}
				w.parsed[string(data)] = m
			}
			key := m.Component() + "@" + name
			wanted[key] = true
			if p := w.procs[key]; p == nil || p.sum != hostaccess.SHA256(data) && !w.stuck[key] {
				w.start(key, name, m, hostaccess.SHA256(data))
			}
		}
		for key, p := range w.procs {
			if p.host == name && !wanted[key] && !w.stuck[key] && !p.unit {
				delete(w.procs, key)
				w.api.Delete("/api/v1/namespaces/kube-system/pods/" + p.component + "-node-" + name)
			}
		}
	}
}

func (w *world) hostNames() []string {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Error(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func (w *world) start(key, host string, m *controlplane.Manifest, sum string) {
	w.lastPID++
	w.restarts[key]++
	w.procs[key] = &process{pid: w.lastPID, args: m.Command(), sum: sum, flags: m.Flags(), component: m.Component(), host: host}
	if m.Component() == component.KAS {
		for _, p := range w.procs {
			if p.host == host && w.holds(p, p.component) && w.restarts[key] > 1 {
				w.t.Errorf("the API server of %s was restarted under %s, which leads", host, p.component)
			}
		}
	}
	w.api.Put(w.t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name() + "-node-" + host, Namespace: m.Namespace(), Annotations: map[string]string{corev1.MirrorPodAnnotationKey: sum}},
		Spec:       corev1.PodSpec{NodeName: "node-" + host, Containers: []corev1.Container{{Name: m.Name(), Image: m.Image(), Command: m.Command()}}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	})
}

// tokens fills in the token of the cloud-controller-manager's Secret, as the token controller does.
func (w *world) tokens() {
	var s corev1.Secret
	if w.api.Get(w.t, "/api/v1/namespaces/kube-system/secrets/"+layout.TokenSecret, &s) && len(s.Data) == 0 {
		s.Data = map[string][]byte{corev1.ServiceAccountTokenKey: []byte("ccm-token")}
		w.api.Put(w.t, &s)
	}
}

func leasePath(name string) string {
	return "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + name
}

// holder is who holds a lease by what the API server says.
func (w *world) holder(name string) string {
	return w.api.Field(leasePath(name), "spec", "holderIdentity")
}

func (w *world) holds(p *process, lease string) bool { return w.holder(lease) == p.identity() }

// elect gives a lease to somebody who may have it when its holder gave it up, or has not renewed it for its duration.
func (w *world) elect(name string, eligible func(*process) bool) {
	now := w.clock.Now()
	var candidates []*process
	for _, key := range slices.Sorted(maps.Keys(w.procs)) {
		if p := w.procs[key]; eligible(p) {
			if w.holds(p, name) {
				w.renewed[name] = now
				return
			}
			candidates = append(candidates, p)
		}
	}
	holder := w.holder(name)
	if len(candidates) == 0 || holder != "" && now.Sub(w.renewed[name]) < 15*time.Second {
		return
	}
	if holder != "" {
		w.expired++
	}
	var l coordinationv1.Lease
	w.api.Get(w.t, leasePath(name), &l)
	at := metav1.NewMicroTime(now)
	l.Name, l.Namespace = name, component.Namespace
	l.Spec = coordinationv1.LeaseSpec{HolderIdentity: ptr.To(candidates[0].identity()), LeaseDurationSeconds: ptr.To[int32](15), AcquireTime: &at, RenewTime: &at,
		LeaseTransitions: ptr.To(ptr.Deref(l.Spec.LeaseTransitions, 0) + 1)}
	w.api.Put(w.t, &l)
	w.renewed[name] = now
}

// loops are those that a process runs.
func (w *world) loops(p *process) []string {
	if !w.holds(p, p.component) {
		return nil
	}
	var out []string
	if p.component == component.KCM {
		out = append(out, "nodeipam")
		if p.flags["cloud-provider"] != "aws" {
			return out
		}
	}
	if p.flags["enable-leader-migration"] == "true" && !w.holds(p, component.MigrationLease) {
		return out
	}
	return append(out, "service", "route", "cloud-node-lifecycle")
}

func (w *world) owners() map[string][]string {
	out := map[string][]string{}
	for key, p := range w.procs {
		if p.component == component.KCM || p.component == component.CCM {
			for _, l := range w.loops(p) {
				out[l] = append(out[l], key)
			}
		}
	}
	return out
}

func (w *world) scrape(_ context.Context, program, host, _ string) (v1.Manager, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.catchUp()
	key := program + "@" + host
	p, ok := w.procs[key]
	if !ok || w.deaf[key] {
		return v1.Manager{}, errors.New("connection refused")
	}
	m := v1.Manager{Loops: w.loops(p), CloudCalls: ptr.To[int64](1)}
	for _, l := range []string{component.KCM, component.CCM, component.MigrationLease} {
		if w.holds(p, l) {
			m.Leads = append(m.Leads, l)
		}
	}
	return m, nil
}

func (w *world) nodeNames() map[string]string {
	out := map[string]string{}
	for _, h := range w.hosts {
		out[h.Name()] = "node-" + h.Name()
	}
	return out
}

func (w *world) snapshot() *v1.Snapshot {
	return snapshot.Gather(w.t.Context(), collect.Sources{
		Kube: w.kube, Hosts: w.hosts, Now: w.clock.Now,
		Scrape: func(ctx context.Context, component, host, address string) v1.Manager {
			m, err := w.scrape(ctx, component, host, address)
			if err != nil {
				m.Error = err.Error()
			}
			m.Component, m.Host, m.Address = component, host, address
			return m
		},
	}, collect.Options{Files: layout.Files(), ObjectRefs: layout.ObjectRefs()})
}

// begin makes a plan and its journal.
func (w *world) begin() (*v1.Plan, *journal.Journal) {
	w.t.Helper()
	snap := w.snapshot()
	p, err := plan.Make(snap, v1.Options{}, nil, w.clock.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	j, err := w.home.Create(w.t.Context(), v1.Journal{Run: "run-1", Started: w.clock.Now(), Phase: v1.RunApplying, Plan: *p}, snap)
	if err != nil {
		w.t.Fatal(err)
	}
	return p, j
}

// beginWith is begin with options.
func (w *world) beginWith(o v1.Options) *v1.Plan {
	w.t.Helper()
	return w.beginAs(o, func(*v1.Plan) {})
}

// beginAs is beginWith for a plan that was changed after it was made.
func (w *world) beginAs(o v1.Options, change func(*v1.Plan)) *v1.Plan {
	w.t.Helper()
	snap := w.snapshot()
	p, err := plan.Make(snap, o, nil, w.clock.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	change(p)
	if _, err := w.home.Create(w.t.Context(), v1.Journal{Run: "run-1", Started: w.clock.Now(), Phase: v1.RunApplying, Plan: *p}, snap); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// engine is one process of ours: it knows of the past only what the journal says.
func (w *world) engine(change ...func(*step.Options)) *Engine {
	w.t.Helper()
	j, err := w.home.Open(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	before, err := w.home.Before(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	o := step.Options{
		Kube:      w.kube,
		Dynamic:   w.dyn,
		Hosts:     w.hosts,
		NodeNames: w.nodeNames(),
		Scrape:    w.scrape,
		Before:    before,
		Clock:     w.clock,
		ReadLocal: w.readLocal,
		Unjudged:  w.unjudged,
	}
	for _, c := range change {
		c(&o)
	}
	return w.reasoned(New(o, j))
}

// wayBack plans the way back from what the journal says.
func (w *world) wayBack() (*journal.Journal, *v1.Plan) {
	w.t.Helper()
	j, err := w.home.Open(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	doc := j.Doc()
	p, err := rollback.Make(&doc, w.snapshot(), w.clock.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return j, p
}

// rollBack plans the way back from what the journal says, and goes it with an engine of these options.
func (w *world) rollBack(change ...func(*step.Options)) {
	w.t.Helper()
	j, p := w.wayBack()
	if err := j.SetPhase(w.t.Context(), v1.RunRollingBack, p, nil); err != nil {
		w.t.Fatal(err)
	}
	if err := w.engine(change...).Run(w.t.Context(), p, nil); err != nil {
		w.t.Fatalf("rolling back: %v", err)
	}
}
