package simcloud

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// State is what the cloud holds, each list sorted by name.
type State struct {
	Instances     []api.Instance     `json:"instances"`
	LoadBalancers []api.LoadBalancer `json:"loadBalancers"`
	Routes        []api.Route        `json:"routes"`
}

// Change is what somebody does to the cloud who is not one of its callers: the harness that makes and ends machines, a
// person with a console. It is no call. Removals come before puts; what is put replaces what has its name.
type Change struct {
	RemoveInstances     []string           `json:"removeInstances,omitempty"`
	PutInstances        []api.Instance     `json:"putInstances,omitempty"`
	RemoveLoadBalancers []string           `json:"removeLoadBalancers,omitempty"`
	PutLoadBalancers    []api.LoadBalancer `json:"putLoadBalancers,omitempty"`
	RemoveRoutes        []string           `json:"removeRoutes,omitempty"`
	PutRoutes           []api.Route        `json:"putRoutes,omitempty"`
}

// store holds the state, by name.
type store struct {
	mu        sync.Mutex
	instances map[string]api.Instance
	byID      map[string]string // provider id -> name
	balancers map[string]api.LoadBalancer
	routes    map[string]api.Route
	addresses int // given out to load balancers so far
	recent    [][]string
}

func newStore() *store {
	return &store{
		instances: map[string]api.Instance{},
		byID:      map[string]string{},
		balancers: map[string]api.LoadBalancer{},
		routes:    map[string]api.Route{},
	}
}

// refusal is the answer to a call that cannot be served.
type refusal struct {
	code    int
	message string
}

func (r *refusal) Error() string { return r.message }

func refuse(code int, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// object names what a request is about, and how many instances it asks for.
func object(operation api.Operation, r api.Request) (name string, count int) {
	switch operation {
	case api.DescribeInstances:
		asked := slices.Concat(r.IDs, r.Names)
		if len(asked) == 1 {
			name = asked[0]
		}
		return name, len(asked)
	case api.EnsureLoadBalancer:
		if r.LoadBalancer != nil {
			return r.LoadBalancer.Name, 0
		}
	case api.CreateRoute:
		if r.Route != nil {
			return r.Route.CIDR, 0
		}
	default:
	}
	return r.Name, 0
}

// serve does what a call asks for.
func (s *store) serve(operation api.Operation, r api.Request) (answer api.Response, changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch operation {
	case api.DescribeInstances:
		answer, err = s.describe(r)
	case api.GetLoadBalancer:
		if lb, ok := s.balancers[r.Name]; ok {
			answer.LoadBalancer = &lb
		}
	case api.EnsureLoadBalancer:
		return s.ensure(r.LoadBalancer)
	case api.UpdateLoadBalancer:
		changed, err = s.update(r.Name, r.Members)
	case api.DeleteLoadBalancer:
		_, changed = s.balancers[r.Name]
		delete(s.balancers, r.Name)
	case api.ListRoutes:
		answer.Routes = sorted(s.routes)
	case api.CreateRoute:
		changed, err = s.createRoute(r.Route)
	case api.DeleteRoute:
		if _, changed = s.routes[r.Name]; !changed {
			err = refuse(http.StatusNotFound, "there is no route %q", r.Name)
		}
		delete(s.routes, r.Name)
	default:
		err = refuse(http.StatusNotImplemented, "there is no operation %q", operation)
	}
	return answer, changed, err
}

func (s *store) describe(r api.Request) (api.Response, error) {
	if n := len(r.IDs) + len(r.Names); n == 0 || n > api.MaxInstances {
		return api.Response{}, refuse(
			http.StatusBadRequest,
			"%d instances were asked for; a call may ask for 1 to %d",
			n,
			api.MaxInstances,
		)
	}
	var answer api.Response
	for _, id := range r.IDs {
		if name, ok := s.byID[id]; ok {
			answer.Instances = append(answer.Instances, s.instances[name])
		}
	}
	for _, name := range r.Names {
		if instance, ok := s.instances[name]; ok {
			answer.Instances = append(answer.Instances, instance)
		}
	}
	return answer, nil
}

func (s *store) ensure(wanted *api.LoadBalancer) (api.Response, bool, error) {
	if wanted == nil || wanted.Name == "" {
		return api.Response{}, false, refuse(http.StatusBadRequest, "a load balancer without a name was asked for")
	}
	lb := *wanted
	old, exists := s.balancers[lb.Name]
	if exists && lb.Ingress.Kind == old.Ingress.Kind {
		lb.Ingress.Hostname, lb.Ingress.IP = old.Ingress.Hostname, old.Ingress.IP
	} else {
		s.address(&lb)
	}
	slices.Sort(lb.Members)
	lb.Members = s.shared(lb.Members)
	s.balancers[lb.Name] = lb
	return api.Response{LoadBalancer: &lb}, !exists || !reflect.DeepEqual(old, lb), nil
}

// address gives a load balancer the place where it is reached, out of a range that is nobody's.
func (s *store) address(lb *api.LoadBalancer) {
	s.addresses++
	lb.Ingress.Hostname, lb.Ingress.IP = "", ""
	if lb.Ingress.Kind == api.KindIP {
		lb.Ingress.IP = fmt.Sprintf("198.18.%d.%d", s.addresses/256%256, s.addresses%256)
		return
	}
	lb.Ingress.Hostname = lb.Name + ".lb.sim.example"
}

func (s *store) update(name string, members []string) (bool, error) {
	lb, ok := s.balancers[name]
	if !ok {
		return false, refuse(http.StatusNotFound, "there is no load balancer %q", name)
	}
	members = slices.Sorted(slices.Values(members))
	if slices.Equal(lb.Members, members) {
		return false, nil
	}
	lb.Members = s.shared(members)
	s.balancers[name] = lb
	return true, nil
}

// kept is how many lists of members are remembered to be shared.
const kept = 8

// shared returns an equal list of members, of those that were stored last. 2,000 load balancers of 15,000 members each
// would take a gigabyte.
func (s *store) shared(members []string) []string {
	for _, list := range s.recent {
		if slices.Equal(list, members) {
			return list
		}
	}
	s.recent = append(s.recent, members)
	if len(s.recent) > kept {
		s.recent = slices.Delete(s.recent, 0, 1)
	}
	return members
}

func (s *store) createRoute(route *api.Route) (bool, error) {
	if route == nil || route.Name == "" || route.CIDR == "" {
		return false, refuse(http.StatusBadRequest, "a route without a name or a range was asked for")
	}
	if _, ok := s.instances[route.Node]; !ok {
		return false, refuse(http.StatusNotFound, "there is no instance %q for a route to", route.Node)
	}
	for _, old := range s.routes {
		switch {
		case old == *route:
			return false, nil
		case old.CIDR == route.CIDR || old.Name == route.Name:
			return false, refuse(http.StatusConflict, "there is a route %q of %s already, to %q", old.Name, old.CIDR, old.Node)
		}
	}
	s.routes[route.Name] = *route
	return true, nil
}

// apply makes a change, all of it or nothing.
func (s *store) apply(c Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := c.validate(); err != nil {
		return err
	}
	for _, name := range c.RemoveInstances {
		delete(s.byID, s.instances[name].ProviderID)
		delete(s.instances, name)
	}
	for _, instance := range c.PutInstances {
		delete(s.byID, s.instances[instance.Name].ProviderID)
		s.instances[instance.Name] = instance
		s.byID[instance.ProviderID] = instance.Name
	}
	for _, name := range c.RemoveLoadBalancers {
		delete(s.balancers, name)
	}
	for _, lb := range c.PutLoadBalancers {
		s.balancers[lb.Name] = lb
	}
	for _, name := range c.RemoveRoutes {
		delete(s.routes, name)
	}
	for _, route := range c.PutRoutes {
		s.routes[route.Name] = route
	}
	return nil
}

func (c Change) validate() error {
	var errs []error
	for i, instance := range c.PutInstances {
		if instance.Name == "" || instance.ProviderID == "" {
			errs = append(errs, fmt.Errorf("instance %d of the change has no name or no provider id", i))
		}
	}
	for i, lb := range c.PutLoadBalancers {
		if lb.Name == "" {
			errs = append(errs, fmt.Errorf("load balancer %d of the change has no name", i))
		}
	}
	for i, route := range c.PutRoutes {
		if route.Name == "" {
			errs = append(errs, fmt.Errorf("route %d of the change has no name", i))
		}
	}
	return errors.Join(errs...)
}

func (s *store) loadBalancers() []api.LoadBalancer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.balancers)
}

func (s *store) state() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{sorted(s.instances), sorted(s.balancers), sorted(s.routes)}
}

// sorted returns what a map holds in the order of its keys, never nil.
func sorted[V any](m map[string]V) []V {
	out := make([]V, 0, len(m))
	for _, key := range slices.SortedFunc(maps.Keys(m), cmp.Compare[string]) {
		out = append(out, m[key])
	}
	return out
}
