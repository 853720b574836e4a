package snapshot

import (
	"context"
	"slices"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Need is something that a caller has to be allowed to do.
type Need struct {
	Verbs     []string
	Group     string
	Resource  string
	Namespace string
	Name      string
}

const (
	groupRBAC         = "rbac.authorization.k8s.io"
	groupCoordination = "coordination.k8s.io"
)

// DefaultNeeds are what an apply and its rollback do to the API, resource by resource.
var DefaultNeeds = []Need{
	{Verbs: []string{"get"}, Resource: "namespaces", Name: namespace}, // which cluster this is
	{Verbs: []string{"get", "list"}, Resource: "nodes"},
	{Verbs: []string{"list"}, Resource: "services"},
	{Verbs: []string{"get", "list"}, Resource: "pods", Namespace: namespace},                                                           // mirror pods
	{Verbs: []string{"create", "delete", "get", "update"}, Resource: "configmaps", Namespace: namespace},                               // the journal
	{Verbs: []string{"create", "delete", "get"}, Resource: "serviceaccounts", Namespace: namespace},                                    // the managers' and the observer's
	{Verbs: []string{"create"}, Resource: "serviceaccounts/token", Namespace: namespace},                                               // the observer's token
	{Verbs: []string{"create", "delete", "get"}, Resource: "secrets", Namespace: namespace},                                            // the new manager's token
	{Verbs: []string{"create", "delete", "get", "list", "update"}, Group: groupCoordination, Resource: "leases", Namespace: namespace}, // lock, release
	{Verbs: []string{"get"}, Group: groupCoordination, Resource: "leases", Namespace: "kube-node-lease"},                               // a kubelet is back
	{Verbs: []string{"create", "delete", "get"}, Group: groupRBAC, Resource: "roles", Namespace: namespace},
	{Verbs: []string{"create", "delete", "get"}, Group: groupRBAC, Resource: "rolebindings", Namespace: namespace},
	{Verbs: []string{"create", "delete", "get"}, Group: groupRBAC, Resource: "clusterroles"},
	{Verbs: []string{"create", "delete", "get"}, Group: groupRBAC, Resource: "clusterrolebindings"},
	{Verbs: []string{"escalate"}, Group: groupRBAC, Resource: "roles", Namespace: namespace}, // to give rights that one does not have
	{Verbs: []string{"bind"}, Group: groupRBAC, Resource: "roles", Namespace: namespace},
	{Verbs: []string{"escalate"}, Group: groupRBAC, Resource: "clusterroles"},
	{Verbs: []string{"bind"}, Group: groupRBAC, Resource: "clusterroles"},
}

// Identities of the managers in the API, with the groups that the API server would find them in.
var identities = []struct {
	user, lease string
	groups      []string
}{
	{user: "system:kube-controller-manager", lease: kcm, groups: []string{"system:authenticated"}},
	{
		user: "system:serviceaccount:" + namespace + ":cloud-controller-manager", lease: ccm,
		groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	},
}

// reviewers is how many access reviews are asked for at a time.
const reviewers = 8

// access asks the authorizer what the caller may do, and what the managers may do with their leases.
func (g *gatherer) access(ctx context.Context) {
	if g.Kube == nil {
		g.unknown("access", noAPI)
		return
	}
	questions := g.questions()
	work := make(chan int)
	var wg sync.WaitGroup
	for range min(reviewers, len(questions)) {
		wg.Go(func() {
			for i := range work {
				g.ask(ctx, &questions[i])
			}
		})
	}
	for i := range questions {
		work <- i
	}
	close(work)
	wg.Wait()
	g.snap.Access = questions
	if refused := slices.IndexFunc(questions, func(a v1.AccessAnswer) bool { return a.Error != "" }); refused >= 0 {
		g.unknown("access", questions[refused].Error)
	}
}

// questions are in a fixed order: the caller's in the order of the needs, then the managers'.
func (g *gatherer) questions() []v1.AccessAnswer {
	needs := g.Needs
	if needs == nil {
		needs = DefaultNeeds
	}
	var out []v1.AccessAnswer
	for _, n := range needs {
		for _, verb := range n.Verbs {
			out = append(out, v1.AccessAnswer{Who: "self", Verb: verb, Group: n.Group, Resource: n.Resource, Namespace: n.Namespace, Name: n.Name})
		}
	}
	for _, id := range identities {
		// A right to create cannot be limited to a name: the object has none yet when it is judged.
		out = append(out, v1.AccessAnswer{Who: id.user, Verb: "create", Group: groupCoordination, Resource: "leases", Namespace: namespace})
		for _, lease := range []string{g.LeaseName, id.lease} {
			for _, verb := range []string{"get", "update"} {
				out = append(out, v1.AccessAnswer{Who: id.user, Verb: verb, Group: groupCoordination, Resource: "leases", Namespace: namespace, Name: lease})
			}
		}
	}
	return out
}

func (g *gatherer) ask(ctx context.Context, a *v1.AccessAnswer) {
	ctx, cancel := g.call(ctx)
	defer cancel()
	resource, sub := splitResource(a.Resource)
	attributes := &authorizationv1.ResourceAttributes{
		Verb: a.Verb, Group: a.Group, Resource: resource, Subresource: sub, Namespace: a.Namespace, Name: a.Name,
	}
	var status authorizationv1.SubjectAccessReviewStatus
	if a.Who == "self" {
		review, err := g.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
		}, metav1.CreateOptions{})
		if err != nil {
			a.Error = g.describe("creating selfsubjectaccessreviews", err)
			return
		}
		status = review.Status
	} else {
		review, err := g.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: a.Who, Groups: groupsOf(a.Who), ResourceAttributes: attributes},
		}, metav1.CreateOptions{})
		if err != nil {
			a.Error = g.describe("creating subjectaccessreviews", err)
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
