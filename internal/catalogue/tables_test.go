package catalogue

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/cloud-provider/app"
	cloudoptions "k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	cmfeatures "k8s.io/controller-manager/pkg/features"

	"github.com/transplant-dev/transplant/internal/component"
)

func TestSpansOfGatesAndFlagsFollowOneAnother(t *testing.T) {
	for name, list := range gates {
		last := 0
		for _, s := range list {
			if s.from <= last || s.to < s.from || s.from < component.Oldest || s.to > component.Newest || s.Stage == "" || s.in == "" {
				t.Errorf("gate %s: span %+v", name, s)
			}
			last = s.to
		}
	}
	for name, list := range flags {
		last := 0
		for _, s := range list {
			if s.from <= last || s.to < s.from || s.from < component.Oldest || s.to > component.Newest {
				t.Errorf("flag %s: span %+v", name, s)
			}
			if last > 0 && s.from != last+1 && !resurrected[name] {
				t.Errorf("flag %s is not known in 1.%d and known again in 1.%d", name, last+1, s.from)
			}
			last = s.to
		}
	}
}

// resurrected are flags that went and came back.
var resurrected = map[string]bool{}

func TestGatesOfTheMigration(t *testing.T) {
	alpha, beta, off := Gate{Known: true, Stage: "alpha"}, Gate{Known: true, Stage: "beta", Default: true}, Gate{Known: true, Stage: "beta"}
	locked := Gate{Known: true, Stage: "GA", Default: true, Locked: true}
	tests := map[string][]struct {
		minor int
		want  Gate
	}{
		"DisableCloudProviders":                  {{21, Gate{}}, {22, alpha}, {28, alpha}, {29, beta}, {30, beta}, {31, locked}, {32, locked}, {33, Gate{}}},
		"DisableKubeletCloudCredentialProviders": {{22, Gate{}}, {23, alpha}, {28, alpha}, {29, beta}, {31, locked}, {33, Gate{}}},
		"ControllerManagerLeaderMigration":       {{20, Gate{}}, {21, alpha}, {22, beta}, {24, locked}, {26, locked}, {27, Gate{}}},
		"KubeletCredentialProviders":             {{20, alpha}, {23, alpha}, {24, beta}, {26, locked}, {28, Gate{}}},
		"CSIMigration":                           {{20, beta}, {25, locked}, {27, Gate{}}},
		"CSIMigrationAWS":                        {{20, off}, {23, beta}, {25, locked}, {27, Gate{}}},
		"CSIMigrationAzureDisk":                  {{22, off}, {23, beta}, {24, Gate{Known: true, Stage: "GA", Default: true}}, {25, locked}, {27, Gate{}}},
		"CSIMigrationAzureFile":                  {{20, alpha}, {21, off}, {24, beta}, {27, locked}, {30, Gate{}}},
		"CSIMigrationGCE":                        {{22, off}, {23, beta}, {25, locked}, {28, Gate{}}},
		"CSIMigrationOpenStack":                  {{20, off}, {21, beta}, {24, locked}, {26, Gate{}}},
		"CSIMigrationvSphere":                    {{24, off}, {25, beta}, {26, locked}, {29, Gate{}}},
		"CSIMigrationAWSComplete":                {{20, alpha}, {21, Gate{}}},
		"InTreePluginAWSUnregister":              {{20, Gate{}}, {21, alpha}, {30, alpha}, {31, Gate{}}},
		"AllAlpha":                               {{20, alpha}, {36, alpha}},
		"NoSuchGate":                             {{26, Gate{}}},
	}
	for gate, cases := range tests {
		for _, c := range cases {
			if got := GateAt(gate, c.minor); got != c.want {
				t.Errorf("%s in 1.%d = %+v, want %+v", gate, c.minor, got, c.want)
			}
		}
	}
}

func TestTheManagersAloneKnewTheirGatesUpTo126(t *testing.T) {
	for component, want := range map[string]bool{
		"kube-controller-manager": true, "cloud-controller-manager": true, "kubelet": false, "kube-apiserver": false,
	} {
		if got := GateFor(component, "ControllerManagerLeaderMigration", 21).Known; got != want {
			t.Errorf("%s 1.21 knows ControllerManagerLeaderMigration: %v", component, got)
		}
	}
	if GateFor("cloud-controller-manager", "CSIMigrationAWS", 24).Known {
		t.Error("a cloud-controller-manager knows CSIMigrationAWS")
	}
}

func TestFlagsOfTheMigration(t *testing.T) {
	tests := []struct {
		component, flag string
		first, last     int
	}{
		{"kube-apiserver", "cloud-provider", 20, 32},
		{"kube-apiserver", "cloud-config", 20, 32},
		{"kube-apiserver", "ssh-user", 20, 21},
		{"kube-apiserver", "egress-selector-config-file", 20, component.Newest},
		{"kube-apiserver", "insecure-port", 20, 23},
		{"kube-controller-manager", "cloud-provider", 20, component.Newest},
		{"kube-controller-manager", "external-cloud-volume-plugin", 20, component.Newest},
		{"kube-controller-manager", "enable-leader-migration", 21, component.Newest},
		{"kube-controller-manager", "port", 20, 23},
		{"kubelet", "cloud-provider", 20, component.Newest},
		{"kubelet", "cloud-config", 20, 33},
		{"kubelet", "container-runtime", 20, 26},
		{"kubelet", "network-plugin", 20, 23},
		{"kubelet", "image-credential-provider-config", 20, component.Newest},
		{"cloud-controller-manager", "leader-migration-config", 21, component.Newest},
		{"cloud-controller-manager", "cloud-provider", 20, component.Newest},
	}
	for _, tt := range tests {
		first, last, ok := FlagRange(tt.component, tt.flag)
		if !ok || first != tt.first || last != tt.last {
			t.Errorf("%s --%s: 1.%d to 1.%d, want 1.%d to 1.%d", tt.component, tt.flag, first, last, tt.first, tt.last)
		}
		before, held := FlagAt(tt.component, tt.flag, tt.first-1)
		if before.Known || !held {
			t.Errorf("%s --%s is known in 1.%d", tt.component, tt.flag, tt.first-1)
		}
	}
	if f, _ := FlagAt("kube-apiserver", "cloud-provider", 30); f.Deprecated != "it is deprecated, and Kubernetes 1.33 no longer knows it" {
		t.Errorf("deprecation = %q", f.Deprecated)
	}
	if _, held := FlagAt("kubelet", "no-such-flag", 30); held {
		t.Error("the table holds a flag that never was")
	}
}

// The newest minor of the tables is compared with the library that this module is built with, which is newer.
func TestTheLibraryOfThisModuleKnowsTheFlags(t *testing.T) {
	opts, err := cloudoptions.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	command := app.NewCloudControllerManagerCommand(opts, nil, map[string]app.ControllerInitFuncConstructor{}, nil, cliflag.NamedFlagSets{}, nil)
	for _, flag := range FlagsOf("cloud-controller-manager", component.Newest) {
		if command.Flags().Lookup(flag) == nil && flag != "help" { // cobra adds --help when it runs
			t.Errorf("the library does not know --%s, which the table has for 1.%d", flag, component.Newest)
		}
	}
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if _, held := FlagAt("cloud-controller-manager", f.Name, component.Newest); !held && f.Name != "concurrent-node-lifecycle-syncs" { // new in 0.37
			t.Errorf("the library knows --%s, which the table does not have", f.Name)
		}
	})
}

func TestTheLibraryOfThisModuleKnowsTheGates(t *testing.T) {
	registry := featuregate.NewVersionedFeatureGate(version.MajorMinor(1, component.Newest))
	if err := cmfeatures.SetupCurrentKubernetesSpecificFeatureGates(registry); err != nil {
		t.Fatal(err)
	}
	for name, specs := range registry.GetAllVersioned() {
		spec := specs[0]
		if spec.Version == nil || spec.Version.Minor() > component.Newest || len(specs) > 1 {
			continue
		}
		want := Gate{Known: true, Default: spec.Default, Locked: spec.LockToDefault, Stage: strings.ToLower(string(spec.PreRelease))}
		if got := GateFor("cloud-controller-manager", string(name), component.Newest); got != want && !strings.HasPrefix(string(name), "All") {
			t.Errorf("%s = %+v, in the library %+v", name, got, want)
		}
	}
}
