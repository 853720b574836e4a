package awsccm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/node/nodetest"
	"github.com/transplant-dev/transplant/ccm/nodelifecycle"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
)

// patience is how long anything may take, also on a busy machine.
const patience = time.Minute

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // it is waited for
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: it has not come within %s", what, patience)
		}
	}
}

// cluster is an API server with the nodes of a bench, and a node lifecycle controller over its account.
type cluster struct {
	*bench
	api *nodetest.API
}

// watchOver starts the controller. The nodes at the first places are not Ready, the others are.
func watchOver(t *testing.T, b *bench, notReady int, change func(*nodelifecycle.Config)) *cluster {
	t.Helper()
	c := &cluster{bench: b, api: nodetest.New()}
	long := metav1.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, node := range b.nodes {
		node = node.DeepCopy()
		node.CreationTimestamp = long
		status := corev1.ConditionTrue
		if i < notReady {
			status = corev1.ConditionUnknown
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: long}}
		c.api.Put(node)
	}
	client := c.api.Client()
	factory := informers.NewSharedInformerFactory(client, 0)
	config := nodelifecycle.Config{
		Client: client, Cloud: b.cloud, Nodes: factory.Core().V1().Nodes(), MonitorPeriod: 200 * time.Millisecond, Workers: 10, Options: nodelifecycle.NewOptions(),
	}
	config.Options.TakeoverGrace = 0
	if change != nil {
		change(&config)
	}
	controller, err := nodelifecycle.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ccmtest.RunController(t, factory, controller.Run)
	return c
}

// told counts the events with a reason.
func (c *cluster) told(reason string) int {
	return len(slices.DeleteFunc(c.api.Events(), func(event string) bool { return !strings.Contains(event, " "+reason+": ") }))
}

func (c *cluster) left() int { return len(c.api.Nodes()) }

// all applies a change to the instances of the first nodes.
func (b *bench) all(t *testing.T, count int, change func(id string) error) {
	t.Helper()
	for _, node := range b.nodes[:count] {
		if err := change(instance(node)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnAnswerThatLeavesInstancesOutDeletesNoNode(t *testing.T) {
	b := set(t, 20, inTree)
	b.all(t, 3, func(id string) error { return b.HideInstance(id, true) })
	states, err := b.cloud.ListInstances(t.Context(), b.nodes, cloud.WantExists)
	if err != nil {
		t.Fatal(err)
	}
	for i, state := range states {
		if left := i < 3; (state.Err != nil) != left || state.Exists == left {
			t.Errorf("%s: %+v", b.nodes[i].Name, state)
		}
	}
	if exists, err := b.cloud.InstanceExists(t.Context(), b.nodes[0]); err == nil {
		t.Errorf("the provider itself says %v without an error", exists)
	}
	c := watchOver(t, b, 3, nil)
	eventually(t, "three events", func() bool { return c.told(nodelifecycle.ReadingInstanceFailed) == 3 })
	if n := c.left(); n != 20 {
		t.Errorf("%d nodes are left of 20", n)
	}
	// What EC2 says of one of them is believed.
	if err := b.HideInstance(instance(b.nodes[0]), false); err != nil {
		t.Fatal(err)
	}
	if err := b.VanishInstance(instance(b.nodes[0])); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deletion of the one that is gone", func() bool { return c.api.Node(b.nodes[0].Name) == nil })
	if n := c.left(); n != 19 {
		t.Errorf("%d nodes are left of 19", n)
	}
}

// An account that has none of the instances answers InvalidInstanceID.NotFound for each.
func TestCredentialsOfAnotherAccountDeleteNoNode(t *testing.T) {
	b := set(t, 20, inTree)
	b.all(t, 20, b.VanishInstance)
	c := watchOver(t, b, 15, nil)
	eventually(t, "the events", func() bool { return c.told(nodelifecycle.NodeDeletionHeld) == 15 })
	if n := c.left(); n != 20 || c.told(nodelifecycle.DeletingNode) > 0 {
		t.Errorf("%d nodes are left of 20: %q", n, c.api.Events())
	}
}

func TestACloudThatLosesOurOwnInstanceDeletesNoNode(t *testing.T) {
	b := set(t, 20, inTree)
	b.all(t, 2, b.VanishInstance)
	c := watchOver(t, b, 1, func(config *nodelifecycle.Config) { config.Host = nodelifecycle.Host{Name: b.nodes[1].Name} })
	eventually(t, "the event", func() bool { return c.told(nodelifecycle.NodeDeletionHeld) == 1 })
	if n := c.left(); n != 20 {
		t.Errorf("%d nodes are left of 20", n)
	}
}

func TestAScaleDownOfTerminatedInstancesIsNotHeld(t *testing.T) {
	b := set(t, 500, inTree)
	b.all(t, 100, func(id string) error { return b.SetInstanceState(id, "terminated") })
	c := watchOver(t, b, 150, nil)
	eventually(t, "the deletion of 100 nodes", func() bool { return c.left() == 400 })
	if n := c.told(nodelifecycle.NodeDeletionHeld); n > 0 {
		t.Errorf("%d nodes were held", n)
	}
}

func TestMoreInstancesThanTheLimitThatEC2HasForgottenAreHeld(t *testing.T) {
	b := set(t, 100, inTree)
	b.all(t, 11, b.VanishInstance)
	c := watchOver(t, b, 11, nil)
	eventually(t, "the events", func() bool { return c.told(nodelifecycle.NodeDeletionHeld) == 11 })
	if n := c.left(); n != 100 {
		t.Errorf("%d nodes are left of 100", n)
	}
	for _, node := range b.nodes { // as the event says: on all nodes
		c.api.Change(node.Name, func(node *corev1.Node) {
			node.Annotations = map[string]string{nodelifecycle.ReleaseAnnotation: time.Now().UTC().Format(time.RFC3339)}
		})
	}
	eventually(t, "the deletion of those that were released", func() bool { return c.left() == 89 })

	unlimited := watchOver(t, b, 11, func(config *nodelifecycle.Config) { config.Options.DeletionLimitPercent = 100 })
	eventually(t, "the deletion without a limit", func() bool { return unlimited.left() == 89 })
}

func TestAListThatIsNotCompleteTakesNoMembersFromLoadBalancers(t *testing.T) {
	for _, kind := range []string{"", "nlb"} {
		t.Run(fmt.Sprintf("kind %q", kind), func(t *testing.T) {
			b := set(t, 4, inTree)
			b.know(t, b.nodes...)
			balancers, _ := b.cloud.LoadBalancer()
			if _, err := balancers.EnsureLoadBalancer(t.Context(), "lab", web(kind), b.nodes[:2]); err != nil {
				t.Fatal(err)
			}
			join := func(ip string) *corev1.Node { // a node that the provider's list does not have, so that it makes another
				added, err := b.AddInstance(awssim.Instance{PrivateIP: ip})
				if err != nil {
					t.Fatal(err)
				}
				node := b.nodes[3].DeepCopy()
				node.Name, node.Spec.ProviderID = added.PrivateDNS, "aws:///"+added.Zone+"/"+added.ID
				return node
			}
			joined := join("10.0.0.200")
			update := func(nodes ...*corev1.Node) (changes []string, err error) {
				since := b.count()
				err = balancers.UpdateLoadBalancer(t.Context(), "lab", web(kind), nodes)
				return b.calls(since, mutating), err
			}
			if err := b.HideInstance(instance(b.nodes[0]), true); err != nil {
				t.Fatal(err)
			}
			if changes, err := update(
				b.nodes[0],
				b.nodes[1],
				joined,
			); err == nil || !strings.Contains(err.Error(), "EC2's list lacks "+instance(b.nodes[0])) ||
				len(changes) > 0 {
				t.Errorf("with a list that is not complete: %v, %q", err, changes)
			}
			if err := b.HideInstance(instance(b.nodes[0]), false); err != nil {
				t.Fatal(err)
			}
			if changes, err := update(b.nodes[0], b.nodes[1], joined); err != nil || len(changes) == 0 {
				t.Errorf("with a complete list: %v, %q", err, changes)
			}
			if err := b.VanishInstance(instance(b.nodes[2])); err != nil {
				t.Fatal(err)
			}
			if _, err := update(b.nodes[0], b.nodes[1], b.nodes[2], joined, join("10.0.0.201")); err != nil {
				t.Errorf("with one that is gone: %v", err)
			}
		})
	}
}
