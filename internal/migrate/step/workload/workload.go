// Package workload executes the steps that change Deployments and DaemonSets, and decides how their command lines are
// taken back.
package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/takeover"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/allowed"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/snapshot/hosted"
)

// Workload changes a Deployment: its replicas (Scale), and flags in its pod template (EditWorkload, and Scale with
// edits). Scale makes its edits in the same write, so that no pod ever starts with the old flags.
type Workload struct{ Env *step.Env }

// WorkloadBefore is what a record keeps of a workload.
type WorkloadBefore struct {
	Replicas *int64 `json:"replicas,omitempty"`
	// Back takes the change of the command line of the component's container back; nil where there was none.
	Back *CommandBack `json:"back,omitempty"`
	// Command and Args are the whole command line, in journals of versions that kept it. Edited is set in those alone.
	// So such a version does not replace a command line that it does not find.
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	Edited  bool     `json:"edited,omitempty"`
	// Mounted are the volumes that the step added.
	Mounted []string `json:"mounted,omitempty"`
}

// isEdited reports whether the step edited a command line.
func (b WorkloadBefore) isEdited() bool { return b.Edited || b.Back != nil }

// Done reports whether the workload is as the step makes it, and its pods run so.
func (x Workload) Done(ctx context.Context, s v1.Step) (bool, error) {
	live, err := object.ReadLive(ctx, x.Env, s.Ref)
	if err != nil {
		return false, err
	}
	next, err := x.Next(s, live)
	var stale *step.StaleError
	if errors.As(err, &stale) {
		return false, step.PendingError(stale.Error()) // do says so
	}
	if err != nil {
		return false, err
	}
	if !object.EqualJSON(live.Object["spec"], next.Object["spec"]) {
		return false, step.Pending("%s does not have the replicas, flags and mounts of this step", s.Ref)
	}
	if planstep.LeavesPods(s) {
		return true, step.PendingIf(object.UnseenChange(live), nil)
	}
	if err := x.rolledOut(ctx, live); err != nil {
		return false, err
	}
	for _, lease := range s.Leases {
		if object.ReplicasOf(live) == 0 || isReplacedByHand(live) && lease != s.Component {
			continue // its lease expires; no process waits for it
		}
		if why, err := x.led(ctx, s, live, lease); err != nil || why != "" {
			return false, step.PendingIf(why, err)
		}
	}
	return true, nil
}

// rolledOut returns why the pods of a workload are not what its template says. Plans of earlier versions leave the pods
// of a DaemonSet to the operator.
func (x Workload) rolledOut(ctx context.Context, live *unstructured.Unstructured) error {
	why, err := object.RolloutProblem(ctx, x.Env, live)
	if why != "" && isReplacedByHand(live) {
		why += "; its pods keep their template until they are deleted: delete them one after the other, the leader's last"
	}
	return step.PendingIf(why, err)
}

// Do changes the workload, and releases the leases of the pods that end.
func (x Workload) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	live, err := object.ReadLive(ctx, x.Env, s.Ref)
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
	next, err := x.Next(s, live)
	if err != nil {
		return err
	}
	unchanged := object.EqualJSON(live.Object["spec"], next.Object["spec"])
	var ends *rolloutEnds
	if !unchanged { // else an earlier try has bound them
		if err := takeover.BindPods(ctx, x.Env, s, rec); err != nil {
			return err
		}
		if ends, err = x.bindRollout(ctx, s); err != nil {
			return err
		}
	}
	if rec.AfterSHA256, err = x.sumOf(next, s); err != nil {
		return err
	}
	if err := x.Env.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.Env.Hook("during", s.ID)
	err = object.UpdateLive(ctx, x.Env, s.Ref, func(o *unstructured.Unstructured) (bool, error) {
		next, err := x.Next(s, o)
		if err != nil || object.EqualJSON(o.Object["spec"], next.Object["spec"]) {
			return false, err
		}
		o.Object = next.Object
		return true, nil
	})
	if err != nil {
		return err
	}
	if !x.Env.IsInSeed(s.Ref) {
		return ends.release(ctx)
	}
	return takeover.ReleaseLeases(ctx, x.Env, s, rec)
}

// checkLive returns why the live workload must not be changed. It does not run the step's component, which counts even
// if only its replicas change. Or what is put back is not this migration's.
func (x Workload) checkLive(s v1.Step, live *unstructured.Unstructured) error {
	if _, err := containerOf(live, s); err != nil {
		return err
	}
	if err := x.oursToTakeBack(s, live); err != nil {
		return err
	}
	return x.OnlyEditable(s, live)
}

// sumOf identifies a workload as the one that a step has changed. In a seed, where others write the template too, it is
// of its command line.
func (x Workload) sumOf(o *unstructured.Unstructured, s v1.Step) (string, error) {
	if x.Env.IsInSeed(s.Ref) {
		return CommandSum(o, s)
	}
	return TemplateSum(o), nil
}

// oursToTakeBack refuses to put the old command line of a container back over one that another client wrote after this
// migration did. That of a control plane in a seed belongs to the program that hosts it, which may write it again at
// any time.
func (x Workload) oursToTakeBack(s v1.Step, live *unstructured.Unstructured) error {
	if s.Restore == "" || len(s.Edits) > 0 || x.Env.IsInSeed(s.Ref) {
		return nil
	}
	raw := x.Env.Journal.Record(s.Restore).Before
	var was WorkloadBefore
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
	return step.NewStale("the command of %s in %s was changed outside this migration after the migration wrote it: "+
		"put your change aside, then run transplant rollback again", s.Component, s.Ref)
}

// OnlyEditable holds a command line that a record puts back to the flags that a migration changes. The record is in the
// journal, which others may write.
func (x Workload) OnlyEditable(s v1.Step, live *unstructured.Unstructured) error {
	raw := x.Env.Journal.Record(s.Restore).Before
	if s.Restore == "" || len(s.Edits) > 0 || raw == "" || x.Env.Unjudged {
		return nil
	}
	var was WorkloadBefore
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
	if err := allowed.CheckOnlyEditable(
		s.Component,
		now.Command,
		now.Args,
		back.Command,
		back.Args,
		x.Env.Plan.Options,
	); err != nil {
		return &trust.UntrustedError{What: "the record of step " + s.Restore, Err: err}
	}
	original, err := x.takesBack(s, now, back)
	if err != nil {
		return err
	}
	for _, name := range was.Mounted {
		if !slices.Contains(mounted(original.Edits), name) {
			return &trust.UntrustedError{
				What: "the record of step " + s.Restore,
				Err:  fmt.Errorf("the step has mounted no volume %s that could be removed", name),
			}
		}
	}
	return nil
}

// takesBack returns the step that another one takes back. A command line that changes more of the live one than it did
// is refused.
func (x Workload) takesBack(s v1.Step, now, back CommandLine) (v1.Step, error) {
	original, known := x.Env.StepByID(s.Restore)
	if !known || original.Ref != s.Ref || original.Component != s.Component {
		return original, &trust.UntrustedError{
			What: "step " + s.ID,
			Err:  fmt.Errorf("step %s, which it takes back, has not changed %s of %s", s.Restore, s.Component, s.Ref),
		}
	}
	changed := original
	for _, there := range x.Env.Journal.Doc().Plan.Steps { // the way back may lead through several steps of the workload
		if there.Ref == s.Ref && there.Component == s.Component && there.ID != original.ID {
			changed.Edits = slices.Concat(changed.Edits, there.Edits)
		}
	}
	if err := allowed.CheckRestored(x.Env.Plan, changed, now.programWords(), back.programWords()); err != nil {
		return original, &trust.UntrustedError{What: "the record of step " + s.Restore, Err: err}
	}
	return original, nil
}

// restored is the command line that a record puts back in the place of the live one.
func (x Workload) restored(s v1.Step, was WorkloadBefore, live CommandLine) (CommandLine, error) {
	back, known := x.takenBack(s, was, live)
	switch {
	case known:
		return back, nil
	case !x.Env.IsInSeed(s.Ref):
		return CommandLine{}, changedCommand(s)
	case was.Back == nil:
		return CommandLine{was.Command, was.Args}, nil
	}
	original, _ := x.Env.StepByID(s.Restore)
	back, err := was.Back.inverse(x.Env.Plan, original, live) // whose hosts the control plane has written another one
	if err != nil {
		return CommandLine{}, fmt.Errorf("%s: %w", s.Ref, err)
	}
	return back, nil
}

// led says why none of a workload's pods leads by a lease of the step; empty when one does. In a seed the pods say so
// themselves, and a lease that is not their component's is not asked for. The owners that the step expects show who has
// it.
func (x Workload) led(ctx context.Context, s v1.Step, live *unstructured.Unstructured, lease string) (string, error) {
	if !x.Env.IsInSeed(s.Ref) {
		return object.LeaderProblem(ctx, x.Env, live, lease)
	}
	if lease != s.Component {
		return "", nil
	}
	pods, err := object.PodsOf(ctx, x.Env, live)
	if err != nil {
		return "", err
	}
	return manager.LeaderProblem(ctx, x.Env, s.Component, lease, pods)
}

// Next is the object as the step wants it.
func (x Workload) Next(s v1.Step, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	next := live.DeepCopy()
	replicas, edits := s.Replicas, s.Edits
	var was WorkloadBefore
	if s.Restore != "" && len(s.Edits) == 0 {
		raw := x.Env.Journal.Record(s.Restore).Before
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

// edited applies the edits of a step to a container, or takes those back that a record tells of. The mounts are
// changed in place, command and arguments are returned.
func (x Workload) edited(
	o *unstructured.Unstructured,
	c map[string]any,
	s v1.Step,
	was WorkloadBefore,
) (command, args []string, err error) {
	live := commandLineOf(c)
	if !was.isEdited() {
		if err := x.Env.CheckAllowedOn(s, commandline.Unwrapped(slices.Concat(live.Command, live.Args))); err != nil {
			return nil, nil, err
		}
		if command, args, err = commandline.ApplyArguments(live.Command, live.Args, flagEdits(s.Edits)); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", s.Ref, err)
		}
		return command, args, applyMounts(o, c, s.Edits)
	}
	for _, name := range was.Mounted {
		if err := dropVolume(o, c, name); err != nil {
			return nil, nil, err
		}
	}
	original, _ := x.Env.StepByID(s.Restore) // one that is not known has no edits
	if err := restoreHostPaths(o, c, original.Edits); err != nil {
		return nil, nil, err
	}
	back, err := x.restored(s, was, live)
	return back.Command, back.Args, err
}

// before is what the step is about to change, as JSON.
func before(s v1.Step, live *unstructured.Unstructured) (string, error) {
	var was WorkloadBefore
	if s.Replicas != nil {
		n := object.ReplicasOf(live)
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
		return nil, fmt.Errorf(
			"%s has %d containers that run %s, not one: it cannot be changed or scaled safely",
			s.Ref,
			len(found),
			s.Component,
		)
	}
	return found[0], nil
}

// ContainerName is what the container is called that runs a step's component; empty where not one does.
func ContainerName(o *unstructured.Unstructured, s v1.Step) string {
	c, err := containerOf(o, s)
	if err != nil {
		return ""
	}
	name, _ := c["name"].(string)
	return name
}

func runs(c map[string]any, program string) bool {
	for _, word := range commandline.Unwrapped(append(object.Strings(c, "command"), object.Strings(c, "args")...)) {
		if word == program || strings.HasSuffix(word, "/"+program) ||
			program == component.CCM && strings.HasSuffix(word, "-"+component.CCM) && !strings.HasPrefix(word, "-") {
			return true
		}
	}
	image, _ := c["image"].(string)
	image, _, _ = strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return image == program && len(object.Strings(c, "command")) == 0
}

func anyList(in []string) []any {
	out := make([]any, len(in))
	for i := range in {
		out[i] = in[i]
	}
	return out
}

// TemplateSum is the hash of a pod template, as a snapshot has it.
func TemplateSum(o *unstructured.Unstructured) string {
	if template, ok := templateOf(o); ok {
		return hosted.TemplateSHA256(template)
	}
	return step.Absent
}

// HasTemplate reports whether an object has the pod template of a hash.
func HasTemplate(o *unstructured.Unstructured, sum string) bool {
	if template, ok := templateOf(o); ok {
		return hosted.IsTemplate(template, sum)
	}
	return sum == step.Absent
}

func templateOf(o *unstructured.Unstructured) (map[string]any, bool) {
	template, found, err := unstructured.NestedMap(o.Object, "spec", "template")
	return template, found && err == nil
}

// CommandSum is the hash of the command of a step's component, as a snapshot has that of one in a seed.
func CommandSum(o *unstructured.Unstructured, s v1.Step) (string, error) {
	command, err := commandOf(o, s)
	if err != nil {
		return "", err
	}
	return hosted.CommandSHA256(command), nil
}

// HasCommand reports whether a step's component has the command of a hash.
func HasCommand(o *unstructured.Unstructured, s v1.Step, sum string) (bool, error) {
	command, err := commandOf(o, s)
	return err == nil && hosted.IsCommand(command, sum), err
}

func commandOf(o *unstructured.Unstructured, s v1.Step) ([]string, error) {
	c, err := containerOf(o, s)
	if err != nil {
		return nil, err
	}
	return append(object.Strings(c, "command"), object.Strings(c, "args")...), nil
}
