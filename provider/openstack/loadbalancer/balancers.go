// Package loadbalancer decides which load balancers of Octavia the Services of a cluster have, and what is changed on
// them. It takes over those of the in-tree provider and of cloud-provider-openstack.
//
//	Service, nodes --settings--> wanted tree -+
//	Octavia --find--> load balancer --read--> tree --diff--> the first change --> Octavia
//	                     +- PENDING: asked again later       +- none: floating IP, status
//
// A change makes the whole load balancer immutable for a while. No call waits for that: each makes one change,
// and asks to be made again.
package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/provider/openstack/client"
	"github.com/transplant-dev/transplant/provider/openstack/cloudconf"
	"github.com/transplant-dev/transplant/provider/openstack/naming"
)

// Balancers are the load balancers of a cluster's Services.
type Balancers struct {
	client  *client.Client
	conf    *cloudconf.Config
	servers Servers
	memory  *entryStore
	notices notices
	now     func() time.Time

	mu       sync.Mutex
	features *features // nil until Octavia was asked
	external string    // the network of floating IPs, if it was found; see floatingNetwork
	stepwise bool      // Octavia has lost parts of a tree: new load balancers are made one part a request
}

var _ cloudprovider.LoadBalancer = (*Balancers)(nil)

// New makes the load balancers of a cloud config. It sends nothing.
func New(
	to *client.Client,
	conf *cloudconf.Config,
	clock clock.PassiveClock,
	servers Servers,
) (*Balancers, error) {
	if conf.LoadBalancer.Enabled && conf.LoadBalancer.ManageSecurityGroups {
		return nil, errors.New("[LoadBalancer] manage-security-groups is not supported: set it to false, and let the security " +
			"group of the nodes accept their node ports (30000-32767) from the subnet of the load balancers. " +
			"Groups that earlier managers made are removed with their Services")
	}
	if conf.LoadBalancer.Enabled && !conf.LoadBalancer.CascadeDelete {
		return nil, errors.New("[LoadBalancer] cascade-delete=false is not supported: this manager deletes a load balancer " +
			"with all below it in one request. Remove the key, or run the official manager where Octavia's driver cannot do that")
	}
	return &Balancers{
		client:  to,
		conf:    conf,
		servers: servers,
		memory:  newMemory(),
		now:     clock.Now,
	}, nil
}

// open is Octavia, once it is known what it can do.
func (b *Balancers) open(ctx context.Context) (octavia, error) {
	service, err := b.client.LoadBalancer(ctx)
	if err != nil {
		return octavia{}, err
	}
	project, err := b.client.Project(ctx)
	if err != nil {
		return octavia{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.features == nil {
		minor, err := readFeatures(ctx, service)
		if err != nil {
			return octavia{}, err
		}
		b.features = &features{
			minor: minor, driver: b.conf.LoadBalancer.LBProvider, serial: b.conf.LoadBalancer.SerialAPICalls,
		}
	}
	return octavia{service, *b.features, project}, nil
}

// GetLoadBalancerName is the name of a new load balancer.
func (b *Balancers) GetLoadBalancerName(_ context.Context, cluster string, service *corev1.Service) string {
	return nameOf(cluster, service)
}

// found is a load balancer that was found, and when Octavia said so.
type found struct {
	*loadbalancers.LoadBalancer

	date time.Time
}

// find finds the load balancer of a Service; nil for none. The ID of its annotation goes first, then the one that is
// known. Then come its names: of now, with former names of the cluster, and of the in-tree provider.
func (b *Balancers) find(ctx context.Context, o octavia, s *settings) (*found, error) {
	id := s.id
	if id == "" {
		id = b.memory.idOf(s.service.UID)
	}
	if id != "" {
		lb, date, err := o.get(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case lb != nil:
			return &found{lb, date}, nil
		case s.id != "":
			return nil, nil
		}
		b.memory.dropLoadBalancer(s.service.UID, id, true)
	}
	for _, name := range s.names() {
		all, err := o.named(ctx, name)
		if err != nil {
			return nil, err
		}
		if len(all) > 1 {
			return nil, ambiguous(name, all)
		}
		if len(all) == 1 {
			b.memory.setID(s.service.UID, all[0].ID)
			return &found{LoadBalancer: &all[0]}, nil
		}
	}
	return nil, nil
}

func ambiguous(name string, all []loadbalancers.LoadBalancer) error {
	return fmt.Errorf("%d load balancers have the name %s (%s): delete or rename all but one, "+
		"or name one in the annotation %sload-balancer-id", len(all), name, idsOf(all), prefix)
}

func idsOf(all []loadbalancers.LoadBalancer) string {
	ids := make([]string, len(all))
	for i, lb := range all {
		ids[i] = lb.ID
	}
	return strings.Join(ids, ", ")
}

// scope says whose a load balancer is. Only the name of one makes it the Service's own. Another cluster may have a
// Service of the same namespace and name, whose load balancer an annotation can name.
func (s *settings) scope(lb *loadbalancers.LoadBalancer) scope {
	in := scope{tag: s.name, adopted: lb.Name == s.legacy, owner: slices.Contains(s.names(), lb.Name)}
	if in.owner && !in.adopted {
		in.tag = lb.Name
	}
	return in
}

// others are the Services that share a load balancer, as its tags name them.
func (s scope) others(lb *loadbalancers.LoadBalancer) (tags []string) {
	for _, tag := range lb.Tags {
		if naming.IsServiceName(tag) && tag != s.tag {
			tags = append(tags, tag)
		}
	}
	return tags
}

// EnsureLoadBalancer makes the load balancer of a Service what it should be, or takes it there by one change and asks
// to be called again.
func (b *Balancers) EnsureLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
	nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	s, err := newSettings(b.conf, cluster, service)
	if err != nil {
		return nil, err
	}
	lb, err := b.reconcile(ctx, s, nodes, true)
	if err != nil {
		return nil, err
	}
	address, err := b.ensureAddress(ctx, s, lb)
	if err != nil {
		return nil, err
	}
	if err := b.noteSingle(ctx, s, lb); err != nil {
		return nil, err
	}
	return b.status(s, shownAddresses(s, lb, address)), nil
}

// UpdateLoadBalancer gives a load balancer the members of now.
func (b *Balancers) UpdateLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
	nodes []*corev1.Node,
) error {
	s, err := newSettings(b.conf, cluster, service)
	if err != nil {
		return err
	}
	_, err = b.reconcile(ctx, s, nodes, false)
	return err
}

// reconcile executes the next change of a Service's load balancer. It returns the load balancer when there is none.
func (b *Balancers) reconcile(
	ctx context.Context,
	s *settings,
	nodes []*corev1.Node,
	create bool,
) (*loadbalancers.LoadBalancer, error) {
	o, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.check(s); err != nil {
		return nil, fmt.Errorf("service %s/%s: %w", s.service.Namespace, s.service.Name, err)
	}
	nodes, targets, err := b.members(ctx, s, nodes)
	if err != nil {
		return nil, err
	}
	lb, err := b.find(ctx, o, s)
	if err != nil {
		return nil, err
	}
	switch {
	case lb == nil && s.id != "":
		return nil, fmt.Errorf("there is no load balancer %s, which the annotation %sload-balancer-id names: "+
			"name one that exists, or remove the annotation", s.id, prefix)
	case lb == nil && !create:
		return nil, fmt.Errorf("service %s/%s has no load balancer in Octavia", s.service.Namespace, s.service.Name)
	case lb == nil:
		return nil, b.create(ctx, o, s, nodes, targets)
	}
	e := b.memory.entry(lb.ID)
	e.mu.Lock()
	defer e.mu.Unlock()
	in := s.scope(lb.LoadBalancer)
	if err := b.checkReady(ctx, o, s, lb.LoadBalancer, in, e); err != nil {
		return nil, err
	}
	if err := b.share(ctx, o, s, lb.LoadBalancer, in, e); err != nil {
		return nil, err
	}
	if targets, err = b.withSecond(ctx, s, lb.LoadBalancer, nodes, targets); err != nil {
		return nil, err
	}
	want := wanted(s, lb.Name, b.memberSubnet(s, lb.LoadBalancer), in.adopted, targets, o.features)
	changes, err := b.changes(ctx, o, e, lb, want, in)
	if err != nil {
		return nil, fmt.Errorf("load balancer %s (%s): %w", lb.Name, lb.ID, err)
	}
	if err := b.makeNext(ctx, o, s, e, lb.LoadBalancer, in, changes); err != nil {
		return nil, err
	}
	e.whole = true
	return lb.LoadBalancer, nil
}

// makeNext makes the next change of a load balancer whose parts are as they were asked to be. It returns an error as
// long as there is one to make, or a part is not.
func (b *Balancers) makeNext(
	ctx context.Context,
	o octavia,
	s *settings,
	e *entry,
	lb *loadbalancers.LoadBalancer,
	in scope,
	changes []change,
) error {
	r := repair{b, o, s, lb, in, e}
	if parts := e.tree.partsIn(in, isPending); len(parts) > 0 {
		return r.unfinished(ctx, parts)
	}
	e.unfinished = time.Time{}
	if len(changes) > 0 { // which may be what gets a part out of ERROR
		return b.makeChange(ctx, o, s, e, lb, changes[0], len(changes))
	}
	parts := e.tree.partsIn(in, isErred)
	if e.erred = len(parts) > 0; e.erred {
		return r.erredParts(ctx, parts)
	}
	return nil
}

// changes compares the tree that is wanted with the one that is known. What this process knows is believed while
// Octavia says that nothing has changed since it was read. What it has changed is read once more at the end.
func (b *Balancers) changes(
	ctx context.Context,
	o octavia,
	e *entry,
	lb *found,
	want *tree,
	in scope,
) ([]change, error) {
	healthPorts := want.checksElsewhere()
	believed, err := b.believes(ctx, o, e, lb, healthPorts)
	if err != nil {
		return nil, err
	}
	for range 2 {
		if !believed {
			read, err := o.read(ctx, lb.ID, lb.ProjectID, healthPorts)
			if err != nil {
				return nil, err
			}
			e.keepTree(read, healthPorts, lb.LoadBalancer, lb.date)
		}
		changes, err := diff(want, e.tree, in, o.features)
		if err != nil || len(changes) > 0 || !e.changed {
			return changes, err
		}
		believed = false
	}
	return nil, nil
}

// checksElsewhere reports whether members are checked at another port than the one that they serve at.
func (t *tree) checksElsewhere() bool {
	for _, l := range t.listeners {
		if kindOf(l.pool.monitor) == "HTTP" {
			return true
		}
	}
	return false
}

func (b *Balancers) believes(ctx context.Context, o octavia, e *entry, lb *found, healthPorts bool) (bool, error) {
	switch {
	case e.tree == nil, healthPorts && !e.healthPorts, !e.unfinished.IsZero(), e.erred && !e.changed:
		return false, nil
	case e.changed:
		return true, nil
	case lb.UpdatedAt.IsZero(), !lb.UpdatedAt.Equal(e.version):
		return false, nil
	case e.settled:
		return true, nil
	}
	s, err := o.statuses(ctx, lb.ID)
	if err != nil || !s.matchesTree(e.tree) {
		return false, err
	}
	e.settled = lb.date.After(lb.UpdatedAt.Add(time.Second))
	return true, nil
}

// makeChange executes a change, and returns the error that asks for the next call.
func (b *Balancers) makeChange(
	ctx context.Context,
	o octavia,
	s *settings,
	e *entry,
	lb *loadbalancers.LoadBalancer,
	c change,
	of int,
) error {
	klog.FromContext(ctx).V(2).Info("Changing a load balancer", "service", klog.KObj(s.service), "loadBalancer", lb.ID,
		"change", c.String())
	err := o.sendChange(ctx, c)
	switch {
	case err == nil:
		e.changed, e.waiting = true, time.Time{}
		after, _ := e.wait(b.now())
		return cloudapi.NewRetryError(
			fmt.Sprintf("load balancer %s (%s) is being changed, %d changes are left", lb.Name, lb.ID, of-1), after)
	case isImmutable(err):
		e.forget()
		after, _ := e.wait(b.now())
		return cloudapi.NewRetryError(
			fmt.Sprintf("load balancer %s (%s) is being changed by another client", lb.Name, lb.ID), after)
	}
	e.forget()
	return fmt.Errorf("changing load balancer %s (%s): %w", lb.Name, lb.ID, s.explain(err))
}

// isImmutable reports whether Octavia refuses a change because another is under way.
func isImmutable(err error) bool {
	return client.Conflict(err) && strings.Contains(client.Explain(err).Error(), "immutable")
}

// explain adds to a refusal what can be done.
func (s *settings) explain(err error) error {
	text := client.Explain(err).Error()
	lower := strings.ToLower(text)
	advice := ""
	switch {
	case strings.Contains(lower, "quota"):
		advice = "raise the quota of the project, or delete what is not used"
	case strings.Contains(lower, "subnet") && strings.Contains(lower, "not found"):
		advice = "the subnet is gone, or of another project: check " + s.placesGiven()
	case strings.Contains(lower, "flavor") && s.flavor != "":
		advice = "check the flavor " + s.flavor + " (flavor-id)"
	}
	if advice == "" {
		return client.Explain(err)
	}
	return fmt.Errorf("%w (%s)", client.Explain(err), advice)
}

// placesGiven names the settings that name subnets.
func (s *settings) placesGiven() string {
	var from []string
	for _, place := range []sourced{s.subnet, s.memberSubnet, s.network} {
		if place.value != "" {
			from = append(from, place.from+" ("+place.value+")")
		}
	}
	if len(from) == 0 {
		return "the subnet of the nodes' ports"
	}
	return strings.Join(from, " and ")
}

// checkReady returns nil for a load balancer that a Service may change, and that can be changed now. Otherwise its
// error says when to ask again, or what to do.
func (b *Balancers) checkReady(
	ctx context.Context,
	o octavia,
	s *settings,
	lb *loadbalancers.LoadBalancer,
	in scope,
	e *entry,
) error {
	if err := s.mayShare(b.conf, lb, in); err != nil {
		return err
	}
	switch status := lb.ProvisioningStatus; {
	case status == "ACTIVE":
		e.waiting = time.Time{}
		return nil
	case status == "ERROR":
		return repair{b, o, s, lb, in, e}.errored(ctx)
	default:
		return b.pending(lb, e)
	}
}

func (b *Balancers) pending(lb *loadbalancers.LoadBalancer, e *entry) error {
	after, since := e.wait(b.now())
	if since > tooLong {
		return fmt.Errorf("load balancer %s (%s) has been %s for %s: Octavia's worker may have died in the middle. "+
			"Ask the cloud's administrator to set its provisioning_status to ERROR in Octavia's database. Octavia has no "+
			"command that ends this state, and refuses a failover in it",
			lb.Name, lb.ID, lb.ProvisioningStatus, since.Round(time.Minute))
	}
	return cloudapi.NewRetryError(fmt.Sprintf("load balancer %s (%s) is %s", lb.Name, lb.ID, lb.ProvisioningStatus), after)
}

// mayShare says why a Service may not use a load balancer that is not its own. It comes before all else that an error
// could say of it: a tenant learns nothing of the load balancers of others.
func (s *settings) mayShare(conf *cloudconf.Config, lb *loadbalancers.LoadBalancer, in scope) error {
	switch {
	case in.owner:
		return nil
	case s.internal:
		return fmt.Errorf("service %s/%s is internal, and load balancer %s is not its own: an internal Service needs a load "+
			"balancer of its own, remove the annotation %sload-balancer-id", s.service.Namespace, s.service.Name, lb.ID, prefix)
	case slices.Contains(lb.Tags, in.tag), conf.LoadBalancer.ShareAcrossNamespaces, s.isOfNamespace(lb, in):
		return nil
	}
	return fmt.Errorf("load balancer %s is not one of namespace %s, and a Service shares those of its own namespace: "+
		"remove the annotation %sload-balancer-id, or set [LoadBalancer] share-across-namespaces=true in the cloud config, "+
		"which lets each Service share each load balancer of the project", lb.ID, s.service.Namespace, prefix)
}

// share puts the Service's tag on a load balancer that is not its own, before anything else. The owner keeps a load
// balancer that has another Service's tag.
func (b *Balancers) share(
	ctx context.Context,
	o octavia,
	s *settings,
	lb *loadbalancers.LoadBalancer,
	in scope,
	e *entry,
) error {
	if in.owner || slices.Contains(lb.Tags, in.tag) {
		return nil
	}
	// The whole list of tags is written, and it was read before the lock: another Service's tag may have come since.
	lb, _, err := o.get(ctx, lb.ID)
	switch {
	case err != nil:
		return err
	case lb == nil:
		return cloudapi.NewRetryError("load balancer "+s.id+" was deleted meanwhile", shortestWait)
	}
	if err := s.mayShare(b.conf, lb, in); err != nil {
		return err
	}
	if others := in.others(lb); len(others)+1 > b.conf.LoadBalancer.MaxSharedLB {
		return fmt.Errorf("load balancer %s is used by %d Services (%s): [LoadBalancer] max-shared-lb in the cloud config is %d",
			lb.ID, len(others), strings.Join(others, ", "), b.conf.LoadBalancer.MaxSharedLB)
	}
	if err := b.leaveOthers(ctx, o, s, lb.ID); err != nil {
		return err
	}
	return b.makeChange(ctx, o, s, e, lb, tagChange(lb, append(slices.Clone(lb.Tags), in.tag)), 1)
}

// isOfNamespace reports whether a load balancer belongs to Services of a Service's own namespace, by its name and tags.
// A tenant who learns an ID would get ports of another tenant's address else. One that was made by hand has the name of
// no Service: it is for the namespace that comes first, while it has no listeners.
func (s *settings) isOfNamespace(lb *loadbalancers.LoadBalancer, in scope) bool {
	names := in.others(lb)
	_, inTree := naming.OfBalancer(lb.Name) // its name has a UID, which says no namespace
	if inTree || naming.IsServiceName(lb.Name) {
		names = append(names, lb.Name)
	}
	if len(names) == 0 {
		return len(lb.Listeners) == 0
	}
	var clusters []string // the cluster's name, and those that it had before
	for _, own := range s.names() {
		if mine, ok := naming.OfBalancer(own); ok && mine.UID == "" {
			clusters = append(clusters, mine.Cluster)
		}
	}
	return !slices.ContainsFunc(names, func(name string) bool {
		owner, ok := naming.OfBalancer(name)
		return !ok || owner.Namespace != s.service.Namespace || !slices.Contains(clusters, owner.Cluster)
	})
}

func tagChange(lb *loadbalancers.LoadBalancer, tags []string) change {
	return change{
		method: http.MethodPut, path: "loadbalancers/" + lb.ID, kind: "loadbalancer",
		body: object{"tags": append([]string{}, tags...)}, apply: func(string) {},
	}
}

// GetLoadBalancer returns the address of a load balancer, and whether there is one. For a Service that is leaving there
// is one while anything of it is left.
func (b *Balancers) GetLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	o, err := b.open(ctx)
	if err != nil {
		return nil, false, err
	}
	s := b.lenient(cluster, service)
	if isLeaving(service) {
		left, err := b.isLeft(ctx, o, s)
		return &corev1.LoadBalancerStatus{}, left, err
	}
	lb, err := b.find(ctx, o, s)
	if err != nil || lb == nil {
		return &corev1.LoadBalancerStatus{}, false, err
	}
	address, err := b.addressNow(ctx, s, lb.LoadBalancer)
	if err != nil {
		return nil, false, err
	}
	if address == "" {
		return &corev1.LoadBalancerStatus{}, true, nil
	}
	return b.status(s, shownAddresses(s, lb.LoadBalancer, address)), true, nil
}

func isLeaving(service *corev1.Service) bool {
	return service.DeletionTimestamp != nil || service.Spec.Type != corev1.ServiceTypeLoadBalancer
}

// lenient reads what is needed to find a Service's load balancer and to delete it. What is wrong with other annotations
// must not keep it.
func (b *Balancers) lenient(cluster string, service *corev1.Service) *settings {
	if s, err := newSettings(b.conf, cluster, service); err == nil {
		return s
	}
	r := &reader{annotations: service.Annotations}
	s := &settings{identity: readIdentity(r, b.conf, cluster, service)}
	s.readProxy(r)
	return s
}
