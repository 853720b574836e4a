package aws

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	awsv1 "k8s.io/cloud-provider-aws/pkg/providers/v1"
	awsconfig "k8s.io/cloud-provider-aws/pkg/providers/v1/config"
	"k8s.io/cloud-provider-aws/pkg/providers/v1/iface"

	"github.com/transplant-dev/transplant/provider/aws/leftover"
	"github.com/transplant-dev/transplant/provider/transport"
)

// account is EC2 with what its answers have that the simulated AWS of the lab has not: several interfaces, IPv6, public addresses, topologies.
type account struct {
	iface.EC2 // panics where it is not replaced
	instances []ec2types.Instance
	layers    map[string][]string // topology by instance ID
	topology  error
	quiet     bool     // it names no ID in its refusals
	omit      []string // IDs that it leaves out of its answers
	batched   bool     // those about several only

	mu    sync.Mutex
	calls []string
}

func (a *account) call(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, fmt.Sprintf(format, args...))
}

// made are the calls since it was last asked.
func (a *account) made() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	calls := a.calls
	a.calls = nil
	return calls
}

func refuse(code, format string, args ...any) error {
	return fmt.Errorf(
		"operation error EC2: %w",
		&smithy.GenericAPIError{Code: code, Message: fmt.Sprintf(format, args...)},
	)
}

func (a *account) DescribeInstances(
	_ context.Context,
	in *ec2.DescribeInstancesInput,
	_ ...func(*ec2.Options),
) ([]ec2types.Instance, error) {
	if len(in.InstanceIds) > 1000 {
		return nil, refuse("InvalidParameterValue", "too many ids")
	}
	byID := map[string]ec2types.Instance{}
	var all []ec2types.Instance
	for _, i := range a.instances {
		i.NetworkInterfaces = slices.Clone(i.NetworkInterfaces) // the provider sorts them in place
		byID[*i.InstanceId] = i
		all = append(all, i)
	}
	leavesOut := func(i ec2types.Instance) bool {
		alone := len(in.InstanceIds) == 1 || len(in.Filters) > 0 && len(in.Filters[0].Values) == 1
		return slices.Contains(a.omit, *i.InstanceId) && !(a.batched && alone)
	}
	if len(in.InstanceIds) == 0 {
		all = slices.DeleteFunc(all, leavesOut)
		a.call("DescribeInstances by %s", filtersOf(in.Filters))
		return slices.DeleteFunc(all, func(i ec2types.Instance) bool { return !passes(i, in.Filters) }), nil
	}
	a.call("DescribeInstances of %d", len(in.InstanceIds))
	var found []ec2types.Instance
	var unknown []string
	for _, id := range in.InstanceIds {
		if !usualID.MatchString(id) {
			return nil, refuse("InvalidInstanceID.Malformed", "Invalid id: %q", id)
		}
		if i, ok := byID[id]; ok {
			found = append(found, i)
		} else {
			unknown = append(unknown, id)
		}
	}
	switch {
	case len(unknown) == 0:
		return slices.DeleteFunc(found, leavesOut), nil
	case a.quiet:
		return nil, refuse("InvalidInstanceID.NotFound", "some instances do not exist")
	default:
		return nil, refuse("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(unknown, ", "))
	}
}

func filtersOf(filters []ec2types.Filter) string {
	var out []string
	for _, f := range filters {
		out = append(out, fmt.Sprintf("%d %s", len(f.Values), *f.Name))
	}
	return strings.Join(out, ", ")
}

func passes(i ec2types.Instance, filters []ec2types.Filter) bool {
	for _, f := range filters {
		have := map[string]string{"instance-id": sdk.ToString(i.InstanceId), "private-dns-name": sdk.ToString(i.PrivateDnsName)}[*f.Name]
		if *f.Name == "instance-state-name" && i.State != nil {
			have = string(i.State.Name)
		}
		if have == "" || !slices.Contains(f.Values, have) {
			return false
		}
	}
	return true
}

func (a *account) DescribeAvailabilityZones(
	context.Context,
	*ec2.DescribeAvailabilityZonesInput,
	...func(*ec2.Options),
) ([]ec2types.AvailabilityZone, error) {
	a.call("DescribeAvailabilityZones")
	return []ec2types.AvailabilityZone{
		{ZoneName: sdk.String("us-east-1a"), ZoneId: sdk.String("use1-az1"), ZoneType: sdk.String("availability-zone")},
		{ZoneName: sdk.String("us-east-1b"), ZoneId: sdk.String("use1-az2"), ZoneType: sdk.String("availability-zone")},
	}, nil
}

func (a *account) DescribeInstanceTopology(
	_ context.Context,
	in *ec2.DescribeInstanceTopologyInput,
	_ ...func(*ec2.Options),
) ([]ec2types.InstanceTopology, error) {
	a.call("DescribeInstanceTopology of %d", len(in.InstanceIds))
	if a.topology != nil {
		return nil, a.topology
	}
	if len(in.InstanceIds) > 100 {
		return nil, refuse("InvalidParameterValue", "too many ids")
	}
	var out []ec2types.InstanceTopology
	for _, id := range in.InstanceIds {
		if layers := a.layers[id]; layers != nil {
			out = append(out, ec2types.InstanceTopology{InstanceId: sdk.String(id), NetworkNodes: layers})
		}
	}
	return out, nil
}

// DescribeNetworkInterfaces knows the interfaces of two Fargate pods.
func (a *account) DescribeNetworkInterfaces(
	_ context.Context,
	in *ec2.DescribeNetworkInterfacesInput,
	_ ...func(*ec2.Options),
) (*ec2.DescribeNetworkInterfacesOutput, error) {
	a.call("DescribeNetworkInterfaces")
	out := &ec2.DescribeNetworkInterfacesOutput{}
	for _, f := range in.Filters {
		if *f.Name == "private-ip-address" && strings.HasPrefix(f.Values[0], "10.9.") {
			out.NetworkInterfaces = []ec2types.NetworkInterface{
				{
					AvailabilityZone: sdk.String(
						"us-east-1b",
					),
					PrivateIpAddress: sdk.String(f.Values[0]),
					PrivateDnsName:   sdk.String("ip-" + strings.ReplaceAll(f.Values[0], ".", "-") + ".ec2.internal"),
				},
			}
		}
	}
	return out, nil
}

// services gives the account to the provider and to our own code.
type accountServices struct {
	awsv1.Services
	api *account
}

func (s accountServices) EC2() iface.EC2        { return s.api }
func (s accountServices) ELBV2() leftover.ELBV2 { return nil }
func (s accountServices) Compute(context.Context, string, *stscreds.AssumeRoleProvider) (iface.EC2, error) {
	return s.api, nil
}
func (s accountServices) LoadBalancing(context.Context, string, *stscreds.AssumeRoleProvider) (awsv1.ELB, error) {
	return nil, nil
}
func (s accountServices) LoadBalancingV2(context.Context, string, *stscreds.AssumeRoleProvider) (awsv1.ELBV2, error) {
	return nil, nil
}
func (s accountServices) KeyManagement(context.Context, string, *stscreds.AssumeRoleProvider) (awsv1.KMS, error) {
	return nil, nil
}
func (s accountServices) Metadata(context.Context) (awsconfig.EC2Metadata, error) { return nil, nil }

// over makes a cloud over an account, with the Nodes that its cache has.
func over(t *testing.T, a *account, config string, nodes ...*corev1.Node) *Cloud {
	t.Helper()
	cfg, err := readCloudConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	c, err := assemble(t.Context(), cfg, accountServices{api: a}, &transport.Gate{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientset()
	for _, node := range nodes {
		if err := api.Tracker().Add(node); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(api, 0)
	c.SetInformers(factory)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	t.Cleanup(factory.Shutdown) // after the test's context has ended
	a.made()
	return c
}

func node(name, providerID string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

// machine is an instance of the cluster in us-east-1a that runs.
func machine(id, address string, change ...func(*ec2types.Instance)) ec2types.Instance {
	name := "ip-" + strings.ReplaceAll(address, ".", "-") + ".ec2.internal"
	i := ec2types.Instance{
		InstanceId: sdk.String(
			id,
		),
		InstanceType: "m5.large",
		State:        &ec2types.InstanceState{Name: ec2types.InstanceStateNameRunning},
		Placement: &ec2types.Placement{
			AvailabilityZone: sdk.String("us-east-1a"),
		},
		PrivateIpAddress:  sdk.String(address),
		PrivateDnsName:    sdk.String(name),
		NetworkInterfaces: []ec2types.InstanceNetworkInterface{card(0, address)},
		Tags:              []ec2types.Tag{{Key: sdk.String("kubernetes.io/cluster/lab"), Value: sdk.String("owned")}},
	}
	for _, c := range change {
		c(&i)
	}
	return i
}

// card is a network interface in use; addresses with a colon are IPv6.
func card(device int32, addresses ...string) ec2types.InstanceNetworkInterface {
	i := ec2types.InstanceNetworkInterface{
		Status:     ec2types.NetworkInterfaceStatusInUse,
		Attachment: &ec2types.InstanceNetworkInterfaceAttachment{DeviceIndex: sdk.Int32(device)},
	}
	for _, address := range addresses {
		if ip := net.ParseIP(address); ip != nil && ip.To4() == nil {
			i.Ipv6Addresses = append(i.Ipv6Addresses, ec2types.InstanceIpv6Address{Ipv6Address: sdk.String(address)})
		} else {
			i.PrivateIpAddresses = append(
				i.PrivateIpAddresses,
				ec2types.InstancePrivateIpAddress{PrivateIpAddress: sdk.String(address)},
			)
		}
	}
	return i
}

var errDown = refuse("InternalError", "down")

// failing is an account none of whose instances can be read.
type failing struct{ *account }

func (failing) DescribeInstances(
	context.Context,
	*ec2.DescribeInstancesInput,
	...func(*ec2.Options),
) ([]ec2types.Instance, error) {
	return nil, errDown
}
