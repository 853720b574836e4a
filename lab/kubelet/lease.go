package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const leaseSeconds = 40

// heartbeat renews the node's lease: the sign of life that the node lifecycle controller watches.
type heartbeat struct {
	client   kubernetes.Interface
	name     string
	log      *slog.Logger
	previous *coordinationv1.Lease // as last written; nil: read it first
	failing  bool
}

func (h *heartbeat) run(ctx context.Context, period time.Duration) {
	every(ctx, period, func() {
		err := h.renew(ctx)
		if err != nil {
			h.previous = nil
		}
		if failing := err != nil; failing != h.failing && ctx.Err() == nil {
			h.failing = failing
			h.log.Info("Renewing node lease", "node", h.name, "err", err)
		}
	})
}

func (h *heartbeat) renew(ctx context.Context) error {
	lease, missing := h.previous.DeepCopy(), false
	if lease == nil {
		have, err := h.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, h.name, metav1.GetOptions{})
		if missing = apierrors.IsNotFound(err); missing {
			have = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: h.name, Namespace: corev1.NamespaceNodeLease}}
		} else if err != nil {
			return fmt.Errorf("reading lease of node %q: %w", h.name, err)
		}
		lease = have
	}
	if len(lease.OwnerReferences) == 0 { // the lease of a deleted node is collected with it
		node, err := h.client.CoreV1().Nodes().Get(ctx, h.name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading node %q: %w", h.name, err)
		}
		lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	}
	duration, now := int32(leaseSeconds), metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &h.name, &duration, &now
	written, err := h.write(ctx, lease, missing)
	if err != nil {
		return fmt.Errorf("renewing lease of node %q: %w", h.name, err)
	}
	h.previous = written
	return nil
}

func (h *heartbeat) write(
	ctx context.Context,
	lease *coordinationv1.Lease,
	missing bool,
) (*coordinationv1.Lease, error) {
	leases := h.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if missing {
		return leases.Create(ctx, lease, metav1.CreateOptions{})
	}
	return leases.Update(ctx, lease, metav1.UpdateOptions{})
}
