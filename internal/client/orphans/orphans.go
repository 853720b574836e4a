// Package orphans decides in which order cloud objects of Services that are gone are removed, and when one is removed.
// Which of them may be removed, the provider's program decides. It is asked again before each change, with the Services
// and Nodes that the cluster has then.
package orphans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/pages"
)

// DefaultPoll is how often an object is asked for that the cloud is changing.
const DefaultPoll = 2 * time.Second

// Options are what the command says.
type Options struct {
	// IDs are the objects, as check lists them.
	IDs []string
	// AssumeOwned takes objects for the cluster's where nothing says whose they are.
	AssumeOwned bool
	// Yes does not ask. DryRun removes nothing.
	Yes, DryRun bool
	// Timeout bounds the removal of all objects, Poll is the time between two looks at what is pending.
	Timeout, Poll time.Duration
	// Show shows what was found before it is asked for approval.
	Show func(v1.OrphanList)
}

// removal is one run of the command.
type removal struct {
	*client.Client
	Options

	list v1.OrphanList
	stop <-chan struct{}
}

// Remove shows what is known of the objects, asks, and removes them one after the other. The list says what became of
// each, also with an error. Nothing is removed while one of them is refused.
func Remove(ctx context.Context, c *client.Client, o Options) (v1.OrphanList, error) {
	r := &removal{Client: c, Options: o}
	r.list = v1.OrphanList{TypeMeta: v1.Type(v1.KindOrphanList), Cluster: c.DescribeCluster(ctx, nil)}
	var err error
	if r.list.Orphans, err = r.askProvider(ctx, cloudprogram.OrphanQuestion{}); err != nil {
		return r.list, err
	}
	if err := r.checkRemovable(); err != nil || o.DryRun {
		return r.list, err
	}
	o.Show(r.list)
	what := english.Count(len(r.indexesInState(v1.OrphanFound)), "cloud object")
	if err := c.Approve(client.Question{
		Yes:  o.Yes,
		What: fmt.Sprintf("remove %s of %s", what, client.NameForApproval(r.list.Cluster)),
		Word: client.WordFor(r.list.Cluster),
	}); err != nil {
		return r.list, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	hard, stop, done := c.Interruptible(ctx)
	defer done()
	r.stop = stop
	err = r.removeAll(hard) // it changes the list
	return r.list, err
}

// indexesInState are the indexes of the objects in a state: load balancers first, as others go with them.
func (r *removal) indexesInState(state v1.OrphanState) (at []int) {
	order := func(i int) int {
		return strings.Index("load balancer,floating IP,security group", r.list.Orphans[i].Kind)
	}
	for i, o := range r.list.Orphans {
		if o.State == state {
			at = append(at, i)
		}
	}
	slices.SortStableFunc(at, func(a, b int) int { return order(a) - order(b) })
	return at
}

func (r *removal) checkRemovable() error {
	if bad := r.indexesInState(v1.OrphanRefused); len(bad) > 0 {
		var all []error
		for _, i := range bad {
			all = append(all, fmt.Errorf("%s: %s", describeOrphan(r.list.Orphans[i]), r.list.Orphans[i].Reason))
		}
		return exitcode.With(exitcode.Error, "nothing is removed, since %s %s refused: leave out what is not meant\n%w",
			english.Count(len(bad), "object"), english.Word(len(bad), "is", "are"), errors.Join(all...))
	}
	missing := r.indexesInState(v1.OrphanMissing)
	if len(missing) < len(r.list.Orphans) && !r.DryRun {
		return nil
	}
	return r.errMissing()
}

// errMissing names the objects that did not exist when the command started; nil for none.
func (r *removal) errMissing() error {
	var all []error
	for _, i := range r.indexesInState(v1.OrphanMissing) {
		all = append(all, fmt.Errorf("%s: %s", r.list.Orphans[i].ID, r.list.Orphans[i].Reason))
	}
	return errors.Join(all...)
}

func (r *removal) removeAll(ctx context.Context) error {
	for _, i := range r.indexesInState(v1.OrphanFound) {
		if err := r.remove(ctx, &r.list.Orphans[i]); err != nil {
			return err
		}
		r.list.Changed = true
		r.Narrate("%s is removed", describeOrphan(r.list.Orphans[i]))
		for _, part := range r.list.Orphans[i].Stays {
			r.Narrate("  %s %s (%s) stays: %s", part.Kind, part.Name, part.ID, part.Reason)
		}
	}
	return r.errMissing()
}

// remove has one object removed, and waits until it is. An error in the middle of it may pass: it is tried again until
// the time is over.
func (r *removal) remove(ctx context.Context, o *v1.Orphan) error {
	q := cloudprogram.OrphanQuestion{Remove: o.ID}
	for _, part := range o.Goes {
		q.Approved = append(q.Approved, part.ID)
	}
	goes, stays, last := o.Goes, o.Stays, ""
	for {
		now, err := r.askProvider(ctx, q)
		reason := ""
		switch {
		case err != nil && (last == "" || ctx.Err() != nil):
			return r.unfinished(ctx, *o, err)
		case err != nil:
			reason = mask.Error(err)
		default:
			i := slices.IndexFunc(now, func(n v1.Orphan) bool { return n.ID == o.ID })
			o.State, reason = now[i].State, now[i].Reason
			stays = added(stays, now[i].Stays)
		}
		o.Reason, o.Goes, o.Stays = reason, goes, stays
		switch o.State {
		case v1.OrphanRemoved:
			return nil
		case v1.OrphanRefused:
			return exitcode.With(exitcode.Error, "%s is not removed any more: %s", describeOrphan(*o), reason)
		case v1.OrphanFound, v1.OrphanPending, v1.OrphanMissing: // it is looked at again
		}
		if reason != last {
			r.Narrate("waiting for %s: %s", describeOrphan(*o), reason)
			last = reason
		}
		if err := r.wait(ctx); err != nil {
			return r.unfinished(ctx, *o, err)
		}
	}
}

// added are parts with those more that were not among them.
func added(parts, more []v1.OrphanPart) []v1.OrphanPart {
	for _, part := range more {
		if !slices.ContainsFunc(parts, func(p v1.OrphanPart) bool { return p.ID == part.ID }) {
			parts = append(slices.Clone(parts), part)
		}
	}
	return parts
}

func (r *removal) wait(ctx context.Context) error {
	timer := time.NewTimer(r.Poll)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.stop:
		return step.ErrInterrupted
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unfinished says what is left of an object, and how to go on. Groups of a load balancer are known by it while it is
// there, and have to be named once it is gone.
func (r *removal) unfinished(ctx context.Context, o v1.Orphan, err error) error {
	next := "run the same command again to go on"
	for _, part := range o.Goes {
		if part.Kind == "security group" && part.ID != o.ID {
			next += "; should the load balancer be gone by then, add --assume-owned and name " + part.Kind + " " + part.ID
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return exitcode.With(exitcode.Timeout, "%s is not removed after %s: %s\n%s", describeOrphan(o), r.Timeout, o.Reason, next)
	}
	return fmt.Errorf("removing %s: %w\n%s", describeOrphan(o), err, next)
}

func describeOrphan(o v1.Orphan) string {
	if o.Name == "" {
		return strings.TrimSpace(o.Kind + " " + o.ID)
	}
	return fmt.Sprintf("%s %s (%s)", o.Kind, o.Name, o.ID)
}

// askProvider asks the provider's program, with what the cluster has now.
func (r *removal) askProvider(ctx context.Context, q cloudprogram.OrphanQuestion) ([]v1.Orphan, error) {
	q.IDs, q.AssumeOwned = r.IDs, r.AssumeOwned
	var nodes []v1.Node
	listNodes := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return r.Kube.CoreV1().Nodes().List(ctx, o)
	}
	err := pages.Each(ctx, listNodes, func(object runtime.Object) error {
		if n, ok := object.(*corev1.Node); ok {
			nodes = append(nodes, v1.Node{
				Name: n.Name, UID: string(n.UID), ProviderID: n.Spec.ProviderID, SystemUUID: n.Status.NodeInfo.SystemUUID,
			})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %s", mask.Error(err))
	}
	listServices := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return r.Kube.CoreV1().Services(corev1.NamespaceAll).List(ctx, o)
	}
	err = pages.Each(ctx, listServices, func(object runtime.Object) error {
		if s, ok := object.(*corev1.Service); ok {
			q.Services = append(q.Services, serviceOf(s))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing Services: %s", mask.Error(err))
	}
	return r.Clouds.Orphans(ctx, nodes, q)
}

func serviceOf(s *corev1.Service) cloudprogram.OrphanService {
	out := cloudprogram.OrphanService{Namespace: s.Namespace, Name: s.Name, UID: string(s.UID)}
	for name, value := range s.Annotations {
		if strings.HasSuffix(name, "load-balancer-id") {
			if out.Annotations == nil {
				out.Annotations = map[string]string{}
			}
			out.Annotations[name] = value
		}
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		out.Addresses = append(out.Addresses, in.Hostname+in.IP)
	}
	return out
}
