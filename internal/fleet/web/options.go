package web

import (
	"context"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/hosted"
)

// Clusters are the Cluster objects of both groups.
type Clusters interface {
	// List returns all of them as the operator's cache has them. They are only read. It returns false while the cache is
	// not complete.
	List() ([]view.Object, bool)
	// Changed returns a channel that receives whenever List may give something else, until ctx ends. It may hold one
	// signal and drop others.
	Changed(ctx context.Context) <-chan struct{}
}

// Plane is what is asked about the control plane of one cluster; *hosted.Plane is one. Nothing here changes anything.
type Plane interface {
	Gather(ctx context.Context) *v1.Snapshot
	Check(snap *v1.Snapshot) v1.CheckReport
	Plan(snap *v1.Snapshot, part hosted.Part) (*v1.Plan, error)
	Owners(ctx context.Context) (hosted.Owners, error)
	Status(ctx context.Context, part hosted.Part) (v1.Status, error)
}

var _ Plane = (*hosted.Plane)(nil)

// Options of the page. Clusters, Kube and Config must be given.
type Options struct {
	Clusters Clusters
	// Plane opens the control plane of a cluster; called for each look at one, so it should keep its connections. Nil
	// leaves owners, progress and plans out, and with them every action that needs a plan.
	Plane func(ctx context.Context, cluster view.Object) (Plane, error)
	// Refusals are the sentences of the rules that keep a cluster from being migrated as it is; nil for none.
	Refusals func(cluster view.Object) []string
	// Kube makes TokenReviews and SubjectAccessReviews and lists Events, with the operator's rights.
	Kube kubernetes.Interface
	// Config reaches the seed's API server for what a person changes: its address and its CA are used, its credentials
	// never.
	Config *rest.Config
	// EnableActions lets those who may update a Cluster act on it. Without it the page is read-only.
	EnableActions bool
	// ToolVersion is shown, and stands in documents.
	ToolVersion string
	// Seed is shown: which cluster this is.
	Seed v1.Cluster
	// Log takes who did what, and what went wrong; never a token. The zero value logs nothing.
	Log logr.Logger
	// Clock is the real one when nil.
	Clock clock.WithTicker
}

// Handler serves the page, its API and its events at /. Streams end when the request's context does: give the server a
// BaseContext that ends at shutdown.
func Handler(o Options) http.Handler { return newServer(o) }
