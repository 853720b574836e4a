package cloud

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// reader is Instances.
//
//	Read --not in the cache--> lane --a batch, when the budget allows--> provider
//	     <--state of each node-- item <------------------------------------'
//
// There is one item for a node that is asked for, however many callers wait for it.
type reader struct {
	provider cloudprovider.Interface
	caller   *caller

	mu      sync.Mutex
	lanes   map[laneKey]*batcher
	running map[nodeKey][]*item
	cache   cache
}

// nodeKey is what a state is of. A node that is created again under its name, and one that got its providerID, have
// another.
type nodeKey struct{ name, uid, providerID string }

func keyOf(node *corev1.Node) nodeKey {
	return nodeKey{node.Name, string(node.UID), node.Spec.ProviderID}
}

// item is a question about one node, waiting or being asked.
type item struct {
	key     nodeKey
	node    *corev1.Node
	want    Want
	class   Class
	waiters int
	begun   time.Time // of the call; zero while it waits
	batch   *batch
	done    chan struct{} // closed once state is there
	state   InstanceState
}

func newReader(provider cloudprovider.Interface, caller *caller) *reader {
	return &reader{
		provider: provider,
		caller:   caller,
		lanes:    map[laneKey]*batcher{},
		running:  map[nodeKey][]*item{},
		cache:    cache{states: map[nodeKey]remembered{}},
	}
}

// BatchSize implements Instances.
func (r *reader) BatchSize() int {
	if lister, ok := r.provider.(InstancesLister); ok {
		return max(lister.MaxInstances(), 1)
	}
	return 1
}

// Read implements Instances.
func (r *reader) Read(ctx context.Context, nodes []*corev1.Node, want Want, maxAge time.Duration) []InstanceState {
	states := make([]InstanceState, len(nodes))
	items := make([]*item, len(nodes))
	class := classOf(ctx, ClassNode)
	sources := map[string]int{}
	r.mu.Lock()
	now := time.Now()
	r.cache.noteMaxAge(maxAge, now)
	used := map[*batcher]bool{}
	for i, node := range nodes {
		state, ok := r.cache.get(keyOf(node), want, now, maxAge)
		if ok {
			states[i] = state
			sources["cache"]++
			continue
		}
		var source string
		items[i], source = r.item(node, want, class, now, maxAge, used)
		sources[source]++
	}
	for l := range used {
		l.schedule(ctx)
	}
	r.mu.Unlock()
	for source, n := range sources {
		readsTotal.WithLabelValues(source).Add(float64(n))
	}
	for i, item := range items {
		if item != nil {
			states[i] = r.wait(ctx, item, want)
		}
	}
	return states
}

// item returns the item that will have a node's state. It is an existing one if its answer is young enough, or a new
// one in a lane.
func (r *reader) item(
	node *corev1.Node,
	want Want,
	class Class,
	now time.Time,
	maxAge time.Duration,
	used map[*batcher]bool,
) (*item, string) {
	key := keyOf(node)
	for _, item := range r.running[key] {
		if item.want&want == want && now.Sub(item.begun) <= maxAge && item.waiters > 0 {
			item.waiters++
			return item, "shared"
		}
	}
	own := r.lane(class, want&WantMetadata != 0)
	for _, l := range []*batcher{r.lane(class, true), own} { // who wants metadata gets the rest along with it
		if item := l.find(key); item != nil {
			item.want |= want
			item.class = important(item.class, class)
			item.waiters++
			return item, "shared"
		}
	}
	used[own] = true
	made := &item{
		key:     key,
		node:    node,
		want:    want,
		class:   class,
		waiters: 1,
		done:    make(chan struct{}),
	}
	own.push(made, now)
	return made, "cloud"
}

// wait returns an item's state once it is there, or why it is not waited for any more.
func (r *reader) wait(ctx context.Context, item *item, want Want) InstanceState {
	select {
	case <-item.done:
		return copyForCaller(item.state, want)
	default: // a state that is there is given also to a caller whose time is over
	}
	select {
	case <-item.done:
		return copyForCaller(item.state, want)
	case <-ctx.Done():
		r.dropWaiter(item)
		return InstanceState{Err: contextError(ctx)}
	}
}

// dropWaiter is for a waiter that does not wait any more. A question without a waiting caller is not asked, or its call
// is cancelled.
func (r *reader) dropWaiter(item *item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	item.waiters--
	if item.waiters == 0 && item.batch != nil {
		item.batch.left()
	}
}

// finish gives an item its state.
func (r *reader) finish(i *item, want Want, state InstanceState) {
	state = tidy(state, want)
	r.mu.Lock()
	r.running[i.key] = slices.DeleteFunc(r.running[i.key], func(other *item) bool { return other == i })
	if len(r.running[i.key]) == 0 {
		delete(r.running, i.key)
	}
	r.cache.putState(i.key, state, want, i.begun, time.Now())
	r.mu.Unlock()
	i.state = state
	close(i.done)
}

// tidy removes from a state what is not valid in it, as the provider may not have done.
func tidy(state InstanceState, want Want) InstanceState {
	switch {
	case state.Err != nil:
		return InstanceState{Err: state.Err, IDAsked: state.IDAsked, IDNotFound: state.IDNotFound}
	case !state.Exists:
		return InstanceState{Terminated: state.Terminated, IDAsked: state.IDAsked, IDNotFound: state.IDNotFound}
	}
	state.Terminated = false
	if want&WantMetadata == 0 {
		state.Metadata = nil
	}
	if want&WantPodCIDRs == 0 {
		state.PodCIDRs = nil
	}
	return state
}

// copyForCaller is a state as one caller gets it: with nothing that it did not want, and nothing that it could change
// for others.
func copyForCaller(state InstanceState, want Want) InstanceState {
	if want&WantPodCIDRs == 0 {
		state.PodCIDRs = nil
	}
	state.PodCIDRs = slices.Clone(state.PodCIDRs)
	if state.Metadata == nil || want&WantMetadata == 0 {
		state.Metadata = nil
		return state
	}
	m := *state.Metadata
	m.NodeAddresses = slices.Clone(m.NodeAddresses)
	m.AdditionalLabels = maps.Clone(m.AdditionalLabels)
	state.Metadata = &m
	return state
}
