package openstacklab

import (
	"time"

	"github.com/google/uuid"

	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/openstacksim"
)

// simulated is an OpenStack of the simulator.
type simulated struct{}

// Simulated is a Kind whose OpenStack is simulated.
func Simulated() Kind { return Kind{simulated{}} }

const (
	network  = "nodes"
	external = "public"
	flavor   = "m1.small"
	// taking is for how long Octavia changes a load balancer.
	taking = 300 * time.Millisecond
)

// id is an ID of OpenStack, the same one each time.
func id(name string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("openstack/"+name)).String()
}

func (simulated) places() places {
	return places{
		subnet: "subnet-" + network, external: external, router: id("router"), flavor: openstacksim.FlavorID(flavor),
	}
}

func (simulated) server(h *cluster.Host) string { return id(h.Name) }

func (s simulated) open(hosts []*cluster.Host) (*opened, error) {
	sim := openstacksim.Start(openstacksim.Options{Region: region})
	sim.SetPending(taking)
	sim.AddSubnet(openstacksim.Subnet{ID: id("subnet of floating IPs"), Name: external, Network: external, External: true})
	sim.AddRouterAs(s.places().router, network, "10.0.0.1")
	for _, h := range hosts {
		sim.AddServer(openstacksim.Server{ID: h.InstanceID, Name: h.NodeName, Zone: zone, Flavor: flavor})
		sim.AddPort(openstacksim.Port{Network: network, DeviceID: h.InstanceID, Addresses: []string{h.PrivateIP}})
	}
	return &opened{
		handler: sim, close: func() error { sim.Close(); return nil },
		authURL: sim.URL(), viewer: openstacksim.User, project: project, password: openstacksim.Password,
	}, nil
}
