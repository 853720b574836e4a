package takeover

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

func TestTakeover(t *testing.T) {
	main := handover.Binding{Lease: component.KCM, Component: component.KCM, Host: "a"}
	migration := handover.Binding{Lease: component.MigrationLease, Component: component.KCM, Host: "a"}
	restart := v1.Step{Successors: []string{component.KCM}}
	leave := v1.Step{Successors: []string{component.KCM, component.CCM}}
	owner := v1.Manager{Component: component.KCM, Host: "a", Leads: []string{component.KCM, component.MigrationLease}}
	standby := v1.Manager{Component: component.KCM, Host: "b"}
	ready := v1.Manager{Component: component.CCM, Host: "b", Leads: []string{component.CCM}, CloudCalls: ptr.To[int64](3)}
	for _, c := range []struct {
		name     string
		managers []v1.Manager
		step     v1.Step
		binding  handover.Binding
		want     string // part of the reason; empty when somebody can take over
	}{
		{"only the owner runs", []v1.Manager{owner}, restart, main, "no other manager runs"},
		{"a standby of the same kind", []v1.Manager{owner, standby}, restart, main, ""},
		{"a standby takes both leases", []v1.Manager{owner, standby}, restart, migration, ""},
		{"a standby that does not answer", []v1.Manager{owner, {Component: component.KCM, Host: "b", Error: "refused"}}, restart, main, "kube-controller-manager on b does not answer: refused"},
		{"a kube-controller-manager does not take the loops of one that leaves", []v1.Manager{owner, standby}, leave, migration, "no other manager runs"},
		{"a cloud-controller-manager that is ready", []v1.Manager{owner, standby, ready}, leave, migration, ""},
		{"a cloud-controller-manager does not take another one's main lease", []v1.Manager{owner, ready}, leave, main, "no other manager runs"},
		{"one without its main lease", []v1.Manager{owner, {Component: component.CCM, Host: "b"}}, leave, migration, "has not got its main lease"},
		{
			"one that has not reached the cloud",
			[]v1.Manager{owner, {Component: component.CCM, Host: "b", Leads: []string{component.CCM}, CloudCalls: ptr.To[int64](0)}},
			leave,
			migration,
			"has not reached the cloud yet",
		},
		{"one that does not say whether it has", []v1.Manager{owner, {Component: component.CCM, Host: "b", Leads: []string{component.CCM}}}, leave, migration, ""},
	} {
		have := takeover(c.managers, c.step, c.binding)
		if c.want == "" && have != "" || !strings.Contains(have, c.want) {
			t.Errorf("%s: %q, want %q", c.name, have, c.want)
		}
	}
}

// A seed's manager counts as ended where its runtime saw it end, and that very container.
func TestIsTerminatedBelievesWhatTheRuntimeSaw(t *testing.T) {
	const uid, bound = "uid-1", "containerd://bound"
	record := &v1.HandoverRecord{StartTicks: manager.ContainerSum(uid, bound)}
	status := func(id string, code int32, reason string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: id, ExitCode: code, Reason: reason}}
	}
	for _, c := range []struct {
		name  string
		state corev1.ContainerState
		want  bool
	}{
		{"it runs", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, false},
		{"it ended at the signal", status(bound, 143, "Error"), true},
		{"it ended of itself", status(bound, 0, "Completed"), true},
		{"it ran out of memory", status(bound, 137, "OOMKilled"), true},
		{"another one ended", status("containerd://other", 0, "Completed"), false},
		{"a kubelet that lost it", status("", 137, "ContainerStatusUnknown"), false},
		{"a runtime that lost its shim", status(bound, 255, "Unknown"), false},
		{"a runtime that lost its shim and says Error", status(bound, 255, "Error"), false},
		{"a kubelet that does not know, and names it", status(bound, 137, "ContainerStatusUnknown"), false},
		{"a runtime with no exit code", status(bound, -1, "Error"), false},
	} {
		for place, s := range map[string]corev1.ContainerStatus{
			"as its state":        {State: c.state},
			"as the state before": {LastTerminationState: c.state},
		} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{s}}}
			if have := isTerminated(pod, record); have != c.want {
				t.Errorf("%s %s: %t, want %t", c.name, place, have, c.want)
			}
		}
	}
}

// TestNoLeaseIsBoundToAHostThatItsHolderIsNotNamedAfter: the Node of the holder's host is gone, and a manager elsewhere says that it leads, for it was paused.
func TestNoLeaseIsBoundToAHostThatItsHolderIsNotNamedAfter(t *testing.T) {
	before := &v1.Snapshot{Hosts: []v1.Host{{Name: "cp-1", NodeName: "ip-10-0-0-1"}, {Name: "cp-2", NodeName: "ip-10-0-0-2"}}}
	o := WatchOwners(&step.Env{Options: step.Options{Before: before}})
	for holder, want := range map[string]bool{
		"cp-1_a": false, "ip-10-0-0-1_a": false, "a-name-of-the-platform_a": false, "cp-2_a": true, "ip-10-0-0-2_a": true,
	} {
		if have := o.isNamedForAnother(&handover.Binding{Host: "cp-1", Holder: holder}); have != want {
			t.Errorf("%s, and cp-1 says that it leads: named for another is %v", holder, have)
		}
	}
}
