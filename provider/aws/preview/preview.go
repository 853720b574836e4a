// Package preview decides how the AWS provider is opened to be asked about nodes from another machine than those of the
// cluster, with nothing changed.
package preview

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/preview"
	"github.com/transplant-dev/transplant/provider/aws"
)

// Open opens the provider with the text of its cloud config, as the new manager would. What the provider would ask its
// own instance's metadata service is completed from what the nodes show. Credentials come from the environment, the way
// the provider's own tools take them.
func Open(ctx context.Context, cloudConfig []byte, nodes []v1.Node) (*preview.Source, error) {
	if regionOf(nodes) == "" && os.Getenv("AWS_REGION") == "" && !saysRegion.Match(cloudConfig) {
		// The provider would ask the metadata service of an instance that this machine is not, and wait.
		return nil, errors.New(
			"opening provider aws: neither the nodes nor the cloud config tell the region: export AWS_REGION",
		)
	}
	var calls atomic.Int64
	made, err := aws.Open(ctx, complete(cloudConfig, nodes), aws.Options{
		HTTPClient: counting(&calls), Away: true, Instances: someInstances(nodes),
	})
	if err != nil {
		return nil, fmt.Errorf("opening provider aws: %w", err)
	}
	made.UseFences() // none: a request that changes something is not sent
	return &preview.Source{Interface: made, Calls: calls.Load}, nil
}

// maxInstances is of how many nodes the tags are read that name the cluster.
const maxInstances = 20

// someInstances are the IDs of instances of the cluster, those of the control plane first. From the tags of such a one
// the new manager takes the cluster ID.
func someInstances(nodes []v1.Node) []string {
	var plane, others []string
	for _, n := range nodes {
		switch id := cloudprovider.AWSInstanceID(n.ProviderID); {
		case id == "":
		case component.HasControlPlaneRole(n.Labels):
			plane = append(plane, id)
		default:
			others = append(others, id)
		}
	}
	all := slices.Concat(plane, others)
	return all[:min(len(all), maxInstances)]
}

const requestTimeout = 20 * time.Second

// complete puts before an AWS cloud config what the provider would otherwise ask the metadata service of its instance.
// What the config says itself comes later in the text, and wins. The network's names are placeholders: they are for
// load balancers and routes, which are not asked for.
func complete(cloudConfig []byte, nodes []v1.Node) []byte {
	var b strings.Builder
	b.WriteString("[Global]\nVPC = vpc-of-the-cluster\nSubnetID = subnet-of-the-cluster\n")
	region := regionOf(nodes)
	if region == "" {
		region = os.Getenv("AWS_REGION")
	}
	if region != "" {
		b.WriteString("Region = " + region + "\n")
	}
	b.WriteString("\n")
	b.Write(cloudConfig)
	return []byte(b.String())
}

// regionOf is the region of the nodes, by their labels or by the zones in their providerIDs, where they agree; empty
// otherwise.
func regionOf(nodes []v1.Node) string {
	region := ""
	for _, n := range nodes {
		of := n.Labels[corev1.LabelTopologyRegion]
		if of == "" {
			of = n.Labels[corev1.LabelFailureDomainBetaRegion]
		}
		if of == "" {
			of = regionInZone.FindString(zoneOf(n.ProviderID))
		}
		switch {
		case of == "":
		case region == "":
			region = of
		case region != of:
			return ""
		}
	}
	if strings.Trim(region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return "" // it would not stand in an INI file as it is
	}
	return region
}

// regionInZone is the beginning of the name of a zone, also of a local one: us-west-2-lax-1a.
var regionInZone = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]+`)

// zoneOf is what stands before the instance in aws:///us-east-1a/i-1.
func zoneOf(providerID string) string {
	rest, _ := strings.CutPrefix(providerID, "aws:///")
	zone, _, _ := strings.Cut(rest, "/")
	return zone
}

// saysRegion finds a region in a cloud config: the provider's, or that of an override.
var saysRegion = regexp.MustCompile(`(?mi)^\s*region\s*=`)

// counting sends requests and counts them. The SDK wants its own kind of client where AWS_CA_BUNDLE is set. So they are
// counted where its transport looks for a proxy, which it does once for each.
func counting(calls *atomic.Int64) *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTimeout(requestTimeout).WithTransportOptions(func(t *http.Transport) {
		proxy := t.Proxy
		t.Proxy = func(req *http.Request) (*url.URL, error) {
			calls.Add(1)
			if proxy == nil {
				return nil, nil
			}
			return proxy(req)
		}
	})
}
