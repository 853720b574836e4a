package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cloud-provider/api"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/migrate/drain"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/snapshot/objects"
	"github.com/transplant-dev/transplant/internal/visible"
)

// soakInterval is how often a canary is looked at while it is watched.
const soakInterval = 2 * time.Second

// nodeNow is what a node is like now, as far as a changed kubelet could change it, and whether it is Ready.
func nodeNow(ctx context.Context, e *step.Env, node string) (v1.NodeRecord, bool, error) {
	n, err := e.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return v1.NodeRecord{}, false, fmt.Errorf("reading node %s: %w", node, err)
	}
	facts := objects.Node(n)
	out := v1.NodeRecord{
		UID:        facts.UID,
		ProviderID: facts.ProviderID,
		Addresses:  facts.Addresses,
		Labels:     facts.Labels,
		Taints:     facts.Taints,
		Attachable: facts.Attachable,
	}
	csi, err := e.Kube.StorageV1().CSINodes().Get(ctx, node, metav1.GetOptions{})
	// without the right to look they are left out, before and after
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return out, false, fmt.Errorf("reading the CSI drivers of node %s: %w", node, err)
	}
	if err == nil {
		for _, d := range csi.Spec.Drivers {
			out.Drivers = append(out.Drivers, d.Name)
		}
	}
	slices.Sort(out.Drivers)
	pods, err := drain.PodsOn(ctx, e, node)
	if err != nil {
		return out, false, err
	}
	for i := range pods {
		if object.IsReady(&pods[i]) && !drain.IsOurs(&pods[i]) {
			out.ReadyPods = append(out.ReadyPods, pods[i].Namespace+"/"+pods[i].Name)
		}
	}
	slices.Sort(out.ReadyPods)
	status, _ := drain.ReadyStatus(n)
	return out, status == corev1.ConditionTrue, nil
}

// maxBaseline bounds, in bytes, what the journal keeps of a node and of its kubelet's flags. The kubelet, and root on
// its host, write most of it. A record that is larger than a ConfigMap would end the change of all other nodes.
const maxBaseline = 256 << 10

// checkBaseline refuses a node of which the journal would have to keep too much, before anything is changed.
func checkBaseline(node string, r v1.NodeRecord, flags map[string]string) error {
	size := len(r.UID) + len(r.ProviderID)
	for _, list := range [][]string{r.Addresses, r.Taints, r.Drivers, r.ReadyPods, r.Names} {
		for _, s := range list {
			size += len(s)
		}
	}
	for _, all := range []map[string]string{r.Labels, r.Attachable, flags} {
		for name, value := range all {
			size += len(name) + len(value)
		}
	}
	if size <= maxBaseline {
		return nil
	}
	return fmt.Errorf(
		"node %s was not changed: what is compared of it has %d KiB, and the journal keeps %d KiB of a node: look at its labels, addresses, taints and CSI drivers, which its kubelet writes",
		node,
		size>>10,
		maxBaseline>>10,
	)
}

// regressed says in clauses what of a node is worse than before a step, and what is merely different.
func regressed(s v1.Step, was, is v1.NodeRecord) (worse, different []string) {
	if is.UID != was.UID {
		return []string{fmt.Sprintf("the Node was recreated: its uid is %s, it was %s", is.UID, was.UID)}, nil
	}
	if was.ProviderID != "" && is.ProviderID != was.ProviderID {
		worse = append(worse, fmt.Sprintf("its providerID is %q, it was %q", is.ProviderID, was.ProviderID))
	}
	lost, changed := comparedAddresses(was.Addresses, is.Addresses)
	worse, different = append(worse, lost...), append(different, changed...)
	worse = append(worse, lostLabels(s, was.Labels, is.Labels)...)
	lost, changed = comparedTaints(was.Taints, is.Taints)
	worse, different = append(worse, lost...), append(different, changed...)
	for _, d := range was.Drivers {
		if !slices.Contains(is.Drivers, d) {
			worse = append(worse, "CSI driver "+d+" is no longer registered on it")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was.Attachable)) {
		if is.Attachable[name] != was.Attachable[name] {
			different = append(
				different,
				fmt.Sprintf("its allocatable %s is %q, it was %q", name, is.Attachable[name], was.Attachable[name]),
			)
		}
	}
	return worse, different
}

// comparedAddresses takes a lost IP address for worse, and another first InternalIP, which is what the API server
// connects to. Names of the cloud, and their order, differ between in-tree and external providers.
func comparedAddresses(was, is []string) (worse, different []string) {
	if slices.Equal(was, is) {
		return nil, nil
	}
	for _, a := range was {
		if slices.Contains(is, a) {
			continue
		}
		clause := "it has lost the address " + a
		if strings.HasPrefix(a, "InternalIP=") || strings.HasPrefix(a, "ExternalIP=") {
			worse = append(worse, clause)
		} else {
			different = append(different, clause)
		}
	}
	if a, b := firstInternal(was), firstInternal(is); len(worse) == 0 && a != b {
		worse = append(worse, fmt.Sprintf("its first InternalIP is %s, it was %s", b, a))
	}
	for _, a := range is {
		if !slices.Contains(was, a) {
			different = append(different, "it has got the address "+a)
		}
	}
	if len(worse)+len(different) == 0 {
		different = append(
			different,
			fmt.Sprintf("its addresses are in another order: %s, before %s", strings.Join(is, ", "), strings.Join(was, ", ")),
		)
	}
	return worse, different
}

func firstInternal(addresses []string) string {
	for _, a := range addresses {
		if ip, ok := strings.CutPrefix(a, "InternalIP="); ok {
			return ip
		}
	}
	return ""
}

// lostLabels leaves the label of the host's name out where the step gives the kubelet its name.
func lostLabels(s v1.Step, was, is map[string]string) []string {
	named := slices.ContainsFunc(s.Edits, func(e v1.Edit) bool { return e.Name == "hostname-override" })
	var out []string
	for _, key := range slices.Sorted(maps.Keys(was)) {
		value, there := is[key]
		switch {
		case named && key == corev1.LabelHostname || there && value == was[key]:
		case !there:
			out = append(out, fmt.Sprintf("its label %s=%s is gone", key, was[key]))
		default:
			out = append(out, fmt.Sprintf("its label %s is %q, it was %q", key, value, was[key]))
		}
	}
	return out
}

// comparedTaints leaves out those that say what state a node is in: they come and go with it.
func comparedTaints(was, is []string) (worse, different []string) {
	state := func(t string) bool { return strings.HasPrefix(t, "node.kubernetes.io/") }
	for _, t := range was {
		if !slices.Contains(is, t) && !state(t) {
			worse = append(worse, "its taint "+t+" is gone")
		}
	}
	for _, t := range is {
		switch {
		case slices.Contains(was, t) || state(t):
		case strings.HasPrefix(t, api.TaintExternalCloudProvider+"="):
			worse = append(worse, "it has the taint "+t+", with which nothing is scheduled on it")
		default:
			different = append(different, "it has the new taint "+t)
		}
	}
	return worse, different
}

// unready names the pods of a node that were Ready and are not. One that has gone, or is on its way, is not this
// step's.
func unready(was v1.NodeRecord, pods []corev1.Pod) []string {
	var out []string
	for i := range pods {
		p := &pods[i]
		name := p.Namespace + "/" + p.Name
		if slices.Contains(was.ReadyPods, name) && !object.IsReady(p) && p.DeletionTimestamp == nil &&
			p.Status.Phase != corev1.PodSucceeded {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// worse says in one clause what of a node is not as it was before a step; empty when everything is.
func (x Kubelet) worse(
	ctx context.Context,
	s v1.Step,
	was v1.NodeRecord,
) (reason string, different []string, err error) {
	node := x.Env.NodeNames[s.Host]
	is, isReady, err := nodeNow(ctx, x.Env, node)
	if err != nil {
		return "", nil, err
	}
	worse, different := regressed(s, was, is)
	if !isReady {
		worse = append(worse, "it is not Ready")
	}
	pods, err := drain.PodsOn(ctx, x.Env, node)
	if err != nil {
		return "", nil, err
	}
	if down := unready(was, pods); len(down) > 0 {
		worse = append(
			worse,
			english.Count(len(down), "pod")+" of it that ran "+english.Word(len(down), "is", "are")+" no longer Ready ("+
				english.FirstOf(5, down)+")"+because(ctx, x.Env, pods, down[0]),
		)
	}
	return visible.Cut(strings.Join(worse, "; "), maxClauses), cutClauses(different), nil
}

// because is why one of the pods is not Ready, as the end of a sentence. The sentence stays in the journal, and more
// people may read that than the logs of a workload. So nothing that a container has written is in it.
func because(ctx context.Context, e *step.Env, pods []corev1.Pod, name string) string {
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Namespace+"/"+p.Name == name })
	if i < 0 {
		return ""
	}
	if why := step.WhyWorkload(ctx, e, &pods[i]); why != "" {
		return ": " + why
	}
	return ""
}

// maxClauses bounds, in bytes, what a record says of how a node has changed. Its kubelet writes the new values.
const maxClauses = 4 << 10

// cutClauses are the first clauses, as far as they fit.
func cutClauses(clauses []string) []string {
	left := maxClauses
	for i, c := range clauses {
		if left -= len(c); left < 0 {
			return append(slices.Clone(clauses[:i]), english.Count(len(clauses)-i, "other change"))
		}
	}
	return clauses
}

// awaitAsBefore waits until a node is as it was before a step, for as long as a step is given. What is merely different
// goes into the record's notes.
func (x Kubelet) awaitAsBefore(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	reason := ""
	var different []string
	err := x.Env.WaitFor(
		ctx,
		s,
		step.TimeoutOf(s),
		step.SettleInterval,
		func() string { return "node " + x.Env.NodeNames[s.Host] + " is not as it was before: " + reason },
		func(ctx context.Context) (bool, error) {
			why, other, err := x.worse(ctx, s, *rec.Node)
			if err != nil {
				reason = err.Error()
				return false, nil
			}
			reason, different = why, other
			return why == "", nil
		},
	)
	if errors.Is(err, step.ErrTimedOut) {
		return &step.VerifyError{
			Waited: step.TimeoutOf(s),
			Reason: fmt.Sprintf("node %s is not as it was before: %s", x.Env.NodeNames[s.Host], reason),
		}
	}
	for _, d := range different {
		x.Env.Note(s, rec, "node "+x.Env.NodeNames[s.Host]+": "+d)
	}
	return err
}

// soak watches a canary, and then wants it as it was before.
func (x Kubelet) soak(ctx context.Context, s v1.Step, rec *v1.StepRecord, period time.Duration) error {
	x.Env.Report(
		s,
		step.EventProgress,
		fmt.Sprintf("watching node %s for %s before another one is changed", x.Env.NodeNames[s.Host], period),
	)
	end, told := x.Env.Clock.Now().Add(period), ""
	for x.Env.Clock.Now().Before(end) {
		why, _, err := x.worse(ctx, s, *rec.Node)
		if err == nil && why != "" && why != told {
			told = why
			x.Env.Report(s, step.EventProgress, "node "+x.Env.NodeNames[s.Host]+": "+why)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-x.Env.Clock.After(min(soakInterval, period)):
		}
	}
	return x.awaitAsBefore(ctx, s, rec)
}
