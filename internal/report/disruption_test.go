package report

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// probing writes a disruption log, line by line.
type probing []v1.ProbeEvent

func (p *probing) add(seconds float64, event, kind, path string, more func(*v1.ProbeEvent)) {
	e := v1.ProbeEvent{Time: at(seconds), Event: event, Kind: kind, Path: path}
	if more != nil {
		more(&e)
	}
	*p = append(*p, e)
}

func (p *probing) begin(seconds, budget float64, why string) {
	p.add(seconds, v1.ProbeBegin, "", "", func(e *v1.ProbeEvent) { e.IntervalSeconds, e.BudgetSeconds, e.Error = 0.5, ptr.To(budget), why })
}

// out is an outage: the last good look, the first and the last failed one, and the first good one again.
func (p *probing) out(kind, path string, good, failed, last, again float64, why string) {
	p.add(failed, v1.ProbeDown, kind, path, func(e *v1.ProbeEvent) { e.Since, e.Began, e.Error = atp(good), atp(failed), why })
	p.add(again, v1.ProbeUp, kind, path, func(e *v1.ProbeEvent) { e.Since = atp(last) })
}

func (p *probing) end(seconds float64, looks map[string]int) {
	p.add(seconds, v1.ProbeEnd, "", "", func(e *v1.ProbeEvent) {
		e.Looks, e.Reconnects, e.SlowestSeconds = looks, map[string]int{
			"api-watch leases in kube-system": 3,
		}, map[string]float64{
			"tcp shop/web a0.us-east-1.elb.amazonaws.com:80": 0.213,
		}
	})
}

const (
	keptReads = "over a kept connection"
	newReads  = "over a new connection each time"
	theWatch  = "leases in kube-system"
	webPort   = "shop/web a0.us-east-1.elb.amazonaws.com:80"
)

// probes are those of the migration of the story: API servers restart, and nothing else happens.
func probes() []v1.ProbeEvent {
	var p probing
	p.begin(-0.2, 5, "")
	p.add(-0.19, v1.ProbePath, v1.PathAPIRead, keptReads, nil)
	p.add(-0.18, v1.ProbePath, v1.PathAPIRead, newReads, nil)
	p.add(-0.17, v1.ProbePath, v1.PathAPIWatch, theWatch, nil)
	for _, s := range []string{"shop/web", "shop/api", "shop/internal", "kube-system/kube-dns"} {
		p.add(-0.1, v1.ProbePath, v1.PathEndpoints, s, nil)
	}
	for _, s := range []string{webPort, "shop/api a1.us-east-1.elb.amazonaws.com:80", "shop/annotated a3.us-east-1.elb.amazonaws.com:80"} {
		p.add(-0.1, v1.ProbePath, v1.PathTCP, s, nil)
	}
	p.add(1.9, v1.ProbeSkipped, v1.PathTCP, "shop/internal a2.us-east-1.elb.amazonaws.com:80", func(e *v1.ProbeEvent) { e.Error = "no answer within 2s" })
	p.out(v1.PathAPIWatch, theWatch, 25.01, 25.01, 25.01, 25.06, "the watch was broken off")
	p.out(v1.PathAPIRead, keptReads, 24.8, 25.3, 25.3, 25.8, `Get "https://10.0.0.1:6443/api/v1/namespaces/kube-system": EOF`)
	p.out(v1.PathAPIWatch, theWatch, 31.2, 31.2, 31.2, 31.31, "the watch was broken off")
	p.end(54.6, map[string]int{
		"api-read " + keptReads:                                109,
		"api-read " + newReads:                                 109,
		"api-watch " + theWatch:                                61,
		"tcp " + webPort:                                       109,
		"tcp shop/api a1.us-east-1.elb.amazonaws.com:80":       109,
		"tcp shop/annotated a3.us-east-1.elb.amazonaws.com:80": 108,
		"tcp shop/internal a2.us-east-1.elb.amazonaws.com:80":  2,
	})
	return p
}

// badProbes are those of a migration that clients noticed, and whose command was killed in between.
func badProbes() []v1.ProbeEvent {
	p := probing(probes())
	p = p[:len(p)-1]
	p.out(v1.PathTCP, webPort, 33.1, 33.6, 41.1, 41.7, "dial tcp 203.0.113.7:80: connect: connection refused")
	p.add(42, v1.ProbeAlive, "", "", nil)
	p.begin(49, 5, "")
	p.add(49.1, v1.ProbePath, v1.PathAPIRead, newReads, nil)
	p.add(51, v1.ProbeDown, v1.PathEndpoints, "shop/api", func(e *v1.ProbeEvent) {
		e.Since, e.Began, e.Error = atp(51), atp(51), "none of its 2 endpoints is ready"
	})
	p.end(54.6, map[string]int{"api-read " + newReads: 12})
	return p
}

func TestAnOutageNamesTheStepsThatItFellInto(t *testing.T) {
	in := migration()
	in.Probes = badProbes()
	r := Build(in)
	for _, p := range r.Disruption.Paths {
		if p.Path != webPort {
			continue
		}
		if len(p.Outages) != 1 || len(p.Outages[0].Steps) == 0 {
			t.Fatalf("path is %+v", p)
		}
		for _, s := range r.Steps {
			begin, end := s.Started.Sub(t0).Seconds(), s.Started.Sub(t0).Seconds()+s.DurationSeconds
			listed := strings.Contains(strings.Join(p.Outages[0].Steps, " "), s.ID)
			if overlaps := begin <= 41.7 && end >= 33.1; overlaps != listed {
				t.Errorf("step %s went on from %.1f to %.1f s, and is listed: %v", s.ID, begin, end, listed)
			}
		}
		return
	}
	t.Fatal("the path is missing")
}

func TestTheBudgetDecidesTheResult(t *testing.T) {
	for _, c := range []struct {
		name   string
		probes []v1.ProbeEvent
		want   string
		words  []string
	}{
		{"not probed", nil, v1.ResultOK, nil},
		{"within the budget", probes(), v1.ResultOK, nil},
		{"over it", badProbes(), v1.ResultDisrupted, []string{"TCP shop/web", "out for 8.600 s", "the budget is 5 s"}},
		{"nobody looked for longer than it", badProbes()[len(probes())-1+2:], v1.ResultUnknown, []string{"no probe ran for 7.0 s", "longer than the budget"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := migration()
			in.Probes = c.probes
			if c.want == v1.ResultUnknown {
				in.Probes = append(probes()[:len(probes())-1], c.probes...)
			}
			r := Build(in)
			if r.Result != c.want {
				t.Errorf("result is %s because of %q, want %s", r.Result, r.Reasons, c.want)
			}
			if c.words != nil {
				mustMention(t, r.Reasons, c.words...)
			}
			if (r.Disruption == nil) != (c.probes == nil) {
				t.Errorf("disruption is %+v", r.Disruption)
			}
		})
	}
}

func TestManyPathsAreDrawnInPart(t *testing.T) {
	var p probing
	p.begin(0, 5, "")
	for i := range 60 {
		name := webPort + strings.Repeat("x", i)
		p.add(0, v1.ProbePath, v1.PathTCP, name, nil)
		p.out(v1.PathTCP, name, 1, 1, 2, float64(2+i)/1.2, "refused")
	}
	p.end(60, nil)
	in := migration()
	in.Probes = p
	v := viewDisruption(Build(in))
	if len(v.Lanes) != maxPathLanes || v.LeftOut != 40 || len(v.Outages) != 60 || len(v.Rows) != 60 {
		t.Errorf("%d lanes, %d left out, %d outages, %d rows", len(v.Lanes), v.LeftOut, len(v.Outages), len(v.Rows))
	}
}

func TestASuspendedMachineIsSaidToHaveSlept(t *testing.T) {
	var p probing
	p.begin(0, 5, "")
	p.add(1, v1.ProbePath, v1.PathAPIRead, newReads, nil)
	p.end(10, nil)
	p.begin(3610, 5, "this machine slept, or its clock was set, by 1h0m0s")
	p.end(3620, nil)
	in := migration()
	in.Probes = p
	page := string(rendered(t, Build(in), "html"))
	if !strings.Contains(page, "for "+duration(time.Hour.Seconds())+" from") || !strings.Contains(page, "this machine slept") {
		t.Error("the page does not say that nobody looked for an hour")
	}
}

func TestKeptConnectionsHaveAFigureOfTheirOwn(t *testing.T) {
	p := probing(probes())
	last := p[len(p)-1]
	p = p[:len(p)-1]
	for _, path := range []string{webPort, "shop/api a1.us-east-1.elb.amazonaws.com:80"} {
		p.add(30, v1.ProbePath, v1.PathTCPKept, path, nil)
	}
	p.out(v1.PathTCPKept, webPort, 33, 33, 34.5, 34.5, "the far side closed it")
	last.Reconnects["tcp-kept shop/api a1.us-east-1.elb.amazonaws.com:80"] = 2
	in := migration()
	in.Probes = append(p, last)
	text := string(rendered(t, Build(in), "markdown"))
	for _, want := range []string{
		"; kept connections: 1 cut, longest 1.5 s until a new one (2 closed while idle); ",
		"| kept connection to " + webPort + " | 0 | 1 | 1.50 s | 1.50 s | within 5 s |",
		"| 1 other kept connection (2 closed while idle) | 0 | 0 | – | – | within 5 s |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q:\n%s", want, text)
		}
	}
}

// onlyTheAPI are the probes of a machine that reaches no load balancer.
func onlyTheAPI() []v1.ProbeEvent {
	var p probing
	p.begin(0, 5, "")
	p.add(1, v1.ProbePath, v1.PathAPIRead, newReads, nil)
	p.add(2, v1.ProbeSkipped, v1.PathTCP, webPort, func(e *v1.ProbeEvent) { e.Error = "no such host" })
	p.end(54, nil)
	return p
}

func TestTheFirstFigureIsTheClientsDowntime(t *testing.T) {
	for _, c := range []struct {
		name   string
		probes []v1.ProbeEvent
		want   figure
	}{
		{"not probed", nil, figure{Value: "not measured", Name: "clients' downtime", Detail: "no probe ran: apply --probe measures it", Tone: toneWarn, Words: true}},
		{"within the budget", probes(), figure{Value: "1.00 s", Name: "clients' downtime", Detail: "longest outage: API reads over a kept connection; Services: 0.0 s", Tone: toneGood}},
		{"over it, and out still", badProbes(), figure{Value: "≥ 8.60 s", Name: "clients' downtime", Detail: "longest outage: TCP " + webPort, Tone: toneBad}},
		{"no load balancer could be reached", onlyTheAPI(), figure{Value: "0.0 s", Name: "clients' downtime", Detail: "no outage of 1 path; no Service was probed", Tone: toneGood}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := migration()
			in.Probes = c.probes
			r := Build(in)
			if got := figures(r)[0]; got != c.want {
				t.Errorf("the first figure is %+v, want %+v", got, c.want)
			}
			if text := string(rendered(t, r, "markdown")); !strings.Contains(text, "| clients' downtime | "+c.want.Value+" |") {
				t.Error("the Markdown does not say so")
			}
		})
	}
}

func TestWithoutAnOwnershipLogNoGapIsMeasured(t *testing.T) {
	in := migration()
	in.Events = nil
	if got := figures(Build(in))[1]; got.Value != "unknown" || got.Tone != toneWarn {
		t.Errorf("the figure is %+v", got)
	}
}

// TestEveryColumnIsPrinted: what scrolls on a screen would be cut off on paper.
func TestEveryColumnIsPrinted(t *testing.T) {
	_, print, ok := strings.Cut(pageStyle, "@media print {")
	if !ok {
		t.Fatal("there is no style for paper")
	}
	for _, rule := range []string{
		".scroll { overflow: visible; }", ".scroll table { min-width: 0; }", ".prose, .value-cell, .barcol { min-width: 0; }",
		"thead th, th[scope=row] { white-space: normal;", "details::details-content { content-visibility: visible;",
	} {
		if !strings.Contains(print, rule) {
			t.Errorf("paper lacks %q", rule)
		}
	}
	if strings.Contains(strings.ReplaceAll(pageStyle, "@media screen and (max-width: 560px)", ""), "@media (max-width: 560px)") {
		t.Error("the narrow layout, whose tables have a least width, also holds on paper")
	}
}
