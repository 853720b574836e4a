// Package permission decides which rights a migration needs, and asks the API server whether they are given.
package permission

import (
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/together"
)

// Identities of the managers in the API, with the groups that the API server would find them in.
var identities = []struct {
	user, lease string
	groups      []string
}{
	{user: component.UserKCM, lease: component.KCM, groups: []string{"system:authenticated"}},
	{
		user: component.UserCCM, lease: component.CCM,
		groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + component.Namespace, "system:authenticated"},
	},
}

// loopNeeds are what the new manager's loops do to the API next to their elections: the node loops, the service loop,
// their events. Every verb is a question of its own, so what no loop uses is not asked.
var loopNeeds = []collect.Need{
	{Verbs: []string{"get", "list", "watch", "patch", "delete"}, Resource: "nodes"},
	{Verbs: []string{"patch"}, Resource: "nodes/status"},
	{Verbs: []string{"list", "watch"}, Resource: "services"},
	{Verbs: []string{"patch"}, Resource: "services/status"},
	{Verbs: []string{"create", "patch"}, Resource: "events"},
}

// upstreamNeeds are what managers on upstream's library do besides: they write a Node that they initialise whole.
var upstreamNeeds = []collect.Need{{Verbs: []string{"update"}, Resource: "nodes"}}

// accountNeeds are for --use-service-account-credentials: each loop is then an account of its own, for which the
// manager asks a token.
var accountNeeds = []collect.Need{
	{Verbs: []string{"get", "create"}, Resource: "serviceaccounts", Namespace: component.Namespace},
	{Verbs: []string{"create"}, Resource: "serviceaccounts/token", Namespace: component.Namespace},
}

// reviewers is how many access reviews are asked for at a time.
const reviewers = 8

// GatherAccess asks the authorizer what the caller may do, and what the managers may do with their leases.
func GatherAccess(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("access", collect.NoAPI)
		return
	}
	questions := listQuestions(g)
	Answer(ctx, g, questions)
	g.Snap.Access = questions
	if refused := slices.IndexFunc(questions, func(a v1.AccessAnswer) bool { return a.Error != "" }); refused >= 0 {
		g.Unknown("access", questions[refused].Error)
	}
}

// Answer asks the API server every question, a few at a time.
func Answer(ctx context.Context, g *collect.Collector, questions []v1.AccessAnswer) {
	work := make(chan int, len(questions))
	for i := range questions {
		work <- i
	}
	close(work)
	var wg together.Group
	for range min(reviewers, len(questions)) {
		wg.Go(func() {
			for i := range work {
				reviewAccess(ctx, g, &questions[i])
			}
		})
	}
	wg.Wait()
}

// listQuestions are in a fixed order. First come the caller's in the order of the needs, then the managers' about their
// leases, then the new manager's about what its loops do.
func listQuestions(g *collect.Collector) []v1.AccessAnswer {
	needs := g.Needs
	if needs == nil {
		needs = DefaultNeeds
	}
	out := Questions("self", needs)
	for _, id := range identities {
		// A right to create cannot be limited to a name: the object has none yet when it is judged.
		out = append(
			out,
			v1.AccessAnswer{
				Who:       id.user,
				Verb:      "create",
				Group:     groupCoordination,
				Resource:  "leases",
				Namespace: component.Namespace,
			},
		)
		for _, lease := range []string{g.LeaseName, id.lease} {
			for _, verb := range []string{"get", "update"} {
				out = append(
					out,
					v1.AccessAnswer{
						Who:       id.user,
						Verb:      verb,
						Group:     groupCoordination,
						Resource:  "leases",
						Namespace: component.Namespace,
						Name:      lease,
					},
				)
			}
		}
	}
	upstreams := hasManager(g, func(c v1.Component) bool { return c.Image == "" || !proven.Ours(c.Image) })
	out = append(out, Questions(component.UserCCM, ManagerNeeds(!upstreams))...)
	if hasManager(g, func(c v1.Component) bool { return c.Flags["use-service-account-credentials"] == "true" }) {
		out = append(out, Questions(component.UserCCM, accountNeeds)...)
	}
	return out
}

// ManagerNeeds are what the loops of a manager need next to its election: of ours, or of one on upstream's library. The
// roles of a plan have to grant them, or RBAC-002 refuses a cluster that this program has migrated.
func ManagerNeeds(ours bool) []collect.Need {
	if ours {
		return loopNeeds
	}
	return slices.Concat(loopNeeds, upstreamNeeds)
}

// hasManager reports whether a cloud-controller-manager of some kind is there.
func hasManager(g *collect.Collector, is func(v1.Component) bool) bool {
	return slices.ContainsFunc(g.Components(), func(c v1.Component) bool { return c.Name == component.CCM && is(c) })
}

// Questions are the questions whether an account may do something, in the order of the needs.
func Questions(who string, needs []collect.Need) []v1.AccessAnswer {
	var out []v1.AccessAnswer
	for _, n := range needs {
		for _, verb := range n.Verbs {
			out = append(
				out,
				v1.AccessAnswer{
					Who:       who,
					Verb:      verb,
					Group:     n.Group,
					Resource:  n.Resource,
					Namespace: n.Namespace,
					Name:      n.Name,
				},
			)
		}
	}
	return out
}

func reviewAccess(ctx context.Context, g *collect.Collector, a *v1.AccessAnswer) {
	ctx, cancel := g.Call(ctx)
	defer cancel()
	resource, sub := splitResource(a.Resource)
	attributes := &authorizationv1.ResourceAttributes{
		Verb: a.Verb, Group: a.Group, Resource: resource, Subresource: sub, Namespace: a.Namespace, Name: a.Name,
	}
	var status authorizationv1.SubjectAccessReviewStatus
	if a.Who == "self" {
		review, err := g.Kube.AuthorizationV1().
			SelfSubjectAccessReviews().
			Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
			}, metav1.CreateOptions{})
		if err != nil {
			a.Error = g.Describe("creating selfsubjectaccessreviews", err)
			return
		}
		status = review.Status
	} else {
		review, err := g.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: a.Who, Groups: groupsOf(a.Who), ResourceAttributes: attributes},
		}, metav1.CreateOptions{})
		if err != nil {
			a.Error = g.Describe("creating subjectaccessreviews", err)
			return
		}
		status = review.Status
	}
	a.Allowed = status.Allowed
	if !status.Allowed && !status.Denied && status.EvaluationError != "" {
		a.Error = "the authorizer could not decide: " + status.EvaluationError
	}
}

func groupsOf(user string) []string {
	for _, id := range identities {
		if id.user == user {
			return id.groups
		}
	}
	return nil
}

// splitResource splits serviceaccounts/token.
func splitResource(resource string) (string, string) {
	name, sub, _ := strings.Cut(resource, "/")
	return name, sub
}
