package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/objectives"
)

// narrating keeps what is said.
type narrating struct {
	client.Console
	said []string
}

func (n *narrating) Narrate(format string, a ...any) {
	n.said = append(n.said, fmt.Sprintf(format, a...))
}

// TestABreachIsSaidAlsoWhereItPausesNothing is about --slo=off: the run goes on, and onlookers and the operator learn all the same what managers count.
func TestABreachIsSaidAlsoWhereItPausesNothing(t *testing.T) {
	const breach = "nodesync_error_total grew by up to 2 in 15 minutes (cloud-controller-manager@cp-1)"
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	watch := objectives.NewWatch(now)
	for _, failures := range []float64{0, 2} {
		now = now.Add(time.Minute)
		watch.Add(objectives.Reading{
			At: now, Manager: "cloud-controller-manager@cp-1", Series: []v1.Series{{Name: objectives.SeriesErrors, Sum: failures}},
		})
	}
	if have := (Options{}).judged(watch).Breach(); !strings.Contains(have, breach) {
		t.Errorf("the engine judges %q", have)
	}
	off := Options{IgnoreObjectives: true}
	if have := off.judged(watch).Breach(); have != "" {
		t.Errorf("with --slo=off it would pause the run: %s", have)
	}
	console := &narrating{}
	NarrateObjectives(&client.Client{Console: console}, watch)
	if len(console.said) != 1 || !strings.HasPrefix(console.said[0], "objectives of the managers (KEP-2395): breached: "+breach) {
		t.Errorf("the operator is told %q", console.said)
	}
	shown := ""
	publish(lock.NewProgress("run-1", func(s string) { shown = s }), watch)
	if !strings.Contains(shown, "breached: "+breach) {
		t.Errorf("onlookers see %q", shown)
	}
}
