// Package exposition decides which series Prometheus gets of a migration's status, and what may be a label of them. A
// series that means what one of the operator means has its name and help, so that rules and dashboards work with both.
// No text of a cluster is a label: events, errors and holders may repeat a secret, and each would be a new series.
package exposition

import (
	"bytes"
	"fmt"
	"io"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
)

// prefix begins the name of each series.
const prefix = "transplant_migration_"

// Print writes the series of a status, sorted, in the text format of Prometheus. Part is what the status is of where a
// seed hosts the control plane, and empty elsewhere. Nothing is written when something is wrong with the series.
func Print(w io.Writer, s v1.Status, part hosted.Part) error {
	registry := prometheus.NewRegistry()
	to := collection{prometheus.WrapRegistererWith(clusterLabels(s.Cluster), registry)}
	to.addReading(s)
	to.addState(s, part)
	if s.Run != "" {
		to.addRun(s)
		to.addPlan(s)
	}
	to.addLock(s.Lock)
	to.addOwners(s, part)
	to.addProbes(s.Probes)
	families, err := registry.Gather()
	if err != nil {
		return fmt.Errorf("collecting the series of the status: %w", err)
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			return fmt.Errorf("formatting the series %s: %w", f.GetName(), err)
		}
	}
	_, err = w.Write(text.Bytes())
	return err
}

// plainName is a name that may be a label. The name of a cluster is from its journal, which others may have written.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// clusterLabels keep the series of clusters apart whose files one node_exporter reads. The name that every cluster has
// by default says nothing, and would stand in the place of the one that Prometheus gives its targets.
func clusterLabels(c v1.Cluster) prometheus.Labels {
	out := prometheus.Labels{}
	if plainName.MatchString(c.Name) && c.Name != clusterview.DefaultClusterName {
		out["cluster"] = c.Name
	}
	if plainName.MatchString(c.UID) {
		out["uid"] = c.UID
	}
	return out
}

// collection is where the series of one status are put.
type collection struct{ registry prometheus.Registerer }

// addGauge adds a series that no label divides.
func (to collection) addGauge(name, help string, value float64) {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	g.Set(value)
	to.registry.MustRegister(g)
}

// addFlag adds a series that is 1 or 0.
func (to collection) addFlag(name, help string, isSet bool) { to.addGauge(name, help, oneIf(isSet)) }

// addGauges adds a series for each value of a label.
func (to collection) addGauges(name, help, label string, values map[string]float64) {
	v := to.addVector(name, help, label)
	for of, value := range values {
		v.WithLabelValues(of).Set(value)
	}
}

// addVector adds series that labels divide. Without a value it has none.
func (to collection) addVector(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
	to.registry.MustRegister(v)
	return v
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
