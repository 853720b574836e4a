package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/mask"
)

// ActionName is something that may be done to a cluster from the page.
type ActionName string

// The actions.
const (
	// Start switches the external cloud provider on: the migration begins when it is the cluster's turn.
	Start ActionName = "start"
	// Hold keeps the operator from beginning the migration.
	Hold ActionName = "hold"
	// Release takes a hold off.
	Release ActionName = "release"
	// Confirm confirms the plan of a cluster again: it changed since it was confirmed, so that the operator does not
	// begin.
	Confirm ActionName = "confirm"
	// RestartMachines lets the operator restart the MachineDeployments.
	RestartMachines ActionName = "restart-machines"
)

// writer is the field manager of what is written from the page.
const writer = "transplant-web"

// maxReason is how long a reason may be, in characters.
const maxReason = 200

// possible are the actions that make sense for a cluster as it is.
func possible(row v1.FleetCluster) []ActionName {
	out := []ActionName{}
	if row.Twice || row.Deleting {
		return out
	}
	if row.Hold != "" {
		out = append(out, Release)
	} else {
		out = append(out, unheld(row)...)
	}
	if row.External && !row.RestartsMachines && (isStalled(row) || row.Standing == v1.StandingMigrating) {
		out = append(out, RestartMachines)
	}
	return out
}

// unheld are the actions on a cluster without a hold.
func unheld(row v1.FleetCluster) []ActionName {
	switch {
	case row.Standing == v1.StandingNotEnabled:
		return []ActionName{Start, Hold}
	case !isStalled(row):
		return nil
	case row.External && row.Confirmed && row.Standing != v1.StandingFailed:
		return []ActionName{Hold, Confirm}
	}
	return []ActionName{Hold}
}

// isStalled reports whether a cluster's migration was asked for and does not go on.
func isStalled(row v1.FleetCluster) bool {
	return row.Standing == v1.StandingWaiting || row.Standing == v1.StandingBlocked || row.Standing == v1.StandingFailed
}

// Preview is exactly what an action is going to do. The write to the object comes first, then the steps that the
// operator executes because of it.
type Preview struct {
	Action ActionName `json:"action"`
	Title  string     `json:"title"`
	Steps  []v1.Step  `json:"steps"`
	// Effects are sentences: what comes of it, and what does not.
	Effects []string `json:"effects,omitempty"`
	// Findings of the checks that did not pass; Refusals are sentences of the rules. Blocked reports whether the action is
	// refused because of them.
	Findings []v1.Finding `json:"findings,omitempty"`
	Refusals []string     `json:"refusals,omitempty"`
	Blocked  bool         `json:"blocked"`
	// SHA256 is of the action, the object and the steps. It has to be sent back, and the action is refused when it is
	// another one by then.
	SHA256 string `json:"sha256"`
}

// requestedAction is the action that a request is about, if this person may do it now.
func (s *server) requestedAction(r *http.Request, p *person) (view.Object, ActionName, error) {
	if !s.EnableActions {
		return view.Object{}, "", &refusal{
			http.StatusForbidden,
			"this page is read-only: the operator was started without --enable-actions",
		}
	}
	object, twice, err := s.find(r, p, "update")
	if err != nil {
		return object, "", err
	}
	action := ActionName(r.PathValue("action"))
	row := view.Row(object, twice)
	switch {
	case !slices.Contains([]ActionName{Start, Hold, Release, Confirm, RestartMachines}, action):
		return object, "", &refusal{http.StatusNotFound, "there is no such action"}
	case !slices.Contains(possible(row), action):
		return object, "", &refusal{
			http.StatusConflict,
			fmt.Sprintf("%s is not possible while the cluster is %s (%s)", action, view.Words(row.Standing), row.Phase),
		}
	}
	return object, action, nil
}

func (s *server) preview(w http.ResponseWriter, r *http.Request, p *person) {
	object, action, err := s.requestedAction(r, p)
	if err != nil {
		s.writeError(w, err)
		return
	}
	shown, _, err := s.prepare(r.Context(), object, action, p, r.URL.Query().Get("reason"))
	if err != nil {
		s.writeError(w, err)
		return
	}
	s.write(w, http.StatusOK, shown)
}

// act does what was shown, if that is still what would be done.
func (s *server) act(w http.ResponseWriter, r *http.Request, p *person) {
	var body struct {
		SHA256 string `json:"sha256"`
		Reason string `json:"reason"`
	}
	object, action, err := s.requestedAction(r, p)
	if err == nil {
		err = readJSON(w, r, &body)
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	shown, change, err := s.prepare(r.Context(), object, action, p, body.Reason)
	switch {
	case err != nil:
		s.writeError(w, err)
		return
	case shown.SHA256 != body.SHA256:
		s.write(
			w,
			http.StatusConflict,
			changedPreview{"what would be done has changed since it was shown: look at it again", shown},
		)
		return
	case shown.Blocked:
		s.write(w, http.StatusUnprocessableEntity, changedPreview{"the checks refuse it; nothing was changed", shown})
		return
	}
	if err := s.writeAsPerson(r.Context(), p, change); err != nil {
		s.Log.Info(
			"an action from the page was refused",
			"action",
			action,
			"cluster",
			object.Key().String(),
			"user",
			p.Username,
			"error",
			mask.Error(err),
		)
		s.writeError(w, err)
		return
	}
	s.Log.Info(
		"an action from the page",
		"action",
		action,
		"cluster",
		object.Key().String(),
		"user",
		p.Username,
		"plan",
		shown.SHA256,
	)
	s.write(w, http.StatusOK, map[string]string{"done": shown.Title})
}

// changedPreview is a refusal with what would be done.
type changedPreview struct {
	Error   string  `json:"error"`
	Preview Preview `json:"preview"`
}

// writeAsPerson writes with the token of the person: the seed decides, and its audit log names the person.
func (s *server) writeAsPerson(ctx context.Context, p *person, change *objects.Change) error {
	cfg := rest.AnonymousClientConfig(s.Config)
	cfg.BearerToken, cfg.UserAgent, cfg.Timeout = p.token, "transplant-web/"+s.ToolVersion, asking
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("reaching the seed: %w", err)
	}
	_, err = change.Apply(ctx, client, writer)
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case objects.IsStale(err):
		return &refusal{http.StatusConflict, "the cluster has changed since: look at it again"}
	case errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500:
		return &refusal{int(status.Status().Code), scrubbed(err, p.token).Error()}
	}
	return scrubbed(err, p.token)
}

// prepare makes an action's steps and the write that begins it.
func (s *server) prepare(
	ctx context.Context,
	o view.Object,
	action ActionName,
	p *person,
	reason string,
) (Preview, *objects.Change, error) {
	reason, err := checkedReason(reason)
	if err != nil {
		return Preview{}, nil, err
	}
	shown := Preview{Action: action}
	change := s.written(&shown, o, action, p, reason)
	if action == Start || action == Confirm || action == Release && o.Cluster.External() {
		if err := s.plan(ctx, o, &shown, change); err != nil {
			return Preview{}, nil, err
		}
	}
	data, err := json.Marshal(struct {
		Action ActionName
		Key    view.Key
		UID    string
		Steps  []v1.Step
	}{action, o.Key(), string(o.Cluster.UID), shown.Steps})
	if err != nil {
		return Preview{}, nil, fmt.Errorf("encoding the steps: %w", err)
	}
	sum := sha256.Sum256(data)
	shown.SHA256 = hex.EncodeToString(sum[:])
	return shown, change, nil
}

func checkedReason(reason string) (string, error) {
	reason = strings.TrimSpace(reason)
	if len([]rune(reason)) > maxReason || strings.ContainsFunc(reason, unicode.IsControl) {
		return "", &refusal{http.StatusBadRequest, fmt.Sprintf("a reason has one line of at most %d characters", maxReason)}
	}
	return reason, nil
}

// written is the write to the object, and the step that shows it.
func (s *server) written(shown *Preview, o view.Object, action ActionName, p *person, reason string) *objects.Change {
	change := objects.Of(o.Group, o.Cluster)
	step := v1.Step{
		ID:    "cluster/" + o.Cluster.Name,
		Phase: "request",
		Kind:  v1.StepPatchObject,
		Ref:   "Cluster/" + o.Cluster.Name,
	}
	field := v1.Change{}
	switch action {
	case Start:
		change.Feature(kubermaticv1.FeatureExternalCloudProvider, true)
		field = v1.Change{
			Field:  "spec.features.externalCloudProvider",
			Before: fmt.Sprint(o.Cluster.External()),
			After:  "true",
		}
		shown.Title = "Start the migration"
		shown.Effects = []string{
			"the feature cannot be switched off again",
			"the operator begins when it is the cluster's turn, after its own checks",
			"machines are replaced by their owner, unless the operator is asked to restart them",
		}
	case Hold:
		value := p.Username
		if reason != "" {
			value += ": " + reason
		}
		change.Annotate(kubermaticv1.AnnotationHold, value)
		field = v1.Change{Field: "annotation " + kubermaticv1.AnnotationHold, After: value}
		shown.Title = "Hold the migration"
		shown.Effects = []string{
			"the operator does not begin with this cluster until the hold is taken off",
			"a handover that was begun is carried through",
		}
	case Release:
		change.Unannotate(kubermaticv1.AnnotationHold)
		field = v1.Change{
			Field:  "annotation " + kubermaticv1.AnnotationHold,
			Before: o.Cluster.Annotations[kubermaticv1.AnnotationHold],
		}
		shown.Title = "Take the hold off"
		shown.Effects = []string{"the operator forgets an earlier failure and tries again"}
	case Confirm:
		shown.Title = "Confirm the plan again"
		shown.Effects = []string{"the operator begins with this plan when it is the cluster's turn, and with no other"}
	case RestartMachines:
		change.Annotate(kubermaticv1.AnnotationRestartMachines, "true")
		field = v1.Change{
			Field:  "annotation " + kubermaticv1.AnnotationRestartMachines,
			Before: o.Cluster.Annotations[kubermaticv1.AnnotationRestartMachines],
			After:  "true",
		}
		shown.Title = "Let the operator restart the MachineDeployments"
		most := o.Cluster.Annotations[kubermaticv1.AnnotationMaxUnavailable]
		if most == "" {
			most = "1"
		}
		shown.Effects = []string{
			"every machine of the cluster is replaced, and its node with it: MachineDeployment by MachineDeployment, the first one watched before the others",
			"at most " + most + " machines are missing at a time",
			"it begins when the cloud-controller-manager runs every loop, and stops when new nodes do not become ready",
		}
	}
	step.Title = shown.Title
	if field.Field != "" {
		step.Changes = []v1.Change{field}
	}
	shown.Steps = []v1.Step{step}
	return change
}

// plan adds what the operator would do: the steps of the handover, and what refuses it. The write says which steps
// these are, so that the operator begins with no others. Where the handover was begun, the operator goes on with the
// plan in its journal, whatever is written.
func (s *server) plan(ctx context.Context, o view.Object, shown *Preview, change *objects.Change) error {
	if s.Refusals != nil {
		shown.Refusals = s.Refusals(o)
	}
	if o.Cluster.Spec.Pause {
		shown.Refusals = append(shown.Refusals, "the cluster is paused: "+o.Cluster.Spec.PauseReason)
	}
	shown.Blocked = len(shown.Refusals) > 0
	if s.Plane == nil {
		return &refusal{
			http.StatusNotImplemented,
			"this operator opens no control planes for the page, and nothing is done without a plan: use transplant fleet apply",
		}
	}
	ctx, cancel := context.WithTimeout(ctx, looking)
	defer cancel()
	ctx, plane, done, err := s.opened(ctx, o)
	if err != nil {
		return &refusal{http.StatusBadGateway, "the plan cannot be made: " + mask.Error(err)}
	}
	defer done()
	status, err := plane.Status(ctx, hosted.Handover)
	switch {
	case err != nil:
		return &refusal{http.StatusBadGateway, "whether the handover was begun cannot be read: " + mask.Error(err)}
	case hasStarted(status):
		shown.Effects = append(
			shown.Effects,
			fmt.Sprintf(
				"the handover was begun (%d of %d steps): the operator goes on with the plan that it was begun with",
				status.StepsDone,
				status.StepsTotal,
			),
		)
		return nil
	}
	snap := plane.Gather(ctx)
	report := troubles(plane.Check(snap))
	made, err := plane.Plan(snap, hosted.Handover)
	var blocked *hosted.BlockedError
	switch {
	case errors.As(err, &blocked):
		report = troubles(blocked.Report)
		report.Summary.Blocked = true
	case err != nil:
		return &refusal{http.StatusBadGateway, "the plan cannot be made: " + mask.Error(err)}
	default:
		change.Annotate(kubermaticv1.AnnotationPlan, hosted.Confirmation(made.Steps))
		shown.Steps[0].Changes = append(shown.Steps[0].Changes, v1.Change{Field: "annotation " + kubermaticv1.AnnotationPlan,
			Before: first(o.Cluster.Annotations[kubermaticv1.AnnotationPlan]), After: hosted.Sum(made.Steps)})
		shown.Steps = append(shown.Steps, made.Steps...)
		shown.Effects = append(shown.Effects, made.Effects...)
	}
	shown.Findings = report.Findings
	shown.Blocked = shown.Blocked || report.Summary.Blocked
	return nil
}

// hasStarted reports whether a part was begun and is not back as it was: its journal has the plan that counts.
func hasStarted(s v1.Status) bool {
	switch s.Phase {
	case v1.StateApplied, v1.StateRollingBack:
		return true
	case v1.StateApplying:
		return s.StepsDone > 0 || len(s.Current) > 0
	}
	return false
}

// first is the first word of what was kept of a plan, which is its SHA-256.
func first(confirmation string) string {
	sum, _, _ := strings.Cut(confirmation, " ")
	return sum
}
