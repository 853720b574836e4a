package lock

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/podreason"
	"github.com/transplant-dev/transplant/internal/probe"
)

// ProgressAnnotation is where the lock's Lease says how the run goes: it is renewed every few seconds anyway, so that
// telling costs no further request.
const ProgressAnnotation = "transplant.dev/progress"

// progressLimit bounds what is said of one step, in bytes: an error may hold a whole answer of an API server.
const progressLimit = 400

// progressTotal bounds all of it, in bytes. An API server takes 256 KiB of annotations: with more, the lock could not
// be renewed, and the run would end. Above the bound it is left out what the steps wait for.
const progressTotal = 128 << 10

// Progress follows the events of a run, and publishes what an onlooker elsewhere wants to know of it. It is safe for
// several goroutines.
type Progress struct {
	mu      sync.Mutex
	doc     v1.Progress
	publish func(string)
}

// NewProgress returns the progress of a run, which calls publish with each new state of it.
func NewProgress(run string, publish func(string)) *Progress {
	p := &Progress{doc: v1.Progress{Run: run}, publish: publish}
	p.send()
	return p
}

// Saw takes an event of the engine in.
func (p *Progress) Saw(e step.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.IndexFunc(p.doc.Steps, func(s v1.StepProgress) bool { return s.ID == e.Step.ID })
	switch e.Kind {
	case step.EventDone, step.EventAlreadyDone, step.EventFailed, step.EventInterrupted, step.EventResumed:
		if at >= 0 {
			p.doc.Steps = slices.Delete(p.doc.Steps, at, at+1)
		}
	case step.EventStarted, step.EventProgress, step.EventWaiting, step.EventPaused:
		if e.Step.ID == "" {
			return
		}
		if at < 0 {
			at = len(p.doc.Steps)
			p.doc.Steps = append(p.doc.Steps, v1.StepProgress{ID: e.Step.ID, Since: e.Time.UTC()})
		}
		s := &p.doc.Steps[at]
		message, waits := strings.CutPrefix(mask.Cut(e.Message, progressLimit), step.WaitingPrefix)
		switch {
		case message == "":
		case e.Kind == step.EventProgress && !waits:
			s.Latest, s.Waiting, s.WaitingSince = message, "", time.Time{}
		case s.Waiting == message:
		default:
			if s.Waiting == "" || podreason.Cause(s.Waiting) != podreason.Cause(message) {
				s.WaitingSince = e.Time.UTC()
			}
			s.Waiting, s.Latest = message, ""
		}
	default:
		return
	}
	p.send()
}

// Disrupted publishes what probes have seen so far, in one line and in numbers.
func (p *Progress) Disrupted(line string, totals *v1.ProbeTotals) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line = mask.Cut(line, progressLimit); line != p.doc.Disruption || !reflect.DeepEqual(totals, p.doc.Probes) {
		p.doc.Disruption, p.doc.Probes = line, totals
		p.send()
	}
}

// Judged publishes how the objectives of KEP-2395 stand.
func (p *Progress) Judged(words string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if words = mask.Cut(words, progressLimit); words != p.doc.Objectives {
		p.doc.Objectives = words
		p.send()
	}
}

func (p *Progress) send() {
	doc := p.doc
	data, err := json.Marshal(doc)
	if err == nil && len(data) > progressTotal {
		doc.Steps = slices.Clone(doc.Steps)
		for i := range doc.Steps {
			doc.Steps[i].Waiting, doc.Steps[i].WaitingSince, doc.Steps[i].Latest = "", time.Time{}, ""
		}
		data, err = json.Marshal(doc)
	}
	if err != nil {
		return // there is nothing in it that cannot be written
	}
	p.publish(string(data))
}

// ReadProgress reads what a lock says of its run; nil where it says nothing that is understood. It is masked: an
// earlier version, or another client, may have written it.
func ReadProgress(annotation string) *v1.Progress {
	if annotation == "" {
		return nil
	}
	var p v1.Progress
	if json.Unmarshal([]byte(annotation), &p) != nil {
		return nil
	}
	p.Disruption, p.Objectives = mask.Text(p.Disruption), mask.Text(p.Objectives)
	p.Probes = probe.KnownTotals(p.Probes)
	for i := range p.Steps {
		p.Steps[i].Waiting, p.Steps[i].Latest = mask.Text(p.Steps[i].Waiting), mask.Text(p.Steps[i].Latest)
	}
	return &p
}
