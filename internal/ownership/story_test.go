package ownership

import (
	"strings"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// t0 is when the logs of these tests begin.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is a number of milliseconds after t0.
func at(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }

func atp(ms int) *time.Time {
	t := at(ms)
	return &t
}

const (
	kcmName   = "kube-controller-manager"
	ccmName   = "cloud-controller-manager"
	migration = component.MigrationLease
)

// manager is an incarnation in a story.
type manager struct {
	component, host string
	pid             int
	started         int // ms
}

var (
	kcm1 = manager{kcmName, "cp-1", 101, -60000}
	kcm2 = manager{kcmName, "cp-2", 102, -60000}
	ccm1 = manager{ccmName, "cp-1", 201, -30000}
	ccm2 = manager{ccmName, "cp-2", 202, -30000}
)

func (m manager) owner() Owner { return Owner{m.component, m.host} }

func (m manager) key() string {
	short := map[string]string{kcmName: "KCM", ccmName: "CCM"}[m.component]
	return "AKIALAB" + strings.ToUpper(strings.ReplaceAll(m.host, "-", "")) + short
}

// story collects the lines of a log, and writes the looks between changes as a recorder would.
type story struct {
	events []v1.OwnershipEvent
	calls  []v1.CloudCall
	looked map[string]int
}

func newStory() *story { return &story{looked: map[string]int{}} }

// line adds an event whose look began 10 ms earlier; the look before it began a step earlier than that.
func (s *story) line(ms, step int, source string, e v1.OwnershipEvent) *story {
	e.Time, e.Began = at(ms), atp(ms-10)
	if last, ok := s.looked[source]; ok {
		e.Looked = atp(max(last, ms-10-step))
	}
	if e.Error != "" && s.looked[source] != 0 {
		e.Began = nil
	}
	if e.Error == "" {
		s.looked[source] = ms - 10
	}
	s.events = append(s.events, e)
	return s
}

// fails adds a failed look; looks succeed until step before it.
func (s *story) fails(ms int, m manager, source string) *story {
	id := source + m.owner().String()
	e := v1.OwnershipEvent{Time: at(ms), Source: source, Component: m.component, Host: m.host, Error: "connection refused"}
	if last, ok := s.looked[id]; ok {
		s.looked[id] = max(last, ms-100)
		e.Looked = atp(s.looked[id])
	}
	s.events = append(s.events, e)
	return s
}

// recovers adds the first successful scrape after failed ones.
func (s *story) recovers(ms int, m manager, loops []string, leads ...string) *story {
	return s.scraped(ms, 1<<30, m, loops, leads)
}

func (s *story) lease(ms int, name, holder string, transitions int32) *story {
	return s.line(ms, 100, name, v1.OwnershipEvent{Source: v1.SourceLease, Lease: name, Holder: holder, Transitions: transitions})
}

func (s *story) scrape(ms int, m manager, loops []string, leads ...string) *story {
	return s.scraped(ms, 100, m, loops, leads)
}

func (s *story) scraped(ms, step int, m manager, loops, leads []string) *story {
	return s.line(ms, step, v1.SourceScrape+m.owner().String(), v1.OwnershipEvent{
		Source: v1.SourceScrape, Component: m.component, Host: m.host, Loops: loops, Leads: leads, ProcessStarted: atp(m.started),
	})
}

func (s *story) lives(ms int, m manager) *story { return s.process(ms, m, false) }

func (s *story) ends(ms int, m manager) *story { return s.process(ms, m, true) }

func (s *story) process(ms int, m manager, ended bool) *story {
	return s.line(ms, 100, v1.SourceProcess+m.owner().String(), v1.OwnershipEvent{
		Source: v1.SourceProcess, Component: m.component, Host: m.host, PID: m.pid, StartTicks: uint64(m.pid) * 7, ProcessStarted: atp(m.started), Ended: ended,
	})
}

// call adds a mutating call that takes effect 20 ms after its arrival.
func (s *story) call(ms int, m manager, action string) *story {
	return s.slowCall(ms, ms+20, m, action)
}

func (s *story) slowCall(ms, effect int, m manager, action string) *story {
	service := "ec2"
	if strings.Contains(action, "LoadBalancer") {
		service = "elb"
	}
	s.calls = append(s.calls, v1.CloudCall{
		Seq: int64(len(s.calls) + 1), Key: m.key(), Service: service, Action: action, Mutating: true, Arrived: at(ms), Effect: atp(effect),
	})
	return s
}

func (s *story) judge(o Options) Judgement {
	keys := map[string]Owner{}
	for _, m := range []manager{kcm1, kcm2, ccm1, ccm2} {
		keys[m.key()] = m.owner()
	}
	keys["AKIALABLAB"] = Owner{"lab", "lab"}
	return Judge(s.events, s.calls, keys, o)
}

var (
	cloudLoops = []string{"cloud-node-lifecycle", "route", "service"}
	inTree     = []string{"cloud-node-lifecycle", "nodeipam", "route", "service"}
)

// running is a log's beginning: an in-tree manager on cp-1 runs everything, its counterpart on cp-2 waits, and so do two warm
// cloud-controller-managers of which the one on cp-2 leads its own lease.
func running() *story {
	s := newStory()
	for _, m := range []manager{kcm1, kcm2, ccm1, ccm2} {
		s.lives(10, m)
	}
	s.lease(20, kcmName, "a", 3).lease(21, ccmName, "d", 1).lease(22, migration, "a", 5)
	s.scrape(30, kcm1, inTree, kcmName, migration)
	s.scrape(31, kcm2, nil).scrape(32, ccm1, nil).scrape(33, ccm2, []string{"cloud-node"}, ccmName)
	return s
}

// stays is a log's end: heartbeats of the two managers that own everything after a clean handover.
func (s *story) stays(ms int) *story {
	s.lives(ms, ccm2).lives(ms, kcm2).lives(ms, ccm1)
	s.scrape(ms, ccm2, append([]string{"cloud-node"}, cloudLoops...), ccmName, migration).scrape(ms, kcm2, []string{"nodeipam"}, kcmName).scrape(ms, ccm1, nil)
	s.lease(ms, migration, "d", 6).lease(ms, kcmName, "b", 4).lease(ms, ccmName, "d", 1)
	return s
}

// cleanHandover ends kcm1 between 9.99 s and 10.1 s; ccm2 has the loops at 10.7 s, kcm2 node IPAM at 11 s.
func cleanHandover() *story {
	s := running()
	s.call(2000, kcm1, "CreateRoute").call(3000, kcm1, "CreateLoadBalancer")
	s.fails(10050, kcm1, v1.SourceScrape)
	s.ends(10100, kcm1)
	s.lease(10300, migration, "d", 6).lease(10310, kcmName, "b", 4)
	s.scrape(10700, ccm2, append([]string{"cloud-node"}, cloudLoops...), ccmName, migration)
	s.scrape(11000, kcm2, []string{"nodeipam"}, kcmName)
	s.call(10900, ccm2, "ModifyLoadBalancerAttributes").call(12000, ccm2, "CreateRoute")
	return s.stays(20000)
}

// mustMention fails unless one of the sentences holds all the words.
func mustMention(t *testing.T, sentences []string, words ...string) {
	t.Helper()
	for _, s := range sentences {
		all := true
		for _, w := range words {
			all = all && strings.Contains(s, w)
		}
		if all {
			return
		}
	}
	t.Errorf("no sentence mentions %q in:\n%s", words, strings.Join(sentences, "\n"))
}

func gapOf(t *testing.T, j Judgement, loop string) v1.Gap {
	t.Helper()
	for _, g := range j.Gaps {
		if g.Loop == loop {
			return g
		}
	}
	t.Fatalf("no gap of loop %s in %+v", loop, j.Gaps)
	return v1.Gap{}
}
