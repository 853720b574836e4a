package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider-aws/pkg/providers/v1/variant"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/provider/aws/client"
)

// Limits of one DescribeInstances request: "you should not specify more than 1,000 IDs" and "up to 200 values per
// filter" (EC2 developer guide).
const (
	idsPerRequest    = 1000
	valuesPerRequest = 200
)

// MaxInstances is how many IDs one request takes.
func (c *Cloud) MaxInstances() int { return idsPerRequest }

// ListInstances describes the instances of nodes. It sends one request for up to 1,000 nodes that have a providerID,
// and one more for each 200 that are found by name. It sends one more when instances are gone, and one for each that a
// filter does not find. Fargate nodes, which have no instance, are asked for one by one as the provider does.
func (c *Cloud) ListInstances(
	ctx context.Context,
	nodes []*corev1.Node,
	want cloud.Want,
) ([]cloud.InstanceState, error) {
	questions := make([]asked, len(nodes))
	for i, node := range nodes {
		questions[i] = c.queryFor(ctx, node)
	}
	found, err := c.answers(ctx, questions)
	if err != nil {
		return nil, err
	}
	states := make([]cloud.InstanceState, len(nodes))
	var described []description
	for i, q := range questions {
		if variant.IsVariantNode(q.id) {
			states[i] = c.variantState(ctx, nodes[i], want)
			continue
		}
		instance, err := found.to(q)
		if err == nil && instance != nil && instance.State == nil {
			err = fmt.Errorf("asking EC2 for instance %q of node %q: the answer has no state", q.id, nodes[i].Name)
		}
		states[i].Err = err
		if err != nil || instance == nil {
			continue
		}
		// as EC2 describes it for about an hour; one that is shutting down exists
		if instance.State.Name == ec2types.InstanceStateNameTerminated {
			states[i].Terminated = true
			continue
		}
		states[i].Exists = true
		// stopping is not: the provider waits until it is certain
		states[i].Shutdown = instance.State.Name == ec2types.InstanceStateNameStopped
		if want&cloud.WantMetadata != 0 {
			described = append(described, description{
				index:      i,
				node:       nodes[i],
				instance:   instance,
				providerID: q.providerID,
			})
		}
	}
	c.describe(ctx, described, states)
	return states, nil
}

// variantState asks the provider about a node that is no EC2 instance.
func (c *Cloud) variantState(ctx context.Context, node *corev1.Node, want cloud.Want) (state cloud.InstanceState) {
	if state.Exists, state.Err = c.InstanceExists(ctx, node); state.Err != nil || !state.Exists {
		return state
	}
	if want&cloud.WantShutdown != 0 {
		if state.Shutdown, state.Err = c.InstanceShutdown(ctx, node); state.Err != nil {
			return state
		}
	}
	if want&cloud.WantMetadata != 0 {
		state.Metadata, state.Err = c.InstanceMetadata(ctx, node)
	}
	return state
}

// answers are what EC2 said about the instances that were asked for. An ID or a name that is in none of the maps was
// not asked for, or the answer has left it out.
type answers struct {
	byID    map[string]*ec2types.Instance
	byName  map[string][]*ec2types.Instance
	refused map[string]error // IDs that EC2 does not take for any
	gone    map[string]bool  // IDs and names of which EC2 has said that there is no such instance
}

func newAnswers() answers {
	return answers{
		byID:    map[string]*ec2types.Instance{},
		byName:  map[string][]*ec2types.Instance{},
		refused: map[string]error{},
		gone:    map[string]bool{},
	}
}

// errLeftOut is that an answer of EC2 lacks an instance that it was asked for, without a word on why. EC2 refuses
// requests with IDs that it does not know, so that this says nothing about the instance.
var errLeftOut = errors.New(
	"EC2 has left it out of its answer, which says neither that it exists nor that it does not; it will be asked again",
)

// to is the answer to one question: nil for an instance that does not exist.
func (a answers) to(q asked) (*ec2types.Instance, error) {
	if q.err != nil {
		return nil, q.err
	}
	if q.id != "" {
		switch instance, refusal := a.byID[q.id], a.refused[q.id]; {
		case instance != nil || refusal != nil || a.gone[q.id]:
			return instance, refusal
		default:
			return nil, fmt.Errorf("asking EC2 for instance %q: %w", q.id, errLeftOut)
		}
	}
	switch named := a.byName[q.name]; len(named) {
	case 0:
		if !a.gone[q.name] {
			return nil, fmt.Errorf("asking EC2 for the instance with the private DNS name %q: %w", q.name, errLeftOut)
		}
		return nil, nil
	case 1:
		return named[0], nil
	default:
		return nil, fmt.Errorf("finding the instance of node %q: %d instances have this private DNS name", q.name, len(named))
	}
}

// answers asks EC2 for all instances at once.
func (c *Cloud) answers(ctx context.Context, questions []asked) (answers, error) {
	a := newAnswers()
	ids, names := map[string]bool{}, map[string]bool{}
	for _, q := range questions {
		switch {
		case q.err != nil || variant.IsVariantNode(q.id):
		case q.id != "":
			ids[q.id] = true
		default:
			names[q.name] = true
		}
	}
	usual, odd := []string{}, []string{}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if usualID.MatchString(id) {
			usual = append(usual, id)
		} else {
			odd = append(odd, id)
		}
	}
	for part := range slices.Chunk(usual, idsPerRequest) {
		if err := c.byID(ctx, part, &a); err != nil {
			return a, err
		}
	}
	if err := c.byOddID(ctx, odd, &a); err != nil {
		return a, err
	}
	return a, c.byName(ctx, slices.Sorted(maps.Keys(names)), &a)
}

// usualID are the two forms that EC2's IDs have had so far.
var usualID = regexp.MustCompile(`^i-([0-9a-f]{8}|[0-9a-f]{17})$`)

// rounds is how often a list of IDs is asked for without those that EC2 refused. One more is for instances that vanish
// in between.
const rounds = 3

// lookups is how many instances are asked for one by one in a call, to be sure that they do not exist. Those that are
// left over are not known.
const lookups = 20

// byID asks by ID, which is the cheapest for EC2. It refuses the whole request for one ID that it does not know, and
// names all of those. They are removed and the others asked for again. Should it ever name none, a filter is used: it
// accepts what does not exist, and takes fewer values. But an empty result of a filter is no answer, so what it does
// not find is asked for alone.
func (c *Cloud) byID(ctx context.Context, ids []string, a *answers) error {
	for range rounds {
		if len(ids) == 0 {
			return nil
		}
		left, _, err := c.describeIDs(ctx, ids, a)
		if err != nil {
			return err
		}
		if len(left) == len(ids) {
			break
		}
		ids = left
	}
	if err := c.filter(ctx, "instance-id", ids, a); err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return a.byID[id] != nil })
	for _, id := range missing[:min(len(missing), lookups)] {
		_, code, err := c.describeIDs(ctx, []string{id}, a)
		if err != nil {
			return err
		}
		a.gone[id] = code == notFound // whether it names the only ID or not
	}
	return nil
}

// notFound is EC2's code for IDs that it does not know.
const notFound = "InvalidInstanceID.NotFound"

// describeIDs makes one request. If EC2 refuses it for some of the IDs, it returns with which code, and the others, of
// which EC2 has said nothing.
func (c *Cloud) describeIDs(ctx context.Context, ids []string, a *answers) (left []string, code string, err error) {
	instances, err := c.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids})
	var incomplete *client.IncompleteError
	code, named := refusedIDs(err)
	switch {
	case err == nil, errors.As(err, &incomplete):
		a.add(instances)
		return nil, "", nil
	case code == notFound:
		for _, id := range named {
			a.gone[id] = true
		}
	case code == "InvalidInstanceID.Malformed":
		for _, id := range named {
			a.refused[id] = fmt.Errorf("asking EC2 for instance %q: %w", id, err)
		}
	default:
		return nil, "", fmt.Errorf("asking EC2 for %d instances: %w", len(ids), err)
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(named, id) }), code, nil
}

var idInText = regexp.MustCompile(`\bi-[^\s'",\])]+`)

// refusedIDs are the code of EC2's error, and the IDs that it names ("The instance IDs 'i-1, i-2' do not exist").
func refusedIDs(err error) (code string, ids []string) {
	var refusal smithy.APIError
	if !errors.As(err, &refusal) {
		return "", nil
	}
	return refusal.ErrorCode(), idInText.FindAllString(refusal.ErrorMessage(), -1)
}

// byOddID asks for IDs that do not look like IDs. One of them, among a thousand others, would fail the request, and EC2
// names only the first. An ID that is not found is refused rather than reported as gone: the provider does not delete a
// Node for that either.
func (c *Cloud) byOddID(ctx context.Context, ids []string, a *answers) error {
	// they stand for others in a filter
	askable := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return strings.ContainsAny(id, `*?\`) })
	if err := c.filter(ctx, "instance-id", askable, a); err != nil {
		return err
	}
	for _, id := range ids {
		if a.byID[id] == nil {
			a.refused[id] = fmt.Errorf("asking EC2 for instance %q: this is no ID of an instance, and EC2 has none by it", id)
		}
	}
	return nil
}

// alive are the states of instances that are found by name: a terminated one may have left its name to another.
var alive = []string{
	string(
		ec2types.InstanceStateNamePending,
	),
	string(ec2types.InstanceStateNameRunning),
	string(ec2types.InstanceStateNameShuttingDown),
	string(ec2types.InstanceStateNameStopping),
	string(ec2types.InstanceStateNameStopped),
}

// byName finds instances of the cluster by their private DNS names. One that is not found among many is asked for
// alone, as the provider does: EC2 refuses no question about a name.
func (c *Cloud) byName(ctx context.Context, names []string, a *answers) error {
	if err := c.describeNames(ctx, names, a); err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return len(a.byName[name]) > 0 })
	for _, name := range missing[:min(len(missing), lookups)] {
		if len(names) > 1 {
			if err := c.describeNames(ctx, []string{name}, a); err != nil {
				return err
			}
		}
		a.gone[name] = len(a.byName[name]) == 0
	}
	return nil
}

func (c *Cloud) describeNames(ctx context.Context, names []string, a *answers) error {
	found := newAnswers()
	if err := c.filter(ctx, "private-dns-name", names, &found, filter("instance-state-name", alive...)); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(found.byID)) {
		if instance := found.byID[id]; c.hasClusterTag(instance.Tags) {
			name := sdk.ToString(instance.PrivateDnsName)
			a.byName[name] = append(a.byName[name], instance)
		}
	}
	return nil
}

// filter asks for the instances with one of many values of a property.
func (c *Cloud) filter(
	ctx context.Context,
	property string,
	values []string,
	a *answers,
	others ...ec2types.Filter,
) error {
	for part := range slices.Chunk(values, valuesPerRequest) {
		instances, err := c.ec2.DescribeInstances(
			ctx,
			&ec2.DescribeInstancesInput{Filters: append([]ec2types.Filter{filter(property, part...)}, others...)},
		)
		if err != nil {
			return fmt.Errorf("asking EC2 for instances by %d values of %s: %w", len(part), property, err)
		}
		a.add(instances)
	}
	return nil
}

func filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: sdk.String(name), Values: values}
}

func (a answers) add(instances []ec2types.Instance) {
	for i := range instances {
		a.byID[sdk.ToString(instances[i].InstanceId)] = &instances[i]
	}
}
