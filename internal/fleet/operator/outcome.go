package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/fleet/userclusters"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// outcome is what an error of the engine means for the cluster.
func outcome(err error) (state.Outcome, string) {
	var blocked *hosted.BlockedError
	var locked *hosted.LockedError
	var stale *hosted.StaleError
	var unconfirmed *hosted.UnconfirmedError
	var unknown *hosted.UnknownPlanError
	var unplanned *hosted.UnplannedError
	switch {
	case err == nil:
		return state.Succeeded, ""
	case errors.As(err, &blocked):
		return state.Blocked, findings(blocked)
	case errors.As(err, &unplanned):
		return state.Blocked, err.Error()
	case errors.As(err, &unconfirmed):
		return state.Blocked, err.Error() + confirmAnew
	case errors.As(err, &unknown):
		return state.Blocked, err.Error()
	case errors.As(err, &locked):
		return state.Locked, err.Error()
	case errors.Is(err, hosted.ErrTooLate):
		return state.NoWayBack, err.Error()
	case errors.Is(err, hosted.ErrInterrupted), errors.Is(err, hosted.ErrRollback), errors.Is(err, context.Canceled), errors.Is(err, election.ErrFenced):
		return state.Interrupted, err.Error()
	case errors.Is(err, lock.ErrLockLost), unreachable(err):
		return state.Unreachable, err.Error()
	case errors.As(err, &stale):
		return state.Stale, err.Error()
	}
	return state.Broken, err.Error()
}

// confirmAnew is what somebody does about a plan that is not the one that was confirmed.
const confirmAnew = ": look at it again and confirm it on the operator's page, or take the annotation " + kubermaticv1.AnnotationPlan +
	" off the Cluster, and the operator begins with its own plan"

// unreachable tells the errors that pass when an API server answers again, or its credentials do.
func unreachable(err error) bool {
	var backoff *userclusters.BackoffError
	var wire net.Error
	if errors.As(err, &backoff) || errors.As(err, &wire) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	if errors.Is(err, userclusters.ErrClosed) || errors.Is(err, userclusters.ErrForgotten) {
		return true
	}
	return retry.IsTransient(err) || apierrors.IsUnauthorized(err)
}

// namedFindings is how many findings a message names.
const namedFindings = 5

// findings are those that refuse, by code and summary.
func findings(e *hosted.BlockedError) string {
	var out []string
	for _, f := range e.Report.Findings {
		if (f.Outcome == v1.Fail || f.Outcome == v1.Unknown) && f.Accepted == "" {
			out = append(out, f.Code+": "+f.Summary)
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		return e.Error()
	}
	message := "the checks refuse: " + strings.Join(out[:min(len(out), namedFindings)], "; ")
	if n := len(out) - namedFindings; n > 0 {
		message += fmt.Sprintf("; and %d more", n)
	}
	return message
}
