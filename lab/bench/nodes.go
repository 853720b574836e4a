package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/simcloud"
	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// parallel is how many requests the harness makes at once.
const parallel = 50

const (
	zone, region, instanceType = "zone-a", "region-a", "small"
	lastPlace                  = 1 << 16 // nodes have places below it: each has addresses of its own
)

// instance is the machine at a place.
func instance(place int) api.Instance {
	return api.Instance{
		Name: nodeName(
			place,
		),
		ProviderID: fmt.Sprintf("sim:///i-%05d", place),
		Type:       instanceType,
		Zone:       zone,
		Region:     region,
		Addresses: []api.Address{
			{Type: string(corev1.NodeInternalIP), Address: fmt.Sprintf("172.16.%d.%d", place/256, place%256)},
			{Type: string(corev1.NodeHostName), Address: nodeName(place)},
		},
	}
}

func nodeName(place int) string { return fmt.Sprintf("node-%05d", place) }

// fresh is the Node as a kubelet with an external cloud provider registers it, and has written it since: with as many
// images as it reports at most. What a manager keeps of them is a part of its memory.
func fresh(place int) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: nodeName(place),
			Labels: map[string]string{
				corev1.LabelHostname: nodeName(place), corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			},
			Annotations: map[string]string{
				"csi.volume.kubernetes.io/nodeid":                        fmt.Sprintf(`{"csi.sim.example":"i-%05d"}`, place),
				"node.alpha.kubernetes.io/ttl":                           "0",
				"volumes.kubernetes.io/controller-managed-attach-detach": "true",
			},
		},
		Spec: corev1.NodeSpec{
			Taints: []corev1.Taint{
				{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
			},
			PodCIDR:  podCIDR(place),
			PodCIDRs: []string{podCIDR(place)},
		},
		Status: corev1.NodeStatus{
			Capacity:        resourceList("8", "32Gi"),
			Allocatable:     resourceList("7910m", "29Gi"),
			Conditions:      []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady")},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID:               fmt.Sprintf("%032x", place),
				SystemUUID:              fmt.Sprintf("00000000-0000-4000-8000-%012x", place),
				BootID:                  fmt.Sprintf("00000000-0000-4000-9000-%012x", place),
				KernelVersion:           "6.1.0-31-amd64",
				OSImage:                 "Debian GNU/Linux 12 (bookworm)",
				OperatingSystem:         "linux",
				Architecture:            "amd64",
				ContainerRuntimeVersion: "containerd://1.7.27",
				KubeletVersion:          apiserver.DefaultVersion,
			},
			Images: images,
		},
	}
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		n.Status.Conditions = append(n.Status.Conditions, condition(kind, corev1.ConditionFalse, "KubeletHasEnough"))
	}
	return n
}

// images are as many as a kubelet reports: 50, each by its digest and by a tag.
var images = func() (all []corev1.ContainerImage) {
	for i := range 50 {
		repository := fmt.Sprintf("registry.example/team-%02d/service-%03d", i%7, i)
		names := []string{fmt.Sprintf("%s@sha256:%064x", repository, i), repository + ":v1.24.7"}
		all = append(all, corev1.ContainerImage{Names: names, SizeBytes: int64(i+1) << 20})
	}
	return all
}()

func resourceList(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse(cpu),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		corev1.ResourceMemory:           resource.MustParse(memory),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
}

func podCIDR(place int) string { return fmt.Sprintf("10.%d.%d.0/24", place/256, place%256) }

func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
	now := metav1.Now()
	return corev1.NodeCondition{
		Type:               kind,
		Status:             status,
		Reason:             reason,
		LastHeartbeatTime:  now,
		LastTransitionTime: now,
	}
}

// settled is the Node as it is once a manager has initialised it, so that none has anything to do.
func settled(place int) *corev1.Node {
	n := fresh(place)
	n.Spec.Taints = nil
	machine := instance(place)
	n.Spec.ProviderID = machine.ProviderID
	for _, a := range machine.Addresses {
		n.Status.Addresses = append(
			n.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeAddressType(a.Type), Address: a.Address},
		)
	}
	for _, label := range []struct{ key, value string }{
		{corev1.LabelInstanceType, instanceType}, {corev1.LabelInstanceTypeStable, instanceType},
		{corev1.LabelFailureDomainBetaZone, zone}, {corev1.LabelTopologyZone, zone},
		{corev1.LabelFailureDomainBetaRegion, region}, {corev1.LabelTopologyRegion, region},
	} {
		n.Labels[label.key] = label.value
	}
	return n
}

// addInstances makes the machines at the places from first on.
func (w *world) addInstances(first, count int) error {
	var change simcloud.Change
	for place := first; place < first+count; place++ {
		change.PutInstances = append(change.PutInstances, instance(place))
	}
	return w.cloud.Apply(change)
}

// addNodes makes machines and their Nodes at the places from first on, as quickly as the API takes them. It returns
// when each Node's creation was asked for.
func (w *world) addNodes(
	ctx context.Context,
	first, count int,
	node func(place int) *corev1.Node,
) (map[string]time.Time, error) {
	if first+count > lastPlace {
		return nil, fmt.Errorf("making %d nodes: there can be %d", first+count, lastPlace)
	}
	if err := w.addInstances(first, count); err != nil {
		return nil, err
	}
	asked := make([]time.Time, count)
	err := each(ctx, count, func(ctx context.Context, i int) error {
		asked[i] = time.Now()
		_, err := w.client.CoreV1().Nodes().Create(ctx, node(first+i), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("creating nodes: %w", err)
	}
	out := make(map[string]time.Time, count)
	for i, at := range asked {
		out[nodeName(first+i)] = at
	}
	return out, nil
}

// each does something for every number below count, in parallel.
func each(ctx context.Context, count int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range count {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}

// setReady changes a Node's condition Ready, or renews it.
func (w *world) setReady(ctx context.Context, name string, status corev1.ConditionStatus, reason string) error {
	patch, err := json.Marshal(
		map[string]any{
			"status": map[string]any{"conditions": []corev1.NodeCondition{condition(corev1.NodeReady, status, reason)}},
		},
	)
	if err != nil {
		return fmt.Errorf("encoding condition: %w", err)
	}
	_, err = w.client.CoreV1().
		Nodes().
		Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("changing condition Ready of node %q: %w", name, err)
	}
	return nil
}

// lose makes Nodes NotReady, as kube-controller-manager does when their kubelets are silent, and returns when each one
// was.
func (w *world) lose(ctx context.Context, names []string) (map[string]time.Time, error) {
	at := make([]time.Time, len(names))
	err := each(ctx, len(names), func(ctx context.Context, i int) error {
		err := w.setReady(ctx, names[i], corev1.ConditionUnknown, "NodeStatusUnknown")
		at[i] = time.Now()
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make(map[string]time.Time, len(names))
	for i, name := range names {
		out[name] = at[i]
	}
	return out, nil
}
