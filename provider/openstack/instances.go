package openstack

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/pagination"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// maxNodes is how many nodes are asked for in one call. All servers of the project are listed for them, so that more
// nodes cost nothing.
const maxNodes = 10_000

// serversPerPage is Nova's own limit of a page (osapi_max_limit), unless an administrator has lowered it.
const serversPerPage = 1000

// lookups is how many servers are asked for one by one in a call, to be sure that they do not exist. Those that are
// left over are not known.
const lookups = 20

// instances reads the servers of nodes.
type instances struct {
	client    *client.Client
	region    string
	regional  bool // provider IDs have the region in them
	addresses addressing
	book      *addressIndex // nil for none
}

// asked is a question about the server of one node.
type asked struct {
	id, name string // one of both
	err      error
}

// providerID has two forms: openstack:///ID and openstack://REGION/ID. Kubernetes issue 85731: a node may have the ID
// alone. Only a UUID is an ID: anything else would be another path of Nova's API, such as servers/detail.
var providerID = regexp.MustCompile(
	`^(?:openstack://([^/]*)/)?([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$`)

func (i *instances) queryFor(node *corev1.Node) asked {
	if node.Spec.ProviderID == "" {
		return asked{name: node.Name}
	}
	match := providerID.FindStringSubmatch(node.Spec.ProviderID)
	switch {
	case match == nil:
		return asked{
			err: fmt.Errorf("the providerID %q of node %q is not of the form openstack:///ID or openstack://REGION/ID, "+
				"with the UUID of a server: delete the Node, and have its kubelet register it again",
				node.Spec.ProviderID, node.Name),
		}
	case match[1] != "" && i.region != "" && match[1] != i.region:
		return asked{err: fmt.Errorf("the providerID %q of node %q is for region %s, and this manager's is %s",
			node.Spec.ProviderID, node.Name, match[1], i.region)}
	}
	return asked{id: strings.ToLower(match[2])}
}

// list describes the servers of nodes. It makes one request for each 1,000 servers of the project, one for its ports,
// and one for each server that the list lacks. A single node is asked for alone.
func (i *instances) list(ctx context.Context, nodes []*corev1.Node, want cloud.Want) ([]cloud.InstanceState, error) {
	questions := make([]asked, len(nodes))
	for n, node := range nodes {
		questions[n] = i.queryFor(node)
	}
	nova, err := i.client.Compute(ctx)
	if err != nil {
		return nil, err
	}
	found := newAnswers()
	if len(nodes) > 1 || questions[0].name != "" {
		if err := found.listAll(ctx, nova, questions); err != nil {
			return nil, err
		}
	}
	if err := found.lookUp(ctx, nova, questions); err != nil {
		return nil, err
	}
	states := make([]cloud.InstanceState, len(nodes))
	described := map[string]*servers.Server{}
	for n, q := range questions {
		server, err := found.to(q)
		states[n] = stateOf(server, err)
		if states[n].Exists && want&cloud.WantMetadata != 0 {
			described[server.ID] = server
		}
	}
	if len(described) == 0 {
		return states, nil
	}
	ports, err := i.addresses.read(ctx, described)
	if err != nil {
		return nil, err
	}
	i.book.addServers(described, ports)
	for n, q := range questions {
		if server, _ := found.to(q); states[n].Exists && described[server.ID] != nil {
			states[n].Metadata, states[n].Err = i.metadata(server, ports)
		}
	}
	return states, nil
}

// stateOf reads the state of a server. A server exists as long as Nova describes it, unless as deleted. One that is
// stopped keeps vm_state stopped while it is resized or migrated, when its status says RESIZE or MIGRATING. The
// shutdown taint must not come and go. A soft-deleted one is off, and may be restored.
func stateOf(server *servers.Server, err error) cloud.InstanceState {
	if err != nil || server == nil {
		return cloud.InstanceState{Err: err}
	}
	switch server.Status {
	case "DELETED":
		return cloud.InstanceState{Terminated: true}
	case "SHUTOFF", "SHELVED", "SHELVED_OFFLOADED", "SOFT_DELETED":
		return cloud.InstanceState{Exists: true, Shutdown: true}
	}
	return cloud.InstanceState{Exists: true, Shutdown: server.VmState == "stopped"}
}

func (i *instances) metadata(
	server *servers.Server,
	ports map[string][]port,
) (*cloudprovider.InstanceMetadata, error) {
	kind, err := flavorOf(server)
	if err != nil {
		return nil, err
	}
	addresses, err := i.addresses.addressesOf(server, ports)
	if err != nil {
		return nil, err
	}
	id := "openstack:///" + server.ID
	if i.regional {
		id = "openstack://" + i.region + "/" + server.ID
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:    id,
		InstanceType:  kind,
		NodeAddresses: addresses,
		Zone:          labelValue(server.AvailabilityZone),
		Region:        i.region,
	}, nil
}

// flavorOf is the flavor's name, or its ID where the name cannot be a label. In tree, it was the ID.
func flavorOf(server *servers.Server) (string, error) {
	for _, key := range []string{"original_name", "id"} {
		if value, ok := server.Flavor[key].(string); ok && value != "" && len(validation.IsValidLabelValue(value)) == 0 {
			return value, nil
		}
	}
	name, _ := server.Flavor["original_name"].(string)
	return "", fmt.Errorf("server %s has the flavor %q, which cannot be the value of a label", server.ID, name)
}

// labelValue makes a zone's name a label's value, as the external provider does.
func labelValue(s string) string {
	s = notInLabels.ReplaceAllString(s, "-")
	return strings.Trim(s[:min(len(s), validation.LabelValueMaxLength)], "-_.")
}

var notInLabels = regexp.MustCompile(`[^-A-Za-z0-9_.]`)

// errLeftOut is that the list lacks a server and that it was not asked for alone.
var errLeftOut = errors.New("the list of servers lacks it, and it was not asked for alone yet; it will be asked again")

// answers are what Nova said about servers. An ID or a name that is in none of the maps is not known.
type answers struct {
	byID   map[string]*servers.Server
	byName map[string][]*servers.Server // by lower-case name: Nova looks names up without regard to case
	gone   map[string]bool              // IDs and names of which Nova has said that there is no such server
	failed map[string]error             // by ID: what Nova says of this server alone
}

func newAnswers() *answers {
	return &answers{
		byID:   map[string]*servers.Server{},
		byName: map[string][]*servers.Server{},
		gone:   map[string]bool{},
		failed: map[string]error{},
	}
}

// to is the answer to one question: nil for a server that does not exist.
func (a *answers) to(q asked) (*servers.Server, error) {
	switch {
	case q.err != nil:
		return nil, q.err
	case q.id != "" && a.byID[q.id] != nil:
		return a.byID[q.id], nil
	case a.failed[q.id] != nil:
		return nil, a.failed[q.id]
	case q.id != "" && !a.gone[q.id]:
		return nil, fmt.Errorf("asking Nova for server %s: %w", q.id, errLeftOut)
	case q.id != "":
		return nil, nil
	}
	named := a.byName[strings.ToLower(q.name)]
	exact := slices.DeleteFunc(slices.Clone(named), func(s *servers.Server) bool { return s.Name != q.name })
	if len(exact) > 0 {
		named = exact
	}
	switch {
	case len(named) == 1:
		return named[0], nil
	case len(named) > 1:
		ids := make([]string, len(named))
		for i, server := range named {
			ids[i] = server.ID
		}
		slices.Sort(ids)
		return nil, fmt.Errorf("%d servers have the name of node %q (%s): rename or delete all but one, "+
			"or give the kubelet its --provider-id", len(named), q.name, strings.Join(ids, ", "))
	case a.gone[q.name]:
		return nil, nil
	}
	return nil, fmt.Errorf("asking Nova for the server with the name of node %q: %w", q.name, errLeftOut)
}

// listServers lists the servers of the project. A page that fails fails the whole list.
func listServers(ctx context.Context, nova *gophercloud.ServiceClient) ([]servers.Server, error) {
	pages, err := servers.List(nova, servers.ListOpts{Limit: serversPerPage}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing servers: %w", client.Explain(err))
	}
	all, err := servers.ExtractServers(pages)
	if err != nil {
		return nil, fmt.Errorf("listing servers: %w", err)
	}
	return all, nil
}

// listAll lists the servers of the project, and keeps those that are asked for.
func (a *answers) listAll(ctx context.Context, nova *gophercloud.ServiceClient, questions []asked) error {
	ids, names := map[string]bool{}, map[string]bool{}
	for _, q := range questions {
		ids[q.id], names[strings.ToLower(q.name)] = true, true
	}
	all, err := listServers(ctx, nova)
	if err != nil {
		return err
	}
	for i := range all {
		server := &all[i]
		if ids[server.ID] {
			a.byID[server.ID] = server
		}
		if name := strings.ToLower(server.Name); names[name] {
			a.byName[name] = append(a.byName[name], server)
		}
	}
	return nil
}

// lookUp asks alone for servers that the list lacks. Nodes are deleted for the answer, and a list may have lost a page.
func (a *answers) lookUp(ctx context.Context, nova *gophercloud.ServiceClient, questions []asked) error {
	left := lookups
	for _, q := range questions {
		missing := q.err == nil &&
			(q.id != "" && a.byID[q.id] == nil || q.name != "" && len(a.byName[strings.ToLower(q.name)]) == 0)
		if !missing || left == 0 {
			continue
		}
		left--
		var err error
		if q.id != "" {
			err = a.get(ctx, nova, q.id)
		} else {
			err = a.findByName(ctx, nova, q.name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *answers) get(ctx context.Context, nova *gophercloud.ServiceClient, id string) error {
	server, err := servers.Get(ctx, nova, id).Extract()
	switch {
	case err == nil && server.ID == id:
		a.byID[id] = server
	case err == nil:
		a.failed[id] = fmt.Errorf("asking Nova for server %s: it answers with server %q", id, server.ID)
	case client.NotFound(err):
		a.gone[id] = true
	case client.RefusesObject(err):
		a.failed[id] = fmt.Errorf("asking Nova for server %s: %w", id, client.Explain(err))
	default:
		return fmt.Errorf("asking Nova for server %s: %w", id, client.Explain(err))
	}
	return nil
}

func (a *answers) findByName(ctx context.Context, nova *gophercloud.ServiceClient, name string) error {
	options := servers.ListOpts{Name: "^" + regexp.QuoteMeta(name) + "$"}
	pages, err := servers.List(nova, options).AllPages(ctx)
	if err != nil {
		return fmt.Errorf("asking Nova for the server with the name of node %q: %w", name, client.Explain(err))
	}
	found, err := servers.ExtractServers(pages)
	if err != nil {
		return fmt.Errorf("asking Nova for the server with the name of node %q: %w", name, err)
	}
	for i := range found {
		if strings.EqualFold(found[i].Name, name) {
			a.byName[strings.ToLower(name)] = append(a.byName[strings.ToLower(name)], &found[i])
		}
	}
	a.gone[name] = len(a.byName[strings.ToLower(name)]) == 0
	return nil
}

// probe asks for one server: the cheapest question that needs credentials.
func (i *instances) probe(ctx context.Context) error {
	nova, err := i.client.Compute(ctx)
	if err != nil {
		return err
	}
	err = servers.ListSimple(nova, servers.ListOpts{Limit: 1}).
		EachPage(ctx, func(context.Context, pagination.Page) (bool, error) {
			return false, nil
		})
	if err != nil {
		return fmt.Errorf("asking Nova for a server: %w", client.Explain(err))
	}
	return nil
}
