// Package preview decides how the OpenStack provider is opened to be asked about nodes from another machine than those
// of the cluster, with nothing changed.
package preview

import (
	"context"
	"fmt"
	"sync/atomic"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/preview"
	"github.com/transplant-dev/transplant/provider/openstack"
	"github.com/transplant-dev/transplant/provider/openstack/client"
	"github.com/transplant-dev/transplant/provider/openstack/cloudconf"
)

// Open opens the provider with the text of its cloud config, as the new manager would. Its address and credentials are
// in it. Load balancers are not asked for: what is wrong with their settings is for other checks.
func Open(_ context.Context, cloudConfig []byte, _ []v1.Node) (*preview.Source, error) {
	if err := cloudconf.CheckClouds(cloudConfig); err != nil {
		return nil, fmt.Errorf("opening provider openstack: %w", err)
	}
	var calls atomic.Int64
	made, err := openstack.Open(openstack.WithoutLoadBalancers(cloudConfig), openstack.Options{
		Client: client.Options{Sent: &calls},
	})
	if err != nil {
		return nil, fmt.Errorf("opening provider openstack: %w", err)
	}
	made.UseFences() // none: a request that changes something is not sent
	return &preview.Source{Interface: made, Calls: calls.Load}, nil
}
