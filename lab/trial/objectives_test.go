package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/objectives"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/poll"
)

// The new manager runs the loops, and the cloud refuses to change the members of load balancers: errors of node syncs rise, and the workers are not
// changed any more until an operator says so.
func TestAMigrationIsPausedWhereManagersBreachTheirObjectives(t *testing.T) {
	t.Parallel()
	long(t)
	lab := ownLab(t, Options{ControlPlanes: 1, Workers: 3})
	before := facts(t, lab)
	plane, _, _ := kubeletSteps(t, lab)
	cli(t, lab, 0, nil, apply("--strategy", planstep.Downtime, "--until", plane.ID)...)

	heal := lab.AWS().Inject(awssim.Fault{Service: "elb", Action: "*WithLoadBalancer", Code: "InternalError"})
	defer heal()
	running, stop := context.WithCancel(t.Context())
	moved := make(chan error, 1)
	go func() { moved <- moveMembers(running, lab) }()
	s, ended := pausedRun(t, lab, apply("--strategy", planstep.Downtime)...)
	if s.Paused == nil || s.Paused.By != "the run itself" || !strings.Contains(s.Paused.Reason, objectives.SeriesErrors+" grew by up to ") ||
		!strings.Contains(s.Paused.Reason, "(cloud-controller-manager@") || !strings.HasPrefix(s.Objectives, "breached: ") {
		t.Errorf("the status says: %+v, objectives %q", s.Paused, s.Objectives)
	}
	stop()
	if err := <-moved; err != nil {
		t.Error(err)
	}
	heal()

	cli(t, lab, 0, nil, "resume")
	r := <-ended
	if r.Code != 0 || !strings.Contains(r.Stderr, "resumed after") {
		t.Fatalf("the run ends with code %d:\n%s", r.Code, tail(r.Stderr, 20))
	}
	var report v1.Report
	decode(t, cli(t, lab, 0, nil, "report", "--cloud", Cloud, "-o", "json").Stdout, &report)
	during := objectives.Window(report.Objectives, v1.WindowDuring)
	if during == nil || len(objectives.Breaches(during.Series)) == 0 {
		t.Errorf("the report says of the migration: %+v", report.Objectives)
	}
	var v v1.Verification
	decode(t, cli(t, lab, 0, nil, "verify", "--cloud", Cloud, "-o", "json").Stdout, &v)
	for _, c := range v.Checks {
		if c.Name == "objectives" && (c.Outcome != v1.Pass || !strings.Contains(c.Summary, "during the migration: ")) {
			t.Errorf("the verification says %s: %s", c.Outcome, c.Summary)
		}
	}
	cli(t, lab, 0, nil, "rollback", "--yes", "--cloud", Cloud)
	settled(t, lab)
	unchanged(t, lab, before)
}

// pausedRun starts a run and waits until it is paused. The run's result comes when it has ended.
func pausedRun(t *testing.T, lab *Trial, args ...string) (v1.Status, <-chan Result) {
	t.Helper()
	ended := make(chan Result, 1)
	go func() {
		r, err := lab.CLI(t.Context(), nil, nil, args...)
		if err != nil {
			r.Stderr += err.Error()
		}
		ended <- r
	}()
	var s v1.Status
	err := poll.Until(t.Context(), 200*time.Millisecond, "a pause", func(context.Context) error {
		select {
		case r := <-ended:
			return poll.Final(fmt.Errorf("the run has ended with code %d:\n%s", r.Code, tail(r.Stderr, 20)))
		default:
		}
		if s = statusOf(t, lab); s.State != v1.StatePaused {
			return errors.New("it is " + s.State)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, ended
}

// The new manager's credentials may only read: each loop has an owner, every health check is green, and no load balancer is kept. An operator learns of it
// before all workers are changed.
func TestAManagerThatMayOnlyReadIsFoundOnTheWay(t *testing.T) {
	t.Parallel()
	long(t)
	lab := ownLab(t, Options{ControlPlanes: 1, Workers: 3})
	before := facts(t, lab)
	key := cluster.AccessKey(lab.ControlPlanes()[0].Name, cluster.CloudControllerManager)
	heal := lab.AWS().Inject(awssim.Fault{Key: key, Mutating: ptr.To(true), Code: "UnauthorizedOperation"})
	defer heal()
	s, ended := pausedRun(t, lab, apply("--strategy", planstep.Downtime)...)
	if s.Paused == nil || !strings.Contains(s.Paused.Reason, "cannot be kept, first that of ") || !strings.Contains(s.Paused.Reason, "SyncLoadBalancerFailed: ") {
		t.Errorf("the status says: %+v", s.Paused)
	}
	if last := lab.Workers()[2].Name; slices.Contains(externalKubelets(t, lab), last) {
		t.Errorf("the kubelet of %s was changed", last)
	}
	heal()
	cli(t, lab, 0, nil, "resume")
	if r := <-ended; r.Code != 0 {
		t.Fatalf("the run ends with code %d:\n%s", r.Code, tail(r.Stderr, 20))
	}
	cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
	cli(t, lab, 0, nil, "rollback", "--yes", "--cloud", Cloud)
	settled(t, lab)
	unchanged(t, lab, before)
}

// moveMembers has workers leave the load balancers and come back until ctx ends, and leaves them there.
func moveMembers(ctx context.Context, lab *Trial) error {
	for out := true; ; out = !out {
		if err := exclude(context.WithoutCancel(ctx), lab, out); err != nil {
			return err
		}
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return exclude(context.WithoutCancel(ctx), lab, false)
		}
	}
}

func exclude(ctx context.Context, lab *Trial, out bool) error {
	value := "null"
	if out {
		value = `""`
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, corev1.LabelNodeExcludeBalancers, value)
	for _, h := range lab.Workers() {
		if _, err := lab.Client().CoreV1().Nodes().Patch(ctx, h.NodeName, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func statusOf(t *testing.T, lab *Trial) (s v1.Status) {
	t.Helper()
	decode(t, cli(t, lab, 0, nil, "status", "-o", "json").Stdout, &s)
	return s
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}
