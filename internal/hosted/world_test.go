package hosted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

const (
	ns         = "cluster-x"
	kcmRef     = "controller-manager"
	secretText = "do-not-show-me"
)

// skipping is a clock on which waiting takes no time.
type skipping struct {
	*clocktesting.FakeClock
	w *world
}

func (c skipping) After(d time.Duration) <-chan time.Time {
	ch := c.FakeClock.After(d)
	c.Step(max(d, 2*time.Second))
	c.w.catchUp()
	return ch
}

// world is a seed with the control plane of one user cluster. Both API servers are real to a client; the Deployment controller and the managers in the pods are
// simulated, and catch up whenever somebody waits or looks.
type world struct {
	t          *testing.T
	seed, user *apitest.Server
	s, u       Clients
	clock      skipping

	mu sync.Mutex
	n  int
	// stuck are Deployments whose new pods do not get ready.
	stuck map[string]bool
	// deaf are pods that do not answer.
	deaf func(pod string) bool
	// forced are pods that are deleted by force while they end.
	forced func(pod string) bool
	// ticks since a pod was marked for deletion.
	dying map[string]int
	// overlaps are loops that two pods ran at once.
	overlaps []string
	// idle counts the looks at which nobody ran the service loop.
	idle int
	// lookedAfter is called at the end of a catch-up.
	lookedAfter func()
}

// emptyWorld is a seed and a user cluster without objects.
func emptyWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, seed: apitest.New(t), user: apitest.New(t), stuck: map[string]bool{}, dying: map[string]int{}}
	w.clock = skipping{clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), w}
	w.user.Now = w.clock.Now
	w.s.Kube, w.s.Dynamic = w.seed.Clients(t)
	w.u.Kube, w.u.Dynamic = w.user.Clients(t)
	return w
}

func newWorld(t *testing.T, replicas int32, wrapped bool) *world {
	t.Helper()
	w := emptyWorld(t)
	command, args := []string{
		"/usr/local/bin/kube-controller-manager",
	}, []string{
		"--kubeconfig",
		"/etc/kubernetes/kubeconfig/kubeconfig",
		"--cloud-provider",
		"aws",
		"--cloud-config",
		"/etc/kubernetes/cloud/config",
		"--controllers",
		"*,bootstrapsigner,tokencleaner",
		"--allocate-node-cidrs",
		"--configure-cloud-routes=false",
		"--cluster-cidr=172.25.0.0/16",
		"--service-account-private-key-file=/etc/kubernetes/sa/sa.key",
		"--bind-address=$(POD_IP)",
	}
	if wrapped {
		raw, err := json.Marshal(map[string]any{"command": command[0], "args": args})
		if err != nil {
			t.Fatal(err)
		}
		command, args = []string{"/http-prober-bin/http-prober"}, []string{"-endpoint", "https://apiserver/healthz", "-command", string(raw)}
	}
	w.seed.Put(
		t,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, UID: "seed-ns"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "kcm-kubeconfig", Namespace: ns}, Data: map[string][]byte{"kubeconfig": []byte(kubeconfig)}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "cloud-config", Namespace: ns},
			Data:       map[string]string{"config": "[Global]\nZone = eu-1a\nVPC = vpc-1\nKubernetesClusterID = x\n"},
		},
		deployment(kcmRef, replicas, corev1.Container{
			Name:    "controller-manager",
			Image:   "registry.k8s.io/kube-controller-manager:v1.26.0",
			Command: command,
			Args:    args,
			Env: []corev1.EnvVar{
				{Name: "AWS_SECRET_ACCESS_KEY", Value: secretText},
				{Name: "AWS_ACCESS_KEY_ID", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "id"}}},
			},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "kubeconfig", MountPath: "/etc/kubernetes/kubeconfig"},
				{Name: "cloud", MountPath: "/etc/kubernetes/cloud"},
				{Name: "sa", MountPath: "/etc/kubernetes/sa"},
				{Name: "ca-bundle", MountPath: "/etc/ssl/certs"},
			},
		}, secretVolume("kubeconfig", "kcm-kubeconfig"), corev1.Volume{
			Name:         "cloud",
			VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cloud-config"}}},
		},
			secretVolume("sa", "sa"), secretVolume("ca-bundle", "ca-bundle")),
		deployment(
			"apiserver",
			2,
			corev1.Container{
				Name:    "apiserver",
				Image:   "registry.k8s.io/kube-apiserver:v1.26.0",
				Command: []string{"/usr/local/bin/kube-apiserver"},
				Args:    []string{"--cloud-provider", "aws"},
			},
		),
	)
	w.user.Put(
		t,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "user-uid"}},
		&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///eu-1a/i-1", PodCIDR: "172.25.1.0/24", PodCIDRs: []string{"172.25.1.0/24"}},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{
					{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
				},
				NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.26.0", OperatingSystem: "linux"},
			},
		},
	)
	for range 8 {
		w.catchUp()
		w.clock.Step(2 * time.Second)
	}
	return w
}

const kubeconfig = `apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "https://apiserver:6443", certificate-authority-data: Y2E=}}]
users: [{name: a, user: {token: kcm-token}}]
`

func secretVolume(name, secret string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}
}

func deployment(name string, replicas int32, c corev1.Container, volumes ...corev1.Volume) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns, UID: "d-" + "x"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name, "cluster": "x"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{c}, Volumes: volumes},
		},
	}}
}

func (w *world) plane() *Plane {
	begun := w.clock.Now()
	return &Plane{
		Name:      "x",
		Namespace: ns,
		Seed:      w.s,
		User:      w.u,
		Scrape:    w.scrape,
		Provider:  "aws",
		Options:   v1.Options{Image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.26.0"},
		Clock:     w.clock,
		Boot:      func() time.Duration { return w.clock.Since(begun) },
		Accept:    accepted,
		Holder:    "test",
	}
}

// accepted are checks about what the world has not got.
var accepted = map[string]string{}

// catchUp lets the Deployment controller, the kubelets and the managers do what they would have done.
func (w *world) catchUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	list, err := w.s.Kube.AppsV1().Deployments(ns).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return // an outage of the seed
	}
	live := map[string]bool{}
	for i := range list.Items {
		live[list.Items[i].Name] = true
		w.rollOut(&list.Items[i])
	}
	for _, p := range w.pods() {
		switch {
		case p.Name == workloads.TrialPod:
			p.Status = corev1.PodStatus{
				Phase:             corev1.PodSucceeded,
				ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}},
			}
			_, err := w.s.Kube.CoreV1().Pods(ns).Update(context.Background(), &p, metav1.UpdateOptions{})
			w.written(err)
		case !live[p.Labels["app"]]:
			w.end(&p)
		}
	}
	w.elect()
	w.judge()
	w.fillTokens()
	if w.lookedAfter != nil {
		w.lookedAfter()
	}
}

func (w *world) pods() []corev1.Pod {
	return apitest.Below[corev1.Pod](w.t, w.seed, "/api/v1/namespaces/"+ns+"/pods/")
}

// end lets a pod end: first it is marked; three looks later its kubelet says that its container has terminated, and takes the object away at once.
func (w *world) end(p *corev1.Pod) {
	if p.DeletionTimestamp == nil {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(w.clock.Now())), ptr.To[int64](30)
		w.seed.Put(w.t, p)
	}
	if w.dying[p.Name]++; w.dying[p.Name] > 3 {
		if w.forced == nil || !w.forced(p.Name) {
			status := &p.Status.ContainerStatuses[0]
			status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: status.ContainerID}}
			w.seed.Put(w.t, p)
		}
		w.seed.Delete("/api/v1/namespaces/" + ns + "/pods/" + p.Name)
	}
}

// fail lets the seed call a pod failed when it ends, as its garbage collector does with those of a node that is away, and delete it then.
func (w *world) fail(name string) func(string) bool {
	return func(pod string) bool {
		if pod != name {
			return false
		}
		var p corev1.Pod
		if w.seed.Get(w.t, "/api/v1/namespaces/"+ns+"/pods/"+name, &p) {
			p.Status.Phase = corev1.PodFailed
			w.seed.Put(w.t, &p)
		}
		return true
	}
}

func (w *world) rollOut(d *appsv1.Deployment) {
	raw, err := json.Marshal(d.Spec.Template)
	if err != nil {
		w.t.Fatal(err)
	}
	h := fnv.New32a()
	h.Write(raw)
	hash := fmt.Sprintf("%08x", h.Sum32())
	var now, old []corev1.Pod
	for _, p := range w.pods() {
		switch {
		case p.Labels["app"] != d.Name:
		case p.Labels["pod-template-hash"] == hash && p.DeletionTimestamp == nil:
			now = append(now, p)
		default:
			old = append(old, p)
		}
	}
	want := int(*d.Spec.Replicas)
	if len(old) == 0 || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		for ; len(now) < want; now = append(now, w.start(d, hash)) {
		}
	}
	ready := len(now)
	if w.stuck[d.Name] {
		ready = 0
	}
	if ready == want || d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		for i := range old {
			w.end(&old[i])
		}
	}
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation,
		UpdatedReplicas:    int32(len(now)),
		ReadyReplicas:      int32(ready),
		Replicas:           int32(len(now) + len(old)),
	}
	_, err = w.s.Kube.AppsV1().Deployments(ns).Update(context.Background(), d, metav1.UpdateOptions{})
	w.written(err)
}

// written takes the error of a write. What was changed or deleted since it was read is left to the next look: it must not come back. Other errors are
// outages of an API server.
func (w *world) written(err error) {
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		w.t.Log(err)
	}
}

func (w *world) start(d *appsv1.Deployment, hash string) corev1.Pod {
	w.n++
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%d", d.Name, hash, w.n), Namespace: ns, UID: "", Labels: map[string]string{"pod-template-hash": hash}},
		Spec:       *d.Spec.Template.Spec.DeepCopy(),
	}
	for k, v := range d.Spec.Template.Labels {
		p.Labels[k] = v
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.0.0.%d", w.n), ContainerStatuses: []corev1.ContainerStatus{{
		Name: p.Spec.Containers[0].Name, ContainerID: fmt.Sprintf("c-%d", w.n), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
	w.seed.Put(w.t, &p)
	return p
}

// lease returns the holder of a lease; empty when nobody holds it or it ran out.
func (w *world) lease(name string) (string, *coordinationv1.Lease) {
	l := &coordinationv1.Lease{}
	if !w.user.Get(w.t, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+name, l) {
		return "", nil
	}
	return ptr.Deref(l.Spec.HolderIdentity, ""), l
}

// contend lets the first of the candidates have a lease that is free, or the holder renew it.
func (w *world) contend(name string, candidates []string) {
	now := metav1.NewMicroTime(w.clock.Now())
	holder, l := w.lease(name)
	holds := slices.Index(candidates, strings.TrimSuffix(holder, "_id"))
	expired := l == nil || l.Spec.RenewTime == nil || w.clock.Since(l.Spec.RenewTime.Time) > 15*time.Second
	switch {
	case holds >= 0:
		l.Spec.RenewTime = &now
	case len(candidates) == 0 || holder != "" && !expired:
		return
	default:
		next := int32(0)
		if l == nil {
			l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system"}}
		} else {
			next = ptr.Deref(l.Spec.LeaseTransitions, 0) + 1
		}
		l.Spec = coordinationv1.LeaseSpec{
			HolderIdentity:       ptr.To(candidates[0] + "_id"),
			LeaseDurationSeconds: ptr.To[int32](15),
			AcquireTime:          &now,
			RenewTime:            &now,
			LeaseTransitions:     &next,
		}
	}
	w.user.Put(w.t, l)
}

func flagsOf(p *corev1.Pod) map[string]string {
	c := p.Spec.Containers[0]
	return commandline.FlagsOf(commandline.Unwrapped(slices.Concat(c.Command, c.Args)))
}

func (w *world) managers(component string, also func(corev1.Pod) bool) []string {
	var out []string
	for _, p := range w.pods() {
		if p.Name != workloads.TrialPod && workloads.SeedComponent(&p.Spec.Containers[0]) == component && also(p) {
			out = append(out, p.Name)
		}
	}
	return out
}

func all(corev1.Pod) bool { return true }

func (w *world) elect() {
	var wanting []string
	for _, component := range []string{component.KCM, component.CCM} {
		w.contend(component, w.managers(component, all))
		leader, _ := w.lease(component)
		wanting = append(wanting, w.managers(component, func(p corev1.Pod) bool {
			return flagsOf(&p)["enable-leader-migration"] == "true" && p.Name+"_id" == leader
		})...)
	}
	w.contend(component.MigrationLease, wanting)
}

// state is what a pod's gauges would say.
func (w *world) state(p *corev1.Pod) v1.Manager {
	name, flags := workloads.SeedComponent(&p.Spec.Containers[0]), flagsOf(p)
	m := v1.Manager{Component: name, Host: p.Name, CloudCalls: ptr.To[int64](3)}
	main, _ := w.lease(name)
	if main != p.Name+"_id" {
		return m
	}
	m.Leads = append(m.Leads, name)
	migration, _ := w.lease(component.MigrationLease)
	has := flags["enable-leader-migration"] != "true"
	if !has && migration == p.Name+"_id" {
		m.Leads, has = append(m.Leads, component.MigrationLease), true
	}
	if p := flags["cloud-provider"]; !has || p == "external" || p == "" { // a manager without a provider starts no cloud loop
		return m
	}
	for _, l := range []string{"cloud-node-lifecycle", "service"} {
		if !strings.Contains(","+flags["controllers"]+",", ",-"+l+",") {
			m.Loops = append(m.Loops, l)
		}
	}
	return m
}

// judge notes loops that two pods run.
func (w *world) judge() {
	owners := map[string][]string{}
	for _, p := range w.pods() {
		if p.Name == workloads.TrialPod {
			continue // it ends when it has said its version
		}
		switch workloads.SeedComponent(&p.Spec.Containers[0]) {
		case component.KCM, component.CCM:
			for _, l := range w.state(&p).Loops {
				owners[l] = append(owners[l], p.Name)
			}
		}
	}
	for l, o := range owners {
		if len(o) > 1 {
			w.overlaps = append(w.overlaps, l+" in "+strings.Join(o, " and "))
		}
	}
	if len(owners["service"]) == 0 {
		w.idle++
	}
}

func (w *world) fillTokens() {
	s := &corev1.Secret{}
	if w.user.Get(w.t, "/api/v1/namespaces/kube-system/secrets/"+layout.TokenSecret, s) && len(s.Data["token"]) == 0 {
		s.Data = map[string][]byte{"token": []byte("ccm-token")}
		_, err := w.u.Kube.CoreV1().Secrets(s.Namespace).Update(context.Background(), s, metav1.UpdateOptions{})
		w.written(err)
	}
}

func (w *world) scrape(ctx context.Context, component, pod, _ string) (v1.Manager, error) {
	w.catchUp()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf != nil && w.deaf(pod) {
		return v1.Manager{}, errors.New("connection refused")
	}
	p, err := w.s.Kube.CoreV1().Pods(ns).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return v1.Manager{}, errors.New("no route to host")
	}
	return w.state(p), nil
}

// run executes a part and fails the test when that fails.
func (w *world) run(part Part) {
	w.t.Helper()
	if err := w.plane().Run(w.t.Context(), part, func(e step.Event) {
		if e.Kind == step.EventFailed {
			w.t.Logf("%s: %s", e.Step.ID, e.Message)
		}
	}, nil); err != nil {
		w.t.Fatalf("%s: %v", part, describe(err))
	}
	w.fair()
}

func describe(err error) string {
	var blocked *BlockedError
	if errors.As(err, &blocked) {
		var lines []string
		for _, f := range blocked.Blocking() {
			lines = append(lines, f.Code+" "+string(f.Outcome)+" "+f.Summary)
		}
		return strings.Join(lines, "\n")
	}
	return err.Error()
}

// fair fails the test when two managers ever ran a loop.
func (w *world) fair() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.overlaps) > 0 {
		w.t.Errorf("loops ran twice: %v", w.overlaps)
	}
}

// owns fails the test unless a component runs the service loop.
func (w *world) owns(component string) {
	w.t.Helper()
	for range 20 {
		w.clock.Step(2 * time.Second)
		w.catchUp()
	}
	o, err := w.plane().Owners(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if o.Loops["service"].Component != component || o.Loops["cloud-node-lifecycle"].Component != component || len(o.Unknown) > 0 {
		w.t.Errorf("owners are %+v, unknown %v; want %s", o.Loops, o.Unknown, component)
	}
}
