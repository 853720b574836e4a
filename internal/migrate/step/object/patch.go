package object

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/mergepatch"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/allowed"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// patchObject changes fields of an object that is there. The old values of these fields are in the record before
// anything is written, and the write names the version that was read. So another client's write in between is neither
// lost nor taken for the old value.
type patchObject struct{ env *step.Env }

func (x patchObject) Done(ctx context.Context, s v1.Step) (bool, error) {
	live, err := ReadLive(ctx, x.env, s.Ref)
	if err != nil {
		return false, err
	}
	patch, err := x.patch(s, live)
	if err == nil && !fits(live.Object, patch) {
		err = step.Pending("%s does not have the fields of this step (%s)", s.Ref, fieldsOf(patch))
	}
	return err == nil, err
}

func (x patchObject) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	if strings.HasPrefix(s.Ref, "Secret/") {
		return fmt.Errorf("step %s would keep what a Secret had in the journal: secrets are not patched", s.ID)
	}
	live, err := ReadLive(ctx, x.env, s.Ref)
	if err != nil {
		return err
	}
	patch, err := x.patch(s, live)
	if err != nil {
		return err
	}
	if fits(live.Object, patch) {
		return x.env.Journal.Save(ctx, *rec)
	}
	before, err := x.undoOf(s, live, patch)
	if err != nil {
		return err
	}
	if rec.Before == "" {
		rec.Before = before
	} else if !x.holdsKnownValues(s, before, rec.Before, patch) { // an earlier try found something else
		return changedSince(live, s, rec.Started, patch, "since step "+s.ID+" was started")
	}
	if err := x.env.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.env.Hook("during", s.ID)
	return UpdateLive(ctx, x.env, s.Ref, func(o *unstructured.Unstructured) (bool, error) {
		patch, err := x.patch(s, o)
		if err != nil {
			return false, err
		}
		if fits(o.Object, patch) {
			return false, nil // our own write, whose answer got lost
		}
		if now, err := x.undoOf(s, o, patch); err != nil || !x.holdsKnownValues(s, now, rec.Before, patch) {
			return false, changedSince(o, s, rec.Started, patch, "while step "+s.ID+" was under way")
		}
		o.Object = mergepatch.Apply(o.Object, patch)
		return true, nil
	})
}

// changedSince is an error about an object that another client changed in the fields of a patch.
func changedSince(
	o *unstructured.Unstructured, s v1.Step, since time.Time, patch map[string]any, when string,
) *step.StaleError {
	err := step.NewStale("%s was changed outside this migration %s", s.Ref, when)
	step.NameWriter(&err.Changed[0], s.Ref, o.GetManagedFields(), since, managedPaths(patch)...)
	return err
}

// managedPaths are the fields of a patch as managed fields name them.
func managedPaths(patch map[string]any) [][]string {
	var out [][]string
	for key, value := range patch {
		key = "f:" + key
		part, nested := value.(map[string]any)
		if !nested || len(part) == 0 {
			out = append(out, []string{key})
			continue
		}
		for _, path := range managedPaths(part) {
			out = append(out, append([]string{key}, path...))
		}
	}
	return out
}

// holdsKnownValues reports whether an object holds in the fields of a patch what it held before the step's first try,
// or what that try wrote. Its record stays the one of before then: what is put back must not be our own values.
func (x patchObject) holdsKnownValues(s v1.Step, now, first string, patch map[string]any) bool {
	if now == first {
		return true
	}
	var is, was map[string]any
	if s.Derive != "" || json.Unmarshal([]byte(now), &is) != nil || json.Unmarshal([]byte(first), &was) != nil {
		return false
	}
	return hasValuesOf(is, was, patch)
}

// hasValuesOf reports whether every value in an object is that of one of two others.
func hasValuesOf(is, a, b map[string]any) bool {
	for k, v := range is {
		part, nested := v.(map[string]any)
		partA, inA := a[k].(map[string]any)
		partB, inB := b[k].(map[string]any)
		if nested && inA && inB && hasValuesOf(part, partA, partB) {
			continue
		}
		if !EqualJSON(v, a[k]) && !EqualJSON(v, b[k]) {
			return false
		}
	}
	return true
}

// patch is the merge patch of a step for the object as it is.
func (x patchObject) patch(s v1.Step, live *unstructured.Unstructured) (map[string]any, error) {
	switch s.Derive {
	case "":
		var patch map[string]any
		if err := json.Unmarshal([]byte(s.Patch), &patch); err != nil {
			return nil, fmt.Errorf("patch of step %s: %w", s.ID, err)
		}
		if err := OnlyGates(x.env, live, patch); err != nil {
			return nil, &trust.UntrustedError{What: "the patch of step " + s.ID, Err: err}
		}
		return patch, nil
	case layout.DeriveKubeadm:
		return kubeadmPatch(x.env, s, live)
	}
	return nil, fmt.Errorf("derivation %q is not known to this version of transplant", s.Derive)
}

// undoOf is what puts the object back: the inverse patch, or the inverse edits.
func (x patchObject) undoOf(s v1.Step, live *unstructured.Unstructured, patch map[string]any) (string, error) {
	if s.Derive == layout.DeriveKubeadm {
		return kubeadmUndo(s, live)
	}
	data, err := json.Marshal(inverse(live.Object, patch))
	if err != nil {
		return "", fmt.Errorf("keeping what %s had: %w", s.Ref, err)
	}
	return string(data), nil
}

// unpatchObject puts back what a patch changed.
type unpatchObject struct{ env *step.Env }

func (x unpatchObject) Done(ctx context.Context, s v1.Step) (bool, error) {
	rec := x.env.Journal.Record(s.Restore)
	if rec.Before == "" {
		return true, nil // it changed nothing
	}
	live, err := ReadLive(ctx, x.env, s.Ref)
	if apierrors.IsNotFound(err) {
		return true, nil // it was deleted; there is nothing to put back into
	} else if err != nil {
		return false, err
	}
	back, err := x.back(s, rec, live)
	if err == nil && !fits(live.Object, back) {
		err = step.Pending("%s does not have its fields from before step %s (%s)", s.Ref, s.Restore, fieldsOf(back))
	}
	return err == nil, err
}

// fieldsOf names the fields of a patch.
func fieldsOf(patch map[string]any) string {
	const most = 3
	return english.FirstOf(most, leaves(patch, ""))
}

func (x unpatchObject) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	if err := x.env.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.env.Hook("during", s.ID)
	was := x.env.Journal.Record(s.Restore)
	return UpdateLive(ctx, x.env, s.Ref, func(o *unstructured.Unstructured) (bool, error) {
		back, err := x.back(s, was, o)
		if err != nil || fits(o.Object, back) {
			return false, err
		}
		original, ok := x.env.StepByID(s.Restore)
		if !ok {
			return false, fmt.Errorf("step %s is not in the journal's plan: what %s had cannot be put back", s.Restore, s.Ref)
		}
		written, err := patchObject(x).patch(original, o)
		if err != nil {
			return false, err
		}
		if !fits(o.Object, written) {
			return false, step.NewStale(
				"%s was changed outside this migration after step %s (fields %s): put it back by hand to %s, then run transplant rollback again",
				s.Ref,
				s.Restore,
				strings.Join(leaves(written, ""), ", "),
				was.Before,
			)
		}
		o.Object = mergepatch.Apply(o.Object, back)
		return true, nil
	})
}

func (x unpatchObject) back(s v1.Step, was v1.StepRecord, live *unstructured.Unstructured) (map[string]any, error) {
	original, _ := x.env.StepByID(s.Restore)
	if original.Derive == layout.DeriveKubeadm {
		undo, err := KubeadmTakenBack(x.env, original, was, live)
		if err != nil {
			return nil, err
		}
		return kubeadmApplied(undo, live)
	}
	var back map[string]any
	if err := json.Unmarshal([]byte(was.Before), &back); err != nil {
		return nil, fmt.Errorf("record of step %s: %w", s.Restore, err)
	}
	if err := OnlyGates(x.env, live, back); err != nil {
		return nil, &trust.UntrustedError{What: "the record of step " + s.Restore, Err: err}
	}
	return back, nil
}

// OnlyGates holds a patch of the configuration of kubelets to come, and what takes it back, to feature gates: that of
// the object itself counts.
func OnlyGates(e *step.Env, live *unstructured.Unstructured, patch map[string]any) error {
	if e.Unjudged {
		return nil
	}
	const key = component.Kubelet
	data, _ := patch["data"].(map[string]any)
	after, _ := data[key].(string)
	if len(patch) != 1 || len(data) != 1 || after == "" {
		return fmt.Errorf("it changes more than %s of %s %s", key, live.GetKind(), live.GetName())
	}
	before, _, err := unstructured.NestedString(live.Object, "data", key)
	if err != nil {
		return err
	}
	return allowed.CheckOnlyGates(e.Plan, before, after)
}

// ReadLive reads an object. The error of one that is absent says so to apierrors.IsNotFound.
func ReadLive(ctx context.Context, e *step.Env, ref string) (*unstructured.Unstructured, error) {
	client, name, err := Object(e, ref)
	if err != nil {
		return nil, err
	}
	o, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	return o, nil
}

// UpdateLive reads an object, changes it and writes it back under the version that was read; again when another client
// was faster. Nothing is written when change says that nothing is to be.
func UpdateLive(
	ctx context.Context,
	e *step.Env,
	ref string,
	change func(*unstructured.Unstructured) (bool, error),
) error {
	client, _, err := Object(e, ref)
	if err != nil {
		return err
	}
	return retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		for {
			o, err := ReadLive(ctx, e, ref)
			if err != nil {
				return err
			}
			if write, err := change(o); err != nil || !write {
				return err
			}
			_, err = client.Update(ctx, o, metav1.UpdateOptions{FieldManager: "transplant"})
			if apierrors.IsConflict(err) {
				continue // each turn reads the newer version: another client makes progress
			}
			if err != nil {
				return fmt.Errorf("writing %s: %w", ref, err)
			}
			return nil
		}
	})
}

// inverse is the merge patch that takes a patch back, for the object as it is before it.
func inverse(object, patch map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range patch {
		have, there := object[k]
		part, nested := v.(map[string]any)
		haveMap, isMap := have.(map[string]any)
		switch {
		case !there:
			out[k] = nil
		case nested && isMap:
			out[k] = inverse(haveMap, part)
		default:
			out[k] = have
		}
	}
	return out
}

// fits reports whether a merge patch would change nothing.
func fits(object, patch map[string]any) bool {
	for k, v := range patch {
		have, there := object[k]
		part, nested := v.(map[string]any)
		switch {
		case v == nil:
			if there {
				return false
			}
		case nested:
			haveMap, isMap := have.(map[string]any)
			if !isMap && len(part) > 0 && !hasOnlyNulls(part) || !fits(haveMap, part) {
				return false
			}
		case !EqualJSON(have, v):
			return false
		}
	}
	return true
}

func hasOnlyNulls(patch map[string]any) bool {
	for _, v := range patch {
		if part, nested := v.(map[string]any); nested && hasOnlyNulls(part) {
			continue
		}
		if v != nil {
			return false
		}
	}
	return true
}

// EqualJSON compares values of which one was read by a client (whole numbers are int64) and the other by encoding/json
// (float64).
func EqualJSON(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	left, errA := json.Marshal(a)
	right, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(left) == string(right)
}

// leaves are the fields that a patch changes, sorted.
func leaves(patch map[string]any, prefix string) []string {
	var out []string
	for k, v := range patch {
		if part, ok := v.(map[string]any); ok && len(part) > 0 {
			out = append(out, leaves(part, prefix+k+".")...)
			continue
		}
		out = append(out, prefix+k)
	}
	sort.Strings(out)
	return out
}
