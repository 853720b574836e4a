package cluster

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/awssim/ec2"
	"github.com/transplant-dev/transplant/lab/kubelet"
)

const instanceType = "m5.large"

// aws is the kind of a lab that names no other one: a simulated AWS account.
type aws struct {
	noCloudConfig bool
	keys          map[string]awssim.Policy
}

func (aws) Provider() string { return "aws" }

func (aws) Version() string { return Version }

func (aws) Place(h *Host) {
	id, zone := ec2.InstanceID(h.PrivateIP), zones[(h.number-1)%len(zones)]
	h.Place(ec2.PrivateDNS(h.PrivateIP, Region), id, zone, "aws:///"+zone+"/"+id)
}

func (aws) Config(_ *Host, endpoint string) string { return CloudConfig("http://" + endpoint) }

func (aws) Flags(component string) map[string]string {
	if component != ControllerManager {
		return nil
	}
	return map[string]string{"configure-cloud-routes": "true"}
}

func (aws) ManagerEnv(h *Host, component, _ string) []corev1.EnvVar { return CloudEnv(h, component) }

func (aws) Rights() []rbacv1.PolicyRule { return nil }

func (aws) Services() []*corev1.Service { return WorkloadServices() }

func (aws) Key(h *Host, component string) string { return AccessKey(h.Name, component) }

func (aws) Env(endpoint string) []string {
	out := []string{"AWS_REGION=" + Region, "AWS_ENDPOINT_URL=http://" + endpoint}
	for _, v := range cloudEnv(KeyCLI) {
		out = append(out, v[0]+"="+v[1])
	}
	return out
}

// Instance is what a host's kubelet learns from the cloud about its machine.
func (aws) Instance(h *Host) *kubelet.Instance {
	return &kubelet.Instance{
		ProviderID: h.ProviderID(), Zone: h.Zone, Region: Region, InstanceType: instanceType,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: h.PrivateIP},
			{Type: corev1.NodeInternalDNS, Address: h.NodeName},
			{Type: corev1.NodeHostName, Address: h.NodeName},
		},
	}
}

// Start starts the account with an instance for every host.
func (a aws) Start(l Layout) (Cloud, error) {
	o := awssim.Options{
		Region: Region, Zones: zones, VPC: vpcID, RouteTable: routeTableID, ClusterID: Name, AuditFile: l.AuditFile,
		Keys: map[string]awssim.Policy{KeyKubelet: awssim.ReadOnly, KeyCLI: awssim.ReadOnly, KeyLab: awssim.Full},
	}
	if a.noCloudConfig {
		o.IMDS.Default = l.Hosts[0].InstanceID
	}
	for _, h := range l.Hosts {
		o.Instances = append(
			o.Instances,
			awssim.Instance{ID: h.InstanceID, Type: instanceType, Zone: h.Zone, PrivateIP: h.PrivateIP},
		)
		if h.ControlPlane {
			for _, manager := range []string{ControllerManager, CloudControllerManager} {
				o.Keys[AccessKey(h.Name, manager)] = awssim.Full
			}
		}
	}
	for key, policy := range a.keys {
		o.Keys[key] = policy
	}
	sim, err := awssim.New(o)
	if err != nil {
		return nil, err
	}
	return &account{sim: sim, server: &http.Server{
		Handler: sim, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
	}}, nil
}

// account is the simulated AWS account of a lab.
type account struct {
	sim    *awssim.Server
	server *http.Server
}

func (a *account) Serve(l net.Listener) error { return a.server.Serve(l) }

func (a *account) Close() error { return errors.Join(a.sim.Close(), a.server.Close()) }

func (a *account) State() any { return a.sim.State() }

func (a *account) Unknown() []string {
	var out []string
	for _, call := range a.sim.Unknown() {
		out = append(out, fmt.Sprintf("%s %s by %s", call.Service, call.Action, call.Key))
	}
	return out
}

// Missing reports a route that is not there or not active.
func (a *account) Missing(h *Host, podCIDR string) error {
	for _, r := range a.sim.State().EC2.RouteTables[routeTableID].Routes {
		if r.CIDR == podCIDR && r.State == "active" && r.Instance == h.InstanceID {
			return nil
		}
	}
	return fmt.Errorf("the cloud has no route for node %q (%s)", h.NodeName, podCIDR)
}

// cloud is a cloud on an address of its own.
type cloud struct {
	Cloud
	done chan error // how its server ended
}

// startCloud starts the cloud of a lab.
func startCloud(s *site) (*cloud, error) {
	hostOf := map[string]*Host{}
	for _, h := range s.machines() {
		for _, manager := range []string{ControllerManager, CloudControllerManager} {
			if w, ok := s.wires[EdgeName(h.Name, manager, endCloud)]; ok {
				hostOf[w.address] = h
			}
		}
	}
	made, err := s.kind.Start(Layout{
		Hosts: s.machines(), AuditFile: s.auditFile(), HostOf: func(address string) *Host { return hostOf[address] },
	})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", s.cloud())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the simulated cloud: %w", err), made.Close())
	}
	c := &cloud{Cloud: made, done: make(chan error, 1)}
	go func() { c.done <- c.Serve(l) }()
	return c, nil
}

// stop ends the cloud: what hangs in it first, then its connections.
func (c *cloud) stop() error {
	err := c.Close()
	if err != nil {
		err = fmt.Errorf("stopping the simulated cloud: %w", err)
	}
	if served := <-c.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("the simulated cloud ended early: %w", served))
	}
	return err
}
