package podreason

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// Bounds of what is asked about a pod that is waited for.
const (
	// eventPause and logPause are the time between two requests about one pod. refusedPause is how long what was refused
	// is not asked for again.
	eventPause, logPause, refusedPause = 5 * time.Second, time.Minute, time.Minute
	// requestTimeout bounds one request.
	requestTimeout = 5 * time.Second
	// maxEvents, maxLines and maxLog bound one answer.
	maxEvents, maxLines, maxLog = 100, 20, 16 << 10
	// maxPods is of how many pods answers are remembered.
	maxPods = 64
)

// Reader asks the API for what says more about a pod that does not run. It asks seldom, remembers what it was told, and
// says less where it may not ask. It is safe for concurrent use; a nil one asks nothing.
type Reader struct {
	Clock clock.PassiveClock
	// NoLogs leaves logs unread, where the right to read them is not needed for anything else.
	NoLogs bool
	// NoNodes leaves nodes unread: those of a seed are not for who hosts a control plane in it.
	NoNodes bool

	mu      sync.Mutex
	pods    map[types.UID]*answers
	nodes   map[string]answer
	refused map[string]time.Time // by what was asked for, and in which namespace: a right may be of one alone
}

// answers are what was told about one pod, and when.
type answers struct {
	events   []corev1.Event
	eventsAt time.Time
	line     string
	lineAt   time.Time
}

// answer is what was told about one node, and when.
type answer struct {
	node *corev1.Node
	at   time.Time
}

// Explain returns why a pod, as it was just read, does not run or is not Ready; false where it is Ready.
func (r *Reader) Explain(ctx context.Context, kube kubernetes.Interface, p *corev1.Pod) (Reason, bool) {
	return r.explain(ctx, kube, p, false)
}

// ExplainWorkload is Explain for a pod whose words are of no concern here. It reads neither the log nor what the
// containers said when they ended.
func (r *Reader) ExplainWorkload(ctx context.Context, kube kubernetes.Interface, p *corev1.Pod) (Reason, bool) {
	return r.explain(ctx, kube, withoutWords(p), true)
}

// withoutWords is a pod without what its containers wrote.
func withoutWords(p *corev1.Pod) *corev1.Pod {
	out := p.DeepCopy()
	for _, all := range [][]corev1.ContainerStatus{out.Status.InitContainerStatuses, out.Status.ContainerStatuses} {
		for i := range all {
			for _, s := range []*corev1.ContainerState{&all[i].State, &all[i].LastTerminationState} {
				if s.Terminated != nil {
					s.Terminated.Message = ""
				}
			}
		}
	}
	return out
}

func (r *Reader) explain(
	ctx context.Context, kube kubernetes.Interface, p *corev1.Pod, isWorkload bool,
) (Reason, bool) {
	f := Facts{Pod: p, Now: time.Now()}
	if r == nil || kube == nil {
		return Of(f)
	}
	f.Now = r.Clock.Now()
	known := r.knownAnswers(p.UID)
	f.Events, f.LastLine = known.events, known.line
	out, is := Of(f)
	if !is {
		return out, false
	}
	if out.lacksEvents && r.isDue(&known.eventsAt, eventPause, "events of "+p.Namespace) {
		if events, ok := r.listEvents(ctx, kube, p); ok {
			known.events, f.Events = events, events
		}
	}
	if out.lacksLog && !r.NoLogs && !isWorkload && r.isDue(&known.lineAt, logPause, "log of "+p.Namespace) {
		if line, ok := r.readLog(ctx, kube, p, out); ok {
			known.line, f.LastLine = line, line
		}
	}
	if needsNode(p) {
		f.Node = r.Node(ctx, kube, p.Spec.NodeName)
	}
	r.storeAnswers(p.UID, known)
	return Of(f)
}

// needsNode reports whether a pod's node says more: its kubelet has not started the pod, or does not end it.
func needsNode(p *corev1.Pod) bool { return p.Status.StartTime == nil || p.DeletionTimestamp != nil }

// Node returns a node whose condition explains a wait, as it was a moment ago; nil when it cannot be read.
func (r *Reader) Node(ctx context.Context, kube kubernetes.Interface, name string) *corev1.Node {
	if r == nil || kube == nil || name == "" || r.NoNodes {
		return nil
	}
	r.mu.Lock()
	known := r.nodes[name]
	r.mu.Unlock()
	if !r.isDue(&known.at, eventPause, "node") {
		return known.node
	}
	known.node, _ = r.getNode(ctx, kube, name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes == nil || len(r.nodes) >= maxPods {
		r.nodes = map[string]answer{}
	}
	r.nodes[name] = known
	return known.node
}

func (r *Reader) knownAnswers(uid types.UID) answers {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.pods[uid]; a != nil {
		return *a
	}
	return answers{}
}

func (r *Reader) storeAnswers(uid types.UID, a answers) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods == nil || len(r.pods) >= maxPods && r.pods[uid] == nil {
		r.pods = map[types.UID]*answers{}
	}
	r.pods[uid] = &a
}

// isDue reports whether something may be asked for now, and notes that it is.
func (r *Reader) isDue(last *time.Time, pause time.Duration, what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Clock.Now()
	if at, refused := r.refused[what]; refused && now.Sub(at) < refusedPause {
		return false
	}
	if !last.IsZero() && now.Sub(*last) < pause {
		return false
	}
	*last = now
	return true
}

// rememberRefusal remembers that something may not be asked for.
func (r *Reader) rememberRefusal(what string, err error) {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil || len(r.refused) >= maxPods {
		r.refused = map[string]time.Time{}
	}
	r.refused[what] = r.Clock.Now()
}

func (r *Reader) listEvents(ctx context.Context, kube kubernetes.Interface, p *corev1.Pod) ([]corev1.Event, bool) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := kube.CoreV1().Events(p.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{
			"involvedObject.kind": "Pod", "involvedObject.name": p.Name, "involvedObject.uid": string(UID(p)),
		}.String(),
		Limit: maxEvents,
	})
	if err != nil {
		r.rememberRefusal("events of "+p.Namespace, err)
		return nil, false
	}
	return list.Items[:min(len(list.Items), maxEvents)], true
}

// readLog returns the last line of a container that has ended. A log is asked for by the name of a pod, which may be
// another one's by now.
func (r *Reader) readLog(ctx context.Context, kube kubernetes.Interface, p *corev1.Pod, of Reason) (string, bool) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{
		Container:  of.container,
		Previous:   !of.current,
		TailLines:  ptr.To[int64](maxLines),
		LimitBytes: ptr.To[int64](maxLog),
	}).Stream(ctx)
	if err != nil {
		r.rememberRefusal("log of "+p.Namespace, err)
		return "", false
	}
	defer func() { _ = stream.Close() }()
	data, err := io.ReadAll(io.LimitReader(stream, maxLog))
	if err != nil {
		return "", false
	}
	now, err := kube.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil || now.UID != p.UID {
		return "", false
	}
	if len(data) == maxLog { // of a line that is cut, the rest of a token is not known for one
		data = data[:bytes.LastIndexByte(data, '\n')+1]
	}
	return lastLine(string(data)), true
}

func (r *Reader) getNode(ctx context.Context, kube kubernetes.Interface, name string) (*corev1.Node, bool) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	n, err := kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		r.rememberRefusal("node", err)
		return nil, false
	}
	return n, true
}
