// Package preview decides how the GCE provider is opened to be asked about nodes from another machine than those of the
// cluster, with nothing changed.
package preview

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/preview"
	"github.com/transplant-dev/transplant/provider/gce"
	"github.com/transplant-dev/transplant/provider/gce/client"
)

// Open opens the provider with the text of its cloud config, as the new manager would. Project and zone that the config
// lacks are those of the nodes. Credentials are Google's default ones, as for its own tools: the metadata server of the
// manager's instance is not that of this machine.
func Open(ctx context.Context, cloudConfig []byte, nodes []v1.Node) (*preview.Source, error) {
	var calls atomic.Int64
	made, err := openReading(ctx, cloudConfig, nodes, &calls)
	if err != nil {
		return nil, err
	}
	return &preview.Source{Interface: made, Calls: calls.Load}, nil
}

// OpenProvider is Open for an inventory, which reads more of the cloud.
func OpenProvider(ctx context.Context, cloudConfig []byte, nodes []v1.Node) (*gce.Cloud, error) {
	return openReading(ctx, cloudConfig, nodes, nil)
}

func openReading(ctx context.Context, cloudConfig []byte, nodes []v1.Node, calls *atomic.Int64) (*gce.Cloud, error) {
	made, err := gce.Open(ctx, complement(cloudConfig, nodes), gce.Options{Sent: calls, Tokens: client.Default{}})
	if err != nil {
		return nil, fmt.Errorf("opening provider gce: %w", err)
	}
	made.UseFences() // none: a request that changes something is not sent
	return made, nil
}

// complement puts before a gce.conf what the provider would otherwise ask the metadata service of its instance. What
// the config says itself comes later in the text, and wins. The name of the network is a placeholder: it is for load
// balancers and routes that are made.
func complement(cloudConfig []byte, nodes []v1.Node) []byte {
	var b strings.Builder
	b.WriteString("[global]\nnetwork-name = network-of-the-cluster\n")
	for _, n := range nodes {
		parts := strings.Split(strings.TrimPrefix(n.ProviderID, gce.Name+"://"), "/")
		if len(parts) == 3 && strings.HasPrefix(n.ProviderID, gce.Name+"://") && isPlain(parts[0]) && isPlain(parts[1]) {
			fmt.Fprintf(&b, "project-id = %s\nlocal-zone = %s\n", parts[0], parts[1])
			break
		}
	}
	b.WriteString("\n")
	b.Write(cloudConfig)
	return []byte(b.String())
}

// isPlain reports whether a text of a Node can stand in a config without meaning something else.
func isPlain(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-:.") == ""
}
