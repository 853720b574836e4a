// Package vsphere decides what the vSphere cloud-controller-manager does in the cloud: which virtual machine is a
// node's, and which addresses and labels it gets. It takes over from the in-tree provider and from
// cloud-provider-vsphere, whose cloud configs it reads.
//
//	cloud config --cloudconf--> one client.VCenter for each vCenter
//	controllers --> Cloud --> inventory: one list for each vCenter --> client --> vCenter
//	                            \--> finder: which machine is the node's --> addresses, zone, type
//
// It has no load balancers and no routes: vSphere has none. It changes nothing in vSphere.
package vsphere

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	settings "k8s.io/cloud-provider/config"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/provider/startup"
	"github.com/transplant-dev/transplant/provider/transport"
	"github.com/transplant-dev/transplant/provider/vsphere/client"
	"github.com/transplant-dev/transplant/provider/vsphere/cloudconf"
)

// Name is the provider's name in --cloud-provider and in provider IDs.
const Name = "vsphere"

// maxNodes is how many nodes are asked for in one call. All machines are listed for them, so that more nodes cost
// nothing.
const maxNodes = 10_000

// serviceAccount is the client that reads Secrets with credentials.
const serviceAccount = "cloud-provider-vsphere"

// Cloud is vSphere for the controllers.
type Cloud struct {
	cloud.ListedInstances
	cloud.Partial

	gate      *transport.Gate
	vcenters  []*client.VCenter
	instances *instances
	api       atomic.Pointer[kubernetes.Interface] // nil before Initialize
}

var (
	_ cloudprovider.Interface   = (*Cloud)(nil)
	_ cloudprovider.InstancesV2 = (*Cloud)(nil)
	_ cloud.InstancesLister     = (*Cloud)(nil)
	_ cloud.EarlyStarter        = (*Cloud)(nil)
	_ cloud.Finisher            = (*Cloud)(nil)
	_ cloud.Prober              = (*Cloud)(nil)
)

// program is how the flags of a manager make this provider.
var program = startup.Program{
	Provider:    Name,
	Cloud:       "vSphere",
	NeedsConfig: "the vCenters and their credentials are in it",
	Open:        openProgram,
}

// NewCloud makes the vSphere provider that a manager's flags ask for, or ends the process with the reason.
func NewCloud(completed *config.CompletedConfig) cloudprovider.Interface {
	return program.NewCloud(completed)
}

func openProgram(_ settings.KubeCloudSharedConfiguration, cloudConfig []byte) (cloudprovider.Interface, error) {
	made, err := Open(cloudConfig, client.Options{})
	if err != nil {
		return nil, err
	}
	for _, name := range environment(os.Environ()) {
		klog.Warningf("The environment variable %s is not read: put its value into the cloud config", name)
	}
	return made, made.logIn()
}

// environment are the variables with which the external provider's config can be changed.
func environment(all []string) (names []string) {
	for _, pair := range all {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "VSPHERE_") || strings.HasPrefix(name, "VCENTER_") {
			names = append(names, name)
		}
	}
	return names
}

// logIn logs in to each vCenter. One that refuses ends the process: nothing but other credentials helps. One that does
// not answer does not, and neither does one whose credentials are in a Secret, which cannot be read yet.
func (c *Cloud) logIn() error {
	none := context.Background() //nolint:forbidigo // the library's constructor of clouds has no context to give
	ctx, cancel := context.WithTimeout(none, client.DefaultRequestTimeout)
	defer cancel()
	for _, v := range c.vcenters {
		switch err := v.Ping(ctx); {
		case client.Refused(err):
			c.Finish(ctx)
			return err
		case errors.Is(err, client.ErrNoClient):
		case err != nil:
			klog.ErrorS(err, "A vCenter cannot be reached yet; each call tries to log in", "vCenter", v.Name())
		}
	}
	return nil
}

// Open makes the provider from the text of a cloud config. It sends nothing. The options' Config, Credentials and Gate
// are set for each vCenter.
func Open(cloudConfig []byte, o client.Options) (*Cloud, error) {
	conf, notes, err := cloudconf.Read(cloudConfig)
	if err != nil {
		return nil, err
	}
	for _, note := range notes {
		klog.Warningf("Cloud config: %s", note)
	}
	c := &Cloud{gate: &transport.Gate{}}
	c.Lister = c
	c.gate.Use(election.Unfenced(time.Now()))
	o.Gate = c.gate
	for _, vcenter := range conf.VCenters {
		o.Config, o.Credentials = vcenter, client.CredentialsOf(vcenter, c.kubernetes)
		c.vcenters = append(c.vcenters, client.New(o))
	}
	c.instances = newInstances(c.vcenters, conf)
	return c, nil
}

func (c *Cloud) kubernetes() kubernetes.Interface {
	if api := c.api.Load(); api != nil {
		return *api
	}
	return nil
}

// UseFences sets the fences of the leases that this process runs under. The provider changes nothing in vSphere; a
// request that would is sent only while one of them is open.
func (c *Cloud) UseFences(fences ...*election.Fence) { c.gate.Use(slices.Clone(fences)...) }

// Initialize keeps the sessions alive, and ends them with the manager.
func (c *Cloud) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	if api, err := clients.Client(serviceAccount); err != nil {
		klog.ErrorS(err, "No client for reading Secrets with the credentials of vCenters")
	} else {
		c.api.Store(&api)
	}
	go func() {
		ctx := wait.ContextForChannel(stop)
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			for _, v := range c.vcenters {
				v.KeepAlive(ctx)
			}
		}, client.KeepAlivePeriod)
	}()
}

// Finish implements cloud.Finisher: it ends the sessions. vCenter has a limit of them, and keeps one that was left for
// half an hour.
func (c *Cloud) Finish(ctx context.Context) {
	for _, v := range c.vcenters {
		v.Close(ctx)
	}
}

// ProviderName implements cloudprovider.Interface.
func (c *Cloud) ProviderName() string { return Name }

// StartsEarly implements cloud.EarlyStarter: nothing is written.
func (c *Cloud) StartsEarly() bool { return true }

// InstancesV2 implements cloudprovider.Interface.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

// MaxInstances implements cloud.InstancesLister.
func (c *Cloud) MaxInstances() int { return maxNodes }

// ListInstances implements cloud.InstancesLister: one list of the machines of each vCenter, whatever the number of
// nodes.
func (c *Cloud) ListInstances(
	ctx context.Context,
	nodes []*corev1.Node,
	want cloud.Want,
) ([]cloud.InstanceState, error) {
	return c.instances.list(ctx, nodes, want)
}

// ShowsDiskUUIDs reports whether the machine of a node shows its guest the UUIDs of its disks, as the last list of
// machines had it. It is nil where vCenter has not said so, and asks nothing.
func (c *Cloud) ShowsDiskUUIDs(node *corev1.Node) *bool {
	at, known := c.instances.finder.lastOf(seek(node))
	if !known {
		return nil
	}
	return at.diskUUID
}

// Probe logs in to each vCenter and asks for its time, for readiness.
func (c *Cloud) Probe(ctx context.Context) error {
	var problems []error
	for _, v := range c.vcenters {
		problems = append(problems, v.Ping(ctx))
	}
	return errors.Join(problems...)
}
