package conformance

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

func (s suite) nodes(t *testing.T) {
	s.test(t, "a server is described", (*subject).serverIsDescribed)
	s.test(t, "a stopped server is no deleted one", (*subject).stoppedServer)
	s.test(t, "a deleted server does not exist", (*subject).deletedServer)
	s.test(t, "a node of another cloud is not deleted", (*subject).nodeOfAnotherCloud)
	for _, fault := range Faults() {
		s.test(t, fault.Name+" deletes no node", func(s *subject) { s.nodesDuring(fault) })
	}
}

func (s *subject) serverIsDescribed() {
	node := s.Servers.Create()
	metadata, err := s.instances().InstanceMetadata(s.t.Context(), node)
	if err != nil {
		s.t.Fatal(err)
	}
	if metadata.ProviderID == "" {
		s.t.Error("it has no provider ID: the Node would be looked for by its name for ever")
	}
	if len(metadata.NodeAddresses) == 0 {
		s.t.Error("it has no addresses")
	}
	for _, a := range metadata.NodeAddresses {
		if a.Type != corev1.NodeInternalIP && a.Type != corev1.NodeExternalIP {
			continue
		}
		if _, err := netip.ParseAddr(a.Address); err != nil {
			s.t.Errorf("address %s %q: %v", a.Type, a.Address, err)
		}
	}
	for label, value := range map[string]string{
		corev1.LabelInstanceTypeStable: metadata.InstanceType, corev1.LabelTopologyZone: metadata.Zone,
		corev1.LabelTopologyRegion: metadata.Region,
	} {
		for _, wrong := range validation.IsValidLabelValue(value) {
			s.t.Errorf("%q cannot be the value of label %s: %s", value, label, wrong)
		}
	}
	known := node.DeepCopy()
	known.Spec.ProviderID = metadata.ProviderID
	again, err := s.instances().InstanceMetadata(s.t.Context(), known)
	if err != nil {
		s.t.Fatalf("with its provider ID: %v", err)
	}
	if !equality.Semantic.DeepEqual(metadata, again) {
		s.t.Errorf("found by its name it is described as %+v, and by its provider ID as %+v", metadata, again)
	}
	s.state(known, true, false)
	s.state(node, true, false)
	if changes := s.wire.Changes(); changes != 0 {
		s.t.Errorf("describing it took %d requests that change something", changes)
	}
}

func (s *subject) stoppedServer() {
	node := s.node()
	s.Servers.Stop(node)
	s.state(node, true, true)
}

func (s *subject) deletedServer() {
	node, other := s.node(), s.node()
	s.Servers.Delete(node)
	s.state(node, false, false)
	s.state(other, true, false)
	if shut, err := s.instances().InstanceShutdown(s.t.Context(), node); shut {
		s.t.Errorf("it is shut down (error %v)", err)
	}
}

// state fails the test unless one call for the node, and a call for many, say the same of it.
func (s *subject) state(node *corev1.Node, exists, shut bool) {
	s.t.Helper()
	if is, err := s.instances().InstanceExists(s.t.Context(), node); err != nil || is != exists {
		s.t.Errorf("node %q exists: %v (error %v), want %v", node.Name, is, err, exists)
	}
	if exists {
		if is, err := s.instances().InstanceShutdown(s.t.Context(), node); err != nil || is != shut {
			s.t.Errorf("node %q is shut down: %v (error %v), want %v", node.Name, is, err, shut)
		}
	}
	lister, ok := s.Provider.(cloud.InstancesLister)
	if !ok {
		return
	}
	states, err := lister.ListInstances(s.t.Context(), []*corev1.Node{node}, cloud.WantExists|cloud.WantShutdown)
	if err != nil || len(states) != 1 {
		s.t.Fatalf("listing node %q: %+v (error %v)", node.Name, states, err)
	}
	if is := states[0]; is.Err != nil || is.Exists != exists || exists && is.Shutdown != shut {
		s.t.Errorf("node %q is listed as %+v, want exists %v, shut down %v", node.Name, is, exists, shut)
	}
}

func (s *subject) nodeOfAnotherCloud() {
	node := s.node()
	node.Spec.ProviderID = "another-cloud://there/1"
	if exists, err := s.instances().InstanceExists(s.t.Context(), node); err == nil && !exists {
		s.t.Error("it does not exist, so its Node would be deleted")
	}
}

// nodesDuring has the cloud fail. That a server does not exist, or that it is shut down, may not come of it.
func (s *subject) nodesDuring(f Fault) {
	node := s.node()
	instances := s.instances()
	s.failing(f, "InstanceExists", func(ctx context.Context) error {
		exists, err := instances.InstanceExists(ctx, node)
		if err == nil && !exists {
			s.t.Error("the server does not exist: its Node would be deleted")
		}
		return err
	})
	s.failing(f, "InstanceShutdown", func(ctx context.Context) error {
		shut, err := instances.InstanceShutdown(ctx, node)
		if shut {
			s.t.Error("the server is shut down: its Node would be tainted")
		}
		return err
	})
	s.failing(f, "InstanceMetadata", func(ctx context.Context) error {
		_, err := instances.InstanceMetadata(ctx, node)
		return err
	})
	if lister, ok := s.Provider.(cloud.InstancesLister); ok {
		s.failing(f, "ListInstances", func(ctx context.Context) error {
			states, err := lister.ListInstances(ctx, []*corev1.Node{node}, cloud.WantExists)
			if err == nil && len(states) == 1 {
				err = states[0].Err
			}
			return err
		})
	}
	s.state(node, true, false)
}

// failing has a call fail by a fault. It may not say that there is no such server.
func (s *subject) failing(f Fault, name string, call func(context.Context) error) {
	s.t.Helper()
	err := s.during(f, call)
	switch {
	case err == nil:
		s.t.Errorf("%s returns no error", name)
	case errors.Is(err, cloudprovider.InstanceNotFound):
		s.t.Errorf("%s says that there is no such server: %v", name, err)
	}
}
