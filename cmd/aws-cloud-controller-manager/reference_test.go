package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
)

var update = flag.Bool("update", false, "write the reference pages again")

const (
	metricsPage = "../../docs/reference/metrics.md"
	flagsPage   = "../../docs/reference/ccm.md"
)

// hold compares a page with what it should be, or writes it.
func hold(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s is old; run go test ./cmd/aws-cloud-controller-manager -update", path)
	}
}

// origins are the sections of the page, by the first prefix that a name has.
var origins = []struct {
	title, about string
	prefixes     []string
}{
	{"Ours", "These exist in this library only.", []string{"transplant_"}},
	{
		"Of the controllers, by upstream's names",
		"Upstream's controllers have these under the same names, with the same labels, buckets and types. A test compares them.",
		[]string{
			"node_controller_",
			"cloud_node_lifecycle_controller_",
			"node_lifecycle_controller_",
			"service_controller_",
			"route_controller_",
			"node_ipam_controller_",
			"running_managed_controllers",
			"leader_election_",
		},
	},
	{"Of the AWS provider", "Upstream's provider has these under the same names.", []string{"cloudprovider_aws_"}},
	{"Of the libraries", "Every program on the same Kubernetes libraries has these.", []string{""}},
}

// unused are the runtime's, and those of an API server's libraries, which are linked and never set.
var unused = regexp.MustCompile(`^(go|process|promhttp|apiserver|aggregator|etcd|cardinality|disabled|hidden|registered|feature)_`)

func origin(name string) int {
	for i, o := range origins {
		for _, prefix := range o.prefixes {
			if strings.HasPrefix(name, prefix) {
				return i
			}
		}
	}
	return len(origins) - 1
}

func TestTheMetricsPageIsWhatTheRegistryServes(t *testing.T) {
	link(t)
	all := registered(t)
	var b strings.Builder
	b.WriteString("# Metrics\n\nWhat the cloud-controller-manager serves at `/metrics`. Generated from its registry; do not edit.\n")
	for i, o := range origins {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| name | type | stability | labels | |\n|---|---|---|---|---|\n", o.title, o.about)
		for _, name := range sets.List(sets.KeySet(all)) {
			s := all[name]
			if origin(name) != i || unused.MatchString(name) {
				continue
			}
			fmt.Fprintf(
				&b,
				"| `%s` | %s | %s | %s | %s |\n",
				name,
				s.Type,
				strings.ToLower(s.Stability),
				strings.Join(s.Labels, ", "),
				cell(sentence(s.Help)+bucketsOf(s)),
			)
		}
	}
	b.WriteString(
		"\nNext to these there are the Go runtime's (`go_*`), the process's (`process_*`) and some of the API server's libraries, which are never set. `/metrics/slis` has the health checks as series.\n",
	)
	hold(t, metricsPage, b.String())
}

// sentence is a help text with a full stop at its end: most have one.
func sentence(help string) string {
	help = strings.TrimSpace(help)
	if help == "" || strings.HasSuffix(help, ".") {
		return help
	}
	return help + "."
}

func bucketsOf(s series) string {
	if len(s.Buckets) == 0 {
		return ""
	}
	var bounds []string
	for _, bound := range s.Buckets {
		bounds = append(bounds, strconv.FormatFloat(bound, 'g', 5, 64))
	}
	return " Buckets: " + strings.Join(bounds, ", ") + "."
}

// cell is text for a cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(text), "\n", " "), "|", `\|`)
}

func TestTheFlagsPageIsWhatTheCommandTakes(t *testing.T) {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	library := app.NewCloudControllerManagerCommand(
		opts,
		nil,
		app.DefaultInitFuncConstructors,
		names.CCMControllerAliases(),
		cliflag.NamedFlagSets{},
		wait.NeverStop,
	)
	command, err := newCommand()
	if err != nil {
		t.Fatal(err)
	}
	var raised, more strings.Builder
	command.Flags().VisitAll(func(f *pflag.Flag) {
		switch theirs := library.Flags().Lookup(f.Name); {
		case f.Name == "help":
		case theirs == nil:
			fmt.Fprintf(&more, "| `--%s` | %s | %s |\n", f.Name, value(f.DefValue), cell(f.Usage))
		case theirs.DefValue != f.DefValue:
			fmt.Fprintf(&raised, "| `--%s` | %s | %s | %s |\n", f.Name, value(theirs.DefValue), value(f.DefValue), cell(f.Usage))
		}
	})
	hold(
		t,
		flagsPage,
		"# Flags of the cloud-controller-manager\n\nGenerated from the program; do not edit. Every flag of upstream's cloud-controller-manager 0.37 is there and means the "+
			"same; `--help` prints all of them.\n\n## Defaults that differ from upstream's\n\nA flag that is given is obeyed. Why they differ is in "+
			"[the explanation](../explanation/cloud-controller-manager.md#defaults).\n\n| flag | upstream | here | |\n|---|---|---|---|\n"+raised.String()+
			"\n## Flags that upstream does not have\n\n| flag | default | |\n|---|---|---|\n"+more.String(),
	)
}

func value(text string) string {
	if text == "" || text == "[]" {
		return ""
	}
	return "`" + text + "`"
}
