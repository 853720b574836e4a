package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/ccm/election/testimony"
)

// The times of the model. A period is a second, so that few seconds are all that has to be gone through.
const (
	modelLease    = "model"
	modelDuration = 3 * time.Second
	modelDeadline = 2 * time.Second
	modelRetry    = time.Second
	modelHistory  = 2 // how many versions a watch can be behind before it breaks
)

// contest is a state of the model: an API server with one lease, the processes that contend for it, and their kubelets.
// States are values: what they point to is never changed.
type contest struct {
	now       time.Duration
	history   []*coordinationv1.Lease // the newest versions; the last one is the lease as it is
	renewedAt time.Duration           // when its holder wrote last
	procs     []proc
}

// What a process waits for.
type stage int8

const (
	idle      stage = iota
	decided         // it has found the lease free, and is about to write
	travels         // its write is on its way
	answered        // the answer to its write is on its way
	readsBack       // the answer to its read is on its way
)

// proc is a process and its container. Incarnation i of slot s has the identity "si", before and after its end.
type proc struct {
	incarnation int // 0: there was none yet
	running     bool
	stopped     bool // by SIGSTOP, a freeze, or a suspended machine
	endedAt     time.Duration
	said        int    // the incarnation of which the pod's status says that it has ended
	seenTo      uint64 // the version that its watch has sent last

	record         leaseRecord
	held, over     bool
	renewed, next  time.Duration
	opened         bool
	revoked        bool
	until          time.Duration
	stage          stage
	attempt        attempt
	answer         *coordinationv1.Lease
	refusal        error
	late           *coordinationv1.Lease // a write that it gave up, or sent with its last breath
	lateIsCreation bool
	gaveUp         int
}

// model goes through contests with the product's candidates. Each slot has one. A state is loaded into it before it
// does something, and saved afterwards.
type model struct {
	options
	slots []*slot

	*contest // the one that is being changed

	got      string // the violation that was found
	takeover map[string]int
}

// options bound the model, and say what is taken away from the product.
type options struct {
	slots, incarnations int
	walls               int // how many times a wall clock can show
	gives               int // how many writes a process gives up that may arrive all the same
	// Whether processes are stopped, end by themselves, and read with delays or not at all. Those that watch need not.
	stops, ends, reads, noReads bool
	one                         bool // only the first process crashes, restarts, is stopped, and gives writes up
	lies                        bool // a runtime calls containers ended that run; then requests arrive at once

	unconditional bool // writes carry no resourceVersion
	unlooked      bool // a write is sent though the lease was renewed since it was found free
	sameStamp     bool // a renewal has the time of the wall clock, whatever that of the one before was
	lateCount     bool // a renewal counts from its answer
	unsettled     bool // a testimony counts at once
}

// slot is one product's candidate.
type slot struct {
	*candidate

	m     *model
	i     int
	ahead time.Duration // how far its clock is from that of the others
}

// Now is the clock of a slot. No two clocks agree, so that a comparison of the times of two processes means nothing.
func (s *slot) Now() time.Duration { return s.m.now + s.ahead }

func newModel(o options) *model {
	m := &model{options: o, takeover: map[string]int{}}
	for i := range o.slots {
		s := &slot{m: m, i: i, ahead: time.Duration(i*1000+1) * time.Hour}
		e, err := New(Config{
			Identity: "?", Client: s, Clock: s, LeaseDuration: modelDuration, RenewDeadline: modelDeadline, RetryPeriod: modelRetry,
			Leases: []Lease{{Namespace: "kube-system", Name: modelLease, Contend: true}},
		})
		if err != nil {
			panic(err)
		}
		e.stop, s.candidate = func(error) {}, e.candidates[0]
		m.slots = append(m.slots, s)
	}
	exported.mu.Lock()
	defer exported.mu.Unlock()
	delete(exported.leases, modelLease) // it is none of the process
	return m
}

func identity(slot, incarnation int) string { return fmt.Sprintf("%d%d", slot, incarnation) }

// process is the slot and the incarnation of an identity.
func process(identity string) (slot, incarnation int) {
	return int(identity[0] - '0'), int(identity[1] - '0')
}

// live is the lease as it is.
func (c *contest) live() *coordinationv1.Lease {
	if len(c.history) == 0 {
		return nil
	}
	return c.history[len(c.history)-1]
}

func versionOf(lease *coordinationv1.Lease) uint64 {
	if lease == nil || lease.ResourceVersion == "" {
		return 0
	}
	v, err := strconv.ParseUint(lease.ResourceVersion, 10, 64)
	if err != nil {
		panic(err)
	}
	return v
}

// arrive is a write that comes to the API server, which refuses it where the lease was written since.
func (m *model) arrive(lease *coordinationv1.Lease, create bool) (*coordinationv1.Lease, error) {
	live := m.live()
	gr := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	switch {
	case m.unconditional:
	case create && live != nil:
		return nil, apierrors.NewAlreadyExists(gr, modelLease)
	case !create && versionOf(lease) != versionOf(live):
		return nil, apierrors.NewConflict(gr, modelLease, errors.New("it was written since"))
	}
	if live != nil {
		m.judge(live, holder(lease))
	}
	lease = lease.DeepCopy()
	lease.ResourceVersion = fmt.Sprint(versionOf(live) + 1)
	m.history = append(m.history[max(0, len(m.history)-modelHistory+1):len(m.history):len(m.history)], lease)
	m.renewedAt = m.now
	return lease, nil
}

// judge checks a change of holder: only of a holder that has ended, or that wrote nothing for the lease's duration. A
// process that lives has closed its fence long before.
func (m *model) judge(live *coordinationv1.Lease, next string) {
	before := holder(live)
	if before == next || before == "" || next == "" {
		return
	}
	i, incarnation := process(before)
	p := &m.procs[i]
	over := !p.running || p.incarnation != incarnation
	ended := over && (p.incarnation != incarnation || m.now-p.endedAt >= modelRetry)
	expired := m.now-m.renewedAt >= modelDuration
	switch {
	case expired && !over && p.until-m.slots[i].ahead+(modelDuration-modelDeadline) > m.now:
		m.violated("%s takes the lease of %s, which may have acted until a moment ago", next, before)
	case expired:
		m.takeover["expired"]++
	case ended:
		m.takeover["ended"]++
	default:
		m.violated("%s takes the lease of %s, which has not ended, %s after its renewal", next, before, m.now-m.renewedAt)
	}
}

func (m *model) violated(format string, args ...any) {
	if m.got == "" {
		m.got = fmt.Sprintf(format, args...)
	}
}

// load makes the candidate of a slot what the state says.
func (s *slot) load() *proc {
	p := &s.m.procs[s.i]
	c := s.candidate
	c.e.lost, c.e.config.Identity = nil, identity(s.i, p.incarnation)
	c.e.config.Testimony = &Testimony{Self: &testimony.Self{Pod: fmt.Sprint("pod-", s.i), Node: fmt.Sprint("node-", s.i)}}
	c.record = p.record
	c.record.sent = append([]metav1.MicroTime(nil), p.record.sent...)
	c.held, c.over, c.renewed, c.next, c.end = p.held, p.over, p.renewed, p.next, nil
	f := c.fence
	f.open, f.revoked, f.until, f.refused = p.opened, p.revoked, p.until, 0
	return p
}

// save is the reverse. Nothing depends on when the lease was heard of last: it may be read at any time.
func (s *slot) save(p *proc) {
	c := s.candidate
	if p.opened = c.fence.passes(); c.fence.timer != nil {
		c.fence.timer.Stop()
	}
	p.revoked, p.until = c.fence.revoked, c.fence.until
	p.record = c.record
	p.record.heard, p.record.stale, p.record.watching, p.record.freeAt = 0, false, false, time.Time{}
	p.held, p.over, p.renewed, p.next = c.held, c.over, c.renewed, c.next
	if p.running && p.over && c.e.lost != nil { // it exits
		s.m.end(p)
	}
}

// end is the end of a process: what it has sent may still arrive.
func (m *model) end(p *proc) {
	m.giveUp(p)
	*p = proc{incarnation: p.incarnation, said: p.said, endedAt: m.now, late: p.late, lateIsCreation: p.lateIsCreation}
}

// giveUp leaves a write that is on its way to itself.
func (m *model) giveUp(p *proc) {
	if p.stage == travels {
		p.late, p.lateIsCreation = p.attempt.lease, p.attempt.create
	}
	p.stage, p.attempt, p.answer, p.refusal = idle, attempt{}, nil, nil
}

// The client of a slot answers with what the state says: the answers have travelled.

func (s *slot) Leases(string) coordinationv1client.LeaseInterface { return modelClient{s: s} }

type modelClient struct {
	coordinationv1client.LeaseInterface

	s *slot
}

func (c modelClient) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	if live := c.s.m.live(); live != nil {
		return live, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, modelLease)
}

func (c modelClient) Create(ctx context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return c.Update(ctx, l, metav1.UpdateOptions{})
}

func (c modelClient) Update(_ context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	p := &c.s.m.procs[c.s.i]
	if p.stage == answered {
		return p.answer, p.refusal
	}
	return c.s.m.arrive(l, false) // a release
}

// pod is what the API shows of a slot's pod.
func (m *model) pod(i int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", i)}}
	pod.Spec.NodeName = fmt.Sprint("node-", i)
	if said := m.procs[i].said; said != 0 {
		ended := &corev1.ContainerStateTerminated{Message: testimony.Epitaph(identity(i, said)), ExitCode: 137}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{LastTerminationState: corev1.ContainerState{Terminated: ended}}}
	}
	return pod
}

// event is what the watch of a process sends next; nil where it has sent all. A watch that is too far behind breaks, and
// the next one begins with the lease as it is.
func (m *model) event(p *proc) *watch.Event {
	live := m.live()
	if versionOf(live) == p.seenTo {
		return nil
	}
	for _, lease := range m.history {
		if versionOf(lease) == p.seenTo+1 {
			return &watch.Event{Type: watch.Modified, Object: lease}
		}
	}
	return &watch.Event{Type: watch.Added, Object: live}
}

// stateKey is what two states have in common in which the same can happen: no absolute times, versions and counts.
func (m *model) stateKey(b []byte) []byte {
	k := keyer{m: m, b: b, stamps: make([][]int64, len(m.slots))}
	k.collect()
	k.int(clip(m.now-m.renewedAt, modelDuration))
	k.int(len(k.known))
	for _, l := range k.known {
		k.lease(l)
	}
	for i := range m.procs {
		k.proc(i)
	}
	return k.b
}

func clip(age, most time.Duration) int { return int(min(age, most) / (modelRetry / 4)) }

type keyer struct {
	m      *model
	b      []byte
	known  []*coordinationv1.Lease // in the order of their versions
	stamps [][]int64               // those that each slot has written, in their order: no other's are compared with them
}

func (k *keyer) int(n int) { k.b = append(k.b, byte(int8(n))) }

func (k *keyer) flags(of ...bool) {
	n := 0
	for i, f := range of {
		if f {
			n |= 1 << i
		}
	}
	k.int(n)
}

// collect finds the versions and times that are known anywhere.
func (k *keyer) collect() {
	live := versionOf(k.m.live())
	least := live
	for i := range k.m.procs {
		p := &k.m.procs[i]
		k.note(p.record.seen)
		k.note(p.answer)
		k.noteStamps(p.attempt.lease)
		k.noteStamps(p.late)
		k.noteStamp(i, &p.record.written)
		for j := range p.record.sent {
			k.noteStamp(i, &p.record.sent[j])
		}
		if p.running {
			least = min(least, p.seenTo+1)
		}
	}
	for _, l := range k.m.history {
		if versionOf(l) >= least {
			k.note(l)
		}
	}
}

func (k *keyer) note(l *coordinationv1.Lease) {
	if l == nil {
		return
	}
	v := versionOf(l)
	i, found := slices.BinarySearchFunc(k.known, v, func(l *coordinationv1.Lease, v uint64) int { return cmp.Compare(versionOf(l), v) })
	if !found {
		k.known = slices.Insert(k.known, i, l)
		k.noteStamps(l)
	}
}

func (k *keyer) noteStamps(l *coordinationv1.Lease) {
	if l != nil {
		k.noteStamp(writer(l), l.Spec.RenewTime)
		k.noteStamp(writer(l), l.Spec.AcquireTime)
	}
}

// writer is the slot that holds a version; the first one for one that is released, of which no time counts.
func writer(l *coordinationv1.Lease) int {
	if holder(l) == "" {
		return 0
	}
	i, _ := process(holder(l))
	return i
}

func (k *keyer) noteStamp(slot int, t *metav1.MicroTime) {
	if t == nil {
		return
	}
	if i, found := slices.BinarySearch(k.stamps[slot], t.UnixMicro()); !found {
		k.stamps[slot] = slices.Insert(k.stamps[slot], i, t.UnixMicro())
	}
}

func (k *keyer) stamp(slot int, t *metav1.MicroTime) {
	if t == nil {
		k.int(-1)
		return
	}
	i, _ := slices.BinarySearch(k.stamps[slot], t.UnixMicro())
	k.int(i)
}

// version writes which of the known versions it is.
func (k *keyer) version(l *coordinationv1.Lease) {
	if l == nil {
		k.int(-1)
		return
	}
	k.int(slices.Index(k.known, l))
}

// lease writes what a version says. Terms are not a part of it: no decision asks for them.
func (k *keyer) lease(l *coordinationv1.Lease) {
	k.b = append(k.b, holder(l)...)
	k.stamp(writer(l), l.Spec.RenewTime)
	k.stamp(writer(l), l.Spec.AcquireTime)
	k.int(int(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)))
}

// write writes a write that has not arrived, and whether it would still be of the newest version.
func (k *keyer) write(l *coordinationv1.Lease, create bool) {
	k.flags(create, versionOf(l) == versionOf(k.m.live()))
	k.lease(l)
}

func (k *keyer) proc(i int) {
	p := &k.m.procs[i]
	k.int(p.incarnation)
	k.int(p.said)
	k.int(p.gaveUp)
	k.flags(p.running, p.stopped, p.late != nil)
	if p.late != nil {
		k.write(p.late, p.lateIsCreation)
	}
	if !p.running {
		k.int(clip(k.m.now-p.endedAt, modelRetry))
		return
	}
	now := k.m.now + k.m.slots[i].ahead
	k.int(int(min(versionOf(k.m.live())-p.seenTo, modelHistory+1)))
	k.record(i, &p.record, now)
	k.flags(p.held, p.over, p.opened, p.revoked)
	k.int(max(clip(p.until-now, modelDuration), clip(modelDeadline-modelDuration, 0)))
	if p.held {
		k.int(clip(now-p.renewed, modelDeadline))
	}
	k.int(max(0, clip(p.next-now, modelDuration)))
	k.int(int(p.stage))
	switch p.stage {
	case travels, answered:
		k.write(p.attempt.lease, p.attempt.create)
		k.int(clip(now-p.attempt.at, modelDeadline))
		fallthrough
	case readsBack:
		k.flags(p.attempt.before == p.record.count, p.refusal != nil)
		k.version(p.answer)
	default: // no request is under way
	}
}

func (k *keyer) record(slot int, r *leaseRecord, now time.Duration) {
	ended := r.seen != nil && r.ended == holder(r.seen) && r.seenAt <= r.endedAt
	k.flags(r.known, r.vanished, ended)
	k.version(r.seen)
	k.int(clip(now-r.seenAt, modelDuration))
	if ended {
		k.int(clip(now-r.endedAt, modelDuration))
	}
	k.stamp(slot, &r.written)
	k.int(len(r.sent))
	for i := range r.sent {
		k.stamp(slot, &r.sent[i])
	}
	for n := range k.m.walls { // what comes next, relative to the others
		next := r.used.unused(time.UnixMicro(int64(n))).UnixMicro()
		i, found := slices.BinarySearch(k.stamps[slot], next)
		k.int(i)
		k.flags(found)
	}
}
