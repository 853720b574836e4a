package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/lab/poll"
)

// What cloud managers and kubelets say to each other through the Node object.
const (
	taintUninitialized   = "node.cloudprovider.kubernetes.io/uninitialized"
	annotationProvidedIP = "alpha.kubernetes.io/provided-node-ip"
	annotationAttach     = "volumes.kubernetes.io/controller-managed-attach-detach"
)

// defaultLabels are what a kubelet puts on its node, also when it finds it registered.
var defaultLabels = []string{
	corev1.LabelHostname,
	corev1.LabelOSStable, corev1.LabelArchStable,
	"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	corev1.LabelInstanceTypeStable, corev1.LabelInstanceType,
}

// Instance is what a kubelet with an in-tree provider learns from its cloud about the machine it runs on.
type Instance struct {
	ProviderID string // aws:///us-east-1a/i-0123
	// UUID is what the machine's firmware calls it; empty for one of the host's own.
	UUID         string
	Zone         string
	Region       string
	InstanceType string
	Addresses    []corev1.NodeAddress
}

// agent is the part of a kubelet that speaks for its node: it registers it once, and then reports and renews.
type agent struct {
	client   kubernetes.Interface
	name     string
	opts     *Options
	flags    Flags
	profile  Profile
	log      *slog.Logger
	machine  machine
	lastText string
	claims   Claims                      // nil for none
	announce func(context.Context) error // what claims want done first
}

// run registers the node and keeps it alive until ctx ends. A node that is deleted meanwhile is not registered again
// before the kubelet's next start, as with a real one.
func (a *agent) run(ctx context.Context) {
	if !a.retry(ctx, "Registering node", a.register) {
		return
	}
	if a.claims != nil && !a.retry(ctx, "Announcing volume plugins", a.announce) {
		return
	}
	a.log.Info("Successfully registered node", "node", a.name, "cloudProvider", a.flags.CloudProvider)
	every(ctx, a.profile.NodeStatus, func() { a.report(ctx, "Updating node status", a.update(ctx)) })
}

// retry does something until there is no error, and reports whether that was before ctx ended.
func (a *agent) retry(ctx context.Context, what string, do func(context.Context) error) bool {
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 7*time.Second) {
		err := do(ctx)
		a.report(ctx, what, err)
		if err == nil {
			return true
		}
		if !poll.Pause(ctx, delay) {
			return false
		}
	}
}

// report logs a trouble once, and its end.
func (a *agent) report(ctx context.Context, what string, err error) {
	text := ""
	if err != nil {
		text = what + ": " + err.Error()
	}
	if text == a.lastText || ctx.Err() != nil {
		return
	}
	a.lastText = text
	if err != nil {
		a.log.Error(what, "node", a.name, "err", err)
	} else {
		a.log.Info(what+" works again", "node", a.name)
	}
}

// register creates the node. One that exists keeps its taints and provider ID, and gets the default labels.
func (a *agent) register(ctx context.Context) error {
	node := a.initial(time.Now())
	_, err := a.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err == nil {
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating node %q: %w", a.name, err)
	}
	have, err := a.client.CoreV1().Nodes().Get(ctx, a.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading node %q: %w", a.name, err)
	}
	labels := map[string]string{}
	for _, key := range defaultLabels {
		if value := node.Labels[key]; value != "" && have.Labels[key] != value {
			labels[key] = value
		}
	}
	if len(labels) == 0 {
		return nil
	}
	return a.patch(ctx, map[string]any{"metadata": map[string]any{"labels": labels}})
}

// initial is the node as this kubelet would register it.
func (a *agent) initial(now time.Time) *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname:      a.name,
		corev1.LabelOSStable:      runtime.GOOS,
		corev1.LabelArchStable:    runtime.GOARCH,
		"beta.kubernetes.io/os":   runtime.GOOS,
		"beta.kubernetes.io/arch": runtime.GOARCH,
	}
	maps.Copy(labels, a.opts.Labels)
	maps.Copy(labels, a.flags.NodeLabels)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: a.name, Labels: labels, Annotations: map[string]string{annotationAttach: "true"}},
		Spec:       corev1.NodeSpec{ProviderID: a.flags.ProviderID, Taints: append([]corev1.Taint(nil), a.opts.Taints...)},
	}
	switch {
	case a.flags.CloudProvider == CloudExternal:
		node.Spec.Taints = append(
			node.Spec.Taints,
			corev1.Taint{Key: taintUninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		)
	case a.flags.inTree():
		i := a.opts.Instance
		if node.Spec.ProviderID == "" {
			node.Spec.ProviderID = i.ProviderID
		}
		for key, value := range map[string]string{
			corev1.LabelInstanceType: i.InstanceType, corev1.LabelInstanceTypeStable: i.InstanceType,
			corev1.LabelFailureDomainBetaZone: i.Zone, corev1.LabelTopologyZone: i.Zone,
			corev1.LabelFailureDomainBetaRegion: i.Region, corev1.LabelTopologyRegion: i.Region,
		} {
			if value != "" {
				labels[key] = value
			}
		}
	}
	if ip := a.providedIP(); ip != "" {
		node.Annotations[annotationProvidedIP] = ip
	}
	node.Status = a.machine.status()
	node.Status.Addresses = a.addresses(nil)
	node.Status.Conditions = conditions(nil, now)
	return node
}

// providedIP is what the annotation for the cloud managers says: only an address that was given to the kubelet, and
// only if there is a cloud.
func (a *agent) providedIP() string {
	if a.flags.CloudProvider == CloudNone {
		return ""
	}
	return a.flags.NodeIP
}

// addresses are the node's addresses as this kubelet sees them. Under an external provider, what somebody has set
// already stays.
func (a *agent) addresses(have []corev1.NodeAddress) []corev1.NodeAddress {
	if a.flags.CloudProvider == CloudExternal && len(have) > 0 {
		return have
	}
	if a.flags.inTree() && len(a.opts.Instance.Addresses) > 0 {
		return a.opts.Instance.Addresses
	}
	ip := a.flags.NodeIP
	if ip == "" {
		ip = a.opts.InternalIP
	}
	return []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}, {Type: corev1.NodeHostName, Address: a.name}}
}

// update reports the node's state. It sends its own conditions, and addresses only if they differ, so that it does not
// undo what cloud managers write.
func (a *agent) update(ctx context.Context) error {
	have, err := a.client.CoreV1().Nodes().Get(ctx, a.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading node %q: %w", a.name, err)
	}
	want := a.machine.status()
	status := map[string]any{"conditions": conditions(have.Status.Conditions, time.Now())}
	if have.Status.NodeInfo != want.NodeInfo {
		status["nodeInfo"] = want.NodeInfo
	}
	if !equality.Semantic.DeepEqual(have.Status.Capacity, want.Capacity) {
		status["capacity"] = want.Capacity
	}
	if !equality.Semantic.DeepEqual(have.Status.Allocatable, want.Allocatable) {
		status["allocatable"] = want.Allocatable
	}
	if addresses := a.addresses(have.Status.Addresses); !equality.Semantic.DeepEqual(addresses, have.Status.Addresses) {
		list := []any{map[string]string{"$patch": "replace"}}
		for _, address := range addresses {
			list = append(list, address)
		}
		status["addresses"] = list
	}
	if a.claims != nil {
		if used := a.claims.InUse(); !slices.Equal(used, have.Status.VolumesInUse) {
			status["volumesInUse"] = used
		}
	}
	body := map[string]any{"status": status}
	switch ip, set := have.Annotations[annotationProvidedIP]; {
	case a.providedIP() != "" && ip != a.providedIP():
		body["metadata"] = map[string]any{"annotations": map[string]any{annotationProvidedIP: a.providedIP()}}
	case a.providedIP() == "" && set:
		body["metadata"] = map[string]any{"annotations": map[string]any{annotationProvidedIP: nil}}
	}
	return a.patch(ctx, body)
}

func (a *agent) patch(ctx context.Context, body map[string]any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("building patch of node %q: %w", a.name, err)
	}
	if _, err := a.client.CoreV1().
		Nodes().
		Patch(ctx, a.name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("updating node %q: %w", a.name, err)
	}
	return nil
}

// conditions are the ones that a kubelet reports. A condition that is still the same keeps the time of its last change.
func conditions(have []corev1.NodeCondition, now time.Time) []corev1.NodeCondition {
	out := []corev1.NodeCondition{
		{
			Type:    corev1.NodeMemoryPressure,
			Status:  corev1.ConditionFalse,
			Reason:  "KubeletHasSufficientMemory",
			Message: "kubelet has sufficient memory available",
		},
		{
			Type:    corev1.NodeDiskPressure,
			Status:  corev1.ConditionFalse,
			Reason:  "KubeletHasNoDiskPressure",
			Message: "kubelet has no disk pressure",
		},
		{
			Type:    corev1.NodePIDPressure,
			Status:  corev1.ConditionFalse,
			Reason:  "KubeletHasSufficientPID",
			Message: "kubelet has sufficient PID available",
		},
		{
			Type:    corev1.NodeReady,
			Status:  corev1.ConditionTrue,
			Reason:  "KubeletReady",
			Message: "kubelet is posting ready status",
		},
	}
	for i := range out {
		out[i].LastHeartbeatTime = seconds(metav1.NewTime(now))
		out[i].LastTransitionTime = out[i].LastHeartbeatTime
		for _, old := range have {
			if old.Type == out[i].Type && old.Status == out[i].Status {
				out[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return out
}

// every calls f at once and then once per period until ctx ends.
func every(ctx context.Context, period time.Duration, f func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		f()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
