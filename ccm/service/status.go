package service

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	servicehelper "k8s.io/cloud-provider/service/helpers"
)

// component is the source of the events. Users and alerts filter by it, so it is upstream's.
const component = "service-controller"

// The reasons of events are upstream's, and so is the text that follows them where people search for it.
const (
	reasonEnsuring     = "EnsuringLoadBalancer"     // a load balancer is about to be made or changed
	reasonEnsured      = "EnsuredLoadBalancer"      // it has been
	reasonSyncFailed   = "SyncLoadBalancerFailed"   // ensuring, deleting, or writing the status failed; it is tried again
	reasonUpdated      = "UpdatedLoadBalancer"      // it has new members
	reasonUpdateFailed = "UpdateLoadBalancerFailed" // its members could not be changed; it is ensured instead
	reasonUnavailable  = "UnAvailableLoadBalancer"  // it has no members
	reasonDeleting     = "DeletingLoadBalancer"     // it is about to be deleted
	reasonDeleted      = "DeletedLoadBalancer"      // it is deleted, and the finalizer gone
	// it could not be deleted and its Service is gone already; it is tried again
	reasonDeleteFailed = "DeleteLoadBalancerFailed"
	// Ours: upstream does not look.
	// the provider's GetLoadBalancer never finds it; it is not ensured for that any more
	reasonNotFound = "LoadBalancerNotFound"
)

// addFinalizer keeps a Service from going before its load balancer has.
func (c *Controller) addFinalizer(ctx context.Context, service *corev1.Service) error {
	if servicehelper.HasLBFinalizer(service) {
		return nil
	}
	_, err := c.patch(ctx, service, func(s *corev1.Service) {
		s.Finalizers = append(s.Finalizers, servicehelper.LoadBalancerCleanupFinalizer)
	})
	return err
}

// removeFinalizer removes the finalizer and the addresses of a load balancer from a Service, in one write.
func (c *Controller) removeFinalizer(ctx context.Context, service *corev1.Service) error {
	_, err := c.patch(ctx, service, func(s *corev1.Service) {
		s.Finalizers = slices.DeleteFunc(
			s.Finalizers,
			func(f string) bool { return f == servicehelper.LoadBalancerCleanupFinalizer },
		)
		s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	})
	if apierrors.IsNotFound(err) {
		return nil // another client removed the finalizer
	}
	return err
}

// writeStatus writes what the provider said of a load balancer, unless the Service says so already.
func (c *Controller) writeStatus(ctx context.Context, key string, service *corev1.Service, lb lbState) error {
	if latest, err := c.lookUp(key); err == nil && latest != nil && latest.UID == service.UID {
		service = latest // the call may have taken minutes
	}
	if !isSameStatus(&service.Status.LoadBalancer, lb.status) {
		written, err := c.patch(ctx, service, func(s *corev1.Service) { s.Status.LoadBalancer = *lb.status.DeepCopy() })
		if apierrors.IsNotFound(err) { // it went, and its event is passed over while its load balancer is worked on
			c.queue.AddAfter(key, minRetryDelay)
			return nil
		}
		if err != nil {
			return fmt.Errorf("failed to update load balancer status: %w", err)
		}
		service = written
	}
	// What the API server made of it counts from here on: an old one drops fields that it does not know.
	lb.stored, lb.version = &service.Status.LoadBalancer, service.ResourceVersion
	c.store.putLBState(key, lb)
	c.noteInSync(key, lb)
	return nil
}

// repairStatus writes a status that could not be written, or that another client has changed since.
func (c *Controller) repairStatus(ctx context.Context, key string, service *corev1.Service, lb lbState) error {
	if lb.stored == nil {
		return c.writeStatus(ctx, key, service, lb)
	}
	now := c.clock.Now()
	if now.Sub(lb.repaired) > 2*maxRetryDelay {
		lb.repairs = 0
	}
	if wait := lb.repaired.Add(repairDelay(lb.repairs)).Sub(now); lb.repairs > 0 && wait > 0 {
		c.queue.AddAfter(key, wait)
		return nil
	}
	lb.repairs++
	lb.repaired = now
	lb.status = lb.stored
	statusRepairs.Inc()
	return c.writeStatus(ctx, key, service, lb)
}

// noteInSync tells the next leader that a load balancer is in line.
func (c *Controller) noteInSync(key string, lb lbState) {
	if lb.isInSync() && !lb.implementedElsewhere && !lb.gone {
		c.state.putEntry(key, entry{Print: c.state.print(lb.spec, lb.stored), members: lb.members.hash})
	}
}

// patch changes metadata and status of a Service, if there is anything to change. It goes to the subresource status,
// for which the RBAC of upstream's manager is made. It carries the UID: a Service that was deleted and made again with
// the same name is another one. It carries no resource version, since it merges lists and no other client writes what
// it replaces.
func (c *Controller) patch(
	ctx context.Context,
	service *corev1.Service,
	change func(*corev1.Service),
) (*corev1.Service, error) {
	changed := service.DeepCopy()
	change(changed)
	body, err := patchOf(service, changed)
	if err != nil || body == nil {
		return service, err
	}
	written, err := c.config.Client.CoreV1().Services(service.Namespace).
		Patch(ctx, service.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	if err != nil {
		return nil, fmt.Errorf("patching service %q: %w", keyOf(service), err)
	}
	return written, nil
}

// patchOf returns nil when nothing differs.
func patchOf(before, after *corev1.Service) ([]byte, error) {
	a, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("marshalling service %q: %w", keyOf(before), err)
	}
	b, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("marshalling service %q: %w", keyOf(after), err)
	}
	body, err := strategicpatch.CreateTwoWayMergePatch(a, b, corev1.Service{})
	if err != nil {
		return nil, fmt.Errorf("comparing service %q with what it is to be: %w", keyOf(before), err)
	}
	var patch map[string]any
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, fmt.Errorf("reading a patch of service %q: %w", keyOf(before), err)
	}
	if len(patch) == 0 {
		return nil, nil
	}
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["uid"] = before.UID
	return json.Marshal(patch)
}
