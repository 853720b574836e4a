package cloudprovider_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
)

var update = flag.Bool("update", false, "write docs/reference/support-matrix.md and the table of README.md again")

const (
	matrixPage  = "../../../docs/reference/support-matrix.md"
	readme      = "../../../README.md"
	tableBegins = "<!-- generated: the short support matrix -->\n"
	tableEnds   = "<!-- end of the short support matrix -->\n"
)

// trial is a migration that a test of the lab does, there and back.
type trial struct {
	minor int
	words string
	// tests are the functions that do it, by file.
	tests map[string]string
}

// trials are what "tried" means for a provider: a claim without a test in it is none.
var trials = map[string]trial{
	cloudprovider.AWS: {26, "on kubeadm clusters of real kubelets on one machine, with a simulated AWS", map[string]string{
		"lab/hosts/stage/e2e_test.go":    "TestRealHostsGoOutOfTreeAndBack",
		"lab/trial/migration_test.go":    "TestAMigrationMovesTheLoopsAndARollbackBringsThemBack",
		"lab/faults/processlab/":         "TestEveryFaultAtEveryStep",
		"lab/hosts/stage/faults_test.go": "TestRealHostsGetOverWhatGoesWrong",
	}},
	cloudprovider.Azure: {26, "in the lab, with a simulated Resource Manager", map[string]string{
		"lab/trial/clouds_test.go": "TestAClusterOnAzureIsMigratedAndBroughtBack",
	}},
	cloudprovider.GCE: {30, "in the lab, with a simulated Compute Engine", map[string]string{
		"lab/trial/clouds_test.go": "TestAClusterOnGCEIsMigratedAndBroughtBack",
	}},
	cloudprovider.OpenStack: {25, "in the lab, with a real OpenStack (Zed) and a simulated one", map[string]string{
		"lab/trial/clouds_test.go": "TestAClusterOnARealOpenStackIsMigratedAndBroughtBack",
	}},
	cloudprovider.VSphere: {26, "in the lab, with a simulated vCenter", map[string]string{
		"lab/trial/clouds_test.go": "TestAClusterOnVSphereIsMigratedAndBroughtBack",
	}},
}

// asked are the providers whose own code --prove can ask: those whose program has the sub-command.
var asked = map[string]string{
	cloudprovider.AWS: "provider/aws/preview", cloudprovider.Azure: "provider/azure/preview", cloudprovider.GCE: "provider/gce/preview",
	cloudprovider.OpenStack: "provider/openstack/preview", cloudprovider.VSphere: "provider/vsphere/preview",
}

func TestTheSupportMatrixIsWhatTheCatalogueHolds(t *testing.T) {
	page, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, opened := strings.Cut(string(page), tableBegins)
	_, after, closed := strings.Cut(rest, tableEnds)
	if !opened || !closed {
		t.Fatalf("README.md has no table between %q and %q", tableBegins, tableEnds)
	}
	for file, want := range map[string]string{matrixPage: supportMatrix(), readme: before + tableBegins + shortMatrix() + tableEnds + after} {
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(have)); diff != "" {
			t.Errorf("%s is old; run go test ./internal/catalogue/cloudprovider -update:\n%s", file, diff)
		}
	}
}

func TestWhatTheMatrixCallsTriedIsATest(t *testing.T) {
	for provider, tried := range trials {
		for file, name := range tried.tests {
			if !isIn(t, filepath.Join("../../..", file), "func "+name) {
				t.Errorf("%s: %s has no test %s", provider, file, name)
			}
		}
		if p, _ := cloudprovider.Lookup(provider); tried.minor > p.LastInTree {
			t.Errorf("%s is tried with 1.%d, which has no such provider", provider, tried.minor)
		}
	}
	for provider, dir := range asked {
		if _, err := os.Stat(filepath.Join("../../..", dir)); err != nil {
			t.Errorf("%s: %v", provider, err)
		}
	}
}

// isIn reports whether a file, or one of the tests of a directory, holds a text.
func isIn(t *testing.T, path, text string) bool {
	t.Helper()
	files := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		files, _ = filepath.Glob(filepath.Join(path, "*_test.go")) // the pattern is a good one
	}
	return slices.ContainsFunc(files, func(file string) bool {
		data, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(data), text)
	})
}

// migratable are the providers that can be migrated, by name.
func migratable() []cloudprovider.Provider {
	return slices.DeleteFunc(cloudprovider.Providers(), func(p cloudprovider.Provider) bool { return p.Unsupported != "" })
}

func span(first, last int) string { return fmt.Sprintf("1.%d to 1.%d", first, last) }

func triedWords(p cloudprovider.Provider) string {
	tried, ok := trials[p.Name]
	if !ok {
		return "never tried"
	}
	words := fmt.Sprintf("tried with 1.%d %s", tried.minor, tried.words)
	if minors := minorsOf(versionsRun(p.Name)); len(minors) > 1 {
		words += "; static pods with " + minors[0] + " to " + minors[len(minors)-1]
	}
	return words
}

// versionsRun are those under which static pods with a provider were migrated and brought back, one a minor.
func versionsRun(provider string) (versions []string) {
	var runs []struct {
		Provider, Version, Shape string
		Passed                   bool
	}
	data, err := os.ReadFile("../../../docs/reference/provider-runs.json")
	if err == nil {
		err = json.Unmarshal(data, &runs)
	}
	if err != nil {
		panic(err) // the file is in the repository
	}
	for _, r := range runs {
		if r.Provider == provider && r.Shape == "static pods" && r.Passed && !slices.Contains(versions, r.Version) {
			versions = append(versions, r.Version)
		}
	}
	slices.Sort(versions)
	return versions
}

// ownWords says for which minors there is a manager of ours.
func ownWords(p cloudprovider.Provider) string {
	first, last := proven.Minors()
	if _, ok := cloudprovider.OwnImage(p.Name, first); !ok {
		return "none"
	}
	out := span(first, last)
	if isDefault(p.Name) {
		return out + ", the default"
	}
	return out + ", with `--image=ours`"
}

func isDefault(provider string) bool {
	first, _ := proven.Minors()
	image, ok := cloudprovider.ImageFor(provider, first)
	return ok && image.Ours
}

// shortMatrix is the table of the README.
func shortMatrix() string {
	var b strings.Builder
	b.WriteString("| | in tree until | check, plan, diff | apply, rollback | our manager |\n|---|---|---|---|---|\n")
	for _, p := range migratable() {
		fmt.Fprintf(&b, "| %s | 1.%d | %s | %s | %s |\n", cloudprovider.ShortName(p.Name), p.LastInTree, span(component.Oldest, p.LastInTree), triedWords(p), ownWords(p))
	}
	first, last := proven.Minors()
	ours, _ := cloudprovider.OwnImage(cloudprovider.AWS, first)
	fmt.Fprintf(&b, "\nOur manager is built from the libraries of Kubernetes 1.%d. [The skew policy](https://kubernetes.io/releases/version-skew-policy/)\n"+
		"covers it with an API server of 1.%d, and not with older ones. Tests run the AWS manager with API servers of each minor from %s.\nThey run the others with %s. `--image=official` takes the provider's own image of the cluster's minor.\n",
		ours.Minor, ours.Minor, span(first, last), strings.Join(minorsOf(proven.VersionsOf(cloudprovider.OpenStack)), ", "))
	return b.String()
}

// minorsOf are versions as 1.26.
func minorsOf(versions []string) []string {
	var out []string
	for _, v := range versions {
		parts := strings.SplitN(strings.TrimPrefix(v, "v"), ".", 3)
		out = append(out, parts[0]+"."+parts[1])
	}
	return out
}

func supportMatrix() string {
	var b strings.Builder
	b.WriteString("# Support matrix\n\nGenerated from the catalogue (`internal/catalogue`, `ccm/proven`); do not edit. What \"tried\" means is a test of the lab that this page's test names.\n" +
		"Which kinds of control plane were tried is in [known limits](../explanation/known-limits.md#which-shapes-were-tried).\n\n## Providers\n\n")
	b.WriteString(providerTable())
	var read []string
	for _, p := range migratable() {
		if _, ok := cloudprovider.InventoryOf(p.Name); ok {
			read = append(read, p.Name)
		}
	}
	fmt.Fprintf(&b, "\n%s are read (`--cloud`) and asked about each node (`--prove`) through the provider's program.\n", cloudprovider.Enumerate("and", read))
	b.WriteString("\n## Which manager a plan takes\n\n")
	b.WriteString(managerTable())
	b.WriteString("\n## API servers that ours was run against\n\nThe first and the last minor are the ends of its range. `make skew` runs all of them.\n\n| program | kube-apiserver |\n|---|---|\n")
	for _, provider := range cloudprovider.OwnProviders() {
		fmt.Fprintf(&b, "| `%s-cloud-controller-manager` | %s |\n", provider, strings.Join(proven.VersionsOf(provider), ", "))
	}
	b.WriteString("\n## Official managers\n\nThe tag that a plan takes for a cluster of this minor. None where the makers published none that a source names: give one with `--image`.\n\n")
	b.WriteString(officialTable())
	b.WriteString("\n## Volumes\n\nWhat takes the place of the in-tree volume plugins ([how](../how-to/volumes-and-image-credentials.md), [what was tried](../explanation/known-limits.md#which-volumes-were-tried)).\n\n" +
		"| plugin | in tree until | CSI driver | gate of its migration |\n|---|---|---|---|\n")
	for _, p := range migratable() {
		for _, v := range p.Plugins {
			fmt.Fprintf(&b, "| `%s` | 1.%d | `%s` | `%s` |\n", v.Name, v.LastInTree, v.Driver, v.MigrationGate)
		}
	}
	b.WriteString("\n## Image credentials\n\nWhat takes the place of the kubelet's own credentials for the cloud's registry.\n\n" +
		"| provider | built in until | binary | images | from |\n|---|---|---|---|---|\n")
	for _, p := range migratable() {
		if c := p.Credentials; c != nil {
			fmt.Fprintf(&b, "| %s | 1.%d | `%s` | `%s` | `%s` |\n", cloudprovider.ShortName(p.Name), c.LastInTree, c.Binary, strings.Join(c.MatchImages, "`, `"), c.Source)
		}
	}
	return b.String()
}

func providerTable() string {
	var b strings.Builder
	b.WriteString("| provider | in tree until | check, plan, diff | apply, rollback | loops that move | strategies with the official manager | `--cloud` | `--prove` asks its code |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	for _, p := range migratable() {
		var loops []string
		if p.LoadBalancers {
			loops = append(loops, "service")
		}
		if p.Routes {
			loops = append(loops, "route")
		}
		loops = append(loops, "node lifecycle")
		if len(p.Allocators) > 0 {
			loops = append(loops, "node IPAM where it asks the cloud")
		}
		strategies := "leader migration, downtime"
		if !cloudprovider.HasLeaderMigration(p.Name) {
			strategies = "downtime"
		}
		_, read := cloudprovider.InventoryOf(p.Name)
		fmt.Fprintf(&b, "| %s | 1.%d | %s | %s | %s | %s | %s | %s |\n", p.Title, p.LastInTree, span(component.Oldest, p.LastInTree), triedWords(p),
			strings.Join(loops, ", "), strategies, yes(read), yes(asked[p.Name] != ""))
	}
	return b.String()
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// managerTable says for each value of --image what it stands for.
func managerTable() string {
	first, last := proven.Minors()
	var byDefault []string
	var others []string // names of providers
	for _, name := range cloudprovider.OwnProviders() {
		if isDefault(name) {
			byDefault = append(byDefault, cloudprovider.ShortName(name))
		} else {
			others = append(others, name)
		}
	}
	image, _ := cloudprovider.OwnImage(cloudprovider.AWS, first)
	otherClouds := cloudprovider.Enumerate("and", others)
	return fmt.Sprintf(`| %[1]s | provider and cluster | built from | version skew policy of Kubernetes | fence |
|---|---|---|---|---|
| not given | %[2]s, %[4]s | k8s.io/cloud-provider 0.%[5]d, ours | not covered below 1.%[5]d: it is newer than the API server; [tests](#api-servers-that-ours-was-run-against) take its place | yes |
| %[6]s | %[3]s, %[4]s | 0.%[5]d, ours | not covered below 1.%[5]d; tests run these programs against both ends of the range, on the library that the %[2]s one is built on | yes |
| not given | other clouds, other minors | the cluster's own minor, official | covered | no |
| %[7]s | every cloud and minor of [the list](#official-managers) | the cluster's own minor, official | covered | no |
| an image of yours | any | what its tag says | covered if it is of the cluster's minor or the one before ([VER-001](checks.md#ver-001)) | only if it is built on package %[8]s |

The official managers of GCE and Azure were not run: the lab builds neither, and what was [tried](providers.md) there is ours.
`, "`--image`", strings.Join(byDefault, ", "), otherClouds, span(first, last), image.Minor, "`ours`", "`official`", "`ccm`")
}

// officialTable has the tags by minor, and where they are.
func officialTable() string {
	var b strings.Builder
	b.WriteString("| Kubernetes |")
	repositories := map[string][]string{}
	for _, p := range migratable() {
		fmt.Fprintf(&b, " %s |", cloudprovider.ShortName(p.Name))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(migratable())) + "\n")
	for minor := component.Oldest; minor <= component.Newest; minor++ {
		fmt.Fprintf(&b, "| 1.%d |", minor)
		for _, p := range migratable() {
			image, ok := cloudprovider.OfficialImage(p.Name, minor)
			repository, tag, _ := strings.Cut(image.Ref, ":")
			if ok && !slices.Contains(repositories[p.Name], repository) {
				repositories[p.Name] = append(repositories[p.Name], repository)
			}
			fmt.Fprintf(&b, " %s |", tag)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for _, p := range migratable() {
		fmt.Fprintf(&b, "- %s: `%s`\n", cloudprovider.ShortName(p.Name), strings.Join(repositories[p.Name], "`, later `"))
	}
	return b.String()
}
