package cloud

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/election"
)

// none is the answer of methods that return an error alone.
type none = struct{}

// errorOnly makes a method that returns an error alone one that do can call.
func errorOnly(f func(context.Context) error) func(context.Context) (none, error) {
	return func(ctx context.Context) (none, error) { return none{}, f(ctx) }
}

// read is a call that changes nothing.
func (c *caller) read(ctx context.Context, operation string, o object, fallback Class, given ...any) call {
	return call{
		operation: operation,
		object:    o,
		inputs:    append(inputs{o.name}, given...),
		class:     classOf(ctx, fallback),
		timeout:   c.options.CallTimeout,
	}
}

// write is a call that changes something, and depends on a fence.
func (c *caller) write(
	ctx context.Context,
	operation string,
	o object,
	fallback Class,
	fence *election.Fence,
	given ...any,
) call {
	w := c.read(ctx, operation, o, fallback, given...)
	w.mutates, w.fence = true, fence
	return w
}

// inputs are what a provider is given for a call. Users and kubelets choose much of it: names, annotations, provider
// IDs. Providers repeat that in their errors, where it must not be taken for what the cloud says. An annotation with
// the word "throttled" would slow down all calls of the cluster.
type inputs []any

type inputsKey struct{}

// WithInputs makes objects inputs of the calls that are made with the context. It is for what the provider looks up by
// itself, and may quote: the Node of a route's name.
func WithInputs(ctx context.Context, objects ...any) context.Context {
	return context.WithValue(ctx, inputsKey{}, inputsOf(ctx, objects))
}

// inputsOf adds the inputs of a context to those of a call.
func inputsOf(ctx context.Context, of inputs) inputs {
	more, _ := ctx.Value(inputsKey{}).(inputs)
	return slices.Concat(of, more)
}

// isThrottledText reports whether a text in lower case says that the cloud throttles.
func (in inputs) isThrottledText(text string) bool {
	return slices.ContainsFunc(throttledWords, func(phrase string) bool {
		return strings.Contains(text, phrase) && !in.mayBring(phrase) && !in.mayBringPart(phrase)
	})
}

// hasAnyPhrase reports whether a text in lower case has one of some phrases that the inputs cannot have brought into
// it.
func (in inputs) hasAnyPhrase(text string, phrases []string) bool {
	return slices.ContainsFunc(phrases, func(phrase string) bool {
		return strings.Contains(text, phrase) && !in.mayBring(phrase)
	})
}

// mayBring reports whether an input has a phrase, whatever stands between its letters: providers leave characters out
// of names.
func (in inputs) mayBring(phrase string) bool {
	letters := strings.Join(strings.FieldsFunc(phrase, isBetweenWords), "")
	return letters != "" && in.hasText(func(text string) bool { return hasLetters(text, letters) })
}

// mayBringPart reports whether an input has some words of a phrase of several. The provider's own words next to it may
// be the others, as in "there is no rate" before the name "exceeded-1".
func (in inputs) mayBringPart(phrase string) bool {
	words := strings.Fields(phrase)
	first, last := words[0], words[len(words)-1]
	return len(words) > 1 && in.hasText(func(text string) bool {
		if !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) }) {
			return false
		}
		return slices.ContainsFunc(strings.FieldsFunc(text, isBetweenWords), func(word string) bool {
			return strings.HasSuffix(word, first) || strings.HasPrefix(word, last) || slices.Contains(words, word)
		})
	})
}

// bareStatus finds a number that a provider may put behind a word or a bracket, as a port or the name "429-worker". It
// does not find the number of "worker-429".
var bareStatus = regexp.MustCompile(`(?:^|[^a-z0-9._-])([45][0-9]{2})\b`)

// mayBringStatus reports whether an input has a status with what makes it one, or the bare number.
func (in inputs) mayBringStatus(found, digits string) bool {
	return in.hasText(func(text string) bool {
		if !strings.Contains(text, digits) {
			return false
		}
		isDigits := func(bare []string) bool { return bare[1] == digits }
		return strings.Contains(text, found) || slices.ContainsFunc(bareStatus.FindAllStringSubmatch(text, -1), isDigits)
	})
}

func isBetweenWords(r rune) bool { return !isLetterOrDigit(r) }

func isLetterOrDigit(r rune) bool { return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' }

// hasLetters reports whether letters follow each other in a text, with no other letter or digit between them.
func hasLetters(text, letters string) bool {
	for rest := text; len(rest) >= len(letters); rest = rest[1:] {
		at := strings.IndexByte(rest, letters[0])
		if at < 0 {
			return false
		}
		if rest = rest[at:]; beginsWithLetters(rest, letters) {
			return true
		}
	}
	return false
}

func beginsWithLetters(text, letters string) bool {
	found := 0
	for i := 0; i < len(text) && found < len(letters); i++ {
		switch c := text[i]; {
		case c == letters[found]:
			found++
		case isLetterOrDigit(rune(c)):
			return false
		}
	}
	return found == len(letters)
}

// hasText reports whether a text or a number in the inputs, in lower case, is as asked for.
func (in inputs) hasText(is func(text string) bool) bool {
	return slices.ContainsFunc(in, func(given any) bool {
		return hasTextIn(reflect.ValueOf(given), func(text string) bool { return is(strings.ToLower(text)) })
	})
}

// hasTextIn reports whether a text that a value is made of is as asked for.
func hasTextIn(v reflect.Value, is func(text string) bool) bool {
	switch v.Kind() {
	case reflect.String:
		return is(v.String())
	case reflect.Int, reflect.Int32, reflect.Int64:
		return is(strconv.FormatInt(v.Int(), 10))
	case reflect.Pointer, reflect.Interface:
		return hasTextIn(v.Elem(), is) // of nil it is no value, which has no text
	case reflect.Slice:
		for i := range v.Len() {
			if hasTextIn(v.Index(i), is) {
				return true
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if hasTextIn(entries.Key(), is) || hasTextIn(entries.Value(), is) {
				return true
			}
		}
	case reflect.Struct:
		return hasTextInFields(v, is)
	default:
	}
	return false
}

func hasTextInFields(v reflect.Value, is func(text string) bool) bool {
	if v.Type() == reflect.TypeFor[corev1.NodeStatus]() { // no provider repeats the rest, and images are many
		return hasTextIn(v.FieldByName("Addresses"), is)
	}
	for i := range v.NumField() {
		if field := v.Field(i); field.CanInterface() && hasTextIn(field, is) {
			return true
		}
	}
	return false
}

// loadBalancer is cloudprovider.LoadBalancer.
type loadBalancer struct {
	guarded  *guarded
	provider cloudprovider.LoadBalancer
}

func balancerOf(service *corev1.Service) object {
	return object{"the load balancer of service", service.Namespace + "/" + service.Name}
}

// changeCall is a call that changes a load balancer.
func (b loadBalancer) changeCall(
	ctx context.Context,
	operation string,
	service *corev1.Service,
	nodes []*corev1.Node,
) call {
	caller := b.guarded.guard.caller
	c := caller.write(ctx, operation, balancerOf(service), ClassLoadBalancer, b.guarded.fence, service, nodes)
	c.timeout = caller.options.LoadBalancerTimeout
	return c
}

// GetLoadBalancer implements cloudprovider.LoadBalancer.
func (b loadBalancer) GetLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	type answer struct {
		status *corev1.LoadBalancerStatus
		exists bool
	}
	caller := b.guarded.guard.caller
	a, err := do(
		ctx,
		caller,
		caller.read(ctx, "GetLoadBalancer", balancerOf(service), ClassLoadBalancer, service),
		func(ctx context.Context) (answer, error) {
			status, exists, err := b.provider.GetLoadBalancer(ctx, cluster, service)
			return answer{status, exists}, err
		},
	)
	return a.status, a.exists, err
}

// GetLoadBalancerName implements cloudprovider.LoadBalancer. It can say no error: a provider that panics here gets
// upstream's default for the name.
func (b loadBalancer) GetLoadBalancerName(ctx context.Context, cluster string, service *corev1.Service) (name string) {
	defer func() {
		if p := recover(); p != nil {
			logPanic("GetLoadBalancerName", p)
			name = cloudprovider.DefaultLoadBalancerName(service)
		}
	}()
	return b.provider.GetLoadBalancerName(ctx, cluster, service)
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (b loadBalancer) EnsureLoadBalancer(
	ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	return do(
		ctx,
		b.guarded.guard.caller,
		b.changeCall(ctx, "EnsureLoadBalancer", service, nodes),
		func(ctx context.Context) (*corev1.LoadBalancerStatus, error) {
			return b.provider.EnsureLoadBalancer(ctx, cluster, service, nodes)
		},
	)
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer.
func (b loadBalancer) UpdateLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
	nodes []*corev1.Node,
) error {
	_, err := do(
		ctx,
		b.guarded.guard.caller,
		b.changeCall(ctx, "UpdateLoadBalancer", service, nodes),
		errorOnly(func(ctx context.Context) error {
			return b.provider.UpdateLoadBalancer(ctx, cluster, service, nodes)
		}),
	)
	return err
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (b loadBalancer) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	_, err := do(
		ctx,
		b.guarded.guard.caller,
		b.changeCall(ctx, "EnsureLoadBalancerDeleted", service, nil),
		errorOnly(func(ctx context.Context) error {
			return b.provider.EnsureLoadBalancerDeleted(ctx, cluster, service)
		}),
	)
	return err
}

// routesOf is cloudprovider.Routes.
type routesOf struct {
	guarded  *guarded
	provider cloudprovider.Routes
}

// routeTo names a route by its destination, of which a cloud has one. A route of nil is the provider's to refuse.
func routeTo(route *cloudprovider.Route) object {
	if route == nil {
		return object{kind: "route"}
	}
	return object{"the route to", route.DestinationCIDR}
}

// ListRoutes implements cloudprovider.Routes.
func (r routesOf) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	caller := r.guarded.guard.caller
	c := caller.read(ctx, "ListRoutes", object{"the routes of cluster", cluster}, ClassRoute)
	return do(ctx, caller, c, func(ctx context.Context) ([]*cloudprovider.Route, error) {
		return r.provider.ListRoutes(ctx, cluster)
	})
}

// CreateRoute implements cloudprovider.Routes.
func (r routesOf) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	caller := r.guarded.guard.caller
	_, err := do(
		ctx,
		caller,
		caller.write(ctx, "CreateRoute", routeTo(route), ClassRoute, r.guarded.fence, route),
		errorOnly(func(ctx context.Context) error {
			return r.provider.CreateRoute(ctx, cluster, hint, route)
		}),
	)
	return err
}

// DeleteRoute implements cloudprovider.Routes.
func (r routesOf) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	caller := r.guarded.guard.caller
	_, err := do(
		ctx,
		caller,
		caller.write(ctx, "DeleteRoute", routeTo(route), ClassRoute, r.guarded.fence, route),
		errorOnly(func(ctx context.Context) error {
			return r.provider.DeleteRoute(ctx, cluster, route)
		}),
	)
	return err
}

// zonesOf is cloudprovider.Zones.
type zonesOf struct {
	caller   *caller
	provider cloudprovider.Zones
	retries  bool
}

func (z zonesOf) read(ctx context.Context, operation string, o object) call {
	c := z.caller.read(ctx, operation, o, ClassNode)
	c.retries = z.retries
	return c
}

// GetZone implements cloudprovider.Zones.
func (z zonesOf) GetZone(ctx context.Context) (cloudprovider.Zone, error) {
	return do(ctx, z.caller, z.caller.read(ctx, "GetZone", object{kind: "this machine"}, ClassOther), z.provider.GetZone)
}

// GetZoneByProviderID implements cloudprovider.Zones.
func (z zonesOf) GetZoneByProviderID(ctx context.Context, id string) (cloudprovider.Zone, error) {
	return do(
		ctx,
		z.caller,
		z.read(ctx, "GetZoneByProviderID", instance(id)),
		func(ctx context.Context) (cloudprovider.Zone, error) {
			return z.provider.GetZoneByProviderID(ctx, id)
		},
	)
}

// GetZoneByNodeName implements cloudprovider.Zones.
func (z zonesOf) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	return do(
		ctx,
		z.caller,
		z.read(ctx, "GetZoneByNodeName", nodeNamed(string(name))),
		func(ctx context.Context) (cloudprovider.Zone, error) {
			return z.provider.GetZoneByNodeName(ctx, name)
		},
	)
}

// clustersOf is cloudprovider.Clusters.
type clustersOf struct {
	caller   *caller
	provider cloudprovider.Clusters
}

// ListClusters implements cloudprovider.Clusters.
func (c clustersOf) ListClusters(ctx context.Context) ([]string, error) {
	return do(
		ctx,
		c.caller,
		c.caller.read(ctx, "ListClusters", object{kind: "all clusters"}, ClassOther),
		c.provider.ListClusters,
	)
}

// Master implements cloudprovider.Clusters.
func (c clustersOf) Master(ctx context.Context, cluster string) (string, error) {
	return do(
		ctx,
		c.caller,
		c.caller.read(ctx, "Master", object{"cluster", cluster}, ClassOther),
		func(ctx context.Context) (string, error) {
			return c.provider.Master(ctx, cluster)
		},
	)
}

func instance(providerID string) object { return object{"the instance", providerID} }

func nodeNamed(name string) object { return object{"the instance of node", name} }

// listing is a call for the instances of many nodes.
func (c *caller) listing(ctx context.Context, nodes []*corev1.Node) call {
	o := object{kind: "no nodes"}
	switch len(nodes) {
	case 0:
	case 1:
		o = nodeNamed(nodes[0].Name)
	default:
		o = object{fmt.Sprintf("the instances of %d nodes, the first of which is", len(nodes)), nodes[0].Name}
	}
	return c.read(ctx, "ListInstances", o, ClassNode, nodes)
}
