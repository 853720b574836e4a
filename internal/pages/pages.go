// Package pages decides how a list is gone through by a reader that keeps little of it: page by page, with one page in
// memory. Client-go's pager reads the next page while the last one is looked at.
package pages

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Size is how many objects a page holds. A page of large nodes takes some 10 MiB of memory while it is decoded.
const Size = 100

// List asks for one page.
type List func(context.Context, metav1.ListOptions) (runtime.Object, error)

// Each calls visit with each object of a list, until visit returns an error. The pages are of one moment. A list that
// changes so much meanwhile that its next page has expired is an error.
func Each(ctx context.Context, list List, visit func(runtime.Object) error) error {
	options := metav1.ListOptions{Limit: Size}
	for {
		page, err := list(ctx, options)
		if err != nil {
			return err
		}
		if err := meta.EachListItem(page, visit); err != nil {
			return err
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return err
		}
		if options.Continue = about.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}
