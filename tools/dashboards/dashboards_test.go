package dashboards

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite what is rendered into the repository")

const root = "../.."

func TestTheFilesOfTheRepositoryAreRenderedFromTheCode(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		file := filepath.Join(root, name)
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%v; run make generate", err)
		} else if string(have) != string(want) {
			t.Errorf("%s is not what the code renders; run make generate", name)
		}
		// kubectl apply keeps an object's last state in an annotation, and annotations have at most 256 KiB.
		if len(want) > 200<<10 {
			t.Errorf("%s has %d bytes", name, len(want))
		}
	}
	there, err := filepath.Glob(filepath.Join(root, Dir, "*.json"))
	if err != nil || len(there) != len(files)-1 {
		t.Errorf("dashboards in %s: %v, %v", Dir, there, err)
	}
}

// What every dashboard has: what Grafana's linter of dashboards asks for, and the four questions.
func TestEveryDashboardIsMadeInTheSameWay(t *testing.T) {
	uids, titles := map[string]bool{}, map[string]bool{}
	for _, b := range boards() {
		if uids[b.uid] || titles[b.title] || !regexp.MustCompile(`^[a-z-]{1,40}$`).MatchString(b.uid) {
			t.Errorf("uid %q or title %q is there twice, or no uid", b.uid, b.title)
		}
		uids[b.uid], titles[b.title] = true, true
		first := b.rows[0].panels
		if len(first) != 4 || first[0].title != "Phase" || first[2].title != "Blockers" || first[3].title != "Disruption" {
			t.Errorf("%s: the first row does not answer the four questions", b.name)
		}
		seen := map[string]bool{}
		for _, r := range b.rows {
			for _, p := range r.panels {
				if seen[r.title+p.title] || p.unit == "" || !strings.HasSuffix(p.about, ".") || len(p.queries) == 0 {
					t.Errorf("%s: panel %q is there twice, or has no unit, text or query", b.name, p.title)
				}
				seen[r.title+p.title] = true
				for _, q := range p.queries {
					if q.legend == "" {
						t.Errorf("%s: %q: %s has no legend", b.name, p.title, q.expr)
					}
				}
			}
		}
	}
}

// What Grafana reads: panels do not overlap, each has a number of its own, and asks the data source that the reader chooses.
func TestPanelsHaveTheirPlaces(t *testing.T) {
	type panel struct {
		ID         int
		Type       string
		Title      string
		GridPos    struct{ X, Y, W, H int }
		Datasource struct{ UID string }
		Targets    []struct{ RefID, Expr string }
	}
	for _, b := range boards() {
		var d struct {
			UID        string
			Panels     []panel
			Templating struct{ List []struct{ Name, Type string } }
		}
		data, err := os.ReadFile(filepath.Join(root, Dir, b.name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &d); err != nil {
			t.Fatal(err)
		}
		if v := d.Templating.List; d.UID != b.uid || len(v) != 2 || v[0].Name != "datasource" || v[1].Name != "cluster" {
			t.Errorf("%s: uid %s, variables %v", b.name, d.UID, v)
		}
		taken, ids, queries := map[[2]int]string{}, map[int]bool{}, 0
		for _, p := range d.Panels {
			if ids[p.ID] || p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: %q has number %d and place %+v", b.name, p.Title, p.ID, p.GridPos)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Fatalf("%s: %q covers %q", b.name, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if p.Type != "row" && p.Datasource.UID != "${datasource}" {
				t.Errorf("%s: %q asks %q", b.name, p.Title, p.Datasource.UID)
			}
			queries += len(p.Targets)
		}
		if queries < 20 {
			t.Errorf("%s has %d queries", b.name, queries)
		}
	}
}

// series are what there is to ask for.
type series struct {
	counter, histogram bool
	labels             []string
}

// added are the labels that Prometheus gives every series that it scrapes.
var added = []string{"cluster", "instance", "job"}

// known are the series of managers, by the page that is generated from their registry, of the operator and of a migration from the command line, by
// the pages that their tests hold, of the rules, and of others.
func known(t *testing.T) map[string]series {
	t.Helper()
	out := map[string]series{
		"ALERTS":               {labels: []string{"alertname", "alertstate", "severity", "cluster"}},
		"kube_node_spec_taint": {labels: append([]string{"node", "key"}, added...)},
	}
	for _, row := range tableRows(t, "docs/reference/metrics.md", 5) {
		out[row[0]] = series{counter: row[1] == "counter", histogram: row[1] == "histogram", labels: append(words(row[3]), added...)}
	}
	for _, row := range tableRows(t, "docs/reference/migration-metrics.md", 3) {
		out[row[0]] = series{labels: append(words(row[1]), added...)}
	}
	for _, row := range tableRows(t, "docs/reference/operator.md", 3) {
		for _, name := range words(row[0]) {
			if strings.HasPrefix(name, "transplant_") {
				out[name] = series{
					counter:   strings.HasSuffix(name, "_total") && !strings.HasSuffix(name, "machines_total"),
					histogram: strings.HasSuffix(name, "_duration_seconds"),
					labels:    append(words(row[1]), added...),
				}
			}
		}
	}
	for name, labels := range recorded(t) {
		out[name] = series{labels: labels}
	}
	if len(out) < 60 {
		t.Fatalf("%d series were found", len(out))
	}
	return out
}

// tableRows are the rows of a page's tables that have a number of columns and begin with a name.
func tableRows(t *testing.T, page string, columns int) (out [][]string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "| `") || len(cells) < columns {
			continue
		}
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		out = append(out, cells)
	}
	return out
}

// words are names that commas are between.
func words(s string) (out []string) {
	for _, w := range strings.Split(s, ",") {
		if w = strings.Trim(w, " `"); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// recorded are the series of the rules, with the labels by which their expressions group.
func recorded(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "deploy/monitoring/rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Record, Expr string }
		}
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Record == "" {
				continue
			}
			expr, err := parser.ParseExpr(r.Expr)
			if err != nil {
				t.Fatalf("%s: %v", r.Record, err)
			}
			parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
				if a, ok := n.(*parser.AggregateExpr); ok && !a.Without {
					out[r.Record] = append(out[r.Record], a.Grouping...)
				}
				return nil
			})
		}
	}
	return out
}

// parse parses a query as Grafana sends it.
func parse(expr string) (parser.Expr, error) {
	return parser.ParseExpr(strings.NewReplacer("$__rate_interval", "2m", "$__range", "1h", "$cluster", ".*").Replace(expr))
}

// once are counters of what a process does once, when it takes over. No rate shows an increase before the first scrape.
var once = []string{"transplant_ccm_service_adopted_total", "transplant_ccm_lease_handover_seconds"}

// problems are what is wrong with a query: series or labels that nothing has, counters that are no rates, and rates of what is no counter.
func problems(expr string, there map[string]series) (out []string) {
	e, err := parse(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var asked []string // labels that some series of the query has
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		name, bucket := strings.CutSuffix(v.Name, "_bucket")
		s, ok := there[name]
		if !ok || bucket != s.histogram {
			out = append(out, "nothing has "+v.Name)
			return nil
		}
		for _, m := range v.LabelMatchers {
			if m.Name != labels.MetricName && !slices.Contains(s.labels, m.Name) {
				out = append(out, v.Name+" has no label "+m.Name)
			}
		}
		asked = append(asked, s.labels...)
		if bucket {
			asked = append(asked, "le")
		}
		rate := slices.ContainsFunc(path, func(n parser.Node) bool {
			c, ok := n.(*parser.Call)
			return ok && slices.Contains([]string{"rate", "increase"}, c.Func.Name)
		})
		if (s.counter || bucket) != rate && !slices.Contains(once, name) {
			out = append(out, v.Name+" is a counter and shown as it is, or is none and shown as a rate")
		}
		return nil
	})
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		a, ok := n.(*parser.AggregateExpr)
		if !ok {
			return nil
		}
		for _, label := range a.Grouping {
			if !slices.Contains(asked, label) {
				out = append(out, "no series of the query has label "+label)
			}
		}
		return nil
	})
	return out
}

// legends are labels in a legend.
var legends = regexp.MustCompile(`\{\{(\w+)\}\}`)

func TestQueriesAskForSeriesThatThereAre(t *testing.T) {
	there := known(t)
	for _, b := range boards() {
		if _, ok := there[b.clusters]; !ok {
			t.Errorf("%s: clusters are those of %s, which nothing has", b.name, b.clusters)
		}
		for _, r := range b.rows {
			for _, p := range r.panels {
				for _, q := range p.queries {
					for _, problem := range problems(q.expr, there) {
						t.Errorf("%s: %q: %s: %s", b.name, p.title, q.expr, problem)
					}
					for _, m := range legends.FindAllStringSubmatch(q.legend, -1) {
						if !keeps(t, q.expr, m[1], there) {
							t.Errorf("%s: %q: the legend has %s, which %s does not keep", b.name, p.title, m[1], q.expr)
						}
					}
				}
			}
		}
	}
	for _, problem := range problems(handoverExpr, there) {
		t.Errorf("handovers: %s", problem)
	}
}

// keeps reports whether the answer to a query has a label: its outermost grouping names it, or nothing groups and its series have it.
func keeps(t *testing.T, expr, label string, there map[string]series) bool {
	t.Helper()
	e, err := parse(expr)
	if err != nil {
		return false
	}
	found, grouped := false, false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			if !grouped {
				found = slices.Contains(n.Grouping, label)
			}
			grouped = true
		case *parser.VectorSelector:
			if !grouped {
				found = found || slices.Contains(there[n.Name].labels, label)
			}
		}
		return nil
	})
	return found
}

// The checks of queries find what they are for.
func TestAWrongQueryIsFound(t *testing.T) {
	there := known(t)
	for expr, want := range map[string]string{
		`sum by (cluster) (rate(transplant_ccm_cloud_calls_total[$__rate_interval])`:          "unclosed left parenthesis",
		`max(transplant_ccm_service_waiting)`:                                                 "nothing has transplant_ccm_service_waiting",
		`max by (service) (transplant_ccm_service_pending)`:                                   "no series of the query has label service",
		`transplant_ccm_route_failing{result="error"}`:                                        "transplant_ccm_route_failing has no label result",
		`transplant_ccm_cloud_calls_total`:                                                    "transplant_ccm_cloud_calls_total is a counter",
		`rate(transplant_ccm_service_pending[5m])`:                                            "transplant_ccm_service_pending is a counter and shown as it is, or is none",
		`histogram_quantile(0.9, rate(transplant_ccm_service_ensure_duration_seconds[5m]))`:   "nothing has transplant_ccm_service_ensure_duration_seconds",
		`rate(transplant_ccm_cloud_calls_total_bucket[5m])`:                                   "nothing has transplant_ccm_cloud_calls_total_bucket",
		`max by (cluster) (transplant:loops_without_owners:count{cluster=~"$cluster"}) or up`: "nothing has transplant:loops_without_owners:count",
	} {
		if got := problems(expr, there); len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}
