// Package inventory decides what of a Google Cloud project belongs to a cluster: the instances of its nodes, the routes
// to them, its load balancers. It reads only.
package inventory

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	compute "google.golang.org/api/compute/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/inventory"
	"github.com/transplant-dev/transplant/internal/inventory/instances"
	"github.com/transplant-dev/transplant/provider/gce"
	"github.com/transplant-dev/transplant/provider/gce/preview"
)

// source reads Compute Engine.
type source struct {
	config []byte
	open   func(ctx context.Context, config []byte, nodes []v1.Node) (*gce.Cloud, error)
}

var _ inventory.Source = (*source)(nil)

// Open makes a source by the settings behind --cloud=gce: config, the file of a gce.conf. What the config lacks of
// project and zone is that of the nodes. Credentials are Google's default ones. Nothing is asked of the cloud.
func Open(_ context.Context, settings map[string]string) (inventory.Source, error) {
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if key != "config" {
			return nil, fmt.Errorf("there is no setting %q; there is config", key)
		}
	}
	s := &source{open: preview.OpenProvider}
	if file := settings["config"]; file != "" {
		var err error
		if s.config, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("reading the cloud config: %w", err)
		}
	}
	return s, nil
}

// Inventory reads instances first: by them, routes and load balancers are the cluster's.
func (s *source) Inventory(ctx context.Context, nodes []v1.Node) *v1.CloudInventory {
	inv := &v1.CloudInventory{Provider: gce.Name}
	failed := func(part string, err error) {
		if err != nil {
			inv.Errors = append(inv.Errors, part+": "+err.Error())
		}
	}
	cloud, err := s.open(ctx, s.config, nodes)
	if err != nil {
		for _, part := range inventory.Parts[:3] {
			failed(part, err)
		}
		return inv
	}
	inv.Instances, err = instances.Question{
		Provider: cloud, IDOf: InstanceOf, None: "the project, or the zone, is not the cluster's",
	}.List(ctx, nodes)
	failed(inventory.PartInstances, err)
	of := map[string]bool{}
	for _, i := range inv.Instances {
		of[i.ID] = i.ID != ""
	}
	inv.Routes, err = routes(ctx, cloud, of)
	failed(inventory.PartRoutes, err)
	inv.LoadBalancers, err = balancers(ctx, cloud, of)
	failed(inventory.PartLoadBalancers, err)
	return inv
}

// InstanceOf is the last part of a providerID: the instance's name.
func InstanceOf(providerID string) string {
	if !strings.HasPrefix(providerID, gce.Name+"://") {
		return ""
	}
	return path.Base(providerID)
}

// routes are those of upstream's description that lead to the nodes' instances.
func routes(ctx context.Context, cloud *gce.Cloud, of map[string]bool) (out []v1.Route, err error) {
	all, err := cloud.NodeRoutes(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if target := path.Base(r.NextHopInstance); of[target] {
			out = append(out, v1.Route{
				Table:  path.Base(r.Network),
				CIDR:   r.DestRange,
				Target: target,
				State:  "active",
			})
		}
	}
	slices.SortFunc(out, func(x, y v1.Route) int { return strings.Compare(x.CIDR+" "+x.Target, y.CIDR+" "+y.Target) })
	return out, nil
}

// balancers are the forwarding rules that a manager has made for Services and that lead to the nodes. One without
// members is of a Service that is being made or deleted, or of one that is gone.
func balancers(ctx context.Context, cloud *gce.Cloud, of map[string]bool) (out []v1.LoadBalancer, err error) {
	all, err := cloud.ServiceBalancers(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		isOurs := len(b.Members) == 0 || slices.ContainsFunc(b.Members, func(name string) bool { return of[name] })
		if isOurs {
			out = append(out, describe(b))
		}
	}
	slices.SortFunc(out, func(x, y v1.LoadBalancer) int { return strings.Compare(x.ID, y.ID) })
	return out, nil
}

// describe names a load balancer by its forwarding rule's number, which another one of the same name does not have.
func describe(b gce.ServiceBalancer) v1.LoadBalancer {
	out := v1.LoadBalancer{
		ID: fmt.Sprintf("%s/%d", b.Rule.Name, b.Rule.Id), Name: b.Rule.Name, Kind: "network", Address: b.Rule.IPAddress,
		Scheme: "internet-facing", Members: b.Members, Listeners: listeners(b.Rule),
	}
	if b.Rule.LoadBalancingScheme == "INTERNAL" {
		out.Scheme = "internal"
	}
	if created, err := time.Parse(time.RFC3339, b.Rule.CreationTimestamp); err == nil {
		out.Created = created.UTC()
	}
	slices.Sort(out.Members)
	return out
}

// listeners are the ports of a forwarding rule. Compute Engine passes them on as they are.
func listeners(rule *compute.ForwardingRule) (out []string) {
	ports := rule.Ports
	if len(ports) == 0 && rule.PortRange != "" {
		ports = []string{rule.PortRange}
	}
	for _, port := range ports {
		out = append(out, port+"/"+rule.IPProtocol+"->"+port)
	}
	slices.Sort(out)
	return out
}
