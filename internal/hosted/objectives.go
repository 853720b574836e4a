package hosted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/objectives"
	"github.com/transplant-dev/transplant/internal/snapshot/syncfailure"
	"github.com/transplant-dev/transplant/internal/together"
)

// countsInterval is how often managers are asked what they have counted. From outside of the seed, each answer takes a
// connection through its API server.
const countsInterval = 3 * time.Second

// BreachError says that a part is not ended, or not begun, while load balancers are not kept. The next Run looks again.
type BreachError struct {
	Part  Part
	Words string
}

func (e *BreachError) Error() string {
	return fmt.Sprintf("%s; look at the cloud-controller-manager's logs and at what the cloud answers; "+
		"the %s goes on once they are kept, or with --slo=off", e.Words, e.Part)
}

// judgeManagers has the objectives of KEP-2395 judged while a part is executed, and tells onlookers how they stand. It
// returns what ends that.
func judgeManagers(ctx context.Context, p *Plane, progress *lock.Progress) (end func()) {
	if p.Objectives == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	publish := func() { progress.Judged(p.Objectives.Words()) }
	var looking together.Group
	looking.Go(func() {
		syncfailure.Follow(ctx, eventsOf(p), func(now time.Time, failing map[string]v1.SyncFailure) {
			p.Objectives.AddFailing(now, failing)
			publish()
		})
	})
	looking.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			ctx, done := answerlimit.Pass(ctx)
			defer done()
			readCounts(ctx, p)
			publish()
		}, countsInterval)
	})
	return func() {
		cancel()
		looking.Wait()
	}
}

// eventsOf lists the events of the user cluster.
func eventsOf(p *Plane) syncfailure.Lister {
	return p.User.Kube.CoreV1().Events(metav1.NamespaceAll).List
}

// balancersIn are the Services of a snapshot by whether their load balancers are kept.
func balancersIn(snap *v1.Snapshot) (kept map[string]bool, failing map[string]v1.SyncFailure, err error) {
	for _, e := range snap.Errors {
		if strings.HasPrefix(e.Fact, "services") {
			err = errors.Join(err, fmt.Errorf("%s: %s", e.Fact, e.Error))
		}
	}
	kept, failing = map[string]bool{}, map[string]v1.SyncFailure{}
	for _, s := range snap.Services {
		name := s.Namespace + "/" + s.Name
		if s.Failing != nil {
			failing[name] = *s.Failing
		} else {
			kept[name] = true
		}
	}
	return kept, failing, err
}

// judgeSinceBefore has the Services count that were kept when a handover was begun, also where an earlier run has begun
// it. What a person has seen and let go on does not count again.
func judgeSinceBefore(p *Plane, doc *v1.Journal, before *v1.Snapshot) {
	seen := slices.ContainsFunc(doc.Pauses, func(r v1.PauseRecord) bool { return r.To != nil })
	if kept, _, err := balancersIn(before); p.Objectives != nil && !seen && err == nil {
		p.Objectives.KeptBefore(kept)
	}
}

// settling is for how long a handover is watched after its last step: a service controller that begins looks at every
// Service at once. settlingInterval is how often.
const settling, settlingInterval = 10 * time.Second, 2 * time.Second

// settle ends a handover only where the new manager keeps the load balancers that were kept before. The machines are
// replaced next, and no load balancer would follow them. A single error is waited out.
func settle(
	ctx context.Context,
	p *Plane,
	part Part,
	before *v1.Snapshot,
	tell func(step.Event),
	stop <-chan struct{},
) error {
	watch := judgedOf(p)
	if watch == nil || part != Handover || len(before.Services) == 0 {
		return nil
	}
	now := p.clock().Now()
	until := now.Add(settling)
	if tell != nil {
		tell(step.Event{
			Time:    now,
			Kind:    step.EventProgress,
			Message: fmt.Sprintf("all steps are done; for %s it is watched whether the load balancers are kept", settling),
		})
	}
	for {
		failing, err := syncfailure.Read(ctx, eventsOf(p))
		if err != nil {
			return fmt.Errorf("looking whether the load balancers are kept after the handover: %w", err)
		}
		now = p.clock().Now()
		watch.AddFailing(now, failing)
		if breach := watch.Breach(); breach != "" {
			return &BreachError{Part: part, Words: breach}
		}
		if !now.Before(until) && !watch.Undecided() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stop:
			return ErrInterrupted
		case <-p.clock().After(settlingInterval):
		}
	}
}

// keptSinceHandover refuses the finish while Services fail that were kept before the handover: after it, nothing takes
// the loops back.
func keptSinceHandover(ctx context.Context, p *Plane, snap *v1.Snapshot) error {
	if judgedOf(p) == nil {
		return nil
	}
	_, failing, err := balancersIn(snap)
	if err != nil {
		return fmt.Errorf("looking whether load balancers are kept since the handover: %w", err)
	}
	before, err := p.Location(Handover).Before(ctx)
	if apierrors.IsNotFound(err) { // the handover was made by hand
		return nil
	} else if err != nil {
		return err
	}
	kept, _, err := balancersIn(before)
	if err != nil { // no Service is known to have been kept
		return nil
	}
	watch := objectives.NewWatch(p.clock().Now())
	watch.KeptBefore(kept)
	watch.AddFailing(p.clock().Now(), failing)
	if breach := watch.Breach(); breach != "" {
		return &BreachError{Part: Finish, Words: breach +
			"; they were kept before the handover, and after the finish there is no way back"}
	}
	return nil
}

// readCounts takes in what each manager has counted. One that does not answer is as it was.
func readCounts(ctx context.Context, p *Plane) {
	s, _, err := newSurvey(ctx, p)
	if err != nil {
		return
	}
	s.askManagers(ctx)
	for _, m := range s.found.Managers {
		if m.Error == "" && len(m.Series) > 0 {
			p.Objectives.Add(objectives.Reading{
				At:      p.clock().Now(),
				Manager: m.Component + "@" + m.Host,
				Started: m.ProcessStarted,
				Series:  m.Series,
			})
		}
	}
}

// judgedOf are the objectives by which a run is paused; nil where the operator goes on whatever managers count.
func judgedOf(p *Plane) *objectives.Watch {
	if p.IgnoreObjectives {
		return nil
	}
	return p.Objectives
}
