package cluster

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/kubelet"
)

const instanceType = "m5.large"

// cloud is the simulated AWS account of a lab, on an address of its own.
type cloud struct {
	sim    *awssim.Server
	server *http.Server
	done   chan error // how the server ended
}

// startCloud starts the account with an instance for every host.
func startCloud(s *site, keys map[string]awssim.Policy) (*cloud, error) {
	o := awssim.Options{
		Region: Region, Zones: zones, VPC: vpcID, RouteTable: routeTableID, ClusterID: Name,
		AuditFile: filepath.Join(s.root, "audit.jsonl"),
		Keys:      map[string]awssim.Policy{KeyKubelet: awssim.ReadOnly, KeyCLI: awssim.ReadOnly, KeyLab: awssim.Full},
	}
	if s.noCloudConfig {
		o.IMDS.Default = s.hosts[0].InstanceID
	}
	for _, h := range s.hosts {
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
	for key, policy := range keys {
		o.Keys[key] = policy
	}
	sim, err := awssim.New(o)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", s.block.endpoint(placeCloud, portCloud))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting simulated AWS: %w", err), sim.Close())
	}
	c := &cloud{sim: sim, done: make(chan error, 1), server: &http.Server{
		Handler: sim, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
	}}
	go func() { c.done <- c.server.Serve(l) }()
	return c, nil
}

// stop ends the account: what hangs in it first, then its connections.
func (c *cloud) stop() error {
	err := c.sim.Close()
	if closing := c.server.Close(); closing != nil {
		err = errors.Join(err, fmt.Errorf("stopping simulated AWS: %w", closing))
	}
	if served := <-c.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("simulated AWS ended early: %w", served))
	}
	return err
}

// instanceOf is what a host's kubelet learns from the cloud about its machine.
func instanceOf(h *Host) *kubelet.Instance {
	return &kubelet.Instance{
		ProviderID: h.ProviderID(), Zone: h.Zone, Region: Region, InstanceType: instanceType,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: h.PrivateIP},
			{Type: corev1.NodeInternalDNS, Address: h.NodeName},
			{Type: corev1.NodeHostName, Address: h.NodeName},
		},
	}
}
