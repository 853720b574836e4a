package hosted

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/objectives"
	"github.com/transplant-dev/transplant/internal/snapshot/syncfailure"
)

// countsInterval is how often managers are asked what they have counted. From outside of the seed, each answer takes a
// connection through its API server.
const countsInterval = 3 * time.Second

// judgeManagers has the objectives of KEP-2395 judged while a part is executed, and tells onlookers how they stand. It
// returns what ends that.
func judgeManagers(ctx context.Context, p *Plane, progress *lock.Progress) (end func()) {
	if p.Objectives == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	publish := func() { progress.Judged(p.Objectives.Words()) }
	var looking sync.WaitGroup
	looking.Go(func() {
		events := p.User.Kube.CoreV1().Events(metav1.NamespaceAll).List
		syncfailure.Follow(ctx, events, func(now time.Time, failing map[string]v1.SyncFailure) {
			p.Objectives.AddFailing(now, failing)
			publish()
		})
	})
	looking.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			readCounts(ctx, p)
			publish()
		}, countsInterval)
	})
	return func() {
		cancel()
		looking.Wait()
	}
}

// keptSinceHandover refuses the finish while Services fail that began to when the loops moved: after it, nothing takes
// the loops back. The next Run looks again.
func (p *Plane) keptSinceHandover(ctx context.Context, snap *v1.Snapshot) error {
	watch := judgedOf(p)
	if watch == nil {
		return nil
	}
	j, err := p.Location(Handover).Open(ctx)
	if err != nil {
		return fmt.Errorf("reading when the loops moved: %w", err)
	}
	doc := j.Doc()
	if doc.Ended == nil {
		return nil
	}
	failing := map[string]v1.SyncFailure{}
	for _, s := range snap.Services {
		if s.Failing != nil {
			failing[s.Namespace+"/"+s.Name] = *s.Failing
		}
	}
	watch.LoopsMoved(doc.Started, *doc.Ended)
	watch.AddFailing(p.clock().Now(), failing)
	if breach := watch.Breach(); breach != "" {
		return &UnplannedError{Part: Finish, Err: fmt.Errorf(
			"%s; this began when the cloud-controller-manager took over, and after the finish there is no way back; "+
				"look at the manager's logs, or roll back; --slo=off goes on all the same", breach,
		)}
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
