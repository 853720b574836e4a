package observe

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/poll"
	"github.com/transplant-dev/transplant/lab/trial"
)

var out = flag.String("observe.out", "", "directory for what the dashboards show of a migration under a real Prometheus (make observe)")

// silent are the queries to which nothing of this lab answers, and why. All others have to have data.
var silent = map[string]string{
	"Phase / {{cluster}} {{phase}}":                     "no operator",
	"Done / {{cluster}} machines done":                  "no operator",
	"Done / {{cluster}} machines":                       "no operator",
	"Done / {{cluster}} steps done":                     "no timer writes the status",
	"Done / {{cluster}} steps":                          "no timer writes the status",
	"Machines / {{cluster}} external":                   "no operator",
	"Machines / {{cluster}} all":                        "no operator",
	"Nodes that nothing initialised / {{cluster}}":      "no kube-state-metrics",
	"Alerts that fire / {{alertname}}":                  "nothing fires; a fault is seen as pending",
	"Initialisation / p99 {{cluster}}":                  "no Node joins",
	"Initialisation / median":                           "no Node joins",
	"Failures / {{cluster}} {{reason}}":                 "no Node fails",
	"Throttled / {{cluster}} {{operation}}":             "the cloud throttles nothing",
	"Waiting for the call rate / p99 {{class}}":         "the cloud throttles nothing",
	"Calls under way / {{operation}} given up":          "no call hangs",
	"Time of one route / p99":                           "all routes are there",
	"Nodes without a range / {{cluster}} waiting":       "node IPAM stays with kube-controller-manager",
	"Nodes without a range / {{cluster}} overlapping":   "node IPAM stays with kube-controller-manager",
	"Longest outage / {{cluster}} {{kind}}":             "no timer writes the status",
	"All outages / {{cluster}} {{kind}}":                "no timer writes the status",
	"Time of the plan's phases / {{cluster}} {{phase}}": "no timer writes the status",
	"Findings / {{cluster}} {{code}} {{level}}":         "no timer writes the status",
}

// A good migration under a real Prometheus: all rules are evaluated, no alert fires, and every query of the dashboards is answered. Then the managers
// are stopped, and an alert says so.
func TestAMigrationIsSeen(t *testing.T) {
	if *out == "" {
		t.Skip("downloads Prometheus and takes minutes: make observe")
	}
	lab, err := trial.Start(t.Context(), trial.Options{Dir: t.TempDir(), ControlPlanes: 2, Workers: 1, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	from := time.Now()
	p := watch(t, lab)
	t.Cleanup(func() { p.dashboards(t, Span{from, time.Now()}, "manager", "migration") }) // also of a migration that went wrong
	poll.Eventually(t, "kube-controller-manager to be recorded as owner", func(ctx context.Context) error {
		return p.sees(ctx, `count(transplant:loop_managers:count{manager="kube-controller-manager"}) >= 3`)
	})
	alerts := p.collect(t)
	began := time.Now()
	if err := lab.Migrate(t.Context(), os.Stderr); err != nil {
		t.Fatal(err)
	}
	t.Logf("migrated within %s", time.Since(began).Round(time.Second))
	poll.Eventually(t, "cloud-controller-manager to be recorded as owner", func(ctx context.Context) error {
		return p.sees(ctx, `count(transplant:loop_managers:count{manager="cloud-controller-manager"}) >= 3`)
	})
	serve(t, lab, "first") // its calls are the first of their kind, and no rate shows those
	serve(t, lab, "second")
	poll.Eventually(t, "every series that a rule records", func(ctx context.Context) error { return p.recordsAll(ctx) })
	if firing := alerts.end(); len(firing) > 0 {
		t.Errorf("these alerts fired during a good migration: %v", firing)
	}
	p.rulesAreWell(t)
	good := Span{from, time.Now()}
	t.Logf("seconds in which a loop had no owner, as Prometheus saw it: %v", p.disruption(t, good))

	heal := stopManagers(t, lab)
	poll.Eventually(t, "TransplantManagerAbsent", func(ctx context.Context) error { return p.alerts(ctx, "TransplantManagerAbsent") })
	poll.Eventually(t, "TransplantNoOwner", func(ctx context.Context) error { return p.alerts(ctx, "TransplantNoOwner") })
	poll.Eventually(t, "ten seconds without an owner more", func(context.Context) error {
		if more := p.disruption(t, Span{from, time.Now()}) - p.disruption(t, good); more < 10 {
			return fmt.Errorf("there are %v", more)
		}
		return nil
	})
	heal()
	poll.Eventually(t, "the end of TransplantManagerAbsent", func(ctx context.Context) error {
		if p.alerts(ctx, "TransplantManagerAbsent") == nil {
			return errors.New("it is there")
		}
		return p.sees(ctx, `count(transplant:loop_managers:count{manager="cloud-controller-manager"}) >= 3`)
	})
}

// observed is a Prometheus that a test asks.
type observed struct{ *Prometheus }

// watch starts a Prometheus that scrapes both managers of each control-plane host.
func watch(t *testing.T, lab *trial.Trial) observed {
	t.Helper()
	jobs := []Job{}
	for component, port := range map[string]string{cluster.ControllerManager: "10257", cluster.CloudControllerManager: "10258"} {
		job := Job{Name: component, Token: lab.MetricsToken(), Labels: map[string]string{"cluster": "lab"}}
		for _, h := range lab.ControlPlanes() {
			job.Targets = append(job.Targets, net.JoinHostPort(h.Address, port))
		}
		jobs = append(jobs, job)
	}
	p, err := Start(t.Context(), Options{Dir: t.TempDir(), Jobs: jobs, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return observed{p}
}

// sees returns an error while an expression has no series.
func (p observed) sees(ctx context.Context, expr string) error {
	v, _, err := p.Query(ctx, expr, time.Now())
	if err != nil {
		return err
	}
	if len(v.(model.Vector)) == 0 {
		return fmt.Errorf("%s has no series", expr)
	}
	return nil
}

// disruption is what the dashboards say of it.
func (p observed) disruption(t *testing.T, s Span) float64 {
	t.Helper()
	d, err := ReadDashboard("migration")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(d.Panels, func(p Panel) bool { return p.Title == "Disruption" })
	v, _, err := p.Query(t.Context(), s.expr(d.Panels[i].Targets[0].Expr), s.To)
	if err != nil {
		t.Fatal(err)
	}
	if len(v.(model.Vector)) != 1 {
		t.Fatalf("disruption: %v", v)
	}
	return float64(v.(model.Vector)[0].Value)
}

// recordsAll returns an error that names the series that a rule should have recorded.
func (p observed) recordsAll(ctx context.Context) error {
	rules, err := p.Rules(ctx, nil)
	if err != nil {
		return err
	}
	var missing []string
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r, ok := r.(promv1.RecordingRule); ok && p.sees(ctx, r.Name) != nil {
				missing = append(missing, r.Name)
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("nothing is recorded of %v", missing)
	}
	return nil
}

// rulesAreWell fails the test unless Prometheus evaluates every rule without an error.
func (p observed) rulesAreWell(t *testing.T) {
	t.Helper()
	rules, err := p.Rules(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			var name, problem string
			var health promv1.RuleHealth
			switch r := r.(type) {
			case promv1.RecordingRule:
				name, health, problem = r.Name, r.Health, r.LastError
			case promv1.AlertingRule:
				name, health, problem = r.Name, r.Health, r.LastError
			}
			if health != promv1.RuleHealthGood {
				t.Errorf("%s: %s %s", name, health, problem)
			}
			n++
		}
	}
	if n < 20 {
		t.Errorf("Prometheus evaluates %d rules", n)
	}
}

// alerts returns an error unless an alert is pending or firing.
func (p observed) alerts(ctx context.Context, name string) error {
	all, err := p.Alerts(ctx)
	if err != nil {
		return err
	}
	for _, a := range all.Alerts {
		if string(a.Labels[model.AlertNameLabel]) == name {
			return nil
		}
	}
	return fmt.Errorf("it is not there; there are %v", all.Alerts)
}

// collected are the alerts that fired.
type collected struct {
	stop   context.CancelFunc
	done   sync.WaitGroup
	firing map[string]bool
}

// collect begins to note which alerts fire.
func (p observed) collect(t *testing.T) *collected {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &collected{stop: stop, firing: map[string]bool{}}
	c.done.Go(func() {
		_ = wait.PollUntilContextCancel(ctx, Interval/2, true, func(ctx context.Context) (bool, error) {
			all, err := p.Alerts(ctx)
			for _, a := range all.Alerts {
				if a.State == promv1.AlertStateFiring {
					c.firing[string(a.Labels[model.AlertNameLabel])] = true
				}
			}
			if err != nil && ctx.Err() == nil {
				t.Errorf("reading alerts: %v", err)
			}
			return false, nil
		}) // it ends with the context
	})
	return c
}

func (c *collected) end() (names []string) {
	c.stop()
	c.done.Wait()
	for name := range c.firing {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// serve gives the new manager a Service and takes it away.
func serve(t *testing.T, lab *trial.Trial, name string) {
	t.Helper()
	services := lab.Client().CoreV1().Services(cluster.WorkloadNamespace)
	if _, err := services.Create(t.Context(), cluster.NewService(name, nil, 80), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, "its load balancer", func(ctx context.Context) error {
		s, err := services.Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(s.Status.LoadBalancer.Ingress) == 0 {
			err = errors.New("it has none")
		}
		return err
	})
	if err := services.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, "its end", func(ctx context.Context) error {
		if _, err := services.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there, or: %w", err)
		}
		return nil
	})
}

// stopManagers takes the manifests of all cloud-controller-managers away, and returns what puts them back.
func stopManagers(t *testing.T, lab *trial.Trial) (heal func()) {
	t.Helper()
	manifests := map[string][]byte{}
	for _, h := range lab.ControlPlanes() {
		path := h.Path("/etc/kubernetes/manifests/cloud-controller-manager.yaml")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		manifests[path] = data
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for path, data := range manifests {
			if err := os.WriteFile(path, data, fs.FileMode(0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// dashboards asks every query of dashboards, and keeps what they show.
func (p observed) dashboards(t *testing.T, s Span, names ...string) {
	t.Helper()
	asked := 0
	for _, name := range names {
		n, err := p.Keep(context.WithoutCancel(t.Context()), *out, name, s, silent)
		if err != nil {
			t.Error(err)
		}
		asked += n
		t.Logf("wrote %s", filepath.Join(*out, name+".svg"))
	}
	if asked < 50 {
		t.Errorf("%d queries were asked", asked)
	}
}
