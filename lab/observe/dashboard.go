package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/transplant-dev/transplant/lab/build"
)

// DashboardDir holds the dashboards, below the root of the repository.
const DashboardDir = "deploy/monitoring/dashboards"

// Dashboard is one of the repository, as Grafana reads it.
type Dashboard struct {
	Title  string  `json:"title"`
	Panels []Panel `json:"panels"`
}

// Panel is a part of a dashboard.
type Panel struct {
	Title   string `json:"title"`
	Type    string `json:"type"` // row, stat, timeseries, state-timeline
	GridPos struct {
		X, Y, W, H int
	} `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []Target `json:"targets"`
}

// Target is a query of a panel. Its legend names a series.
type Target struct {
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
}

// ReadDashboard reads a dashboard of the repository by its name.
func ReadDashboard(name string) (*Dashboard, error) {
	root, err := build.FindRoot()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(root, DashboardDir, name+".json"))
	if err != nil {
		return nil, fmt.Errorf("reading dashboard %s: %w", name, err)
	}
	var out Dashboard
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("reading dashboard %s: %w", name, err)
	}
	return &out, nil
}

// Answer is what Prometheus has answered to a query of a panel.
type Answer struct {
	Panel  string       `json:"panel"`
	Legend string       `json:"legend"`
	Expr   string       `json:"expr"`
	Series model.Matrix `json:"series"`

	target Target
}

// Key names a query by its panel and its legend.
func (a Answer) Key() string { return a.Panel + " / " + a.Legend }

// HasData reports whether a series has a value that is a number.
func (a Answer) HasData() bool {
	for _, s := range a.Series {
		for _, v := range s.Values {
			if v.Value == v.Value { // not NaN
				return true
			}
		}
	}
	return false
}

// Span is what a dashboard shows.
type Span struct{ From, To time.Time }

// step gives a panel some hundred values.
func (s Span) step() time.Duration { return max(Interval, s.To.Sub(s.From).Truncate(time.Second)/300) }

// expr is a query as Grafana sends it, with all clusters chosen.
func (s Span) expr(of string) string {
	return strings.NewReplacer(
		"$__rate_interval", "30s",
		"$__range", fmt.Sprintf("%ds", int(s.To.Sub(s.From).Seconds())),
		"$cluster", ".*",
	).Replace(of)
}

// Ask has Prometheus answer every query of a dashboard. A number is asked for at the end.
func (p *Prometheus) Ask(ctx context.Context, d *Dashboard, s Span) ([]Answer, error) {
	var out []Answer
	var errs []error
	for _, panel := range d.Panels {
		for _, t := range panel.Targets {
			a := Answer{Panel: panel.Title, Legend: t.LegendFormat, Expr: s.expr(t.Expr), target: t}
			from := s.From
			if panel.Type == typeNumber {
				from = s.To
			}
			value, _, err := p.QueryRange(ctx, a.Expr, promv1.Range{Start: from, End: s.To, Step: s.step()})
			if err != nil {
				errs = append(errs, fmt.Errorf("panel %q: %s: %w", panel.Title, a.Expr, err))
				continue
			}
			matrix, ok := value.(model.Matrix)
			if !ok {
				errs = append(errs, fmt.Errorf("panel %q: %s: the answer is a %s", panel.Title, a.Expr, value.Type()))
				continue
			}
			a.Series = matrix
			out = append(out, a)
		}
	}
	return out, errors.Join(errs...)
}

var label = regexp.MustCompile(`\{\{(\w+)\}\}`)

// legend names a series.
func (a Answer) legend(of model.Metric) string {
	name := label.ReplaceAllStringFunc(a.Legend, func(m string) string {
		return string(of[model.LabelName(strings.Trim(m, "{}"))])
	})
	return strings.TrimSpace(name)
}

// Keep asks every query of a dashboard, and writes what the dashboard shows into a directory: its data as JSON, and a
// picture. It returns how many queries there are. The error names those that fail, and those without data unless silent
// says why they have none, by their Key.
func (p *Prometheus) Keep(ctx context.Context, dir, name string, s Span, silent map[string]string) (int, error) {
	d, err := ReadDashboard(name)
	if err != nil {
		return 0, err
	}
	answers, err := p.Ask(ctx, d, s)
	errs := []error{err}
	for _, a := range answers {
		if _, known := silent[a.Key()]; !known && !a.HasData() {
			errs = append(errs, fmt.Errorf("query %q has no data: %s", a.Key(), a.Expr))
		}
		for _, of := range a.Series {
			if a.legend(of.Metric) == "" {
				errs = append(errs, fmt.Errorf("query %q names nothing of %s", a.Key(), of.Metric))
				break
			}
		}
	}
	errs = append(errs, write(dir, name, d, s, answers))
	if err := errors.Join(errs...); err != nil {
		return len(answers), fmt.Errorf("dashboard %s: %w", name, err)
	}
	return len(answers), nil
}

// write writes the data of a dashboard, and its picture.
func write(dir, name string, d *Dashboard, s Span, answers []Answer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating the directory for dashboards: %w", err)
	}
	data, err := json.MarshalIndent(answers, "", " ")
	if err != nil {
		return fmt.Errorf("rendering its data: %w", err)
	}
	for file, text := range map[string][]byte{name + ".json": data, name + ".svg": picture(d, s, answers)} {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
			return fmt.Errorf("writing what it shows: %w", err)
		}
	}
	return nil
}
