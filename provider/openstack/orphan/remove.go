package orphan

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	cloudapi "k8s.io/cloud-provider/api"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/provider/openstack/client"
	"github.com/transplant-dev/transplant/provider/openstack/loadbalancer"
	"github.com/transplant-dev/transplant/provider/openstack/naming"
)

// remove takes the next step of removing an object. Nothing is deleted that was not approved.
func (f *facts) remove(ctx context.Context, o v1.Orphan) (v1.Orphan, error) {
	switch {
	case o.State == v1.OrphanMissing: // it is gone; of a load balancer, its security groups may be left
		return f.removeRest(ctx, o)
	case o.State != v1.OrphanFound:
		return o, nil
	}
	f.leaveUnapproved(&o)
	switch {
	case !slices.Contains(f.Approved, o.ID):
		return refused(o, "it was not approved"), nil
	case o.Kind == kindBalancer:
		return f.removeBalancer(ctx, o)
	case o.Kind == kindFloating:
		if o.Reason != "" {
			o.State = v1.OrphanPending // it goes with its load balancer
			return o, nil
		}
		return removed(o), f.removeFloating(ctx, o.Goes[0])
	}
	pending, err := f.removeGroup(ctx, o.ID)
	if pending != "" || err != nil {
		o.State, o.Reason = v1.OrphanPending, pending
		return o, err
	}
	return removed(o), nil
}

func removed(o v1.Orphan) v1.Orphan {
	o.State, o.Reason = v1.OrphanRemoved, ""
	return o
}

// leaveUnapproved keeps parts that have come since what goes was shown.
func (f *facts) leaveUnapproved(o *v1.Orphan) {
	goes := o.Goes
	o.Goes = nil
	for _, part := range goes {
		if !slices.Contains(f.Approved, part.ID) {
			part.Reason = "it was not there when this was approved"
			o.Stays = append(o.Stays, part)
			continue
		}
		o.Goes = append(o.Goes, part)
	}
}

// removeBalancer deletes a load balancer with all that is below it. Its floating IP goes first, as it loses its port by
// that, and its security groups last, as ports have them.
func (f *facts) removeBalancer(ctx context.Context, o v1.Orphan) (v1.Orphan, error) {
	b := f.balancers[o.ID]
	o.State = v1.OrphanPending
	if status := b.ProvisioningStatus; status != "ACTIVE" && status != "ERROR" {
		o.Reason = "it is " + status
		return o, nil
	}
	for _, part := range o.Goes {
		if part.Kind != kindFloating {
			continue
		}
		if err := f.removeFloating(ctx, part); err != nil {
			return o, err
		}
	}
	err := loadbalancers.Delete(ctx, f.octavia, o.ID, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr()
	switch {
	case err == nil, client.NotFound(err):
		o.Reason = "it is being deleted"
	case client.Conflict(err):
		o.Reason = "it is being changed by another client: " + client.Explain(err).Error()
	default:
		return o, fmt.Errorf("deleting load balancer %s (%s): %w", o.Name, o.ID, client.Explain(err))
	}
	return o, nil
}

func (f *facts) removeFloating(ctx context.Context, part v1.OrphanPart) error {
	err := floatingips.Delete(ctx, f.neutron, part.ID).ExtractErr()
	if err != nil && !client.NotFound(err) {
		return fmt.Errorf("deleting floating IP %s (%s): %w", part.Name, part.ID, client.Explain(err))
	}
	return nil
}

// removeGroup removes a security group; pending is why that has to be tried again.
func (f *facts) removeGroup(ctx context.Context, id string) (pending string, err error) {
	i := slices.IndexFunc(f.groups, func(g groups.SecGroup) bool { return g.ID == id })
	if i < 0 {
		return "", nil
	}
	err = loadbalancer.RemoveGroup(ctx, f.neutron, f.groups[i])
	if again := (*cloudapi.RetryError)(nil); errors.As(err, &again) {
		return err.Error(), nil
	}
	return "", err
}

// removeRest removes the security groups that were approved with a load balancer which is gone. Each is judged once
// more: the Service of its UID may be there by now.
func (f *facts) removeRest(ctx context.Context, o v1.Orphan) (v1.Orphan, error) {
	for _, g := range f.groups {
		if !slices.Contains(f.Approved, g.ID) {
			continue
		}
		part := v1.OrphanPart{Kind: kindGroup, ID: g.ID, Name: g.Name}
		if _, _, named := naming.OfGroup(g.Name); !named {
			part.Reason = "no manager names the security group of a Service like this"
		} else {
			part.Reason = f.keepsGroup(g, "", true)
		}
		if part.Reason != "" {
			o.Stays = append(o.Stays, part)
			continue
		}
		pending, err := f.removeGroup(ctx, g.ID)
		if pending != "" || err != nil {
			o.State, o.Reason = v1.OrphanPending, pending
			return o, err
		}
		o.Goes = append(o.Goes, part)
	}
	return removed(o), nil
}
