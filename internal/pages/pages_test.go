package pages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestEachAsksForThePagesOneAfterTheOther: the next page is asked for when the last one was looked at.
func TestEachAsksForThePagesOneAfterTheOther(t *testing.T) {
	var did []string
	list := func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
		did = append(did, fmt.Sprintf("page %q of %d", o.Continue, o.Limit))
		switch o.Continue {
		case "":
			return nodes("2", "a", "b"), nil
		case "2":
			return nodes("3"), nil
		}
		return nodes("", "c"), nil
	}
	err := Each(t.Context(), list, func(o runtime.Object) error {
		did = append(did, o.(*corev1.Node).Name)
		return nil
	})
	want := []string{`page "" of 100`, "a", "b", `page "2" of 100`, `page "3" of 100`, "c"}
	if err != nil || !slices.Equal(did, want) {
		t.Errorf("it did %q, %v; want %q", did, err, want)
	}
}

func nodes(next string, names ...string) *corev1.NodeList {
	out := &corev1.NodeList{ListMeta: metav1.ListMeta{Continue: next}}
	for _, n := range names {
		out.Items = append(out.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}})
	}
	return out
}

// TestEachEndsWithTheFirstError, be it of a page, which may have expired, or of a visit.
func TestEachEndsWithTheFirstError(t *testing.T) {
	enough := errors.New("enough")
	for name, c := range map[string]struct {
		page, visit error
		want        func(error) bool
	}{
		"a page":  {page: apierrors.NewResourceExpired("too old"), want: apierrors.IsResourceExpired},
		"a visit": {visit: enough, want: func(err error) bool { return errors.Is(err, enough) }},
	} {
		asked := 0
		err := Each(t.Context(), func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if asked++; o.Continue != "" {
				return nil, c.page
			}
			return nodes("2", "a"), nil
		}, func(runtime.Object) error { return c.visit })
		if !c.want(err) || asked > 2 {
			t.Errorf("%s: after %d pages: %v", name, asked, err)
		}
	}
}
