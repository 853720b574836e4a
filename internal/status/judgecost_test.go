package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
)

// BenchmarkRulesOfALargeJournal measures what the rules cost each time that a changed journal of 5,000 workers is shown, with all its steps done.
func BenchmarkRulesOfALargeJournal(b *testing.B) {
	doc := labJournal(b)
	facts, steps := doc.Plan.Facts, slices.Clone(doc.Plan.Steps)
	for i := range 5000 {
		more := strings.NewReplacer("worker-5", fmt.Sprintf("worker-%d", i+6))
		for _, f := range facts {
			if f.ID != more.Replace(f.ID) {
				f.ID = more.Replace(f.ID)
				doc.Plan.Facts = append(doc.Plan.Facts, f)
			}
		}
		for at, s := range steps {
			if s.Host != "worker-5" {
				continue
			}
			s.ID, s.Host = more.Replace(s.ID), more.Replace(s.Host)
			s.Requires = slices.Clone(s.Requires)
			for j := range s.Requires {
				s.Requires[j] = more.Replace(s.Requires[j])
			}
			doc.Plan.Steps = slices.Insert(doc.Plan.Steps, at, s)
		}
	}
	for _, s := range doc.Plan.Steps {
		doc.Records = append(doc.Records, v1.StepRecord{ID: s.ID, Started: noon, Ended: new(time.Time), Result: v1.StepResultDone})
	}
	for b.Loop() {
		if err := trust.CheckJournal(doc, nil); err != nil {
			b.Fatal(UntrustedWords(err))
		}
	}
}
