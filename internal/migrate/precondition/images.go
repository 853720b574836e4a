package precondition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/safeyaml"
)

// wantedImage is what a step will start on a host.
type wantedImage struct {
	host, image string
	command     []string
}

// imagesThere proves that every host which is to run the new manager can pull its image and start it. It does so under
// the strategy downtime, before the first manager is stopped. From the stop until the start no manager runs the loops,
// and an image that cannot be pulled would make that hours. Under leader migration nothing has to be proven: the old
// manager goes on until the new one is ready.
//
// If the access to a host can start nothing, the node's own list of images is read. A missing image is reported and
// stops nothing.
func imagesThere(ctx context.Context, e *step.Env, s v1.Step) error {
	if !beginsDowntime(e, s) {
		return nil
	}
	var refused []string
	for _, w := range imagesToCome(e) {
		h, err := e.Host(w.host)
		if err != nil {
			return err
		}
		trier, ok := h.(hostaccess.ImageTrier)
		if !ok {
			listedImage(ctx, e, s, w)
			continue
		}
		err = trier.TryImage(ctx, w.image, w.command)
		if bad, ok := errors.AsType[*hostaccess.ImageError](err); ok {
			refused = append(refused, bad.Error())
			continue
		}
		if err != nil {
			return fmt.Errorf("%w; the old manager still runs, and nothing was changed", err)
		}
		e.Report(s, step.EventProgress, fmt.Sprintf("image %s is there and starts on host %s", w.image, w.host))
	}
	why, err := tryDeployment(ctx, e, s)
	if err != nil {
		return err
	}
	if why != "" {
		refused = append(refused, why)
	}
	if len(refused) > 0 {
		return &ImageError{Reasons: refused}
	}
	return nil
}

// ImageError says that the new manager cannot be started on hosts, and that the old one was left alone therefore.
type ImageError struct{ Reasons []string }

func (e *ImageError) Error() string {
	return strings.Join(
		e.Reasons,
		"; ",
	) + ". The old manager still runs, and this step changed nothing. Repair the image in its registry and run the same command again, " +
		"or go back with transplant rollback and make a new plan with --image"
}

// Is reports whether the cluster was left as it is until something comes that is waited for.
func (e *ImageError) Is(
	target error,
) bool {
	return target == context.DeadlineExceeded
} //nolint:errorlint // this is what errors.Is asks

// beginsDowntime reports whether a step is the first that takes a manager of the loops down under the strategy
// downtime.
func beginsDowntime(e *step.Env, s v1.Step) bool {
	if e.Plan.Strategy != planstep.Downtime || e.Plan.Direction != planstep.Forward || s.ID == "" {
		return false
	}
	for _, other := range e.Plan.Steps {
		if other.Component != component.KCM || other.Host == "" && other.Ref == "" {
			continue
		}
		return other.ID == s.ID
	}
	return false
}

// imagesToCome are the images of the new manager on each host that is to run it. A DaemonSet's pods are looked for
// where the control plane is.
func imagesToCome(e *step.Env) []wantedImage {
	var out []wantedImage
	doc := e.Journal.Doc()
	for _, s := range e.Plan.Steps {
		if s.Component != component.CCM || s.Kind != v1.StepAddManifest || journal.IsExcluded(doc, s.Host) {
			continue
		}
		m, err := controlplane.Parse([]byte(s.Content))
		if err != nil || len(m.Command()) == 0 || e.Plan.Options.Image == "" {
			continue
		}
		out = append(
			out,
			wantedImage{host: s.Host, image: e.Plan.Options.Image, command: []string{m.Command()[0], "--version"}},
		)
	}
	if len(out) > 0 {
		return out
	}
	return daemonsToCome(e, doc)
}

// daemonsToCome are imagesToCome where the new manager is a DaemonSet.
func daemonsToCome(e *step.Env, doc v1.Journal) (out []wantedImage) {
	i := slices.IndexFunc(e.Plan.Steps, func(s v1.Step) bool {
		return s.Component == component.CCM && strings.HasPrefix(s.Ref, "DaemonSet/") && s.Object != ""
	})
	if i < 0 {
		return nil
	}
	image, command := managerOf(e.Plan.Steps[i].Object)
	for _, h := range trust.BeforeHosts(e.Before) {
		if image != "" && h.ControlPlane && !journal.IsExcluded(doc, h.Name) {
			out = append(out, wantedImage{host: h.Name, image: image, command: command})
		}
	}
	return out
}

// managerOf is the image of a DaemonSet's first container, and its program told to say its version. An image that names
// its program itself is started as it is: the manager in it ends at once without its flags.
func managerOf(object string) (image string, command []string) {
	var d appsv1.DaemonSet
	if err := safeyaml.Unmarshal([]byte(object), &d); err != nil || len(d.Spec.Template.Spec.Containers) == 0 {
		return "", nil
	}
	c := d.Spec.Template.Spec.Containers[0]
	if len(c.Command) > 0 {
		command = []string{c.Command[0], "--version"}
	}
	return c.Image, command
}

// listedImage reports whether a node says that it has an image. A kubelet names the 50 largest, so that one which is
// not named may be there.
func listedImage(ctx context.Context, e *step.Env, s v1.Step, w wantedImage) {
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	n, err := e.Kube.CoreV1().Nodes().Get(limited, e.NodeOf(w.host), metav1.GetOptions{})
	if err == nil &&
		slices.ContainsFunc(
			n.Status.Images,
			func(i corev1.ContainerImage) bool { return slices.Contains(i.Names, w.image) },
		) {
		e.Report(s, step.EventProgress, fmt.Sprintf("node %s says that it has image %s", n.Name, w.image))
		return
	}
	e.Report(
		s,
		step.EventProgress,
		fmt.Sprintf(
			"whether host %s can pull image %s is not proven: the access to it cannot start a pod. The old manager still runs; if the pull fails after its end, no manager runs the loops. crictl pull %s there shows it",
			w.host,
			w.image,
			w.image,
		),
	)
}
