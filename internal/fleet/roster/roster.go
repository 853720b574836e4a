// Package roster decides what is read of a seed to know its clusters: the Cluster objects of both API groups, and
// nothing else. It reads them once, or follows them. A group that the seed does not serve is no error, as long as it
// serves the other one. What may not be read is reported.
package roster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/mask"
)

// ErrNoClusters says that the seed has no such API: it is no seed, or the CRDs are not there.
var ErrNoClusters = errors.New(
	"the API server serves no Clusters of " + kubermaticv1.GroupName + " or " + kubermaticv1.LegacyGroupName +
		": name the seed with --kubeconfig and --context, or create the CRDs in deploy/crds",
)

// Groups are the API groups that a Cluster may be in.
func Groups() []string { return []string{kubermaticv1.GroupName, kubermaticv1.LegacyGroupName} }

// pageSize is how many objects are asked for at a time.
const pageSize = 250

// Read lists the Clusters of both groups. The sentences name what could not be read; the error is for when nothing
// could.
func Read(ctx context.Context, client dynamic.Interface) ([]view.Object, []string, error) {
	var out []view.Object
	var notRead []string
	var failed []error
	served := 0
	for _, group := range Groups() {
		found, sentences, err := list(ctx, client, group)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			failed = append(failed, err)
			notRead = append(notRead, mask.Error(err))
		default:
			out, notRead = append(out, found...), append(notRead, sentences...)
		}
		served++
	}
	switch {
	case served == 0:
		return nil, nil, ErrNoClusters
	case len(failed) == served:
		return nil, nil, errors.Join(failed...)
	}
	return out, notRead, nil
}

func list(ctx context.Context, client dynamic.Interface, group string) ([]view.Object, []string, error) {
	var out []view.Object
	var notRead []string
	next := ""
	for {
		page, err := client.Resource(objects.Resource(group)).List(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
		if err != nil {
			return nil, nil, fmt.Errorf("listing clusters of %s: %w", group, err)
		}
		for i := range page.Items {
			c, err := objects.Decode(&page.Items[i])
			if err != nil {
				notRead = append(notRead, mask.Error(err))
				continue
			}
			out = append(out, view.Object{Group: group, Cluster: c})
		}
		if next = page.GetContinue(); next == "" {
			return out, notRead, nil
		}
	}
}

// sorted puts objects in order of name and group, so that the same fleet gives the same output.
func sorted(all []view.Object) []view.Object {
	slices.SortFunc(all, func(a, b view.Object) int {
		return strings.Compare(a.Cluster.Name+"\x00"+a.Group, b.Cluster.Name+"\x00"+b.Group)
	})
	return all
}
