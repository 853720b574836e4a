package field

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/awssim"
)

// RouteTable is that of the account.
const RouteTable = "rtb-lab"

const (
	region            = "us-east-1"
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
)

// keyMaker is the access key that sets the account up; KeyLooker may only look.
const (
	keyMaker  = "AKIAFIELDMAKER"
	KeyLooker = "AKIAFIELDLOOKER"
)

// Account is a simulated AWS account with an instance for each node.
type Account struct {
	*awssim.Server
	URL string

	server *http.Server
	done   chan error
}

// Env are the variables with which a program looks at the account, and at no other.
func (a *Account) Env() []string {
	return []string{
		"AWS_ENDPOINT_URL=" + a.URL,
		"AWS_REGION=" + region,
		"AWS_ACCESS_KEY_ID=" + KeyLooker,
		"AWS_SECRET_ACCESS_KEY=field-only",
		"AWS_EC2_METADATA_DISABLED=true",
		"HTTPS_PROXY=http://127.0.0.1:9",
		"NO_PROXY=127.0.0.0/8", // a call that misses the simulation ends at once
	}
}

// account starts the cloud of a cluster on AWS, and gives each node its route.
func (f *Field) account(ctx context.Context) error {
	if f.options.Provider != "aws" {
		return nil
	}
	nodes, err := f.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	o := awssim.Options{
		ClusterID:  "prod",
		RouteTable: RouteTable,
		Keys:       map[string]awssim.Policy{keyMaker: awssim.Full, KeyLooker: awssim.ReadOnly},
	}
	for i := range nodes.Items {
		zone, id := instance(&nodes.Items[i])
		machine := awssim.Instance{
			ID:           id,
			Zone:         zone,
			Type:         "m5.large",
			PrivateIP:    address(&nodes.Items[i]),
			MetadataHops: 2,
			HostnameType: "ip-name",
		}
		if _, control := nodes.Items[i].Labels[controlPlaneLabel]; control {
			machine.Profile = "control-plane"
		}
		o.Instances = append(o.Instances, machine)
	}
	if f.Account, err = startAccount(o); err != nil {
		return err
	}
	client := ec2.New(ec2.Options{Region: region, BaseEndpoint: &f.Account.URL, Credentials: makerCredentials()})
	for i := range nodes.Items {
		_, id := instance(&nodes.Items[i])
		_, err := client.CreateRoute(ctx, &ec2.CreateRouteInput{
			RouteTableId: awssdk.String(RouteTable), DestinationCidrBlock: &nodes.Items[i].Spec.PodCIDR, InstanceId: &id,
		})
		if err != nil {
			return fmt.Errorf("making the route of node %s: %w", nodes.Items[i].Name, err)
		}
	}
	return nil
}

func makerCredentials() awssdk.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider(keyMaker, "field-only", "")
}

func startAccount(o awssim.Options) (*Account, error) {
	sim, err := awssim.New(o)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the simulated account: %w", err), sim.Close())
	}
	a := &Account{Server: sim, URL: "http://" + l.Addr().String(), done: make(chan error, 1), server: &http.Server{
		Handler: sim, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
	}}
	go func() { a.done <- a.server.Serve(l) }()
	return a, nil
}

func (a *Account) stop() error {
	err := errors.Join(a.Server.Close(), a.server.Close())
	if served := <-a.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("the simulated account ended early: %w", served))
	}
	return err
}

// instance is the zone and the id in a node's providerID.
func instance(n *corev1.Node) (zone, id string) {
	zone, id, _ = strings.Cut(strings.TrimPrefix(n.Spec.ProviderID, "aws:///"), "/")
	return zone, id
}

func address(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// balance makes a Service with the load balancer that an in-tree manager would have made for it.
func (f *Field) balance(ctx context.Context, service *corev1.Service, nodes []corev1.Node) error {
	made, err := f.kube.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	ingress := corev1.LoadBalancerIngress{IP: "203.0.113.10"}
	if f.Account != nil {
		if ingress, err = f.elastic(ctx, made, nodes); err != nil {
			return fmt.Errorf("making the load balancer of service %s: %w", made.Name, err)
		}
	}
	made.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
	if made, err = f.kube.CoreV1().Services(made.Namespace).Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	made.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{ingress}
	_, err = f.kube.CoreV1().Services(made.Namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// elastic makes a classic load balancer with the name that the AWS provider gives it: a, and the Service's uid without
// its dashes.
func (f *Field) elastic(
	ctx context.Context,
	service *corev1.Service,
	nodes []corev1.Node,
) (corev1.LoadBalancerIngress, error) {
	client := elb.New(elb.Options{Region: region, BaseEndpoint: &f.Account.URL, Credentials: makerCredentials()})
	name := ("a" + strings.ReplaceAll(string(service.UID), "-", ""))[:32]
	var listeners []elbtypes.Listener
	for _, p := range service.Spec.Ports {
		listeners = append(listeners, elbtypes.Listener{
			LoadBalancerPort: p.Port,
			InstancePort:     &p.NodePort,
			Protocol:         awssdk.String("TCP"),
			InstanceProtocol: awssdk.String("TCP"),
		})
	}
	made, err := client.CreateLoadBalancer(ctx, &elb.CreateLoadBalancerInput{
		LoadBalancerName: &name,
		Listeners:        listeners,
		Subnets:          []string{"subnet-a", "subnet-b"},
		SecurityGroups:   []string{"sg-nodes"},
		Tags: []elbtypes.Tag{{Key: awssdk.String("kubernetes.io/cluster/prod"), Value: awssdk.String("owned")},
			{Key: awssdk.String("kubernetes.io/service-name"), Value: awssdk.String(service.Namespace + "/" + service.Name)}},
	})
	if err != nil {
		return corev1.LoadBalancerIngress{}, err
	}
	var members []elbtypes.Instance
	for i := range nodes {
		if _, control := nodes[i].Labels[controlPlaneLabel]; !control {
			_, id := instance(&nodes[i])
			members = append(members, elbtypes.Instance{InstanceId: &id})
		}
	}
	if len(members) > 0 {
		_, err = client.RegisterInstancesWithLoadBalancer(
			ctx,
			&elb.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: &name, Instances: members},
		)
	}
	return corev1.LoadBalancerIngress{Hostname: *made.DNSName}, err
}
