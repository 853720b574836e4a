package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
	"github.com/transplant-dev/transplant/internal/status"
)

func TestStatusOutputs(t *testing.T) {
	o := newOnlooker(t)
	v := o.volatile()
	golden(t, "status-none", o.run("status"), v)
	golden(t, "status-none-json", o.run("status", "-o", "json"), v)
	golden(t, "status-none-prometheus", o.run("status", "-o", "prometheus"), v)
	o.begin()
	o.lease(component.MigrationLease, "cp-2_77aa", 2*time.Second)
	o.lease(component.KCM, "cp-2_77aa", time.Second)
	o.lock(3*time.Second, o.waiting("kube-controller-manager on cp-2 is not ready: connection refused"))
	golden(t, "status-applying", o.run("status"), v)
	golden(t, "status-applying-yaml", o.run("status", "-o", "yaml"), v)
	golden(t, "status-applying-prometheus", o.run("status", "-o", "prometheus"), v)
	o.node("worker-2", corev1.ConditionUnknown)
	o.event("Service", "shop", "web", "Warning", "SyncLoadBalancerFailed", "Error syncing load balancer: throttled", 30*time.Second)
	golden(t, "status-details", o.run("status", "--details=nodes", "--ascii"), v)
	o.paused()
	golden(t, "status-paused", o.run("status"), v)
	o.api.Delete("/api/v1/namespaces/kube-system/configmaps/transplant-control")
	o.lock(215*time.Second, o.waiting("x"))
	golden(t, "status-stalled", o.run("status"), v)
}

func TestStatusOfARunThatNobodyWorksOn(t *testing.T) {
	o := newOnlooker(t)
	v := o.volatile()
	o.begin()
	golden(t, "status-stopped", o.run("status"), v)
	o.doc.Records[o.current].Error = "not verified after 1m0s: no process of kube-controller-manager runs on host cp-2"
	o.begin()
	golden(t, "status-failed", o.run("status"), v)
	ended := client.Now()
	o.doc.Ended = &ended
	for i := range o.doc.Plan.Steps {
		o.doc.Records = append(
			o.doc.Records[:min(i, len(o.doc.Records))],
			v1.StepRecord{ID: o.doc.Plan.Steps[i].ID, Started: client.Now(), Ended: &ended, Result: v1.StepResultDone},
		)
	}
	for _, phase := range []string{v1.RunApplied, v1.RunRolledBack} {
		o.doc.Phase = phase
		o.begin()
		golden(t, "status-"+phase, o.run("status"), v)
	}
}

// TestStatusOfACommandThatEndedBeforeItsStep: the journal says nothing of a step that was not begun.
func TestStatusOfACommandThatEndedBeforeItsStep(t *testing.T) {
	o := newOnlooker(t)
	v := o.volatile()
	o.doc.Records = o.doc.Records[:o.current]
	o.begin()
	o.api.Put(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: pause.ControlName, Namespace: component.Namespace}, Data: map[string]string{
		"run": o.doc.Run, "failed-step": o.doc.Plan.Steps[o.current].ID, "failed-at": client.Now().Add(-40 * time.Second).Format(time.RFC3339),
		"failure": "/etc/kubernetes/ccm.credentials (--ccm-env AWS_SHARED_CREDENTIALS_FILE) is not on host cp-2, and the pod of cloud-controller-manager there mounts it",
	}})
	golden(t, "status-ended", o.run("status"), v)
	golden(t, "status-ended-json", o.run("status", "-o", "json"), v)
}

func TestStatusOfAJournalThatSomebodyElseWrote(t *testing.T) {
	o := newOnlooker(t)
	v := o.volatile()
	first := o.doc.Plan.Steps[0]
	first.ID, first.Kind, first.Host = "write//etc/cron.d/x@cp-1", v1.StepWriteFile, "cp-1"
	first.Path, first.Content, first.Ref, first.Object = "/etc/cron.d/x", "* * * * * root id", "", ""
	o.doc.Plan.Steps = append(o.doc.Plan.Steps, first)
	o.begin()
	golden(t, "status-untrusted", o.run("status"), v)
	golden(t, "status-untrusted-json", o.run("status", "-o", "json"), v)
	for output, says := range map[string]string{"text": "untrusted", "markdown": "**Untrusted**", "json": `"untrusted": "`} {
		r := o.run("timeline", "-o", output)
		if r.code != exitcode.OK || !strings.Contains(r.out, says) || !strings.Contains(r.out, "rule P-42") {
			t.Errorf("timeline -o %s does not say %q and which rule: %s", output, says, r.text(nil))
		}
	}
	o.doc.Phase = v1.RunApplied
	o.begin()
	w := o.watch("status")
	if code := <-w.code; code != exitcode.Error {
		t.Errorf("watching a planted journal that says applied ends with %d:\n%s", code, w.errOut.String())
	}
	const next = "next: find out who wrote the journal: kubectl -n kube-system get configmap transplant-journal"
	if said := w.errOut.String(); !strings.Contains(said, "/etc/cron.d/x") || !strings.Contains(said, next) {
		t.Errorf("it does not say why:\n%s", said)
	}
}

func TestStatusWithoutRights(t *testing.T) {
	o := newOnlooker(t)
	o.begin()
	for _, resource := range []string{"configmaps", "leases", "nodes", "pods", "events"} {
		o.api.Deny("list", resource)
	}
	o.api.Deny("get", "namespaces")
	golden(t, "status-no-rights", o.run("status"), o.volatile())
}

func TestStatusWritesNothingAndOpensNoHost(t *testing.T) {
	o := newOnlooker(t)
	o.begin()
	writes := len(o.api.Writes())
	for _, command := range []string{"status", "timeline"} {
		if r := o.run(command, "--host-access", "local:/nonexistent"); r.code != exitcode.OK {
			t.Errorf("%s", r.text(nil))
		}
	}
	if have := o.api.Writes(); len(have) != writes {
		t.Errorf("it wrote %v", have[writes:])
	}
}

// longest is a status with everything in it, and names longer than any screen.
func longest() v1.Status {
	step := "leader-migration/kube-controller-manager@ip-10-0-113-210.eu-central-1.compute.internal"
	s := v1.Status{
		Run:           "20261121-115500",
		State:         v1.StateApplying,
		Phase:         v1.RunApplying,
		StepsDone:     120,
		StepsTotal:    571,
		Section:       "leader-migration",
		SectionNumber: 10,
		Sections:      12,
		Current:       []v1.StepStatus{{ID: step, SinceSeconds: 4000, Waiting: strings.Repeat("waits for a very long sentence ", 9), WaitingSeconds: 3}},
		Lock: &v1.LockStatus{
			Holder: lockHolder,
			User:   "ops",
			Host:   strings.Repeat("bastion", 20),
			PID:    4412,
		},
		ElapsedSeconds: 100000,
		Remaining:      &v1.Range{LowSeconds: 100, HighSeconds: 100000},
		Owners: map[string]string{
			"service": component.CCM + "@ip-10-0-113-210.eu-central-1.compute.internal",
		},
		OwnersFrom: map[string]string{"service": "lease cloud-provider-extraction-migration"},
		Disruption: "probes: " + strings.Repeat(
			"1 outage ",
			20,
		),
		NotRead:   []string{strings.Repeat("forbidden ", 30)},
		Next:      "transplant status --watch, or transplant pause",
		LastError: "x\x1b[2Jy\nz",
	}
	for range 20 {
		s.Nodes = append(
			s.Nodes,
			v1.NodeStatus{
				Name:         "ip-10-0-113-210.eu-central-1.compute.internal",
				State:        v1.NodeBlocked,
				Done:         10,
				Total:        12,
				Step:         step,
				SinceSeconds: 100000,
				Message:      strings.Repeat("drain ", 40),
			},
		)
		s.Health = append(s.Health, v1.Blocker{Level: "warning", Impact: "load balancers", Message: strings.Repeat("Service ", 30)})
	}
	return s
}

func TestAStatusFitsTheTerminal(t *testing.T) {
	for _, l := range []printer.Layout{{Width: 80}, {Width: 80, Ascii: true}, {Width: 40}, {Width: 120}} {
		text := printer.StatusText(longest(), l, false)
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > l.Width {
				t.Errorf("%+v: a line of %d: %s", l, n, line)
			}
		}
		if strings.Contains(text, "\x1b") || !strings.Contains(text, `x\x1b[2Jy z`) {
			t.Errorf("%+v: control characters of the cluster reach the terminal:\n%s", l, text)
		}
		if n := strings.Count(text, "Blocked"); n != printer.Worst {
			t.Errorf("%+v: %d nodes are shown", l, n)
		}
	}
	if all := printer.StatusText(longest(), printer.Layout{Width: 80}, true); strings.Count(all, "Blocked") != 20 {
		t.Error("--details=nodes leaves nodes out")
	}
	if painted := printer.StatusText(longest(), printer.Layout{Width: 80, Color: true}, false); !strings.Contains(painted, "\x1b[33m!\x1b[0m") {
		t.Error("nothing is painted")
	}
}

func TestAStatusNamesItsKind(t *testing.T) {
	var meta v1.TypeMeta
	if err := json.Unmarshal([]byte(newOnlooker(t).run("status", "-o", "json").out), &meta); err != nil || meta != v1.Type(v1.KindStatus) {
		t.Errorf("%+v, %v", meta, err)
	}
	s := status.Judge(status.Facts{Now: client.Now()})
	if s.Kind != v1.KindStatus || s.Next != "transplant check" {
		t.Errorf("%+v", s)
	}
}

func TestAgesAreShort(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0s", 12: "12s", 119: "119s", 120: "2m", 4320: "1h12m", 273600: "3d4h"} {
		if have := wording.CompactDuration(seconds); have != want {
			t.Errorf("%v: %s, want %s", seconds, have, want)
		}
	}
}
