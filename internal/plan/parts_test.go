package plan

import (
	"encoding/json"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/kubeadm"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/program"
)

func TestFeatureGatesAreMerged(t *testing.T) {
	on, gone := func(g string) flagvalue.GateChange { return flagvalue.GateChange{Name: g, To: flagvalue.GateOn} }, func(g string) flagvalue.GateChange {
		return flagvalue.GateChange{
			Name: g, To: flagvalue.GateRemoved,
		}
	}
	for _, c := range []struct {
		name, current, comp string
		minor               int
		changes             []flagvalue.GateChange
		want                string // of the flag; "unset" when it goes, "same" when nothing changes
	}{
		{"a gate is added behind those of the owner", "B=true,A=false", component.KCM, 20, []flagvalue.GateChange{on("CSIMigrationAWS")}, "B=true,A=false,CSIMigrationAWS=true"},
		{"a gate that the owner has off is switched on in its place", "CSIMigrationAWS=false,A=true", component.KCM, 22, []flagvalue.GateChange{on("CSIMigrationAWS")}, "CSIMigrationAWS=true,A=true"},
		{"a gate that is on by default is not written", "A=true", component.KCM, 23, []flagvalue.GateChange{on("CSIMigrationAWS")}, "same"},
		{"a gate that the version does not know is not written", "", component.KCM, 27, []flagvalue.GateChange{on("CSIMigrationAWS")}, "same"},
		{"leader migration needs its gate in 1.21", "", component.KCM, 21, []flagvalue.GateChange{on(flagvalue.GateLeaderMigration)}, "ControllerManagerLeaderMigration=true"},
		{"and not in 1.22", "", component.KCM, 22, []flagvalue.GateChange{on(flagvalue.GateLeaderMigration)}, "same"},
		{"an API server has no such gate", "", component.KAS, 21, []flagvalue.GateChange{on(flagvalue.GateLeaderMigration)}, "same"},
		{"the last gate goes with its flag", "DisableCloudProviders=false", component.KCM, 30, []flagvalue.GateChange{gone(catalogue.DisableCloudProviders)}, "unset"},
		{"one of two goes", "DisableCloudProviders=false,A=true", component.KAS, 30, []flagvalue.GateChange{gone(catalogue.DisableCloudProviders)}, "A=true"},
		{"the provider is disabled where it is not by default", "A=true", component.KCM, 26, flagvalue.DropInTreeGates("A=true", true, catalogue.DisableCloudProviders), "A=true,DisableCloudProviders=true"},
		{"from 1.29 on it is", "A=true", component.KCM, 29, flagvalue.DropInTreeGates("A=true", true, catalogue.DisableCloudProviders), "same"},
		{"there the owner's own word goes", "DisableCloudProviders=false,A=true", component.KCM, 29,
			flagvalue.DropInTreeGates("DisableCloudProviders=false,A=true", true, catalogue.DisableCloudProviders), "A=true"},
		{"1.21 has no such gate", "", component.KCM, 21, flagvalue.DropInTreeGates("", true, catalogue.DisableCloudProviders), "same"},
		{"what is not there cannot go", "A=true", component.KAS, 30, []flagvalue.GateChange{gone(catalogue.DisableCloudProviders)}, "same"},
	} {
		edits := flagvalue.EditGates(c.current, c.comp, c.minor, c.changes)
		have := "same"
		switch {
		case len(edits) == 1 && edits[0].Op == v1.EditUnsetFlag:
			have = "unset"
		case len(edits) == 1:
			have = edits[0].Value
		}
		if have != c.want {
			t.Errorf("%s: %q, want %q", c.name, have, c.want)
		}
	}
	if have := flagvalue.MergeGates(
		[]string{component.KCM, "--feature-gates=A=true", "--v=2", "--feature-gates", "B=false,A=false"},
		"B=false,A=false",
	); have != "A=false,B=false" {
		t.Errorf("a flag that is given twice: %q", have)
	}
}

func TestControllersOfTheOwner(t *testing.T) {
	for _, c := range []struct {
		list string
		loop controllernames.Loop
		want bool
	}{
		{"", controllernames.Route, false}, {"*", controllernames.Route, false}, {"*,-route", controllernames.Route, true}, {"*,-node-route-controller", controllernames.Route, true},
		{"*,-ttl", controllernames.Route, false}, {"service,route", controllernames.NodeIPAM, true}, {"service,nodeipam", controllernames.NodeIPAM, false},
		{"nodeipam,-nodeipam,*", controllernames.NodeIPAM, false},
	} {
		if have := flagvalue.IsLoopDisabled(c.list, c.loop); have != c.want {
			t.Errorf("--controllers=%s switches %s off: %v", c.list, c.loop, have)
		}
	}
	for _, c := range []struct{ list, want string }{
		{"", "*,-nodeipam"}, {"*,bootstrapsigner", "*,bootstrapsigner,-nodeipam"}, {"*,-node-ipam-controller", "*,-node-ipam-controller"}, {"ttl,nodeipam", "ttl"}, {"*,nodeipam", "*,-nodeipam"},
	} {
		if have := flagvalue.DisableLoop(c.list, "nodeipam", clusterview.NodeIPAM); have != c.want {
			t.Errorf("without(%q) = %q, want %q", c.list, have, c.want)
		}
	}
}

func TestControllersOfTheNewManager(t *testing.T) {
	for _, c := range []struct {
		name, provider, image, kcm string
		move                       bool
		want                       string
	}{
		{"ours runs everything that the old one ran", "aws", options.DefaultImage, "*,bootstrapsigner,tokencleaner", false, ""},
		{"what the owner switched off stays off, in the new names", "aws", options.DefaultImage, "*,-route", false, "*,-node-route-controller"},
		{"and in the old ones", "openstack", "r/openstack-cloud-controller-manager:v1.27.3", "*,-route", false, "*,-route"},
		{"ours allocates only when it is told to", "aws", options.DefaultImage, "*", true, "*,node-ipam-controller"},
		{"Google's allocates unless it is told not to", "gce", "r/cloud-controller-manager:v28.2.1", "*", false, "*,-nodeipam"},
		{"and does when node IPAM moves", "gce", "r/cloud-controller-manager:v28.2.1", "*", true, ""},
		{"Azure's leaves nodes to another program", "azure", "r/azure-cloud-controller-manager:v1.26.3", "*", false, "*,-cloud-node,-node-ipam"},
		{"ours initialises nodes on Azure", "azure", "ghcr.io/transplant-dev/azure-cloud-controller-manager:v0.1.0", "*", false, ""},
	} {
		p, err := program.Identify(c.provider, c.image)
		if err != nil {
			t.Fatal(err)
		}
		d := &draft.Draft{Target: draft.Target{Program: p, MoveIPAM: c.move}}
		d.Provider, _ = cloudprovider.Lookup(c.provider)
		if have := ccm.ControllersFlag(d, c.kcm); have != c.want {
			t.Errorf("%s: %q, want %q", c.name, have, c.want)
		}
	}
}

func TestTheProgramInAnImage(t *testing.T) {
	for _, c := range []struct {
		provider, image string
		minor           int
		command         string
		migrates        bool
	}{
		{"aws", options.DefaultImage, program.OwnMinor, "/aws-" + component.CCM, true},
		{"aws", "registry.k8s.io/provider-aws/cloud-controller-manager:v1.26.12", 26, "/bin/aws-cloud-controller-manager", true},
		{"openstack", "mirror:5000/provider-os/openstack-cloud-controller-manager:v1.20.2", 20, "/bin/openstack-cloud-controller-manager", false},
		{"gce", "registry.k8s.io/cloud-provider-gcp/cloud-controller-manager:v27.1.6", 27, "/cloud-controller-manager", true},
		{"azure", "mcr.microsoft.com/oss/kubernetes/azure-cloud-controller-manager:v1.28.5", 28, component.CCM, false},
	} {
		p, err := program.Identify(c.provider, c.image)
		if err != nil || p.Minor != c.minor || p.Command != c.command || p.LeaderMigration != c.migrates {
			t.Errorf("%s is %+v, %v", c.image, p, err)
		}
	}
	for _, image := range []string{"r/manager:latest", "r/manager@sha256:00", "r/manager:v2.27.1x", "r/manager"} {
		if p, err := program.Identify("openstack", image); err == nil || !strings.Contains(err.Error(), "does not tell its version") {
			t.Errorf("%s is taken for 0.%d", image, p.Minor)
		}
	}
}

func TestGatesOfAKubeletConfiguration(t *testing.T) {
	const text = "apiVersion: v1\nfeatureGates:\n  A: true # kept\n  B: false\n  # a comment\n  C: false\nkind: KubeletConfiguration\n"
	for _, c := range []struct {
		name  string
		text  string
		gates map[string]any
		want  string // "" when it is refused
	}{
		{"one goes, one changes, the rest keeps its bytes", text, map[string]any{"B": nil, "C": true},
			"apiVersion: v1\nfeatureGates:\n  A: true # kept\n  # a comment\n  C: true\nkind: KubeletConfiguration\n"},
		{"the last one goes with its section", "featureGates:\n  A: false\nkind: K\n", map[string]any{"A": nil}, "kind: K\n"},
		{"flow style is refused", "featureGates: {A: false}\n", map[string]any{"A": nil}, ""},
		{"so is a quoted key", "featureGates:\n  \"A\": false\n  B: true\n", map[string]any{"A": nil}, ""},
		{"and a text that is not known", "", map[string]any{"A": nil}, ""},
		{"and one without gates", "kind: K\n", map[string]any{"A": nil}, ""},
	} {
		have, err := kubeadm.EditGates(c.text, c.gates)
		if (err != nil) != (c.want == "") || err == nil && have != c.want {
			t.Errorf("%s: %v\n%s", c.name, err, have)
		}
	}
}

func TestTheConfigOfAnImageCredentialProvider(t *testing.T) {
	snap := azure28()
	for i := range snap.Hosts {
		snap.Hosts[i].Kubelet.Flags["azure-container-registry-config"] = "/etc/own/azure.json"
	}
	p := mustMake(t, snap, v1.Options{CredentialProvider: "x", CredentialProviderSHA256: sha})
	var config struct {
		APIVersion, Kind string
		Providers        []struct {
			Name, APIVersion, DefaultCacheDuration string
			MatchImages, Args                      []string
		}
	}
	if err := yaml.UnmarshalStrict([]byte(find(t, p, "write/"+layout.CredentialConfig).Content), &config); err != nil {
		t.Fatal(err)
	}
	if config.APIVersion != "kubelet.config.k8s.io/v1" || len(config.Providers[0].MatchImages) == 0 {
		t.Errorf("a kubelet of 1.28 reads %+v", config)
	}
	if diff := cmp.Diff([]string{"/etc/own/azure.json"}, config.Providers[0].Args); diff != "" {
		t.Errorf("the binary reads the file that the kubelet read (-want +have):\n%s", diff)
	}
}

func TestAKubeletThatHasImageCredentialProvidersKeepsThem(t *testing.T) {
	p := mustMake(t, withProviders(v1.CredentialProvider{Name: "own", Present: true}), ownBinary)
	added := find(t, p, "write//etc/own.yaml@cp-2")
	if added.Derive != layout.DeriveCredentialConfig || added.Source != "/etc/own.yaml" || !strings.Contains(added.Content, "name: acr-credential-provider") ||
		!strings.Contains(added.Content, "- /etc/kubernetes/azure.json") {
		t.Errorf("the step that adds the provider: %+v", added)
	}
	for _, s := range p.Steps {
		switch {
		case s.ID == "write/"+layout.CredentialConfig+"@cp-2", s.ID == "copy/"+layout.CredentialDir+"/acr-credential-provider@cp-2":
			t.Errorf("step %s: the kubelet reads another file", s.ID)
		case s.Kind == v1.StepKubelet:
			_, named := planstep.LastEdit(s, flagvalue.FlagCredentialConfig)
			if want := s.Host != "cp-2"; named != want {
				t.Errorf("step %s names the configuration: %v", s.ID, named)
			}
		}
	}
	if copied := find(t, p, "copy//opt/bin/acr-credential-provider@cp-2"); copied.Content != sha {
		t.Errorf("the step that copies the binary: %+v", copied)
	}
	find(t, p, "write/"+layout.CredentialConfig+"@cp-1")

	// The cloud's own is there: for all of its images, or for some.
	own := v1.CredentialProvider{Name: "acr-credential-provider", MatchImages: []string{"*.azurecr.io"}, Present: true}
	p = mustMake(t, withProviders(own), ownBinary)
	for _, s := range p.Steps {
		if s.Host == "cp-2" && (s.Kind == v1.StepCopyFile || strings.Contains(s.ID, "own.yaml")) {
			t.Errorf("step %s changes what is there", s.ID)
		}
	}
	if note := "acr-credential-provider on host cp-2 stays as /etc/own.yaml has it, which is not for *.azurecr.cn, "; !slices.ContainsFunc(p.Effects, func(e string) bool { return strings.Contains(e, note) }) {
		t.Errorf("the effects do not say %q: %q", note, p.Effects)
	}
}

func TestAHostGetsTheImageCredentialProviderOfItsArchitecture(t *testing.T) {
	snap := azure28()
	for i := range snap.Nodes {
		snap.Nodes[i].Labels = map[string]string{planstep.ArchLabel: []string{"amd64", "arm64"}[i%2]}
	}
	other := strings.Repeat("cd", 32)
	p := mustMake(t, snap, v1.Options{CredentialProvider: "bin/{arch}/acr", CredentialProviderSHA256: "amd64:" + sha + ",arm64:" + other})
	copied := 0
	for _, s := range p.Steps {
		if s.Kind != v1.StepCopyFile {
			continue
		}
		copied++
		arch, sum := "", ""
		for _, h := range snap.Hosts {
			for _, n := range snap.Nodes {
				if h.Name == s.Host && n.Name == h.NodeName {
					arch = n.Labels[planstep.ArchLabel]
				}
			}
		}
		if sum = sha; arch == "arm64" {
			sum = other
		}
		if s.Source != "bin/"+arch+"/acr" || s.Content != sum || !slices.Contains(s.Requires, planstep.LocalFact("bin/"+arch+"/acr")) {
			t.Errorf("host %s (%s) gets %s with %s", s.Host, arch, s.Source, s.Content)
		}
	}
	if copied != len(snap.Hosts) {
		t.Errorf("%d of %d hosts get a binary", copied, len(snap.Hosts))
	}
}

func TestTheDaemonSetDependsOnNothingThatWaitsForIt(t *testing.T) {
	p, _ := base(t, "gce-1.30")
	var set struct {
		Spec struct {
			UpdateStrategy struct{ Type string }
			Template       struct {
				Spec struct {
					HostNetwork                                      bool
					DNSPolicy, PriorityClassName, ServiceAccountName string
					NodeSelector                                     map[string]string
					Containers                                       []struct {
						Env []struct {
							Name, Value string
							ValueFrom   struct{ FieldRef struct{ FieldPath string } }
						}
						Resources struct{ Requests, Limits map[string]string }
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(find(t, p, "start/"+component.CCM).Object), &set); err != nil {
		t.Fatal(err)
	}
	pod := set.Spec.Template.Spec
	c := pod.Containers[0]
	if set.Spec.UpdateStrategy.Type != "OnDelete" || !pod.HostNetwork || pod.DNSPolicy != "Default" || pod.PriorityClassName == "" ||
		pod.ServiceAccountName != layout.CCMAccount {
		t.Errorf("pod: %+v", pod)
	}
	if diff := cmp.Diff(map[string]string{layout.LabelControlPlane: ""}, pod.NodeSelector); diff != "" {
		t.Errorf("from 1.24 on kubeadm's nodes have one label (-want +have):\n%s", diff)
	}
	if c.Env[0].Name != "KUBERNETES_SERVICE_HOST" || c.Env[0].ValueFrom.FieldRef.FieldPath != "status.hostIP" || c.Env[1].Value != "6443" {
		t.Errorf("the API is not that of its own host: %+v", c.Env)
	}
	if len(c.Resources.Requests) == 0 || len(c.Resources.Limits) != 0 {
		t.Errorf("a manager that is throttled loses its lease: %+v", c.Resources)
	}
}

func TestGoogleNeedsNoCloudConfig(t *testing.T) {
	for _, shape := range []string{v1.ShapeStaticPod, v1.ShapeDaemonSet} {
		s := gce30()
		for i := range s.Hosts {
			if m := clusterview.FindComponent(s.Hosts[i], component.KCM); m != nil {
				delete(m.Flags, flagvalue.FlagCloudConfig)
			}
			s.Hosts[i].CloudConfig = nil
		}
		p := mustMake(t, s, v1.Options{Shape: shape})
		start := find(t, p, "start/"+component.CCM)
		if text := start.Content + start.Object; strings.Contains(text, layout.CCMCloudConf) || !strings.Contains(text, "--cloud-provider=gce") {
			t.Errorf("%s: the manager is told of a config that nobody has:\n%s", shape, text)
		}
		if have := hostsOf(p, "write/"+layout.CCMCloudConf); have != nil {
			t.Errorf("%s: a config is derived from nothing on %v", shape, have)
		}
	}
}

func TestThePortIsFree(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(*v1.Snapshot)
	}{
		{"nothing is in the way", "", func(*v1.Snapshot) {}},
		{"another pod on a control-plane host has it", "10270", func(s *v1.Snapshot) {
			s.Workloads = []v1.Workload{{Nodes: []string{"node-cp-2"}, Containers: []v1.Container{{HostPorts: []int32{10258}}}}}
		}},
		{"a pod on a worker does not matter", "", func(s *v1.Snapshot) {
			s.Workloads = []v1.Workload{{Nodes: []string{"worker"}, Containers: []v1.Container{{HostPorts: []int32{10258}}}}}
		}},
		{"a component serves there", "10270", func(s *v1.Snapshot) { kcmOf(s, 0).Address = "127.0.0.1:10258" }},
	} {
		p := mustMake(t, cluster(c.change), v1.Options{})
		have := ""
		for _, ch := range find(t, p, "start/").Changes {
			if ch.Field == "--secure-port" {
				have = ch.After
			}
		}
		if have != c.want {
			t.Errorf("%s: %q, want %q", c.name, have, c.want)
		}
	}
}

// What scrapes kube-controller-manager from elsewhere reaches its successor, and nothing else does.
func TestTheManagerListensWhereItsPredecessorDoes(t *testing.T) {
	for name, c := range map[string]struct {
		first, second       string
		staticPod, ofTheSet string
	}{
		"on loopback, as kubeadm has it":  {"127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"},
		"on all addresses":                {"0.0.0.0", "0.0.0.0", "0.0.0.0", "0.0.0.0"},
		"on all of both families":         {"::", "::", "::", "::"},
		"on all on one host only":         {"0.0.0.0", "127.0.0.1", "0.0.0.0", "127.0.0.1"},
		"on all of another family":        {"0.0.0.0", "::", "0.0.0.0", "127.0.0.1"},
		"on the address of each host":     {"10.0.0.1", "10.0.0.2", "10.0.0.1", "127.0.0.1"},
		"on that of IPv6":                 {"fd00::1", "fd00::2", "fd00::1", "127.0.0.1"},
		"where its flags do not say it":   {"", "", "127.0.0.1", "127.0.0.1"},
		"on a name that the kubelet puts": {"$(HOST_IP)", "$(HOST_IP)", "127.0.0.1", "127.0.0.1"},
	} {
		s := cluster(func(s *v1.Snapshot) {
			for i, given := range []string{c.first, c.second} {
				m := kcmOf(s, i)
				m.Address = net.JoinHostPort(commandline.LoopbackAddress(given), "10257")
				if given != "" {
					m.Flags["bind-address"] = given
				}
				if strings.HasPrefix(given, "$") || given == "" {
					m.Address = "127.0.0.1:10257"
				}
			}
		})
		for shape, want := range map[string]string{v1.ShapeStaticPod: c.staticPod, v1.ShapeDaemonSet: c.ofTheSet} {
			p := mustMake(t, s, v1.Options{Shape: shape})
			var texts []string
			for _, step := range p.Steps {
				if step.Host == "cp-1" || shape == v1.ShapeDaemonSet {
					texts = append(texts, step.Content, step.Object)
				}
			}
			text := strings.Join(texts, "\n")
			if n := strings.Count(text, "--bind-address="); n == 0 || n != strings.Count(text, "--bind-address="+want) {
				t.Errorf("%s, %s: not --bind-address=%s in\n%s", name, shape, want, text)
			}
		}
	}
}

// TestTheCommandsOfAStepDoWhatItDoes runs the sed of each step of a manifest and compares its flags with those that the step leaves behind.
func TestTheCommandsOfAStepDoWhatItDoes(t *testing.T) {
	if _, err := exec.LookPath("sed"); err != nil {
		t.Skip("this machine has no sed")
	}
	p, s := base(t, "lab")
	text := map[string]string{}
	for _, h := range s.Hosts {
		for _, c := range h.Components {
			text[h.Name+c.Manifest] = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec:\n  containers:\n  - command:\n    - " + strings.Join(
				c.Command,
				"\n    - ",
			) + "\n    image: x\n    name: x\n" +
				"    volumeMounts:\n    - mountPath: /etc/ssl\n      name: ssl\n      readOnly: true\n  volumes:\n  - hostPath:\n      path: /etc/ssl\n      type: Directory\n    name: ssl\n"
		}
	}
	n := 0
	for _, step := range p.Steps {
		if step.Kind == v1.StepAddManifest {
			text[step.Host+step.Path] = step.Content
		}
		if step.Kind != v1.StepEditManifest {
			continue
		}
		was := text[step.Host+step.Path]
		m, err := controlplane.Parse([]byte(was))
		if err != nil {
			t.Fatal(err)
		}
		given, _, _ := strings.Cut(strings.TrimPrefix(step.Manual[0], "ssh "+step.Host+" 'sudo sed"), " "+step.Path)
		cmd := exec.Command("sh", "-c", "sed"+given)
		cmd.Stdin = strings.NewReader(was)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("step %s: %v\n%s", step.ID, err, out)
		}
		have, err := controlplane.Parse(out)
		if err != nil {
			t.Fatalf("step %s: %v\n%s", step.ID, err, out)
		}
		want := m.Flags()
		for _, e := range step.Edits {
			switch e.Op {
			case v1.EditSetFlag:
				want[e.Name] = e.Value
			case v1.EditUnsetFlag:
				delete(want, e.Name)
			default: // no other edit is about this
			}
		}
		if diff := cmp.Diff(want, have.Flags()); diff != "" {
			t.Errorf("step %s (-want +have):\n%s", step.ID, diff)
		}
		applied, err := controlplane.Apply([]byte(was), step.Edits)
		if err != nil {
			t.Fatal(err)
		}
		as, err := controlplane.Parse(applied)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(as.HostPaths(), have.HostPaths()); diff != "" {
			t.Errorf("mounts of step %s (-want +have):\n%s", step.ID, diff)
		}
		text[step.Host+step.Path] = string(out)
		n++
	}
	if n == 0 {
		t.Error("no step was tried")
	}
}

func TestAnImageWithoutItsTag(t *testing.T) {
	for in, want := range map[string]string{
		"mirror/manager:latest": "mirror/manager", "mirror:5000/manager": "mirror:5000/manager", "mirror:5000/manager:v1@sha256:00": "mirror:5000/manager", "manager": "manager",
	} {
		if have := program.WithoutTag(in); have != want {
			t.Errorf("%s without its tag is %s, want %s", in, have, want)
		}
	}
}
