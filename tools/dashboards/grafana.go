package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// Grafana's grid has 24 columns: four numbers, three graphs or two timelines are next to each other.
const (
	widthOfNumber   = 6
	widthOfGraph    = 8
	widthOfTimeline = 12
	heightOfNumber  = 5
	heightOfGraph   = 8
)

// source is the data source that the reader chooses.
func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
}

// build makes Grafana's dashboard of a board. Each panel keeps its number as long as its place, so that links hold.
// The schema is the first one: only newer versions of Grafana read the second.
//
//nolint:staticcheck // the SDK deprecates the first schema
func (b board) build() (dashboard.Dashboard, error) {
	out := dashboard.NewDashboardBuilder(b.title).
		Uid(b.uid).
		Description(b.about).
		Tags([]string{"transplant", "cloud-controller-manager"}).
		Readonly().
		Refresh("30s").
		Time("now-"+b.since, "now").
		Timezone(common.TimeZoneBrowser).
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(b.clusterVariable()).
		Annotation(handovers())
	id := uint32(0)
	for _, r := range b.rows {
		if r.title != "" {
			id++
			out.WithRow(dashboard.NewRowBuilder(r.title).Id(id))
		}
		for _, p := range r.panels {
			id++
			out.WithPanel(p.build(id))
		}
	}
	return out.Build()
}

// clusterVariable lets the reader choose clusters. All of them is any value, also none: a Prometheus of one cluster has
// no label cluster.
func (b board) clusterVariable() *dashboard.QueryVariableBuilder {
	all := dashboard.StringOrArrayOfString{String: cog.ToPtr("All")}
	return dashboard.NewQueryVariableBuilder("cluster").
		Label("Cluster").
		Datasource(source()).
		Query(dashboard.StringOrMap{String: cog.ToPtr("label_values(" + b.clusters + ", cluster)")}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortNaturalAsc).
		Multi(true).
		IncludeAll(true).
		AllValue(".*").
		Current(dashboard.VariableOption{
			Selected: cog.ToPtr(true),
			Text:     all,
			Value:    dashboard.StringOrArrayOfString{String: cog.ToPtr("$__all")},
		})
}

// handovers marks in each graph when a lease changed its holder.
func handovers() *dashboard.AnnotationQueryBuilder {
	return dashboard.NewAnnotationQueryBuilder().
		Name("Handovers").
		Datasource(source()).
		Enable(true).
		IconColor("blue").
		Expr(handoverExpr).
		TitleFormat("{{lease}}").
		TextFormat("The lease has another holder.").
		Step("30s")
}

// handoverExpr has a sample while a lease changes its holder.
const handoverExpr = `max by (cluster, lease) (increase(` +
	`transplant_ccm_lease_transitions_total{cluster=~"$cluster"}[2m])) > 0`

// build makes Grafana's panel.
func (p panel) build(id uint32) cog.Builder[dashboard.Panel] {
	switch p.kind {
	case graph:
		out := timeseries.NewPanelBuilder().Id(id).Title(p.title).Description(p.about).Datasource(source()).
			Unit(p.unit).Min(0).Span(widthOfGraph).Height(heightOfGraph).LineWidth(1).FillOpacity(10).
			Legend(common.NewVizLegendOptionsBuilder().
				ShowLegend(true).
				DisplayMode(common.LegendDisplayModeList).
				Placement(common.LegendPlacementBottom))
		for i, q := range p.queries {
			out.WithTarget(q.build(i).Range())
		}
		return out
	case timeline:
		out := statetimeline.NewPanelBuilder().Id(id).Title(p.title).Description(p.about).Datasource(source()).
			Unit(p.unit).Span(widthOfTimeline).Height(heightOfGraph)
		for i, q := range p.queries {
			out.WithTarget(q.build(i).Range())
		}
		return out
	default:
		out := stat.NewPanelBuilder().Id(id).Title(p.title).Description(p.about).Datasource(source()).
			Unit(p.unit).Span(widthOfNumber).Height(heightOfNumber).NoValue("none").
			TextMode(common.BigValueTextModeValueAndName).
			ColorMode(common.BigValueColorModeValue).
			GraphMode(common.BigValueGraphModeNone).
			Orientation(common.VizOrientationAuto).
			ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
			Thresholds(p.thresholds())
		for i, q := range p.queries {
			out.WithTarget(q.build(i).Instant())
		}
		return out
	}
}

// thresholds colour a number.
func (p panel) thresholds() *dashboard.ThresholdsConfigBuilder {
	var steps []dashboard.Threshold
	switch {
	case p.bad == 0:
		steps = []dashboard.Threshold{{Color: "text"}}
	case p.low:
		steps = []dashboard.Threshold{{Color: "red"}, {Value: cog.ToPtr(p.bad), Color: "green"}}
	default:
		steps = []dashboard.Threshold{{Color: "green"}, {Value: cog.ToPtr(p.bad), Color: "red"}}
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)
}

// build makes the query of a panel, by its place among them.
func (q query) build(i int) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().
		Datasource(source()).
		RefId(string(rune('A' + i))).
		Expr(q.expr).
		LegendFormat(q.legend)
}
