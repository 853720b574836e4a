package manifests

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

var update = flag.Bool("update", false, "rewrite what is rendered into the repository")

const root = "../.."

// rendered are the directories in which every file is rendered.
var rendered = []string{KustomizeDir, PlainDir, GuideDir, ChartDir + "/files"}

func TestTheFilesOfTheRepositoryAreRenderedFromTheCode(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if name != ObserverFile && !slices.ContainsFunc(rendered, func(dir string) bool { return strings.HasPrefix(name, dir+"/") }) {
			t.Errorf("%s is in none of the directories %v", name, rendered)
		}
		path := filepath.Join(root, name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%v; run make generate", err)
			continue
		}
		if diff := cmp.Diff(string(have), string(want)); diff != "" {
			t.Errorf("%s is not what the code renders; run make generate (-have +want):\n%s", name, diff)
		}
	}
	for _, dir := range rendered {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err == nil && files[filepath.ToSlash(name)] == nil {
				t.Errorf("%s is not rendered by anything; delete it", name)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestWhatEachManagerIsInstalledWith(t *testing.T) {
	const kubeSystem = "kube-system"
	for _, provider := range Providers() {
		objects, err := Manager(provider)
		if err != nil {
			t.Fatal(err)
		}
		var refs []string
		for _, o := range objects {
			refs = append(refs, layout.Ref(o))
			if l := o["metadata"].(layout.Object)["labels"].(layout.Object); l["app.kubernetes.io/managed-by"] != nil {
				t.Errorf("%s: %s says that a migration made it: %v", provider, layout.Ref(o), l)
			}
		}
		state := []string{"ConfigMap/" + kubeSystem + "/transplant-service-state-" + provider}
		if provider == cloudprovider.GCE {
			state = append(state, layout.CloudIdentity)
		}
		want := slices.Concat([]string{
			"ServiceAccount/" + kubeSystem + "/cloud-controller-manager",
			"ClusterRole/transplant-cloud-controller-manager", "ClusterRoleBinding/transplant-cloud-controller-manager",
			"Role/" + kubeSystem + "/transplant-cloud-controller-manager", "RoleBinding/" + kubeSystem + "/transplant-cloud-controller-manager",
		}, state, []string{
			"DaemonSet/" + kubeSystem + "/cloud-controller-manager", "PodDisruptionBudget/" + kubeSystem + "/cloud-controller-manager",
		})
		if diff := cmp.Diff(want, refs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", provider, diff)
		}
		c := containerOf(find(objects, "DaemonSet"))
		command := []any{"/" + provider + "-cloud-controller-manager", "--cloud-provider=" + provider}
		wantsConfig := slices.Contains([]string{cloudprovider.Azure, cloudprovider.OpenStack, cloudprovider.VSphere}, provider)
		if wantsConfig {
			command = append(command, "--cloud-config=/etc/kubernetes/cloud-config/cloud.conf")
		}
		if diff := cmp.Diff(command, c["command"]); diff != "" {
			t.Errorf("%s: command (-want +got):\n%s", provider, diff)
		}
		if (c["volumeMounts"] != nil) != wantsConfig {
			t.Errorf("%s: volume mounts %v", provider, c["volumeMounts"])
		}
	}
}

// A manager may get one Secret of kube-system at most, by its name: all others of the namespace would come with a right to list.
func TestAManagerReadsNoOtherSecret(t *testing.T) {
	for _, provider := range Providers() {
		objects, err := Manager(provider)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, kind := range []string{"ClusterRole", "Role"} {
			for _, r := range find(objects, kind)["rules"].([]layout.Object) {
				if !slices.Contains(r["resources"].([]string), "secrets") {
					continue
				}
				if diff := cmp.Diff([]string{"get"}, r["verbs"]); diff != "" || kind == "ClusterRole" {
					t.Errorf("%s: %s has %v", provider, kind, r)
				}
				named, _ := r["resourceNames"].([]string)
				names = append(names, named...)
			}
		}
		var want []string
		if provider == cloudprovider.VSphere {
			want = []string{"vsphere-cloud-secret"}
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%s reads other Secrets (-want +got):\n%s", provider, diff)
		}
	}
}

// Load balancers have the cluster's name in the cloud in theirs. What is installed must not give the same one to every cluster.
func TestNoTwoClustersAreInstalledWithOneName(t *testing.T) {
	objects, err := Manager(cloudprovider.GCE)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, o := range objects {
		if layout.Ref(o) != layout.CloudIdentity {
			continue
		}
		found++
		if o["data"] != nil {
			t.Errorf("%s says %v", layout.Ref(o), o["data"])
		}
	}
	if found != 1 {
		t.Errorf("%d ConfigMaps name the cluster", found)
	}
}

func TestAProviderWithoutAProgramIsRefused(t *testing.T) {
	if objects, err := Manager("cloudstack"); err == nil {
		t.Errorf("a manager of this project for cloudstack: %v", objects)
	}
}

// What is rendered is read by kubectl and by Helm as it was meant: numbers stay numbers, and no anchor or alias is in it.
func TestRenderedFilesAreYAML(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		for _, doc := range strings.Split(string(data), "\n---\n") {
			var o map[string]any
			if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
