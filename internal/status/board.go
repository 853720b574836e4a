package status

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
)

// Waiting times between two attempts to see a source again: an API server that restarts is back within seconds. What
// may not be read is asked for seldom, since an administrator may grant it meanwhile.
const (
	firstRetry     = 200 * time.Millisecond
	lastRetry      = 2 * time.Second
	forbiddenRetry = time.Minute
	// coldAuthorizer is for how long a refusal of what could be read before counts for nothing. An API server that was
	// just started knows no roles yet.
	coldAuthorizer = 20 * time.Second
	// readTimeout bounds a list, watchFor is how long a watch is asked to last.
	readTimeout = 15 * time.Second
	watchFor    = 5 * time.Minute
)

// Options of a Board.
type Options struct {
	Kube    kubernetes.Interface
	Cluster v1.Cluster
	// Home is where the journal, the lock and the pods of the control plane are: a namespace of the seed that hosts it.
	// Without a client in it they are in the cluster itself.
	Home journal.ObjectLocation
	// Check says which rule a journal breaks. When nil, a journal is held to the rules alone.
	Check func(v1.Journal) error
	// Now is the time of the API server.
	Now func() time.Time
	// Clock waits between two attempts; the real one when nil.
	Clock clock.Clock
}

// Board holds what was read, and follows how it changes.
type Board struct {
	Options
	sources []source
	// changed has an element when something changed since it was read.
	changed chan struct{}

	mu      sync.Mutex
	objects map[string]map[string]metav1.Object // by source
	errors  map[string]error
	refused map[string]time.Time // since when what could be read before is refused
	// journal is what was read of the journal's head and its parts, or why it could not be.
	journal    *v1.Journal
	journalErr error
	// untrusted is which rule the journal breaks, once it is judged as it was read last. The rules take 200 ms with 5,000
	// workers, and a journal changes more often than it is shown.
	untrusted error
	judged    bool

	reading sync.Mutex // held while the journal's parts are read
	reader  *journal.Reader
}

// NewBoard returns an empty board. The leases are those of LeaseNames.
func NewBoard(o Options, leases []string) *Board {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Home.Kube == nil {
		o.Home = journal.InCluster(o.Kube)
	}
	if o.Check == nil {
		o.Check = func(doc v1.Journal) error { return trust.CheckJournal(doc, nil) }
	}
	return &Board{
		Options: o,
		sources: sourcesOf(o.Kube, o.Home, leases),
		changed: make(chan struct{}, 1),
		objects: map[string]map[string]metav1.Object{},
		errors:  map[string]error{},
		refused: map[string]time.Time{},
		reader:  journal.NewReader(o.Home),
	}
}

// Look reads every source once.
func (b *Board) Look(ctx context.Context) {
	for _, s := range b.sources {
		_, _ = b.readSource(ctx, s) // the board keeps why
	}
}

func (b *Board) readSource(ctx context.Context, s source) (string, error) {
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	objects, version, err := s.read(reading)
	if err == nil && s.role == ofJournal {
		err = b.readJournal(reading, headOf(objects))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isColdRefusal(s, err) {
		return version, errCold
	}
	if b.errors[s.name] = err; err == nil {
		b.objects[s.name] = objects // what was read before stays known while an API server restarts
	} else if apierrors.IsForbidden(err) {
		delete(b.objects, s.name)
	}
	return version, err
}

// readJournal reads the journal of a head. An error is returned when reading it again may help; the board keeps any
// other.
func (b *Board) readJournal(ctx context.Context, head *corev1.ConfigMap) error {
	b.reading.Lock()
	defer b.reading.Unlock()
	doc, err := readJournal(ctx, b.reader, head)
	if err != nil && (ctx.Err() != nil || apierrors.IsForbidden(err) || retry.IsTransient(err)) {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.journal, b.journalErr, b.judged = doc, err, false
	return nil
}

// errCold stands for a refusal that passes by itself.
var errCold = errors.New("the API server knows no roles yet")

// isColdRefusal reports whether a refusal is that of an API server which was just started: what it refuses could be
// read a moment ago. The board is locked.
func (b *Board) isColdRefusal(s source, err error) bool {
	if !apierrors.IsForbidden(err) {
		if err == nil {
			delete(b.refused, s.name)
		}
		return false
	}
	since, refused := b.refused[s.name]
	if !refused && b.objects[s.name] == nil {
		return false
	}
	if !refused {
		since = b.Clock.Now()
		b.refused[s.name] = since
	}
	return b.Clock.Since(since) < coldAuthorizer && b.objects[s.name] != nil
}

// Follow watches every source until ctx ends, through restarts of API servers. Changed tells when there is something
// new.
func (b *Board) Follow(ctx context.Context) {
	var wg sync.WaitGroup
	for _, s := range b.sources {
		wg.Go(func() { b.followSource(ctx, s) })
	}
	wg.Wait()
}

// Changed has an element when something changed since it was last received from.
func (b *Board) Changed() <-chan struct{} { return b.changed }

func (b *Board) signalChange() {
	select {
	case b.changed <- struct{}{}:
	default: // it is told already
	}
}

func (b *Board) followSource(ctx context.Context, s source) {
	retry := firstRetry
	for ctx.Err() == nil {
		version, err := b.readSource(ctx, s)
		if ctx.Err() != nil {
			return
		}
		b.signalChange()
		if err == nil {
			retry = firstRetry
			err = b.watch(ctx, s, version)
		}
		wait := retry
		if retry = min(2*retry, lastRetry); apierrors.IsForbidden(err) {
			wait = forbiddenRetry
		}
		select {
		case <-ctx.Done():
		case <-b.Clock.After(wait):
		}
	}
}

// watch takes changes in until the watch ends.
func (b *Board) watch(ctx context.Context, s source, version string) error {
	w, err := s.watch(ctx, metav1.ListOptions{
		FieldSelector:       s.fields,
		LabelSelector:       s.labels,
		ResourceVersion:     version,
		AllowWatchBookmarks: true,
		TimeoutSeconds:      ptr.To(int64(watchFor / time.Second)),
	})
	if err != nil {
		b.mu.Lock()
		cold := b.isColdRefusal(s, err)
		if cold {
			err = errCold
		} else {
			b.errors[s.name] = err
		}
		b.mu.Unlock()
		b.signalChange()
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-w.ResultChan():
			if !open || e.Type == watch.Error {
				return nil // it is read again, and watched from there
			}
			if !b.applyEvent(s, e) {
				continue
			}
			if s.role == ofJournal {
				if b.readJournal(ctx, b.head()) != nil {
					return nil // it is read again, and says why then
				}
			}
			b.signalChange()
		}
	}
}

// head is the journal's head as it was seen last; nil where there is none.
func (b *Board) head() *corev1.ConfigMap {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sources {
		if s.role == ofJournal {
			return headOf(b.objects[s.name])
		}
	}
	return nil
}

// applyEvent takes an event of a watch in; false when it changes nothing.
func (b *Board) applyEvent(s source, e watch.Event) bool {
	o, ok := e.Object.(metav1.Object)
	if !ok || e.Type == watch.Bookmark {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, known := b.objects[s.name][key(o)]
	if e.Type == watch.Deleted || !s.has(o) { // a pod that has ended counts no longer
		delete(b.objects[s.name], key(o))
		return known
	}
	b.objects[s.name][key(o)] = o
	return true
}

// Facts are what the board holds now.
func (b *Board) Facts() Facts {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := Facts{
		Cluster: b.Cluster,
		Now:     b.Now(),
		Leases:  map[string]*coordinationv1.Lease{},
		Nodes:   map[string]*corev1.Node{},
	}
	for _, s := range b.sources {
		if err := b.errors[s.name]; err != nil {
			f.NotRead = append(f.NotRead, s.sentence(err))
		}
		switch s.role {
		case ofJournal:
			if b.objects[s.name] == nil {
				f.JournalUnknown = true
				continue
			}
			if b.journalErr != nil {
				f.NotRead = append(f.NotRead, b.journalErr.Error())
			}
			f.Journal, f.JournalUnknown, f.Untrusted = b.journal, b.journalErr != nil, b.checkJournal()
			continue
		case ofLock:
			f.LockUnknown = b.objects[s.name] == nil
		case ofNodes:
			f.NodesKnown = b.objects[s.name] != nil
		}
		for _, key := range slices.Sorted(maps.Keys(b.objects[s.name])) {
			f.add(b.objects[s.name][key])
		}
	}
	return f
}

// checkJournal returns which rule the journal breaks. The board is locked.
func (b *Board) checkJournal() error {
	if b.judged {
		return b.untrusted
	}
	b.judged, b.untrusted = true, nil
	if b.journal != nil {
		b.untrusted = b.Check(*b.journal)
	}
	return b.untrusted
}

// add puts an object where it belongs.
func (f *Facts) add(o metav1.Object) {
	switch o := o.(type) {
	case *corev1.ConfigMap:
		f.Control = o
	case *coordinationv1.Lease:
		if o.Name == lock.LeaseName {
			f.Lock = lock.StateOf(o)
		} else {
			f.Leases[o.Name] = o
		}
	case *corev1.Node:
		f.Nodes[o.Name] = o
	case *corev1.Pod:
		f.Pods = append(f.Pods, o)
	case *corev1.Event:
		f.Events = append(f.Events, o)
	}
}

// Ready reports whether every source was asked at least once.
func (b *Board) Ready() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sources {
		if _, asked := b.errors[s.name]; !asked {
			return false
		}
	}
	return true
}
