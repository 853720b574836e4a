package exposition

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/fleet/operator"
	"github.com/transplant-dev/transplant/internal/hosted"
)

const page = "../../../../docs/reference/migration-metrics.md"

// noon is when the status was read.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// applying is a status of a run that goes well, with changes.
func applying(changes ...func(*v1.Status)) v1.Status {
	s := v1.Status{
		Cluster: v1.Cluster{Name: "prod", UID: "7c0d"}, Time: noon, Run: "20261121-115500", State: v1.StateApplying, Phase: v1.RunApplying,
		Started: noon.Add(-5 * time.Minute), ElapsedSeconds: 300, StepsDone: 22, StepsTotal: 46,
		Current: []v1.StepStatus{{ID: "a", SinceSeconds: 40}, {ID: "b", SinceSeconds: 20}},
		Lock:    &v1.LockStatus{Holder: "ops@bastion pid 4412 start 1", AgeSeconds: 3},
		Nodes:   []v1.NodeStatus{{Name: "cp-1", State: v1.NodeWorking}, {Name: "cp-2", State: v1.NodePending}, {Name: "worker-1", State: v1.NodePending}},
		Owners:  map[string]string{"service": component.KCM + "@cp-1", "route": "unknown@cp-2", "nodeipam": "nobody"},
		OwnersFrom: map[string]string{
			"service": "lease kube-controller-manager", "route": "lease x, whose holder leads neither manager", "nodeipam": "lease y",
		},
		Health: []v1.Blocker{
			{Code: v1.BlockerNodeNotReady, Level: "warning", Impact: "nodes", Message: "1 of 5 nodes not Ready: worker-2"},
		},
		Findings: []v1.PlanFinding{{Code: "NODE-001", Level: "of the journal", Outcome: v1.Warn}},
		SectionTimes: []v1.SectionTime{
			{Section: "prepare", Result: v1.StepResultDone, Seconds: 90}, {Section: "handover", Result: v1.StepResultStarted, Seconds: 12},
		},
		Probes: &v1.ProbeTotals{BudgetSeconds: ptr.To(5.0), Kinds: []v1.ProbeKindTotals{
			{Kind: v1.PathTCP, Paths: 12, LongestSeconds: 1.5, TotalSeconds: 4},
		}},
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

// in is a change of the state, which drops the lock where no process works on the run.
func in(state string) func(*v1.Status) {
	return func(s *v1.Status) {
		if s.State = state; state != v1.StateApplying && state != v1.StateRollingBack && state != v1.StateStalled {
			s.Lock = nil
		}
	}
}

func printed(t *testing.T, s v1.Status, part hosted.Part) string {
	t.Helper()
	var text strings.Builder
	if err := Print(&text, s, part); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func parsed(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("Prometheus cannot read it: %v\n%s", err, text)
	}
	return families
}

// valuesOf are the values of a text by series, without the labels of the cluster and the prefix.
func valuesOf(t *testing.T, text string) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for name, family := range parsed(t, text) {
		for _, m := range family.GetMetric() {
			key := strings.TrimPrefix(name, prefix)
			for _, l := range m.GetLabel() {
				if l.GetName() != "cluster" && l.GetName() != "uid" {
					key += " " + l.GetValue()
				}
			}
			out[key] = m.GetGauge().GetValue()
		}
	}
	return out
}

func TestASeriesForEachAnswerOfAStatus(t *testing.T) {
	have := valuesOf(t, printed(t, applying(), ""))
	want := map[string]float64{
		"status_timestamp_seconds": float64(noon.Unix()), "read_errors": 0, "blockers error": 0, "blockers warning": 1, "blockers info": 0,
		"phase Handover": 1, "stuck": 0, "steps_done": 22, "steps_total": 46, "progress_timestamp_seconds": float64(noon.Unix() - 20),
		"nodes Blocked": 0, "nodes Working": 1, "nodes Begun": 0, "nodes Pending": 2, "nodes Done": 0, "nodes Out": 0,
		"pause_requested": 0, "last_error": 0, "untrusted": 0, "lock_age_seconds": 3, "lock_expired": 0,
		"loop_owner kube-controller-manager service": 1, "loop_owner cloud-controller-manager service": 0, "loop_owner unknown service": 0,
		"loop_owner kube-controller-manager route": 0, "loop_owner cloud-controller-manager route": 0, "loop_owner unknown route": 1,
		"loop_owner kube-controller-manager nodeipam": 0, "loop_owner cloud-controller-manager nodeipam": 0, "loop_owner unknown nodeipam": 0,
		"finding NODE-001 " + level(t, "NODE-001"): 1, "plan_phase_duration_seconds prepare done": 90, "plan_phase_duration_seconds handover started": 12,
		"probe_budget_seconds": 5, "probe_paths tcp": 12, "probe_outage_seconds tcp longest": 1.5, "probe_outage_seconds tcp total": 4,
	}
	for _, state := range states {
		want["state "+state] = oneIf(state == v1.StateApplying)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// level is that of a check: a finding of a journal may say another one.
func level(t *testing.T, code string) string {
	t.Helper()
	c, isKnown := check.Find(code)
	if !isKnown {
		t.Fatalf("there is no check %s", code)
	}
	return c.Level
}

// What the shipped rules ask for: phase and stuck are the operator's, by the same rules.
func TestEachStateHasTheOperatorsPhase(t *testing.T) {
	// Another impact and other words change nothing: the code counts.
	blocked := func(by v1.BlockerCode) func(*v1.Status) {
		return func(s *v1.Status) {
			s.Health = append(s.Health, v1.Blocker{Code: by, Level: "warning", Impact: "nodes"})
		}
	}
	asked := func(s *v1.Status) { s.StoppedBehind = "a" }
	paused := func(s *v1.Status) { s.Paused = &v1.Pause{By: "boss@desk"} }
	for name, c := range map[string]struct {
		status v1.Status
		part   hosted.Part
		phase  string
		stuck  bool
	}{
		"it is not begun":                            {applying(in(v1.StateNotStarted)), "", "", false},
		"the journal may not be read":                {applying(in(v1.StateUnknown)), "", "", false},
		"it was rolled back":                         {applying(in(v1.StateRolledBack)), "", "", false},
		"it goes on":                                 {applying(), "", "Handover", false},
		"it is rolled back":                          {applying(in(v1.StateRollingBack)), "", "Handover", false},
		"a step takes long":                          {applying(blocked(v1.BlockerStepSlow)), "", "Handover", true},
		"a step takes long, and it is to wait":       {applying(blocked(v1.BlockerStepSlow), paused), "", "Handover", false},
		"its holder misses renewals":                 {applying(blocked(v1.BlockerLockSilent)), "", "Handover", true},
		"its journal is not trusted":                 {applying(blocked(v1.BlockerJournalUntrusted)), "", "Handover", true},
		"a node is not Ready":                        {applying(blocked(v1.BlockerNodeNotReady)), "", "Handover", false},
		"the clocks differ":                          {applying(blocked(v1.BlockerClockOff)), "", "Handover", false},
		"its holder is silent":                       {applying(in(v1.StateStalled)), "", "Handover", true},
		"its command was killed":                     {applying(in(v1.StateStopped)), "", "Handover", true},
		"it stopped where it was told to":            {applying(in(v1.StateStopped), asked), "", "Held", false},
		"it is paused":                               {applying(in(v1.StatePaused), paused), "", "Held", false},
		"it failed":                                  {applying(in(v1.StateFailed)), "", "Failed", false},
		"it is applied":                              {applying(in(v1.StateApplied)), "", "Completed", false},
		"a handover in a seed goes on":               {applying(), hosted.Handover, "Handover", false},
		"a handover in a seed is applied":            {applying(in(v1.StateApplied)), hosted.Handover, "Machines", false},
		"what was kept in a seed is being taken off": {applying(), hosted.Finish, "Finish", false},
		"all is done in a seed":                      {applying(in(v1.StateApplied)), hosted.Finish, "Completed", false},
	} {
		t.Run(name, func(t *testing.T) {
			have, want := map[string]float64{}, map[string]float64{}
			for key, value := range valuesOf(t, printed(t, c.status, c.part)) {
				if key == "stuck" || strings.HasPrefix(key, "phase ") {
					have[key] = value
				}
			}
			if c.phase != "" {
				want["phase "+c.phase], want["stuck"] = 1, oneIf(c.stuck)
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsNotKnownHasNoSeries(t *testing.T) {
	onlyState := []string{"blockers", "read_errors", "state", "status_timestamp_seconds"}
	for name, c := range map[string]struct {
		status  v1.Status
		part    hosted.Part
		has     map[string]float64
		without []string
	}{
		"no migration was started": {
			v1.Status{Time: noon, State: v1.StateNotStarted, Phase: v1.StateNotStarted}, "",
			map[string]float64{"state not-started": 1}, []string{"steps_total", "nodes", "phase", "stuck", "lock_expired", "loop_owner"},
		},
		"no step is under way": {
			applying(func(s *v1.Status) { s.Current = nil }), "", map[string]float64{"steps_total": 46}, []string{"progress_timestamp_seconds"},
		},
		"it has ended": {
			applying(in(v1.StateApplied), func(s *v1.Status) { s.ElapsedSeconds = 240 }), "",
			map[string]float64{"progress_timestamp_seconds": float64(noon.Unix() - 60)}, []string{"lock_age_seconds", "lock_expired"},
		},
		"no probe runs": {
			applying(func(s *v1.Status) { s.Probes = nil }), "", map[string]float64{"stuck": 0}, []string{"probe_"},
		},
		"the probes have no budget": {
			applying(func(s *v1.Status) { s.Probes.BudgetSeconds = nil }), "", map[string]float64{"probe_paths tcp": 12}, []string{"probe_budget"},
		},
		"its holder is silent": {
			applying(in(v1.StateStalled), func(s *v1.Status) { s.Lock.AgeSeconds, s.Lock.Expired = 215, true }), "",
			map[string]float64{"lock_age_seconds": 215, "lock_expired": 1}, nil,
		},
		"it went wrong": {
			applying(in(v1.StateFailed), func(s *v1.Status) { s.LastError, s.Untrusted, s.NotRead = "x", "y", []string{"a", "b"} }), "",
			map[string]float64{"last_error": 1, "untrusted": 1, "read_errors": 2}, nil,
		},
		"it is to wait": {
			applying(func(s *v1.Status) { s.Paused = &v1.Pause{} }), "", map[string]float64{"pause_requested": 1}, []string{"second_owners"},
		},
		"the managers of a seed were asked": {
			applying(func(s *v1.Status) {
				s.Health = append(s.Health, v1.Blocker{Code: v1.BlockerTwoOwners, Level: "error", Message: "loop service also runs in pod b"})
			}), hosted.Handover, map[string]float64{"second_owners": 1, "blockers error": 1}, nil,
		},
		"the managers of a seed have one owner each": {applying(), hosted.Handover, map[string]float64{"second_owners": 0}, nil},
		"the managers of a seed were not asked": {
			applying(func(s *v1.Status) { s.Owners, s.OwnersFrom = map[string]string{}, map[string]string{} }), hosted.Handover,
			map[string]float64{"stuck": 0}, []string{"second_owners", "loop_owner"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := printed(t, c.status, c.part)
			have := valuesOf(t, text)
			for key, want := range c.has {
				if value, is := have[key]; !is || value != want {
					t.Errorf("%s is %v (there: %v), want %v", key, value, is, want)
				}
			}
			for _, name := range c.without {
				if strings.Contains(text, prefix+name) {
					t.Errorf("there is %s", name)
				}
			}
		})
	}
	var names []string
	for name := range parsed(t, printed(t, v1.Status{Time: noon, State: v1.StateNotStarted}, "")) {
		names = append(names, strings.TrimPrefix(name, prefix))
	}
	slices.Sort(names)
	if diff := cmp.Diff(onlyState, names); diff != "" {
		t.Errorf("before a migration (-want +got):\n%s", diff)
	}
}

// A journal, an event and a holder are texts of others. They may repeat a secret, and each new text would be a series more.
func TestNoTextOfTheClusterIsPrinted(t *testing.T) {
	const planted = "planted7hunter2"
	s := applying(func(s *v1.Status) {
		s.Cluster = v1.Cluster{Name: "a\"b\n" + planted, UID: planted + " x", Server: planted, Context: planted, Provider: planted, Version: planted}
		s.Run, s.PlanSHA256, s.Section, s.LastError, s.LastErrorStep, s.Untrusted = planted, planted, planted, planted, planted, planted
		s.Upcoming, s.StoppedBehind, s.Disruption, s.Objectives, s.Next, s.NotRead = planted, planted, planted, planted, planted, []string{planted}
		s.Paused = &v1.Pause{Run: planted, By: planted, Reason: planted}
		s.Lock = &v1.LockStatus{Holder: planted, User: planted, Host: planted, AgeFrom: planted}
		s.Current = []v1.StepStatus{{ID: planted, Title: planted, Host: planted, Waiting: planted, Latest: planted}}
		s.Nodes = append(s.Nodes, v1.NodeStatus{Name: planted, State: planted, Step: planted, Message: planted})
		s.Health = append(s.Health, v1.Blocker{Code: planted, Level: planted, Impact: planted, Message: planted})
		s.Leases = []v1.LeaseStatus{{Name: planted, Holder: planted}}
		s.Probes.Kinds = append(s.Probes.Kinds, v1.ProbeKindTotals{Kind: planted})
		s.Findings = append(s.Findings, v1.PlanFinding{Code: planted, Level: planted}, v1.PlanFinding{Code: "NODE-002", Level: planted, Outcome: planted})
		s.SectionTimes = append(s.SectionTimes, v1.SectionTime{Section: planted}, v1.SectionTime{Section: "verify", Result: planted})
		s.Owners["service"], s.Owners[planted], s.OwnersFrom["service"] = planted+"@"+planted, component.KCM+"@cp-1", planted
	})
	for _, part := range []hosted.Part{"", hosted.Handover, hosted.Finish} {
		text := printed(t, s, part)
		if strings.Contains(text, planted) {
			t.Errorf("part %q:\n%s", part, text)
		}
		if have := valuesOf(t, text); have["loop_owner unknown service"] != 1 {
			t.Errorf("part %q: an owner of another name is not called unknown:\n%s", part, text)
		}
	}
}

// Files of several clusters in one node_exporter stay apart, and a cluster without a name of its own takes the one of Prometheus.
func TestTheLabelsOfACluster(t *testing.T) {
	for _, c := range []struct {
		cluster v1.Cluster
		want    prometheus.Labels
	}{
		{v1.Cluster{Name: "prod.example.com", UID: "7c0d-1"}, prometheus.Labels{"cluster": "prod.example.com", "uid": "7c0d-1"}},
		{v1.Cluster{Name: "kubernetes", UID: "7c0d-1"}, prometheus.Labels{"uid": "7c0d-1"}},
		{v1.Cluster{Name: "crh4xbxz5f"}, prometheus.Labels{"cluster": "crh4xbxz5f"}},
		{v1.Cluster{}, prometheus.Labels{}},
		{v1.Cluster{Name: "-x", UID: strings.Repeat("x", 64)}, prometheus.Labels{}},
	} {
		if diff := cmp.Diff(c.want, clusterLabels(c.cluster)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.cluster, diff)
		}
		families := parsed(t, printed(t, applying(func(s *v1.Status) { s.Cluster = c.cluster }), ""))
		for name, family := range families {
			have := prometheus.Labels{}
			for _, l := range family.GetMetric()[0].GetLabel() {
				if l.GetName() == "cluster" || l.GetName() == "uid" {
					have[l.GetName()] = l.GetValue()
				}
			}
			if !maps.Equal(have, c.want) {
				t.Errorf("%s has %v, want %v", name, have, c.want)
			}
		}
	}
}

func TestTheTextIsSortedAndTheSameEachTime(t *testing.T) {
	first := printed(t, applying(), hosted.Handover)
	for range 5 {
		if again := printed(t, applying(), hosted.Handover); again != first {
			t.Fatalf("another order:\n%s\n%s", first, again)
		}
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(first, -1) {
		if names = append(names, m[1]); m[2] != "gauge" {
			t.Errorf("%s is a %s, and nothing here counts", m[1], m[2])
		}
	}
	if !slices.IsSorted(names) || len(names) < 15 {
		t.Errorf("series: %v", names)
	}
}

// One file of a failed disk is none: the error is returned.
func TestAFileThatCannotBeWritten(t *testing.T) {
	if err := Print(full{}, applying(), ""); err == nil {
		t.Error("it is said to be written")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrClosed }

// A rule or a dashboard asks for a name, and in one Prometheus a name has one help.
func TestWhatTheOperatorHasIsCalledTheSame(t *testing.T) {
	descriptions := make(chan *prometheus.Desc, 1000)
	operator.NewMetrics().Registry.Describe(descriptions)
	close(descriptions)
	var all strings.Builder
	for d := range descriptions {
		all.WriteString(d.String() + "\n")
	}
	shared := 0
	for name, family := range parsed(t, printed(t, applying(), hosted.Handover)) {
		if !strings.Contains(all.String(), fmt.Sprintf("fqName: %q,", name)) {
			continue
		}
		shared++
		if want := fmt.Sprintf("fqName: %q, help: %q,", name, family.GetHelp()); !strings.Contains(all.String(), want) {
			t.Errorf("the operator has no %s\n%s", want, all.String())
		}
	}
	if shared != 2 {
		t.Errorf("%d series are called as the operator's, want phase and stuck", shared)
	}
}

// The page names each series with its labels, and no other.
func TestEverySeriesIsInTheReference(t *testing.T) {
	have, want := map[string]string{}, map[string]string{}
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z, ]*) \\| ").FindAllStringSubmatch(string(data), -1) {
		have[m[1]] = m[2]
	}
	for name, family := range parsed(t, printed(t, applying(), hosted.Handover)) {
		var labels []string
		for _, l := range family.GetMetric()[0].GetLabel() {
			if l.GetName() != "uid" {
				labels = append(labels, l.GetName())
			}
		}
		want[name] = strings.Join(labels, ", ")
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("%s (-series +page):\n%s", page, diff)
	}
}
