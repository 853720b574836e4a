package machines

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// Restarter looks at the machines of a cluster and restarts MachineDeployments, one call at a time.
type Restarter struct {
	Looker
	Policy Policy
}

// Pass is what one call of Restarter found and did.
type Pass struct {
	Observation
	// Did is what was changed, a sentence for an event; empty when nothing was.
	Did string
	// Waiting is what is waited for before the next change, a sentence; empty when nothing is.
	Waiting string
	// Stopped is the regression that ended the restart; nil while there is none.
	Stopped *Stopped
	// Rolling tells that machines are being replaced.
	Rolling bool
	// Restarted tells that no MachineDeployment is left to restart.
	Restarted bool
}

// Pass looks, and does at most one of what Next allows. What is begun is remembered before it is done, so that a pass that was cut off is done again
// with the same value and changes nothing twice.
func (r Restarter) Pass(ctx context.Context) (Pass, error) {
	f, o, version, err := r.look(ctx)
	if err != nil {
		return Pass{}, err
	}
	s := Next(f, o, r.Policy)
	p := Pass{Observation: o, Waiting: s.Waiting, Stopped: s.Stopped, Rolling: s.Rolling, Restarted: s.Done}
	after := f.Record.clone()
	after.Restart = s.Record
	if _, err := r.Store.Save(ctx, after, f.Record, version); err != nil {
		return p, err
	}
	p.Did, err = r.do(ctx, s)
	return p, err
}

func (r Restarter) do(ctx context.Context, s Step) (string, error) {
	switch {
	case s.Pause != nil:
		return "paused MachineDeployment " + s.Pause.Name + ": " + s.Stopped.Reason, r.patch(ctx, *s.Pause, `"paused":true`)
	case s.Resume != nil:
		return "resumed MachineDeployment " + s.Resume.Name, r.patch(ctx, *s.Resume, `"paused":false`)
	case s.Restart != nil:
		return "restarted MachineDeployment " + s.Restart.Name,
			r.patch(ctx, *s.Restart, fmt.Sprintf(`"template":{"metadata":{"annotations":{%q:%q}}}`, kubermatic.ForceRestart, s.Value))
	}
	return "", nil
}

// patch changes the spec of the MachineDeployment that was looked at, and no other version of it.
func (r Restarter) patch(ctx context.Context, d Deployment, spec string) error {
	body := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"spec":{%s}}`, d.ResourceVersion, spec)
	_, err := r.Dynamic.Resource(DeploymentsResource).Namespace(d.Namespace).Patch(ctx, d.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "transplant"})
	if err != nil {
		return fmt.Errorf("changing MachineDeployment %s/%s of cluster %s: %w", d.Namespace, d.Name, r.Name, err)
	}
	return nil
}
