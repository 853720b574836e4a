package ownership

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestACleanHandoverHasGapsAndNothingElse(t *testing.T) {
	j := cleanHandover().judge(Options{Causes: []CauseWindow{
		{Name: "the whole", From: at(0), To: at(60000)}, {Name: "external/kube-controller-manager@cp-1", From: at(9900), To: at(15000)},
	}})
	if len(j.Overlaps)+len(j.LateEffects)+len(j.Unknown) > 0 {
		t.Errorf("a clean handover is judged %+v", j)
	}
	want := []v1.Gap{
		{Loop: "service", From: "kube-controller-manager@cp-1", To: "cloud-controller-manager@cp-2"},
		{Loop: "route", From: "kube-controller-manager@cp-1", To: "cloud-controller-manager@cp-2"},
		{Loop: "cloud-node-lifecycle", From: "kube-controller-manager@cp-1", To: "cloud-controller-manager@cp-2"},
		{Loop: "nodeipam", From: "kube-controller-manager@cp-1", To: "kube-controller-manager@cp-2"},
	}
	for i := range want {
		want[i].Cause, want[i].Certain = "external/kube-controller-manager@cp-1", true
		want[i].Start, want[i].End, want[i].Seconds, want[i].LeaseSeconds = at(9990), at(10700), 0.71, ptr.To(0.31)
	}
	want[3].End, want[3].Seconds, want[3].LeaseSeconds = at(11000), 1.01, ptr.To(0.32)
	if diff := cmp.Diff(want, j.Gaps); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
	wantTenures := []v1.Tenure{
		{Loop: "service", Component: kcmName, Host: "cp-1", PID: 101, From: at(30), To: atp(9990), End: v1.EndProcess, Earlier: true, Certain: true},
		{Loop: "service", Component: ccmName, Host: "cp-2", PID: 202, From: at(10700), LeaseHeld: atp(10300), Certain: true},
	}
	var got []v1.Tenure
	for _, x := range j.Tenures {
		if x.Loop == "service" {
			got = append(got, x)
		}
	}
	if diff := cmp.Diff(wantTenures, got); diff != "" {
		t.Errorf("tenures of service (-want +got):\n%s", diff)
	}
}

func TestTheOrderOfLinesDoesNotMatter(t *testing.T) {
	s := cleanHandover()
	want := s.judge(Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		rng.Shuffle(len(s.calls), func(a, b int) { s.calls[a], s.calls[b] = s.calls[b], s.calls[a] })
		if diff := cmp.Diff(want, s.judge(Options{})); diff != "" {
			t.Fatalf("judged differently (-want +got):\n%s", diff)
		}
	}
}

func TestAPlantedOverlapOfCallsIsSeen(t *testing.T) {
	s := cleanHandover()
	s.call(10950, kcm1, "CreateLoadBalancer").call(11500, kcm1, "DeleteLoadBalancer") // after ccm2's first call on service at 10.9 s
	s.call(11900, kcm1, "CreateRoute")                                                // before its first call on route at 12 s
	j := s.judge(Options{})
	want := []v1.Overlap{{
		Loop: "service", Old: "kube-controller-manager@cp-1", New: "cloud-controller-manager@cp-2", Start: at(10950), End: at(11500),
		Calls: []int64{5, 6}, Evidence: v1.EvidenceCalls,
	}}
	if diff := cmp.Diff(want, j.Overlaps); diff != "" {
		t.Errorf("overlaps (-want +got):\n%s", diff)
	}
	if j.OverlappingWrites() != 2 {
		t.Errorf("%d overlapping writes, want 2", j.OverlappingWrites())
	}
	if len(j.LateEffects) != 1 || j.LateEffects[0].Action != "CreateRoute" {
		t.Errorf("late effects are %+v, want the CreateRoute that arrived before its successor's first", j.LateEffects)
	}
}

func TestACallBeforeTheGaugeIsTheBeginningOfATenure(t *testing.T) {
	s := cleanHandover()
	s.call(10400, ccm2, "CreateLoadBalancer")
	if g := gapOf(t, s.judge(Options{}), "service"); !g.End.Equal(at(10400)) || !g.Certain {
		t.Errorf("gap of service is %+v, want an end at 10.4 s", g)
	}
}

func TestAnIntruderThatOwnsNoLeaseIsAnOverlap(t *testing.T) {
	// The documented names with a current cloud-controller-manager: its loops count as not migrated and run at once, under its own lease.
	s := running()
	s.call(2000, kcm1, "CreateLoadBalancer")
	s.scrape(4000, ccm2, append([]string{"cloud-node"}, cloudLoops...), ccmName)
	s.call(4100, ccm2, "CreateLoadBalancer").call(4200, kcm1, "DeleteLoadBalancer")
	s.scrape(9000, ccm2, append([]string{"cloud-node"}, cloudLoops...), ccmName).scrape(9000, kcm1, inTree, kcmName, migration)
	j := s.judge(Options{})
	evidence := map[string]int{}
	for _, o := range j.Overlaps {
		evidence[o.Evidence]++
		if o.Old != "kube-controller-manager@cp-1" || o.New != "cloud-controller-manager@cp-2" {
			t.Errorf("overlap of %s and %s", o.Old, o.New)
		}
	}
	if evidence[v1.EvidenceCalls] != 1 || evidence[v1.EvidenceGauges] != 3 {
		t.Errorf("overlaps are %+v, want one of calls and three of gauges", j.Overlaps)
	}
}

func TestThePlantedGapIsSeenWhereverItIs(t *testing.T) {
	// Leader migration is switched on: the owner restarts on its host and takes everything back 16 s later.
	s := running()
	again := manager{kcmName, "cp-1", 111, 11000}
	s.fails(10050, kcm1, v1.SourceScrape).ends(10100, kcm1).lives(11100, again).recovers(13000, again, nil)
	s.lease(26000, kcmName, "a2", 4).lease(26050, migration, "a2", 6).scrape(26200, again, inTree, kcmName, migration)
	s.lives(30000, again).
		scrape(30000, again, inTree, kcmName, migration).
		scrape(30000, kcm2, nil).
		scrape(30000, ccm1, nil).
		scrape(30000, ccm2, []string{"cloud-node"}, ccmName)
	j := s.judge(Options{Causes: []CauseWindow{{Name: "elsewhere", From: at(0), To: at(9000)}}})
	g := gapOf(t, j, "service")
	want := v1.Gap{Loop: "service", From: "kube-controller-manager@cp-1", To: "kube-controller-manager@cp-1", Cause: v1.EndProcess,
		Start: at(9990), End: at(26200), Seconds: 16.21, LeaseSeconds: ptr.To(16.06), Certain: true}
	if diff := cmp.Diff(want, g); diff != "" {
		t.Errorf("gap (-want +got):\n%s", diff)
	}
	if len(j.Gaps) != 4 || len(j.Unknown) > 0 || len(j.Overlaps) > 0 {
		t.Errorf("judged %+v", j)
	}
}

func TestALoopThatNobodyTakesOverIsAGapUntilTheEnd(t *testing.T) {
	s := running()
	s.fails(10050, kcm1, v1.SourceScrape).ends(10100, kcm1)
	s.lives(30000, kcm2).lives(30000, ccm2).scrape(30000, kcm2, nil).scrape(30000, ccm2, []string{"cloud-node"}, ccmName)
	j := s.judge(Options{})
	if g := gapOf(t, j, "route"); g.To != "" || !g.End.Equal(at(30000)) || g.Seconds != 20.01 {
		t.Errorf("gap is %+v, want one to nobody until the end", g)
	}
	for _, g := range j.Gaps {
		if g.Loop == "cloud-node" {
			t.Errorf("cloud-node was run throughout and has the gap %+v", g)
		}
	}
}

func TestCloudNodeBeginsWithItsFirstOwnerAndEndsWithItsLast(t *testing.T) {
	s := newStory().lives(10, ccm2).scrape(5000, ccm2, []string{"cloud-node"}, ccmName).ends(9000, ccm2)
	s.lives(20000, kcm1).scrape(20000, kcm1, inTree, kcmName, migration)
	j := s.judge(Options{})
	if len(j.Gaps) != 0 {
		t.Errorf("gaps are %+v, want none", j.Gaps)
	}
	mustMention(t, j.Notes, "no manager ran cloud-node after 12:00:08.890")
}

func TestALateEffectIsCountedApart(t *testing.T) {
	s := cleanHandover()
	s.slowCall(9900, 14000, kcm1, "CreateLoadBalancer") // sent before the death, lands four seconds after it
	j := s.judge(Options{})
	if len(j.Overlaps) != 0 {
		t.Errorf("overlaps are %+v, want none: the call had arrived before the new owner's first", j.Overlaps)
	}
	want := []v1.LateEffect{{
		Seq: 5, Loop: "service", Owner: "kube-controller-manager@cp-1", Service: "elb", Action: "CreateLoadBalancer", Arrived: at(9900), Effect: at(14000),
	}}
	if diff := cmp.Diff(want, j.LateEffects); diff != "" {
		t.Errorf("late effects (-want +got):\n%s", diff)
	}
}

func TestAFailedOrUnfinishedCallHasNoLateEffect(t *testing.T) {
	s := cleanHandover()
	s.slowCall(9900, 14000, kcm1, "CreateRoute").slowCall(9910, 14000, kcm1, "CreateRoute")
	s.calls[4].Effect, s.calls[5].Error = nil, "RequestLimitExceeded"
	if j := s.judge(Options{}); len(j.LateEffects) != 0 {
		t.Errorf("late effects are %+v, want none", j.LateEffects)
	}
}

func TestTwoGaugesAtOneAreAnOverlap(t *testing.T) {
	// A paused owner is resumed: it answers again, with its gauges still at 1, ten seconds next to its successor.
	s := running()
	s.fails(5000, kcm1, v1.SourceScrape)
	s.lease(20000, migration, "d", 6).scrape(20500, ccm2, append([]string{"cloud-node"}, cloudLoops...), ccmName, migration)
	s.recovers(25000, kcm1, inTree, kcmName, migration).lives(25000, kcm1).scrape(34000, kcm1, inTree, kcmName, migration)
	s.fails(35000, kcm1, v1.SourceScrape).ends(35000, kcm1).stays(40000)
	j := s.judge(Options{})
	if len(j.Overlaps) != 3 {
		t.Fatalf("overlaps are %+v, want one for each loop that moved", j.Overlaps)
	}
	if o := j.Overlaps[0]; o.Evidence != v1.EvidenceGauges || !o.Start.Equal(at(20500)) || !o.End.Equal(at(34900)) {
		t.Errorf("overlap is %+v, want gauges from 20.5 s to 34.9 s", o)
	}
}

func TestAManagerThatVanishedIsNoOverlap(t *testing.T) {
	// Its last gauge stays at 1 in the log; only looks that were made count.
	if j := cleanHandover().judge(Options{}); len(j.Overlaps) != 0 {
		t.Errorf("overlaps are %+v", j.Overlaps)
	}
}

func TestJudgeDoesNotChangeItsInput(t *testing.T) {
	s, same := cleanHandover(), cleanHandover()
	s.judge(Options{})
	if diff := cmp.Diff(same.events, s.events); diff != "" {
		t.Errorf("events were changed:\n%s", diff)
	}
	if diff := cmp.Diff(same.calls, s.calls); diff != "" {
		t.Errorf("calls were changed:\n%s", diff)
	}
}

func TestNoLookConfirmsAGaugeBeyondTheEndOfItsProcess(t *testing.T) {
	// The recorder never saw the old process fail: it was back on its host, with its gauges at 0, between two scrapes.
	again := manager{kcmName, "cp-1", 111, 10300}
	s := running()
	s.ends(10100, kcm1).lives(10400, again).lease(10300, migration, "d", 6)
	s.scrape(10700, ccm2, append([]string{"cloud-node"}, cloudLoops...), ccmName, migration).scrape(12000, again, nil)
	if j := s.judge(Options{}); len(j.Overlaps) != 0 {
		t.Errorf("overlaps are %+v, want none: the process had ended", j.Overlaps)
	}
}

func TestACallOfAManagerThatNeverOwnedTheLoopIsAnOverlap(t *testing.T) {
	s := cleanHandover()
	s.call(15000, kcm2, "CreateLoadBalancer") // an external one, which leads its own lease and runs node IPAM only
	j := s.judge(Options{})
	want := []v1.Overlap{
		{
			Loop:     "service",
			Old:      "kube-controller-manager@cp-2",
			New:      "cloud-controller-manager@cp-2",
			Start:    at(15000),
			End:      at(15000),
			Calls:    []int64{5},
			Evidence: v1.EvidenceCalls,
		},
	}
	if diff := cmp.Diff(want, j.Overlaps); diff != "" {
		t.Errorf("overlaps (-want +got):\n%s", diff)
	}
}

func TestAManagerThatDrainsAndIsGoneAtTheNextLookHasACertainEnd(t *testing.T) {
	s := running()
	s.scraped(5000, 900, ccm2, nil, nil).fails(5004, ccm2, v1.SourceScrape).ends(5100, ccm2)
	s.lease(5020, ccmName, "c", 2).scrape(5200, ccm1, []string{"cloud-node"}, ccmName)
	s.lives(6000, ccm1).scrape(6000, ccm1, []string{"cloud-node"}, ccmName)
	if g := gapOf(t, s.judge(Options{Until: at(6000)}), "cloud-node"); !g.Certain {
		t.Errorf("no look was missing before it was seen without its loop: %+v", g)
	}
}

func TestALookThatFailedBeforeALoopWasSeenStoppedLeavesItsEndUncertain(t *testing.T) {
	s := running()
	s.fails(4500, ccm2, v1.SourceScrape).recovers(5000, ccm2, nil).ends(5100, ccm2)
	s.lease(5020, ccmName, "c", 2).scrape(5200, ccm1, []string{"cloud-node"}, ccmName)
	s.lives(6000, ccm1).scrape(6000, ccm1, []string{"cloud-node"}, ccmName)
	if g := gapOf(t, s.judge(Options{Until: at(6000)}), "cloud-node"); g.Certain {
		t.Errorf("a look was missing: %+v", g)
	}
}
