// Package dryrun decides whether the API server would take the objects that a plan writes. It sends each with
// dryRun=All: the API server runs authorization, validation, admission plugins and webhooks as if it were meant, and
// stores nothing.
package dryrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/kubeadmconfig"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/mergepatch"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// Manager is the field manager of what apply writes, and so of its dry runs.
const Manager = "transplant"

const (
	// timeout bounds one request: an API server waits for a webhook for up to 30 seconds.
	timeout = 35 * time.Second
	// workers is how many requests are under way at a time.
	workers = 4
)

// Run sends what steps write to the API, and returns the answers in the order of the steps; never nil. A step that only
// writes to hosts has none. An object in a namespace that the dry run did not make would be refused for that. Plans
// make no namespaces. Of the options, Dynamic and Seed count: objects of a seed's namespace are sent to the seed.
func Run(ctx context.Context, clusters step.Options, steps []v1.Step) []v1.DryRun {
	var writes []write
	e := &step.Env{Options: clusters}
	for _, s := range steps {
		if w, ok := writeOf(s); ok {
			w.locate(e)
			writes = append(writes, w)
		}
	}
	out := make([]v1.DryRun, len(writes))
	work := make(chan int)
	var wg sync.WaitGroup
	for range min(workers, len(writes)) {
		wg.Go(func() {
			for i := range work {
				out[i] = writes[i].send(ctx)
			}
		})
	}
	for i := range writes {
		work <- i
	}
	close(work)
	wg.Wait()
	return out
}

// Verbs of writes.
const (
	verbCreate = "create"
	verbUpdate = "update"
	verbDelete = "delete"
)

// write is something that a step sends to the API.
type write struct {
	ref, verb string
	object    *unstructured.Unstructured             // of a create
	change    func(*unstructured.Unstructured) error // of an update, to what is there
	objects   dynamic.ResourceInterface              // what it is sent to
	name      string
	err       error // why it cannot be sent
}

// writeOf is what a step writes; false when that is nothing.
func writeOf(s v1.Step) (write, bool) {
	w := write{ref: s.Ref, verb: verbUpdate}
	switch s.Kind {
	case v1.StepEnsureObject:
		return creation(s), true
	case v1.StepDeleteObject:
		w.verb = verbDelete
	case v1.StepPatchObject:
		if s.Derive == layout.DeriveKubeadm {
			w.change = func(o *unstructured.Unstructured) error { return editKubeadm(o, s) }
			break
		}
		var patch map[string]any
		if w.err = json.Unmarshal([]byte(s.Patch), &patch); w.err != nil {
			w.err = fmt.Errorf("reading the patch of the plan: %w", w.err)
			return w, true
		}
		w.change = func(o *unstructured.Unstructured) error {
			o.Object = mergepatch.Apply(o.Object, patch)
			return nil
		}
	case v1.StepScale:
		if s.Replicas == nil {
			return w, false
		}
		w.change = func(o *unstructured.Unstructured) error {
			return unstructured.SetNestedField(o.Object, int64(*s.Replicas), "spec", "replicas")
		}
	case v1.StepEditWorkload:
		// The engine works out the arguments. A webhook or a right decides whether the template may be changed at all.
		w.change = func(o *unstructured.Unstructured) error {
			return unstructured.SetNestedField(
				o.Object,
				"true",
				"spec",
				"template",
				"metadata",
				"annotations",
				"transplant.dev/dry-run",
			)
		}
	case v1.StepInitializeNode:
		w.change = addTaint
		if s.Restore != "" {
			w.change = removeTaint
		}
	case v1.StepWriteFile,
		v1.StepRemoveFile,
		v1.StepEditManifest,
		v1.StepAddManifest,
		v1.StepRemoveManifest,
		v1.StepRestoreManifest,
		v1.StepKubelet,
		v1.StepVerify,
		v1.StepUnpatchObject,
		v1.StepReplacePod,
		v1.StepEditUnit,
		v1.StepStopUnit,
		v1.StepStartUnit,
		v1.StepCopyFile,
		v1.StepAwait:
		return w, false
	}
	return w, true
}

func creation(s v1.Step) write {
	w := write{ref: s.Ref, verb: verbCreate, object: &unstructured.Unstructured{}}
	if err := json.Unmarshal([]byte(s.Object), &w.object.Object); err != nil {
		w.err = fmt.Errorf("reading the object of the plan: %w", err)
	}
	return w
}

// editKubeadm changes the ClusterConfiguration as it stands: the plan holds the edits only.
func editKubeadm(o *unstructured.Unstructured, s v1.Step) error {
	text, _, err := unstructured.NestedString(o.Object, "data", kubeadmconfig.Key)
	if err != nil {
		return err
	}
	out, err := kubeadmconfig.Apply([]byte(text), s.Component, s.Edits)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", kubeadmconfig.Key, s.Ref, err)
	}
	return unstructured.SetNestedField(o.Object, string(out), "data", kubeadmconfig.Key)
}

func addTaint(o *unstructured.Unstructured) error {
	taints, _, _ := unstructured.NestedSlice(o.Object, "spec", "taints")
	for _, t := range taints {
		if m, ok := t.(map[string]any); ok && m["key"] == component.TaintUninitialized {
			return nil
		}
	}
	return unstructured.SetNestedSlice(
		o.Object,
		append(taints, map[string]any{"key": component.TaintUninitialized, "value": "true", "effect": "NoSchedule"}),
		"spec",
		"taints",
	)
}

// locate finds where the object of a reference is served.
func (w *write) locate(e *step.Env) {
	if w.err == nil {
		w.objects, w.name, w.err = object.Object(e, w.ref)
	}
}

// removeTaint takes the taint away again, as a rollback does.
func removeTaint(o *unstructured.Unstructured) error {
	taints, _, _ := unstructured.NestedSlice(o.Object, "spec", "taints")
	taints = slices.DeleteFunc(taints, func(t any) bool {
		m, ok := t.(map[string]any)
		return ok && m["key"] == component.TaintUninitialized
	})
	return unstructured.SetNestedSlice(o.Object, taints, "spec", "taints")
}

// send returns what the API server says of a write. It, or a webhook that it asks, may repeat what the object holds.
func (w write) send(ctx context.Context) v1.DryRun {
	out := w.sendDryRun(ctx)
	out.Error = mask.Text(out.Error)
	return out
}

func (w write) sendDryRun(ctx context.Context) v1.DryRun {
	out := v1.DryRun{Ref: w.ref, Verb: w.verb}
	if w.err != nil {
		out.Error = w.err.Error()
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := w.try(ctx)
	if w.object != nil && apierrors.IsAlreadyExists(err) {
		out.Verb = verbUpdate
		err = w.update(ctx)
		if w.object != nil && apierrors.IsForbidden(err) && !isWebhookRefusal(err) {
			// Admission accepted the create before the object was found. Apply does not change an object that it finds: it needs
			// no right to update.
			out.Verb, err = w.verb, nil
		}
	}
	out.OK = err == nil
	switch {
	case err == nil:
	case out.Verb == verbCreate && apierrors.IsNotFound(err) && strings.HasSuffix(w.object.GetKind(), "RoleBinding"):
		out.Later = true
		out.Error, out.Unanswered = "its role is made by the plan too, and a caller without the verb bind may only bind a role that is there: "+err.Error(), true
	default:
		out.Error, out.Unanswered = explain(err)
	}
	return out
}

// try sends the write once.
func (w write) try(ctx context.Context) error {
	dryRun := []string{metav1.DryRunAll}
	switch w.verb {
	case verbCreate:
		_, err := w.objects.Create(ctx, w.object, metav1.CreateOptions{DryRun: dryRun, FieldManager: Manager})
		return err
	case verbDelete:
		err := w.objects.Delete(ctx, w.name, metav1.DeleteOptions{DryRun: dryRun})
		if apierrors.IsNotFound(err) { // what is gone already is what the step wants
			return nil
		}
		return err
	}
	return w.update(ctx)
}

// update sends what is there with the change in it, as apply does, once more if it was changed in between.
func (w write) update(ctx context.Context) error {
	var err error
	for range 2 {
		var live *unstructured.Unstructured
		if live, err = w.objects.Get(ctx, w.name, metav1.GetOptions{}); err != nil {
			return err
		}
		changed := live.DeepCopy()
		switch {
		case w.object != nil:
			changed.Object = mergepatch.Apply(changed.Object, w.object.DeepCopy().Object)
		case w.change != nil:
			if err := w.change(changed); err != nil {
				return &changeError{err}
			}
		}
		o := metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: Manager}
		_, err = w.objects.Update(ctx, changed, o)
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// changeError is that a plan's change does not fit what is there; no API server was asked.
type changeError struct{ error }

func (e *changeError) Unwrap() error { return e.error }

// isWebhookRefusal reports whether a refusal is a webhook's and not the authorizer's; both are Forbidden.
func isWebhookRefusal(err error) bool { return strings.Contains(err.Error(), "admission webhook") }

// refusals by who refused, in the order in which they are told from each other: a webhook's refusal also is Forbidden,
// or invalid.
var refusals = []struct {
	is   func(error) bool
	says string
	// unanswered reports whether no webhook judged the object.
	unanswered bool
}{
	{
		says:       "a webhook has side effects and does not support dry run, so it was not called (its configuration says sideEffects: Some or Unknown)",
		unanswered: true,
		is: func(err error) bool {
			return strings.Contains(err.Error(), "does not support dry run")
		},
	},
	// What apply sends would be refused as well.
	{says: "a webhook that must be asked did not answer", is: func(err error) bool {
		return strings.Contains(err.Error(), "failed calling webhook") ||
			strings.Contains(err.Error(), "failed to call webhook")
	}},
	{says: "a webhook refused it", is: isWebhookRefusal},
	{says: "forbidden", is: apierrors.IsForbidden},
	{says: "not found", is: apierrors.IsNotFound},
	{says: "invalid", is: func(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) }},
	{says: "conflict", is: apierrors.IsConflict},
	{says: "the plan's change does not fit what is there", is: func(err error) bool {
		_, unfit := errors.AsType[*changeError](err)
		return unfit
	}},
	{says: "no answer", is: isUnanswered, unanswered: true},
}

// explain says who refused, and whether that was an answer at all.
func explain(err error) (string, bool) {
	for _, r := range refusals {
		if r.is(err) {
			return r.says + ": " + err.Error(), r.unanswered
		}
	}
	return err.Error(), false
}

func isUnanswered(err error) bool {
	_, network := errors.AsType[*url.Error](err)
	var status apierrors.APIStatus
	return network || !errors.As(err, &status) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err)
}
