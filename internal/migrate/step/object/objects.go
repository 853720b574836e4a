package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/takeover"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/visible"
)

// resources of the kinds that a plan makes or deletes.
var resources = map[string]schema.GroupVersionResource{
	"ConfigMap":          {Version: "v1", Resource: "configmaps"},
	"ServiceAccount":     {Version: "v1", Resource: "serviceaccounts"},
	"Secret":             {Version: "v1", Resource: "secrets"},
	"Role":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"ClusterRole":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"Lease":              {Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},

	"Node":                {Version: "v1", Resource: "nodes"},
	"Service":             {Version: "v1", Resource: "services"},
	"PersistentVolume":    {Version: "v1", Resource: "persistentvolumes"},
	"Deployment":          {Group: "apps", Version: "v1", Resource: "deployments"},
	"DaemonSet":           {Group: "apps", Version: "v1", Resource: "daemonsets"},
	"PodDisruptionBudget": {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	"PriorityClass":       {Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"},
	"StorageClass":        {Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"},
}

// compared are the fields that make two objects of a kind the same for a migration. covered are those of which each
// wanted part has to be there, next to what the API server fills in.
var (
	compared = []string{"rules", "roleRef", "subjects", "type"}
	covered  = []string{"spec", "data"}
)

// Object returns the client for a reference Kind/namespace/name or Kind/name, and the name.
func Object(e *step.Env, ref string) (dynamic.ResourceInterface, string, error) {
	parts := strings.Split(ref, "/")
	gvr, ok := resources[parts[0]]
	switch {
	case !ok || len(parts) < 2 || len(parts) > 3:
		return nil, "", fmt.Errorf("object %q is not known to this version of transplant", ref)
	case len(parts) == 2:
		return e.Dynamic.Resource(gvr), parts[1], nil
	}
	return e.DynamicOf(parts[1]).Resource(gvr).Namespace(parts[1]), parts[2], nil
}

// EnsureObject creates an object that is absent.
type EnsureObject struct {
	Env *step.Env
	// noToken derives without asking for a token: to compare, and not to write.
	noToken bool
}

// Done reports whether the object is there as the step makes it.
func (x EnsureObject) Done(ctx context.Context, s v1.Step) (bool, error) {
	client, name, err := Object(x.Env, s.Ref)
	if err != nil {
		return false, err
	}
	live, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, step.Pending("%s is not there", s.Ref)
	} else if err != nil {
		return false, fmt.Errorf("reading %s: %w", s.Ref, err)
	}
	want, err := DecodeObject(s)
	if err != nil {
		return false, err
	}
	if !isSameObject(specifiedPart(s, want), live) {
		return false, step.Pending("%s has another content than this step gives it", s.Ref)
	}
	if problem, err := x.secretProblem(ctx, s, want, live); err != nil {
		return false, err
	} else if problem != "" {
		return false, step.Pending("%s exists, and %s", s.Ref, problem)
	}
	if s.Component != "" && (live.GetKind() == "Deployment" || live.GetKind() == "DaemonSet") {
		why, err := RolloutProblem(ctx, x.Env, live)
		return why == "" && err == nil, step.PendingIf(why, err)
	}
	return true, nil
}

// Do makes the object, or changes it to what the step says.
func (x EnsureObject) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	client, name, err := Object(x.Env, s.Ref)
	if err != nil {
		return err
	}
	want, err := DecodeObject(s)
	if err != nil {
		return err
	}
	live, getErr := client.Get(ctx, name, metav1.GetOptions{})
	if getErr == nil {
		if err := x.checkLive(ctx, s, rec, want, live); err != nil {
			return err
		}
	}
	rec.Created = true
	if err := x.Env.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	if want, err = x.Complete(ctx, s, want); err != nil {
		return err
	}
	if want.GetKind() == "Secret" && s.Derive != "" {
		data, err := secretData(want)
		if err != nil {
			return fmt.Errorf("object of step %s: %w", s.ID, err)
		}
		rec.AfterSHA256 = secretSum(data)
		if err := x.Env.Journal.Save(ctx, *rec); err != nil {
			return err
		}
	}
	x.Env.Hook("during", s.ID)
	return retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		_, err := client.Create(ctx, want, metav1.CreateOptions{FieldManager: "transplant"})
		if apierrors.IsAlreadyExists(err) {
			return nil // our own create, whose answer got lost; done compares
		}
		if err != nil {
			return fmt.Errorf("creating %s: %w", s.Ref, err)
		}
		return nil
	})
}

// checkLive refuses an object that is there and is not what the step makes.
func (x EnsureObject) checkLive(
	ctx context.Context,
	s v1.Step,
	rec *v1.StepRecord,
	want, live *unstructured.Unstructured,
) error {
	problem, err := x.secretProblem(ctx, s, want, live)
	switch {
	case err != nil:
		return err
	case problem != "":
		return fmt.Errorf(
			"%s exists, and %s: see who wrote it, delete it, and run the same command again, which makes it",
			s.Ref,
			problem,
		)
	case isSameObject(specifiedPart(s, want), live):
		return nil
	case rec.Created:
		return fmt.Errorf(
			"%s was changed outside this migration since the migration made it; put it back as the plan has it, or delete it, and run the same command again; transplant rollback deletes it",
			s.Ref,
		)
	}
	return fmt.Errorf(
		"%s exists and has another content than this migration needs: it was not made by transplant; compare it with the plan, then rename or delete it",
		s.Ref,
	)
}

// Complete waits until what an object is derived from is there.
func (x EnsureObject) Complete(
	ctx context.Context,
	s v1.Step,
	want *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	var out *unstructured.Unstructured
	reason := func() string { return NoToken }
	look := func(ctx context.Context) (bool, error) {
		var err error
		out, err = x.Derived(ctx, s, want)
		return out != nil, err
	}
	err := x.Env.WaitFor(ctx, s, step.TimeoutOf(s), step.SettleInterval, reason, look)
	if errors.Is(err, step.ErrTimedOut) {
		return nil, &step.VerifyError{Waited: step.TimeoutOf(s), Reason: NoToken}
	}
	return out, err
}

// NoToken is what is waited for where a token of an earlier version is to be derived from.
const NoToken = "Secret " + component.Namespace + "/" + layout.TokenSecret + " has got no token: the token controller of " +
	component.KCM + " fills it in"

// DecodeObject returns the object that a step holds.
func DecodeObject(s v1.Step) (*unstructured.Unstructured, error) {
	var o unstructured.Unstructured
	if err := json.Unmarshal([]byte(s.Object), &o.Object); err != nil {
		return nil, fmt.Errorf("object of step %s: %w", s.ID, err)
	}
	return &o, nil
}

// isSameObject reports whether two objects have in common what matters for a migration. The API server's defaults (such
// as apiGroup of a subject) do not.
func isSameObject(want, live *unstructured.Unstructured) bool {
	for _, field := range compared {
		if !equality.Semantic.DeepEqual(plain(want.Object[field]), plain(live.Object[field])) {
			return false
		}
	}
	for _, field := range covered {
		if want.GetKind() != "Secret" && !covers(want.Object[field], live.Object[field]) {
			return false
		}
	}
	return true
}

// covers reports whether everything that is wanted is there. What is wanted to be nothing an API server leaves out: a
// delay of 0, a false, an empty list.
func covers(want, live any) bool {
	if live == nil && isEmpty(want) {
		return true
	}
	switch want := want.(type) {
	case nil:
		return true
	case map[string]any:
		have, _ := live.(map[string]any)
		for k, v := range want {
			if !covers(v, have[k]) {
				return false
			}
		}
		return true
	case []any:
		have, _ := live.([]any)
		if len(have) != len(want) {
			return false
		}
		for i := range want {
			if !covers(want[i], have[i]) {
				return false
			}
		}
		return true
	}
	return EqualJSON(want, live)
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return reflect.ValueOf(v).IsZero()
}

// plain drops empty strings, so that a subject of a ServiceAccount equals itself with apiGroup "".
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if e != "" {
				out[k] = plain(e)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	}
	return v
}

// DeleteObject deletes an object that this migration made.
type DeleteObject struct{ Env *step.Env }

// Done reports whether the object is gone.
func (x DeleteObject) Done(ctx context.Context, s v1.Step) (bool, error) {
	if s.Restore != "" && !x.Env.Journal.Record(s.Restore).Created {
		return true, nil // it was there before
	}
	client, name, err := Object(x.Env, s.Ref)
	if err != nil {
		return false, err
	}
	live, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil // with its pods: it is deleted in the foreground
	} else if err != nil {
		return false, fmt.Errorf("reading %s: %w", s.Ref, err)
	}
	if err := x.madeHere(s, live); err != nil {
		return false, err
	}
	return false, step.Pending("%s", stillThere(s.Ref, live))
}

// stillThere says that an object is not gone, and what keeps it.
func stillThere(ref string, live *unstructured.Unstructured) string {
	at := live.GetDeletionTimestamp()
	if at == nil {
		return ref + " is still there"
	}
	out := ref + " is being deleted since " + at.UTC().Format(time.RFC3339)
	if keep := live.GetFinalizers(); len(keep) > 0 {
		out += ", and keeps the finalizers " + visible.Cut(english.FirstOf(maxFinalizers, keep), maxKept)
	}
	return out
}

// maxFinalizers are named of an object that does not go, in maxKept bytes.
const maxFinalizers, maxKept = 3, 256

// madeHere says why an object is not one that a migration made. The record that claims it is in a ConfigMap, and the
// labels are on the object. Those of a step that made none are not asked for.
func (x DeleteObject) madeHere(s v1.Step, live *unstructured.Unstructured) error {
	there, known := x.Env.StepByID(s.Restore)
	if !known || there.Kind != v1.StepEnsureObject {
		return nil
	}
	made, err := DecodeObject(there)
	if err != nil {
		return err
	}
	have := live.GetLabels()
	for key, value := range made.GetLabels() {
		if have[key] != value {
			return step.NewStale(
				"%s has not the label %s=%s, with which this migration makes it; it was there before, or the label was removed, and it is not deleted; delete it by hand "+
					"if it is of no use, or put the label on, and run the same command again",
				s.Ref,
				key,
				value,
			)
		}
	}
	return nil
}

// Do deletes the object, if this migration made it.
func (x DeleteObject) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	client, name, err := Object(x.Env, s.Ref)
	if err != nil {
		return err
	}
	if live, err := client.Get(ctx, name, metav1.GetOptions{}); err == nil {
		if err := x.madeHere(s, live); err != nil {
			return err
		}
		if live.GetDeletionTimestamp() == nil { // else an earlier try has bound what its pods lead
			if err := x.bindOwners(ctx, s, rec); err != nil {
				return err
			}
		}
	} else if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading %s: %w", s.Ref, err)
	}
	if err := x.Env.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.Env.Hook("during", s.ID)
	err = retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		if err := client.Delete(
			ctx,
			name,
			metav1.DeleteOptions{PropagationPolicy: propagation(s)},
		); err != nil &&
			!apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting %s: %w", s.Ref, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return takeover.ReleaseLeases(ctx, x.Env, s, rec)
}

// bindOwners binds the leases of the step that the object's pods hold. Where that is not proven in time, they run out.
// The way back goes on, and the loops have no manager for as long as a lease lasts.
func (x DeleteObject) bindOwners(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	err := takeover.BindOwners(ctx, x.Env, s, rec)
	if unproven := (*step.WaitError)(nil); errors.As(err, &unproven) {
		x.Env.Report(s, step.EventProgress, "the leases of its pods are left to run out: "+err.Error())
		return nil
	}
	known := journal.PlanHosts(x.Env.Journal.Doc()) // a journal with another host would be refused
	rec.Handovers = slices.DeleteFunc(
		rec.Handovers,
		func(r v1.HandoverRecord) bool { return !slices.Contains(known, r.Host) },
	)
	return err
}

// IsWorkload reports whether an object is a Deployment or a DaemonSet.
func IsWorkload(ref string) bool {
	return strings.HasPrefix(ref, "Deployment/") || strings.HasPrefix(ref, "DaemonSet/")
}

// propagation of a workload's deletion: it is gone when its pods are, since a manager that still ends may still write
// to the cloud.
func propagation(s v1.Step) *metav1.DeletionPropagation {
	if !IsWorkload(s.Ref) {
		return nil
	}
	foreground := metav1.DeletePropagationForeground
	return &foreground
}

// ClientFor returns the client for the object of a reference Kind/namespace/name or Kind/name.
func ClientFor(client dynamic.Interface, ref string) (dynamic.ResourceInterface, error) {
	e := &step.Env{Options: step.Options{Dynamic: client}}
	out, _, err := Object(e, ref)
	return out, err
}
