// Package dashboards decides what administrators see of managers, of a migration and of a fleet. From one list of
// panels it renders Grafana's files in deploy/monitoring/dashboards, and the page about them in docs/reference.
package dashboards

import (
	"encoding/json"
	"fmt"
	"path"
)

// Where the files are, below the root of the repository.
const (
	Dir  = "deploy/monitoring/dashboards"
	Page = "docs/reference/dashboards.md"
)

// kind is how a panel shows what its queries return.
type kind int

const (
	number   kind = iota // the last value
	graph                // values over time
	timeline             // states over time
)

// query is what a panel asks Prometheus for. Its legend names a series by its labels.
type query struct{ expr, legend string }

// panel shows the answers of queries that have the same unit.
type panel struct {
	title string
	// about says what a reader concludes.
	about   string
	kind    kind
	unit    string
	queries []query
	// bad is the value from which a number is red; 0 colours nothing. With low, it is red below.
	bad float64
	low bool
}

// row is a group of panels under one title. The first row of a board has none: it answers the four questions.
type row struct {
	title  string
	panels []panel
}

// board is a dashboard.
type board struct {
	name, uid, title, about string
	// clusters is the series by whose label cluster a reader chooses.
	clusters string
	// since is how far back the dashboard looks.
	since string
	rows  []row
}

// boards are all of them, in the order in which the page has them.
func boards() []board { return []board{managerBoard(), migrationBoard(), fleetBoard()} }

// Files renders what is kept in the repository, by path from its root.
func Files() (map[string][]byte, error) {
	out := map[string][]byte{Page: page(boards())}
	for _, b := range boards() {
		d, err := b.build()
		if err != nil {
			return nil, fmt.Errorf("building dashboard %s: %w", b.name, err)
		}
		data, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("rendering dashboard %s: %w", b.name, err)
		}
		out[path.Join(Dir, b.name+".json")] = append(data, '\n')
	}
	return out, nil
}
