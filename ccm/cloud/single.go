package cloud

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// errNoInstances is for a provider that says at one time that it has instances, and at another that it has none.
var errNoInstances = errors.New("the cloud provider implements neither InstancesV2 nor Instances")

// single asks about one node, with one call for each field that is wanted. Both interfaces mean the same by their
// answers.
func (r *reader) single(ctx context.Context, node *corev1.Node, want Want, retries bool) InstanceState {
	if provider, ok := r.provider.InstancesV2(); ok && provider != nil {
		return describeInstance(ctx, v2{instancesV2{r.caller, provider, retries}, node}, want)
	}
	provider, ok := r.provider.Instances()
	if !ok || provider == nil {
		return InstanceState{Err: errNoInstances}
	}
	asked := &v1Node{
		instances: instancesV1{caller: r.caller, provider: provider, retries: retries},
		node:      node,
		name:      r.provider.ProviderName(),
	}
	if zones, ok := r.provider.Zones(); ok && zones != nil {
		asked.zones = &zonesOf{r.caller, zones, retries}
	}
	state := describeInstance(ctx, asked, want)
	state.IDAsked, state.IDNotFound = asked.asked, asked.missing
	return state
}

// questionError is an error that says to which question it was the answer. Its text is that of the answer.
type questionError struct {
	question Want
	err      error
}

func (e *questionError) Error() string { return e.err.Error() }

func (e *questionError) Unwrap() error { return e.err }

// wantID is the question for a node's provider ID, which is no field of a state.
const wantID Want = 0

// FailedAt returns to which question an error of an InstanceState was the answer: whether the instance is shut down,
// or which provider ID it has.
func FailedAt(err error) (shutdown, id bool) {
	var failed *questionError
	if !errors.As(err, &failed) {
		return false, false
	}
	return failed.question == WantShutdown, failed.question == wantID
}

// described is one node as a provider's interface describes it.
type described interface {
	exists(context.Context) (bool, error)
	shutdown(context.Context) (bool, error)
	metadata(context.Context) (*cloudprovider.InstanceMetadata, error)
	// metadata with nothing else in it that would cost a call
	addresses(context.Context) (*cloudprovider.InstanceMetadata, error)
}

// describeInstance asks for what is wanted and stops at the first error, or when the instance does not exist. An answer
// that the instance is missing counts only if no earlier question found it. Otherwise the answers contradict each
// other, and a controller that deletes Nodes must not choose.
func describeInstance(ctx context.Context, d described, want Want) InstanceState {
	state := InstanceState{Exists: true}
	known := false
	if want&WantExists != 0 {
		if state.Exists, state.Err = d.exists(ctx); state.Err != nil || !state.Exists {
			return InstanceState{Err: state.Err}
		}
		known = true
	}
	if want&WantShutdown != 0 {
		state.Shutdown, state.Err = d.shutdown(ctx)
		if errors.Is(state.Err, cloudprovider.NotImplemented) { // such a provider has no instances that are shut down
			state.Shutdown, state.ShutdownUnknown, state.Err = false, true, nil
		}
		if state.Err != nil {
			state.Err = &questionError{question: WantShutdown, err: state.Err}
		}
	}
	if all := want&WantMetadata == WantMetadata; all && state.Err == nil {
		state.Metadata, state.Err = d.metadata(ctx)
	} else if !all && want&WantAddresses != 0 && state.Err == nil {
		state.Metadata, state.Err = d.addresses(ctx)
	}
	if state.Err != nil {
		if !known && errors.Is(state.Err, cloudprovider.InstanceNotFound) {
			return InstanceState{}
		}
		return InstanceState{Err: state.Err}
	}
	return state
}

// v2 is a node that InstancesV2 describes.
type v2 struct {
	instances instancesV2
	node      *corev1.Node
}

func (d v2) exists(ctx context.Context) (bool, error) { return d.instances.InstanceExists(ctx, d.node) }

func (d v2) shutdown(ctx context.Context) (bool, error) {
	return d.instances.InstanceShutdown(ctx, d.node)
}

func (d v2) metadata(ctx context.Context) (*cloudprovider.InstanceMetadata, error) {
	return d.instances.InstanceMetadata(ctx, d.node)
}

func (d v2) addresses(ctx context.Context) (*cloudprovider.InstanceMetadata, error) {
	return d.metadata(ctx)
}

// v1Node is a node that Instances, and Zones if there are any, describe: by its providerID, and where that does not do
// by its name.
type v1Node struct {
	instances instancesV1
	zones     *zonesOf
	node      *corev1.Node
	name      string // of the provider
	found     string // the providerID that the cloud knows the node by
	asked     bool   // for that
	missing   bool   // as the cloud says
}

// providerID is the node's, or the one that the cloud has for its name.
func (d *v1Node) providerID(ctx context.Context) (string, error) {
	if d.node.Spec.ProviderID != "" {
		return d.node.Spec.ProviderID, nil
	}
	if d.found == "" {
		d.asked = true
		id, err := d.instances.InstanceID(ctx, types.NodeName(d.node.Name))
		if err != nil {
			d.missing = errors.Is(err, cloudprovider.InstanceNotFound)
			return "", &questionError{wantID, fmt.Errorf("asking for the provider ID of node %q: %w", d.node.Name, err)}
		}
		d.found = d.name + "://" + id
	}
	return d.found, nil
}

func (d *v1Node) exists(ctx context.Context) (bool, error) {
	id, err := d.providerID(ctx)
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return d.instances.InstanceExistsByProviderID(ctx, id)
}

func (d *v1Node) shutdown(ctx context.Context) (bool, error) {
	id, err := d.providerID(ctx)
	if err != nil {
		return false, err
	}
	return d.instances.InstanceShutdownByProviderID(ctx, id)
}

func (d *v1Node) addresses(ctx context.Context) (*cloudprovider.InstanceMetadata, error) {
	id, err := d.providerID(ctx)
	if err != nil && !errors.Is(err, cloudprovider.NotImplemented) { // without provider IDs, names have to do
		return nil, err
	}
	m := &cloudprovider.InstanceMetadata{ProviderID: id}
	if m.NodeAddresses, err = either(
		ctx,
		d,
		"addresses",
		id,
		d.instances.NodeAddressesByProviderID,
		d.instances.NodeAddresses,
	); err != nil {
		return nil, err
	}
	return m, nil
}

func (d *v1Node) metadata(ctx context.Context) (*cloudprovider.InstanceMetadata, error) {
	m, err := d.addresses(ctx)
	if err != nil {
		return nil, err
	}
	id := m.ProviderID
	if m.InstanceType, err = either(
		ctx,
		d,
		"type",
		id,
		d.instances.InstanceTypeByProviderID,
		d.instances.InstanceType,
	); err != nil {
		return nil, err
	}
	if d.zones == nil {
		return m, nil
	}
	zone, err := either(ctx, d, "zone", id, d.zones.GetZoneByProviderID, d.zones.GetZoneByNodeName)
	if err != nil {
		return nil, err
	}
	m.Zone, m.Region = zone.FailureDomain, zone.Region
	return m, nil
}

// either asks by provider ID, and by name if that fails. Only if both say so is the instance not found.
func either[T any](
	ctx context.Context, d *v1Node, what, id string,
	byID func(context.Context, string) (T, error), byName func(context.Context, types.NodeName) (T, error),
) (answer T, err error) {
	var first error
	if id != "" {
		if answer, first = byID(ctx, id); first == nil {
			return answer, nil
		}
	}
	answer, second := byName(ctx, types.NodeName(d.node.Name))
	switch {
	case second == nil:
		return answer, nil
	case first == nil ||
		errors.Is(first, cloudprovider.InstanceNotFound) && errors.Is(second, cloudprovider.InstanceNotFound):
		return answer, fmt.Errorf("asking for the %s of node %q by name: %w", what, d.node.Name, second)
	case errors.Is(first, cloudprovider.InstanceNotFound):
		return answer, fmt.Errorf(
			"asking for the %s of node %q by provider ID %q: %s, and by name: %w",
			what,
			d.node.Name,
			id,
			first.Error(),
			second,
		)
	case errors.Is(second, cloudprovider.InstanceNotFound):
		return answer, fmt.Errorf(
			"asking for the %s of node %q by provider ID %q: %w, and by name: %s",
			what,
			d.node.Name,
			id,
			first,
			second.Error(),
		)
	}
	return answer, fmt.Errorf(
		"asking for the %s of node %q by provider ID %q: %w, and by name: %w",
		what,
		d.node.Name,
		id,
		first,
		second,
	)
}
