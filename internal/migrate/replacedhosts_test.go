package migrate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/takeover"
)

// TestTheOwnersAreAskedOfTheHostsThatTookTheOthersPlace: a host that the plan has had taken down answers no more, and one that came later cannot be asked by
// the command that opened its hosts before.
func TestTheOwnersAreAskedOfTheHostsThatTookTheOthersPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.labelled("node-cp-1", "node-cp-2")
	p := w.given(v1.Step{ID: "await/out/node-cp-1", Phase: "p", Kind: v1.StepAwait, Await: &v1.Await{NodeGone: "node-cp-1"}})
	p.Options.ReplaceHosts = true
	e := w.engine()
	e.env.Plan = p
	owners := func(expect map[string]string) string {
		t.Helper()
		why, err := manager.CheckOwners(t.Context(), e.env, expect)
		if err != nil {
			t.Fatal(err)
		}
		return why
	}
	if why := owners(nil); why != "" {
		t.Fatalf("both hosts are there: %s", why)
	}
	w.lose("cp-1")
	if why := owners(nil); !strings.Contains(why, "on cp-1 did not answer") {
		t.Errorf("a host was lost that no step waits for: %q", why)
	}
	if err := e.env.Journal.Save(t.Context(), v1.StepRecord{ID: "await/out/node-cp-1", Result: v1.StepResultDone}); err != nil {
		t.Fatal(err)
	}
	if why := owners(nil); !strings.Contains(why, "on cp-1 did not answer") {
		t.Errorf("its Node is there again: %q", why)
	}
	w.api.Delete("/api/v1/nodes/node-cp-1")
	if why := owners(nil); why != "" {
		t.Errorf("it was taken down as the plan has it: %q", why)
	}
	w.api.Put(t, mirrorOn("node-cp-3"))
	if why := owners(nil); why != "" {
		t.Errorf("a pod of a node that is not of the control plane: %q", why)
	}
	w.labelled("node-cp-3")
	_, err := manager.CheckOwners(t.Context(), e.env, nil)
	if err == nil || !strings.Contains(err.Error(), "node node-cp-3 joined after this command had opened its hosts: run the same command again") {
		t.Errorf("a manager that was not asked may run the loops: %v", err)
	}

	w.api.Delete("/api/v1/nodes/node-cp-3")
	w.api.Put(t, mirrorOn("node-cp-1"))
	e = w.engine(func(o *step.Options) {
		o.Hosts = slices.DeleteFunc(slices.Clone(o.Hosts), func(h hostaccess.Host) bool { return h.Name() == "cp-1" })
		o.Before = &v1.Snapshot{Hosts: []v1.Host{{Name: "cp-1", NodeName: "node-cp-1", ControlPlane: true}}}
	})
	e.env.Plan = p
	if why := owners(nil); why != "" {
		t.Errorf("of nodes that are gone, pods are left: %q", why)
	}
	e = w.engine(func(o *step.Options) { o.Hosts = nil })
	e.env.Plan = p
	expect := map[string]string{"service": component.CCM}
	if why := owners(expect); why != "" || !manager.ReachesNone(e.env) {
		t.Errorf("no host is reached: %q", why)
	}
	p.Options.ReplaceHosts = false
	if why := owners(expect); !strings.Contains(why, "no manager runs loop service") {
		t.Errorf("a plan that edits hosts asks them: %q", why)
	}
}

// mirrorOn is the pod of a cloud-controller-manager that a kubelet shows.
func mirrorOn(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: component.CCM + "-" + node, Namespace: component.Namespace, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: component.CCM, Command: []string{"/" + component.CCM}}}},
	}
}

// TestAWaitThatWasOvertakenIsNotWaitedForAgain: a command that goes on finds neither the old hosts nor, in the end, leader migration.
func TestAWaitThatWasOvertakenIsNotWaitedForAgain(t *testing.T) {
	t.Parallel()
	on := map[string]string{"cloud-provider": "aws", "enable-leader-migration": "true"}
	off := map[string]string{"cloud-provider": "aws", "enable-leader-migration": ""}
	migration := v1.Step{ID: "await/leader-migration", Kind: v1.StepAwait, Await: &v1.Await{Component: component.KCM, Nodes: 2, Version: "1.26", Flags: on}}
	in := v1.Step{ID: "await/in/1", Kind: v1.StepAwait, Await: &v1.Await{
		Component: component.KCM, Nodes: 1, Version: "1.27", Flags: map[string]string{"cloud-provider": "external"},
	}}
	gone := v1.Step{ID: "await/out/node-cp-2", Kind: v1.StepAwait, Await: &v1.Await{NodeGone: "node-cp-2"}} // cp-1 holds the leases
	end := v1.Step{ID: "undo/await/leader-migration", Kind: v1.StepAwait, Await: &v1.Await{Component: component.KCM, Nodes: 2, Version: "1.26", Flags: off}}
	old := []string{"v1.26.0", "--cloud-provider=aws", "--enable-leader-migration=true"}
	offline, external := []string{"v1.26.0", "--cloud-provider=aws"}, []string{"v1.27.4", "--cloud-provider=external"}
	for name, c := range map[string]struct {
		plan    []v1.Step
		records map[string]v1.StepResult
		nodes   []string            // of two
		runs    map[string][]string // version and flags by node
		want    bool
		of      string // which of the plan's waits; the first where it is empty
	}{
		"an old host has left": {
			[]v1.Step{migration, gone}, map[string]v1.StepResult{migration.ID: v1.StepResultDone, gone.ID: v1.StepResultDone},
			[]string{"node-cp-1"}, map[string][]string{"node-cp-1": old}, true, "",
		},
		"the record of the later wait is not true": {
			[]v1.Step{migration, gone}, map[string]v1.StepResult{migration.ID: v1.StepResultDone, gone.ID: v1.StepResultDone},
			[]string{"node-cp-1", "node-cp-2"}, map[string][]string{"node-cp-1": old}, false, "",
		},
		"the later wait has not begun": {
			[]v1.Step{migration, gone}, map[string]v1.StepResult{migration.ID: v1.StepResultDone},
			[]string{"node-cp-1"}, map[string][]string{"node-cp-1": old}, false, "",
		},
		"it has not ended itself": {
			[]v1.Step{migration, gone}, map[string]v1.StepResult{migration.ID: v1.StepResultStarted, gone.ID: v1.StepResultDone},
			[]string{"node-cp-1"}, map[string][]string{"node-cp-1": old}, false, "",
		},
		"a new host is there": {
			[]v1.Step{migration, in}, map[string]v1.StepResult{migration.ID: v1.StepResultDone, in.ID: v1.StepResultStarted},
			[]string{"node-cp-1", "node-cp-2"}, map[string][]string{"node-cp-1": old, "node-cp-2": external}, true, "",
		},
		"no new host is there": {
			[]v1.Step{migration, in}, map[string]v1.StepResult{migration.ID: v1.StepResultDone, in.ID: v1.StepResultStarted},
			[]string{"node-cp-1", "node-cp-2"}, map[string][]string{"node-cp-1": old}, false, "",
		},
		"an old manager came back with its own lease": {
			[]v1.Step{migration, in}, map[string]v1.StepResult{migration.ID: v1.StepResultDone, in.ID: v1.StepResultDone},
			[]string{"node-cp-1", "node-cp-2"}, map[string][]string{"node-cp-1": offline, "node-cp-2": external}, false, "",
		},
		"leader migration goes off, as it should": {
			[]v1.Step{migration, end}, map[string]v1.StepResult{migration.ID: v1.StepResultDone, end.ID: v1.StepResultStarted},
			[]string{"node-cp-1", "node-cp-2"}, map[string][]string{"node-cp-1": offline, "node-cp-2": old}, true, "",
		},
		"a host that has left is gone": {
			[]v1.Step{gone, in}, map[string]v1.StepResult{gone.ID: v1.StepResultDone, in.ID: v1.StepResultStarted},
			[]string{"node-cp-1"}, map[string][]string{"node-cp-1": external}, true, gone.ID,
		},
		"a host that has left is back, with its manager": {
			[]v1.Step{gone, in}, map[string]v1.StepResult{gone.ID: v1.StepResultDone, in.ID: v1.StepResultStarted},
			[]string{"node-cp-1", "node-cp-2"}, map[string][]string{"node-cp-1": external, "node-cp-2": old}, false, gone.ID,
		},
		"a host that has left is back, and does not show what it runs": {
			[]v1.Step{gone, in}, map[string]v1.StepResult{gone.ID: v1.StepResultDone, in.ID: v1.StepResultStarted},
			[]string{"node-cp-1", "node-cp-2"}, map[string][]string{"node-cp-1": external}, false, gone.ID,
		},
		"a new host has the name of one that has left": {
			[]v1.Step{gone, in}, map[string]v1.StepResult{gone.ID: v1.StepResultDone, in.ID: v1.StepResultStarted},
			[]string{"node-cp-1", "node-cp-2"}, map[string][]string{"node-cp-1": external, "node-cp-2": external}, true, gone.ID,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			w.labelled("node-cp-1", "node-cp-2")
			for _, node := range []string{"node-cp-1", "node-cp-2"} {
				if !slices.Contains(c.nodes, node) {
					w.api.Delete("/api/v1/nodes/" + node)
				}
				w.api.Delete("/api/v1/namespaces/kube-system/pods/" + component.KCM + "-" + node)
			}
			for node, run := range c.runs {
				w.api.Put(t, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: component.KCM + "-" + node, Namespace: component.Namespace},
					Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{
						{Name: component.KCM, Image: "registry.k8s.io/kube-controller-manager:" + run[0], Command: append([]string{component.KCM}, run[1:]...)},
					}},
					Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
				})
			}
			p := w.given(c.plan...)
			e := w.engine()
			e.env.Plan = p
			for id, result := range c.records {
				if err := e.env.Journal.Save(t.Context(), v1.StepRecord{ID: id, Result: result}); err != nil {
					t.Fatal(err)
				}
			}
			of := slices.IndexFunc(c.plan, func(s v1.Step) bool { return s.ID == c.of })
			if have, err := e.superseded(t.Context(), c.plan[max(0, of)]); err != nil || have != c.want {
				t.Errorf("overtaken: %v %v", have, err)
			}
		})
	}
}

// TestALeaseIsGivenUpForAnOwnerThatPeopleHaveEnded: no kube-controller-manager gives its lease up, and nobody would run its loops until that has run out.
func TestALeaseIsGivenUpForAnOwnerThatPeopleHaveEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before  func(*world)                 // before the owner is bound
		change  func(t *testing.T, w *world) // what happens then
		expires bool
		isLost  bool // no command reaches its host any longer
	}{
		"its manifest is taken away": {change: func(_ *testing.T, w *world) { w.remove("cp-1", manifests+component.KCM+".yaml") }},
		"a manager that cannot be asked came later": {change: func(t *testing.T, w *world) {
			w.unopened(t)
			w.remove("cp-1", manifests+component.KCM+".yaml")
		}},
		"a manager that cannot be asked was there before": {
			before:  func(w *world) { w.unopened(w.t) },
			change:  func(_ *testing.T, w *world) { w.remove("cp-1", manifests+component.KCM+".yaml") },
			expires: true,
		},
		"its host cannot be reached": {change: func(_ *testing.T, w *world) { w.lose("cp-1") }, isLost: true, expires: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			w.labelled("node-cp-1", "node-cp-2")
			p := w.given(v1.Step{ID: "await", Kind: v1.StepAwait, Await: &v1.Await{NodeGone: "node-cp-1"}})
			p.Options.ReplaceHosts = true
			e := w.engine()
			e.env.Plan = p
			if c.before != nil {
				c.before(w)
			}
			owners := takeover.WatchOwners(e.env)
			owners.Bind(t.Context())
			owners.Release(t.Context(), p.Steps[0])
			if h := w.holder(component.KCM); !strings.HasPrefix(h, "cp-1_") {
				t.Fatalf("the lease of an owner that lives was given up: %q", h)
			}
			c.change(t, w)
			if c.isLost {
				e.env.HostsByName["cp-1"] = offHost{e.env.HostsByName["cp-1"], &atomic.Int32{}}
			}
			for i := 0; i < 30 && strings.HasPrefix(w.holder(component.KCM), "cp-1_"); i++ {
				<-w.clock.After(time.Second)
				owners.Release(t.Context(), p.Steps[0])
			}
			if have := w.expired > 0; have != c.expires {
				t.Errorf("the lease ran out: %v", have)
			}
			<-w.clock.After(20 * time.Second)
			owners.Bind(t.Context())
			owners.Release(t.Context(), p.Steps[0])
			if h := w.holder(component.KCM); !strings.HasPrefix(h, "cp-2_") {
				t.Errorf("the lease is held by %q", h)
			}
		})
	}
}

// offHost is a host that no command reaches. It counts who tries.
type offHost struct {
	hostaccess.Host
	asked *atomic.Int32
}

func (h offHost) Processes(context.Context, string) ([]v1.Process, error) {
	h.asked.Add(1)
	return nil, errors.New("connection timed out")
}

// TestAHostThatWasLostIsNotAskedAllTheTime: a command to it may take a minute, and each wait would stand still for that.
func TestAHostThatWasLostIsNotAskedAllTheTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.labelled("node-cp-1", "node-cp-2")
	p := w.given(v1.Step{ID: "await", Kind: v1.StepAwait, Await: &v1.Await{NodeGone: "node-cp-1"}})
	p.Options.ReplaceHosts = true
	e := w.engine()
	e.env.Plan = p
	owners := takeover.WatchOwners(e.env)
	owners.Bind(t.Context())
	off := offHost{e.env.HostsByName["cp-1"], &atomic.Int32{}}
	e.env.HostsByName["cp-1"] = off
	for range 5 {
		owners.Release(t.Context(), p.Steps[0])
	}
	if n := off.asked.Load(); n != 1 {
		t.Errorf("it was asked %d times within a moment", n)
	}
	<-w.clock.After(time.Minute)
	owners.Release(t.Context(), p.Steps[0])
	if n := off.asked.Load(); n != 2 {
		t.Errorf("it was asked %d times in a minute", n)
	}
	stopping := make(chan struct{})
	close(stopping)
	e.env.Stopping = stopping
	<-w.clock.After(time.Minute)
	owners.Release(t.Context(), p.Steps[0])
	if n := off.asked.Load(); n != 2 {
		t.Errorf("it was asked %d times, the last time though the run is to stop", n)
	}
}

// unopened makes a control-plane host with a manager that this command has not opened.
func (w *world) unopened(t *testing.T) {
	t.Helper()
	w.api.Put(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: component.KCM + "-node-cp-3", Namespace: component.Namespace, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
		},
		Spec: corev1.PodSpec{NodeName: "node-cp-3", Containers: []corev1.Container{{Name: component.KCM, Command: []string{component.KCM}}}},
	})
	w.labelled("node-cp-3")
}
