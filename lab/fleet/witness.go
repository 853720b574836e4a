package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/seed"
)

// PodLife is what the seed's API showed of one pod, by the witness's clock.
type PodLife struct {
	Name  string
	Words []string  // command line, unwrapped
	Seen  time.Time // its object was first there
	Ready time.Time // zero if it never was
	Gone  time.Time // its object was gone; zero while it is there
}

// Change is one new template of a Deployment.
type Change struct {
	Name  string
	Words []string
	At    time.Time
}

// Witness watches the control plane of one user cluster, with the administrator's rights and without regard to what the
// operator says.
type Witness struct {
	cluster *seed.Cluster
	stop    context.CancelFunc
	factory informers.SharedInformerFactory

	mu      sync.Mutex
	pods    map[types.UID]*PodLife
	changes []Change
	last    map[string]string // words of each Deployment
}

// Watch starts a witness.
func (w *World) Watch(ctx context.Context, c *seed.Cluster) (*Witness, error) {
	running, stop := context.WithCancel(ctx)
	x := &Witness{cluster: c, stop: stop, pods: map[types.UID]*PodLife{}, last: map[string]string{}}
	x.factory = informers.NewSharedInformerFactoryWithOptions(w.Client(), 0, informers.WithNamespace(c.Namespace))
	pods, deployments := x.factory.Core().V1().Pods().Informer(), x.factory.Apps().V1().Deployments().Informer()
	var synced []cache.InformerSynced
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{
		pods:        {AddFunc: x.pod, UpdateFunc: func(_, o any) { x.pod(o) }, DeleteFunc: x.podGone},
		deployments: {AddFunc: x.deployment, UpdateFunc: func(_, o any) { x.deployment(o) }},
	} {
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			stop()
			return nil, fmt.Errorf("watching %q: %w", c.Namespace, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	x.factory.Start(running.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		stop()
		return nil, ctx.Err()
	}
	return x, nil
}

// Close ends the watch.
func (x *Witness) Close() {
	x.stop()
	x.factory.Shutdown()
}

func (x *Witness) pod(object any) {
	p, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	life := x.pods[p.UID]
	if life == nil {
		life = &PodLife{Name: p.Name, Words: words(&p.Spec), Seen: time.Now()}
		x.pods[p.UID] = life
	}
	if life.Ready.IsZero() && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		life.Ready = time.Now()
	}
}

func (x *Witness) podGone(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	p, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if life := x.pods[p.UID]; life != nil {
		life.Gone = time.Now()
	}
}

func (x *Witness) deployment(object any) {
	d, ok := object.(*appsv1.Deployment)
	if !ok {
		return
	}
	line := words(&d.Spec.Template.Spec)
	x.mu.Lock()
	defer x.mu.Unlock()
	if key := strings.Join(line, " "); x.last[d.Name] != key {
		x.last[d.Name] = key
		x.changes = append(x.changes, Change{d.Name, line, time.Now()})
	}
}

// Changes are the templates that Deployments have had since the watch began, the first of each being what was there.
func (x *Witness) Changes() []Change {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.changes)
}

// Told is when a Deployment was given a flag; zero if it was not.
func (x *Witness) Told(name, flag string) time.Time {
	for _, c := range x.Changes() {
		if c.Name == name &&
			slices.ContainsFunc(c.Words, func(w string) bool { return w == flag || strings.HasPrefix(w, flag+"=") }) {
			return c.At
		}
	}
	return time.Time{}
}

// words is the command line of a pod's first container; what http-prober is told to start takes its place.
func words(spec *corev1.PodSpec) []string {
	if len(spec.Containers) == 0 {
		return nil
	}
	line := slices.Concat(spec.Containers[0].Command, spec.Containers[0].Args)
	for i, w := range line {
		if w != "-command" || i+1 == len(line) {
			continue
		}
		var inner struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
		}
		if err := json.Unmarshal([]byte(line[i+1]), &inner); err == nil {
			return append([]string{inner.Command}, inner.Args...)
		}
	}
	return line
}

// value is that of a flag in either form.
func value(line []string, flag string) string {
	for i, w := range line {
		if v, ok := strings.CutPrefix(w, flag+"="); ok {
			return v
		}
		if w == flag && i+1 < len(line) {
			return line[i+1]
		}
	}
	return ""
}

// RunsCloudLoops reports whether a kube-controller-manager with this command line runs one of the cloud's loops.
func RunsCloudLoops(line []string) bool {
	if provider := value(line, "--cloud-provider"); provider == "" || provider == "external" {
		return false
	}
	off := strings.Split(value(line, "--controllers"), ",")
	for _, loop := range []string{"-cloud-node-lifecycle", "-route", "-service"} {
		if !slices.Contains(off, loop) {
			return true
		}
	}
	return false
}

// Manager is who made a call of the account: its access key is the name of its pod.
type Manager string

// Managers of an account.
const (
	InTree   Manager = "controller-manager"
	External Manager = "cloud-controller-manager"
)

func managerOf(key string) Manager {
	switch {
	case strings.Contains(key, string(External)+"-"):
		return External
	case strings.HasPrefix(key, string(InTree)+"-"):
		return InTree
	default:
		return ""
	}
}

// Judgement is what an account's audit log says about a handover.
type Judgement struct {
	InTree, External int // calls that changed something
	// Overlapping are the calls of the in-tree manager that arrived when the external one had already changed something.
	Overlapping []v1.CloudCall
	// Gap is the time between the last change of the one and the first of the other: that nobody acted, not that nobody
	// could.
	Gap time.Duration
}

// Judge reads the account.
func Judge(c *seed.Cluster) Judgement {
	var j Judgement
	var last, first time.Time
	for _, call := range c.AWS().Audit().Calls(awssim.Filter{Mutating: new(true)}) {
		switch managerOf(call.Key) {
		case External:
			j.External++
			if first.IsZero() {
				first = call.Arrived
			}
		case InTree:
			j.InTree++
			last = call.Arrived
			if !first.IsZero() {
				j.Overlapping = append(j.Overlapping, call)
			}
		}
	}
	if !first.IsZero() && !last.IsZero() {
		j.Gap = first.Sub(last)
	}
	return j
}

// deployments are the names of the Deployments that there were since the watch began.
func (x *Witness) deployments() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(maps.Keys(x.last))
}

// PodsOf are the lives of the pods of a Deployment, known by their names.
func (x *Witness) PodsOf(deployment string) []PodLife {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []PodLife
	for _, p := range x.pods {
		if rest, ok := strings.CutPrefix(p.Name, deployment+"-"); ok && strings.Count(rest, "-") == 1 {
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(a, b PodLife) int { return a.Seen.Compare(b.Seen) })
	return out
}
