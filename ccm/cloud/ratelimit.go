package cloud

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// budget decides when a call may be made. While nothing is throttled, that is at once.
//
//	a call of class c --> queue of c --rate of c--> the queues' turns, by weight --rate of all--> the provider
//	      the answer's outcome --> the rate of c, or of all
//
// The rates fall when the cloud throttles and grow while it does not. Clouds limit each of their services, or an
// account. As long as one class alone is throttled, only its rate falls. So an overloaded load balancer API does not
// slow down reads of instances. Once a second class is throttled, too, the limit is taken for a shared one, and the
// classes share one rate by their weights. What a class leaves unused goes to the others.
type budget struct {
	mu     sync.Mutex
	all    limiter
	shared bool
	queues []*queue // by priority
	turn   float64  // the virtual time of the turns: no queue that was idle may claim what it did not use then
	timer  *time.Timer
}

// weights are the shares of classes that want more than there is, most important first. A class that waits gets at
// least its weight's part.
var weights = []struct {
	class  Class
	weight float64
}{
	{ClassNode, 4},
	{ClassLifecycle, 2},
	{ClassLoadBalancer, 2},
	{ClassRoute, 1},
	{ClassOther, 1},
}

// classAll is the label of the rate of all classes together.
const classAll Class = "all"

// queue are the calls of one class that wait, the first first. Those of low priority come after the others. They get
// each fifth turn, so that a cloud that is throttled for hours does not keep nodes from the load balancers.
type queue struct {
	class     Class
	weight    float64
	limiter   limiter
	pass      float64 // when its next turn is, in virtual time
	waiting   []*waiter
	low       []*waiter // of low priority
	highInRow int       // turns since one of low priority, while one waits
}

// highInRow is how many calls are granted before one of low priority, while there are both.
const highInRow = 4

type waiter struct {
	granted chan struct{}
	ticket  *ticket
	low     bool // its priority
}

func (q *queue) isEmpty() bool { return len(q.waiting) == 0 && len(q.low) == 0 }

// list is where calls of a priority wait.
func (q *queue) list(low bool) *[]*waiter {
	if low {
		return &q.low
	}
	return &q.waiting
}

// pop removes the call whose turn it is from a queue that is not empty.
func (q *queue) pop() *waiter {
	low := len(q.waiting) == 0 || len(q.low) > 0 && q.highInRow >= highInRow
	if q.highInRow++; low || len(q.low) == 0 {
		q.highInRow = 0
	}
	list := q.list(low)
	first := (*list)[0]
	(*list)[0] = nil
	*list = (*list)[1:]
	return first
}

// ticket is the leave to make a call. The outcome of the call is reported with it.
type ticket struct {
	queue *queue
	begun time.Time
}

// sharedWithin is how close to each other in time two classes are throttled when they have one limit.
const sharedWithin = 10 * time.Second

func newBudget(maxQPS float64) *budget {
	ceiling := math.Inf(1)
	if maxQPS > 0 {
		ceiling = maxQPS
	}
	now := time.Now()
	b := &budget{all: newLimiter(classAll, ceiling, now)}
	for _, w := range weights {
		b.queues = append(b.queues, &queue{class: w.class, weight: w.weight, limiter: newLimiter(w.class, math.Inf(1), now)})
	}
	return b
}

// queue returns the queue of a class. One that is not known has that of ClassOther.
func (b *budget) queue(class Class) *queue {
	for _, q := range b.queues {
		if q.class == class {
			return q
		}
	}
	return b.queues[len(b.queues)-1]
}

// acquire waits for the leave to make a call. Its error is that of the context.
func (b *budget) acquire(ctx context.Context, class Class) (*ticket, error) {
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	begun := time.Now()
	b.mu.Lock()
	q := b.queue(class)
	w := &waiter{granted: make(chan struct{}), ticket: &ticket{queue: q}, low: isOfLowPriority(ctx)}
	if q.isEmpty() {
		q.pass = max(q.pass, b.turn)
	}
	list := q.list(w.low)
	*list = append(*list, w)
	b.dispatch(begun)
	b.mu.Unlock()
	select {
	case <-w.granted:
	case <-ctx.Done():
		if b.removeIfWaiting(w) {
			return nil, contextError(ctx)
		}
	}
	budgetWait.WithLabelValues(string(q.class)).Observe(time.Since(begun).Seconds())
	w.ticket.begun = time.Now()
	return w.ticket, nil
}

// removeIfWaiting removes a waiter from its queue. It is false if its call was granted meanwhile.
func (b *budget) removeIfWaiting(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := w.ticket.queue.list(w.low)
	at := slices.Index(*list, w)
	if at < 0 {
		return false
	}
	*list = slices.Delete(*list, at, at+1)
	b.dispatch(time.Now())
	return true
}

// dispatch grants what can be granted now, and sets the timer for the next.
func (b *budget) dispatch(now time.Time) {
	b.all.refill(now)
	b.shared = b.shared && b.all.rate < b.all.ceiling
	for _, q := range b.queues {
		q.limiter.refill(now)
	}
	for b.all.hasToken() {
		q := b.next()
		if q == nil {
			break
		}
		b.all.takeToken()
		q.limiter.takeToken()
		b.turn = q.pass
		q.pass += 1 / q.weight
		close(q.pop().granted)
	}
	b.arm()
}

// next is the queue whose turn it is, of those with a call waiting that their own rate allows.
func (b *budget) next() *queue {
	var next *queue
	for _, q := range b.queues {
		if !q.isEmpty() && q.limiter.hasToken() && (next == nil || q.pass < next.pass) {
			next = q
		}
	}
	return next
}

// arm sets the timer to when the next call can be granted, if one waits.
func (b *budget) arm() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	wait := time.Duration(math.MaxInt64)
	for _, q := range b.queues {
		if !q.isEmpty() {
			wait = min(wait, max(q.limiter.wait(), b.all.wait()))
		}
	}
	if wait == math.MaxInt64 {
		return
	}
	b.timer = time.AfterFunc(wait, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.dispatch(time.Now())
	})
}

// report tells the budget how a call went. There is no ticket for a call that was not admitted.
func (b *budget) report(t *ticket, outcome Outcome) {
	if t == nil {
		return
	}
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case outcome.hasReachedCloud() || outcome == OutcomeAuth:
		t.queue.limiter.accepted(now)
		b.all.accepted(now)
	case outcome == OutcomeThrottled:
		b.throttled(t, now)
	default: // says nothing about the rate
		return
	}
	b.dispatch(now)
}

// throttled lowers the rate that the cloud did not like.
func (b *budget) throttled(t *ticket, now time.Time) {
	t.queue.limiter.last = now
	for _, q := range b.queues {
		if q != t.queue && !q.limiter.last.IsZero() && now.Sub(q.limiter.last) < sharedWithin {
			b.shared = true
		}
	}
	if !b.shared {
		t.queue.limiter.cut(t.begun, now)
		return
	}
	b.all.cut(t.begun, now)
	for _, q := range b.queues { // one rate is enough, and the cloud's limit is not theirs
		q.limiter.lift(now)
	}
}

// limiter is a rate that adapts to what the cloud accepts. When the cloud throttles, it is cut to somewhat less than
// the cloud has accepted of late. It grows while calls are accepted. It is a bucket of tokens that holds those of one
// second.
type limiter struct {
	class   Class
	ceiling float64 // the configured one; +Inf for none
	rate    float64 // calls per second; +Inf for no limit
	tokens  float64
	at      time.Time // when tokens were counted

	last    time.Time // the last time that the cloud throttled
	cutAt   time.Time // calls that began before it say nothing about the rate since
	sustain float64   // the rate that was too much
	done    meter     // what the cloud accepted
}

const (
	// floor is the lowest rate: with less, it would take too long to see that the cloud is well again.
	floor = 0.5
	// cutTo is what is kept of the rate that the cloud did take. The rest is how fast its bucket fills again, and how
	// far there is to grow.
	cutTo = 0.9
	// cutEvery lets a cut show its effect before the next.
	cutEvery = 250 * time.Millisecond
	// forgetAfter is how long nothing must have been throttled for the limit to go.
	forgetAfter = 10 * time.Minute
)

func newLimiter(class Class, ceiling float64, now time.Time) limiter {
	l := limiter{
		class:   class,
		ceiling: ceiling,
		rate:    ceiling,
		at:      now,
	}
	l.tokens = l.burst()
	l.show()
	return l
}

// burst is how many tokens the bucket holds.
func (l *limiter) burst() float64 { return max(l.rate, 1) }

func (l *limiter) isLimited() bool { return !math.IsInf(l.rate, 1) }

func (l *limiter) hasToken() bool { return !l.isLimited() || l.tokens >= 1 }

func (l *limiter) takeToken() {
	if l.isLimited() {
		l.tokens--
	}
}

// wait is how long it takes until a call is allowed.
func (l *limiter) wait() time.Duration {
	if l.hasToken() {
		return 0
	}
	return time.Duration(math.Ceil((1 - l.tokens) / l.rate * float64(time.Second)))
}

// refill counts the tokens again, and forgets a limit that was not met for long.
func (l *limiter) refill(now time.Time) {
	if l.rate < l.ceiling && now.Sub(l.last) > forgetAfter {
		l.lift(now)
	}
	if l.isLimited() {
		l.tokens = min(l.burst(), l.tokens+l.rate*max(now.Sub(l.at), 0).Seconds())
	}
	l.at = now
}

// lift takes the limit away, but for the ceiling.
func (l *limiter) lift(now time.Time) {
	l.at, l.sustain = now, 0
	l.set(l.ceiling)
}

func (l *limiter) set(rate float64) {
	if rate == l.rate {
		return
	}
	l.rate = rate
	l.show()
}

func (l *limiter) show() { budgetRate.WithLabelValues(string(l.class)).Set(l.rate) }

// accepted notes that the cloud took a call. The rate grows only by calls, not by time: that nothing was throttled
// while nothing was asked for is no reason to ask for more. Up to where it was too much the last time the rate grows
// slowly, and then ever faster, since the limit must have moved.
func (l *limiter) accepted(now time.Time) {
	l.done.add(now)
	if l.rate >= l.ceiling {
		return
	}
	perSecond := max(0.02*l.rate, 0.1)
	if l.rate > l.sustain {
		perSecond = max(0.1*l.rate, 0.5)
	}
	l.set(min(l.rate+perSecond/max(l.rate, 1), l.ceiling))
}

// cut lowers the rate after a call that began at a given time was throttled.
func (l *limiter) cut(begun, now time.Time) {
	l.last = now
	if begun.Before(l.cutAt) || now.Sub(l.cutAt) < cutEvery {
		return
	}
	l.refill(now)
	took := cutTo * l.done.perSecond(now)
	rate := took
	if l.isLimited() {
		l.sustain = l.rate
		rate = min(max(took, l.rate/2), cutTo*l.rate) // few calls may have been accepted because few were made
	}
	l.cutAt = now
	l.set(max(min(rate, l.ceiling), floor))
	l.tokens = 0
	if l.sustain == 0 {
		l.sustain = l.rate / cutTo
	}
}

// meter counts events of the last second.
type meter struct {
	second        time.Time // when the current one began
	before, since float64
}

func (m *meter) roll(now time.Time) {
	switch age := now.Sub(m.second); {
	case age >= 2*time.Second:
		m.second, m.before, m.since = now, 0, 0
	case age >= time.Second:
		m.second, m.before, m.since = m.second.Add(time.Second), m.since, 0
	}
}

func (m *meter) add(now time.Time) {
	m.roll(now)
	m.since++
}

// perSecond is the rate of late.
func (m *meter) perSecond(now time.Time) float64 {
	m.roll(now)
	return m.since + m.before*(1-now.Sub(m.second).Seconds())
}
