// Package inventory decides what of an OpenStack project belongs to a cluster: the servers of its nodes, the routes to
// them, its load balancers. It reads only.
package inventory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/internal/inventory"
	"github.com/transplant-dev/transplant/provider/openstack"
	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// Options say which part of an OpenStack project belongs to the cluster.
type Options struct {
	// Cluster is the manager's --cluster-name; empty means: what has the nodes as members.
	Cluster string
	// Router is the one that the route loop writes; empty means: that of the cloud config, or each that leads to nodes.
	Router string
}

// project reads Nova, Neutron and Octavia.
type project struct {
	options Options
	cloud   *openstack.Cloud
	client  *client.Client
}

var _ inventory.Source = (*project)(nil)

// Open makes a source of a project, by the settings behind --cloud=openstack: config, cluster and router. Without
// config, credentials are those of the environment, as for the command openstack. Nothing is asked of the cloud.
func Open(_ context.Context, settings map[string]string) (inventory.Source, error) {
	var (
		options Options
		path    string
	)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		switch key {
		case "config":
			path = settings[key]
		case "cluster":
			options.Cluster = settings[key]
		case "router":
			options.Router = settings[key]
		default:
			return nil, fmt.Errorf("there is no setting %q; there are config, cluster and router", key)
		}
	}
	config := fromEnvironment(os.Getenv)
	if path != "" {
		var err error
		if config, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("reading the cloud config: %w", err)
		}
	} else if len(config) == 0 {
		return nil, fmt.Errorf("opening OpenStack: there are no credentials: export OS_AUTH_URL or OS_CLOUD and what belongs to it, " +
			"or name the cloud config with --cloud=openstack:config=FILE")
	}
	return open(config, options)
}

func open(config []byte, options Options) (*project, error) {
	made, err := openstack.Open(openstack.WithoutLoadBalancers(config), openstack.Options{})
	if err != nil {
		return nil, fmt.Errorf("opening OpenStack: %w", err)
	}
	made.UseFences() // none: a request that changes something is not sent
	options.Router = cmp.Or(options.Router, made.Router())
	return &project{options: options, cloud: made, client: made.Client()}, nil
}

// environment are the variables of the command openstack, by the keys of a cloud config.
var environment = []struct{ key, variable string }{
	{"auth-url", "OS_AUTH_URL"},
	{"username", "OS_USERNAME"},
	{"user-id", "OS_USER_ID"},
	{"password", "OS_PASSWORD"},
	{"tenant-id", "OS_PROJECT_ID"},
	{"tenant-name", "OS_PROJECT_NAME"},
	{"domain-name", "OS_DOMAIN_NAME"},
	{"user-domain-id", "OS_USER_DOMAIN_ID"},
	{"user-domain-name", "OS_USER_DOMAIN_NAME"},
	{"tenant-domain-id", "OS_PROJECT_DOMAIN_ID"},
	{"tenant-domain-name", "OS_PROJECT_DOMAIN_NAME"},
	{"application-credential-id", "OS_APPLICATION_CREDENTIAL_ID"},
	{"application-credential-name", "OS_APPLICATION_CREDENTIAL_NAME"},
	{"application-credential-secret", "OS_APPLICATION_CREDENTIAL_SECRET"},
	{"token", "OS_TOKEN"},
	{"region", "OS_REGION_NAME"},
	{"os-endpoint-type", "OS_INTERFACE"},
	{"ca-file", "OS_CACERT"},
	{"cert-file", "OS_CERT"},
	{"key-file", "OS_KEY"},
	{"cloud", "OS_CLOUD"},
	{"clouds-file", "OS_CLIENT_CONFIG_FILE"},
}

// fromEnvironment is a cloud config of the environment; empty where that names no cloud.
func fromEnvironment(get func(string) string) []byte {
	if get("OS_AUTH_URL") == "" && get("OS_CLOUD") == "" {
		return nil
	}
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	text := "[Global]\n"
	for _, e := range environment {
		if value := get(e.variable); value != "" {
			text += e.key + ` = "` + quoted.Replace(value) + "\"\n"
		}
	}
	if get("OS_CLOUD") != "" {
		text += "use-clouds = true\n"
	}
	return []byte(text)
}

// Inventory reads servers first: by them, routes and load balancers are the cluster's.
func (p *project) Inventory(ctx context.Context, nodes []v1.Node) *v1.CloudInventory {
	inv := &v1.CloudInventory{Provider: openstack.Name}
	failed := func(part string, err error) {
		if err != nil {
			inv.Errors = append(inv.Errors, part+": "+err.Error())
		}
	}
	var err error
	inv.Instances, err = p.instances(ctx, nodes)
	failed(inventory.PartInstances, err)
	inv.Routes, err = p.routes(ctx, inv.Instances)
	failed(inventory.PartRoutes, err)
	floating, err := p.floating(ctx)
	if err == nil {
		inv.LoadBalancers, err = p.balancers(ctx, nodes, floating)
	}
	failed(inventory.PartLoadBalancers, err)
	inv.Leftovers, err = p.leftovers(ctx, floating)
	failed(inventory.PartSecurityGroups, err)
	slices.Sort(inv.Errors)
	return inv
}

// instances asks as the manager does. A node whose question has no answer is left out: it is unknown.
func (p *project) instances(ctx context.Context, nodes []v1.Node) ([]v1.CloudInstance, error) {
	objects := make([]*corev1.Node, len(nodes))
	for i, n := range nodes {
		objects[i] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: corev1.NodeSpec{ProviderID: n.ProviderID},
		}
	}
	states, err := p.cloud.ListInstances(ctx, objects, cloud.WantExists|cloud.WantShutdown|cloud.WantMetadata)
	if err != nil {
		return nil, err
	}
	var (
		out     []v1.CloudInstance
		unknown []string
		found   int
	)
	for i, state := range states {
		placed := v1.CloudInstance{Node: nodes[i].Name, ID: serverOf(nodes[i].ProviderID), Found: state.Exists}
		switch {
		case state.Err != nil && !state.Exists:
			unknown = append(unknown, state.Err.Error())
			continue
		case state.Terminated:
			placed.State = "terminated"
		case state.Shutdown:
			placed.State = "stopped"
		case state.Exists:
			placed.State = "running"
		}
		if m := state.Metadata; m != nil {
			placed.ID, placed.Zone, placed.Type = serverOf(m.ProviderID), m.Zone, m.InstanceType
		}
		if state.Exists {
			found++
		}
		out = append(out, placed)
	}
	if found == 0 && len(out) > 0 {
		// Every node's server gone at once is not what happened. "Not found" would be read as "will be deleted".
		return nil, fmt.Errorf("the project knows none of the nodes' %d servers: it, or the region, is not the cluster's",
			len(out))
	}
	slices.SortFunc(out, func(a, b v1.CloudInstance) int { return strings.Compare(a.Node, b.Node) })
	if len(unknown) > 0 {
		return out, fmt.Errorf("%s", strings.Join(unknown, "; "))
	}
	return out, nil
}

// serverOf is the last part of a providerID: the server's ID.
func serverOf(providerID string) string {
	if !strings.HasPrefix(providerID, openstack.Name+"://") {
		return ""
	}
	return providerID[strings.LastIndex(providerID, "/")+1:]
}
