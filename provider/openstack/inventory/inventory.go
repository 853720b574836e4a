// Package inventory decides what of an OpenStack project belongs to a cluster: the servers of its nodes, the routes to
// them, its load balancers. It reads only.
package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/inventory"
	"github.com/transplant-dev/transplant/internal/inventory/instances"
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

// Open makes a source of a project, by the settings behind --cloud=openstack. Nothing is asked of the cloud.
func Open(_ context.Context, settings map[string]string) (inventory.Source, error) {
	config, options, err := Settings(settings)
	if err != nil {
		return nil, err
	}
	return open(config, options)
}

// Settings reads what stands behind --cloud=openstack: config, cluster and router. It returns the text of a cloud
// config. Without config, credentials are those of the environment, as for the command openstack.
func Settings(settings map[string]string) (config []byte, options Options, err error) {
	path := ""
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		switch key {
		case "config":
			path = settings[key]
		case "cluster":
			options.Cluster = settings[key]
		case "router":
			options.Router = settings[key]
		default:
			return nil, options, fmt.Errorf("there is no setting %q; there are config, cluster and router", key)
		}
	}
	if path != "" {
		if config, err = os.ReadFile(path); err != nil {
			return nil, options, fmt.Errorf("reading the cloud config: %w", err)
		}
		return config, options, nil
	}
	if config = fromEnvironment(os.Getenv); len(config) == 0 {
		return nil, options, errors.New("opening OpenStack: there are no credentials; export OS_AUTH_URL or OS_CLOUD and " +
			"what belongs to it, or name the cloud config with --cloud=openstack:config=FILE")
	}
	return config, options, nil
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
	return instances.Question{
		Provider: p.cloud, IDOf: ServerOf, None: "the project, or the region, is not the cluster's",
	}.List(ctx, nodes)
}

// ServerOf is the last part of a providerID: the server's ID.
func ServerOf(providerID string) string {
	if !strings.HasPrefix(providerID, openstack.Name+"://") {
		return ""
	}
	return providerID[strings.LastIndex(providerID, "/")+1:]
}
