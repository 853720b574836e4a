package seed

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
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/kubelet"
	"github.com/transplant-dev/transplant/lab/seed/component"
)

// machineCloud is a cloud in which a user cluster has its machines.
type machineCloud interface {
	// Serve serves it until Close.
	Serve(net.Listener) error
	Close() error
	// boot makes the machine with a number, from 1, and says what it is.
	boot(number int) (component.Instance, *kubelet.Instance, error)
	// terminate ends the machine with an ID.
	terminate(id string) error
}

// privateIP is that of the machine with a number.
func privateIP(number int) string { return fmt.Sprintf("10.0.%d.%d", 1+number/200, 10+number%200) }

const region = "us-east-1"

// amazon is an account of AWS. Any access key may call: a manager's is the name of its pod, so that the audit log tells
// the pods of one Deployment apart.
type amazon struct {
	sim    *awssim.Server
	server *http.Server
}

func newAmazon(dir string) (*amazon, error) {
	sim, err := awssim.New(awssim.Options{Region: region, AuditFile: filepath.Join(dir, "audit.jsonl")})
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: sim, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	return &amazon{sim: sim, server: server}, nil
}

func (a *amazon) Serve(l net.Listener) error { return a.server.Serve(l) }

func (a *amazon) Close() error { return errors.Join(a.sim.Close(), a.server.Close()) }

func (a *amazon) boot(number int) (component.Instance, *kubelet.Instance, error) {
	i, err := a.sim.AddInstance(awssim.Instance{PrivateIP: privateIP(number)})
	if err != nil {
		return component.Instance{}, nil, err
	}
	made := component.Instance{
		ID: i.ID, PrivateIP: i.PrivateIP, NodeName: i.PrivateDNS, ProviderID: "aws:///" + i.Zone + "/" + i.ID,
	}
	return made, &kubelet.Instance{
		ProviderID: made.ProviderID, Zone: i.Zone, Region: region, InstanceType: i.Type,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: i.PrivateIP}, {Type: corev1.NodeInternalDNS, Address: i.PrivateDNS},
			{Type: corev1.NodeHostName, Address: i.PrivateDNS},
		},
	}, nil
}

func (a *amazon) terminate(id string) error { return a.sim.SetInstanceState(id, "terminated") }

// places is a cloud of another kind. Its machines are there from the start and wait for a Machine each. One that is
// terminated stays: nothing of a kind ends a machine.
type places struct {
	cluster.Cloud

	kind  cluster.Kind
	hosts []*cluster.Host
}

// maxPlaces is how many machines a user cluster on such a cloud may come to have.
const maxPlaces = 8

func newPlaces(kind cluster.Kind, dir string) (*places, error) {
	p := &places{kind: kind}
	for n := 1; n <= maxPlaces; n++ {
		h := &cluster.Host{Name: fmt.Sprintf("machine-%d", n), PrivateIP: privateIP(n)}
		kind.Place(h)
		p.hosts = append(p.hosts, h)
	}
	managers := &cluster.Host{Name: "seed"} // all of them are on its node
	var err error
	p.Cloud, err = kind.Start(cluster.Layout{
		Hosts: p.hosts, AuditFile: filepath.Join(dir, "audit.jsonl"), HostOf: func(string) *cluster.Host { return managers },
	})
	return p, err
}

func (p *places) boot(number int) (component.Instance, *kubelet.Instance, error) {
	if number > len(p.hosts) {
		return component.Instance{}, nil, fmt.Errorf("the lab has %d machines on %s", len(p.hosts), p.kind.Provider())
	}
	h := p.hosts[number-1]
	return component.Instance{
		ID: h.InstanceID, PrivateIP: h.PrivateIP, NodeName: h.NodeName, ProviderID: h.ProviderID(),
	}, p.kind.Instance(h), nil
}

func (p *places) terminate(string) error { return nil }
