package plan

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

const seedImage = "registry.k8s.io/provider-aws/cloud-controller-manager:v1.26.0"

// seeded is a cluster whose control plane another one hosts.
func seeded(replicas int32) *v1.Snapshot {
	return &v1.Snapshot{
		Cluster: v1.Cluster{UID: "uid", Version: "v1.26.0", Provider: "aws", Seed: "cluster-x", SeedUID: "seed-uid"},
		Nodes:   []v1.Node{{Name: "n1", UID: "n1", ProviderID: "aws:///eu-1a/i-1", Ready: "True"}},
		Hosted: []v1.Component{
			{
				Name:     component.KAS,
				Runs:     v1.RunsDeployment,
				Manifest: "Deployment/cluster-x/apiserver",
				SHA256:   "a",
				Replicas: ptr.To[int32](2),
				Image:    "registry.k8s.io/kube-apiserver:v1.26.0",
				Command:  []string{"kube-apiserver", "--cloud-provider=aws"},
				Flags:    map[string]string{"cloud-provider": "aws"},
			},
			{
				Name:     component.KCM,
				Runs:     v1.RunsDeployment,
				Manifest: "Deployment/cluster-x/controller-manager",
				SHA256:   "c",
				Replicas: &replicas,
				Image:    "registry.k8s.io/kube-controller-manager:v1.26.0",
				Command: []string{
					"kube-controller-manager",
					"--cloud-provider=aws",
				},
				CloudConfig: &v1.CloudConfig{Path: "/etc/cloud/config", Provider: "aws", DerivedSHA256: "d"},
				Flags: map[string]string{
					"cloud-provider":         "aws",
					"cloud-config":           "/etc/cloud/config",
					"controllers":            "*,bootstrapsigner,tokencleaner",
					"cluster-cidr":           "172.25.0.0/16",
					"configure-cloud-routes": "false",
					"allocate-node-cidrs":    "true",
					"bind-address":           "$(POD_IP)",
					"kubeconfig":             "/etc/kubernetes/kubeconfig/kubeconfig",
				},
			},
		},
		Managers: []v1.Manager{
			{Component: component.KCM, Host: "controller-manager-1", Loops: []string{"cloud-node-lifecycle", "service"}, Leads: []string{component.KCM}},
		},
	}
}

var hostedPlans = []struct {
	name     string
	replicas int32
	options  v1.Options
}{
	{"hosted-downtime", 1, v1.Options{Image: seedImage}},
	{"hosted-leader-migration", 2, v1.Options{Image: seedImage}},
	{"hosted-finish", 2, v1.Options{Image: seedImage, Part: v1.PartFinish}},
}

// A plan is shown before the account is made by which managers are asked, and executed behind that.
func TestAPlanOfManagersThatCouldNotBeAskedYetIsTheOneOfThoseThatWere(t *testing.T) {
	for _, c := range hostedPlans[:2] {
		before := seeded(c.replicas)
		before.Managers = []v1.Manager{{Component: component.KCM, Host: "controller-manager-1", Error: "the account is not there yet"}}
		shown, made := mustMake(t, before, c.options), mustMake(t, seeded(c.replicas), c.options)
		if len(shown.Steps) == 0 || !reflect.DeepEqual(shown.Steps, made.Steps) {
			t.Errorf("%s is shown as\n%s\nand executed as\n%s", c.name, inBrief(shown), inBrief(made))
		}
	}
}

// installed is a cluster that was external from the start.
func installed() *v1.Snapshot {
	s := seeded(1)
	s.Nodes, s.Managers = nil, []v1.Manager{{Component: component.KCM, Host: "controller-manager-1", Leads: []string{component.KCM}}}
	for i := range s.Hosted {
		delete(s.Hosted[i].Flags, "cloud-provider")
		delete(s.Hosted[i].Flags, "cloud-config")
	}
	return s
}

func TestThePlanOfAControlPlaneThatWasMadeExternal(t *testing.T) {
	options := v1.Options{Part: v1.PartInstall, ClusterName: "x"}
	made := mustMake(t, installed(), options)
	have := inBrief(made)
	const path = "testdata/hosted-install.plan.txt"
	if *update {
		if err := os.WriteFile(path, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if have != string(want) {
		t.Errorf("the plan is\n%s", have)
	}
	start := made.Steps[slices.IndexFunc(made.Steps, func(s v1.Step) bool { return strings.HasPrefix(s.ID, "start/") })]
	for _, want := range []string{"--cluster-name=x", "--cloud-config=", "--cloud-provider=aws"} {
		if !strings.Contains(start.Object, want) {
			t.Errorf("the manager has no %s: %s", want, start.Object)
		}
	}
	given := installed()
	given.Hosted[1].CloudConfig = &v1.CloudConfig{Path: "Secret/cluster-x/" + layout.SeedCloudConfig}
	for _, s := range mustMake(t, given, options).Steps {
		if s.Derive == layout.DeriveSeedCloudConfig {
			t.Error("the Secret that a person made is written over")
		}
	}
	if v := strings.Join(made.Effects, "\n"); !strings.Contains(v, "external from the start") {
		t.Errorf("the effects are %s", v)
	}
}

func TestNoManagerIsInstalledWhereOneRuns(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1.Snapshot)
		want   string
	}{
		"in tree": {func(s *v1.Snapshot) { s.Hosted[1].Flags["cloud-provider"] = "aws" }, "runs the in-tree provider aws"},
		"another one": {func(s *v1.Snapshot) {
			s.Hosted = append(s.Hosted, v1.Component{Name: component.CCM, Manifest: "Deployment/cluster-x/other"})
		}, "Deployment/cluster-x/other runs a cloud-controller-manager already"},
		"hibernated":  {func(s *v1.Snapshot) { s.Hosted[1].Replicas = ptr.To[int32](0) }, "wake the control plane up first"},
		"no config":   {func(s *v1.Snapshot) { s.Hosted[1].CloudConfig = nil }, "make Secret cloud-controller-manager-cloud-config with key config in namespace cluster-x"},
		"no provider": {func(s *v1.Snapshot) { s.Cluster.Provider = "" }, "does not say which cloud it is in"},
	} {
		t.Run(name, func(t *testing.T) {
			s := installed()
			c.change(s)
			_, err := Make(s, v1.Options{Part: v1.PartInstall}, nil, s.TakenAt)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestThePlansOfHostedControlPlanes(t *testing.T) {
	for _, c := range hostedPlans {
		t.Run(c.name, func(t *testing.T) {
			have := inBrief(mustMake(t, seeded(c.replicas), c.options))
			path := "testdata/" + c.name + ".plan.txt"
			if *update {
				if err := os.WriteFile(path, []byte(have), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if have != string(want) {
				t.Errorf("the plan of %s is\n%s", c.name, have)
			}
		})
	}
}

func TestTheClusterNameOfAHostedControlPlaneStays(t *testing.T) {
	for name, want := range map[string]string{"": "kubernetes", "x7b": "x7b"} {
		s := seeded(1)
		if name != "" {
			clusterview.FindHosted(s, component.KCM).Flags["cluster-name"] = name
		}
		p := mustMake(t, s, v1.Options{Image: seedImage})
		if o := find(t, p, "start/").Object; !strings.Contains(o, `"--cluster-name=`+want+`"`) {
			t.Errorf("a cluster of the name %q gets the manager %s", want, o)
		}
	}
}

func TestAHostedControlPlaneIsRefusedWhen(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*v1.Snapshot)
		options v1.Options
		says    string
	}{
		"it is hibernated":                  {func(s *v1.Snapshot) { clusterview.FindHosted(s, component.KCM).Replicas = ptr.To[int32](0) }, v1.Options{}, "no replicas"},
		"nobody elects a leader":            {func(s *v1.Snapshot) { clusterview.FindHosted(s, component.KCM).Flags["leader-elect"] = "false" }, v1.Options{}, "--leader-elect=false"},
		"it has no kube-controller-manager": {func(s *v1.Snapshot) { s.Hosted = s.Hosted[:1] }, v1.Options{}, "no Deployment of kube-controller-manager"},
		"its cloud config cannot be derived": {func(s *v1.Snapshot) {
			clusterview.FindHosted(s, component.KCM).CloudConfig.Error = "key Foo is not known"
		}, v1.Options{}, "key Foo"},
		"leader migration is asked for and the version has none": {func(s *v1.Snapshot) {
			clusterview.FindHosted(s, component.KCM).Image, s.Cluster.Version = "registry.k8s.io/kube-controller-manager:v1.21.0", "v1.21.0"
		}, v1.Options{Strategy: planstep.LeaderMigration}, "no leader migration"},
	} {
		t.Run(name, func(t *testing.T) {
			s := seeded(1)
			c.change(s)
			c.options.Image = seedImage
			if _, err := Make(s, c.options, nil, now); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}
