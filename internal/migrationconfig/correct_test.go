package migrationconfig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// documented is the sample of the Kubernetes documentation for a migration that moves node IPAM too, as it is printed there: the asterisk is not quoted,
// and the last component is a list item of its own.
const documented = `kind: LeaderMigrationConfiguration
apiVersion: controllermanager.config.k8s.io/v1
leaderName: cloud-provider-extraction-migration
controllerLeaders:
  - name: route
    component: *
  - name: service
    component: *
  - name: cloud-node-lifecycle
    component: *
  - name: nodeipam
  - component: *
`

func TestCorrect(t *testing.T) {
	const short = "controllerLeaders:\n- name: route\n  component: \"*\"\n- name: service\n  component: \"*\"\n- name: cloud-node-lifecycle\n  component: \"*\"\n"
	for _, c := range []struct {
		name, file string
		component  controllernames.Component
		minor      int
		want       string
	}{
		{"the documented sample with node IPAM", documented, controllernames.KubeControllerManager, 26, head(V1) + lease + short + "- name: nodeipam\n  component: \"*\"\n"},
		{
			"the same for the names of 1.30", documented, controllernames.KubeControllerManager, 30,
			head(V1) + lease + "controllerLeaders:\n- name: node-route-controller\n  component: \"*\"\n- name: service-lb-controller\n  component: \"*\"\n" +
				"- name: cloud-node-lifecycle-controller\n  component: \"*\"\n- name: node-ipam-controller\n  component: \"*\"\n",
		},
		{"an apiVersion that came later", head(V1) + lease + short, controllernames.KubeControllerManager, 22, head(V1Beta1) + lease + "resourceLock: leases\n" + short},
		{"an apiVersion that never was", strings.Replace(head(V1)+lease, "/v1", "/v2", 1) + short, controllernames.KubeControllerManager, 26, head(V1) + lease + short},
		{"tabs", strings.ReplaceAll(head(V1)+lease+short, "  component", "\tcomponent"), controllernames.KubeControllerManager, 26, head(V1) + lease + short},
		{"a lock of v1beta1 in v1", head(V1) + lease + "resourceLock: leases\n" + short, controllernames.KubeControllerManager, 26, head(V1) + lease + short},
		{
			"JSON with a comma too many, and another lease", `{"apiVersion":"controllermanager.config.k8s.io/v1","kind":"LeaderMigrationConfiguration","leaderName":"mine",` +
				`"controllerLeaders":[{"name":"route","component":"*"},{"name":"service","component":"*"},{"name":"cloud-node-lifecycle","component":"*"},]}`,
			controllernames.KubeControllerManager, 26, head(V1) + "leaderName: mine\n" + short,
		},
		{
			"another controller keeps its place", head(V1) + lease + short + "- name: attachdetach\n  component: kube-controller-manager\n", controllernames.KubeControllerManager, 26,
			head(V1) + lease + short + "- name: attachdetach\n  component: kube-controller-manager\n",
		},
		{"a component that does not exist", head(V1) + lease + strings.Replace(short, `"*"`, "kube-apiserver", 1), controllernames.KubeControllerManager, 26, head(V1) + lease + short},
		{"nothing that could be read", "a: [", controllernames.KubeControllerManager, 26,
			string(write(V1, component.MigrationLease, Default(controllernames.KubeControllerManager, 26).Leaders))},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := Correct(c.component, c.minor, []byte(c.file))
			if !ok {
				t.Fatal("there is no corrected file")
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Errorf("file (-want +got):\n%s", diff)
			}
		})
	}
	if _, ok := Correct(controllernames.KubeControllerManager, 20, []byte(documented)); ok {
		t.Error("a version without leader migration has a file")
	}
}

func TestWhatIsCorrectedIsRightForEveryVersion(t *testing.T) {
	for _, file := range []string{
		"", "a: [", documented, "[]", "kind: Deployment\n", head(V1) + lease, "controllerLeaders: {}\n", head(V1Alpha1) + "controllerLeaders:\n- name: service-controller\n  component: nobody\n- 7\n- name: ''\n",
		head(V1) + "leaderName: 'yes'\ncontrollerLeaders:\n- name: service\n  component: cloud-controller-manager\n- name: service-lb-controller\n  component: kube-controller-manager\n",
	} {
		for _, component := range controllernames.Components {
			for minor := firstMinor; minor <= 37; minor++ {
				got, _ := Correct(component, minor, []byte(file))
				config, err := Parse(got)
				if err != nil {
					t.Fatalf("%q for %s 1.%d: %v\n%s", file, component, minor, err, got)
				}
				if problems := Blocking(Judge(component, minor, config)); len(problems) > 0 {
					t.Errorf("%q for %s 1.%d: %v\n%s", file, component, minor, problems, got)
				}
			}
		}
	}
}

func FuzzCorrect(f *testing.F) {
	f.Add([]byte(documented), 26)
	f.Add([]byte("{leaderName: \"\\u2028\", controllerLeaders: [{name: '- x', component: '*'}]}"), 21)
	f.Add([]byte("controllerLeaders:\n-\tname: service\n"), 37)
	f.Fuzz(func(t *testing.T, file []byte, minor int) {
		if minor < firstMinor || minor > 60 {
			t.Skip("no version of a manager")
		}
		for _, component := range controllernames.Components {
			got, _ := Correct(component, minor, file)
			config, err := Parse(got)
			if err != nil {
				t.Fatalf("%s 1.%d: %v\n%s", component, minor, err, got)
			}
			if problems := Blocking(Judge(component, minor, config)); len(problems) > 0 {
				t.Fatalf("%s 1.%d: %v\n%s", component, minor, problems, got)
			}
		}
	})
}

func TestCommandWritesTheFile(t *testing.T) {
	file := write(V1, "it's", []Leader{{"service", AnyComponent}, {"a b", "$HOME"}})
	path := filepath.Join(t.TempDir(), "leadermigration.conf")
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", Command(file, path)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(file), string(got)); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}

func TestParseTakesNoTabs(t *testing.T) {
	_, err := Parse([]byte(head(V1) + lease + "controllerLeaders:\n-\tname: service\n\tcomponent: '*'\n"))
	problems := ProblemsOf(err)
	if len(problems) != 1 || problems[0].Code != TabIndent || problems[0].Field != "line 5" {
		t.Errorf("got %v, want tabs in line 5", problems)
	}
}
