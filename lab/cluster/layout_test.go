package cluster

import (
	"encoding/json"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// fakeBlock is a block that nobody has to reserve.
func fakeBlock() *block { return &block{prefix: "127.50.7."} }

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update accepts it):\n%s", name, diff)
	}
}

func TestManifestsHaveKubeadmsShape(t *testing.T) {
	h := newHosts(aws{}, "/lab", fakeBlock(), maxControlPlanes, 1)[0]
	for _, c := range []component{apiServer(aws{}, h, "https://127.50.7.105:2379"), controllerManager(aws{}, h, ""), scheduler(aws{}, h)} {
		t.Run(c.name, func(t *testing.T) {
			data, err := yaml.Marshal(c.pod())
			if err != nil {
				t.Fatal(err)
			}
			golden(t, c.name+".yaml", data)
			var back corev1.Pod
			if err := yaml.UnmarshalStrict(data, &back); err != nil {
				t.Errorf("it cannot be read back: %v", err)
			}
		})
	}
}

func TestCloudConfigIsTheInTreeOne(t *testing.T) {
	golden(t, "cloud.conf", []byte(CloudConfig("http://127.50.7.106:4566")))
}

func TestClusterConfigurationNamesTheFlagsOfTheManifests(t *testing.T) {
	b := fakeBlock()
	s := &site{kind: aws{}, root: "/lab", block: b, hosts: newHosts(aws{}, "/lab", b, maxControlPlanes, 1)}
	data, err := yaml.Marshal(clusterConfiguration(s))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "cluster-configuration.yaml", data)
	asJSON, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		APIServer, ControllerManager struct{ ExtraArgs map[string]string }
	}
	if err := json.Unmarshal(asJSON, &config); err != nil {
		t.Fatal(err)
	}
	h := s.hosts[0]
	for _, c := range []struct {
		component component
		args      map[string]string
	}{{apiServer(aws{}, h, "https://x"), config.APIServer.ExtraArgs}, {controllerManager(aws{}, h, ""), config.ControllerManager.ExtraArgs}} {
		if len(c.args) == 0 {
			t.Errorf("%s has no extra arguments", c.component.name)
		}
		for name, value := range c.args {
			if c.component.flags[name] != value {
				t.Errorf("%s has --%s=%s, its extraArgs say %s", c.component.name, name, c.component.flags[name], value)
			}
		}
	}
}

func TestWiresHaveAddressesAndNamesOfTheirOwn(t *testing.T) {
	b := fakeBlock()
	hosts := newHosts(aws{}, "/lab", b, maxControlPlanes, maxWorkers)
	ws := wires(b, hosts)
	if want := maxControlPlanes*8 + maxWorkers; len(ws) != want {
		t.Errorf("%d edges, want %d", len(ws), want)
	}
	names, addresses := map[string]bool{}, map[string]string{}
	for _, h := range hosts {
		addresses[h.Address] = h.Name
	}
	for _, w := range ws {
		if names[w.name] {
			t.Errorf("two edges are named %q", w.name)
		}
		names[w.name] = true
		if other, ok := addresses[w.address]; ok {
			t.Errorf("edge %q has the address of %q", w.name, other)
		}
		addresses[w.address] = w.name
		if ip := net.ParseIP(w.address); ip == nil || !ip.IsLoopback() {
			t.Errorf("edge %q has the address %q, want one of the loopback", w.name, w.address)
		}
	}
	for _, name := range []string{
		"cp-1/kube-controller-manager->kube-apiserver", "cp-2/cloud-controller-manager->aws", "cp-3/kube-apiserver->etcd",
		"worker-1/kubelet->load-balancer", "load-balancer->cp-1/kube-apiserver",
	} {
		if !names[name] {
			t.Errorf("there is no edge %q", name)
		}
	}
}

func TestAnAPIServerServesUnderItsOwnEdgesOnly(t *testing.T) {
	b := fakeBlock()
	hosts := newHosts(aws{}, "/lab", b, maxControlPlanes, 1)
	ws := wires(b, hosts)
	byAddress := map[string]string{}
	for _, w := range ws {
		byAddress[w.address] = w.name
	}
	got := map[string]bool{}
	for _, address := range servingAddresses(b, ws, hosts[0]) {
		if name := byAddress[address]; name != "" {
			got[name] = true
		}
	}
	want := map[string]bool{
		"cp-1/kube-controller-manager->kube-apiserver": true, "cp-1/kube-scheduler->kube-apiserver": true,
		"cp-1/cloud-controller-manager->kube-apiserver": true, "load-balancer->cp-1/kube-apiserver": true,
		"cp-1/kubelet->load-balancer": true, "cp-2/kubelet->load-balancer": true, "cp-3/kubelet->load-balancer": true,
		"worker-1/kubelet->load-balancer": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("edges (-want +got):\n%s", diff)
	}
}

func TestHostsAreNamedAsTheirInstances(t *testing.T) {
	hosts := newHosts(aws{}, "/lab", fakeBlock(), maxControlPlanes, 2)
	got := map[string][]string{}
	for _, h := range hosts {
		got[h.Name] = []string{h.NodeName, h.Address, h.PrivateIP, h.Zone, h.Dir}
	}
	want := map[string][]string{
		"cp-1":     {"ip-10-0-0-11.ec2.internal", "127.50.7.11", "10.0.0.11", "us-east-1a", "/lab/hosts/cp-1"},
		"cp-2":     {"ip-10-0-0-12.ec2.internal", "127.50.7.12", "10.0.0.12", "us-east-1b", "/lab/hosts/cp-2"},
		"cp-3":     {"ip-10-0-0-13.ec2.internal", "127.50.7.13", "10.0.0.13", "us-east-1a", "/lab/hosts/cp-3"},
		"worker-1": {"ip-10-0-1-11.ec2.internal", "127.50.7.21", "10.0.1.11", "us-east-1a", "/lab/hosts/worker-1"},
		"worker-2": {"ip-10-0-1-12.ec2.internal", "127.50.7.22", "10.0.1.12", "us-east-1b", "/lab/hosts/worker-2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if key := AccessKey("cp-1", ControllerManager); key != "AKIALABCP1KCM" {
		t.Errorf("access key is %s", key)
	}
}

func TestImagesResolveByReferenceOrRepository(t *testing.T) {
	c := &Cluster{opts: Options{Programs: map[string]string{"ghcr.io/transplant-dev/aws-cloud-controller-manager": "/bin/ccm", "localhost:5000/x": "/bin/x"}}}
	cases := map[string]struct{ want, err string }{
		"ghcr.io/transplant-dev/aws-cloud-controller-manager:v1.37.0": {want: "/bin/ccm"},
		"ghcr.io/transplant-dev/aws-cloud-controller-manager":         {want: "/bin/ccm"},
		"localhost:5000/x":                       {want: "/bin/x"},
		"registry.k8s.io/kube-apiserver:v1.99.0": {err: "no program for image"},
	}
	for image, tc := range cases {
		got, err := c.resolve(image)
		if got != tc.want || (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("resolve(%q) = %q, %v; want %q, %q", image, got, err, tc.want, tc.err)
		}
	}
}

func TestALabWithoutACloudConfigNamesNoneAnywhere(t *testing.T) {
	b := fakeBlock()
	s := &site{kind: aws{}, root: "/lab", block: b, hosts: newHosts(aws{}, "/lab", b, maxControlPlanes, 1), noCloudConfig: true}
	h := s.hosts[0]
	docs := map[string]any{"kubeadm-config": clusterConfiguration(s)}
	for _, c := range []component{apiServer(aws{}, h, "https://x"), controllerManager(aws{}, h, "")} {
		docs[c.name] = s.unconfigured(h, c).pod()
	}
	for name, doc := range docs {
		data, err := yaml.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if strings.Contains(text, "cloud-config") || strings.Contains(text, cloudConfig) || !strings.Contains(text, "cloud-provider") {
			t.Errorf("%s:\n%s", name, text)
		}
		if name == ControllerManager && (strings.Contains(text, "AWS_EC2_METADATA_DISABLED") || !strings.Contains(text, AuthorityFile)) {
			t.Errorf("the manager cannot reach its cloud:\n%s", text)
		}
	}
}

func TestTheWayToAWSLeadsNowhereElse(t *testing.T) {
	for host, want := range map[string]bool{awsNames[0]: true, strings.ToUpper(awsNames[1]): true, "sts.amazonaws.com": false, "ec2.us-east-1.amazonaws.com.evil": false, "": false} {
		if known(host) != want {
			t.Errorf("%q is known: %t, want %t", host, !want, want)
		}
	}
}
