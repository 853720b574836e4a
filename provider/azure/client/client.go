// Package client decides how Azure Resource Manager is spoken to: which requests may be sent, and how long each may
// take. It holds which refusals are believed, what is read once in a call, and what is counted.
//
//	provider --> Client.VMs, Client.NICs, ... ---\
//	upstream --> Bind (call, what was read) -----> answers --> deadline --> transport (fence) --> Resource Manager
//
// Upstream lists scale sets with a context of its own that never ends. Bind replaces it by the controller's.
package client

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	"sigs.k8s.io/cloud-provider-azure/pkg/azclient/policy/etag"
	"sigs.k8s.io/cloud-provider-azure/pkg/azclient/utils"

	"github.com/transplant-dev/transplant/provider/transport"
)

// DefaultRequestTimeout bounds one request with its answer.
const DefaultRequestTimeout = time.Minute

// maxAnswer is how long an answer may be: a page of 100 scale set VMs with their instance views is below 2 MB.
const maxAnswer = 64 << 20

// maxList and maxPages bound a list over its pages.
const (
	maxList  = 1 << 30
	maxPages = 1000
)

// Options are the settings of a Client.
type Options struct {
	// Subscription has the machines, and Network the load balancers, addresses and route tables.
	Subscription, Network string
	// Cloud has the addresses of the API.
	Cloud cloud.Configuration
	// Credential is for machines, and NetworkCredential for the network, which may be of another tenant.
	Credential, NetworkCredential azcore.TokenCredential
	// Gate says whether requests that change something may be sent.
	Gate *transport.Gate
	// Timeout bounds one request; 0 for DefaultRequestTimeout.
	Timeout time.Duration
	// Next sends the requests; nil for a clone of http.DefaultTransport.
	Next http.RoundTripper
	// Sent counts the requests that are sent; nil for none.
	Sent *atomic.Int64
}

// Client reaches Resource Manager. Requests end with the context of the caller.
type Client struct {
	VMs         *armcompute.VirtualMachinesClient
	ScaleSets   *armcompute.VirtualMachineScaleSetsClient
	ScaleSetVMs *armcompute.VirtualMachineScaleSetVMsClient
	// NICs and Addresses are those of the machines' subscription.
	NICs      *armnetwork.InterfacesClient
	Addresses *armnetwork.PublicIPAddressesClient
	// These are of the network's subscription.
	RouteTables    *armnetwork.RouteTablesClient
	LoadBalancers  *armnetwork.LoadBalancersClient
	FrontAddress   *armnetwork.PublicIPAddressesClient
	SecurityGroups *armnetwork.SecurityGroupsClient

	base http.RoundTripper
}

var metrics = sync.OnceValue(func() *transport.Metrics { return transport.NewMetrics("azure", "Azure") })

// New makes a Client. It sends nothing.
func New(o Options) (*Client, error) {
	if o.Timeout == 0 {
		o.Timeout = DefaultRequestTimeout
	}
	sent := transport.New(transport.Options{
		Next: o.Next, Sent: o.Sent, Gate: o.Gate, Describe: Describe, Metrics: metrics(), MaxAnswer: maxAnswer,
		List: transport.List{NextPage: "$skiptoken", MaxBytes: maxList, MaxPages: maxPages},
	})
	c := &Client{base: &answers{next: sent, timeout: o.Timeout}}
	if err := c.open(o); err != nil {
		return nil, fmt.Errorf("making the clients of Azure: %w", err)
	}
	return c, nil
}

// open makes the clients.
func (c *Client) open(o Options) (err error) {
	with := &arm.ClientOptions{
		ClientOptions: policy.ClientOptions{
			Cloud: o.Cloud, Transport: &http.Client{Transport: c.base},
			InsecureAllowCredentialWithHTTP: true, // as upstream has it; Azure's own addresses are https
			PerCallPolicies:                 []policy.Policy{utils.FuncPolicyWrapper(etag.AppendEtag)},
		},
		DisableRPRegistration: true,
	}
	machines, err := armcompute.NewClientFactory(o.Subscription, o.Credential, with)
	if err != nil {
		return err
	}
	c.VMs, c.ScaleSets = machines.NewVirtualMachinesClient(), machines.NewVirtualMachineScaleSetsClient()
	c.ScaleSetVMs = machines.NewVirtualMachineScaleSetVMsClient()
	near, err := armnetwork.NewClientFactory(o.Subscription, o.Credential, with)
	if err != nil {
		return err
	}
	c.NICs, c.Addresses = near.NewInterfacesClient(), near.NewPublicIPAddressesClient()
	network, err := armnetwork.NewClientFactory(o.Network, o.NetworkCredential, with)
	if err != nil {
		return err
	}
	c.RouteTables, c.LoadBalancers = network.NewRouteTablesClient(), network.NewLoadBalancersClient()
	c.FrontAddress, c.SecurityGroups = network.NewPublicIPAddressesClient(), network.NewSecurityGroupsClient()
	return nil
}

// Tokens is a transport for the requests of credentials, each of which ends after a while.
func Tokens(timeout time.Duration) *http.Client {
	if timeout == 0 {
		timeout = DefaultRequestTimeout
	}
	return &http.Client{Timeout: timeout}
}

// limit bounds a request with its answer, which is read whole within.
func limit(in *http.Request, timeout time.Duration) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(in.Context(), timeout)
	return in.WithContext(ctx), cancel
}
