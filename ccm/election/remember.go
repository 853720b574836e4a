package election

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// RememberTakeover returns since when managers of this kind have worked without leader election: it reads the
// annotation of the lease that they would hold. It writes the annotation if it is missing, or void because another
// manager has held the lease since. It makes a lease that is missing, and holds none. A manager that is restarted is
// thus told the time of its first start.
func RememberTakeover(
	ctx context.Context,
	client coordinationv1client.LeasesGetter,
	namespace, name string,
) (time.Time, error) {
	for {
		at, err := rememberTakeover(ctx, client.Leases(namespace), name)
		// another client wrote it: its value counts
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) || ctx.Err() != nil {
			return at, err
		}
	}
}

func rememberTakeover(ctx context.Context, leases coordinationv1client.LeaseInterface, name string) (time.Time, error) {
	at := stampOf(time.Now()).Time
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		lease = &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       coordinationv1.LeaseSpec{LeaseTransitions: ptr.To[int32](0)},
		}
		markAdopted(lease, Tenure{AdoptedAt: at})
		if _, err = leases.Create(ctx, lease, metav1.CreateOptions{}); err != nil {
			err = fmt.Errorf("making lease %q: %w", name, err)
		}
	case err != nil:
		err = fmt.Errorf("reading lease %q: %w", name, err)
	default:
		if earlier, _ := adoptedAt(lease, at); !earlier.Equal(at) {
			return earlier, nil
		}
		markAdopted(lease, Tenure{AdoptedAt: at, Epoch: int64(ptr.Deref(lease.Spec.LeaseTransitions, 0))})
		if _, err = leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
			err = fmt.Errorf("writing lease %q: %w", name, err)
		}
	}
	return at, err
}
