// Package inventory decides what of an Azure subscription belongs to a cluster: the machines of its nodes, the routes
// to them, its load balancers. It reads only.
package inventory

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/inventory"
	"github.com/transplant-dev/transplant/internal/inventory/instances"
	"github.com/transplant-dev/transplant/provider/azure"
	"github.com/transplant-dev/transplant/provider/azure/preview"
)

// source reads Azure.
type source struct{ config []byte }

var _ inventory.Source = (*source)(nil)

// Open makes a source by the settings behind --cloud=azure: config, the file of an azure.json. Without it there are no
// routes, and the rest is that of the nodes. Nothing is asked of the cloud.
func Open(_ context.Context, settings map[string]string) (inventory.Source, error) {
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if key != "config" {
			return nil, fmt.Errorf("the setting %q is not known: use config=FILE, with the cloud config", key)
		}
	}
	file := settings["config"]
	if file == "" {
		return &source{}, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the file of the setting config: %w", err)
	}
	return &source{config: text}, nil
}

// Inventory implements inventory.Source.
func (s *source) Inventory(ctx context.Context, nodes []v1.Node) *v1.CloudInventory {
	out := &v1.CloudInventory{Provider: azure.Name}
	note := func(part string, err error) {
		if err != nil {
			out.Errors = append(out.Errors, part+": "+err.Error())
		}
	}
	cloud, err := preview.OpenProvider(s.config, nodes)
	if err != nil {
		for _, part := range inventory.Parts[:3] {
			note(part, err)
		}
		return out
	}
	question := instances.Question{
		Provider: cloud, IDOf: MachineOf, None: "the subscription, or the resource group, is not the cluster's",
	}
	out.Instances, err = question.List(ctx, nodes)
	note(inventory.PartInstances, err)
	out.Routes, err = routesTo(ctx, cloud, nodes)
	note(inventory.PartRoutes, err)
	out.LoadBalancers, err = frontends(ctx, cloud)
	note(inventory.PartLoadBalancers, err)
	return out
}

var machineID = regexp.MustCompile(`(?i)/Microsoft\.Compute/(?:virtualMachineScaleSets/([^/]+)/)?virtualMachines/([^/]+)$`)

// MachineOf is the name of the machine that a providerID names: set/number in a scale set; empty for none of Azure.
func MachineOf(providerID string) string {
	parts := machineID.FindStringSubmatch(providerID)
	switch {
	case parts == nil || !strings.HasPrefix(providerID, azure.Name+"://"):
		return ""
	case parts[1] != "":
		return strings.ToLower(parts[1]) + "/" + parts[2]
	}
	return parts[2]
}

// routesTo are the routes of the table that are called by one of the nodes.
func routesTo(ctx context.Context, cloud *azure.Cloud, nodes []v1.Node) (out []v1.Route, err error) {
	all, err := cloud.NodeRoutes(ctx)
	if err != nil {
		return nil, err
	}
	targets := map[string]string{}
	for _, n := range nodes {
		targets[n.Name] = MachineOf(n.ProviderID)
	}
	for _, r := range all {
		if r.Name == nil || r.Properties == nil || r.Properties.AddressPrefix == nil {
			continue
		}
		node, _, _ := strings.Cut(*r.Name, "____")
		if target, known := targets[node]; known {
			out = append(out, v1.Route{
				Table: cloud.RouteTable(), CIDR: *r.Properties.AddressPrefix, Target: target, State: "active",
			})
		}
	}
	slices.SortFunc(out, func(x, y v1.Route) int { return strings.Compare(x.CIDR+" "+x.Target, y.CIDR+" "+y.Target) })
	return out, nil
}

// frontendName is upstream's name of a Service's frontend: "a" and the Service's UID, cut. The subnet of an internal
// one, and the family, stand behind it.
var frontendName = regexp.MustCompile(`^a[0-9a-f]{31}`)

// frontends are the load balancers of Services. Each has a frontend of a load balancer that it shares with others.
func frontends(ctx context.Context, cloud *azure.Cloud) (out []v1.LoadBalancer, err error) {
	all, err := cloud.Frontends(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		if frontendName.MatchString(f.Name) {
			out = append(out, describe(f))
		}
	}
	slices.SortFunc(out, func(x, y v1.LoadBalancer) int { return strings.Compare(x.ID, y.ID) })
	return out, nil
}

func describe(f azure.Frontend) v1.LoadBalancer {
	out := v1.LoadBalancer{
		ID: strings.Join([]string{f.Balancer, f.Name, f.GUID}, "/"), Name: f.Name, Kind: "network", Address: f.Address,
		Scheme: "internet-facing", Members: f.Members,
	}
	if f.IsInternal {
		out.Scheme = "internal"
	}
	for _, r := range f.Rules {
		if p := r.Properties; p != nil && p.FrontendPort != nil && p.BackendPort != nil && p.Protocol != nil {
			out.Listeners = append(out.Listeners,
				fmt.Sprintf("%d/%s->%d", *p.FrontendPort, strings.ToUpper(string(*p.Protocol)), *p.BackendPort))
		}
	}
	slices.Sort(out.Listeners)
	return out
}
