package status

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

const namespace = component.Namespace

// pageSize is how many objects are asked for at a time.
const pageSize = 500

// controlPlanePods selects the pods whose state says whether the control plane works: those of kubeadm's static pods
// and ours.
const controlPlanePods = "component in (etcd,kube-apiserver,kube-controller-manager,kube-scheduler," + component.CCM + ")"

// source is a set of objects that is read, and watched.
type source struct {
	// name is what is said of it when it cannot be read.
	name string
	// role says what its objects are in a run; empty where their kinds say so.
	role   string
	fields string
	labels string
	// keeps reports whether an object that was listed counts; nil where each does.
	keeps func(metav1.Object) bool
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Roles of the sources that have one.
const (
	ofJournal = "journal"
	ofLock    = "lock"
	ofNodes   = "nodes"
)

// Names of the sources. The names of their objects follow, which a seed keeps in another namespace.
const (
	fromJournal = "the journal, ConfigMap "
	fromControl = "whether the run is paused, ConfigMap "
	fromLock    = "the lock, Lease "
	fromLease   = "Lease " + namespace + "/"
	fromNodes   = "nodes"
	fromPods    = "pods of the control plane"
	fromEvents  = "events of "
)

// sourcesOf are all that is looked at, in the order in which it is read. The journal comes first and the lock after it.
// So a run that ends in between shows as one that goes on rather than as an abandoned one.
func sourcesOf(kube kubernetes.Interface, home journal.ObjectLocation, leases []string) []source {
	out := []source{
		journalSource(home),
		configMap(home, fromControl, pause.ControlName),
		lease(home.Leases(), fromLock+home.NamespaceOrDefault()+"/"+lock.LeaseName, lock.LeaseName),
	}
	out[2].role = ofLock
	for _, name := range leases {
		out = append(out, lease(kube.CoordinationV1().Leases(namespace), fromLease+name, name))
	}
	nodes := kube.CoreV1().Nodes()
	out = append(out,
		source{
			name: fromNodes, role: ofNodes,
			list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return nodes.List(ctx, o) },
			watch: nodes.Watch,
		},
		podSource(home))
	// Events about Nodes are in the namespace default. In another one, each of its users may write some about any Node.
	for _, of := range []struct {
		kind   string
		events coreclient.EventInterface
	}{
		{"Node", kube.CoreV1().Events(metav1.NamespaceDefault)},
		{"Service", kube.CoreV1().Events("")},
		{"Pod", home.Kube.CoreV1().Events(home.NamespaceOrDefault())},
	} {
		out = append(out, source{
			name: fromEvents + of.kind + "s", fields: fields.OneTermEqualSelector("involvedObject.kind", of.kind).String(),
			list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return of.events.List(ctx, o) },
			watch: of.events.Watch,
		})
	}
	return out
}

// podSource are the pods of the control plane. A seed labels them as it likes, so that the programs in them count.
func podSource(home journal.ObjectLocation) source {
	pods := home.Kube.CoreV1().Pods(home.NamespaceOrDefault())
	out := source{
		name: fromPods, labels: controlPlanePods,
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) },
		watch: pods.Watch,
	}
	if home.NamespaceOrDefault() != namespace {
		out.labels = ""
		out.keeps = func(o metav1.Object) bool {
			p, is := o.(*corev1.Pod)
			return is && len(workloads.SeedPods([]corev1.Pod{*p}, component.KAS, component.KCM, component.CCM)) > 0
		}
	}
	return out
}

func journalSource(home journal.ObjectLocation) source {
	out := configMap(home, fromJournal, journal.Name)
	out.role = ofJournal
	return out
}

// configMap is one of the ConfigMaps of a run, by its name in the cluster itself.
func configMap(home journal.ObjectLocation, what, base string) source {
	maps := home.Maps()
	return source{
		name: what + home.Describe(base), fields: byName(home.Name(base)),
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return maps.List(ctx, o) },
		watch: maps.Watch,
	}
}

func lease(leases coordinationclient.LeaseInterface, what, name string) source {
	return source{
		name: what, fields: byName(name),
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return leases.List(ctx, o) },
		watch: leases.Watch,
	}
}

func byName(name string) string { return fields.OneTermEqualSelector("metadata.name", name).String() }

// read lists everything of a source, page by page, and returns the version from which a watch goes on.
func (s source) read(ctx context.Context) (map[string]metav1.Object, string, error) {
	out := map[string]metav1.Object{}
	o := metav1.ListOptions{FieldSelector: s.fields, LabelSelector: s.labels, Limit: pageSize}
	for {
		page, err := s.list(ctx, o)
		if err != nil {
			return nil, "", err
		}
		err = meta.EachListItem(page, func(item runtime.Object) error {
			object, err := meta.Accessor(item)
			if err == nil && s.has(object) {
				out[key(object)] = object
			}
			return err
		})
		if err != nil {
			return nil, "", err
		}
		list, err := meta.ListAccessor(page)
		if err != nil {
			return nil, "", err
		}
		if o.Continue = list.GetContinue(); o.Continue == "" {
			return out, list.GetResourceVersion(), nil
		}
	}
}

// has reports whether an object is one of the source: an answer may hold more than was asked for.
func (s source) has(o metav1.Object) bool {
	if s.keeps != nil && !s.keeps(o) {
		return false
	}
	set := fields.Set{"metadata.name": o.GetName()}
	if e, ok := o.(*corev1.Event); ok {
		set["involvedObject.kind"] = e.InvolvedObject.Kind
	}
	selector, err := fields.ParseSelector(s.fields)
	return err != nil || selector.Matches(set)
}

func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// notAllowed follows what may not be read.
const notAllowed = ": not allowed: "

// isRefusedJournal reports whether a sentence says that the journal may not be read.
func isRefusedJournal(sentence string) bool {
	return strings.HasPrefix(sentence, fromJournal) && strings.Contains(sentence, notAllowed)
}

// sentence says what could not be read and why, in one line.
func (s source) sentence(err error) string {
	if apierrors.IsForbidden(err) {
		return s.name + notAllowed + err.Error()
	}
	return s.name + ": " + err.Error()
}

// headOf is the head of the journal among what was listed, which is no other object; nil where there is none.
func headOf(objects map[string]metav1.Object) *corev1.ConfigMap {
	for _, o := range objects {
		if cm, is := o.(*corev1.ConfigMap); is {
			return cm
		}
	}
	return nil
}

// readJournal reads the journal of a head, with what it keeps in other ConfigMaps; nil where there is none.
func readJournal(ctx context.Context, r *journal.Reader, cm *corev1.ConfigMap) (*v1.Journal, error) {
	if cm == nil {
		return nil, nil
	}
	doc, err := r.Read(ctx, cm)
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	return doc, nil
}

// ReadJournal reads the journal of the cluster; nil when there is none.
func ReadJournal(ctx context.Context, kube kubernetes.Interface) (*v1.Journal, error) {
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	of := journalSource(journal.InCluster(kube))
	objects, _, err := of.read(reading)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", of.name, err)
	}
	return readJournal(reading, journal.NewReader(journal.InCluster(kube)), headOf(objects))
}
