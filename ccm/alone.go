package ccm

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/election"
)

// openFence returns the fence of a process without leader election. It waits for the API server to say when the first such process took over: what is
// kept for a while after that would be kept for good if each start began it again.
func (p *process) openFence(ctx context.Context) (*election.Fence, error) {
	generic := p.config.ComponentConfig.Generic.LeaderElection
	client, err := leaseClient(p.config.Kubeconfig)
	if err != nil {
		return nil, err
	}
	for told := ""; ; {
		at, err := election.RememberTakeover(ctx, client, generic.ResourceNamespace, generic.ResourceName)
		switch {
		case err == nil:
			return election.UnfencedAfter(time.Now(), at), nil
		case ctx.Err() != nil || isRefused(err):
			klog.Warningf("When this kind of manager took over is not remembered, so that nodes without instances have no grace after it: %v. "+
				"Allow get, create and update of leases in namespace %s", err, generic.ResourceNamespace)
			return election.UnfencedAfter(time.Now(), time.Time{}), nil
		case told != err.Error():
			told = err.Error()
			klog.ErrorS(fmt.Errorf("asking when this kind of manager took over: %w", err), "The API server does not answer, will be asked again")
		}
		pause(ctx, generic.RetryPeriod.Duration)
	}
}

// isRefused reports whether an API server has answered, and will answer the same again.
func isRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}
