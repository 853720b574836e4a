package staticpod

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/podreason"
)

// Explain returns why the static pod of a step's manifest does not run as the manifest says. It is empty where its
// mirror pod is Ready, where there is no manifest, and where neither the API server nor the host says more.
func Explain(ctx context.Context, e *step.Env, s v1.Step, since time.Time) string {
	f, sum, err := e.ReadFile(ctx, s.Host, s.Path)
	if err != nil || sum == step.Absent {
		return ""
	}
	m, err := controlplane.Parse(f.Data)
	if err != nil {
		return ""
	}
	pod, err := MirrorPod(ctx, e, s, m)
	switch {
	case err == nil && HasCommand(pod, m.Command()):
		return step.WhyPod(ctx, e, pod)
	case err != nil && !apierrors.IsNotFound(err):
		return ""
	}
	node := e.NodeNames[s.Host]
	mirror := podreason.Mirror{
		Namespace:  m.Namespace(),
		Name:       m.Name() + "-" + node,
		Node:       node,
		Since:      since,
		NodeObject: e.Pods.Node(ctx, e.Kube, node),
		Words:      step.KubeletWordsSince(ctx, e, s.Host, since),
	}
	if err != nil {
		return podreason.Missing(mirror).String()
	}
	return podreason.Outdated(mirror).String()
}
