package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/compare"
)

// planLedger is the Ledger of a cluster: the condition ConditionPlan of its Cluster. The cache is never asked: it may
// be older than the journal.
type planLedger struct {
	client  dynamic.Interface
	target  Target
	version string
	// images are those that the manager of a plan may have that a person approved of; see isOwnImage.
	images func(image string) bool
}

var _ hosted.Ledger = planLedger{}

// Note implements hosted.Ledger.
func (l planLedger) Note(ctx context.Context, part hosted.Part, p *v1.Plan) error {
	return l.updateCondition(ctx, func(begun map[string]string) {
		begun[string(part)] = entryOf(p)
		if part == hosted.Handover {
			delete(begun, backKey)
		}
	})
}

// backKey is under which it is noted that the handover is taken back; its entry is that of the handover's plan.
const backKey = "back"

// NoteBack implements hosted.Ledger.
func (l planLedger) NoteBack(ctx context.Context, p *v1.Plan) error {
	return l.updateCondition(ctx, func(begun map[string]string) { begun[backKey] = entryOf(p) })
}

// HasBack implements hosted.Ledger.
func (l planLedger) HasBack(ctx context.Context, p *v1.Plan) (bool, error) {
	c, err := l.read(ctx)
	if err != nil {
		return false, err
	}
	return begunPlans(c)[backKey] == entryOf(p), nil
}

// Forget implements hosted.Ledger.
func (l planLedger) Forget(ctx context.Context, part hosted.Part) error {
	return l.updateCondition(ctx, func(begun map[string]string) {
		delete(begun, string(part))
		if part == hosted.Handover {
			delete(begun, backKey)
		}
	})
}

// Check implements hosted.Ledger. A plan that a person approved of is noted: the annotation is taken off then.
func (l planLedger) Check(ctx context.Context, part hosted.Part, p *v1.Plan) error {
	c, err := l.read(ctx)
	if err != nil {
		return err
	}
	if begunPlans(c)[string(part)] == entryOf(p) {
		return nil
	}
	sum := hosted.Sum(p.Steps)
	approved, _, _ := strings.Cut(confirmationOf(c), " ")
	switch {
	case approved != sum:
		return &hosted.UnknownPlanError{SHA256: sum}
	case p.Options.Image != "" && !l.images(p.Options.Image):
		return &hosted.UnknownPlanError{SHA256: sum, Why: fmt.Sprintf(
			"it is approved, but the image %s of its manager is neither this operator's (--ccm-image) nor an official one",
			p.Options.Image,
		)}
	case len(plan.RiskyEnv(p.Options)) > 0:
		names := strings.Fields(strings.Join(plan.RiskyEnv(p.Options), ", "))
		return &hosted.UnknownPlanError{SHA256: sum, Why: fmt.Sprintf(
			"it is approved, but its manager gets %s, which may decide where the cloud's credentials go; "+
				"the operator does not start such a plan; an administrator may continue it by hand", strings.Join(names, " "))}
	}
	return l.Note(ctx, part, p)
}

func (l planLedger) read(ctx context.Context) (*kubermaticv1.Cluster, error) {
	u, err := l.client.Resource(objects.Resource(l.target.Group)).Get(ctx, l.target.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading which plans of the cluster were begun: %w", err)
	}
	c, err := objects.Decode(u)
	if err == nil && c.UID != l.target.Cluster.UID {
		err = fmt.Errorf("cluster %q was deleted and made again", l.target.Name)
	}
	return c, err
}

// updateCondition writes the condition. Only the run of the cluster writes it, and that holds the lock.
func (l planLedger) updateCondition(ctx context.Context, do func(begun map[string]string)) error {
	c, err := l.read(ctx)
	if err != nil {
		return err
	}
	was, begun := begunPlans(c), begunPlans(c)
	do(begun)
	if maps.Equal(was, begun) {
		return nil
	}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	condition := kubermaticv1.ClusterCondition{
		Status:             corev1.ConditionTrue,
		Reason:             reasonBegun,
		Message:            messageOf(begun),
		KubermaticVersion:  cmp.Or(l.version, "devel"),
		LastHeartbeatTime:  now,
		LastTransitionTime: now,
	}
	// The time is that of the handover also when the finish begins: it is by what a fleet's progress is measured.
	handover := string(hosted.Handover)
	if before := c.Status.Conditions[kubermaticv1.ConditionPlan]; begun[handover] != "" && begun[handover] == was[handover] {
		condition.LastTransitionTime = before.LastTransitionTime
	}
	if len(begun) == 0 {
		condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, reasonNotBegun, "no plan is under way"
	}
	_, err = objects.Of(l.target.Group, c).
		Unconditional().
		Condition(kubermaticv1.ConditionPlan, condition).
		Apply(ctx, l.client, fieldManager)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf(
			"noting which plan is begun: the definition of Clusters has no status subresource, or the cluster is gone: %w",
			err,
		)
	}
	if err != nil {
		return fmt.Errorf("noting which plan is begun: %w", err)
	}
	return nil
}

// Reasons of ConditionPlan.
const (
	reasonBegun    = "Begun"
	reasonNotBegun = "NotBegun"
)

// entryOf is what is kept of a plan: what a person is shown, and what holds the rest of it.
func entryOf(p *v1.Plan) string { return hosted.Sum(p.Steps) + "." + compare.Seal(p) }

// messageOf and begunPlans write and read the message of the condition: part=entry, with blanks between them.
func messageOf(begun map[string]string) string {
	var out []string
	for _, part := range slices.Sorted(maps.Keys(begun)) {
		out = append(out, part+"="+begun[part])
	}
	return strings.Join(out, " ")
}

func begunPlans(c *kubermaticv1.Cluster) map[string]string {
	out := map[string]string{}
	condition := c.Status.Conditions[kubermaticv1.ConditionPlan]
	if condition.Status != corev1.ConditionTrue {
		return out
	}
	for _, word := range strings.Fields(condition.Message) {
		if part, entry, ok := strings.Cut(word, "="); ok {
			out[part] = entry
		}
	}
	return out
}

// isOwnImage reports whether an image is the operator's own for a provider or of the catalogue. Of the catalogue's own
// repositories any tag is: an operator that was upgraded has another default than the one before.
func (h *Hosted) isOwnImage(provider, image string) bool {
	if image == h.Images[provider] {
		return true
	}
	if cloudprovider.StandsFor(cloudprovider.Official, image) {
		return true
	}
	for minor := component.Oldest; minor <= component.Newest; minor++ {
		for _, word := range []string{"", cloudprovider.Own} {
			usual, ok, _ := cloudprovider.Chosen(word, provider, minor)
			if ok && repositoryOf(usual.Ref) == repositoryOf(image) {
				return true
			}
		}
	}
	return false
}

// repositoryOf is an image without its tag and digest.
func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if at := strings.LastIndexByte(image, ':'); at > strings.LastIndexByte(image, '/') {
		image = image[:at]
	}
	return image
}

// approveBegun is what a person does about a journal of a plan that the operator has not begun.
func approveBegun(t Target, part state.Part, e *hosted.UnknownPlanError) string {
	at := "--seed-namespace " + t.Namespace
	if e.Rollback {
		return fmt.Sprintf(
			"%s. Nothing is done with it. Look at it with transplant rollback --dry-run %s, and if it is right, go on by the command line: transplant rollback %s --plan-sha256 %s. "+
				"If not, find out who wrote the ConfigMap, and put it back as it was from a backup of the seed",
			e.Error(),
			at,
			at,
			e.SHA256,
		)
	}
	if part == state.Finish {
		at = "--part finish " + at
	}
	return fmt.Sprintf(
		"%s. Nothing is done with it. Look at it with transplant apply --dry-run %s. If it is right, approve it: "+
			"kubectl annotate --overwrite clusters.%s %s %s=%s, or go on by the command line with --plan-sha256. "+
			"If no administrator knows it, find out who wrote the ConfigMap and delete it: the operator then starts with its own plan",
		e.Error(),
		at,
		t.Group,
		t.Name,
		kubermaticv1.AnnotationPlan,
		e.SHA256,
	)
}

// stateCache is what was found out about clusters since this operator leads. It may be lost at any time: what it held
// is found out again.
type stateCache struct {
	mu      sync.Mutex
	records map[string]*clusterState
}

// clusterState is about one cluster.
type clusterState struct {
	uid types.UID
	// generation of the object when the last run began, and the plan that was confirmed then.
	generation int64
	confirmed  string

	journal  state.Journal
	run      state.Run
	owners   state.Owners
	parts    PartsSeen
	machines state.Machines
	token    state.Seen
	// looking is that a look is under way, annotating that the annotations are being written, unconfirming that one is
	// being taken off.
	looking, annotating, unconfirming bool
	// watched is that changes of its machines are told; changed is when the first was told since looked, when the last
	// look began.
	watched         bool
	changed, looked time.Time
	restarting      restarting
	// missingRight is why the journal may not be read; toldMissing is what an event has said of it.
	missingRight, toldMissing string
	// holder is the other installation that migrates the cluster; empty for none.
	holder  string
	written written
}

// written is what was last written to the Clusters of a name, by group, until the cache shows it.
type written map[string]*pending

type pending struct {
	cluster *kubermaticv1.Cluster
	// stale are the versions that the cache may show until then.
	stale map[string]bool
}

// latest is the Cluster as it was last written, if the cache is behind.
func (w written) latest(group string, cached *kubermaticv1.Cluster) *kubermaticv1.Cluster {
	p := w[group]
	if p == nil || !p.stale[cached.ResourceVersion] {
		delete(w, group)
		return cached
	}
	return p.cluster
}

// wrote remembers what was written over a version.
func (w written) wrote(group, over string, now *kubermaticv1.Cluster) {
	if now == nil || now.ResourceVersion == over {
		return
	}
	p := w[group]
	if p == nil {
		p = &pending{stale: map[string]bool{}}
		w[group] = p
	}
	p.stale[over] = true
	p.cluster = now
}

func newStateCache() *stateCache { return &stateCache{records: map[string]*clusterState{}} }

// withState calls f with the record of a cluster, which is empty for one that was not known, or that was deleted and
// made again.
func (m *stateCache) withState(name string, uid types.UID, f func(*clusterState)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[name]
	if r == nil || r.uid != uid && uid != "" && r.uid != "" {
		r = &clusterState{uid: uid, written: written{}}
		m.records[name] = r
	}
	if uid != "" {
		r.uid = uid
	}
	f(r)
}

// withKnownState calls f with the record of a cluster, if there is one of this object.
func (m *stateCache) withKnownState(name string, uid types.UID, f func(*clusterState)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.records[name]; r != nil && r.uid == uid {
		f(r)
	}
}

func (m *stateCache) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.records, name)
}

// maxRestarting is how long a cluster's restart of MachineDeployments counts. What the cluster says of its machines
// could make it last for ever, and others would wait. A restart that takes longer goes on and takes no place. After as
// long without one, it counts again.
const maxRestarting = 6 * time.Hour

// claimRestartSlot gives a cluster one of the places for restarts of MachineDeployments, until a look finds that none
// is under way there.
func (m *stateCache) claimRestartSlot(name string, limit int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, r := range m.records {
		if r.restarting.counts() {
			n++
		}
	}
	r := m.records[name]
	if r == nil || !r.restarting.is && n >= limit {
		return false
	}
	r.restarting.is = true
	return true
}

// giveBack gives back the place of a cluster that is not looked at any longer.
func (m *stateCache) giveBack(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.records[name]; r != nil {
		r.restarting.found(false)
	}
}

// restarting is that MachineDeployments of a cluster are restarted, for which it has a place.
type restarting struct {
	is bool // also while a look is under way that may begin one
	// first and last are when a look found that one was under way. They stay where one ends and the next one begins. Else
	// a cluster that says each time that its machines are done would have a place for ever.
	first, last time.Time
}

func (r *restarting) counts() bool {
	isNew := time.Since(r.last) >= maxRestarting
	return r.is && (isNew || time.Since(r.first) < maxRestarting)
}

// found takes in what a look has found.
func (r *restarting) found(is bool) {
	if r.is = is; !is {
		return
	}
	now := time.Now()
	if now.Sub(r.last) >= maxRestarting {
		r.first = now
	}
	r.last = now
}

// note writes down how a look ended.
func note(s *state.Seen, now time.Time, err error) {
	s.At = now
	if err != nil {
		s.Error = shownError(err)
		s.Failures++
		return
	}
	s.Error, s.Failures, s.Known = "", 0, true
}

// maxText bounds what is kept of a text: user clusters answer with errors of any length, and the memory is for all.
const maxText = 4 << 10

// shownText is the beginning of a text, without secrets.
func shownText(text string) string { return mask.Cut(text, maxText) }

// shownTexts are the beginnings of texts, without secrets.
func shownTexts(in []string) []string { return mask.CutAll(in, maxText) }

// shownError is the beginning of what an error says, without secrets; empty for none.
func shownError(err error) string {
	if err == nil {
		return ""
	}
	return shownText(err.Error())
}

// fieldManager names this program in what it writes.
const fieldManager = "transplant-operator"

// write writes the conditions that changed. It reports whether there were any. What is reported of a transition is
// bound to the version that the decision was made from. Another operator may have written and reported the same since.
// The cache of a new leader does not show that yet.
func (op *Operator) write(ctx context.Context, o view.Object, d state.Decision) (bool, error) {
	change := objects.Of(o.Group, o.Cluster)
	if len(d.Events) == 0 {
		change.Unconditional() // no other client writes these conditions
	}
	for _, t := range state.Owned() {
		was, had := o.Cluster.Status.Conditions[t]
		is, has := d.Conditions[t]
		switch {
		case has && (!had || !equality.Semantic.DeepEqual(was, is)):
			change.Condition(t, is)
		case had && !has:
			change.Status(nil, "conditions", string(t))
		}
	}
	if change.Empty() {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, op.WriteTimeout)
	defer cancel()
	now, err := change.Apply(ctx, op.Dynamic, fieldManager)
	if apierrors.IsNotFound(err) {
		now, err = op.writeWhole(ctx, o, change)
	}
	if apierrors.IsNotFound(err) { // it was deleted, which the cache will tell
		return false, nil
	}
	if objects.IsStale(err) {
		return false, errBehind
	}
	if err != nil {
		return false, fmt.Errorf("writing conditions: %w", err)
	}
	op.Metrics.wrote()
	op.states.withState(o.Cluster.Name, "", func(r *clusterState) {
		r.written.wrote(o.Group,
			o.Cluster.ResourceVersion, now)
	})
	return true, nil
}

// errBehind says that the cache is behind the object: what was decided may be old.
var errBehind = errors.New("the cluster has changed since it was read")

// writeWhole writes the conditions through the object: old CRDs of the original have no subresource for the status.
func (op *Operator) writeWhole(
	ctx context.Context,
	o view.Object,
	change *objects.Change,
) (*kubermaticv1.Cluster, error) {
	patch, err := change.StatusPatch()
	if err != nil {
		return nil, err
	}
	u, err := op.Dynamic.Resource(objects.Resource(o.Group)).
		Patch(ctx, o.Cluster.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, err
	}
	return objects.Decode(u)
}

// recordEvents records events about a Cluster.
func (op *Operator) recordEvents(o view.Object, events []state.Event) {
	for _, e := range events {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		op.Recorder.Event(reference(o.Group, o.Cluster), kind, e.Reason, e.Note)
		op.Log.Info("A cluster has changed", "cluster", o.Cluster.Name, "reason", e.Reason, "note", e.Note)
	}
}

// reference names a Cluster in events: what was decoded does not know its group.
func reference(group string, c *kubermaticv1.Cluster) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: objects.Resource(group).GroupVersion().String(),
		Kind:       "Cluster",
		Name:       c.Name,
		UID:        c.UID,
	}
}
