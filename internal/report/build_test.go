package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/ownership"
)

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

// worst is a migration in which everything went wrong that can.
func worst() Input {
	in := migration()
	in.Probes = badProbes()
	in.Calls = append(in.Calls,
		v1.CloudCall{Seq: 10, Key: "AKIALABCP2CCM", Service: "elb", Action: "CreateLoadBalancer", Mutating: true, Arrived: at(33), Effect: atp(33.1)},
		v1.CloudCall{Seq: 11, Key: "AKIALABCP1KCM", Service: "elb", Action: "DeleteLoadBalancer", Mutating: true, Arrived: at(33.4), Effect: atp(33.5)},
		v1.CloudCall{Seq: 12, Key: "AKIALABCP1KCM", Service: "ec2", Action: "CreateRoute", Mutating: true, Arrived: at(31.5), Effect: atp(34.5)},
		v1.CloudCall{Seq: 13, Key: "AKIASTRANGER", Service: "ec2", Action: "DeleteRoute", Mutating: true, Arrived: at(35)},
	)
	lbs := in.After.Cloud.LoadBalancers
	lbs[1].ID, lbs[1].Created, lbs[1].Address = "new", t0.Add(time.Minute), "b1.us-east-1.elb.amazonaws.com"
	in.After.Cloud.LoadBalancers = lbs[:3]
	in.After.Cloud.Routes = in.After.Cloud.Routes[1:]
	in.After.Nodes[2].ProviderID = "aws:///us-east-1b/i-000000a2"
	in.After.Nodes[3].UID = "uid-new"
	in.After.Nodes[4].Addresses = append(in.After.Nodes[4].Addresses, "InternalDNS=ip-10-0-0-15.ec2.internal")
	steps := len(in.Journal.Records)
	in.Journal.Records[steps-1].Result, in.Journal.Records[steps-1].Error = v1.StepResultFailed, "removing file on host cp-3: read-only file system"
	return in
}

func TestGoldenReportOfAMigrationThatWentWrong(t *testing.T) {
	r := Build(worst())
	golden(t, "worst.html", rendered(t, r, "html"))
	golden(t, "worst.md", rendered(t, r, "markdown"))
}

func TestBuildIsDeterministic(t *testing.T) {
	want := Build(worst())
	for range 10 {
		if diff := cmp.Diff(want, Build(worst())); diff != "" {
			t.Fatalf("the same input gave another report:\n%s", diff)
		}
	}
}

func TestTheResultIsTheFirstThingThatIsNotOK(t *testing.T) {
	withoutOwner := func(in *Input) {
		gone := in.Journal.Ended.Add(time.Second)
		later := gone.Add(10 * time.Second)
		for _, h := range []string{"cp-1", "cp-2", "cp-3"} {
			in.Events = append(in.Events, v1.OwnershipEvent{Time: gone, Source: v1.SourceProcess, Component: component.CCM, Host: h},
				v1.OwnershipEvent{Time: later, Source: v1.SourceScrape, Component: component.KCM, Host: h, Looked: &gone, Loops: map[string][]string{"cp-1": {"nodeipam"}}[h]})
		}
	}
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   string
		words  []string // of one of the reasons
	}{
		{"everything done and proven", func(*Input) {}, v1.ResultOK, nil},
		{"no audit log", func(in *Input) { in.Calls, in.Keys = nil, nil }, v1.ResultOK, nil},
		{"a failed step", func(in *Input) {
			in.Journal.Records[3].Result, in.Journal.Records[3].Error = v1.StepResultFailed, "forbidden"
		},
			v1.ResultFailed, []string{"step ensure/ClusterRole failed: forbidden"}},
		{"a loop without an owner", withoutOwner, v1.ResultFailed, []string{"service: no manager has run it since cloud-controller-manager@cp-1 ended"}},
		{"a loop without an owner when the run was stopped", func(in *Input) {
			withoutOwner(in)
			in.Journal.Phase, in.Journal.Ended = v1.RunApplying, nil
		}, v1.ResultUnfinished, []string{"service: no manager was seen to run it from ", ", when cloud-controller-manager@cp-1 ended, to ", ", when the log ends"}},
		{"an overlapping write", func(in *Input) {
			in.Calls = append(in.Calls, v1.CloudCall{Seq: 8, Key: "AKIALABCP3KCM", Service: "elb", Action: "AddTags", Mutating: true, Arrived: at(53)})
		}, v1.ResultOverlap, []string{"service: 1 mutating call of kube-controller-manager@cp-3 arrived next to cloud-controller-manager@cp-1"}},
		{"a load balancer that is gone", func(in *Input) { in.After.Cloud.LoadBalancers = in.After.Cloud.LoadBalancers[1:] },
			v1.ResultLost, []string{"LoadBalancer/a0000000000000000000000000000000 is gone"}},
		{"no ownership log", func(in *Input) { in.Events = nil }, v1.ResultUnknown, []string{"ownership log is empty"}},
		{"a recorder that died in the middle", func(in *Input) {
			var events []v1.OwnershipEvent
			for _, e := range in.Events {
				if e.Time.Before(at(20)) {
					events = append(events, e)
				}
			}
			in.Events = events
		}, v1.ResultUnknown, []string{"whether one runs route since"}},
		{"no inventory before", func(in *Input) { in.Before = nil }, v1.ResultUnknown, []string{"no snapshot from before"}},
		{"no inventory after", func(in *Input) { in.After = nil }, v1.ResultUnknown, []string{"no snapshot from after"}},
		{"no inventory at all", func(in *Input) { in.Before, in.After = nil, nil }, v1.ResultUnknown, []string{"before or after"}},
		{"routes that could not be read", func(in *Input) {
			in.After.Cloud.Errors, in.After.Errors = []string{"throttled"}, []v1.GatherError{{Fact: "cloud/routes", Error: "throttled"}}
		}, v1.ResultUnknown, []string{"incomplete: cloud/routes: throttled"}},
		{"a cloud that was not read", func(in *Input) { in.Before.Cloud = nil }, v1.ResultUnknown, []string{"cloud: it was not read"}},
		{"a fact that does not matter", func(in *Input) { in.After.Errors = []v1.GatherError{{Fact: "hosts/cp-1", Error: "x"}} }, v1.ResultOK, nil},
		{"a step that was interrupted", func(in *Input) {
			in.Journal.Phase, in.Journal.Ended, in.After = "applying", nil, nil
			n := len(in.Journal.Records) - 1
			in.Journal.Records[n].Result = v1.StepResultInterrupted
		}, v1.ResultUnfinished, []string{"step remove/kcm-migration@cp-3 was begun and is not done"}},
		{"steps that were not begun", func(in *Input) {
			in.Journal.Phase, in.Journal.Ended, in.After = "applying", nil, nil
			in.Journal.Records = in.Journal.Records[:len(in.Journal.Records)-2]
		}, v1.ResultUnfinished, []string{"2 of 46 steps were not begun"}},
		{"a run that has not said that it ended", func(in *Input) { in.Journal.Phase = "applying" }, v1.ResultUnfinished, []string{"its phase is applying"}},
		{"a rollback", func(in *Input) {
			in.Journal.Phase = "rolled-back"
			in.Journal.Records[10].Result = v1.StepResultFailed // that is why it was rolled back
			in.Journal.Rollback = &v1.Plan{Direction: "rollback", Steps: []v1.Step{{ID: "restore/x", Phase: "rollback-original", Title: "Put it back"}}}
			in.Journal.Records = append(in.Journal.Records, v1.StepRecord{ID: "restore/x", Started: at(54.51), Ended: atp(54.515), Result: v1.StepResultDone})
		}, v1.ResultRolledBack, []string{"was rolled back"}},
		{"a rollback that failed", func(in *Input) {
			in.Journal.Phase = "rolling-back"
			in.Journal.Rollback = &v1.Plan{Direction: "rollback", Steps: []v1.Step{{ID: "restore/x", Phase: "rollback-original", Title: "Put it back"}}}
			in.Journal.Records = append(in.Journal.Records, v1.StepRecord{ID: "restore/x", Started: at(54.51), Ended: atp(54.515), Result: v1.StepResultFailed, Error: "disk full"})
		}, v1.ResultFailed, []string{"step restore/x failed: disk full"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := migration()
			c.change(&in)
			r := Build(in)
			if r.Result != c.want {
				t.Errorf("result is %s because of %q, want %s", r.Result, r.Reasons, c.want)
			}
			if c.words != nil {
				mustMention(t, r.Reasons, c.words...)
			} else if len(r.Reasons) > 0 {
				t.Errorf("reasons are %q, want none", r.Reasons)
			}
			for _, format := range Formats {
				rendered(t, r, format)
			}
		})
	}
}

func TestWithoutAnAuditLogNothingIsCounted(t *testing.T) {
	in := migration()
	in.Calls = nil
	r := Build(in)
	if r.Handover.OverlappingWrites != nil || r.Handover.LateEffects != nil {
		t.Errorf("handover is %+v, want no counts", r.Handover)
	}
	for _, s := range r.Sources {
		if s.Name == "cloud audit log" && (s.Present || !strings.Contains(s.Detail, "overlapping writes and calls that took effect late are not counted")) {
			t.Errorf("source is %+v", s)
		}
	}
	if got := string(rendered(t, r, "json")); !strings.Contains(got, `"overlappingWrites": null`) {
		t.Error("overlappingWrites is not null in JSON")
	}
}

func TestAssistedHandoversAndGapsAreSummedUp(t *testing.T) {
	r := Build(migration())
	if r.Handover.Assisted != 6 || r.Handover.GapSeconds < 1.4 || r.Handover.GapSeconds > 1.5 || *r.Handover.OverlappingWrites != 0 {
		t.Errorf("handover is %+v", r.Handover)
	}
	for _, g := range r.Gaps {
		if g.Seconds > r.Handover.GapSeconds || !g.Certain || !strings.Contains(g.Cause, "@") {
			t.Errorf("gap is %+v", g)
		}
	}
}

func TestEveryOwnerThatEndedHasItsUnpromisedWindow(t *testing.T) {
	in := migration()
	in.Journal.Plan.Options.Image = "registry.k8s.io/provider-aws/cloud-controller-manager:v1.26.1"
	r := Build(in)
	if len(r.Unpromised) != 4 {
		t.Fatalf("unpromised are %q, want one for each of the four owners that ended", r.Unpromised)
	}
	mustMention(
		t,
		r.Unpromised,
		"kube-controller-manager@cp-3 (pid 4003) was not fenced",
		"it renewed lease kube-controller-manager last at 12:00:07.952",
		"0.278 s",
	)

	for n := range in.Events {
		in.Events[n].PreviousRenewed = nil
	}
	mustMention(t, Build(in).Unpromised, "kube-controller-manager@cp-3 (pid 4003)", "was not seen", "at most 5s, its renew deadline")

	var noProof []v1.OwnershipEvent
	for _, e := range in.Events {
		if e.Source != v1.SourceProcess {
			noProof = append(noProof, e)
		}
	}
	in.Events = noProof
	for n := range in.Journal.Records {
		in.Journal.Records[n].Handovers = nil
	}
	in.Journal.Plan.Options.RenewDeadline = ""
	mustMention(t, Build(in).Unpromised, "kube-controller-manager@cp-3", "its process was not seen to end", "for 10s")
}

func TestOurOwnManagerIsFenced(t *testing.T) {
	in := migration()
	in.Journal.Plan.Options.Image = "ghcr.io/transplant-dev/aws-cloud-controller-manager:v0.1.0"
	r := Build(in)
	mustMention(t, r.Unpromised, "kube-controller-manager@cp-3 (pid 4003) was not fenced")
	for _, sentence := range r.Unpromised {
		if strings.Contains(sentence, "cloud-controller-manager@") {
			t.Errorf("a fenced manager is named: %s", sentence)
		}
	}
}

func TestTheJournalKnowsEndsThatTheLogDoesNot(t *testing.T) {
	in := migration()
	var events []v1.OwnershipEvent
	for _, e := range in.Events {
		if !e.Ended {
			events = append(events, e)
		}
	}
	in.Events = events
	for _, x := range Build(in).Tenures {
		if x.To != nil && x.End != v1.EndProcess {
			t.Errorf("tenure is %+v, want the end that the journal saw", x)
		}
	}
}

func TestAStepThatGoesOnEndsNow(t *testing.T) {
	in := migration()
	n := len(in.Journal.Records) - 1
	in.Journal.Phase, in.Journal.Ended = "applying", nil
	in.Journal.Records[n].Ended, in.Journal.Records[n].Result = nil, v1.StepResultStarted
	if r := Build(in); !r.Ended.Equal(in.Now) {
		t.Errorf("ended is %s, want now, %s", r.Ended, in.Now)
	}
	in.Journal.Records = nil
	if r := Build(in); !r.Ended.Equal(t0) || len(r.Steps) != 46 || r.Steps[0].Result != v1.StepResultPending {
		t.Errorf("ended is %s, %d steps", r.Ended, len(r.Steps))
	}
}

func TestBuildOfNothingSaysWhatIsMissing(t *testing.T) {
	r := Build(Input{Now: t0})
	if r.Result != v1.ResultUnknown {
		t.Errorf("result is %s because of %q", r.Result, r.Reasons)
	}
	for _, format := range Formats {
		rendered(t, r, format)
	}
}

func TestBuildDoesNotChangeItsInput(t *testing.T) {
	in, same := worst(), worst()
	Build(in)
	if diff := cmp.Diff(same, in, cmp.AllowUnexported(ownership.Owner{})); diff != "" {
		t.Errorf("the input was changed:\n%s", diff)
	}
}

func TestALoopThatTheProviderLacksIsNotExpected(t *testing.T) {
	in := migration()
	for i, e := range in.Events {
		in.Events[i].Loops = slices.DeleteFunc(slices.Clone(e.Loops), func(loop string) bool { return loop == "service" || loop == "route" })
	}
	in.Calls = nil
	if unknown := strings.Join(Build(in).Unknown, "\n"); !strings.Contains(unknown, "no manager was seen to run service") {
		t.Fatalf("a plan that expects nothing must not hide that services had no manager: %q", unknown)
	}
	in.Journal.Plan.Steps[0].Expect = map[string]string{"cloud-node-lifecycle": "kube-controller-manager"}
	if unknown := Build(in).Unknown; len(unknown) > 0 {
		t.Errorf("unknown: %q, want nothing: no step expects services or routes", unknown)
	}
	in.Journal.Plan.Steps[1].Expect = map[string]string{"service": "cloud-controller-manager"}
	if unknown := strings.Join(Build(in).Unknown, "\n"); !strings.Contains(unknown, "run service") || strings.Contains(unknown, "run route") {
		t.Errorf("unknown: %q, want services alone", unknown)
	}
}

// TestManagersWithoutAGaugeAreNamed: what they run is unknown, and no loop of theirs has no owner.
func TestManagersWithoutAGaugeAreNamed(t *testing.T) {
	for _, c := range []struct {
		provider, version, image string
		want                     []string
	}{
		{"aws", "v1.26.0", "", nil},
		{"openstack", "v1.25.0", "", []string{component.KCM}},
		{"azure", "v1.29.1", "mcr.microsoft.com/oss/kubernetes/azure-cloud-controller-manager:v1.29.15", []string{component.CCM}},
		{"azure", "v1.25.4", "", []string{component.KCM, component.CCM}},
		{"azure", "v1.29.1", "ghcr.io/transplant-dev/azure-cloud-controller-manager:v0.1.0", nil},
		{"aws", "", "", nil},
	} {
		p := v1.Plan{Cluster: v1.Cluster{Provider: c.provider, Version: c.version}, Options: v1.Options{Image: c.image}}
		if have := muteManagers(p); !slices.Equal(have, c.want) {
			t.Errorf("%s %s %s: %q", c.provider, c.version, c.image, have)
		}
	}
}
