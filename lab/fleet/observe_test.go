package fleet

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/model"

	kv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/lab/observe"
	"github.com/transplant-dev/transplant/lab/seed"
)

var observeOut = flag.String("fleet.observe", "", "directory for what the dashboard shows of a fleet under a real Prometheus (make observe)")

// silentOfFleet are the queries to which nothing of this fleet answers, and why.
var silentOfFleet = map[string]string{
	"Disruption / {{cluster}}":                        "its managers are simulated and have no metrics",
	"Alerts that fire / {{alertname}}":                "a cluster is blocked for less than 15 minutes",
	"Clusters that need a person / {{cluster}} stuck": "no cluster takes longer than it may",
}

// refusing has the rules refuse one Cluster.
type refusing struct {
	*simulated

	name string
}

func (r refusing) Refusals(_ context.Context, c *kv1.Cluster, _ bool) []string {
	if c.Name == r.name {
		return []string{"this test refuses it"}
	}
	return nil
}

// Clusters of a fleet are migrated, one is refused and one is left as it is, while a real Prometheus scrapes the operator.
func TestAFleetIsSeen(t *testing.T) {
	if *observeOut == "" {
		t.Skip("downloads Prometheus: make observe")
	}
	b := startBench(t)
	const all, migrated = 6, 4
	b.rules = refusing{b.sim, nameOf(migrated)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := &http.Server{Handler: promhttp.HandlerFor(b.metrics.Registry, promhttp.HandlerOpts{}), ReadHeaderTimeout: 10 * time.Second}
	b.done.Go(func() { _ = server.Serve(l) }) // it ends with the test
	t.Cleanup(func() { must(t, server.Close()) })
	p, err := observe.Start(t.Context(), observe.Options{
		Dir: t.TempDir(), Progress: os.Stderr,
		Jobs: []observe.Job{{Name: "transplant-operator", Targets: []string{l.Addr().String()}}},
	})
	must(t, err)
	t.Cleanup(p.Stop)

	ctx, from := within(t), time.Now()
	must(t, b.fill(ctx, all))
	b.lead(t)
	must(t, b.await(ctx, all, kv1.PhaseNotNeeded))
	counts := func(phase string, want int) {
		t.Helper()
		must(t, seed.Await(ctx, "Prometheus to have the phases", func(ctx context.Context) error {
			v, _, err := p.Query(ctx, fmt.Sprintf("count(transplant_migration_phase{phase=%q} == 1) or vector(0)", phase), time.Now())
			if err != nil {
				return err
			}
			if got := int(v.(model.Vector)[0].Value); got != want {
				return fmt.Errorf("%d Clusters are %s, want %d", got, phase, want)
			}
			return nil
		}))
	}
	counts(kv1.PhaseNotNeeded, all)
	must(t, b.enable(ctx, 0, migrated/2)) // the first wave, which the second is compared with
	must(t, b.await(ctx, migrated/2, kv1.PhaseCompleted))
	counts(kv1.PhaseCompleted, migrated/2)
	must(t, b.enable(ctx, migrated/2, migrated+1))
	must(t, b.await(ctx, migrated, kv1.PhaseCompleted))
	counts(kv1.PhaseCompleted, migrated)
	counts(kv1.PhaseBlocked, 1)
	counts(kv1.PhaseNotNeeded, all-migrated-1)
	must(t, seed.Await(ctx, "TransplantMigrationBlocked to be pending", func(ctx context.Context) error {
		alerts, err := p.Alerts(ctx)
		if err != nil {
			return err
		}
		for _, a := range alerts.Alerts {
			if a.Labels[model.AlertNameLabel] == "TransplantMigrationBlocked" && string(a.Labels["cluster"]) == nameOf(migrated) {
				return nil
			}
		}
		return fmt.Errorf("there are %v", alerts.Alerts)
	}))
	n, err := p.Keep(ctx, *observeOut, "fleet", observe.Span{From: from, To: time.Now()}, silentOfFleet)
	must(t, err)
	if n < 20 {
		t.Errorf("%d queries were asked", n)
	}
}
