package view

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestATimelineIsAPicture(t *testing.T) {
	at := func(minutes float64) time.Time { return noon.Add(time.Duration(minutes * float64(time.Minute))) }
	spans := []Span{
		{Name: "Machines", From: at(10), State: SpanUnderWay},
		{Name: "Handover", From: at(0), To: at(10), State: SpanDone},
		{Name: "nothing is known of it"},
	}
	entries := []v1.TimelineEntry{
		{Time: at(20), Level: "warning", Object: "Stuck", Message: "<img src=x>"},
		{Time: at(10), Level: "info", Object: "TransplantInTreeLoopsOff", Message: "off"},
		{Level: "error"},
	}
	want := &Picture{
		Title:   "Timeline of the migration",
		Summary: "From 2026-11-21 12:00:00 to 2026-11-21 12:40:00 UTC. Handover: done in 10m0s. Machines: under way for 30m0s. 2 events, of which 1 is a warning or an error. The table below has the same facts.",
		Height:  142, AxisY: 120, MarksY: 98,
		Bars: []PictureBar{
			{Text: "Handover: done in 10m0s", State: SpanDone, X: 0, Width: 25, TextY: 12, Y: 18},
			{Text: "Machines: under way for 30m0s", State: SpanUnderWay, X: 25, Width: 75, TextY: 50, Y: 56},
		},
		Marks: []PictureMark{
			{Level: "warning", X: 50, Title: "2026-11-21 12:20:00 Stuck: <img src=x>"},
			{Level: "info", X: 25, Title: "2026-11-21 12:10:00 TransplantInTreeLoopsOff: off"},
		},
		Ticks: []PictureTick{
			{Label: "21 Nov 12:00:00", Anchor: "start"}, {Label: "+15 min", Anchor: "middle", X: 37.5}, {Label: "+30 min", Anchor: "middle", X: 75},
		},
	}
	if diff := cmp.Diff(want, Draw(spans, entries, at(40))); diff != "" {
		t.Errorf("picture (-want +got):\n%s", diff)
	}
	if Draw(nil, []v1.TimelineEntry{{Level: "error"}}, noon) != nil {
		t.Error("nothing has a picture")
	}
}

func TestAPictureHasFewTicksWhateverItsLength(t *testing.T) {
	for _, length := range []time.Duration{
		0, time.Second, 7 * time.Second, time.Minute, 50 * time.Minute, 5 * time.Hour, 30 * time.Hour, 40 * 24 * time.Hour, 9 * 365 * 24 * time.Hour,
	} {
		p := Draw([]Span{{Name: "x", From: noon, To: noon.Add(length), State: SpanDone}}, nil, noon)
		if n := len(p.Ticks); n < 1 || n > 5 {
			t.Errorf("%s has %d ticks: %+v", length, n, p.Ticks)
		}
		for _, tick := range p.Ticks {
			if tick.X < 0 || tick.X > 100 || strings.Contains(tick.Label, "%!") {
				t.Errorf("%s: %+v", length, tick)
			}
		}
	}
}

// TestATimeThatNoMigrationHasIsNotDrawn: who writes a journal or an event writes its times, and a page that draws for ever takes all memory of the operator.
func TestATimeThatNoMigrationHasIsNotDrawn(t *testing.T) {
	far, past := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)
	p := Draw(
		[]Span{{Name: "Handover", From: noon.Add(-time.Minute), To: noon, State: SpanDone}, {Name: "a", From: past}, {Name: "b", From: noon, To: far}},
		[]v1.TimelineEntry{{Time: far, Level: "info"}, {Time: past, Level: "error"}, {Time: noon, Level: "info"}}, noon,
	)
	if len(p.Bars) != 1 || len(p.Marks) != 1 || len(p.Ticks) > 5 {
		t.Errorf("%d bars, %d marks, %d ticks", len(p.Bars), len(p.Marks), len(p.Ticks))
	}
	if n := len(axis{from: past, to: far}.ticks()); n < 1 || n > 5 {
		t.Errorf("an axis that is longer than a duration has %d ticks", n)
	}
}

func TestTheMachinesAreReplacedSinceTheManagerIsReady(t *testing.T) {
	machines := func(is bool) func(*kubermaticv1.Cluster) {
		return condition(kubermaticv1.ConditionMachines, is, "", "1 of 3 machines are external", 10*time.Minute)
	}
	for name, c := range map[string]struct {
		object Object
		want   Span
	}{
		"no manager yet":  {cluster("a", enabled, owned(OwnersInTree), machines(false)), Span{}},
		"nothing counted": {cluster("a", enabled, owned(OwnersExternal)), Span{}},
		"under way":       {cluster("a", enabled, owned(OwnersExternal), machines(false)), Span{Name: "Machines", From: noon.Add(-time.Hour), State: SpanUnderWay}},
		"done": {cluster("a", enabled, owned(OwnersExternal), machines(true)),
			Span{Name: "Machines", From: noon.Add(-time.Hour), To: noon.Add(-10 * time.Minute), State: SpanDone}},
	} {
		got, ok := MachinesSpan(Row(c.object, false))
		if got != c.want || ok != (c.want.Name != "") {
			t.Errorf("%s: %+v, %v, want %+v", name, got, ok, c.want)
		}
	}
}
