// Package preview decides how the Azure provider is opened to be asked about nodes from another machine than those of
// the cluster, with nothing changed.
package preview

import (
	"context"
	"fmt"
	"regexp"
	"sync/atomic"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/preview"
	"github.com/transplant-dev/transplant/provider/azure"
)

// Open opens the provider with the text of its cloud config, as the new manager would. What the config lacks of
// subscription, resource group and kind of machines is that of the nodes. The config's managed identity is not that of
// this machine: in its place are the credentials of Azure's own tools.
func Open(_ context.Context, cloudConfig []byte, nodes []v1.Node) (*preview.Source, error) {
	var calls atomic.Int64
	made, err := openReading(cloudConfig, nodes, &calls)
	if err != nil {
		return nil, err
	}
	return &preview.Source{Interface: made, Calls: calls.Load}, nil
}

// OpenProvider is Open for an inventory, which reads more of the cloud.
func OpenProvider(cloudConfig []byte, nodes []v1.Node) (*azure.Cloud, error) {
	return openReading(cloudConfig, nodes, nil)
}

func openReading(cloudConfig []byte, nodes []v1.Node, calls *atomic.Int64) (*azure.Cloud, error) {
	completed, err := complete(cloudConfig, nodes)
	if err != nil {
		return nil, err
	}
	made, err := azure.Open(completed, azure.Options{Sent: calls, FromOutside: true})
	if err != nil {
		return nil, fmt.Errorf("opening provider azure: %w", err)
	}
	made.UseFences() // none: a request that changes something is not sent
	return made, nil
}

var machine = regexp.MustCompile(`(?i)^azure:///subscriptions/([0-9a-f-]+)/resourceGroups/([\w.()-]+)/providers/` +
	`Microsoft\.Compute/(virtualMachineScaleSets/)?`)

// complete adds to a cloud config what it lacks and the nodes know. Location and load balancers are for what is made.
func complete(cloudConfig []byte, nodes []v1.Node) ([]byte, error) {
	config := map[string]any{}
	if err := yaml.Unmarshal(cloudConfig, &config); err != nil {
		return nil, fmt.Errorf("reading the cloud config: %w", err)
	}
	add := func(key, value string) {
		if config[key] == nil || config[key] == "" {
			config[key] = value
		}
	}
	for _, n := range nodes {
		parts := machine.FindStringSubmatch(n.ProviderID)
		if parts == nil {
			continue
		}
		add("subscriptionId", parts[1])
		add("resourceGroup", parts[2])
		if parts[3] != "" {
			add("vmType", "vmss")
		}
	}
	add("vmType", "standard")
	add("location", "location-of-the-cluster")
	add("loadBalancerSku", "standard")
	delete(config, "cloudConfigType")
	completed, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("completing the cloud config: %w", err)
	}
	return completed, nil
}
