package aws

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"
	"k8s.io/cloud-provider-aws/pkg/providers/v1/iface"
	"k8s.io/klog/v2"
)

// topologyTypes are the instance types that have a network topology. A node of such a type is not initialised without
// it.
const topologyTypes = `^(hpc|trn|p)[0-9]+[a-z]*(-[a-z0-9]+)?(\.[0-9a-z]*)$`

const (
	// placesPerRequest is how many IDs one DescribeInstanceTopology takes.
	placesPerRequest = 100
	// probes is how many instances of a type are asked for to find out whether the type has a topology.
	probes = 3
	// aDay is how long a region, a type or an instance that has no topology is not asked for again.
	aDay = 24 * time.Hour
)

// topology finds where in the network instances are. Most types have no answer; asking for them costs a request per
// type and day.
type topology struct {
	ec2      iface.EC2
	required *regexp.Regexp

	none      expiringSet // regions, types and instances without topology
	supported expiringSet // types that have answered
}

// expiringSet is a set whose members are forgotten after a day.
type expiringSet struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (m *expiringSet) has(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	until, ok := m.until[key]
	if ok && now().After(until) {
		delete(m.until, key)
		return false
	}
	return ok
}

func (m *expiringSet) add(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until == nil {
		m.until = map[string]time.Time{}
	}
	m.until[key] = now().Add(aDay)
}

// topologyPattern is the pattern of types that need a topology: the configured one, or ours. The provider panics at one
// that is none.
func topologyPattern(configured string) (*regexp.Regexp, error) {
	if configured == "" {
		configured = topologyTypes
	}
	pattern, err := regexp.Compile(configured)
	if err != nil {
		return nil, fmt.Errorf("reading SupportedTopologyInstanceTypePattern of the cloud config: %w", err)
	}
	return pattern, nil
}

// place is what is known of one instance. That is its network nodes from the top, which may be none, or why a node that
// needs them cannot have them now.
type place struct {
	layers []string
	err    error
}

// placesOf finds the instances' places, by ID.
func (t *topology) placesOf(ctx context.Context, region string, described []description) map[string]place {
	found := map[string]place{}
	first, rest := t.choose(region, described)
	t.find(ctx, region, first, found)
	t.find(ctx, region, slices.DeleteFunc(rest, func(d description) bool { return !t.canHaveTopology(region, d) }), found)
	return found
}

// choose divides the instances that may have a topology into two groups. The first is asked for at once, the second
// waits for what EC2 says of its type.
func (t *topology) choose(region string, described []description) (first, rest []description) {
	probed := map[string]int{}
	for _, d := range described {
		kind := string(d.instance.InstanceType)
		if !t.canHaveTopology(region, d) {
			continue
		}
		if probed[kind]++; t.needsTopology(d) || t.supported.has(kind) || probed[kind] <= probes {
			first = append(first, d)
		} else {
			rest = append(rest, d)
		}
	}
	return first, rest
}

func (t *topology) needsTopology(d description) bool {
	return t.required.MatchString(string(d.instance.InstanceType))
}

// canHaveTopology reports whether EC2 may have an answer for an instance.
func (t *topology) canHaveTopology(region string, d description) bool {
	kind := string(d.instance.InstanceType)
	return kind != "" && !t.none.has(region) && !t.none.has(kind) && !t.none.has(d.id())
}

// find asks for instances. Where the answer is an error, only nodes that need a topology have to wait for it.
func (t *topology) find(ctx context.Context, region string, described []description, found map[string]place) {
	for part := range slices.Chunk(described, placesPerRequest) {
		layers, err := t.readLayers(ctx, region, part)
		if err != nil {
			klog.Warningf("The topology of %d instances is not known: %v", len(part), err)
		}
		for _, d := range part {
			switch known := layers[d.id()]; {
			case err != nil && t.needsTopology(d):
				found[d.id()] = place{err: err}
			case err != nil:
			case known != nil:
				t.supported.add(string(d.instance.InstanceType))
				found[d.id()] = place{layers: known}
			}
		}
		if err == nil {
			t.rememberMissing(region, part, layers)
		}
	}
}

// rememberMissing notes who has no topology: a type none of whose instances has one, or else the instance.
func (t *topology) rememberMissing(region string, part []description, layers map[string][]string) {
	if t.none.has(region) {
		return
	}
	for _, d := range part {
		kind := string(d.instance.InstanceType)
		switch {
		case layers[d.id()] != nil:
		case t.supported.has(kind) || t.needsTopology(d):
			t.none.add(d.id()) // it may be about to stop
		default:
			t.none.add(kind)
		}
	}
}

// readLayers makes one request. Where EC2 has no topologies, or does not show them to us, the region is not asked again
// for a day.
func (t *topology) readLayers(ctx context.Context, region string, part []description) (map[string][]string, error) {
	ids := make([]string, len(part))
	for i, d := range part {
		ids[i] = d.id()
	}
	list, err := t.ec2.DescribeInstanceTopology(ctx, &ec2.DescribeInstanceTopologyInput{InstanceIds: ids})
	if err != nil {
		var refusal smithy.APIError
		if errors.As(err, &refusal) &&
			slices.Contains([]string{"UnsupportedOperation", "UnauthorizedOperation"}, refusal.ErrorCode()) {
			klog.Infof("No topology of instances in %s for a day: %v", region, err)
			t.none.add(region)
			return nil, nil
		}
		return nil, fmt.Errorf("asking EC2 for the topology of %d instances: %w", len(ids), err)
	}
	layers := map[string][]string{}
	for _, place := range list {
		layers[sdk.ToString(place.InstanceId)] = place.NetworkNodes
	}
	return layers, nil
}
