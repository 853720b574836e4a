package gce

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	compute "google.golang.org/api/compute/v1"

	"github.com/transplant-dev/transplant/provider/gce/client"
)

// project is that of the cluster's instances, and that of its network, which may be another one.
type project struct {
	client *client.Client
	conf   *settingsOf

	waits *rate.Limiter // of questions whether operations have ended
	lists *rate.Limiter // of lists of the zones after the first

	mu    sync.Mutex
	names map[string]string // by project number
	zones []string
}

// waitsPerSecond bounds how often operations are asked for. A question is answered when the operation ends, or after
// two minutes, unless Compute Engine ends it earlier.
const waitsPerSecond = 20

// zonesEvery is how often zones are listed again for a Node in one that is not known. Most regions never get another.
const zonesEvery = 10 * time.Minute

func newProject(reach *client.Client, conf *settingsOf) *project {
	return &project{
		client: reach, conf: conf, names: map[string]string{}, waits: rate.NewLimiter(waitsPerSecond, waitsPerSecond),
		lists: rate.NewLimiter(rate.Every(zonesEvery), 1),
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

// managesRegion reports whether the zones of the local zone's region are managed, and not that zone alone.
func (p *project) managesRegion() bool { return p.conf.Multizone || p.conf.Regional }

// managedZones are the local zone, or all of its region where the config says multizone or regional. In them Nodes
// without a provider ID are looked for, and load balancers find instances. They are listed again where one of the
// region is needed that they lack, at most once in zonesEvery.
func (p *project) managedZones(ctx context.Context, needed ...string) ([]string, error) {
	if !p.managesRegion() {
		return []string{p.conf.LocalZone}, nil
	}
	p.mu.Lock()
	zones := p.zones
	p.mu.Unlock()
	isNew := func(zone string) bool {
		at := zoneName.FindStringSubmatch(zone)
		return at != nil && at[1] == p.conf.Region && !slices.Contains(zones, zone)
	}
	if zones != nil && (!slices.ContainsFunc(needed, isNew) || !p.lists.Allow()) {
		return zones, nil
	}
	zones, err := p.listZones(ctx)
	if err != nil {
		return nil, explain(err, "listing the zones of region %s", p.conf.Region)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.zones = zones
	return zones, nil
}

func (p *project) listZones(ctx context.Context) (zones []string, err error) {
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
	slices.Sort(zones)
	return zones, err
}

// zoneRemedy is what to do about a Node in a zone that is not managed.
func (p *project) zoneRemedy() string {
	if p.managesRegion() {
		return "check local-zone in the cloud config; the zones of its region are listed again every " + zonesEvery.String()
	}
	return "check local-zone in the cloud config, or set multizone=true there"
}
