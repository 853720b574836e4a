package probe

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func tcp(name string) Target {
	return Target{Kind: v1.PathTCP, Path: name, Address: name, Owner: "Service " + name}
}

func owners(targets ...Target) Found {
	f := Found{Targets: targets, Owners: map[string]bool{}}
	for _, t := range targets {
		f.Owners[t.Owner] = true
	}
	return f
}

func within(t *testing.T, what string, got, least, most float64) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s is %.3f s, want %.3f to %.3f", what, got, least, most)
	}
}

func TestOutages(t *testing.T) {
	bubble(t, "an outage is never too short, and too long by two looks at most", func(t *testing.T) {
		w := newWorld()
		w.found = owners(tcp("web"))
		d := w.probed(t, w.options(), func() {
			sleep(10*time.Second + 123*time.Millisecond)
			w.set("read", errRefused)
			sleep(3 * time.Second)
			w.set("read", nil)
			sleep(10 * time.Second)
		})
		p := pathOf(t, d, v1.PathAPIRead, "read")
		if len(p.Outages) != 1 || p.Outages[0].Error != "connection refused" || p.Outages[0].Open {
			t.Fatalf("outages are %+v", p.Outages)
		}
		within(t, "the outage", p.LongestSeconds, 3, 4.01)
		within(t, "what is certain of it", p.Outages[0].LeastSeconds, 2, 3)
		if p.Looks < 40 || p.Looks > 50 || p.IntervalSeconds != 0.5 || p.SlowestSeconds != 0.001 {
			t.Errorf("path is %+v, want a look every half second of 23", p)
		}
		if other := pathOf(t, d, v1.PathTCP, "web"); len(other.Outages) > 0 || other.Looks < 40 {
			t.Errorf("the load balancer is %+v", other)
		}
	})
	bubble(t, "one that hangs is out since its last answer, and says that there was none", func(t *testing.T) {
		w := newWorld()
		w.found = owners(tcp("web"))
		d := w.probed(t, w.options(), func() {
			sleep(5 * time.Second)
			w.mu.Lock()
			w.hangs["web"] = true
			w.mu.Unlock()
			sleep(7 * time.Second)
		})
		p := pathOf(t, d, v1.PathTCP, "web")
		if len(p.Outages) != 1 || p.Outages[0].Error != "no answer within 2s" || !p.Outages[0].Open {
			t.Fatalf("outages are %+v", p.Outages)
		}
		within(t, "the outage", p.LongestSeconds, 7, 7.6)
	})
	bubble(t, "a look that waits until after the end of an outage does not make it certain for longer than it was", func(t *testing.T) {
		w := newWorld()
		w.found = owners(tcp("web"))
		hang := func(yes bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.hangs["web"] = yes
		}
		d := w.probed(t, w.options(), func() {
			sleep(5 * time.Second)
			hang(true)
			sleep(5 * time.Second)
			hang(false)
			sleep(7 * time.Second)
		})
		p := pathOf(t, d, v1.PathTCP, "web")
		if len(p.Outages) != 1 || p.Outages[0].Open {
			t.Fatalf("outages are %+v", p.Outages)
		}
		within(t, "what is certain of it", p.Outages[0].LeastSeconds, 1, 5)
		within(t, "the outage", p.LongestSeconds, 5, 8)
	})
	bubble(t, "what cannot be reached at the start is not probed until it can be", func(t *testing.T) {
		w := newWorld()
		w.found = owners(tcp("internal"), tcp("late"))
		w.found.NotProbed = []v1.NotProbed{{Kind: v1.PathTCP, Path: "dns 1.2.3.4:53", Why: "UDP"}}
		w.set("internal", errRefused)
		w.set("late", errRefused)
		d := w.probed(t, w.options(), func() {
			sleep(20 * time.Second)
			w.set("late", nil)
			sleep(30 * time.Second)
			w.set("late", errRefused)
			sleep(10 * time.Second)
		})
		if len(d.NotProbed) != 2 || d.NotProbed[0].Path != "dns 1.2.3.4:53" ||
			d.NotProbed[1] != (v1.NotProbed{Kind: v1.PathTCP, Path: "internal", Why: "connection refused"}) {
			t.Errorf("not probed are %+v", d.NotProbed)
		}
		if w.looks["internal"] > 3 {
			t.Errorf("what is not probed was tried %d times in a minute", w.looks["internal"])
		}
		within(t, "the outage of what came late", pathOf(t, d, v1.PathTCP, "late").LongestSeconds, 10, 10.6)
	})
	bubble(t, "a load balancer whose Service was deleted was not out", func(t *testing.T) {
		w := newWorld()
		w.found = owners(tcp("web"), tcp("old"))
		d := w.probed(t, w.options(), func() {
			sleep(10 * time.Second)
			w.mu.Lock()
			w.found = owners(tcp("web"), tcp("new"))
			w.out["old"] = errRefused
			w.mu.Unlock()
			sleep(60 * time.Second)
		})
		old := pathOf(t, d, v1.PathTCP, "old")
		if len(old.Outages) > 0 || !old.Gone {
			t.Errorf("the old one is %+v", old)
		}
		if p := pathOf(t, d, v1.PathTCP, "new"); p.Looks < 50 {
			t.Errorf("the new one is %+v", p)
		}
	})
	bubble(t, "one whose address changed goes on being asked at the old one: its clients do not know the new one", func(t *testing.T) {
		w := newWorld()
		was, is := tcp("web"), tcp("web")
		is.Path, is.Address = "web 2", "web 2"
		w.found = owners(was)
		d := w.probed(t, w.options(), func() {
			sleep(10 * time.Second)
			w.mu.Lock()
			w.found, w.out["web"] = owners(is), errRefused
			w.mu.Unlock()
			sleep(60 * time.Second)
		})
		within(t, "the outage", pathOf(t, d, v1.PathTCP, "web").LongestSeconds, 60, 61)
	})
}

func TestFiveHundredLoadBalancersAreCheapAndTheSickOnesDoNotStarveTheOthers(t *testing.T) {
	bubble(t, "half of them hang", func(t *testing.T) {
		w := newWorld()
		for i := range 500 {
			name := fmt.Sprintf("lb-%03d", i)
			w.found.Targets = append(w.found.Targets, tcp(name))
		}
		w.found = owners(w.found.Targets...)
		d := w.probed(t, w.options(), func() {
			sleep(20 * time.Second)
			w.mu.Lock()
			for i := 0; i < 500; i += 2 {
				w.hangs[fmt.Sprintf("lb-%03d", i)] = true
			}
			w.mu.Unlock()
			sleep(time.Minute)
		})
		if w.by > maxConnections+1 { // the read
			t.Errorf("%d looks at a time, want at most %d", w.by, maxConnections+1)
		}
		asked := 0
		for what, n := range w.looks {
			if what != "read" {
				asked += n
			}
		}
		if perSecond := float64(asked) / 80; perSecond > maxPerSecond {
			t.Errorf("%.0f connections per second, want at most %d", perSecond, maxPerSecond)
		}
		for i := range 500 {
			p := pathOf(t, d, v1.PathTCP, fmt.Sprintf("lb-%03d", i))
			sick := i%2 == 0
			if sick != (len(p.Outages) == 1) || p.IntervalSeconds != 2.5 || !sick && (p.Looks < 25 || len(p.Unobserved) > 0) {
				t.Errorf("load balancer %d is %+v", i, p)
			}
		}
		if rows := Rows(*d); len(rows) != 252 || rows[251].Title != "250 other load balancer ports" || rows[251].Outages != 0 {
			t.Errorf("%d rows, the last %+v", len(rows), rows[len(rows)-1])
		}
	})
}

func TestTheTimeBetweenTwoRunsIsUnobserved(t *testing.T) {
	for _, c := range []struct {
		name    string
		crash   bool
		result  string
		why     string
		outages int
	}{
		{"the first ended in order", false, v1.DisruptionWithin, "between two runs of the probes", 2},
		{"the first was killed", true, v1.DisruptionUnknown, "did not end in order", 2},
	} {
		bubble(t, c.name, func(t *testing.T) {
			w := newWorld()
			w.found = owners(tcp("web"))
			o := w.options()
			o.Budget = 30 * time.Second
			w.probed(t, o, func() {
				sleep(10 * time.Second)
				w.set("web", errRefused)
				sleep(2 * time.Second)
			})
			if c.crash {
				w.events = w.events[:len(w.events)-1] // the line that ends it was not written
			}
			sleep(time.Minute)
			// It does not answer at the start of the second run: that is an outage, since it was probed before.
			d := w.probed(t, o, func() {
				sleep(2 * time.Second)
				w.set("web", nil)
				sleep(10 * time.Second)
			})
			if len(d.Unobserved) != 1 || !strings.Contains(d.Unobserved[0].Why, c.why) {
				t.Fatalf("unobserved are %+v", d.Unobserved)
			}
			within(t, "the time between", d.Unobserved[0].Seconds, 60, 65)
			p := pathOf(t, d, v1.PathTCP, "web")
			if len(p.Outages) != c.outages || !p.Outages[0].Open || p.Outages[1].Open || len(d.NotProbed) > 0 {
				t.Fatalf("outages are %+v, not probed %+v", p.Outages, d.NotProbed)
			}
			if p.LongestSeconds > 3 {
				t.Errorf("an outage reaches over the time in which nobody looked: %+v", p.Outages)
			}
			if p.Looks < 40 && !c.crash {
				t.Errorf("%d looks: those of the first run are not counted", p.Looks)
			}
			if d.Result != c.result {
				t.Errorf("result is %s because of %q, want %s", d.Result, d.Reasons, c.result)
			}
		})
	}
	bubble(t, "this machine slept", func(t *testing.T) {
		w := newWorld()
		w.found = owners(tcp("web"))
		d := w.probed(t, w.options(), func() {
			sleep(21 * time.Second)
			w.mu.Lock()
			w.skew = time.Hour
			w.mu.Unlock()
			sleep(20 * time.Second)
		})
		if len(d.Unobserved) != 1 || !strings.Contains(d.Unobserved[0].Why, "this machine slept, or its clock was set, by 1h0m0s") {
			t.Fatalf("unobserved are %+v", d.Unobserved)
		}
		if p := pathOf(t, d, v1.PathTCP, "web"); len(p.Outages) > 0 || p.Looks < 70 {
			t.Errorf("path is %+v", p)
		}
	})
}

func TestTheBudgetJudges(t *testing.T) {
	for _, c := range []struct {
		name   string
		budget time.Duration
		out    time.Duration
		result string
	}{
		{"none was given", 0, 5 * time.Second, v1.DisruptionMeasured},
		{"nothing was out", 5 * time.Second, 0, v1.DisruptionWithin},
		{"a short outage", 5 * time.Second, 2 * time.Second, v1.DisruptionWithin},
		{"a long one", 5 * time.Second, 8 * time.Second, v1.DisruptionOver},
	} {
		bubble(t, c.name, func(t *testing.T) {
			w := newWorld()
			o := w.options()
			o.Budget = c.budget
			d := w.probed(t, o, func() {
				sleep(5 * time.Second)
				if c.out > 0 {
					w.set("read", errRefused)
					sleep(c.out)
					w.set("read", nil)
				}
				sleep(5 * time.Second)
			})
			if d.Result != c.result || (c.result == v1.DisruptionOver) != (len(d.Reasons) > 0) || d.Paths[0].Result != c.result {
				t.Errorf("result is %s because of %q, want %s; path %+v", d.Result, d.Reasons, c.result, d.Paths[0])
			}
			if s := Summary(*d); c.budget > 0 && !strings.Contains(s, "budget of 5 s") || strings.Contains(s, "OVER") != (c.result == v1.DisruptionOver) {
				t.Errorf("summary is %q", s)
			}
		})
	}
	bubble(t, "nothing could be probed", func(t *testing.T) {
		w := newWorld()
		w.set("read", errRefused)
		o := w.options()
		o.Budget = time.Second
		if d := w.probed(t, o, func() { sleep(3 * time.Second) }); d.Result != v1.DisruptionUnknown {
			t.Errorf("result is %s", d.Result)
		}
	})
}

func TestWithoutAnAnswerAboutTargetsTheKnownOnesAreLookedAtOn(t *testing.T) {
	bubble(t, "the API is gone", func(t *testing.T) {
		w := newWorld()
		w.found = owners(tcp("web"))
		d := w.probed(t, w.options(), func() {
			sleep(10 * time.Second)
			w.set("targets", errRefused)
			sleep(2 * time.Minute)
		})
		if p := pathOf(t, d, v1.PathTCP, "web"); p.Looks < 250 || p.Gone {
			t.Errorf("path is %+v", p)
		}
	})
	bubble(t, "it came late", func(t *testing.T) {
		w := newWorld()
		w.found = owners(tcp("web"))
		w.set("targets", context.DeadlineExceeded)
		d := w.probed(t, w.options(), func() {
			sleep(10 * time.Second)
			w.set("targets", nil)
			sleep(10 * time.Second)
		})
		pathOf(t, d, v1.PathTCP, "web")
	})
}
