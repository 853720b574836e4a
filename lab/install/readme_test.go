package install

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/transplant-dev/transplant/internal/manifests"
)

// valuesHead begins the table of a chart's README. What is above it is written by hand.
const valuesHead = "## Values\n"

// TestChartsListTheirValues holds the table of each chart's README to its values.yaml.
func TestChartsListTheirValues(t *testing.T) {
	for _, chart := range []string{manifests.ChartDir, operatorChart} {
		dir := filepath.Join("..", "..", chart)
		text, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var values yaml.Node
		if err := yaml.Unmarshal(text, &values); err != nil {
			t.Fatal(err)
		}
		page := filepath.Join(dir, "README.md")
		got, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		head, _, found := strings.Cut(string(got), valuesHead)
		if !found {
			t.Fatalf("%s has no line %q", page, strings.TrimSpace(valuesHead))
		}
		want := head + valuesHead + "\n| Value | Default | Meaning |\n|---|---|---|\n" + strings.Join(valueRows(t, "", values.Content[0]), "")
		if *update {
			if err := os.WriteFile(page, []byte(want), 0o644); err != nil { //nolint:gosec // as the repository has its files
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, string(got)); diff != "" && !*update {
			t.Errorf("%s lists other values than values.yaml has; run go test ./install -run ChartsListTheirValues -update (-values.yaml +README.md):\n%s", page, diff)
		}
	}
}

// inTable makes a comment what a cell of a table has.
var inTable = strings.NewReplacer("\n# ", " ", "# ", "", "<", "&lt;", "|", "\\|")

// valueRows are the rows of a map of values, the nested ones by their paths. A map that is empty, or is given as a whole, is one row.
func valueRows(t *testing.T, prefix string, values *yaml.Node) []string {
	var rows []string
	for i := 0; i < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		meaning := strings.TrimSpace(inTable.Replace(key.HeadComment))
		name := prefix + key.Value
		isGroup := value.Kind == yaml.MappingNode && len(value.Content) > 0 && value.Style != yaml.FlowStyle && !strings.Contains(key.Value, "nodeSelector")
		if isGroup {
			if meaning != "" {
				rows = append(rows, fmt.Sprintf("| `%s` | | %s |\n", name, meaning))
			}
			rows = append(rows, valueRows(t, name+".", value)...)
			continue
		}
		row := fmt.Sprintf("| `%s` | %s | %s |\n", name, defaultOf(t, value), meaning)
		rows = append(rows, strings.Replace(row, "|  |", "| |", 1))
	}
	return rows
}

// defaultOf is a value as it is written on one line.
func defaultOf(t *testing.T, value *yaml.Node) string {
	line := *value
	line.Style, line.HeadComment, line.LineComment, line.FootComment = yaml.FlowStyle, "", "", ""
	if value.Kind == yaml.ScalarNode {
		line.Style = value.Style
	}
	text, err := yaml.Marshal(&line)
	if err != nil {
		t.Fatal(err)
	}
	return "`" + strings.TrimSpace(string(text)) + "`"
}
