package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/apiversions"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// features are what Octavia can do: its API's minor version, and the driver behind it.
type features struct {
	minor  int
	driver string
	serial bool // it takes one change of a member at a time, and no trees
}

func (f features) isOVN() bool                  { return f.driver == "ovn" }
func (f features) supportsTimeouts() bool       { return f.minor >= 1 && !f.isOVN() }
func (f features) supportsTags() bool           { return f.minor >= 5 }
func (f features) supportsFlavors() bool        { return f.minor >= 6 && !f.isOVN() }
func (f features) supportsAdditiveUpdate() bool { return f.minor >= 11 }
func (f features) supportsRanges() bool         { return f.minor >= 12 }
func (f features) supportsZones() bool          { return f.minor >= 14 && !f.isOVN() }
func (f features) supportsSecondAddress() bool  { return f.minor >= 26 }

// lacksSecondAddress says that Octavia gives a load balancer one address.
func (f features) lacksSecondAddress() string {
	return fmt.Sprintf("that needs version 2.26 of Octavia's API, and this one has 2.%d: have Octavia upgraded, or %s",
		f.minor, single)
}

// supportsHTTPMonitor reports whether members of a protocol can be checked by HTTP, at another port.
func (f features) supportsHTTPMonitor(protocol corev1.Protocol) bool {
	return !f.isOVN() && (protocol == corev1.ProtocolTCP || f.minor >= 16)
}

// check says what of a Service's settings this Octavia cannot do. To leave it out could open a Service to everyone.
func (f features) check(s *settings) error {
	var problems []error
	lacks := func(what string, minor int) {
		problems = append(problems, fmt.Errorf("%s needs version 2.%d of Octavia's API, and this one has 2.%d", what, minor, f.minor))
	}
	for _, p := range s.service.Spec.Ports {
		if p.Protocol == corev1.ProtocolSCTP && f.minor < 23 {
			lacks("a port of protocol SCTP", 23)
		}
	}
	if s.proxy == "PROXYV2" && f.minor < 22 {
		lacks("annotation "+prefix+"proxy-protocol with v2", 22)
	}
	if len(s.allowed) > 0 && !f.supportsRanges() {
		lacks("loadBalancerSourceRanges", 12)
	}
	if s.id != "" && !f.supportsTags() {
		lacks("annotation "+prefix+"load-balancer-id", 5)
	}
	return errors.Join(problems...)
}

// octavia is Octavia, with what it can do.
type octavia struct {
	*gophercloud.ServiceClient
	features

	project string // whose load balancers are seen: a user with more rights sees those of other projects too
}

func readFeatures(ctx context.Context, service *gophercloud.ServiceClient) (minor int, err error) {
	pages, err := apiversions.List(service).AllPages(ctx)
	if err != nil {
		return 0, fmt.Errorf("asking Octavia for its versions: %w", client.Explain(err))
	}
	versions, err := apiversions.ExtractAPIVersions(pages)
	if err != nil {
		return 0, fmt.Errorf("asking Octavia for its versions: %w", err)
	}
	for _, v := range versions {
		if number, err := strconv.Atoi(strings.TrimPrefix(v.ID, "v2.")); err == nil {
			minor = max(minor, number)
		}
	}
	return minor, nil
}

// get reads one load balancer, and when Octavia said so; nil for one that does not exist.
func (o octavia) get(ctx context.Context, id string) (*loadbalancers.LoadBalancer, time.Time, error) {
	result := loadbalancers.Get(ctx, o.ServiceClient, id)
	lb, err := result.Extract()
	if client.NotFound(err) {
		return nil, time.Time{}, nil
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("reading load balancer %s: %w", id, client.Explain(err))
	}
	if lb == nil || lb.ID != id {
		return nil, time.Time{}, fmt.Errorf("reading load balancer %s: the answer has another one, or none", id)
	}
	if lb.ProvisioningStatus == "DELETED" || lb.ProjectID != o.project {
		return nil, time.Time{}, nil
	}
	date, err := http.ParseTime(result.Header.Get("Date"))
	if err != nil {
		date = time.Time{}
	}
	return lb, date, nil
}

// named lists the load balancers of a name that are not deleted.
func (o octavia) named(ctx context.Context, name string) ([]loadbalancers.LoadBalancer, error) {
	all, err := o.list(ctx, "finding load balancer "+name, loadbalancers.ListOpts{Name: name})
	return slices.DeleteFunc(all, func(lb loadbalancers.LoadBalancer) bool { return lb.Name != name }), err
}

// tagged lists the load balancers with one of some tags that are not deleted.
func (o octavia) tagged(ctx context.Context, tags []string) (found []loadbalancers.LoadBalancer, err error) {
	if !o.supportsTags() {
		return nil, nil
	}
	for _, tag := range tags {
		all, err := o.list(ctx, "finding load balancers with tag "+tag, loadbalancers.ListOpts{Tags: []string{tag}})
		if err != nil {
			return nil, err
		}
		for _, lb := range all {
			if slices.Contains(lb.Tags, tag) {
				found = append(found, lb)
			}
		}
	}
	return found, nil
}

// list lists load balancers of the project that are not deleted. A cloud that leaves a filter out says too much.
func (o octavia) list(
	ctx context.Context,
	doing string,
	options loadbalancers.ListOpts,
) ([]loadbalancers.LoadBalancer, error) {
	options.ProjectID = o.project
	all, err := client.List(ctx, doing, loadbalancers.List(o.ServiceClient, options), loadbalancers.ExtractLoadBalancers)
	return slices.DeleteFunc(all, func(lb loadbalancers.LoadBalancer) bool {
		return lb.ID == "" || lb.ProjectID != o.project || lb.ProvisioningStatus == "DELETED"
	}), err
}

// read reads what is below a load balancer in few requests: its listeners, its pools and the monitors. The addresses of
// members are in the status tree. Only with healthPorts are the ports read at which members are checked, by a request
// for each pool.
func (o octavia) read(ctx context.Context, id, project string, healthPorts bool) (*tree, error) {
	reading := "reading the parts of load balancer " + id
	opened := listeners.List(o.ServiceClient, listeners.ListOpts{LoadbalancerID: id})
	allListeners, err := client.List(ctx, reading, opened, listeners.ExtractListeners)
	if err != nil {
		return nil, err
	}
	behind := pools.List(o.ServiceClient, pools.ListOpts{LoadbalancerID: id})
	allPools, err := client.List(ctx, reading, behind, pools.ExtractPools)
	if err != nil {
		return nil, err
	}
	byID := map[string]*pool{}
	monitored := map[string]*pool{}
	for _, p := range allPools {
		if !slices.ContainsFunc(allListeners, func(l listeners.Listener) bool { return l.DefaultPoolID == p.ID }) {
			continue // of a rule that was made by hand
		}
		made := &pool{id: p.ID, name: p.Name, protocol: p.Protocol, method: p.LBMethod, persistence: p.Persistence.Type,
			status: p.ProvisioningStatus}
		byID[p.ID] = made
		if p.MonitorID != "" {
			monitored[p.MonitorID] = made
		}
	}
	if err := o.readMonitors(ctx, id, project, monitored); err != nil {
		return nil, err
	}
	if err := o.readMembers(ctx, id, byID, healthPorts); err != nil {
		return nil, err
	}
	t := &tree{id: id}
	for _, l := range allListeners {
		t.listeners = append(t.listeners, listenerOf(l, byID[l.DefaultPoolID]))
	}
	return t, nil
}

func listenerOf(l listeners.Listener, below *pool) *listener {
	return &listener{
		id: l.ID, name: l.Name, protocol: l.Protocol, port: l.ProtocolPort, connections: l.ConnLimit,
		timeouts: [4]*int{&l.TimeoutClientData, &l.TimeoutMemberConnect, &l.TimeoutMemberData, &l.TimeoutTCPInspect},
		allowed:  normalRanges(l.AllowedCIDRs), headers: maps.Clone(l.InsertHeaders), tls: l.DefaultTlsContainerRef,
		tags: l.Tags, pool: below, status: l.ProvisioningStatus,
	}
}

func (o octavia) readMonitors(ctx context.Context, lb, project string, of map[string]*pool) error {
	if len(of) == 0 {
		return nil
	}
	list := monitors.List(o.ServiceClient, monitors.ListOpts{ProjectID: project})
	all, err := client.List(ctx, "reading the monitors of load balancer "+lb, list, monitors.ExtractMonitors)
	if err != nil {
		return err
	}
	for _, m := range all {
		if p := of[m.ID]; p != nil {
			p.monitor = &monitor{
				id: m.ID, name: m.Name, kind: m.Type, delay: m.Delay, timeout: m.Timeout, retries: m.MaxRetries,
				retriesDown: m.MaxRetriesDown, status: m.ProvisioningStatus,
			}
		}
	}
	for id, p := range of {
		if p.monitor == nil {
			return fmt.Errorf("pool %s of load balancer %s has the monitor %s, and the list of monitors lacks it", p.id, lb, id)
		}
	}
	return nil
}

func (o octavia) readMembers(ctx context.Context, lb string, of map[string]*pool, healthPorts bool) error {
	if len(of) > 1 && !healthPorts {
		return o.readStatuses(ctx, lb, of)
	}
	for id, p := range of {
		list := pools.ListMembers(o.ServiceClient, id, pools.ListMembersOpts{})
		all, err := client.List(ctx, "reading the members of load balancer "+lb, list, pools.ExtractMembers)
		if err != nil {
			return err
		}
		for _, m := range all {
			p.members = append(p.members, member{
				id: m.ID, name: m.Name, address: m.Address, subnet: m.SubnetID, port: m.ProtocolPort, healthPort: m.MonitorPort,
				status: m.ProvisioningStatus,
			})
		}
	}
	return nil
}

// statuses is as much of a status tree as is used.
type statuses struct {
	Statuses struct {
		LoadBalancer struct {
			Listeners []struct {
				ID     string `json:"id"`
				Status string `json:"provisioning_status"`
				Pools  []struct {
					ID      string `json:"id"`
					Status  string `json:"provisioning_status"`
					Members []struct {
						ID      string `json:"id"`
						Name    string `json:"name"`
						Address string `json:"address"`
						Port    int    `json:"protocol_port"`
						Status  string `json:"provisioning_status"`
					} `json:"members"`
				} `json:"pools"`
			} `json:"listeners"`
		} `json:"loadbalancer"`
	} `json:"statuses"`
}

func (o octavia) statuses(ctx context.Context, lb string) (*statuses, error) {
	var s statuses
	_, err := o.Get(ctx, o.ServiceURL("lbaas", "loadbalancers", lb, "status"), &s, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the status tree of load balancer %s: %w", lb, client.Explain(err))
	}
	return &s, nil
}

func (o octavia) readStatuses(ctx context.Context, lb string, of map[string]*pool) error {
	s, err := o.statuses(ctx, lb)
	if err != nil {
		return err
	}
	read := map[string]bool{}
	for _, l := range s.Statuses.LoadBalancer.Listeners {
		for _, p := range l.Pools {
			into := of[p.ID]
			if into == nil || read[p.ID] {
				continue
			}
			read[p.ID], into.unsure = true, true
			for _, m := range p.Members {
				into.members = append(into.members, member{
					id: m.ID, name: m.Name, address: m.Address, port: m.Port, status: m.Status,
				})
			}
		}
	}
	for id := range of {
		if !read[id] {
			return fmt.Errorf("the status tree of load balancer %s lacks pool %s", lb, id)
		}
	}
	return nil
}

// matchesTree reports whether a status tree has the listeners, pools and members of a tree that was read before. None
// of them may be PENDING or in ERROR.
func (s *statuses) matchesTree(t *tree) bool {
	have, want := map[string]bool{}, map[string]bool{}
	note := func(key, status string) {
		if isPending(status) || isErred(status) {
			key += " " + status
		}
		have[key] = true
	}
	for _, l := range s.Statuses.LoadBalancer.Listeners {
		note(l.ID, l.Status)
		for _, p := range l.Pools {
			note(p.ID, p.Status)
			for _, m := range p.Members {
				note(p.ID+member{address: m.Address, port: m.Port}.key(), m.Status)
			}
		}
	}
	for _, l := range t.listeners {
		want[l.id] = true
		if l.pool == nil {
			continue
		}
		want[l.pool.id] = true
		for _, m := range l.pool.members {
			want[l.pool.id+m.key()] = true
		}
	}
	return maps.Equal(have, want)
}

// sendChange sends a change, and has the tree follow it.
func (o octavia) sendChange(ctx context.Context, c change) error {
	url := o.ServiceURL("lbaas") + "/" + c.path
	body := c.body
	if c.kind != "" {
		body = object{c.kind: c.body}
	}
	var (
		answer map[string]struct {
			ID string `json:"id"`
		}
		err error
	)
	switch c.method {
	case http.MethodPost:
		_, err = o.Post(ctx, url, body, &answer, &gophercloud.RequestOpts{OkCodes: []int{200, 201, 202}})
	case http.MethodPut:
		_, err = o.Put(ctx, url, body, nil, &gophercloud.RequestOpts{OkCodes: []int{200, 202}})
	case http.MethodDelete:
		_, err = o.Delete(ctx, url, nil)
		if client.NotFound(err) {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	c.apply(answer[c.kind].ID)
	return nil
}
