// Package precondition decides whether a step may begin: the facts the plan was made from, images, and the managers
// that still run.
package precondition

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/kubeadmconfig"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/step/workload"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Check re-checks the facts that a step needs, and names what changed.
func Check(ctx context.Context, e *step.Env, s v1.Step) error {
	var changed []v1.ChangedFact
	doc := e.Journal.Doc()
	for _, id := range s.Requires {
		if host, _, ok := fileOf(id); ok && journal.IsExcluded(doc, host) {
			continue
		}
		c, err := findChange(ctx, e, id)
		if err != nil {
			return fmt.Errorf("checking fact %s: %w", id, err)
		}
		if c != nil {
			c.Fact = id
			changed = append(changed, *c)
		}
	}
	if len(changed) > 0 {
		slices.SortFunc(changed, func(a, b v1.ChangedFact) int { return strings.Compare(a.Message, b.Message) })
		return &step.StaleError{Changed: changed}
	}
	if err := hostFilesOf(ctx, e, s); err != nil {
		return err
	}
	return imagesThere(ctx, e, s)
}

// Preflight checks every fact of a plan that was not started yet, and names all that have changed. So a stale plan is
// refused before its first step and not in the middle. The options need both clients and the hosts.
func Preflight(ctx context.Context, o step.Options, p *v1.Plan) error {
	e := step.NewEnv(o, journal.Of(v1.Journal{}))
	e.Plan = p
	all := v1.Step{}
	for _, f := range p.Facts {
		all.Requires = append(all.Requires, f.ID)
	}
	return Check(ctx, e, all)
}

// Changes returns which of some facts of a plan have changed since it was made. A fact that cannot be read is left out.
// The options need both clients and the hosts.
func Changes(ctx context.Context, o step.Options, p *v1.Plan, facts []string) (changed []v1.ChangedFact) {
	e := step.NewEnv(o, journal.Of(v1.Journal{}))
	e.Plan = p
	for _, id := range facts {
		if c, err := findChange(ctx, e, id); err == nil && c != nil {
			c.Fact = id
			changed = append(changed, *c)
		}
	}
	return changed
}

// findChange returns how a fact has changed; nil when it has not. What this run wrote itself counts as the fact from
// then on.
func findChange(ctx context.Context, e *step.Env, id string) (*v1.ChangedFact, error) {
	if id == "cluster:uid" {
		ns, err := e.Kube.CoreV1().Namespaces().Get(ctx, component.Namespace, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading namespace %s: %w", component.Namespace, err)
		}
		if string(ns.UID) != e.Plan.Cluster.UID {
			return changedTo("this is another cluster: its uid is %s, the plan was made for %s", ns.UID, e.Plan.Cluster.UID), nil
		}
		return nil, nil
	}
	if kind, rest, _ := strings.Cut(id, ":"); kind != "file" {
		return otherHolds(ctx, e, kind, rest, id)
	}
	host, path, ok := fileOf(id)
	if !ok {
		return nil, fmt.Errorf("fact %q is not known to this version of transplant", id)
	}
	want, detail := wanted(e, id, host, path)
	sum, _, err := e.DigestFile(ctx, host, path)
	if err != nil || sum == want {
		return nil, err
	}
	now, read, err := e.ReadFile(ctx, host, path)
	switch {
	case detail == "" && (err != nil || read != sum): // a program may be larger than what is read of a host
		now = hostaccess.File{}
	case err != nil:
		return nil, err
	default:
		sum = read
	}
	differs := difference(detail, now.Data, sum, want)
	c := changedTo("%s on host %s was changed outside this migration%s", path, host, differs)
	c.Host, c.Path = host, path
	if !now.Modified.IsZero() {
		c.ChangedAt = new(now.Modified.UTC().Truncate(time.Second))
	}
	return c, nil
}

// changedTo describes a fact that has changed.
func changedTo(format string, args ...any) *v1.ChangedFact {
	return &v1.ChangedFact{Message: fmt.Sprintf(format, args...)}
}

// changedIn is a fact that an object of the API shows to have changed. Fields are where it stands in the object.
func changedIn(
	e *step.Env, o metav1.Object, ref string, fields [][]string, format string, args ...any,
) *v1.ChangedFact {
	c := changedTo(format, args...)
	step.NameWriter(c, ref, o.GetManagedFields(), e.Plan.Created, fields...)
	return c
}

// isGone is a fact of an object that is not there.
func isGone(ref string) *v1.ChangedFact {
	return &v1.ChangedFact{Message: ref + " is gone", Object: ref}
}

// commandFields are the fields of a container's command. What wrote another field of its pod template did not change
// it.
func commandFields(container string) [][]string {
	name, err := json.Marshal(container)
	if err != nil {
		return nil // a text is always JSON
	}
	at := []string{"f:spec", "f:template", "f:spec", "f:containers", `k:{"name":` + string(name) + `}`}
	return [][]string{append(slices.Clone(at), "f:command"), append(slices.Clone(at), "f:args")}
}

// otherHolds returns how a fact about something other than a file on a host has changed.
func otherHolds(ctx context.Context, e *step.Env, kind, name, id string) (*v1.ChangedFact, error) {
	want, detail := wanted(e, id, "", name)
	switch kind {
	case "workload":
		return workloadHolds(ctx, e, name, want, detail)
	case "command":
		return commandHolds(ctx, e, name, want, detail)
	case "seed":
		return seedHolds(ctx, e, want)
	case "kubeadm":
		return textHolds(ctx, e, object.KubeadmRef, kubeadmconfig.Key, want)
	case "kubelet-config":
		return textHolds(ctx, e, "ConfigMap/"+component.Namespace+"/"+name, component.Kubelet, want)
	case "kubelet-files":
		return kubeletFilesHold(ctx, e, name, want)
	case "node":
		node, _, _ := strings.Cut(name, ":")
		return nodeHolds(ctx, e, node, want)
	case "local":
		return localHolds(e, id, name, want)
	}
	return nil, fmt.Errorf("fact %q is not known to this version of transplant", id)
}

// localHolds returns how a file of this machine has changed since the plan was made with it. A plan or a journal may be
// an attacker's. The one file that it may ask for is that of --credential-provider. Nothing of its content is reported,
// since errors are kept in the journal.
func localHolds(e *step.Env, id, name, want string) (*v1.ChangedFact, error) {
	if o := e.Plan.Options; !planstep.IsProviderFile(o, name, want) {
		return nil, &trust.UntrustedError{What: "fact " + id, Err: fmt.Errorf(
			"it asks for file %s of this machine, and a plan reads none but that of --credential-provider (%s)",
			name,
			cmp.Or(o.CredentialProvider, "not given"),
		)}
	}
	data, err := e.ReadLocal(name)
	if err != nil {
		return nil, fmt.Errorf("reading %s, which the plan copies to hosts: %w", name, err)
	}
	if hostaccess.SHA256(data) != want {
		return changedTo("%s on this machine is not the file with SHA-256 %s that the plan was made with", name, want), nil
	}
	return nil, nil
}

func workloadHolds(ctx context.Context, e *step.Env, ref, want, detail string) (*v1.ChangedFact, error) {
	live, err := object.ReadLive(ctx, e, ref)
	if apierrors.IsNotFound(err) {
		return isGone(ref), nil
	} else if err != nil {
		return nil, err
	}
	if !workload.HasTemplate(live, want) {
		return changedIn(e, live, ref, [][]string{{"f:spec", "f:template"}},
			"the pod template of %s was changed outside this migration%s", ref, templateDifference(detail, live)), nil
	}
	return nil, nil
}

// commandHolds compares the command of a component in the seed, of whose name the rest of the fact's ID is the last
// part.
func commandHolds(ctx context.Context, e *step.Env, name, want, detail string) (*v1.ChangedFact, error) {
	at := strings.LastIndex(name, "/")
	ref, component := name[:max(at, 0)], name[at+1:]
	want, detail = wantedOf(e, ref, component, want, detail)
	live, err := object.ReadLive(ctx, e, ref)
	if apierrors.IsNotFound(err) {
		return isGone(ref), nil
	} else if err != nil {
		return nil, err
	}
	of := v1.Step{Ref: ref, Component: component}
	same, err := workload.HasCommand(live, of, want)
	if err != nil {
		return nil, err
	}
	if !same {
		fields := commandFields(workload.ContainerName(live, of))
		return changedIn(e, live, ref, fields, "the command of %s in %s was changed outside this migration%s",
			component, ref, templateDifference(detail, live)), nil
	}
	return nil, nil
}

// wantedOf is what the command of a component in the seed should be: what this run made of it last, else what the plan
// saw.
func wantedOf(e *step.Env, ref, component, value, detail string) (string, string) {
	doc := e.Journal.Doc()
	for _, rec := range doc.Records {
		for _, s := range append(append([]v1.Step(nil), doc.Plan.Steps...), journal.RollbackSteps(doc)...) {
			if s.ID == rec.ID && s.Ref == ref && s.Component == component && rec.AfterSHA256 != "" && rec.Ended != nil {
				value, detail = rec.AfterSHA256, ""
			}
		}
	}
	return value, detail
}

func seedHolds(ctx context.Context, e *step.Env, want string) (*v1.ChangedFact, error) {
	if e.Seed == nil {
		return nil, fmt.Errorf(
			"the plan is for a control plane in a seed, and none was given: name its kubeconfig and namespace",
		)
	}
	ns, err := e.Seed.Kube.CoreV1().Namespaces().Get(ctx, e.Seed.Namespace, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s of the seed: %w", e.Seed.Namespace, err)
	}
	if string(ns.UID) != want {
		return changedTo(
			"namespace %s of the seed is another one: its uid is %s, the plan was made for %s",
			e.Seed.Namespace,
			ns.UID,
			want,
		), nil
	}
	return nil, nil
}

// textHolds compares a text in a ConfigMap with its hash. What this run has started to change is in the record, and
// each step says what it wants.
func textHolds(ctx context.Context, e *step.Env, ref, key, want string) (*v1.ChangedFact, error) {
	if hasBegun(e, ref) {
		return nil, nil
	}
	live, err := object.ReadLive(ctx, e, ref)
	if apierrors.IsNotFound(err) {
		return isGone(ref), nil
	} else if err != nil {
		return nil, err
	}
	text, _, err := unstructured.NestedString(live.Object, "data", key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	if sum := hostaccess.SHA256([]byte(text)); sum != want {
		return changedIn(
			e,
			live,
			ref,
			[][]string{{"f:data", "f:" + key}},
			"%s of %s was changed outside this migration: its SHA-256 is %s, the plan saw %s",
			key,
			ref,
			sum,
			want,
		), nil
	}
	return nil, nil
}

func nodeHolds(ctx context.Context, e *step.Env, node, want string) (*v1.ChangedFact, error) {
	n, err := e.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return &v1.ChangedFact{Message: "node " + node + " is gone", Object: "Node/" + node}, nil
	case err != nil:
		return nil, fmt.Errorf("reading node %s: %w", node, err)
	case n.Spec.ProviderID != want && !hasBegun(e, "Node/"+node):
		return changedIn(e, n, "Node/"+node, [][]string{{"f:spec", "f:providerID"}},
			"node %s has provider id %q by now, it had %q", node, n.Spec.ProviderID, want), nil
	}
	return nil, nil
}

// hasBegun reports whether a step of this run has begun to change an object.
func hasBegun(e *step.Env, ref string) bool {
	for _, s := range e.Plan.Steps {
		if s.Ref == ref && e.Journal.Record(s.ID).Result != "" {
			return true
		}
	}
	return false
}

// templateDifference names the arguments that came and went in a pod template.
func templateDifference(before string, live *unstructured.Unstructured) string {
	was := strings.Split(before, "\n")
	containers, _, err := unstructured.NestedSlice(live.Object, "spec", "template", "spec", "containers")
	if err != nil || before == "" {
		return ""
	}
	for _, c := range containers {
		m, _ := c.(map[string]any)
		if is := append(object.Strings(m, "command"), object.Strings(m, "args")...); len(is) > 0 && is[0] == was[0] {
			return compare(was, mask.Command(is))
		}
	}
	return ""
}

func fileOf(id string) (host, path string, ok bool) {
	rest, ok := strings.CutPrefix(id, "file:")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}

// wanted is what the file should hold: what this run wrote last, else what the plan saw.
func wanted(e *step.Env, id, host, path string) (value, detail string) {
	for _, f := range e.Plan.Facts {
		if f.ID == id {
			value, detail = f.Value, f.Detail
		}
	}
	doc := e.Journal.Doc()
	for _, rec := range doc.Records {
		if rec.AfterSHA256 == "" || rec.Ended == nil {
			continue
		}
		value, detail = wroteNextTo(doc, rec, host, path, value, detail)
		for _, s := range append(append([]v1.Step(nil), doc.Plan.Steps...), journal.RollbackSteps(doc)...) {
			if s.ID == rec.ID && (s.Host == host && s.Path == path || host == "" && s.Ref == path) {
				value, detail = rec.AfterSHA256, ""
			}
		}
	}
	return value, detail
}

// wroteNextTo is what a file holds that a step wrote next to its own; what it held else.
func wroteNextTo(doc v1.Journal, rec v1.StepRecord, host, path, value, detail string) (string, string) {
	for _, f := range rec.Files {
		if f.Path != path || f.AfterSHA256 == "" {
			continue
		}
		for _, s := range append(append([]v1.Step(nil), doc.Plan.Steps...), journal.RollbackSteps(doc)...) {
			if s.ID == rec.ID && s.Host == host {
				return f.AfterSHA256, ""
			}
		}
	}
	return value, detail
}

// difference names the arguments that came and went.
func difference(before string, data []byte, sum, want string) string {
	if sum == step.Absent {
		return ": it is gone"
	}
	m, err := controlplane.Parse(data)
	if err != nil || before == "" {
		if want == step.Absent {
			return ": its SHA-256 is " + sum + ", the plan saw no file"
		}
		return ": its SHA-256 is " + sum + ", the plan saw " + want
	}
	return compare(strings.Split(before, "\n"), mask.Command(m.Command()))
}

// compare names the arguments that came and went.
func compare(before, now []string) string {
	was, is := map[string]bool{}, map[string]bool{}
	for _, a := range before {
		was[a] = true
	}
	var out []string
	for _, a := range now {
		if is[a] = true; !was[a] {
			out = append(out, "+ "+a)
		}
	}
	for _, a := range before {
		if !is[a] {
			out = append(out, "- "+a)
		}
	}
	if len(out) == 0 {
		return ": something other than its arguments"
	}
	return " (" + strings.Join(out, ", ") + ")"
}
