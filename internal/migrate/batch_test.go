package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/drain"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/options"
)

// batchOfHosts are steps for the kubelets of hosts, in batches of a size.
func batchOfHosts(hosts, size int) []v1.Step {
	var out []v1.Step
	for i := range hosts {
		s := plainStep(fmt.Sprintf("cp-%d", i+1))
		s.Batch = fmt.Sprintf("b-%d", i/size)
		out = append(out, s)
	}
	return out
}

// givenWithin makes a journal for steps with a budget.
func (w *world) givenWithin(budget string, steps ...v1.Step) *v1.Plan {
	p := w.given(steps...)
	p.Options.MaxUnavailable = budget
	w.refresh(p)
	return p
}

func TestStepsOfABatchRunSideBySideWithinTheBudget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ hosts, batch, budget, dead int }{{4, 2, 2, 0}, {5, 5, 3, 0}, {4, 4, 4, 1}, {3, 3, 1, 0}} {
		t.Run(fmt.Sprintf("%d hosts in batches of %d with a budget of %d and %d dead nodes", c.hosts, c.batch, c.budget, c.dead), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.hosts)
			for i := range c.dead {
				w.api.Put(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("dead-%d", i)}})
			}
			var mu sync.Mutex
			open, most := map[string]bool{}, 0
			p := w.givenWithin(fmt.Sprint(c.budget), batchOfHosts(c.hosts, c.batch)...)
			if _, err := w.run(p, func(o *step.Options) {
				o.Hook = func(point, step string) {
					mu.Lock()
					defer mu.Unlock()
					if point != "during" {
						return
					}
					// A step gives its place back when its kubelet is back, and so before its end is written.
					maps.DeleteFunc(open, func(host string, _ bool) bool { return w.running(host, "cloud-provider") == "external" })
					i := slices.IndexFunc(p.Steps, func(s v1.Step) bool { return s.ID == step })
					open[p.Steps[i].Host] = true
					most = max(most, len(open)+c.dead)
				}
			}); err != nil {
				t.Fatal(err)
			}
			if most > c.budget {
				t.Errorf("%d nodes at a time, and the budget is %d", most, c.budget)
			}
			for _, s := range p.Steps {
				if w.engine().env.Journal.Record(s.ID).Result != v1.StepResultDone || w.running(s.Host, "cloud-provider") != "external" || w.restarts["kubelet@"+s.Host] != 1 {
					t.Errorf("%s: %s, %d restarts", s.ID, w.engine().env.Journal.Record(s.ID).Result, w.restarts["kubelet@"+s.Host])
				}
			}
			w.rollBack()
			for _, s := range p.Steps {
				if w.running(s.Host, "cloud-provider") != "aws" {
					t.Errorf("%s is not back", s.Host)
				}
			}
		})
	}
}

// late is a clock that does something when it is asked behind a moment.
type late struct {
	skipping
	at time.Time
	do func()
}

func (c late) Now() time.Time {
	now := c.skipping.Now()
	if now.After(c.at) {
		c.do()
	}
	return now
}

// A step of the batch that takes as long as the wait, and gives its place back right after the last look.
func TestAPlaceThatIsGivenBackAtTheEndOfTheWaitIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p := w.givenWithin("1", batchOfHosts(2, 2)...)
	var e *Engine
	e = w.engine(func(o *step.Options) {
		o.Clock = late{w.clock, w.clock.Now().Add(drain.BudgetWait), func() { e.env.NodeBudget.Give("node-cp-2") }}
	})
	e.env.Plan = p
	if why, _ := e.env.NodeBudget.Take("node-cp-2", 1, nil, nil, false); why != "" {
		t.Fatal(why)
	}
	release, err := drain.Admit(t.Context(), e.env, p.Steps[0], false)
	if err != nil {
		t.Fatal(err)
	}
	release()
}

func TestOneRegressionInABatchLeavesTheRestAndLosesNoRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	for i := range 4 {
		w.kubeletRuns(fmt.Sprintf("cp-%d", i+1))
	}
	w.fate = func(host string, flags map[string]string) *start {
		if host == "cp-2" && external(flags) {
			return &start{err: errors.New("exit status 1")}
		}
		return nil
	}
	p := w.givenWithin("2", batchOfHosts(4, 2)...)
	_, err := w.run(p)
	says(t, err, "step external/kubelet@cp-2", "The kubelet on host cp-2 has its old flags again")
	var verify *step.VerifyError
	if !errors.As(err, &verify) {
		t.Errorf("it is no failed verification: %v", err)
	}
	j := w.engine().env.Journal
	if have := j.Record("external/kubelet@cp-2").Result; have != v1.StepResultUndone {
		t.Errorf("cp-2: %s", have)
	}
	if have := j.Record("external/kubelet@cp-1").Result; have != v1.StepResultDone && have != "" {
		t.Errorf("cp-1, which was done next to it, or not begun: %q", have)
	}
	for _, host := range []string{"cp-3", "cp-4"} {
		if j.Record("external/kubelet@"+host).Result != "" || w.restarts["kubelet@"+host] != 0 {
			t.Errorf("%s was touched", host)
		}
	}
	w.fate = nil
	if _, err := w.run(p); err != nil {
		t.Fatalf("going on: %v", err)
	}
	for _, s := range p.Steps {
		if w.running(s.Host, "cloud-provider") != "external" {
			t.Errorf("%s is not external", s.Host)
		}
	}
}

func TestADeathInTheMiddleOfABatchConverges(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"before", "during", "after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			p := w.givenWithin("3", batchOfHosts(3, 3)...)
			// A process that dies takes all its steps with it: here each of them stops at the same point, one of them for good.
			ctx, kill := context.WithCancelCause(t.Context())
			_ = w.engine(func(o *step.Options) {
				o.Hook = func(at, step string) {
					if at == point && strings.HasSuffix(step, "@cp-2") {
						kill(errors.New("killed"))
					}
				}
			}).Run(ctx, p, nil)
			if _, err := w.run(p); err != nil {
				t.Fatal(err)
			}
			for _, s := range p.Steps {
				if w.running(s.Host, "cloud-provider") != "external" || w.engine().env.Journal.Record(s.ID).Result != v1.StepResultDone {
					t.Errorf("%s: %s", s.Host, w.engine().env.Journal.Record(s.ID).Result)
				}
			}
		})
	}
}

func TestABudgetThatOthersUseUpIsWaitedForAndEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.api.Put(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "dead"}})
	p := w.given(plainStep("cp-1"))
	var told []string
	_, err := w.run(p, func(o *step.Options) { o.Tell = func(e step.Event) { told = append(told, e.Message) } })
	says(
		t,
		err,
		"waited for 15m0s",
		"at most 1 node may be not Ready or under change at a time, and dead is not Ready",
		"--max-unavailable",
		"Nothing was changed on host cp-1",
	)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it is no timeout: %v", err)
	}
	if n := strings.Count(strings.Join(told, "\n"), "waiting: at most 1 node"); n != 1 {
		t.Errorf("the wait was told %d times:\n%s", n, strings.Join(told, "\n"))
	}
	if w.restarts["kubelet@cp-1"] != 0 || w.engine().env.Journal.Record("external/kubelet@cp-1").Result != "" {
		t.Error("something was begun")
	}
	// More is allowed for this run.
	p.Options.MaxUnavailable = "2"
	if _, err := w.run(p); err != nil {
		t.Errorf("with a larger budget: %v", err)
	}
}

func TestANodeThatIsNotReadyIsNotTouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.kubeletRuns("cp-1")
	w.heartbeat("cp-1", corev1.ConditionFalse)
	_, err := w.run(w.given(plainStep("cp-1")))
	says(t, err, "node node-cp-1 is not Ready before anything was changed there")
	if w.restarts["kubelet@cp-1"] != 0 {
		t.Error("its kubelet was restarted")
	}
}

func TestCtrlCDuringTheWaitForTheBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.api.Put(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "dead"}})
	p, stop := w.given(plainStep("cp-1")), make(chan struct{})
	var once sync.Once
	err := w.engine(func(o *step.Options) {
		o.Tell = func(e step.Event) {
			if strings.HasPrefix(e.Message, "waiting") {
				once.Do(func() { close(stop) })
			}
		}
	}).Run(t.Context(), p, stop)
	if !errors.Is(err, step.ErrInterrupted) {
		t.Errorf("error: %v", err)
	}
}

func TestABatchStopsBehindTheStepThatWasAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	p := w.givenWithin("3", batchOfHosts(3, 3)...)
	p.Until = "external/kubelet@cp-2"
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	if w.running("cp-2", "cloud-provider") != "external" || w.running("cp-3", "cloud-provider") != "aws" {
		t.Errorf("cp-2 runs with %s, cp-3 with %s", w.running("cp-2", "cloud-provider"), w.running("cp-3", "cloud-provider"))
	}
}

// TestTheBudgetIsNeverExceeded takes and gives nodes by chance, while others go down and come back.
func TestTheBudgetIsNeverExceeded(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the same every time
	for range 300 {
		nodes := 2 + dice.IntN(20)
		most := options.MaxUnavailable(v1.Options{MaxUnavailable: fmt.Sprint(1 + dice.IntN(100)), DrainTimeout: ""}, nodes)
		var b step.NodeBudget
		down, held := map[string]bool{}, map[string]bool{}
		for range 60 {
			node := fmt.Sprintf("n-%d", dice.IntN(nodes))
			switch dice.IntN(4) {
			case 0:
				down[node] = true
			case 1:
				delete(down, node)
			case 2:
				b.Give(node)
				delete(held, node)
			default:
				if held[node] {
					continue
				}
				before, _ := b.Holding()
				var notReady []string
				for n := range down {
					notReady = append(notReady, n)
				}
				slices.Sort(notReady)
				why, left := b.Take(node, most, before, notReady, false)
				if left {
					t.Fatal("nothing went wrong, and a step was left")
				}
				if why != "" {
					continue
				}
				held[node] = true
				busy := map[string]bool{}
				for n := range held {
					busy[n] = true
				}
				for n := range down {
					busy[n] = true
				}
				if len(busy) > most {
					t.Fatalf("%d nodes are busy and the budget is %d", len(busy), most)
				}
			}
		}
	}
}
