package election

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// act is something that can happen in a contest. It reports whether it can.
type act struct {
	what string
	do   func(m *model, s *slot, p *proc, n int) bool
}

// sendsWrite is the act in which the wall clock counts.
const sendsWrite = "sends a write"

// acts are all that can happen to the process of a slot. n is what the wall clock shows where a lease is written.
var acts = []act{
	{"starts", start},
	{"crashes", func(m *model, s *slot, p *proc, _ int) bool {
		if !p.running || m.lies || m.one && s.i > 0 {
			return false
		}
		m.end(p)
		return true
	}},
	{"is stopped, or goes on", func(m *model, s *slot, p *proc, _ int) bool {
		p.stopped = !p.stopped
		return p.running && m.stops && !(m.one && s.i > 0)
	}},
	{"is told to end, and releases its lease", func(m *model, s *slot, p *proc, _ int) bool {
		if !p.acts() || p.stage != idle || !m.ends {
			return false
		}
		s.load()
		if err := s.finish(context.Background()); err != nil {
			m.violated("the release fails: %v", err)
		}
		s.save(p)
		m.end(p)
		return true
	}},
	{"has a kubelet, which writes the status", kubeletSays},
	{"hears of the end of the holder", hears},
	{"gets an event of its watch", func(m *model, s *slot, p *proc, _ int) bool {
		event := m.event(p)
		if !p.acts() || event == nil {
			return false
		}
		p.seenTo++
		if event.Type == watch.Added {
			p.seenTo = versionOf(m.live())
		}
		s.load()
		if err := s.event(*event); err != nil {
			m.violated("an event: %v", err)
		}
		s.save(p)
		return true
	}},
	{"reads the lease", reads},
	{"gets the answer to its read", func(_ *model, s *slot, p *proc, _ int) bool {
		if !p.acts() || p.stage != readsBack {
			return false
		}
		s.load()
		s.observe(observeLease(p.answer, p.attempt.before))
		p.stage, p.attempt, p.answer = idle, attempt{}, nil
		s.save(p)
		return true
	}},
	{"finds the lease free", func(_ *model, s *slot, p *proc, _ int) bool {
		if !p.acts() || p.held || p.stage != idle {
			return false
		}
		if s.load(); !s.canAcquire() {
			return false
		}
		p.stage = decided
		return true
	}},
	{sendsWrite, sends},
	{"finds that its deadline has passed", func(_ *model, s *slot, p *proc, _ int) bool {
		if !p.acts() || !p.held || p.stage != idle {
			return false
		}
		if s.load(); s.now() < s.deadline() {
			return false
		}
		s.renewIfDue(context.Background())
		s.save(p)
		return true
	}},
	{"has sent a write that arrives", func(m *model, _ *slot, p *proc, _ int) bool {
		if !p.running || p.stage != travels {
			return false
		}
		p.answer, p.refusal = m.arrive(p.attempt.lease, p.attempt.create)
		p.stage = answered
		return true
	}},
	{"gets the answer to its write", func(m *model, s *slot, p *proc, _ int) bool {
		if !p.acts() || p.stage != answered || s.Now()-p.attempt.at > modelDeadline/2 { // requests have a limit
			return false
		}
		s.answer(p)
		return true
	}},
	{"gives its write up", func(m *model, s *slot, p *proc, _ int) bool {
		if !p.acts() || p.stage != travels && p.stage != answered || p.late != nil || m.lies || p.gaveUp >= m.gives || m.one && s.i > 0 {
			return false
		}
		p.gaveUp++
		if p.stage == travels {
			p.late, p.lateIsCreation = p.attempt.lease, p.attempt.create
		}
		p.stage, p.answer, p.refusal = answered, nil, errors.New("no answer")
		s.answer(p)
		return true
	}},
	{"has given up a write that arrives", func(m *model, _ *slot, p *proc, _ int) bool {
		if p.late == nil {
			return false
		}
		_, _ = m.arrive(p.late, p.lateIsCreation) //nolint:errcheck // the answer comes to no process
		p.late, p.lateIsCreation = nil, false
		return true
	}},
}

// acts reports whether the process does something by itself.
func (p *proc) acts() bool { return p.running && !p.stopped }

func start(m *model, s *slot, p *proc, _ int) bool {
	if p.running || p.incarnation >= m.incarnations || m.one && s.i > 0 && p.incarnation > 0 {
		return false
	}
	*p = proc{incarnation: p.incarnation + 1, running: true, said: p.said, late: p.late, lateIsCreation: p.lateIsCreation}
	p.record = leaseRecord{identity: identity(s.i, p.incarnation), settle: settleOf(modelRetry)}
	if m.unsettled {
		p.record.settle = 0
	}
	return true
}

// kubeletSays writes the status of the pod as it is, however long ago that has come to be. A runtime that lies calls the
// container ended that runs.
func kubeletSays(m *model, _ *slot, p *proc, _ int) bool {
	ended := p.incarnation
	if p.running && !m.lies {
		ended--
	}
	if p.said == ended {
		return false
	}
	p.said = ended
	return true
}

func hears(m *model, s *slot, p *proc, _ int) bool {
	if !p.acts() {
		return false
	}
	s.load()
	claim := s.record.otherHolder()
	if claim.Pod == "" || p.record.ended == claim.Holder && !m.lies || p.record.endedAt == s.now() {
		return false
	}
	i, _ := process(claim.Holder)
	if !claim.HasEnded(m.pod(i)) {
		return false
	}
	noteEnd(s.candidate, claim)
	s.save(p)
	return true
}

func reads(m *model, s *slot, p *proc, _ int) bool {
	if !p.acts() || p.held || p.stage != idle || m.noReads || p.record.known && versionOf(p.record.seen) == versionOf(m.live()) {
		return false
	}
	s.load()
	if m.reads {
		p.stage, p.attempt, p.answer = readsBack, attempt{before: s.count()}, m.live()
		return true
	}
	s.read(context.Background())
	s.save(p)
	return true
}

// sends is what a standby does that has found the lease free, and a leader whose renewal is due.
func sends(m *model, s *slot, p *proc, n int) bool {
	s.e.config.wall = func() time.Time { return time.UnixMicro(int64(n)) }
	if !p.acts() || !(p.stage == decided || p.stage == idle && p.held) {
		return false
	}
	s.load()
	if p.held {
		if s.now() < s.nextRequest() || s.now() >= s.deadline() {
			return false
		}
		p.stage, p.attempt = travels, s.try()
	} else {
		a, ok := tryFree(s.candidate)
		p.stage = idle
		if !ok && m.unlooked {
			s.record.sent, ok = append(s.record.sent, a.stamp), true
		}
		if ok {
			p.stage, p.attempt = travels, a
		}
	}
	if m.sameStamp && p.stage == travels {
		stamp := metav1.NewMicroTime(time.UnixMicro(int64(n)))
		p.attempt.stamp, p.attempt.lease.Spec.RenewTime = stamp, &stamp
		s.record.sent[len(s.record.sent)-1] = stamp
	}
	s.save(p)
	return true
}

// answer gives a process the answer to its write.
func (s *slot) answer(p *proc) {
	s.load()
	if s.m.lateCount {
		p.attempt.at = s.now()
	}
	s.write(context.Background(), p.attempt)
	p.stage, p.attempt, p.answer, p.refusal = idle, attempt{}, nil, nil
	s.save(p)
}

// tick lets time pass. Where requests arrive at once, a leader that runs renews its lease before.
func (m *model) tick() bool {
	for i := range m.procs {
		p := &m.procs[i]
		if m.lies && p.acts() && (p.held && p.next <= m.slots[i].Now() || p.stage != idle) {
			return false
		}
	}
	m.now += modelRetry
	for i := range m.procs {
		if m.procs[i].running {
			m.slots[i].load()
			m.slots[i].save(&m.procs[i]) // fences expire
		}
	}
	return true
}

// exclusive checks that not two processes may act.
func (m *model) exclusive() {
	var may []string
	for i := range m.procs {
		if p := &m.procs[i]; p.running && p.opened {
			may = append(may, identity(i, p.incarnation))
		}
	}
	if len(may) > 1 {
		m.violated("%s may act at the same time", strings.Join(may, " and "))
	}
}

// step is how a state was come to.
type step struct {
	from int
	what string
	slot int
}

// explore goes through all states, and returns how many there are. It stops at the first violation, and says how it is
// come to.
func (m *model) explore() (states int, violation string) {
	seed, buffer := maphash.MakeSeed(), []byte(nil)
	seen, how := map[uint64]bool{}, []step{{}}
	first := &contest{now: time.Hour, procs: make([]proc, len(m.slots))}
	queue, at := []*contest{first}, 0
	m.contest = first
	for i, s := range m.slots {
		start(m, s, &first.procs[i], 0)
	}
	m.firstLeads()
	queue[0] = first.clone()
	add := func(from int, what string, slot int) bool {
		m.exclusive()
		if m.got != "" {
			violation = fmt.Sprintf("%s, after: %s", m.got, path(append(how, step{from, what, slot})))
			return false
		}
		buffer = m.stateKey(buffer[:0])
		key := maphash.Bytes(seed, buffer)
		if !seen[key] {
			seen[key] = true
			queue, how = append(queue, m.clone()), append(how, step{from, what, slot})
		}
		return true
	}
	for ; at < len(queue); at++ {
		from := queue[at]
		queue[at] = nil
		for i, s := range m.slots {
			for _, a := range acts {
				for n := range m.walls {
					m.copyOf(from)
					if !a.do(m, s, &m.procs[i], n) {
						break
					}
					if !add(at, a.what, i) {
						return len(seen), violation
					}
					if a.what != sendsWrite {
						break
					}
				}
			}
		}
		if m.copyOf(from); m.tick() && !add(at, "a second passes", -1) {
			return len(seen), violation
		}
	}
	return len(seen), ""
}

// firstLeads lets the first process win the lease, which there is not yet.
func (m *model) firstLeads() {
	s, p := m.slots[0], &m.procs[0]
	s.load()
	s.read(context.Background())
	s.save(p)
	for _, what := range []string{"finds the lease free", sendsWrite, "has sent a write that arrives", "gets the answer to its write"} {
		i := slices.IndexFunc(acts, func(a act) bool { return a.what == what })
		if !acts[i].do(m, s, p, 0) {
			panic("the first process cannot lead: it never " + what)
		}
	}
}

// copyOf makes a state the one that is being changed.
func (m *model) copyOf(c *contest) {
	procs := append(m.procs[:0], c.procs...)
	*m.contest = *c
	m.procs = procs
}

func (c *contest) clone() *contest {
	out := *c
	out.procs = slices.Clone(c.procs)
	return &out
}

func path(how []step) string {
	var out []string
	for i := len(how) - 1; i > 0; i = how[i].from {
		what := how[i].what
		if how[i].slot >= 0 {
			what = fmt.Sprintf("%d %s", how[i].slot, what)
		}
		out = append(out, what)
	}
	slices.Reverse(out)
	return strings.Join(out, "; ")
}

// small is a contest that every mutant fails: the first process leads, crashes, and is stopped at any time.
var small = options{slots: 2, incarnations: 1, walls: 1, stops: true, one: true, noReads: true}

// with changes options.
func (o options) with(change func(*options)) options {
	change(&o)
	return o
}

var all = flag.Bool("model.all", false, "go through the contests that take minutes, too")

// TestALeaderThatLivesIsNotTakenOver in any state that a contest of few processes can come to.
func TestALeaderThatLivesIsNotTakenOver(t *testing.T) {
	for name, test := range map[string]struct {
		options
		least int  // states
		long  bool // whether it takes minutes
	}{
		"a leader that is stopped and goes on":           {small, 50_000, false},
		"reads that take their time":                     {small.with(func(o *options) { o.stops, o.noReads, o.reads = false, false, true }), 10_000, false},
		"managers that are told to end":                  {small.with(func(o *options) { o.stops, o.ends = false, true }), 10_000, false},
		"a clock that jumps to and fro":                  {small.with(func(o *options) { o.stops, o.walls = false, 2 }), 10_000, false},
		"a runtime that calls containers ended that run": {small.with(func(o *options) { o.stops, o.lies = false, true }), 1000, false},
		"writes that are given up and arrive":            {small.with(func(o *options) { o.stops, o.gives = false, 1 }), 100_000, true},
		"containers that restart in place":               {small.with(func(o *options) { o.stops, o.incarnations = false, 2 }), 100_000, true},
		"all of them are stopped, crash and read":        {small.with(func(o *options) { o.one, o.noReads = false, false }), 100_000, true},
		"all, and clocks jump, and managers end":         {small.with(func(o *options) { o.one, o.walls, o.ends = false, 2, true }), 100_000, true},
		"two standbys":                                   {small.with(func(o *options) { o.stops, o.slots = false, 3 }), 100_000, true},
		"two standbys, and a runtime that lies":          {small.with(func(o *options) { o.stops, o.lies, o.slots = false, true, 3 }), 100_000, true},
	} {
		t.Run(name, func(t *testing.T) {
			if test.long && !*all {
				t.Skip("takes minutes; -model.all goes through it")
			}
			m := newModel(test.options)
			states, violation := m.explore()
			t.Logf("%d states, takeovers of who ended: %d, of who was silent: %d", states, m.takeover["ended"], m.takeover["expired"])
			switch {
			case violation != "":
				t.Error(violation)
			case states < test.least || !test.lies && min(m.takeover["ended"], m.takeover["expired"]) == 0:
				t.Error("the model is too small to say anything")
			}
		})
	}
}

// TestTheModelSeesWhatIsTakenAway: without any one of these, a leader that lives is taken over.
func TestTheModelSeesWhatIsTakenAway(t *testing.T) {
	for name, change := range map[string]func(*options){
		"the resourceVersion of writes":                     func(o *options) { o.unconditional = true },
		"the second look before a write":                    func(o *options) { o.unlooked = true },
		"times of their own for renewals":                   func(o *options) { o.sameStamp = true },
		"that a renewal counts from when it was sent":       func(o *options) { o.lateCount = true },
		"the time between a testimony and taking the lease": func(o *options) { o.unsettled = true },
		"that a leader goes on where a runtime is wrong":    func(o *options) { o.lies = true },
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(small.with(change))
			states, violation := m.explore()
			t.Logf("%d states, violation: %s", states, violation)
			if violation == "" {
				t.Error("nothing is violated")
			}
		})
	}
}
