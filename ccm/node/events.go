package node

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// The reasons of events on nodes. The warnings are also the label of the counter of failures.
const (
	// Synced is upstream's: the node has been initialised.
	Synced = "Synced"
	// CloudMetadataMissing is that the provider says nothing about the node's instance, neither metadata nor an error.
	CloudMetadataMissing = "CloudMetadataMissing"
	// InstanceMissing is that the cloud has no such instance, at least not yet.
	InstanceMissing = "InstanceMissing"
	// ProviderIDMissing is that neither the node nor the provider knows the node's provider ID.
	ProviderIDMissing = "ProviderIDMissing"
	// ProvidedIPMismatch is that the kubelet was told to use an IP that is not one of the instance's.
	ProvidedIPMismatch = "ProvidedIPMismatch"
	// InvalidLabel is that labels from the provider were left out because the API server would refuse them.
	InvalidLabel = "InvalidLabel"
	// ReadingInstanceFailed is that the provider returned an error or panicked.
	ReadingInstanceFailed = "ReadingInstanceFailed"
	// UpdatingNodeFailed is that the API server refused a patch.
	UpdatingNodeFailed = "UpdatingNodeFailed"
)

// failure is why a node is not yet what it should be.
type failure struct {
	reason string
	err    error
	// lasting is that it will most likely be so at the next attempt: the user is told at once. Others are told when they
	// have lasted for some attempts.
	lasting bool
}

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

func lasting(reason, format string, args ...any) error {
	return &failure{reason, fmt.Errorf(format, args...), true}
}

func passing(reason string, err error) error { return &failure{reason: reason, err: err} }

// tellAfter is after how many attempts a failure is told that may pass.
const tellAfter = 3

// reporter reports failures to users, once per node and reason until the node is well again. It does not report all
// nodes at once when the cloud fails: an event is a write, and initialising nodes needs writes.
type reporter struct {
	recorder record.EventRecorder
	limiter  *rate.Limiter

	mu    sync.Mutex
	known map[string]*told // by name
}

type told struct {
	uid    types.UID
	reason string
	times  int
	done   bool
}

func newReporter() *reporter {
	return &reporter{limiter: rate.NewLimiter(1, 50), known: map[string]*told{}}
}

// recordFailure notes a failure. first is true when the last failure of the node had another reason, or was so long ago
// that the node has been well since.
func (t *reporter) recordFailure(node *corev1.Node, err error) (first bool) {
	f := &failure{reason: UpdatingNodeFailed, err: err}
	_ = errors.As(err, &f)
	failures.WithLabelValues(f.reason).Inc()
	t.mu.Lock()
	defer t.mu.Unlock()
	entry := t.known[node.Name]
	if entry == nil || entry.uid != node.UID || entry.reason != f.reason {
		entry = &told{uid: node.UID, reason: f.reason}
		t.known[node.Name] = entry
	}
	entry.times++
	if !entry.done && (f.lasting || entry.times >= tellAfter) && t.limiter.Allow() {
		entry.done = true
		t.recorder.Event(node, corev1.EventTypeWarning, f.reason, f.Error())
	}
	return entry.times == 1
}

// forget ends what is known of a node's failures.
func (t *reporter) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, name)
}
