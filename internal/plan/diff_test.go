package plan

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/plan/diff"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// memory is the files of a host.
type memory map[string]string

func (m memory) Read(path string) ([]byte, error) {
	if text, ok := m[path]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

func (m memory) List(string) ([]string, error) { return nil, fs.ErrNotExist }

func TestSecretsAreMaskedInDifferences(t *testing.T) {
	host := memory{
		"/etc/kubernetes/cloud.conf": "[Global]\nusername = ops\npassword = planted-1\nauth-url = https://keystone\n[LoadBalancer]\nsubnet-id = s\n",
		"/m.yaml": "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: kube-controller-manager\n    command:\n    - kube-controller-manager\n    - --token-auth-file=/a\n" +
			"    env:\n    - name: OS_PASSWORD\n      value: planted-2\n    - name: REGION\n      value: here\n",
	}
	p := &v1.Plan{Cluster: v1.Cluster{Provider: "openstack"}, Steps: []v1.Step{
		{ID: "derive", Kind: v1.StepWriteFile, Host: "cp-1", Path: layout.CCMCloudConf, Derive: layout.DeriveCloudConfig, Source: "/etc/kubernetes/cloud.conf"},
		{ID: "kubeconfig", Kind: v1.StepWriteFile, Host: "cp-1", Path: layout.CCMKubeconfig, Derive: layout.DeriveKubeconfig, Source: layout.KCMKubeconfig},
		{ID: "edit", Kind: v1.StepEditManifest, Host: "cp-1", Path: "/m.yaml", Component: component.KCM, Edits: []v1.Edit{{Op: v1.EditSetFlag, Name: "v", Value: "2"}}},
	}}
	all, err := diff.Differences(p, &v1.Snapshot{}, func(string) systemdunit.Files { return host })
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 {
		t.Fatalf("%d differences: %+v", len(all), all)
	}
	text := ""
	for _, d := range all {
		text += d.Name + "\n" + d.Before + d.After
	}
	if strings.Contains(text, "planted") {
		t.Errorf("a secret is shown:\n%s", text)
	}
	for _, part := range []string{"(masked)", "auth-url", "https://keystone", "--token-auth-file=/a", "value: here", "    - --v=2"} {
		if !strings.Contains(text, part) {
			t.Errorf("it does not show %q:\n%s", part, text)
		}
	}
}

func TestWhatIsMadeAndTakenAwayIsNoDifference(t *testing.T) {
	p := &v1.Plan{Steps: []v1.Step{
		{ID: "write", Kind: v1.StepWriteFile, Host: "cp-1", Path: layout.KCMMigration, Content: "x\n"},
		{ID: "remove", Kind: v1.StepRemoveFile, Host: "cp-1", Path: layout.KCMMigration, Restore: "write"},
		{ID: "make", Kind: v1.StepEnsureObject, Ref: "Role/kube-system/a", Object: `{"kind":"Role"}`},
		{ID: "delete", Kind: v1.StepDeleteObject, Ref: "Role/kube-system/a"},
		{ID: "stop", Kind: v1.StepRemoveManifest, Host: "cp-1", Path: "/m.yaml", Component: component.KCM},
		{ID: "start", Kind: v1.StepRestoreManifest, Host: "cp-1", Path: "/m.yaml", Component: component.KCM, Restore: "stop"},
		{ID: "look", Kind: v1.StepVerify},
	}}
	all, err := diff.Differences(p, &v1.Snapshot{}, func(string) systemdunit.Files { return memory{"/m.yaml": "a\n"} })
	if err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// theNode is the text of a Node named w, with what comes behind its name.
func theNode(labels, spec string) string {
	return "apiVersion: v1\nkind: Node\nmetadata:\n" + labels + "  name: w\n" + spec
}

// linesChanged are the lines of a difference that are on one side alone.
func linesChanged(d diff.Difference) []string {
	var out []string
	before, after := strings.Split(d.Before, "\n"), strings.Split(d.After, "\n")
	for _, line := range before {
		if !slices.Contains(after, line) {
			out = append(out, "-"+line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			out = append(out, "+"+line)
		}
	}
	return out
}

// differencesOfNodes are those of a plan that concern Nodes.
func differencesOfNodes(t *testing.T, p *v1.Plan, s *v1.Snapshot) []diff.Difference {
	t.Helper()
	all, err := diff.Differences(p, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(d diff.Difference) bool { return !strings.HasPrefix(d.Name, "Node/") })
}

func TestANodeIsShownAsItsManagerWritesIt(t *testing.T) {
	p := &v1.Plan{Steps: []v1.Step{{ID: "initialize/Node/w", Kind: v1.StepInitializeNode, Ref: "Node/w"}}}
	s := &v1.Snapshot{
		Nodes: []v1.Node{{Name: "w", Addresses: []string{"InternalIP=10.0.0.1"}, Taints: []string{"dedicated=gpu:NoSchedule", component.TaintUninitialized + "=:NoSchedule"}}},
		Preview: &v1.Preview{Nodes: []v1.NodePreview{{
			Node: "w", Found: true, ProviderID: "aws:///eu-1a/i-1", Zone: "eu-1a", Region: "eu-1", Type: "m5.large",
			Labels: map[string]string{"example.com/rack": "r7"}, Addresses: []string{"InternalIP=10.0.0.1", "Hostname=w"},
		}}},
	}
	want := []diff.Difference{{
		Name: "Node/w",
		Before: theNode("", "spec:\n  taints:\n  - effect: NoSchedule\n    key: dedicated\n    value: gpu\n  - effect: NoSchedule\n    key: "+component.TaintUninitialized+"\n"+
			"status:\n  addresses:\n  - address: 10.0.0.1\n    type: InternalIP\n"),
		After: theNode("  labels:\n    beta.kubernetes.io/instance-type: m5.large\n    example.com/rack: r7\n    failure-domain.beta.kubernetes.io/region: eu-1\n"+
			"    failure-domain.beta.kubernetes.io/zone: eu-1a\n    node.kubernetes.io/instance-type: m5.large\n    topology.kubernetes.io/region: eu-1\n"+
			"    topology.kubernetes.io/zone: eu-1a\n", "spec:\n  providerID: aws:///eu-1a/i-1\n  taints:\n  - effect: NoSchedule\n    key: dedicated\n    value: gpu\n"+
			"status:\n  addresses:\n  - address: 10.0.0.1\n    type: InternalIP\n  - address: w\n    type: Hostname\n"),
	}}
	for range 5 { // the same each time
		if diff := cmp.Diff(want, differencesOfNodes(t, p, s)); diff != "" {
			t.Fatalf("(-want +have):\n%s", diff)
		}
	}
}

func TestWhatBecomesOfNodes(t *testing.T) {
	initialize := v1.Step{ID: "initialize/Node/w", Kind: v1.StepInitializeNode, Ref: "Node/w"}
	start := v1.Step{ID: "start/" + component.CCM, Kind: v1.StepEnsureObject, Component: component.CCM, Ref: layout.CCMDaemonSet, Object: `{"kind":"DaemonSet"}`}
	leaving := start
	leaving.Object = `{"spec":{"template":{"spec":{"containers":[{"args":["--controllers=*,-cloud-node"]}]}}}}`
	kubelet := v1.Step{ID: "external/kubelet@h", Kind: v1.StepKubelet, Host: "h", Drain: true, Edits: []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}}}
	named := kubelet
	named.Edits = append(slices.Clone(kubelet.Edits), v1.Edit{Op: v1.EditSetFlag, Name: "hostname-override", Value: "w"})
	gone := v1.Step{ID: "await/out/w", Kind: v1.StepAwait, Await: &v1.Await{NodeGone: "w", Component: component.KCM}}
	tainted := []string{component.TaintUninitialized + "=true:NoSchedule"}
	host := func(flags map[string]string) *v1.Snapshot {
		return &v1.Snapshot{Hosts: []v1.Host{{Name: "h", NodeName: "w", Kubelet: &v1.Kubelet{Flags: flags}}}}
	}
	asked := func(p v1.NodePreview) *v1.Snapshot {
		p.Node = "w"
		s := host(map[string]string{"cloud-provider": "external"})
		s.Preview = &v1.Preview{Nodes: []v1.NodePreview{p}}
		return s
	}
	const aboutID, aboutCloud = "+# spec.providerID: ", "+# the manager also writes zone, region, type and addresses "
	for _, c := range []struct {
		name  string
		steps []v1.Step
		snap  *v1.Snapshot
		node  v1.Node
		// want are the lines that differ; one that ends in a blank is the beginning of a line.
		want []string
	}{
		{"an inventory knows zone and type, and by them the ID", []v1.Step{initialize},
			&v1.Snapshot{Cloud: &v1.CloudInventory{Provider: "aws", Instances: []v1.CloudInstance{{Node: "w", Found: true, ID: "i-1", Zone: "eu-1a"}}}}, v1.Node{},
			[]string{aboutCloud, "+  labels:", "+    failure-domain.beta.kubernetes.io/zone: eu-1a", "+    topology.kubernetes.io/zone: eu-1a", "+spec:", "+  providerID: aws:///eu-1a/i-1"}},
		{"the cloud was not asked", []v1.Step{initialize}, host(nil), v1.Node{}, []string{aboutID, aboutCloud}},
		{"the cloud gave no answer", []v1.Step{initialize}, asked(v1.NodePreview{Error: "throttled"}), v1.Node{}, []string{aboutID, aboutCloud}},
		{"the cloud has no instance", []v1.Step{start, initialize}, asked(v1.NodePreview{}), v1.Node{Taints: tainted}, nil},
		{"a zone that is no label", []v1.Step{initialize}, asked(v1.NodePreview{Found: true, Zone: "zone a"}), v1.Node{ProviderID: "p"}, nil},
		{"a node waits for the manager", []v1.Step{start}, asked(v1.NodePreview{Found: true, ProviderID: "p"}), v1.Node{Taints: tainted},
			[]string{"-  taints:", "-  - effect: NoSchedule", "-    key: " + component.TaintUninitialized, `-    value: "true"`, "+  providerID: p"}},
		{"the manager leaves nodes to another", []v1.Step{leaving}, asked(v1.NodePreview{Found: true, ProviderID: "p"}), v1.Node{Taints: tainted}, nil},
		{"the manager that it leaves them to", []v1.Step{leaving, {ID: "n", Kind: v1.StepEnsureObject, Ref: layout.NodeManagerDaemonSet, Object: "{}"}},
			host(nil), v1.Node{ProviderID: "p", Labels: map[string]string{"beta.kubernetes.io/instance-type": "m5"}}, []string{"+    node.kubernetes.io/instance-type: m5"}},
		{"stable labels follow beta ones", []v1.Step{start, start}, host(nil),
			v1.Node{Labels: map[string]string{"failure-domain.beta.kubernetes.io/zone": "a", "topology.kubernetes.io/zone": "b"}},
			[]string{"-    topology.kubernetes.io/zone: b", "+    topology.kubernetes.io/zone: a"}},
		{"a kubelet is given its node's name", []v1.Step{named}, host(nil), v1.Node{Labels: map[string]string{"kubernetes.io/hostname": "w.internal"}},
			[]string{"-    kubernetes.io/hostname: w.internal", "+    kubernetes.io/hostname: w"}},
		{"a kubelet that has an address", []v1.Step{kubelet}, host(map[string]string{"node-ip": "10.0.0.1"}), v1.Node{},
			[]string{"+  annotations:", "+    alpha.kubernetes.io/provided-node-ip: 10.0.0.1"}},
		{"a kubelet that has a family", []v1.Step{kubelet}, host(map[string]string{"node-ip": "::"}), v1.Node{}, nil},
		{"a drained node", []v1.Step{start, kubelet}, host(nil), v1.Node{ProviderID: "p"}, nil},
		{"addresses are the manager's", []v1.Step{start}, asked(v1.NodePreview{Found: true, Addresses: []string{"InternalIP=10.0.0.2"}}),
			v1.Node{Addresses: []string{"InternalIP=10.0.0.1"}}, []string{"-  - address: 10.0.0.1", "+  - address: 10.0.0.2"}},
		{"addresses in another order of types", []v1.Step{start}, asked(v1.NodePreview{Found: true, Addresses: []string{"Hostname=w", "InternalIP=10.0.0.1"}}),
			v1.Node{Addresses: []string{"InternalIP=10.0.0.1", "Hostname=w"}}, nil},
		{"a host is replaced", []v1.Step{gone}, host(nil), v1.Node{}, []string{"-apiVersion: v1", "-kind: Node", "-metadata:", "-  name: w"}},
		{"a taint that a journal knows", []v1.Step{{ID: "undo", Kind: v1.StepInitializeNode, Ref: "Node/w", Restore: "initialize/Node/w"}}, host(nil), v1.Node{Taints: tainted}, nil},
		{"a node that the snapshot lacks", []v1.Step{{ID: "x", Kind: v1.StepInitializeNode, Ref: "Node/other"}}, host(nil), v1.Node{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.node.Name = "w"
			c.snap.Nodes = []v1.Node{c.node}
			var have []string
			for _, d := range differencesOfNodes(t, &v1.Plan{Steps: c.steps}, c.snap) {
				have = append(have, linesChanged(d)...)
			}
			for i, line := range have {
				if i < len(c.want) && strings.HasSuffix(c.want[i], " ") && strings.HasPrefix(line, c.want[i]) {
					have[i] = c.want[i]
				}
			}
			if diff := cmp.Diff(c.want, have); diff != "" {
				t.Errorf("(-want +have):\n%s", diff)
			}
			if diff := cmp.Diff([]v1.Node{c.node}, c.snap.Nodes); diff != "" {
				t.Errorf("the snapshot was changed:\n%s", diff)
			}
		})
	}
}

func TestAPlanShowsTheNodesThatItChangesAlone(t *testing.T) {
	s := vsphere29()
	s.Kubeadm = nil
	p := mustMake(t, s, v1.Options{Image: "registry.k8s.io/cloud-pv-vsphere/cloud-provider-vsphere:v1.29.0"})
	have := differencesOfNodes(t, p, s)
	if len(have) != 1 || have[0].Name != "Node/worker-1" || !strings.HasPrefix(have[0].After, "# spec.providerID: ") {
		t.Errorf("of 4 nodes, one has no providerID: %+v", have)
	}
	s.Nodes[3].ProviderID = "vsphere://42210101-0000-0000-0000-000000000000"
	p = mustMake(t, s, v1.Options{Image: "registry.k8s.io/cloud-pv-vsphere/cloud-provider-vsphere:v1.29.0"})
	for _, d := range differencesOfNodes(t, p, s) {
		t.Errorf("no node changes for good: %+v", d)
	}
}

func TestSecretsOfNodesAreMasked(t *testing.T) {
	s := &v1.Snapshot{Nodes: []v1.Node{{
		Name:        "w",
		Labels:      map[string]string{"example.com/api-token": "planted-1", "topology.kubernetes.io/zone": "a"},
		Annotations: map[string]string{"node.openstack.org/password": "planted-2"},
	}}}
	p := &v1.Plan{Steps: []v1.Step{{ID: "initialize/Node/w", Kind: v1.StepInitializeNode, Ref: "Node/w"}}}
	have := differencesOfNodes(t, p, s)
	if len(have) != 1 || strings.Contains(have[0].Before+have[0].After, "planted") || !strings.Contains(have[0].After, "topology.kubernetes.io/zone: a") {
		t.Errorf("%+v", have)
	}
}
