package gce

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/time/rate"
	compute "google.golang.org/api/compute/v1"

	"github.com/transplant-dev/transplant/provider/gce/client"
)

// project is that of the cluster's instances, and that of its network, which may be another one.
type project struct {
	client *client.Client
	conf   *settingsOf

	waits *rate.Limiter // of questions whether operations have ended

	mu    sync.Mutex
	names map[string]string // by project number
	zones []string
}

// waitsPerSecond bounds how often operations are asked for. A question is answered when the operation ends, or after
// two minutes, unless Compute Engine ends it earlier.
const waitsPerSecond = 20

func newProject(reach *client.Client, conf *settingsOf) *project {
	return &project{
		client: reach, conf: conf, names: map[string]string{}, waits: rate.NewLimiter(waitsPerSecond, waitsPerSecond),
	}
}

func (p *project) compute() *compute.Service { return p.client.Compute }

// pause waits until an operation may be asked for.
func (p *project) pause(ctx context.Context) error { return p.waits.Wait(ctx) }

// networkURL is the address of the cluster's network, as objects name it.
func (p *project) networkURL(project string) string {
	if strings.Contains(p.conf.NetworkName, "/") {
		return p.conf.NetworkName
	}
	return p.resourceURL(project, "global/networks/"+p.conf.NetworkName)
}

// googleAPI is where upstream's provider says that objects are, when the config has no api-endpoint.
const googleAPI = "https://www.googleapis.com/compute/v1/"

func (p *project) resourceURL(project, path string) string {
	return cmp.Or(p.conf.Endpoint, googleAPI) + "projects/" + project + "/" + path
}

// name is the project's name, as it stands in provider IDs. A config may have its number, which Compute Engine is asked
// for once.
func (p *project) name(ctx context.Context) (string, error) { return p.nameOf(ctx, p.conf.ProjectID) }

// networkName is the name of the project that has the network, firewalls and routes.
func (p *project) networkName(ctx context.Context) (string, error) {
	if p.conf.NetworkProjectID == "" {
		return p.name(ctx)
	}
	return p.nameOf(ctx, p.conf.NetworkProjectID)
}

func (p *project) nameOf(ctx context.Context, id string) (string, error) {
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return id, nil
	}
	p.mu.Lock()
	name := p.names[id]
	p.mu.Unlock()
	if name != "" {
		return name, nil
	}
	found, err := p.compute().Projects.Get(id).Context(ctx).Do()
	if err != nil {
		return "", explain(err, "reading the name of project %s", id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names[id] = found.Name
	return found.Name, nil
}

// managedZones are the local zone, or all of its region where the config says multizone or regional. In them Nodes
// without a provider ID are looked for, and load balancers find instances.
func (p *project) managedZones(ctx context.Context) ([]string, error) {
	if !p.conf.Multizone && !p.conf.Regional {
		return []string{p.conf.LocalZone}, nil
	}
	p.mu.Lock()
	zones := p.zones
	p.mu.Unlock()
	if zones != nil {
		return zones, nil
	}
	name, err := p.name(ctx)
	if err != nil {
		return nil, err
	}
	err = p.compute().Zones.List(name).Pages(ctx, func(page *compute.ZoneList) error {
		for _, zone := range page.Items {
			if path.Base(zone.Region) == p.conf.Region {
				zones = append(zones, zone.Name)
			}
		}
		return incomplete(page.Warning)
	})
	if err != nil {
		return nil, explain(err, "listing the zones of region %s", p.conf.Region)
	}
	slices.Sort(zones)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.zones = zones
	return zones, nil
}
