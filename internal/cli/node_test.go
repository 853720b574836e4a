package cli

import (
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
)

func TestARunIsLimitedToWorkersOfAMigrationThatWasBegun(t *testing.T) {
	server := apitest.New(t)
	fails(t, transplant(t, "apply", "--kubeconfig", server.Kubeconfig(t), "--node", "worker-1"), exitcode.Error,
		"--node goes on with the workers of a migration whose control plane is done, and none was started on this cluster")
	fails(t, transplant(t, "apply", "--kubeconfig", server.Kubeconfig(t), "--node", "worker-1", "--until", "kubelets"), exitcode.Error,
		"--node and --until both say where the run ends")
	fails(t, transplant(t, "apply", "--seed-namespace", "cluster-x", "--node", "worker-1"), exitcode.Error, "--node would have no effect")
	if writes := server.Writes(); len(writes) > 0 {
		t.Errorf("something was written: %v", writes)
	}
}

func TestNodesThatARunCannotBeLimitedTo(t *testing.T) {
	o := newOnlooker(t)
	o.begin()
	for _, c := range []struct{ node, says string }{
		{"cp-1", "--node cp-1: this host is of the control plane, which changes in the order of the plan"},
		{"wroker-2", "--node wroker-2: the plan changes no worker of this name; did you mean worker-2?"},
		{"shop", "--node shop: the plan changes no worker of this name; it changes worker-1, worker-2"},
		{"worker-1", "step leader-migration/kube-controller-manager@cp-2 was begun and is not finished: no step of worker-1 is done before it"},
	} {
		writes := len(o.api.Writes())
		fails(t, o.run("apply", "--yes", "--host-access=none", "--node", c.node), exitcode.Error, c.says)
		if written := o.api.Writes()[writes:]; len(written) > 0 {
			t.Errorf("%s: something was written: %v", c.node, written)
		}
	}
	o.doc.Records = nil
	for _, s := range o.doc.Plan.Steps {
		if s.Kind == v1.StepKubelet && s.Host == "worker-1" {
			break
		}
		o.doc.Records = append(o.doc.Records, v1.StepRecord{ID: s.ID, Started: o.doc.Started, Result: v1.StepResultDone})
	}
	o.begin()
	fails(t, o.run("apply", "--yes", "--host-access=none", "--node", "worker-2"), exitcode.Error,
		"worker-1 is the first worker, and no other one changes before it: name it, too (--node worker-1), or first")
	o.doc.Without = []v1.HostOut{{Name: "worker-2", Node: "worker-2"}}
	o.begin()
	fails(t, o.run("apply", "--yes", "--host-access=none", "--node", "worker-2"), exitcode.Error, "--node worker-2: the host was excluded from the migration")
}
