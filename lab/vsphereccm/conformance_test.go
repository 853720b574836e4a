package vsphereccm

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/lab/vspheresim"
	"github.com/transplant-dev/transplant/provider/conformance"
	"github.com/transplant-dev/transplant/provider/vsphere/client"
)

// TestConformance puts the provider through the suite of all providers. It has nodes alone, and changes nothing.
func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T, wire *conformance.Wire) conformance.Subject {
		reads := func(*http.Request) bool { return false }
		sim := vcenter(t, vspheresim.Options{
			Machines: 3, Number: 1,
			Front: func(next http.Handler) http.Handler { return wire.Front(next, reads) },
		})
		owner := &owner{t: t, sim: sim, machines: map[string]vspheresim.Machine{}}
		provider := open(t, config(sim.Config("a", trusted(t, sim)), ""), client.Options{})
		return conformance.Subject{Provider: provider, Servers: owner, Objects: func() []string { return nil }}
	})
}

// owner does what the owner of machines does.
type owner struct {
	t        *testing.T
	sim      *vspheresim.VCenter
	machines map[string]vspheresim.Machine // by the Node's name
}

func (o *owner) Create() *corev1.Node {
	all, err := o.sim.Machines(o.t.Context())
	if err != nil || len(all) == len(o.machines) {
		o.t.Fatalf("there are %d machines, all of them are nodes (%v)", len(all), err)
	}
	m := all[len(o.machines)]
	o.machines["node-of-"+m.Name] = m
	return node("node-of-"+m.Name, "", m.UUID)
}

func (o *owner) Stop(node *corev1.Node) {
	if err := o.sim.PowerOff(o.t.Context(), o.machines[node.Name]); err != nil {
		o.t.Fatal(err)
	}
}

func (o *owner) Delete(node *corev1.Node) {
	if err := o.sim.Destroy(o.t.Context(), o.machines[node.Name]); err != nil {
		o.t.Fatal(err)
	}
}
