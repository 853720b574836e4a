// Package orphan decides what in an OpenStack project is left of Services that are gone, and removes what was named. It
// is careful where the managers are not: the Service is gone, and no longer says what was its own.
//
//	OpenStack --read--> facts --judge--> found, or refused with the reason --remove--> OpenStack
//
// A call removes one object, and waits for nothing: what Octavia is changing is pending, and is asked for again.
package orphan

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/provider/openstack"
	"github.com/transplant-dev/transplant/provider/openstack/inventory"
)

// Kinds of objects that can be named.
const (
	kindBalancer = "load balancer"
	kindFloating = "floating IP"
	kindGroup    = "security group"
	kindPort     = "port"
)

// Answer says of each object that a question names whether it may be removed, and removes the one that is to be
// removed now. All of the cloud is read again by each call.
func Answer(
	ctx context.Context,
	settings map[string]string,
	nodes []v1.Node,
	q cloudprogram.OrphanQuestion,
) ([]v1.Orphan, error) {
	config, options, err := inventory.Settings(settings)
	if err != nil {
		return nil, err
	}
	made, err := openstack.Open(openstack.WithoutLoadBalancers(config), openstack.Options{})
	if err != nil {
		return nil, fmt.Errorf("opening OpenStack: %w", err)
	}
	if q.Remove == "" {
		made.UseFences() // none: a request that changes something is not sent
	} else if !slices.Contains(q.IDs, q.Remove) {
		return nil, fmt.Errorf("%s is to be removed and was not named", q.Remove)
	}
	for _, id := range q.IDs {
		if uuid.Validate(id) != nil {
			return nil, fmt.Errorf("%q is no ID of OpenStack: it has to be a UUID", id)
		}
	}
	f, err := readFacts(ctx, made.Client(), nodes, q)
	if err != nil {
		return nil, err
	}
	f.cluster = options.Cluster
	out := make([]v1.Orphan, 0, len(q.IDs))
	for _, id := range q.IDs {
		judged := f.judge(id)
		if id == q.Remove {
			if judged, err = f.remove(ctx, judged); err != nil {
				return nil, err
			}
		}
		out = append(out, judged)
	}
	return out, nil
}

func refused(o v1.Orphan, format string, args ...any) v1.Orphan {
	o.State, o.Reason = v1.OrphanRefused, fmt.Sprintf(format, args...)
	o.Goes, o.Stays = nil, nil
	return o
}
