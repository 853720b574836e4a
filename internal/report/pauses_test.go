package report

import (
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestTheGapsOfALoopThatStaysArePauses(t *testing.T) {
	in := migration()
	before := Build(in)
	if len(before.Pauses) != 0 || !slices.ContainsFunc(before.Gaps, func(g v1.Gap) bool { return g.Loop == "nodeipam" }) {
		t.Fatalf("a plan that expects nothing of node IPAM must not hide its gaps: %+v, pauses %+v", before.Gaps, before.Pauses)
	}
	r := Build(ipamStays())
	longest := 0.0
	for _, g := range r.Gaps {
		longest = max(longest, g.Seconds)
		if g.Loop == "nodeipam" {
			t.Errorf("gap %+v is of a loop that stays", g)
		}
	}
	for _, g := range r.Pauses {
		if g.Loop != "nodeipam" {
			t.Errorf("pause %+v is of a loop that moves", g)
		}
	}
	if r.Handover.GapSeconds != longest {
		t.Errorf("the largest gap is %v, the summary says %v", longest, r.Handover.GapSeconds)
	}
	if len(r.Gaps)+len(r.Pauses) != len(before.Gaps) || len(r.Pauses) == 0 {
		t.Errorf("%d gaps and %d pauses, of %d gaps", len(r.Gaps), len(r.Pauses), len(before.Gaps))
	}
}

// ipamStays is the migration of the story, of which node IPAM stays in kube-controller-manager.
func ipamStays() Input {
	in := migration()
	in.Journal.Plan.Steps[0].Expect = map[string]string{"service": "kube-controller-manager", "nodeipam": "kube-controller-manager"}
	in.Journal.Plan.Steps[1].Expect = map[string]string{"service": "cloud-controller-manager", "nodeipam": "kube-controller-manager"}
	return in
}

func TestTheOwnStartOfAManagerIsGreyAndExplained(t *testing.T) {
	r := Build(ipamStays())
	for _, l := range drawTimeline(r).Lanes {
		for _, g := range l.Gaps {
			if want := map[bool]string{true: "pause", false: "gap"}[l.Loop == "nodeipam"]; g.Class != want {
				t.Errorf("a gap of %s is drawn as %s", l.Loop, g.Class)
			}
			if l.Loop == "nodeipam" && !strings.Contains(g.Title, "its manager's own start") {
				t.Errorf("the pause says %q", g.Title)
			}
		}
	}
	page, text := string(rendered(t, r, "html")), string(rendered(t, r, "markdown"))
	for _, part := range []string{`<i class="key pause">`, "own start of a manager that keeps the loop", `<div class="stays">`, `class="pauseline"`, "sleeps for 10 s"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	if !strings.Contains(text, "sleeps for 10 s") {
		t.Error("the Markdown does not explain the pauses")
	}
	if without := string(rendered(t, Build(migration()), "html")); strings.Contains(without, `<i class="key pause">`) {
		t.Error("a page without pauses explains them")
	}
	golden(t, "stays.svg", rendered(t, r, "svg"))
}

func TestAReportSaysWhenItsRunDidNotGoOn(t *testing.T) {
	in := migration()
	in.Journal.User = "ops@bastion"
	in.Journal.Pauses = []v1.PauseRecord{
		{Pause: v1.Pause{By: "jane@desk", Reason: "the shop is open, password=hunter2hunter2"}, From: at(3), To: atp(9)},
		{Pause: v1.Pause{By: "jane@desk"}, From: at(11)},
	}
	in.Journal.Stops = []v1.StopRecord{{From: at(20), To: at(26), By: "max@laptop"}}
	for format, want := range map[string][]string{
		"markdown": {
			"Started by ops@bastion. SHA-256 of the plan", "| paused | 2026-03-01 12:00:03 | 2026-03-01 12:00:09 | jane@desk | the shop is open", "| - | jane@desk |",
			"| no command executed it | 2026-03-01 12:00:20 | 2026-03-01 12:00:26 | max@laptop went on |",
		},
		"html": {"Started by ops@bastion.", "<td>jane@desk</td><td class=\"prose\">the shop is open", "<td>max@laptop went on</td>"},
	} {
		var text strings.Builder
		if err := Write(&text, Build(in), format); err != nil {
			t.Fatal(err)
		}
		for _, words := range want {
			if !strings.Contains(text.String(), words) {
				t.Errorf("%s does not say %q", format, words)
			}
		}
		if strings.Contains(text.String(), "hunter2hunter2") {
			t.Errorf("%s shows a secret", format)
		}
	}
}
