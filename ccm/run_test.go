package ccm

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/names"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/internal/progress"
	"github.com/transplant-dev/transplant/internal/apitest"
)

func TestAPlannedHandover(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	first, second := newWorker("work"), newWorker("work")
	first.finish = make(chan struct{})
	a := run(t, server, &provider{}, map[string]*worker{"work": first})
	leading := first.leads(t)
	b := run(t, server, &provider{}, map[string]*worker{"work": second})
	a.until("/readyz", http.StatusOK, "ok")
	b.until("/readyz", http.StatusOK, "ok") // on standby
	holderA := holder(t, kube, mainLeaseName)

	a.stop()
	<-leading.Done()
	if fence := election.FromContext(leading); fence.Check() != nil {
		t.Error("the fence is closed while the worker brings its work to an end")
	}
	a.until("/readyz?verbose", http.StatusInternalServerError, "[-]process failed: the process is ending")
	if h := holder(t, kube, mainLeaseName); h != holderA {
		t.Errorf("while the worker works, the lease is held by %q", h)
	}
	close(first.finish)
	if err := a.wait(); err != nil {
		t.Errorf("told to end, the manager returns %v", err)
	}
	if fence := election.FromContext(leading); !errors.Is(fence.Check(), election.ErrFenced) {
		t.Error("the fence is open after the end")
	}
	second.leads(t)
	if err := b.end(); err != nil {
		t.Error(err)
	}
	if h := holder(t, kube, mainLeaseName); h != "" {
		t.Errorf("after the end of both, the lease is held by %q", h)
	}
}

func TestWorkThatDoesNotEndInTimeIsCutOffAndItsLeaseIsLeftToExpire(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	w := newWorker("work")
	w.finish = make(chan struct{})
	m := run(t, server, &provider{}, map[string]*worker{"work": w}, "--drain-timeout=100ms")
	leading := w.leads(t)
	err := m.end()
	if err == nil || !strings.Contains(err.Error(), "left to expire") {
		t.Errorf("the manager returns %v", err)
	}
	if fence := election.FromContext(leading); !errors.Is(fence.Check(), election.ErrFenced) {
		t.Error("the worker may still write")
	}
	if h := holder(t, kube, mainLeaseName); h == "" || h == "none" {
		t.Errorf("the lease is held by %q", h)
	}
	close(w.finish)
}

// deafRoutes is a cloud with routes whose calls take no notice of their context.
type deafRoutes struct {
	cloud.Partial

	began chan struct{} // gets one of each call
	hang  chan struct{} // calls return when it is closed
}

func (d *deafRoutes) ProviderName() string { return "deaf" }

func (d *deafRoutes) Routes() (cloudprovider.Routes, bool) { return d, true }

func (d *deafRoutes) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	d.began <- struct{}{}
	<-d.hang
	return nil, nil
}

func (d *deafRoutes) CreateRoute(context.Context, string, string, *cloudprovider.Route) error {
	d.began <- struct{}{}
	<-d.hang
	return nil
}

func (d *deafRoutes) DeleteRoute(context.Context, string, *cloudprovider.Route) error { return nil }

func TestALeaseIsReleasedOnlyIfNoCallThatWasGivenUpMayStillChangeSomething(t *testing.T) {
	create := func(ctx context.Context, routes cloudprovider.Routes) error {
		return routes.CreateRoute(ctx, "c", "hint", &cloudprovider.Route{DestinationCIDR: "10.0.0.0/24"})
	}
	list := func(ctx context.Context, routes cloudprovider.Routes) error {
		_, err := routes.ListRoutes(ctx, "c")
		return err
	}
	for name, c := range map[string]struct {
		call     func(context.Context, cloudprovider.Routes) error
		timeout  time.Duration // of the call
		drain    string
		given    bool // the call is given up before the process is told to end
		returns  bool // the call returns after that
		released bool
	}{
		"a change, given up long before":        {call: create, timeout: 50 * time.Millisecond, drain: "100ms", given: true},
		"a change, given up when its time ends": {call: create, timeout: time.Hour, drain: "100ms"},
		"a change that returns in time":         {call: create, timeout: 50 * time.Millisecond, drain: "1m", given: true, returns: true, released: true},
		"a read, given up long before":          {call: list, timeout: 50 * time.Millisecond, drain: "100ms", given: true, released: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New(t)
			kube, _ := server.Clients(t)
			w, deaf := newWorker("work"), &deafRoutes{began: make(chan struct{}, 1), hang: make(chan struct{})}
			m := run(t, server, &provider{}, map[string]*worker{"work": w}, "--drain-timeout="+c.drain,
				"--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=2s") // longer than calls get to end
			leading := w.leads(t)
			fence := election.FromContext(leading)
			routes, _ := cloud.New(deaf, cloud.Options{CallTimeout: c.timeout}).For(fence).Routes()
			ended := make(chan error, 1)
			Go(leading, func(ctx context.Context) {
				calls, cancel := fence.Bind(ctx)
				defer cancel()
				ended <- c.call(calls, routes)
			})
			receive(t, deaf.began)
			if c.given {
				if err := receive(t, ended); cloud.Classify(err) != cloud.OutcomeTimeout {
					t.Errorf("the call ended with %v", err)
				}
			}
			m.stop()
			if c.returns {
				<-leading.Done()
				close(deaf.hang)
			} else {
				defer close(deaf.hang)
			}
			err := m.wait()
			if !c.given {
				if err := receive(t, ended); !errors.Is(err, election.ErrFenced) {
					t.Errorf("the call ended with %v", err)
				}
			}
			if told := err != nil && strings.Contains(err.Error(), "left to expire"); told == c.released || c.released && err != nil {
				t.Errorf("the manager returns %v", err)
			}
			if h := holder(t, kube, mainLeaseName); (h == "") != c.released {
				t.Errorf("the lease is held by %q", h)
			}
		})
	}
}

func TestALostLeaseEndsTheProcessWithAnError(t *testing.T) {
	server := apitest.New(t)
	w := newWorker("work")
	m := run(t, server, &provider{}, map[string]*worker{"work": w})
	leading := w.leads(t)
	server.Put(t, held(mainLeaseName, "somebody else"))
	if err := m.wait(); !errors.Is(err, election.ErrLost) {
		t.Errorf("the manager returns %v, want that leadership is lost", err)
	}
	if leading.Err() == nil || !errors.Is(election.FromContext(leading).Check(), election.ErrFenced) {
		t.Error("the worker may go on")
	}
}

func TestLeaderMigrationDividesTheLoopsBetweenTwoLeases(t *testing.T) {
	server := apitest.New(t)
	server.Put(t, held(migrationLeaseName, "kube-controller-manager"))
	node, service := newWorker("node"), newWorker("service")
	cloud := &provider{}
	m := run(t, server, cloud, map[string]*worker{names.CloudNodeController: node, names.ServiceLBController: service}, "--enable-leader-migration")
	if fence := election.FromContext(node.leads(t)); fence.Lease() != mainLeaseName {
		t.Errorf("the node loop runs under %s", fence.Lease())
	}
	m.until("/readyz", http.StatusOK, "ok")
	select {
	case <-service.started:
		t.Error("the service loop runs next to kube-controller-manager's")
	default:
	}
	server.Delete("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + migrationLeaseName)
	if fence := election.FromContext(service.leads(t)); fence.Lease() != migrationLeaseName {
		t.Errorf("the service loop runs under %s", fence.Lease())
	}
	m.until("/metrics", http.StatusOK, `transplant_ccm_controller_lease{controller="service-lb-controller",lease="cloud-provider-extraction-migration"} 1`)
	if err := m.end(); err != nil {
		t.Error(err)
	}
	if cloud.initialised != 1 {
		t.Errorf("the provider was initialised %d times", cloud.initialised)
	}
}

func TestALeaseWithNothingToRunUnderItIsNotContendedFor(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	node, service := newWorker("node"), newWorker("service")
	m := run(t, server, &provider{}, map[string]*worker{names.CloudNodeController: node, names.ServiceLBController: service},
		"--enable-leader-migration", "--controllers=-service,*")
	node.leads(t)
	m.until("/readyz", http.StatusOK, "ok")
	if err := m.end(); err != nil {
		t.Error(err)
	}
	if h := holder(t, kube, migrationLeaseName); h != "none" {
		t.Errorf("the migration lease is held by %q", h)
	}
}

func TestAProviderWithoutAnythingLeavesTheLeasesAlone(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	m := run(t, server, &provider{early: true}, nil)
	m.until("/readyz", http.StatusOK, "ok")
	if err := m.end(); err != nil {
		t.Error(err)
	}
	if h := holder(t, kube, mainLeaseName); h != "none" {
		t.Errorf("the lease is held by %q", h)
	}
}

func TestWithoutLeaderElectionEverythingRunsAtOnce(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	w := newWorker("work")
	m := run(t, server, &provider{}, map[string]*worker{names.ServiceLBController: w}, "--leader-elect=false", "--enable-leader-migration")
	leading := w.leads(t)
	if err := election.FromContext(leading).Check(); err != nil {
		t.Errorf("without a lease writes are refused: %v", err)
	}
	if err := m.end(); err != nil {
		t.Error(err)
	}
	if !errors.Is(election.FromContext(leading).Check(), election.ErrFenced) || holder(t, kube, mainLeaseName) != "" {
		t.Error("after the end writes pass, or a lease was taken")
	}
}

func TestTheTakeoverIsRememberedWithoutLeaderElection(t *testing.T) {
	server := apitest.New(t)
	start := func() *election.Fence {
		t.Helper()
		w := newWorker("work")
		m := run(t, server, &provider{}, map[string]*worker{"work": w}, "--leader-elect=false")
		fence := election.FromContext(w.leads(t))
		if err := m.end(); err != nil {
			t.Error(err)
		}
		return fence
	}
	first, second := start(), start()
	if at := first.TakeoverAt(); at.IsZero() || !second.TakeoverAt().Equal(at) {
		t.Errorf("the takeover was at %s, and after a restart at %s", at, second.TakeoverAt())
	}
	if !second.Tenure().AdoptedAt.After(first.Tenure().AdoptedAt) {
		t.Error("the second process did not start after the first")
	}
	other := held(mainLeaseName, "upstream's manager")
	server.Put(t, other)
	third := start()
	if !third.TakeoverAt().After(second.TakeoverAt()) {
		t.Error("another manager has held the lease, and that is not a takeover")
	}
	server.Delete("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + mainLeaseName)
	server.Deny("create", "leases")
	if at := start().TakeoverAt(); !at.IsZero() {
		t.Errorf("what cannot be remembered is %s: each restart would prolong it", at)
	}
}

func TestAControllerThatCannotStartEndsTheProcess(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	w := newWorker("work")
	w.fails = errors.New("no luck")
	m := run(t, server, &provider{}, map[string]*worker{"work": w})
	if err := m.wait(); !errors.Is(err, w.fails) || !strings.Contains(err.Error(), `"work"`) {
		t.Errorf("the manager returns %v", err)
	}
	if h := holder(t, kube, mainLeaseName); h != "" {
		t.Errorf("the lease is held by %q, want it released", h)
	}
}

// A standby that could not start would be none: it ends before it contends for a lease.
func TestAnAllocatorThatCannotWorkEndsTheProcessBeforeALeaseIsTaken(t *testing.T) {
	for kind, want := range map[string]string{
		"CloudAllocator":  `--cidr-allocator-type is "CloudAllocator", but the provider test does not say which podCIDRs an instance has`,
		"IPAMFromCluster": `--cidr-allocator-type is "IPAMFromCluster", which this manager does not have`,
	} {
		server := apitest.New(t)
		kube, _ := server.Clients(t)
		constructors := map[string]ControllerInitFuncConstructor{NodeIPAMController: NodeIPAMConstructor()}
		args := []string{"--allocate-node-cidrs", "--cluster-cidr=10.120.0.0/16", "--cidr-allocator-type=" + kind}
		m := runConstructors(t, server, &provider{}, constructors, slices.Concat(args, []string{"--controllers=*," + NodeIPAMController})...)
		if err := m.wait(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the manager returns %v", kind, err)
		}
		if h := holder(t, kube, mainLeaseName); h != "none" {
			t.Errorf("%s: the lease is held by %q", kind, h)
		}
		off := runConstructors(t, server, &provider{early: true}, constructors, args...)
		off.until("/readyz", http.StatusOK, "ok")
		if err := off.end(); err != nil {
			t.Errorf("%s: node IPAM does not run, and the manager returns %v", kind, err)
		}
	}
}

func TestReadyOnlyOnceTheCloudAnswers(t *testing.T) {
	server := apitest.New(t)
	let := make(chan struct{})
	cloud := &provider{probe: func(context.Context) error { <-let; return nil }} // it does not listen to its context
	w := newWorker("work")
	m := run(t, server, cloud, map[string]*worker{"work": w})
	w.leads(t)
	m.until("/readyz", http.StatusInternalServerError, "[-]cloud failed: the cloud has not answered yet")
	m.until("/readyz?exclude=cloud", http.StatusOK, "ok")
	m.until("/healthz?verbose", http.StatusOK, "[+]lease-cloud-controller-manager ok\n[+]work ok\nhealthz check passed")
	close(let)
	m.until("/readyz", http.StatusOK, "ok")
	if err := m.end(); err != nil {
		t.Error(err)
	}
}

// The paths are open to everybody by default, and an author's error may hold anything.
func TestTheReasonOfAnAuthorsCheckIsForThoseWhoMayAskForTheCheck(t *testing.T) {
	server := apitest.New(t)
	w := newWorker("work")
	w.stuck = errors.New("the cloud answered: bad token abc")
	m := run(t, server, &provider{}, map[string]*worker{"work": w})
	w.leads(t)
	for _, path := range []string{"/healthz", "/livez", "/healthz?verbose"} {
		m.until(path, http.StatusInternalServerError, "[-]work failed: reason withheld\n")
	}
	m.until("/healthz/work", http.StatusInternalServerError, "[-]work failed: the cloud answered: bad token abc") // the tests' manager opens it
	m.until("/healthz/lease-cloud-controller-manager", http.StatusOK, "ok")
	m.until("/healthz/other", http.StatusNotFound, "")
	if err := m.end(); err != nil {
		t.Error(err)
	}
}

// What a check says may hold what an author's provider says.
func TestOnlyTheThreeHealthPathsAreOpenByDefault(t *testing.T) {
	server := apitest.New(t)
	w := newWorker("work")
	m := runClosed(t, server, &provider{}, map[string]*worker{"work": w})
	w.leads(t)
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		m.until(path, http.StatusOK, "ok")
	}
	for _, path := range []string{"/healthz/work", "/healthz/lease-cloud-controller-manager", "/livez/work", "/readyz/cloud", "/configz", "/metrics"} {
		if status, body := m.get(path); status != http.StatusForbidden {
			t.Errorf("%s answers %d %s to anybody", path, status, body)
		}
	}
	if err := m.end(); err != nil {
		t.Error(err)
	}
}

func TestAStuckControllerOfOursIsNamed(t *testing.T) {
	server := apitest.New(t)
	w := newWorker("work")
	tracker := progress.New(time.Nanosecond)
	defer tracker.Start("service default/web")()
	w.health = progress.Open{UnnamedHealthChecker: tracker}
	m := run(t, server, &provider{}, map[string]*worker{"work": w})
	w.leads(t)
	m.until("/healthz", http.StatusInternalServerError, "[-]work failed: service default/web has been going on for ")
	if err := m.end(); err != nil {
		t.Error(err)
	}
}

// finisher holds something in its cloud, and notes who holds the lease when it lets it go.
type finisher struct {
	provider

	finish func(ctx context.Context)
}

func (f *finisher) Finish(ctx context.Context) { f.finish(ctx) }

func TestAProviderEndsWhatItHoldsBehindTheLeaseAndBeforeTheProcess(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	w, cloud, held := newWorker("work"), &finisher{}, []string{}
	cloud.finish = func(ctx context.Context) {
		if _, bounded := ctx.Deadline(); !bounded || ctx.Err() != nil {
			t.Errorf("its context is not bounded, or has ended: %v", ctx.Err())
		}
		held = append(held, holder(t, kube, mainLeaseName))
	}
	m := run(t, server, cloud, map[string]*worker{"work": w})
	w.leads(t)
	if err := m.end(); err != nil {
		t.Fatal(err)
	}
	if len(held) != 1 || held[0] != "" {
		t.Errorf("it was asked to with the lease held by %q, want once and by none", held)
	}
}
