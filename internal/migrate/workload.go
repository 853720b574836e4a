package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/snapshot"
)

// workload changes a Deployment: its replicas (Scale), and flags in its pod template (EditWorkload, and Scale with edits: those are made in the same
// write, so that no pod ever starts with the old flags).
type workload struct{ *Engine }

// workloadBefore is what a record keeps of a workload.
type workloadBefore struct {
	Replicas *int64 `json:"replicas,omitempty"`
	// Back takes the change of the command line of the component's container back; nil where there was none.
	Back *commandBack `json:"back,omitempty"`
	// Command and Args are the whole command line, in journals of versions that kept it; Edited is set in those alone, so
	// that such a version puts nothing in the place of a command line that it does not find.
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	Edited  bool     `json:"edited,omitempty"`
	// Mounted are the volumes that the step added.
	Mounted []string `json:"mounted,omitempty"`
}

// isEdited reports whether the step edited a command line.
func (b workloadBefore) isEdited() bool { return b.Edited || b.Back != nil }

func (x workload) done(ctx context.Context, s v1.Step) (bool, error) {
	live, err := x.live(ctx, s.Ref)
	if err != nil {
		return false, err
	}
	next, err := x.next(s, live)
	var stale *StaleError
	if errors.As(err, &stale) {
		return false, nil // do says so
	}
	if err != nil {
		return false, err
	}
	if !equalJSON(live.Object["spec"], next.Object["spec"]) {
		return false, nil
	}
	if why, err := x.rolledOut(ctx, live); err != nil || why != "" {
		return false, pending(why, err)
	}
	for _, lease := range s.Leases {
		if replicasOf(live) == 0 {
			continue // its lease runs out; nobody waits for it
		}
		if why, err := x.led(ctx, s, live, lease); err != nil || why != "" {
			return false, pending(why, err)
		}
	}
	return true, nil
}

func pending(why string, err error) error {
	if err != nil || why == "" {
		return err
	}
	return pendingError(why)
}

func (x workload) do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	live, err := x.live(ctx, s.Ref)
	if err != nil {
		return err
	}
	if err := x.checkLive(s, live); err != nil {
		return err
	}
	if rec.Before == "" {
		before, err := before(s, live)
		if err != nil {
			return err
		}
		rec.Before = before
	}
	next, err := x.next(s, live)
	if err != nil {
		return err
	}
	unchanged := equalJSON(live.Object["spec"], next.Object["spec"])
	var ends *rolloutEnds
	if !unchanged { // else an earlier try has bound them
		if err := x.bindPods(ctx, s, rec); err != nil {
			return err
		}
		if ends, err = x.bindRollout(ctx, s); err != nil {
			return err
		}
	}
	if rec.AfterSHA256, err = x.sumOf(next, s); err != nil {
		return err
	}
	if err := x.journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.Hook("during", s.ID)
	err = x.update(ctx, s.Ref, func(o *unstructured.Unstructured) (bool, error) {
		next, err := x.next(s, o)
		if err != nil || equalJSON(o.Object["spec"], next.Object["spec"]) {
			return false, err
		}
		o.Object = next.Object
		return true, nil
	})
	if err != nil {
		return err
	}
	if !x.refInSeed(s.Ref) {
		return ends.release(ctx)
	}
	return x.release(ctx, s, rec)
}

// checkLive returns why the live workload must not be changed: it does not run the step's component, which counts also where
// only its replicas change, or what is put back is not this migration's.
func (x workload) checkLive(s v1.Step, live *unstructured.Unstructured) error {
	if _, err := containerOf(live, s); err != nil {
		return err
	}
	if err := x.oursToTakeBack(s, live); err != nil {
		return err
	}
	return x.onlyEditable(s, live)
}

// sumOf is by what a workload is known as the one that a step has changed: in a seed, where others write the template too, by its command line.
func (x workload) sumOf(o *unstructured.Unstructured, s v1.Step) (string, error) {
	if x.refInSeed(s.Ref) {
		return commandSum(o, s)
	}
	return templateSum(o), nil
}

// oursToTakeBack refuses to put the old command line of a container back over one that somebody else wrote after this migration did. That of a control plane
// in a seed is whoever's hosts it, who writes it anew when it likes.
func (x workload) oursToTakeBack(s v1.Step, live *unstructured.Unstructured) error {
	if s.Restore == "" || len(s.Edits) > 0 || x.refInSeed(s.Ref) {
		return nil
	}
	raw := x.journal.Record(s.Restore).Before
	var was workloadBefore
	if raw == "" || json.Unmarshal([]byte(raw), &was) != nil || !was.isEdited() {
		return nil
	}
	c, err := containerOf(live, s)
	if err != nil {
		return err
	}
	if _, known := x.takenBack(s, was, commandLineOf(c)); known {
		return nil
	}
	return changedCommand(s)
}

func changedCommand(s v1.Step) error {
	return &StaleError{Changed: []string{fmt.Sprintf("the command of %s in %s was changed by somebody else after this migration wrote it: "+
		"put your change aside, then run transplant rollback again", s.Component, s.Ref)}}
}

// onlyEditable holds a command line that a record puts back to the flags that a migration changes: the record is in the journal, which others may write.
func (x workload) onlyEditable(s v1.Step, live *unstructured.Unstructured) error {
	raw := x.journal.Record(s.Restore).Before
	if s.Restore == "" || len(s.Edits) > 0 || raw == "" || x.unjudged {
		return nil
	}
	var was workloadBefore
	if err := json.Unmarshal([]byte(raw), &was); err != nil {
		return fmt.Errorf("record of step %s: %w", s.Restore, err)
	}
	c, err := containerOf(live, s)
	if err != nil || !was.isEdited() {
		return err
	}
	now := commandLineOf(c)
	back, err := x.restored(s, was, now)
	if err != nil {
		return err
	}
	if err := plan.OnlyEditable(s.Component, now.command, now.args, back.command, back.args, x.plan.Options); err != nil {
		return &UntrustedError{What: "the record of step " + s.Restore, Err: err}
	}
	original, err := x.takesBack(s, now, back)
	if err != nil {
		return err
	}
	for _, name := range was.Mounted {
		if !slices.Contains(mounted(original.Edits), name) {
			return &UntrustedError{What: "the record of step " + s.Restore, Err: fmt.Errorf("the step has mounted no volume %s that could be removed", name)}
		}
	}
	return nil
}

// takesBack returns the step that another one takes back. A command line that changes more of the live one than it did is refused.
func (x workload) takesBack(s v1.Step, now, back commandLine) (v1.Step, error) {
	original, known := x.step(s.Restore)
	if !known || original.Ref != s.Ref || original.Component != s.Component {
		return original, &UntrustedError{What: "step " + s.ID, Err: fmt.Errorf("step %s, which it takes back, has not changed %s of %s", s.Restore, s.Component, s.Ref)}
	}
	changed := original
	for _, there := range x.journal.Doc().Plan.Steps { // the way back may lead through several steps of the workload
		if there.Ref == s.Ref && there.Component == s.Component && there.ID != original.ID {
			changed.Edits = slices.Concat(changed.Edits, there.Edits)
		}
	}
	if err := plan.AllowedBack(x.plan, changed, now.words(), back.words()); err != nil {
		return original, &UntrustedError{What: "the record of step " + s.Restore, Err: err}
	}
	return original, nil
}

// restored is the command line that a record puts back in the place of the live one.
func (x workload) restored(s v1.Step, was workloadBefore, live commandLine) (commandLine, error) {
	back, known := x.takenBack(s, was, live)
	switch {
	case known:
		return back, nil
	case !x.refInSeed(s.Ref):
		return commandLine{}, changedCommand(s)
	case was.Back == nil:
		return commandLine{was.Command, was.Args}, nil
	}
	original, _ := x.step(s.Restore)
	back, err := was.Back.inverse(x.plan, original, live) // whose hosts the control plane has written another one
	if err != nil {
		return commandLine{}, fmt.Errorf("%s: %w", s.Ref, err)
	}
	return back, nil
}

// led says why none of a workload's pods leads by a lease of the step; empty when one does. In a seed the pods say so themselves, and a lease that is not
// their component's is not asked for: who has it then is said by the owners that the step expects.
func (x workload) led(ctx context.Context, s v1.Step, live *unstructured.Unstructured, lease string) (string, error) {
	if !x.refInSeed(s.Ref) {
		return x.leads(ctx, live, lease)
	}
	if lease != s.Component {
		return "", nil
	}
	pods, err := x.podsOf(ctx, live)
	if err != nil {
		return "", err
	}
	return x.leadsBy(ctx, s.Component, lease, pods)
}

// next is the object as the step wants it.
func (x workload) next(s v1.Step, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	next := live.DeepCopy()
	replicas, edits := s.Replicas, s.Edits
	var was workloadBefore
	if s.Restore != "" && len(s.Edits) == 0 {
		raw := x.journal.Record(s.Restore).Before
		if raw == "" {
			return next, nil // the step was begun and changed nothing
		}
		if err := json.Unmarshal([]byte(raw), &was); err != nil {
			return nil, fmt.Errorf("record of step %s: %w", s.Restore, err)
		}
	}
	if replicas != nil {
		was.Replicas = new(int64)
		*was.Replicas = int64(*replicas)
	}
	if was.Replicas != nil {
		if err := unstructured.SetNestedField(next.Object, *was.Replicas, "spec", "replicas"); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Ref, err)
		}
	}
	if len(edits) == 0 && !was.isEdited() {
		return next, nil
	}
	c, err := containerOf(next, s)
	if err != nil {
		return nil, err
	}
	command, args, err := x.edited(next, c, s, was)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string][]string{"command": command, "args": args} {
		if len(value) == 0 {
			delete(c, name)
			continue
		}
		c[name] = anyList(value)
	}
	return next, nil
}

// edited carries the edits of a step out on a container, or takes those back that a record tells of. The mounts are changed in place, command and
// arguments are returned.
func (x workload) edited(o *unstructured.Unstructured, c map[string]any, s v1.Step, was workloadBefore) (command, args []string, err error) {
	live := commandLineOf(c)
	if !was.isEdited() {
		if err := x.allowedOn(s, controlplane.Unwrapped(slices.Concat(live.command, live.args))); err != nil {
			return nil, nil, err
		}
		if command, args, err = controlplane.ApplyArguments(live.command, live.args, flagEdits(s.Edits)); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", s.Ref, err)
		}
		return command, args, applyMounts(o, c, s.Edits)
	}
	for _, name := range was.Mounted {
		if err := dropVolume(o, c, name); err != nil {
			return nil, nil, err
		}
	}
	back, err := x.restored(s, was, live)
	return back.command, back.args, err
}

// before is what the step is about to change, as JSON.
func before(s v1.Step, live *unstructured.Unstructured) (string, error) {
	var was workloadBefore
	if s.Replicas != nil {
		n := replicasOf(live)
		was.Replicas = &n
	}
	if len(s.Edits) > 0 || s.Kind == v1.StepEditWorkload {
		c, err := containerOf(live, s)
		if err != nil {
			return "", err
		}
		was.Mounted = mounted(s.Edits)
		made := commandLineOf(c)
		if len(s.Edits) > 0 {
			if made, err = made.edited(s.Edits); err != nil {
				return "", fmt.Errorf("%s: %w", s.Ref, err)
			}
		}
		if was.Back, err = takeBackOf(s, commandLineOf(c), made); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(was)
	if err != nil {
		return "", fmt.Errorf("keeping what %s had: %w", s.Ref, err)
	}
	return string(data), nil
}

// containerOf is the container of a pod template that runs the step's component.
func containerOf(o *unstructured.Unstructured, s v1.Step) (map[string]any, error) {
	containers, _, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Ref, err)
	}
	all, _ := containers.([]any)
	var found []map[string]any
	for _, c := range all {
		m, _ := c.(map[string]any)
		if runs(m, s.Component) {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%s has %d containers that run %s, not one: it cannot be changed or scaled safely", s.Ref, len(found), s.Component)
	}
	return found[0], nil
}

func runs(c map[string]any, component string) bool {
	for _, word := range controlplane.Unwrapped(append(list(c, "command"), list(c, "args")...)) {
		if word == component || strings.HasSuffix(word, "/"+component) || component == ccm && strings.HasSuffix(word, "-"+ccm) && !strings.HasPrefix(word, "-") {
			return true
		}
	}
	image, _ := c["image"].(string)
	image, _, _ = strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return image == component && len(list(c, "command")) == 0
}

func list(c map[string]any, name string) []string {
	items, _ := c[name].([]any)
	var out []string
	for _, i := range items {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

func anyList(in []string) []any {
	out := make([]any, len(in))
	for i := range in {
		out[i] = in[i]
	}
	return out
}

func replicasOf(o *unstructured.Unstructured) int64 {
	n, found, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if err != nil || !found {
		return 1 // the API's default
	}
	return n
}

// templateSum is the hash of a pod template, as a snapshot has it.
func templateSum(o *unstructured.Unstructured) string {
	template, found, err := unstructured.NestedMap(o.Object, "spec", "template")
	if err != nil || !found {
		return absent
	}
	return snapshot.TemplateSHA256(template)
}

// commandSum is the hash of the command of a step's component, as a snapshot has that of one in a seed.
func commandSum(o *unstructured.Unstructured, s v1.Step) (string, error) {
	c, err := containerOf(o, s)
	if err != nil {
		return "", err
	}
	return snapshot.CommandSHA256(append(list(c, "command"), list(c, "args")...)), nil
}

// rolledOut says why a workload is not what its template says; empty when it is. Pods that are ending count: a manager that still ends may still
// write to the cloud.
func (e *Engine) rolledOut(ctx context.Context, o *unstructured.Unstructured) (string, error) {
	status := func(name string) int64 {
		n, _, err := unstructured.NestedInt64(o.Object, "status", name)
		if err != nil {
			return -1
		}
		return n
	}
	ref := o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
	if o.GetGeneration() > status("observedGeneration") {
		return ref + ": its controller has not seen the change yet", nil
	}
	want, updated, ready := replicasOf(o), status("updatedReplicas"), status("readyReplicas")
	if o.GetKind() == "DaemonSet" {
		want, updated, ready = status("desiredNumberScheduled"), status("updatedNumberScheduled"), status("numberReady")
		if want == 0 {
			return ref + " has no node to run on", nil
		}
	}
	if updated != want || ready != want {
		return fmt.Sprintf("%s: %d of %d pods are updated, %d ready", ref, updated, want, ready), nil
	}
	pods, err := e.podsOf(ctx, o)
	if err != nil {
		return "", err
	}
	if int64(len(pods)) > want {
		return fmt.Sprintf("%s: %d of its pods still end", ref, int64(len(pods))-want), nil
	}
	return "", nil
}

func (e *Engine) podsOf(ctx context.Context, o *unstructured.Unstructured) ([]corev1.Pod, error) {
	match, _, err := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
	if err != nil || len(match) == 0 {
		return nil, fmt.Errorf("%s %s/%s has no selector by labels", o.GetKind(), o.GetNamespace(), o.GetName())
	}
	pods, err := e.kubeOf(o.GetNamespace()).CoreV1().Pods(o.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: labels.Set(match).String()})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { // a server may hand out more than it was asked for
		return !labels.SelectorFromSet(match).Matches(labels.Set(p.Labels)) || snapshot.HasEnded(&p)
	}), nil
}

// leads says why none of a workload's pods holds a lease and renews it; empty when one does.
func (e *Engine) leads(ctx context.Context, o *unstructured.Unstructured, lease string) (string, error) {
	l, err := e.Kube.CoordinationV1().Leases(namespace).Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading Lease %s/%s: %w", namespace, lease, err)
	}
	pods, err := e.podsOf(ctx, o)
	if err != nil {
		return "", err
	}
	holder := ""
	if l.Spec.HolderIdentity != nil {
		holder = *l.Spec.HolderIdentity
	}
	fresh := l.Spec.RenewTime != nil && l.Spec.LeaseDurationSeconds != nil &&
		e.Clock.Now().Before(l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second))
	for _, p := range pods {
		if !fresh {
			break
		}
		if names, err := e.hostNamesOf(ctx, p); err != nil {
			return "", err
		} else if isNamed(holder, names) {
			return "", nil
		}
	}
	return fmt.Sprintf("lease %s is held by %q, which is none of the pods of %s/%s", lease, holder, o.GetNamespace(), o.GetName()), nil
}

// hostNamesOf are the names that a manager in a pod may give itself by its host name: that is the pod's, or the machine's when it has its network. A machine
// may be called other than its Node, whose name is the cloud's with some providers; its kubelet puts its own name on the Node.
func (e *Engine) hostNamesOf(ctx context.Context, p corev1.Pod) ([]string, error) {
	if !p.Spec.HostNetwork {
		return []string{p.Name}, nil
	}
	names := []string{p.Spec.NodeName}
	n, err := e.Kube.CoreV1().Nodes().Get(ctx, p.Spec.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return names, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading Node %s of pod %s/%s: %w", p.Spec.NodeName, p.Namespace, p.Name, err)
	}
	return append(names, n.Labels[corev1.LabelHostname]), nil
}

// isNamed tells whether the holder of a lease, a host name and something random, has one of these names: with its domain or without.
func isNamed(holder string, names []string) bool {
	i := strings.LastIndex(holder, "_")
	if i < 0 {
		return false
	}
	short, _, _ := strings.Cut(holder[:i], ".")
	return slices.ContainsFunc(names, func(name string) bool {
		name, _, _ = strings.Cut(name, ".")
		return name != "" && strings.EqualFold(name, short)
	})
}
