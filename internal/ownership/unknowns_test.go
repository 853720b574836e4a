package ownership

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestAnEmptyLogProvesNothing(t *testing.T) {
	j := Judge(nil, nil, nil, Options{})
	mustMention(t, j.Unknown, "the ownership log is empty", "service", "route", "cloud-node-lifecycle")
	if len(j.Tenures)+len(j.Gaps)+len(j.Overlaps) > 0 {
		t.Errorf("judged %+v from nothing", j)
	}
}

func TestCallsAloneDoNotMakeAnEmptyLogGood(t *testing.T) {
	s := newStory().call(10, kcm1, "CreateRoute")
	j := s.judge(Options{})
	mustMention(t, j.Unknown, "the ownership log is empty")
	mustMention(t, j.Unknown, "kube-controller-manager@cp-1", "1 mutating call", "never looked at")
}

func TestALogWithoutOneAnswerSaysWhomItDidNotSee(t *testing.T) {
	s := newStory().lives(0, kcm1).fails(10, kcm1, v1.SourceScrape).fails(40000, kcm1, v1.SourceScrape)
	mustMention(t, s.judge(Options{}).Unknown, "no manager was seen to run service", "12:00:00.000", "12:00:40.000")
}

func TestAMissingScrapeMakesTheGapAnUpperBound(t *testing.T) {
	// The lease changes hands at 10.3 s while the new owner does not answer from 9.9 s to 15 s.
	s := running()
	s.fails(10050, kcm1, v1.SourceScrape).ends(10100, kcm1)
	s.fails(10000, ccm2, v1.SourceScrape)
	s.lease(10300, migration, "d", 6).lease(10310, kcmName, "b", 4).scrape(11000, kcm2, []string{"nodeipam"}, kcmName)
	s.recovers(15000, ccm2, append([]string{"cloud-node"}, cloudLoops...), ccmName, migration).stays(20000)
	j := s.judge(Options{})
	if g := gapOf(t, j, "service"); g.Certain || g.Seconds != 5.01 {
		t.Errorf("gap of service is %+v, want 5.01 s as an upper bound", g)
	}
	if g := gapOf(t, j, "nodeipam"); !g.Certain {
		t.Errorf("gap of nodeipam is %+v, want a certain one: no look at its owners was missing", g)
	}
	if len(j.Unknown) > 0 {
		t.Errorf("unknown: %q; the lease shows that the new owner could not act before 10.2 s, when the old one had ended", j.Unknown)
	}
}

func TestWithoutTheLeaseAMissingScrapeHidesAnOverlap(t *testing.T) {
	s := newStory().lives(10, kcm1).lives(10, ccm2).scrape(30, kcm1, inTree).scrape(30, ccm2, nil)
	s.fails(8000, ccm2, v1.SourceScrape).recovers(15000, ccm2, cloudLoops).fails(10000, kcm1, v1.SourceScrape).ends(10000, kcm1)
	j := s.judge(Options{})
	mustMention(t, j.Unknown, "scrape of cloud-controller-manager@cp-2 (pid 202)", "12:00:07.900", "12:00:15.000", "service, route, cloud-node-lifecycle",
		"from kube-controller-manager@cp-1 (pid 101)", "whether both ran it for a while is unknown")
}

func TestAnUnansweringManagerThatWonALeaseIsUnknown(t *testing.T) {
	s := running()
	s.fails(5000, kcm2, v1.SourceScrape).lease(6000, kcmName, "b", 4).lease(7000, kcmName, "a", 5).lives(30000, kcm2)
	s.scrape(30000, kcm1, inTree, kcmName, migration).ends(30100, kcm2).lease(30200, migration, "a", 5)
	mustMention(t, s.judge(Options{}).Unknown, "scrape of kube-controller-manager@cp-2 (pid 102)", "connection refused", "whether it ran a loop then is unknown")
}

func TestAnUnansweringManagerThatCanHaveWonNothingIsNotMissed(t *testing.T) {
	s := cleanHandover()
	s.fails(3000, ccm1, v1.SourceScrape)
	for n, e := range s.events { // its heartbeat at the end
		if e.Source == v1.SourceScrape && e.Component == ccmName && e.Host == "cp-1" && e.Time.Equal(at(20000)) {
			s.events = append(s.events[:n], s.events[n+1:]...)
			break
		}
	}
	if j := s.judge(Options{}); len(j.Unknown) > 0 {
		t.Errorf("unknown: %q", j.Unknown)
	}
}

func TestWithoutProcessesALostLeaseIsNoProofOfAnEnd(t *testing.T) {
	s := newStory().lease(20, migration, "a", 5).scrape(30, kcm1, inTree, kcmName, migration).scrape(31, ccm2, []string{"cloud-node"}, ccmName)
	s.fails(10000, kcm1, v1.SourceScrape).lease(18000, migration, "d", 6)
	s.scrape(18500, ccm2, cloudLoops, ccmName, migration).scrape(30000, ccm2, cloudLoops, ccmName, migration)
	j := s.judge(Options{})
	g := gapOf(t, j, "service")
	if g.Cause != v1.EndLease || g.Certain || !g.Start.Equal(at(9900)) || !g.End.Equal(at(18500)) {
		t.Errorf("gap is %+v, want an upper bound from the last answer to the new owner's gauge", g)
	}
	mustMention(t, j.Unknown, "process of kube-controller-manager@cp-1", "another manager holds its lease", "may have been paused")
}

func TestWithoutProcessesARestartIsSeenByItsStartTime(t *testing.T) {
	again := manager{kcmName, "cp-1", 111, 11000}
	s := newStory().scrape(30, kcm1, inTree, kcmName, migration).fails(10000, kcm1, v1.SourceScrape)
	s.recovers(13000, again, nil).scrape(26000, again, inTree, kcmName, migration)
	j := s.judge(Options{})
	if g := gapOf(t, j, "service"); g.Cause != v1.EndRestarted || g.Certain || !g.Start.Equal(at(9900)) || !g.End.Equal(at(26000)) {
		t.Errorf("gap is %+v", g)
	}
	mustMention(t, j.Unknown, "process of kube-controller-manager@cp-1", "another process answers at its address")
}

func TestAPausedOwnerBesideItsSuccessorIsUnknown(t *testing.T) {
	s := running()
	s.fails(5000, kcm1, v1.SourceScrape).lease(20000, migration, "d", 6).lease(20000, kcmName, "b", 4)
	s.scrape(20500, ccm2, append([]string{"cloud-node"}, cloudLoops...), ccmName, migration).scrape(20500, kcm2, []string{"nodeipam"}, kcmName)
	s.lives(25000, kcm1).ends(29000, kcm1).stays(35000)
	j := s.judge(Options{})
	if len(j.Overlaps) > 0 {
		t.Errorf("overlaps are %+v, want none: the old owner never answered next to the new one", j.Overlaps)
	}
	mustMention(t, j.Unknown, "kube-controller-manager@cp-1 (pid 101)", "no answer after 12:00:04.900", "lived until 12:00:28.890",
		"cloud-controller-manager@cp-2 (pid 202) ran service, route, cloud-node-lifecycle", "whether both acted is unknown")
}

func TestCallsOfAnUnknownKeyAreReported(t *testing.T) {
	s := cleanHandover()
	s.calls = append(s.calls,
		v1.CloudCall{Seq: 90, Key: "AKIASOMEBODY", Service: "ec2", Action: "DeleteRoute", Mutating: true, Arrived: at(4000)},
		v1.CloudCall{Seq: 91, Key: "AKIASOMEBODY", Service: "ec2", Action: "DescribeInstances", Arrived: at(4100)},
		v1.CloudCall{Seq: 92, Key: "AKIALABLAB", Service: "ec2", Action: "TerminateInstances", Mutating: true, Arrived: at(4200)},
	)
	j := s.judge(Options{})
	mustMention(t, j.Unknown, "1 mutating call by the unknown access key AKIASOMEBODY", "12:00:04.000", "DeleteRoute")
	mustMention(t, j.Notes, "1 mutating call by lab@lab")
}

func TestCallsOfNoLoopAreNamed(t *testing.T) {
	s := cleanHandover()
	s.call(1000, kcm1, "CreateVolume").call(15000, ccm2, "CreateVolume").call(15100, kcm1, "CreateVolume")
	j := s.judge(Options{})
	mustMention(t, j.Notes, "2 mutating calls of no cloud loop: kube-controller-manager@cp-1 CreateVolume")
	if len(j.Overlaps) != 1 || j.Overlaps[0].Loop != "other/CreateVolume" {
		t.Errorf("overlaps are %+v, want the third CreateVolume", j.Overlaps)
	}
	for _, x := range j.Tenures {
		if strings.HasPrefix(x.Loop, "other/") {
			t.Errorf("%+v is no tenure of a loop", x)
		}
	}
}

func TestACallThatTheCloudDidNotKnowIsUnknown(t *testing.T) {
	s := cleanHandover()
	s.calls = append(s.calls, v1.CloudCall{Seq: 95, Key: kcm1.key(), Service: "ec2", Action: "AssignPrivateIpAddresses", Unknown: true, Arrived: at(4000)})
	mustMention(t, s.judge(Options{}).Unknown, "call 95", "AssignPrivateIpAddresses")
}

func TestCallsOutsideTheLogAreLeftOutAndSaid(t *testing.T) {
	s := cleanHandover()
	s.call(-5000, ccm1, "CreateRoute").call(99000, kcm1, "CreateRoute")
	j := s.judge(Options{})
	mustMention(t, j.Notes, "2 mutating calls before", "left out")
	if len(j.Overlaps) > 0 {
		t.Errorf("overlaps are %+v", j.Overlaps)
	}
}

func TestARecorderThatStoppedLeavesTheRestUnknown(t *testing.T) {
	j := cleanHandover().judge(Options{Until: at(60000)})
	mustMention(t, j.Unknown, "scrape of cloud-controller-manager@cp-2 (pid 202)", "no answer after 12:00:19.990 until the end at 12:01:00.000")
}

func TestARecorderThatBeganLateLeavesTheBeginningUnknown(t *testing.T) {
	j := cleanHandover().judge(Options{From: at(-60000)})
	mustMention(t, j.Unknown, "nothing was recorded between 11:59:00.000 and 12:00:00.010")
}

func TestATermThatNobodySawIsUnknown(t *testing.T) {
	s := cleanHandover()
	s.lease(20100, migration, "d", 9)
	mustMention(t, s.judge(Options{}).Unknown, "lease cloud-provider-extraction-migration had a holder between 12:00:20.000 and 12:00:20.100")
}

func TestCallsDuringARestartBelongToTheProcessThatCanHaveMadeThem(t *testing.T) {
	again := manager{kcmName, "cp-1", 111, 10500}
	s := running()
	s.call(9950, kcm1, "CreateRoute") // in the last moments of the old process
	s.fails(10050, kcm1, v1.SourceScrape).ends(10100, kcm1).lives(10600, again)
	s.call(10620, again, "CreateRoute") // the old process's, read when the new one had begun to start
	s.recovers(12000, again, nil).scrape(13000, again, inTree, kcmName, migration)
	s.call(13500, again, "CreateRoute").lives(14000, again).scrape(14000, again, inTree, kcmName, migration)
	j := s.judge(Options{})
	if len(j.Overlaps) > 0 {
		t.Errorf("overlaps are %+v", j.Overlaps)
	}
	if g := gapOf(t, j, "route"); !g.End.Equal(at(13000)) {
		t.Errorf("gap of route is %+v, want an end at 13 s: the call at 10.62 s was not the new process's", g)
	}
	if len(j.LateEffects) != 1 || j.LateEffects[0].Seq != 2 {
		t.Errorf("late effects are %+v, want the call that arrived after its sender's end", j.LateEffects)
	}
}

func TestTwoProcessesOfOneManagerOnOneHostAreToldApart(t *testing.T) {
	// A backup file in the manifests directory is a second pod: both run, one serves the port.
	second := manager{kcmName, "cp-1", 150, -1000}
	s := newStory().lives(0, kcm1).scrape(30, kcm1, inTree, kcmName, migration).lives(40, second)
	s.fails(5000, kcm1, v1.SourceScrape).recovers(6000, second, inTree, kcmName, migration).lives(9000, kcm1).lives(9000, second)
	j := s.judge(Options{})
	mustMention(t, j.Unknown, "kube-controller-manager@cp-1 (pid 101)", "kube-controller-manager@cp-1 (pid 150) ran service")
}

func TestProcessEventsOfTheEngineSharpenAnEnd(t *testing.T) {
	s := running()
	s.fails(10050, kcm1, v1.SourceScrape).ends(10100, kcm1)
	s.events = append(s.events, v1.OwnershipEvent{
		Time: at(10020), Source: v1.SourceProcess, Component: kcmName, Host: "cp-1", PID: 101, StartTicks: 707, Ended: true,
	})
	s.slowCall(9980, 10060, kcm1, "CreateRoute")
	s.lease(10300, migration, "d", 6).scrape(10700, ccm2, cloudLoops, ccmName, migration).stays(20000)
	j := s.judge(Options{})
	if len(j.LateEffects) != 1 {
		t.Errorf("late effects are %+v, want the call that landed 40 ms after the engine saw the end", j.LateEffects)
	}
	if g := gapOf(t, j, "route"); !g.Start.Equal(at(9990)) {
		t.Errorf("gap is %+v, want it to begin with the last look that saw the process", g)
	}
}

func TestARecorderThatStoppedBeforeTheHandoverKnowsNoSuccessor(t *testing.T) {
	s := running()
	s.events = append(s.events, v1.OwnershipEvent{ // what the engine saw
		Time: at(10020), Source: v1.SourceProcess, Component: kcmName, Host: "cp-1", PID: 101, StartTicks: 707, Ended: true,
	})
	j := s.judge(Options{Until: at(60000)})
	if len(j.Gaps) > 0 {
		t.Errorf("gaps are %+v, want none: nobody looked", j.Gaps)
	}
	mustMention(
		t,
		j.Unknown,
		"no manager answered after 12:00:00.033",
		"whether one runs service since kube-controller-manager@cp-1 (pid 101) has ended is unknown",
	)
}

func TestATenureDoesNotEndBeforeItBegins(t *testing.T) {
	// All that is known of the process is its end, which the engine saw, and a call that it made before.
	s := newStory().scrape(0, ccm2, []string{"cloud-node"}, ccmName)
	s.events = append(s.events, v1.OwnershipEvent{
		Time: at(9000), Source: v1.SourceProcess, Component: kcmName, Host: "cp-1", PID: 101, StartTicks: 707, Ended: true,
	})
	s.call(5000, kcm1, "CreateRoute").scrape(9500, ccm2, cloudLoops, ccmName, migration)
	j := s.judge(Options{})
	for _, x := range j.Tenures {
		if x.To != nil && x.To.Before(x.From) {
			t.Errorf("tenure is %+v", x)
		}
	}
	if g := gapOf(t, j, "route"); !g.Start.Equal(at(5000)) {
		t.Errorf("gap is %+v, want it to begin with the last sign of life", g)
	}
}

// TestALoopHasAnUnknownManagerWhereOneThatLeadsDoesNotSayWhatItRuns: managers before 1.26 have no gauge. After a rollback to one, loops seemed to run nowhere.
func TestALoopHasAnUnknownManagerWhereOneThatLeadsDoesNotSayWhatItRuns(t *testing.T) {
	s := newStory().lives(10, kcm1).lives(10, ccm2).scrape(30, kcm1, nil).scrape(30, ccm2, cloudLoops, ccmName)
	s.ends(10000, ccm2).scrape(12000, kcm1, nil, kcmName).scrape(20000, kcm1, nil, kcmName)
	j := s.judge(Options{Mute: []string{kcmName}})
	mustMention(t, j.Unknown, "kube-controller-manager@cp-1 (pid 101)", "does not say which loops it runs", "has run service since cloud-controller-manager@cp-2")
	if len(j.Gaps) > 0 {
		t.Errorf("gaps %+v, of a loop that may have a manager", j.Gaps)
	}
	if g := gapOf(t, s.judge(Options{}), "service"); g.To != "" {
		t.Errorf("gap %+v: a manager that says what it runs runs nothing", g)
	}
}
