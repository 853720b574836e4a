package azuresim

import (
	"cmp"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/lab/simhttp"
)

// The subscription and what is in it from the beginning.
const (
	Subscription  = "11111111-2222-3333-4444-555555555555"
	Tenant        = "22222222-3333-4444-5555-666666666666"
	Group         = "lab"
	Location      = "westeurope"
	Network       = "lab-net"
	Subnet        = "lab-subnet"
	SecurityGroup = "lab-nsg"
	RouteTable    = "lab-routes"
	ScaleSet      = "workers"
	Set           = "workers-as" // the availability set
	Size          = "Standard_D2s_v3"
	// Identity is whose the tokens of the managed identity are. ClientID is whose those of the secret and of certificates
	// are.
	Identity = "manager-identity"
	ClientID = "99999999-0000-0000-0000-000000000001"
	Secret   = "a-secret-of-the-lab"
)

// Options are the settings of a Cloud.
type Options struct {
	// Polls is how often an operation is asked for before it has ended; 0 for once.
	Polls int
	// PageSize is how many objects a page has; 0 for all.
	PageSize int
}

// object is a resource of the API, as JSON has it.
type object = map[string]any

// Cloud is a simulated Azure of one subscription.
type Cloud struct {
	simhttp.Requests

	options Options
	server  *httptest.Server
	login   *httptest.Server // over TLS

	mu         sync.Mutex
	number     int // of the last ETag, address and operation
	objects    map[string]object
	order      []string // paths of objects, as they were made
	operations map[string]*operation
	failing    *OperationFault
	failures   int // for the fault that there is
	noTokens   bool
	instances  int // of the scale set
	// certificates are those with which ClientID may ask for tokens.
	certificates []*x509.Certificate
}

// Start serves a new cloud on a free port of loopback. Close ends it.
func Start(o Options) *Cloud {
	c := &Cloud{options: o, objects: map[string]object{}, operations: map[string]*operation{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/metadata/endpoints", c.serveEndpoints)
	mux.HandleFunc("/msi/token", c.serveIdentity)
	mux.HandleFunc("/metadata/identity/oauth2/token", c.serveMachineIdentity)
	mux.HandleFunc("/", c.serveManager)
	c.server = httptest.NewServer(mux)
	c.login = httptest.NewTLSServer(http.HandlerFunc(c.ServeLogin))
	in := "/subscriptions/" + Subscription + "/resourceGroups/" + Group + "/providers/Microsoft."
	for path, properties := range map[string]object{
		"Network/virtualNetworks/" + Network + "/subnets/" + Subnet: {"addressPrefix": "10.0.0.0/16"},
		"Network/networkSecurityGroups/" + SecurityGroup:            {"securityRules": []any{}},
		"Network/routeTables/" + RouteTable:                         {"routes": []any{}},
		"Compute/availabilitySets/" + Set:                           {},
		"Compute/virtualMachineScaleSets/" + ScaleSet: {
			"orchestrationMode": "Uniform", "virtualMachineProfile": object{"networkProfile": profileOf("nic")},
		},
	} {
		c.put(in+path, object{"location": Location, "properties": properties})
	}
	return c
}

// Close ends the cloud.
func (c *Cloud) Close() {
	c.server.Close()
	c.login.Close()
}

// ServeHTTP serves the cloud to those who come another way, such as past an audit log.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.server.Config.Handler.ServeHTTP(w, r)
}

// URL is where Resource Manager is.
func (c *Cloud) URL() string { return c.server.URL }

// Env is the environment of a process on a machine of the cloud that has the managed identity.
func (c *Cloud) Env() map[string]string { return EnvAt(c.server.URL) }

// EnvAt is Env for a cloud that is reached at another address, http://host:port.
func EnvAt(address string) map[string]string {
	return map[string]string{"IDENTITY_ENDPOINT": address + "/msi/token", "IDENTITY_HEADER": identityHeader}
}

// Config is an azure.json for the cloud, with the managed identity. More settings are added, in place of others; nil
// takes one away.
func (c *Cloud) Config(more map[string]any) []byte { return ConfigAt(c.server.URL, more) }

// ConfigAt is an azure.json for a cloud that is reached at another address, http://host:port.
func ConfigAt(address string, more map[string]any) []byte {
	all := map[string]any{
		"resourceManagerEndpoint": address, "tenantId": "adfs", "subscriptionId": Subscription, "resourceGroup": Group,
		"location": Location, "vnetName": Network, "subnetName": Subnet, "securityGroupName": SecurityGroup,
		"routeTableName": RouteTable, "vmType": "standard", "primaryAvailabilitySetName": Set, "loadBalancerSku": "standard",
		"useManagedIdentityExtension": true,
	}
	for key, value := range more {
		if all[key] = value; value == nil {
			delete(all, key)
		}
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		panic(err) // it is made above
	}
	return text
}

// Objects name all that a cluster can leave behind: load balancers, public addresses, rules, routes, and the backend
// pools that machines and scale sets are in.
func (c *Cloud) Objects() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, path := range c.order {
		o, name := c.objects[path], below(path)
		switch kind := kindOf(path); kind {
		case "microsoft.network/loadbalancers", "microsoft.network/publicipaddresses":
			if o["ofMachine"] == nil {
				all = append(all, name)
			}
		case "microsoft.network/networksecuritygroups":
			all = append(all, members(name, listIn(o, "properties", "securityRules"))...)
		case "microsoft.network/routetables":
			all = append(all, members(name, listIn(o, "properties", "routes"))...)
		default:
			for _, pool := range poolsOf(o) {
				all = append(all, name+" in "+below(strings.ToLower(pool)))
			}
		}
	}
	return all
}

// State are copies of all objects of the network by their paths, without their ETags: a change that changes nothing
// gives a new one.
func (c *Cloud) State() map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := map[string]any{}
	for _, path := range c.order {
		if strings.HasPrefix(kindOf(path), "microsoft.network/") {
			copied := clone(c.objects[path])
			delete(copied, "etag")
			state[below(path)] = copied
		}
	}
	return state
}

func members(of string, list []any) (all []string) {
	for _, one := range list {
		all = append(all, of+"/"+text(one, "name"))
	}
	return all
}

// Object is a copy of the object of a kind and a name, such as loadBalancers/lab; nil for none.
func (c *Cloud) Object(name string) (found map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, path := range c.order {
		if below(path) == strings.ToLower(name) {
			copied, _ := json.Marshal(c.objects[path]) // it came from JSON
			_ = json.Unmarshal(copied, &found)
		}
	}
	return found
}

// Machine is a virtual machine with one network interface.
type Machine struct {
	Name, IP string
	// Zone is empty for a machine in no zone.
	Zone string
	// ExternalIP may be empty.
	ExternalIP string
	// InScaleSet puts it into the scale set, and not into the availability set. Instance is its number there; 0 for the
	// next one.
	InScaleSet bool
	Instance   int
}

// AddMachine makes a running machine. It returns the provider ID of its node.
func (c *Cloud) AddMachine(m Machine) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	group := "/subscriptions/" + Subscription + "/resourceGroups/" + Group + "/providers/"
	at := group + "Microsoft.Compute/virtualMachines/" + m.Name
	nic, ipConfig := group+"Microsoft.Network/networkInterfaces/"+m.Name+"-nic", "ipconfig1"
	if m.InScaleSet {
		number := cmp.Or(m.Instance, c.instances)
		at = fmt.Sprintf("%sMicrosoft.Compute/virtualMachineScaleSets/%s/virtualMachines/%d", group, ScaleSet, number)
		nic = at + "/networkInterfaces/nic"
		c.instances = max(c.instances, number) + 1
	}
	address := object{
		"primary": true, "privateIPAddress": m.IP, "privateIPAddressVersion": "IPv4", "provisioningState": "Succeeded",
	}
	if m.ExternalIP != "" && !m.InScaleSet {
		public := group + "Microsoft.Network/publicIPAddresses/" + m.Name + "-ip"
		c.put(public, object{"location": Location, "properties": object{"ipAddress": m.ExternalIP}, "ofMachine": true})
		address["publicIPAddress"] = object{"id": public}
	}
	c.put(nic, object{"location": Location, "properties": object{
		"primary": true, "provisioningState": "Succeeded", "virtualMachine": object{"id": at},
		"ipConfigurations": []any{object{"name": ipConfig, "id": nic + "/ipConfigurations/" + ipConfig, "properties": address}},
	}})
	properties := object{
		"provisioningState": "Succeeded", "hardwareProfile": object{"vmSize": Size}, "osProfile": object{"computerName": m.Name},
		"networkProfile": object{"networkInterfaces": []any{object{"id": nic, "properties": object{"primary": true}}}},
		"instanceView":   object{"platformFaultDomain": 1, "statuses": powerIs("running")},
	}
	made := object{"location": Location, "properties": properties}
	if m.Zone != "" {
		made["zones"] = []any{m.Zone}
	}
	if m.InScaleSet {
		made["instanceId"], made["sku"] = nameOf(at), object{"name": Size}
		properties["networkProfileConfiguration"] = profileOf("nic")
	} else {
		properties["availabilitySet"] = object{"id": group + "Microsoft.Compute/availabilitySets/" + Set}
	}
	c.put(at, made)
	return "azure://" + at
}

// AddSecurityRule lets TCP to a port of an address in, by a rule of this name, as others than the cluster's manager do.
func (c *Cloud) AddSecurityRule(name, address, port string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	group := c.objects[strings.ToLower("/subscriptions/"+Subscription+"/resourceGroups/"+Group+
		"/providers/Microsoft.Network/networkSecurityGroups/"+SecurityGroup)]
	rules := append(listIn(group, "properties", "securityRules"), object{"name": name, "properties": object{
		"protocol": "Tcp", "access": "Allow", "direction": "Inbound", "priority": 600,
		"sourceAddressPrefix": "Internet", "sourcePortRange": "*",
		"destinationAddressPrefix": address, "destinationPortRange": port,
	}})
	group["properties"].(object)["securityRules"] = rules
}

// profileOf is how the interfaces of a scale set are made.
func profileOf(nic string) object {
	return object{"networkInterfaceConfigurations": []any{object{"name": nic, "properties": object{
		"primary": true, "ipConfigurations": []any{object{"name": "ipconfig1", "properties": object{
			"primary": true, "privateIPAddressVersion": "IPv4",
		}}},
	}}}}
}

func powerIs(state string) []any {
	return []any{object{"code": "ProvisioningState/succeeded"}, object{"code": "PowerState/" + state}}
}

// SetPower changes whether a machine runs, as its owner's commands do: running, stopped, deallocated.
func (c *Cloud) SetPower(providerID, state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.objects[pathOf(providerID)]
	view, _ := have["properties"].(object)["instanceView"].(object)
	view["statuses"] = powerIs(state)
}

// SetProvisioning changes the provisioning state of a machine, such as Failed.
func (c *Cloud) SetProvisioning(providerID, state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects[pathOf(providerID)]["properties"].(object)["provisioningState"] = state
}

// DeleteMachine deletes a machine and its interface.
func (c *Cloud) DeleteMachine(providerID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := pathOf(providerID)
	for _, path := range slices.Clone(c.order) {
		isNIC := strings.EqualFold(text(c.objects[path], "properties", "virtualMachine", "id"), strings.TrimPrefix(providerID, "azure://"))
		if path == at || isNIC {
			c.drop(path)
		}
	}
}

func pathOf(providerID string) string {
	return strings.ToLower(strings.TrimPrefix(providerID, "azure://"))
}
