package cloud

import (
	"math"
	"time"
)

// limiter is a rate that looks for what the cloud takes: it is cut when the cloud throttles, to somewhat less than the cloud has accepted of late, and
// grows while calls are accepted. It is a bucket of tokens that holds those of one second.
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
	// cutTo is what is kept of the rate that the cloud did take. The rest is how fast its bucket fills again, and how far there is to grow.
	cutTo = 0.9
	// cutEvery lets a cut show its effect before the next.
	cutEvery = 250 * time.Millisecond
	// forgetAfter is how long nothing must have been throttled for the limit to go.
	forgetAfter = 10 * time.Minute
)

func newLimiter(class Class, ceiling float64, now time.Time) limiter {
	l := limiter{class: class, ceiling: ceiling, rate: ceiling, at: now}
	l.tokens = l.burst()
	l.show()
	return l
}

// burst is how many tokens the bucket holds.
func (l *limiter) burst() float64 { return max(l.rate, 1) }

func (l *limiter) limited() bool { return !math.IsInf(l.rate, 1) }

func (l *limiter) ready() bool { return !l.limited() || l.tokens >= 1 }

func (l *limiter) take() {
	if l.limited() {
		l.tokens--
	}
}

// wait is how long it takes until a call is allowed.
func (l *limiter) wait() time.Duration {
	if l.ready() {
		return 0
	}
	return time.Duration(math.Ceil((1 - l.tokens) / l.rate * float64(time.Second)))
}

// refill counts the tokens anew, and forgets a limit that was not met for long.
func (l *limiter) refill(now time.Time) {
	if l.rate < l.ceiling && now.Sub(l.last) > forgetAfter {
		l.lift(now)
	}
	if l.limited() {
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

// accepted notes that the cloud took a call. The rate grows only by calls, not by time: that nothing was throttled while nothing was asked for is no
// reason to ask for more. Up to where it was too much the last time the rate grows slowly, and then ever faster, since the limit must have moved.
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
	if l.limited() {
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
