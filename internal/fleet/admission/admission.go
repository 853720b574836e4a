// Package admission decides how a seed's API server is answered when a Cluster is written: what is added to it, and
// whether it is refused.
//
// It translates: the judgement is package rules'. A Cluster is never written back as our types have it; what is added
// is a JSON patch of the object as it came. What cannot be looked up in time is no reason to refuse. The write passes
// with a warning, and the operator checks again before it migrates. Nothing of spec.cloud is ever in an answer or a
// log, for it holds credentials.
package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/parts"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
)

// Paths of the webhooks, as deploy/operator/webhooks.yaml names them.
const (
	MutatePath   = "/mutate-clusters"
	ValidatePath = "/validate-clusters"
)

// lookupTimeout bounds what is looked up for one answer, inside the 2 s that the API server waits for the first of the
// webhooks.
const lookupTimeout = time.Second

// Options are what answers rest on. Every field may be left out.
type Options struct {
	// OtherGroups returns the groups in which a Cluster of this name exists, apart from the given one. Nil: none is known.
	OtherGroups func(ctx context.Context, group, name string) ([]string, error)
	// Datacenter returns what is known of a datacenter (spec.cloud.dc); nil when there is none of that name. Nil: none is
	// known.
	Datacenter func(ctx context.Context, name string) (*rules.Datacenter, error)
	// VSphereCSI is the version of vSphere's CSI driver that clusters get; see rules.Facts.
	VSphereCSI string
	// Log is told of refusals and of lookups that did not work. The zero value is silent.
	Log logr.Logger
}

// Webhooks answer an API server. They hold no state, so any number of replicas may serve.
type Webhooks struct {
	options Options
	memory  reviewMemory
}

// New returns the webhooks.
func New(o Options) *Webhooks { return &Webhooks{options: o, memory: reviewMemory{most: maxTogether}} }

// Handler serves both paths.
func (w *Webhooks) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST "+MutatePath, w.memory.review(w.Mutate))
	mux.Handle("POST "+ValidatePath, w.memory.review(w.Validate))
	return mux
}

// write is a request in our types.
type write struct {
	group         string
	before, after *kubermatic.Cluster // before is nil for a new object
}

// decodeRequest translates a request; false when it is about nothing that has rules, such as a status or a deletion.
func decodeRequest(r *admissionv1.AdmissionRequest) (write, bool, error) {
	group := r.Resource.Group
	if r.Resource.Resource != "clusters" || r.SubResource != "" ||
		group != kubermatic.GroupName && group != kubermatic.LegacyGroupName {
		return write{}, false, nil
	}
	out := write{group: group, after: &kubermatic.Cluster{}}
	switch r.Operation {
	case admissionv1.Create:
	case admissionv1.Update:
		out.before = &kubermatic.Cluster{}
		if err := json.Unmarshal(r.OldObject.Raw, out.before); err != nil {
			return out, false, nil // it was unreadable before: a repair must be possible
		}
	default:
		return out, false, nil
	}
	if err := json.Unmarshal(r.Object.Raw, out.after); err != nil {
		return out, true, fmt.Errorf("reading the cluster: %w", err)
	}
	if out.after.Name == "" {
		out.after.Name = r.Name
	}
	return out, true, nil
}

// Mutate answers what is added to a Cluster.
func (w *Webhooks) Mutate(ctx context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	out := &admissionv1.AdmissionResponse{Allowed: true}
	in, ruled, err := decodeRequest(r)
	if !ruled || err != nil {
		return out // the schema refuses what cannot be read, in its own words
	}
	facts, warnings := w.facts(ctx, in, false)
	var add rules.Addition
	if in.before == nil {
		add = rules.OnCreate(in.after, facts)
	} else {
		add = rules.OnUpdate(in.before, in.after, facts)
	}
	out.Warnings = append(warnings, add.Warnings...)
	if add.Empty() {
		return out
	}
	patch, err := patchOf(r.Object.Raw, add)
	if err != nil {
		out.Warnings = append(out.Warnings, err.Error())
		return out
	}
	kind := admissionv1.PatchTypeJSONPatch
	out.Patch, out.PatchType = patch, &kind
	return out
}

// Validate answers whether a Cluster is refused.
func (w *Webhooks) Validate(ctx context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	in, ruled, err := decodeRequest(r)
	switch {
	case !ruled:
		return &admissionv1.AdmissionResponse{Allowed: true}
	case err != nil:
		return w.denyRequest(
			r,
			field.ErrorList{field.Invalid(field.NewPath("spec"), "<not shown>", "cannot be read as a Cluster")},
		)
	}
	facts, warnings := w.facts(ctx, in, true)
	if refusals := rules.Judge(in.before, in.after, facts); len(refusals) > 0 {
		return w.denyRequest(r, refusals)
	}
	return &admissionv1.AdmissionResponse{Allowed: true, Warnings: warnings}
}

func (w *Webhooks) denyRequest(r *admissionv1.AdmissionRequest, why field.ErrorList) *admissionv1.AdmissionResponse {
	status := apierrors.NewInvalid(schema.GroupKind{Group: r.Kind.Group, Kind: r.Kind.Kind}, r.Name, why).Status()
	w.options.Log.V(1).
		Info(
			"Refused a write of a Cluster",
			"group",
			r.Resource.Group,
			"cluster",
			r.Name,
			"operation",
			r.Operation,
			"user",
			r.UserInfo.Username,
			"why",
			why.ToAggregate().Error(),
		)
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    status.Code,
		Reason:  status.Reason,
		Message: status.Message,
		Details: status.Details,
	}}
}

// facts looks up what the rules need for this write, and says what it could not find out.
func (w *Webhooks) facts(ctx context.Context, in write, judged bool) (rules.Facts, []string) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	facts, warnings := rules.Facts{VSphereCSI: w.options.VSphereCSI, Driver: parts.Known}, []string(nil)
	if name := in.after.Spec.Cloud.DatacenterName; name != "" && w.options.Datacenter != nil {
		dc, err := w.options.Datacenter(ctx, name)
		if err != nil {
			w.options.Log.Error(err, "Looking up a datacenter", "datacenter", name)
			warnings = append(warnings, fmt.Sprintf("what datacenter %q says was not looked at: try again if it matters", name))
		}
		facts.Datacenter = dc
	}
	begins := in.before == nil || !in.before.External() && in.after.External()
	if judged && begins && in.after.Name != "" && w.options.OtherGroups != nil {
		groups, err := w.options.OtherGroups(ctx, in.group, in.after.Name)
		if err != nil {
			w.options.Log.Error(err, "Looking for the cluster in other groups", "cluster", in.after.Name)
			warnings = append(
				warnings,
				"whether the cluster exists in the other group was not looked at: the operator looks before it migrates",
			)
		}
		facts.OtherGroups = groups
	}
	return facts, warnings
}
