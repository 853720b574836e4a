package migrationconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// head returns the first lines of a file of a version.
func head(version string) string {
	return "apiVersion: controllermanager.config.k8s.io/" + version + "\nkind: LeaderMigrationConfiguration\n"
}

const lease = "leaderName: cloud-provider-extraction-migration\n"

func TestParseReadsEveryVersion(t *testing.T) {
	leaders := []Leader{{"route", "kube-controller-manager"}, {"service", AnyComponent}}
	const list = "controllerLeaders:\n- name: route\n  component: kube-controller-manager\n- name: service\n  component: \"*\"\n"
	for _, c := range []struct {
		name string
		file string
		want Config
	}{
		{"v1", head(V1) + lease + list, Config{V1, component.MigrationLease, "", leaders}},
		{"v1beta1", head(V1Beta1) + lease + "resourceLock: leases\n" + list, Config{V1Beta1, component.MigrationLease, "leases", leaders}},
		{"v1alpha1 with a lock that managers accept and cannot make", head(V1Alpha1) + lease + "resourceLock: endpoints\n" + list,
			Config{V1Alpha1, component.MigrationLease, "endpoints", leaders}},
		{"v1 with the field that v1 does not have, which Judge weighs", head(V1) + lease + "resourceLock: leases\n" + list,
			Config{V1, component.MigrationLease, "leases", leaders}},
		{"an empty list", head(V1) + lease + "controllerLeaders: []\n", Config{V1, component.MigrationLease, "", nil}},
		{"no list", head(V1) + lease, Config{V1, component.MigrationLease, "", nil}},
		{"JSON", `{"apiVersion":"controllermanager.config.k8s.io/v1","kind":"LeaderMigrationConfiguration","leaderName":"m","controllerLeaders":[]}`,
			Config{V1, "m", "", nil}},
		{"Windows line ends", strings.ReplaceAll(head(V1)+lease+list, "\n", "\r\n"), Config{V1, component.MigrationLease, "", leaders}},
		{"anchors and aliases", head(V1) + lease + "controllerLeaders:\n- {name: route, component: &c kube-controller-manager}\n- {name: service, component: *c}\n",
			Config{V1, component.MigrationLease, "", []Leader{{"route", "kube-controller-manager"}, {"service", "kube-controller-manager"}}}},
		{"one document between markers", "---\n# ours\n" + head(V1) + lease + "---\n# nothing\n", Config{V1, component.MigrationLease, "", nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse([]byte(c.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseReportsEverythingThatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name string
		file string
		want []string // code and problem
	}{
		{"an empty file", "", []string{"WrongKind: the file holds nothing, not a LeaderMigrationConfiguration"}},
		{"text", "leader migration", []string{"WrongKind: the file holds text, not a LeaderMigrationConfiguration"}},
		{"a list", "- a\n", []string{"WrongKind: the file holds a list, not a LeaderMigrationConfiguration"}},
		{"not YAML", "a: [", []string{"NotYAML: line 1: did not find expected node content"}},
		{"YAML in braces, which managers take for JSON", "{kind: LeaderMigrationConfiguration}", []string{
			"NotYAML: the file begins like JSON, which managers then read it as, and is not: invalid character 'k' looking for beginning of object key string",
			`WrongKind: the file says that it is "LeaderMigrationConfiguration" of ""; write apiVersion: controllermanager.config.k8s.io/v1 and kind: LeaderMigrationConfiguration`,
		}},
		{"a duplicate key", head(V1) + lease + lease, []string{`NotYAML: unmarshal errors: line 4: key "leaderName" already set in map`}},
		{"the wildcard as the documentation prints it", head(V1) + lease + "controllerLeaders:\n  - name: route\n    component: *\n  - name: service\n    component: *  # both\n",
			[]string{
				`UnquotedWildcard: line 6: component: * is not valid YAML: an asterisk without quotes starts an alias; write component: "*"`,
				`UnquotedWildcard: line 8: component: * is not valid YAML: an asterisk without quotes starts an alias; write component: "*"`,
			}},
		{"the wildcard in flow style, and a comment with one", head(V1) + lease + "# component: *\ncontrollerLeaders: [{name: route, component: *}, {component: *, name: service}]\n",
			[]string{
				`UnquotedWildcard: line 5: component: * is not valid YAML: an asterisk without quotes starts an alias; write component: "*"`,
				`UnquotedWildcard: line 5: component: * is not valid YAML: an asterisk without quotes starts an alias; write component: "*"`,
			}},
		{"the documentation's node IPAM sample, quoted", head(V1) + lease + "controllerLeaders:\n- name: route\n  component: \"*\"\n- name: nodeipam\n- component: \"*\"\n",
			[]string{
				`StrayListItem: controllerLeaders[1]: the item has only a name ("nodeipam") and the one below it only a component ("*"); remove the "-" before "component" in the item below`,
			}},
		{"the documentation's node IPAM sample, to the letter", head(V1) + lease + "controllerLeaders:\n- name: nodeipam\n- component: *\n",
			[]string{
				`UnquotedWildcard: line 6: component: * is not valid YAML: an asterisk without quotes starts an alias; write component: "*"`,
				`StrayListItem: controllerLeaders[0]: the item has only a name ("nodeipam") and the one below it only a component ("*"); remove the "-" before "component" in the item below`,
			}},
		{"a wildcard and another fault of YAML", "a: [\ncomponent: *\n", []string{
			`UnquotedWildcard: line 2: component: * is not valid YAML: an asterisk without quotes starts an alias; write component: "*"`,
			`NotYAML: line 2: did not find expected ',' or ']'`,
		}},
		{"another kind", "apiVersion: v1\nkind: Pod\n", []string{
			`WrongKind: the file says that it is "Pod" of "v1"; write apiVersion: controllermanager.config.k8s.io/v1 and kind: LeaderMigrationConfiguration`,
		}},
		{"a version that does not exist", head("v2") + lease, []string{
			`WrongKind: the file says that it is "LeaderMigrationConfiguration" of "controllermanager.config.k8s.io/v2"; write apiVersion: controllermanager.config.k8s.io/v1 and kind: LeaderMigrationConfiguration`,
		}},
		{"two documents", head(V1) + lease + "---\n" + head(V1) + lease, []string{
			`SeveralDocuments: the file holds several YAML documents, and managers read only the first; keep one`,
		}},
		{"fields that do not exist, one of them misspelt", head(V1) + "leadername: m\n" + lease + "namespace: kube-system\ncontrollerLeaders:\n- {name: route, component: \"*\", Component: x}\n",
			[]string{
				`UnknownField: controllerLeaders[0].Component: there is no such field: managers up to 1.31 ignore it, later ones exit; write component`,
				`UnknownField: leadername: there is no such field: managers up to 1.31 ignore it, later ones exit; write leaderName`,
				`UnknownField: namespace: there is no such field: managers up to 1.31 ignore it, later ones exit; remove it`,
			}},
		{"values of other types", head(V1) + "leaderName: 5\ncontrollerLeaders:\n- {name: true, component: [a]}\n- route\n- null\n",
			[]string{
				`WrongType: leaderName: is a number, not text; put it in quotes if it is meant as text`,
				`WrongType: controllerLeaders[0].name: is a truth value, not text; put it in quotes if it is meant as text`,
				`WrongType: controllerLeaders[0].component: is a list, not text; put it in quotes if it is meant as text`,
				`WrongType: controllerLeaders[1]: is text, not a name and a component`,
				`WrongType: controllerLeaders[2]: is nothing, not a name and a component`,
			}},
		{"a mapping instead of the list", head(V1) + lease + "controllerLeaders: {route: x}\n", []string{
			`WrongType: controllerLeaders: is a mapping, not a list`,
		}},
		{"missing values", head(V1Beta1) + "controllerLeaders:\n- {name: route}\n- {component: \"*\"}\n- {}\n", []string{
			`MissingValue: leaderName: is missing or empty`,
			`MissingValue: resourceLock: v1beta1 needs it; write resourceLock: leases`,
			`StrayListItem: controllerLeaders[0]: the item has only a name ("route") and the one below it only a component ("*"); remove the "-" before "component" in the item below`,
			`MissingValue: controllerLeaders[2].name: is missing or empty`,
			`MissingValue: controllerLeaders[2].component: is missing or empty`,
		}},
		{"a lock that does not exist", head(V1Beta1) + lease + "resourceLock: configmaps\n", []string{
			`BadResourceLock: resourceLock: there is no lock "configmaps"; write resourceLock: leases`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.file))
			var got []string
			for _, p := range ProblemsOf(err) {
				got = append(got, string(p.Code)+": "+strings.Join(strings.Fields(p.String()), " "))
				if !p.Blocking {
					t.Errorf("%s does not block, though managers refuse such a file", p.Code)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s\nerror: %v", diff, err)
			}
		})
	}
}

func TestParseReturnsWhatCouldBeReadBesideTheError(t *testing.T) {
	got, err := Parse([]byte(head(V1) + lease + "extra: 1\ncontrollerLeaders:\n- name: nodeipam\n- component: *\n"))
	if err == nil {
		t.Fatal("no error")
	}
	want := Config{Version: V1, LeaderName: component.MigrationLease, Leaders: []Leader{{"nodeipam", AnyComponent}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

// FuzzParse checks that no input makes the parser fail, and that what it accepts has all that a manager needs and can be judged.
func FuzzParse(f *testing.F) {
	f.Add([]byte(head(V1) + lease + "controllerLeaders:\n- name: nodeipam\n- component: *\n"))
	f.Add([]byte(head(V1Beta1) + lease + "resourceLock: leases\ncontrollerLeaders: [{name: route, component: \"*\"}]\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("component: *\r\n---\ncomponent: *"))
	f.Add([]byte("{\"apiVersion\": 1}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := Parse(data)
		if err != nil {
			if len(ProblemsOf(err)) == 0 {
				t.Fatalf("an error without a problem: %v", err)
			}
			return
		}
		if config.LeaderName == "" || config.Version == "" {
			t.Errorf("accepted without a lease or a version: %+v", config)
		}
		for _, leader := range config.Leaders {
			if leader.Name == "" || leader.Component == "" {
				t.Errorf("accepted an incomplete leader: %+v", leader)
			}
		}
		for _, component := range controllernames.Components {
			for _, p := range Judge(component, 26, config) {
				if p.Code == "" || p.Summary == "" {
					t.Errorf("a problem without code or words: %+v", p)
				}
			}
		}
	})
}
