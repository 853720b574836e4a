package collect

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PageSize is how many objects one answer holds: 500 is what the API server's own clients ask for, and about a megabyte
// of nodes.
const PageSize = 500

// ListPages lists everything of a kind, page by page, each page bounded by the gatherer's timeout.
//
// The lists are consistent reads (no resourceVersion), not resourceVersion=0. A plan is bound to the facts. Those of an
// API server's stale cache would be refused, or believed, a minute later. Also, with resourceVersion=0 the API server
// ignores the limit and answers with everything at once. The price is a read of etcd a page (none since 1.31, whose
// caches know whether they are fresh). A snapshot makes a few dozen, once.
//
// If the list changes so much in between that the rest has expired, it is read again in one piece.
func ListPages[L interface{ GetContinue() string }, T any](
	ctx context.Context, g *Collector, list func(context.Context, metav1.ListOptions) (L, error), items func(L) []T,
) ([]T, error) {
	var out []T
	opts := metav1.ListOptions{Limit: PageSize}
	for {
		page, err := listPage(ctx, g, list, opts)
		if opts.Continue != "" && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) {
			if page, err = listPage(ctx, g, list, metav1.ListOptions{}); err == nil {
				return items(page), nil
			}
		}
		if err != nil {
			return nil, err
		}
		out = append(out, items(page)...)
		next := page.GetContinue()
		if next == "" {
			return out, nil
		}
		if next == opts.Continue {
			return nil, errors.New("the API server answers every page with the same one")
		}
		opts.Continue = next
	}
}

func listPage[L any](
	ctx context.Context,
	g *Collector,
	list func(context.Context, metav1.ListOptions) (L, error),
	opts metav1.ListOptions,
) (L, error) {
	ctx, cancel := g.Call(ctx)
	defer cancel()
	return list(ctx, opts)
}

// List lists everything of a kind. It returns false, with the fact recorded as unknown, when that was not possible.
func List[L interface{ GetContinue() string }, T any](
	ctx context.Context,
	g *Collector,
	fact, what string,
	list func(context.Context, metav1.ListOptions) (L, error),
	items func(L) []T,
) ([]T, bool) {
	if g.Kube == nil {
		g.Unknown(fact, NoAPI)
		return nil, false
	}
	out, err := ListPages(ctx, g, list, items)
	if err != nil {
		g.Unknown(fact, g.Describe("listing "+what, err))
		return nil, false
	}
	return out, true
}

// Count records how many objects of a kind there are.
func (g *Collector) Count(what string, n int) {
	g.Mu.Lock()
	defer g.Mu.Unlock()
	if g.Snap.Counts == nil {
		g.Snap.Counts = map[string]int{}
	}
	g.Snap.Counts[what] = n
}
