package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/node/nodetest"
)

// Whatever a provider says, what we write is accepted, or nothing is written and the taint stays.
func FuzzInitialisationIsAcceptedOrLeftAlone(f *testing.F) {
	f.Add("n", "", "aws:///eu-west-1a/i-0123456789abcdef0", "m5.large", "eu-west-1a", "eu-west-1", "topology.k8s.aws/zone-id", "euw1-az1", "10.0.0.1", "")
	f.Add("ip-10-0-0-1.ec2.internal", "aws:///a/i-1", "", "", "nova az", "", "kubernetes.io/x", "y", "fd00::1", "fd00::1")
	f.Add("x", "", "openstack:///\xff", "-", "_", ".", "a/b/c", "\x00", "not an IP", "10.0.0.1,fd00::1")
	f.Fuzz(func(t *testing.T, name, has, id, kind, zone, region, key, value, ip, provided string) {
		before := nodeWith("n", withID(has))
		if provided != "" {
			withIP(provided)(before)
		}
		api := nodetest.New(before)
		c := &nodetest.Cloud{}
		client := api.Client()
		controller, err := New(Config{
			Client: client, Cloud: c, Nodes: informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes(),
			StatusUpdateFrequency: 1, Workers: 1, Options: NewOptions(),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer controller.queue.ShutDown()
		recorder := record.NewFakeRecorder(10)
		controller.recorder = recorder
		state := cloud.InstanceState{Exists: true, Metadata: &cloudprovider.InstanceMetadata{
			ProviderID: id, InstanceType: kind, Zone: zone, Region: region, AdditionalLabels: map[string]string{key: value},
			NodeAddresses: []corev1.NodeAddress{internal(ip), hostname(name)},
		}}
		err = controller.runJob(t.Context(), &job{item: item{name: "n"}, node: api.Node("n"), read: true, state: state})
		after := api.Node("n")
		switch {
		case err == nil && (hasCloudTaint(after) || after.Spec.ProviderID == ""):
			t.Errorf("the node is said to be initialised: %v", after)
		case err != nil && len(api.Requests()) > 0:
			t.Errorf("what was written was refused: %v, %q", err, api.Requests())
		case has != "" && after.Spec.ProviderID != has:
			t.Errorf("the provider ID has changed from %q to %q", has, after.Spec.ProviderID)
		}
	})
}
