package component

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Instance is what the account says about a machine.
type Instance struct {
	Machine    string `json:"machine"` // UID of the Machine
	ID         string `json:"id"`
	PrivateIP  string `json:"privateIP"`
	NodeName   string `json:"nodeName"`
	ProviderID string `json:"providerID"`
	// KubeletFlags are what its kubelet is started with.
	KubeletFlags []string `json:"kubeletFlags"`
}

// controller is one look at everything, and what follows from it.
type controller struct {
	clients
	account     string
	deployments []*Set
	sets        []*Set
	machines    []*Machine
	nodes       map[string]*corev1.Node // by name
	instances   map[string]Instance     // by the Machine's UID
}

// machineController makes machines of MachineDeployments, as long as it runs.
func machineController(ctx context.Context, args []string) error {
	var s settings
	if err := s.parse("machine-controller", "node-external-cloud-provider", args, nil); err != nil {
		return err
	}
	c, err := s.connect()
	if err != nil {
		return err
	}
	serveHealth(s.health)
	account := os.Getenv(EnvMachines)
	repeat(ctx, func(ctx context.Context) error {
		w := &controller{clients: c, account: account}
		if err := w.look(ctx); err != nil {
			return err
		}
		var errs []error
		for _, m := range w.machines {
			errs = append(errs, w.machine(ctx, m))
		}
		for _, set := range w.sets {
			errs = append(errs, w.set(ctx, set))
		}
		for _, d := range w.deployments {
			errs = append(errs, w.deployment(ctx, d))
		}
		return errors.Join(errs...)
	})
	return nil
}

func (w *controller) look(ctx context.Context) error {
	var err error
	if w.deployments, err = listSets(ctx, w.dyn, MachineDeployments); err != nil {
		return err
	}
	if w.sets, err = listSets(ctx, w.dyn, MachineSets); err != nil {
		return err
	}
	if w.machines, err = listMachines(ctx, w.dyn); err != nil {
		return err
	}
	nodes, err := w.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	w.nodes = map[string]*corev1.Node{}
	for i := range nodes.Items {
		w.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	var instances []Instance
	if err := w.call(ctx, http.MethodGet, "/machines", nil, &instances); err != nil {
		return err
	}
	w.instances = map[string]Instance{}
	for _, i := range instances {
		w.instances[i.Machine] = i
	}
	return nil
}

func (w *controller) call(ctx context.Context, method, path string, body, into any) error {
	var data bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&data).Encode(body); err != nil {
			return fmt.Errorf("encoding request: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, w.account+path, &data)
	if err != nil {
		return fmt.Errorf("building request: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("calling the account: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s says %s", method, path, resp.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// machine gives a Machine its instance and finds its node, or takes both away.
func (w *controller) machine(ctx context.Context, m *Machine) error {
	i, exists := w.instances[string(m.UID)]
	if m.DeletionTimestamp != nil {
		if exists {
			if err := w.call(ctx, http.MethodDelete, "/machines/"+string(m.UID), nil, nil); err != nil {
				return err
			}
			if err := w.kube.CoreV1().
				Nodes().
				Delete(ctx, i.NodeName, metav1.DeleteOptions{}); err != nil &&
				!apierrors.IsNotFound(err) {
				return fmt.Errorf("deleting node %q: %w", i.NodeName, err)
			}
		}
		err := merge(ctx, w.dyn, Machines, m.Name, map[string]any{"metadata": map[string]any{"finalizers": nil}})
		if apierrors.IsNotFound(errors.Unwrap(err)) {
			return nil
		}
		return err
	}
	if !slices.Contains(m.Finalizers, finalizerMachine) {
		if err := merge(
			ctx,
			w.dyn,
			Machines,
			m.Name,
			map[string]any{"metadata": map[string]any{"finalizers": []string{finalizerMachine}}},
		); err != nil {
			return err
		}
	}
	if !exists {
		flags, err := w.flags(ctx, m)
		if err != nil || flags == nil {
			return err
		}
		return w.call(ctx, http.MethodPost, "/machines", Instance{Machine: string(m.UID), KubeletFlags: flags}, nil)
	}
	node := w.nodes[i.NodeName]
	if node == nil || m.Status.NodeRef != nil && m.Status.NodeRef.UID == node.UID {
		return nil
	}
	return merge(ctx, w.dyn, Machines, m.Name, map[string]any{"status": map[string]any{
		"nodeRef": corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		"addresses": []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: i.PrivateIP},
			{Type: corev1.NodeHostName, Address: i.NodeName},
		},
		"phase": "Running",
	}}, "status")
}

// flags are the kubelet's, as operating-system-manager has written them for the Machine's MachineDeployment; nil: not
// yet.
func (w *controller) flags(ctx context.Context, m *Machine) ([]string, error) {
	at := slices.IndexFunc(w.sets, func(s *Set) bool { return s.Name == ownerOf(m.OwnerReferences, "MachineSet") })
	if at < 0 {
		return nil, nil
	}
	owner := ownerOf(w.sets[at].OwnerReferences, "MachineDeployment")
	secret, err := w.kube.CoreV1().Secrets(SettingsNamespace).Get(ctx, SettingsSecret(owner), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the settings of MachineDeployment %q: %w", owner, err)
	}
	// settings of an older template are waited out; those of a newer one are what an old set gets, too
	for _, d := range w.deployments {
		if d.Name == owner && d.hash() == w.sets[at].Labels[labelTemplate] &&
			secret.Annotations[annotationTemplate] != d.hash() {
			return nil, nil
		}
	}
	return strings.Fields(string(secret.Data["kubelet-flags"])), nil
}

func (w *controller) machinesOf(set *Set) []*Machine {
	var out []*Machine
	for _, m := range w.machines {
		if ownerOf(m.OwnerReferences, "MachineSet") == set.Name {
			out = append(out, m)
		}
	}
	return out
}

// available reports whether a Machine's node is ready.
func (w *controller) available(m *Machine) bool {
	if m.DeletionTimestamp != nil || m.Status.NodeRef == nil {
		return false
	}
	node := w.nodes[m.Status.NodeRef.Name]
	return node != nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// set makes as many Machines as the MachineSet wants, and reports.
func (w *controller) set(ctx context.Context, set *Set) error {
	if set.DeletionTimestamp != nil {
		return nil
	}
	all := w.machinesOf(set)
	live := slices.DeleteFunc(slices.Clone(all), func(m *Machine) bool { return m.DeletionTimestamp != nil })
	for n := int32(len(live)); n < set.replicas(); n++ {
		if err := w.create(ctx, set); err != nil {
			return err
		}
	}
	slices.SortFunc(live, func(a, b *Machine) int { // what does not run goes first
		if w.available(a) != w.available(b) {
			if w.available(b) {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	for n := int(set.replicas()); n < len(live); n++ {
		name := live[n-int(set.replicas())].Name
		if err := w.dyn.Resource(Machines).
			Namespace(MachineNamespace).
			Delete(ctx, name, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting machine %q: %w", name, err)
		}
	}
	status := SetStatus{ObservedGeneration: set.Generation, Replicas: int32(len(all))} //nolint:gosec // a handful
	for _, m := range live {
		if w.available(m) {
			status.ReadyReplicas++
			status.AvailableReplicas++
		}
	}
	return w.report(ctx, MachineSets, set, status)
}

func (w *controller) create(ctx context.Context, set *Set) error {
	spec, _, err := unstructured.NestedMap(set.Template, "spec")
	if err != nil {
		return fmt.Errorf("reading template of MachineSet %q: %w", set.Name, err)
	}
	labels, _, _ := unstructured.NestedStringMap(set.Template, "metadata", "labels")
	annotations, _, _ := unstructured.NestedStringMap(set.Template, "metadata", "annotations")
	m := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	m.SetGroupVersionKind(Group.WithKind("Machine"))
	m.SetGenerateName(set.Name + "-")
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelTemplate] = set.Labels[labelTemplate]
	m.SetLabels(labels)
	m.SetAnnotations(annotations)
	m.SetFinalizers([]string{finalizerMachine})
	m.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(set, Group.WithKind("MachineSet"))})
	if _, err := w.dyn.Resource(Machines).Namespace(MachineNamespace).Create(ctx, m, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating machine of %q: %w", set.Name, err)
	}
	return nil
}

// report writes a status that has changed.
func (w *controller) report(ctx context.Context, kind schema.GroupVersionResource, set *Set, status SetStatus) error {
	if set.Status == status {
		return nil
	}
	return merge(ctx, w.dyn, kind, set.Name, map[string]any{"status": map[string]any{
		"observedGeneration":  status.ObservedGeneration,
		"replicas":            status.Replicas,
		"updatedReplicas":     status.UpdatedReplicas,
		"readyReplicas":       status.ReadyReplicas,
		"availableReplicas":   status.AvailableReplicas,
		"unavailableReplicas": status.Unavailable,
	}}, "status")
}

// deployment rolls a MachineDeployment: one MachineSet for each template it has had, the current one grows while the
// others shrink.
func (w *controller) deployment(ctx context.Context, d *Set) error {
	if d.DeletionTimestamp != nil {
		return nil
	}
	var current *Set
	var old []*Set
	for _, s := range w.sets {
		if ownerOf(s.OwnerReferences, "MachineDeployment") != d.Name {
			continue
		}
		if s.Labels[labelTemplate] == d.hash() {
			current = s
		} else {
			old = append(old, s)
		}
	}
	if current == nil {
		if d.Spec.Paused {
			return nil
		}
		return w.createSet(ctx, d, len(old) == 0, len(old)+1)
	}
	total, updated, available := int32(0), int32(0), int32(0)
	for _, s := range append(slices.Clone(old), current) {
		for _, m := range w.machinesOf(s) {
			total++
			if s == current {
				updated++
			}
			if w.available(m) {
				available++
			}
		}
	}
	status := SetStatus{
		ObservedGeneration: d.Generation,
		Replicas:           total,
		UpdatedReplicas:    updated,
		ReadyReplicas:      available,
		AvailableReplicas:  available,
		Unavailable:        max(0, d.replicas()-available),
	}
	err := w.report(ctx, MachineDeployments, d, status)
	if !d.Spec.Paused {
		err = errors.Join(err, w.roll(ctx, d, current, old, available))
	}
	return err
}

func (w *controller) roll(ctx context.Context, d, current *Set, old []*Set, available int32) error {
	surge, unavailable := int32(1), int32(0)
	if d.Spec.Strategy != nil && d.Spec.Strategy.RollingUpdate != nil {
		surge = scaled(d.Spec.Strategy.RollingUpdate.MaxSurge, d.replicas(), true, surge)
		unavailable = scaled(d.Spec.Strategy.RollingUpdate.MaxUnavailable, d.replicas(), false, unavailable)
	}
	wanted := current.replicas()
	for _, s := range old {
		wanted += s.replicas()
	}
	if more := min(d.replicas()+surge-wanted, d.replicas()-current.replicas()); more > 0 {
		return w.scale(ctx, current, current.replicas()+more)
	}
	if current.replicas() > d.replicas() {
		return w.scale(ctx, current, d.replicas())
	}
	spare := available - (d.replicas() - unavailable)
	for _, s := range old {
		if s.replicas() == 0 || int32(len(w.machinesOf(s))) != s.replicas() { //nolint:gosec // a handful
			continue // what was taken away has to be gone before more is
		}
		if less := min(spare, s.replicas()); less > 0 {
			return w.scale(ctx, s, s.replicas()-less)
		}
	}
	return nil
}

func scaled(v *intstr.IntOrString, of int32, up bool, byDefault int32) int32 {
	if v == nil {
		return byDefault
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, int(of), up)
	if err != nil {
		return byDefault
	}
	return int32(n) //nolint:gosec // a handful
}

func (w *controller) scale(ctx context.Context, s *Set, to int32) error {
	return merge(ctx, w.dyn, MachineSets, s.Name, map[string]any{"spec": map[string]any{"replicas": to}})
}

func (w *controller) createSet(ctx context.Context, d *Set, first bool, revision int) error {
	replicas := int64(0)
	if first {
		replicas = int64(d.replicas())
	}
	s := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": replicas,
		"selector": map[string]any{"matchLabels": map[string]any{labelTemplate: d.hash()}},
		"template": d.Template,
	}}}
	s.SetGroupVersionKind(Group.WithKind("MachineSet"))
	s.SetName(d.Name + "-" + d.hash())
	s.SetLabels(map[string]string{labelTemplate: d.hash()})
	s.SetAnnotations(map[string]string{annotationRevision: fmt.Sprint(revision)})
	s.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(d, Group.WithKind("MachineDeployment"))})
	if _, err := w.dyn.Resource(MachineSets).
		Namespace(MachineNamespace).
		Create(ctx, s, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating MachineSet of %q: %w", d.Name, err)
	}
	return merge(
		ctx,
		w.dyn,
		MachineDeployments,
		d.Name,
		map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotationRevision: fmt.Sprint(revision)}}},
	)
}
