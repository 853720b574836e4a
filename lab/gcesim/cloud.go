package gcesim

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/transplant-dev/transplant/lab/simhttp"
)

// The project and what is in it from the beginning.
const (
	Project = "lab-project"
	Region  = "europe-west3"
	Zone    = "europe-west3-a"
	Network = "lab"
	// NodeTag is on every instance; MachineType is what it is.
	NodeTag     = "node"
	MachineType = "e2-standard-4"
	// Account is the identity of the tokens that the metadata server gives.
	Account = "manager@lab-project.iam.gserviceaccount.com"
)

// firstZones are those of the region from the beginning.
var firstZones = []string{Zone, "europe-west3-b", "europe-west3-c"}

// Options are the settings of a Cloud.
type Options struct {
	// PageSize is how many objects a page has at most; 0 for as many as were asked for.
	PageSize int
	// Front is put in front of the Compute API; nil for nothing.
	Front func(http.Handler) http.Handler
}

// Describe is a request as it would be counted, with the service that it is to: "compute" or "metadata".
func Describe(r *http.Request) (service string, call simhttp.Call) {
	service, call = "metadata", simhttp.Call{Method: r.Method, Path: r.URL.Path}
	if below, isCompute := belowRoot(r.URL.Path); isCompute {
		service = "compute"
		_, call.Path, _ = strings.Cut(below, "/") // the project
	}
	call.Mutates = !isRead(call.Method, call.Path)
	return service, call
}

func isRead(method, path string) bool {
	return method == http.MethodGet || strings.HasSuffix(path, "/wait") || strings.HasSuffix(path, "/listInstances")
}

// object is a resource of the API, as JSON has it.
type object = map[string]any

// Cloud is a simulated Compute Engine of one project.
type Cloud struct {
	simhttp.Requests

	options Options
	server  *httptest.Server

	mu     sync.Mutex
	number int               // of the last object
	tokens map[string]string // whose each is
	// accounts are service accounts by their e-mail addresses.
	accounts map[string]*account
	noToken  int // the status with which the metadata server refuses tokens; 0 for none
	objects  map[string]object
	order    []string // paths of objects, as they were made
	// failing is the fault of operations from now on, and failed are the errors with which operations will end.
	failing   *OperationFault
	isFailing bool
	failed    map[string]object
	// unreachable are zones that a list of all lacks.
	unreachable []string
}

// Start serves a new cloud on a free port of loopback. Close ends it.
func Start(o Options) *Cloud {
	c := &Cloud{
		options: o, tokens: map[string]string{}, accounts: map[string]*account{}, objects: map[string]object{},
		failed: map[string]object{},
	}
	compute := http.Handler(http.HandlerFunc(c.serveCompute))
	if o.Front != nil {
		compute = o.Front(compute)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/computeMetadata/v1/", c.serveMetadata)
	mux.HandleFunc("/token", c.serveToken)
	mux.Handle("/compute/v1/", compute)
	mux.Handle("/compute/beta/", compute)
	c.server = httptest.NewServer(mux)
	for _, zone := range firstZones {
		c.AddZone(zone)
	}
	c.put("regions/"+Region, object{"name": Region, "status": "UP"})
	c.put("global/networks/"+Network, object{"name": Network, "autoCreateSubnetworks": false})
	return c
}

// AddZone gives the region another zone.
func (c *Cloud) AddZone(zone string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put("zones/"+zone, object{"name": zone, "status": "UP", "region": c.link("regions/" + Region)})
}

// zones are the names of those of the region.
func (c *Cloud) zones() (all []string) {
	for _, at := range c.order {
		if zone, isZone := strings.CutPrefix(at, "zones/"); isZone && !strings.Contains(zone, "/") {
			all = append(all, zone)
		}
	}
	return all
}

// Close ends the cloud.
func (c *Cloud) Close() { c.server.Close() }

// ServeHTTP serves the cloud to those who come another way, such as past an audit log.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.server.Config.Handler.ServeHTTP(w, r)
}

// MetadataHost is the value of GCE_METADATA_HOST for the cloud.
func (c *Cloud) MetadataHost() string { return strings.TrimPrefix(c.server.URL, "http://") }

// Config is a gce.conf for the cloud, with the lines of more at its end.
func (c *Cloud) Config(more ...string) []byte { return ConfigAt(c.server.URL, more...) }

// ConfigAt is a gce.conf for a cloud that is reached at another address, http://host:port.
func ConfigAt(address string, more ...string) []byte {
	lines := []string{
		"[global]",
		"api-endpoint = " + address + "/compute/v1/",
		"project-id = " + Project,
		"local-zone = " + Zone,
		"network-name = " + Network,
		"node-tags = " + NodeTag,
	}
	return []byte(strings.Join(append(lines, more...), "\n") + "\n")
}

// Objects are the paths of all objects of load balancers and routes.
func (c *Cloud) Objects() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, path := range c.order {
		parts := strings.Split(path, "/")
		if len(parts) < 3 || parts[len(parts)-2] == "instances" || parts[len(parts)-2] == "operations" ||
			parts[len(parts)-2] == "networks" {
			continue
		}
		all = append(all, path)
	}
	return all
}

// Object is a copy of the object at a path, such as global/firewalls/x; nil for none.
func (c *Cloud) Object(path string) (found map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, err := json.Marshal(c.objects[path])
	if err != nil || c.objects[path] == nil {
		return nil
	}
	if json.Unmarshal(text, &found) != nil {
		return nil
	}
	return found
}

// Instance is a virtual machine.
type Instance struct {
	Name string
	// Zone is empty for Zone.
	Zone string
	// IP and ExternalIP may be empty.
	IP, ExternalIP string
	// AliasRanges are the ranges for pods of its interface, such as 10.4.0.0/24, and IPv6 the first address of its own
	// range of IPv6; empty for none.
	AliasRanges []string
	IPv6        string
}

// AddInstance makes a running instance.
func (c *Cloud) AddInstance(i Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i.Zone == "" {
		i.Zone = Zone
	}
	nic := object{"name": "nic0", "network": "global/networks/" + Network, "networkIP": i.IP}
	if i.ExternalIP != "" {
		nic["accessConfigs"] = []any{object{"name": "external", "natIP": i.ExternalIP}}
	}
	if i.IPv6 != "" {
		nic["ipv6Address"], nic["ipv6AccessType"] = i.IPv6, "INTERNAL"
	}
	setAliases(nic, i.AliasRanges)
	made := object{
		"name": i.Name, "status": "RUNNING", "zone": c.link("zones/" + i.Zone),
		"machineType": c.link("zones/" + i.Zone + "/machineTypes/" + MachineType),
		"tags":        object{"items": []any{NodeTag}},
	}
	if i.IP != "" {
		made["networkInterfaces"] = []any{nic}
	}
	c.put("zones/"+i.Zone+"/instances/"+i.Name, made)
}

// setAliases gives an interface ranges for pods. An interface without any lacks the field.
func setAliases(nic object, ranges []string) {
	delete(nic, "aliasIpRanges")
	var all []any
	for _, one := range ranges {
		all = append(all, object{"ipCidrRange": one, "subnetworkRangeName": "pods"})
	}
	if len(all) > 0 {
		nic["aliasIpRanges"] = all
	}
}

// SetAliasRanges changes the ranges for pods of an instance's interface, as its owner's command does.
func (c *Cloud) SetAliasRanges(zone, name string, ranges ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	nics, _ := c.objects["zones/"+zone+"/instances/"+name]["networkInterfaces"].([]any)
	for _, one := range nics {
		if nic, ok := one.(object); ok {
			setAliases(nic, ranges)
		}
	}
}

// SetStatus changes the status of an instance, as its owner's commands do: RUNNING, STOPPING, TERMINATED, SUSPENDED.
func (c *Cloud) SetStatus(zone, name, status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects["zones/"+zone+"/instances/"+name]["status"] = status
}

// DeleteInstance deletes an instance.
func (c *Cloud) DeleteInstance(zone, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop("zones/" + zone + "/instances/" + name)
}

// SetUnreachable has lists of all zones lack the instances of some, with a warning.
func (c *Cloud) SetUnreachable(zones ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unreachable = zones
}

// RefuseTokens has the metadata server refuse tokens with a status, 0 for none, and Compute Engine those that it gave.
func (c *Cloud) RefuseTokens(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noToken, c.tokens = status, map[string]string{}
}

// serveMetadata answers as the metadata server of an instance.
func (c *Cloud) serveMetadata(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Metadata-Flavor") != "Google" {
		http.Error(w, "the header Metadata-Flavor is missing", http.StatusForbidden)
		return
	}
	w.Header().Set("Metadata-Flavor", "Google")
	c.mu.Lock()
	defer c.mu.Unlock()
	switch path := strings.TrimPrefix(r.URL.Path, "/computeMetadata/v1/"); path {
	case "project/project-id":
		_, _ = w.Write([]byte(Project)) // the client may have left
	case "instance/zone":
		_, _ = w.Write([]byte("projects/1234567890/zones/" + Zone))
	case "instance/network-interfaces/0/network":
		_, _ = w.Write([]byte("projects/1234567890/networks/" + Network))
	case "instance/service-accounts/default/token":
		if c.noToken != 0 {
			http.Error(w, "no token", c.noToken)
			return
		}
		simhttp.WriteJSON(w, http.StatusOK, c.issue(Account))
	case "instance/service-accounts/default/email":
		_, _ = w.Write([]byte(Account))
	default:
		http.NotFound(w, r)
	}
}
