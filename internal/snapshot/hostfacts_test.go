package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// gatherHosts takes a snapshot of a directory's hosts and nothing else, and returns the host of a name.
func gatherHosts(t *testing.T, dir, name string, opts collect.Options) (*v1.Snapshot, v1.Host) {
	t.Helper()
	s := Gather(t.Context(), collect.Sources{Hosts: open(t, dir), Now: func() time.Time { return now }}, opts)
	for _, h := range s.Hosts {
		if h.Name == name {
			return s, h
		}
	}
	t.Fatalf("there is no host %s", name)
	return nil, v1.Host{}
}

// unknownsOf are the errors of a fact, and of those below it.
func unknownsOf(s *v1.Snapshot, fact string) []string {
	var out []string
	for _, e := range s.Errors {
		if e.Fact == fact || strings.HasPrefix(e.Fact, fact+"/") {
			out = append(out, e.Fact+": "+e.Error)
		}
	}
	return out
}

const kubeadmDropIn = `[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`

// writeKubelet lays out a kubelet as kubeadm and its packages do.
func writeKubelet(t *testing.T, dir string) {
	t.Helper()
	write(t, dir, "w-1/usr/lib/systemd/system/kubelet.service", "[Service]\nExecStart=/usr/bin/kubelet\n")
	write(t, dir, "w-1/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf", kubeadmDropIn)
	write(t, dir, "w-1/var/lib/kubelet/kubeadm-flags.env", `KUBELET_KUBEADM_ARGS="--cloud-provider=aws --node-ip=10.0.0.5"`)
	write(
		t,
		dir,
		"w-1/etc/default/kubelet",
		"KUBELET_EXTRA_ARGS=--cloud-config=/etc/kubernetes/cloud.conf --token="+planted+"\nHTTPS_PROXY=http://u:"+planted+"@proxy\n",
	)
	write(t, dir, "w-1/var/lib/kubelet/config.yaml", `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: /etc/kubernetes/manifests
rotateCertificates: true
serverTLSBootstrap: true
providerID: aws:///us-east-1a/i-1
shutdownGracePeriod: 0s
featureGates: {CSIMigrationAWS: false}
registerWithTaints:
- {key: node.cloudprovider.kubernetes.io/uninitialized, value: "true", effect: NoSchedule}
staticPodURLHeader: {Authorization: [`+planted+`]}
`)
	write(t, dir, "w-1/etc/kubernetes/cloud.conf", cloudConf)
}

func TestAKubeadmKubelet(t *testing.T) {
	dir := t.TempDir()
	writeKubelet(t, dir)
	s, h := gatherHosts(t, dir, "w-1", collect.Options{})
	k := h.Kubelet
	wantFlags := map[string]string{
		"bootstrap-kubeconfig": "/etc/kubernetes/bootstrap-kubelet.conf", "kubeconfig": "/etc/kubernetes/kubelet.conf", "config": "/var/lib/kubelet/config.yaml",
		"cloud-provider": "aws", "node-ip": "10.0.0.5", "cloud-config": "/etc/kubernetes/cloud.conf", "token": mask.Masked,
	}
	if diff := cmp.Diff(wantFlags, k.Flags); diff != "" {
		t.Errorf("flags, -want +got:\n%s", diff)
	}
	const dropIn = "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"
	wantSources := map[string]string{
		"bootstrap-kubeconfig": dropIn, "kubeconfig": dropIn, "config": dropIn, "cloud-config": "/etc/default/kubelet", "token": "/etc/default/kubelet",
	}
	if diff := cmp.Diff(wantSources, k.Sources); diff != "" {
		t.Errorf("sources, -want +got:\n%s", diff)
	}
	var files []string
	for _, f := range k.Files {
		files = append(files, f.Path)
		if !f.Present || len(f.SHA256) != 64 || f.Mode != "0600" {
			t.Errorf("got file %+v", f)
		}
	}
	wantFiles := []string{
		"/usr/lib/systemd/system/kubelet.service",
		dropIn,
		"/var/lib/kubelet/kubeadm-flags.env",
		"/etc/default/kubelet",
		"/var/lib/kubelet/config.yaml",
	}
	if diff := cmp.Diff(wantFiles, files); diff != "" {
		t.Errorf("files, -want +got:\n%s", diff)
	}
	if k.Source != "/var/lib/kubelet/kubeadm-flags.env" || len(k.SHA256) != 64 || k.Error != "" || k.Process != nil || k.Credentials != nil {
		t.Errorf("got %+v", k)
	}
	wantConfig := &v1.KubeletConfig{
		Path: "/var/lib/kubelet/config.yaml", SHA256: k.Config.SHA256, StaticPodPath: "/etc/kubernetes/manifests", ProviderID: "aws:///us-east-1a/i-1",
		FeatureGates: map[string]bool{"CSIMigrationAWS": false}, ServerTLSBootstrap: true, RotateCertificates: true, ShutdownGracePeriod: "0s",
		RegisterWithTaints: []string{"node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule"},
	}
	if diff := cmp.Diff(wantConfig, k.Config); diff != "" {
		t.Errorf("configuration, -want +got:\n%s", diff)
	}
	if len(h.CloudConfigs) != 1 || h.CloudConfig != nil || h.CloudConfigs[0].Path != "/etc/kubernetes/cloud.conf" || h.CloudConfigs[0].UsedBy[0] != "kubelet" ||
		len(h.CloudConfigs[0].Keys) == 0 {
		t.Errorf("cloud configs: %+v", h.CloudConfigs)
	}
	if len(h.Files) != 1 || h.Files[0].Path != "/etc/kubernetes/cloud.conf" || h.Files[0].Mode != "0600" {
		t.Errorf("files of a worker: %+v", h.Files)
	}
	if out := saved(t, s); strings.Contains(out, planted) {
		t.Error("the snapshot holds a secret")
	}
	if got := unknownsOf(s, "hosts/w-1"); got != nil {
		t.Errorf("unknown: %q", got)
	}
}

func TestKubeletsOfOtherKinds(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		// flags that it has, where they stand, what is wrong, and which facts are unknown
		want    map[string]string
		source  string
		err     string
		unknown []string
	}{
		"no unit, kubeadm's file": {
			map[string]string{"/var/lib/kubelet/kubeadm-flags.env": `KUBELET_KUBEADM_ARGS="--cloud-provider=aws"`},
			map[string]string{"cloud-provider": "aws"}, "/var/lib/kubelet/kubeadm-flags.env", "", nil,
		},
		"no unit, the extra flags name the provider": {
			map[string]string{
				"/var/lib/kubelet/kubeadm-flags.env": `KUBELET_KUBEADM_ARGS="--a=b --c=d"`,
				"/etc/sysconfig/kubelet":             "KUBELET_EXTRA_ARGS=--cloud-provider=aws --c=e\n",
			},
			map[string]string{"a": "b", "c": "e", "cloud-provider": "aws"},
			"/etc/sysconfig/kubelet",
			"",
			nil,
		},
		"nothing at all": {
			map[string]string{
				"/var/lib/kubelet/pki/x": "",
			},
			nil,
			"/var/lib/kubelet/kubeadm-flags.env",
			"there is neither a unit kubelet.service nor any of /var/lib/kubelet/kubeadm-flags.env",
			nil,
		},
		"flags in the unit itself": {
			map[string]string{
				"/var/lib/kubelet/pki/x":              "",
				"/etc/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/local/bin/kubelet \\\n  --cloud-provider=aws \\\n  --v=2\n",
			},
			map[string]string{"cloud-provider": "aws", "v": "2"},
			"/etc/systemd/system/kubelet.service",
			"",
			nil,
		},
		"a drop-in that adds the provider": {
			map[string]string{
				"/var/lib/kubelet/pki/x": "", "/etc/systemd/system/kubelet.service": "[Service]\nExecStart=/usr/local/bin/kubelet --v=2 $KUBELET_EXTRA_ARGS\n",
				"/etc/systemd/system/kubelet.service.d/20-cloud.conf": "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--cloud-provider=aws\"\n",
			},
			map[string]string{"cloud-provider": "aws", "v": "2"}, "/etc/systemd/system/kubelet.service.d/20-cloud.conf", "", nil,
		},
		"a wrapper": {
			map[string]string{
				"/var/lib/kubelet/kubeadm-flags.env":  "KUBELET_KUBEADM_ARGS=",
				"/etc/systemd/system/kubelet.service": "[Service]\nExecStart=/opt/kubelet-wrapper\n",
			},
			nil,
			"/var/lib/kubelet/kubeadm-flags.env",
			"unit kubelet.service starts /opt/kubelet-wrapper, which is none of the components",
			[]string{"hosts/w-1/kubelet"},
		},
		"an environment file that is absent": {
			map[string]string{
				"/var/lib/kubelet/pki/x":              "",
				"/etc/systemd/system/kubelet.service": "[Service]\nEnvironmentFile=/etc/kubelet.env\nExecStart=/usr/bin/kubelet $A\n",
			},
			nil,
			"/var/lib/kubelet/kubeadm-flags.env",
			"unit kubelet.service reads the environment file /etc/kubelet.env, which is not there",
			[]string{"hosts/w-1/kubelet"},
		},
		"a configuration that is absent": {
			map[string]string{"/var/lib/kubelet/kubeadm-flags.env": `KUBELET_KUBEADM_ARGS="--config=/etc/kubelet.yaml"`},
			map[string]string{"config": "/etc/kubelet.yaml"}, "/var/lib/kubelet/kubeadm-flags.env", "", []string{"hosts/w-1/kubelet-config"},
		},
		"a configuration of another kind": {
			map[string]string{"/var/lib/kubelet/kubeadm-flags.env": `KUBELET_KUBEADM_ARGS="--a"`, "/var/lib/kubelet/config.yaml": "kind: Pod\n"},
			map[string]string{"a": "true"}, "/var/lib/kubelet/kubeadm-flags.env", "", []string{"hosts/w-1/kubelet-config"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for at, content := range tt.files {
				write(t, dir, "w-1"+at, content)
			}
			s, h := gatherHosts(t, dir, "w-1", collect.Options{})
			k := h.Kubelet
			if diff := cmp.Diff(tt.want, k.Flags); diff != "" {
				t.Errorf("flags, -want +got:\n%s", diff)
			}
			if k.Source != tt.source || !strings.HasPrefix(k.Error, tt.err) || (tt.err == "") != (k.Error == "") {
				t.Errorf("source %s, error %q", k.Source, k.Error)
			}
			var facts []string
			for _, e := range s.Errors {
				if strings.HasPrefix(e.Fact, "hosts/w-1") {
					facts = append(facts, e.Fact)
				}
			}
			if diff := cmp.Diff(tt.unknown, facts); diff != "" {
				t.Errorf("unknown, -want +got:\n%s", diff)
			}
		})
	}
}

func TestDropInsOfAKubeletsConfiguration(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "w-1/var/lib/kubelet/kubeadm-flags.env", `KUBELET_KUBEADM_ARGS="--config=/var/lib/kubelet/config.yaml --config-dir=/etc/kubelet.d"`)
	write(t, dir, "w-1/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\nfeatureGates: {A: true, B: true}\nproviderID: old\nrotateCertificates: true\n")
	write(t, dir, "w-1/etc/kubelet.d/20.conf", "kind: KubeletConfiguration\nfeatureGates: {B: true, C: true}\nproviderID: new\n")
	write(t, dir, "w-1/etc/kubelet.d/10.conf", "kind: KubeletConfiguration\nfeatureGates: {B: false}\n")
	write(t, dir, "w-1/etc/kubelet.d/README", "nothing: [")
	_, h := gatherHosts(t, dir, "w-1", collect.Options{})
	c := h.Kubelet.Config
	if diff := cmp.Diff(
		map[string]bool{"A": true, "B": true, "C": true},
		c.FeatureGates,
	); diff != "" || c.ProviderID != "new" || !c.RotateCertificates ||
		c.Error != "" {
		t.Errorf("got %+v", c)
	}
}

// manyKubelets is a host on which kubelets run.
type manyKubelets struct {
	hostaccess.Host
	args []string
	n    int
}

func (c manyKubelets) Processes(_ context.Context, component string) ([]v1.Process, error) {
	var out []v1.Process
	for i := range c.n {
		if component == "kubelet" {
			out = append(out, v1.Process{PID: 100 + i, Args: c.args})
		}
	}
	return out, nil
}

func TestTheKubeletsProcessIsTheProof(t *testing.T) {
	dir := t.TempDir()
	writeKubelet(t, dir)
	host := open(t, dir)[0]
	args := []string{
		"/usr/bin/kubelet",
		"--cloud-provider=external",
		"--token",
		planted,
		"--image-credential-provider-config=/etc/kubernetes/cred.yaml",
		"--image-credential-provider-bin-dir=/opt/bin",
	}
	s := Gather(t.Context(), collect.Sources{Hosts: []hostaccess.Host{manyKubelets{host, args, 1}}}, collect.Options{})
	k := s.Hosts[0].Kubelet
	if k.Process == nil || k.Process.Args[1] != "--cloud-provider=external" || k.Process.Args[3] != mask.Masked || k.Flags["cloud-provider"] != "aws" {
		t.Errorf("got %+v, %+v", k.Process, k.Flags)
	}
	if k.Credentials == nil || k.Credentials.ConfigPath != "/etc/kubernetes/cred.yaml" || k.Credentials.Error == "" {
		t.Errorf("what only the process says was not looked at: %+v", k.Credentials)
	}
	s = Gather(t.Context(), collect.Sources{Hosts: []hostaccess.Host{manyKubelets{host, args, 2}}}, collect.Options{})
	if got := unknownsOf(s, "hosts/w-1/kubelet-process"); len(got) != 1 || !strings.Contains(got[0], "processes 100, 101") || s.Hosts[0].Kubelet.Process != nil {
		t.Errorf("unknown: %q", got)
	}
}

func TestManifestsLieWhereTheKubeletLooks(t *testing.T) {
	dir, _ := writeHosts(t)
	write(t, dir, "cp-1/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\nstaticPodPath: /etc/static\n")
	write(t, dir, "cp-1/etc/static/scheduler.yaml", manifest("kube-scheduler", "i"))
	_, h := gatherHosts(t, dir, "cp-1", collect.Options{})
	if len(h.Components) != 1 || h.Components[0].Manifest != "/etc/static/scheduler.yaml" {
		t.Errorf("got %+v", h.Components)
	}
}

// watch is a clock that goes wrong.
type watch struct {
	hostaccess.Host
	offset time.Duration
	err    error
}

func (w watch) Offset(context.Context) (time.Duration, time.Duration, error) {
	return w.offset, 5 * time.Millisecond, w.err
}

func TestClocksOfHosts(t *testing.T) {
	_, hosts := writeHosts(t)
	s := Gather(t.Context(), collect.Sources{Hosts: []hostaccess.Host{
		hosts[0], watch{hosts[1], -3 * time.Second, nil}, watch{hosts[2], 0, errors.New("no answer")},
	}}, collect.Options{})
	want := []v1.Clock{{Who: "host/cp-1"}, {Who: "host/cp-2", OffsetMillis: -3000, UncertaintyMillis: 5}}
	if diff := cmp.Diff(want, s.Clocks); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"clocks/worker-1: asking for the clock of host worker-1: no answer"}, unknownsOf(s, "clocks/worker-1")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	s = Gather(t.Context(), collect.Sources{Hosts: []hostaccess.Host{struct{ hostaccess.Host }{hosts[0]}}}, collect.Options{})
	if got := unknownsOf(s, "clocks/cp-1"); len(got) != 1 || !strings.Contains(got[0], "does not tell its clock") {
		t.Errorf("unknown: %q", got)
	}
}

func TestEveryComponentsCloudConfig(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "cp-1/etc/kubernetes/manifests/kcm.yaml", manifest(component.KCM, "i", "--cloud-provider=aws", "--cloud-config=/etc/cloud/kcm.conf"))
	write(t, dir, "cp-1/etc/kubernetes/manifests/kas.yaml", manifest(component.KAS, "i", "--cloud-provider=aws", "--cloud-config=/etc/cloud/kas.conf"))
	write(t, dir, "cp-1/var/lib/kubelet/kubeadm-flags.env", `KUBELET_KUBEADM_ARGS="--cloud-provider=aws --cloud-config=/etc/kubernetes/cloud/kcm.conf"`)
	write(t, dir, "cp-1/etc/kubernetes/cloud/kcm.conf", cloudConf)
	s, h := gatherHosts(t, dir, "cp-1", collect.Options{})
	if h.CloudConfig == nil || h.CloudConfig.Path != "/etc/kubernetes/cloud/kcm.conf" || h.CloudConfig.Provider != "aws" ||
		fmt.Sprint(h.CloudConfig.UsedBy) != "[kube-controller-manager kubelet]" ||
		h.CloudConfig.DerivedSHA256 == "" ||
		h.CloudConfig.Format != "ini" ||
		h.CloudConfig.Settings["Global.VPC"] != "vpc-1" {
		t.Errorf("the manager's: %+v", h.CloudConfig)
	}
	if len(h.CloudConfigs) != 1 || h.CloudConfigs[0].Path != "/etc/kubernetes/cloud/kas.conf" || fmt.Sprint(h.CloudConfigs[0].UsedBy) != "[kube-apiserver]" ||
		h.CloudConfigs[0].Error == "" {
		t.Errorf("the others: %+v", h.CloudConfigs)
	}
	if got := unknownsOf(s, "hosts/cp-1/cloud-config"); len(got) != 1 || !strings.Contains(got[0], "cloud config of kube-apiserver: ") {
		t.Errorf("unknown: %q", got)
	}
}

func chmod(t *testing.T, dir, at string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(filepath.Join(dir, at), mode); err != nil {
		t.Fatal(err)
	}
}

func TestManifestsInTheWild(t *testing.T) {
	pod := func(container string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: kube-controller-manager, namespace: kube-system}\nspec:\n  containers:\n  - name: kcm\n" + container
	}
	tests := map[string]struct {
		manifest string
		flags    map[string]string
		remarks  string
		err      string
	}{
		"flags in command and args, one of them twice": {
			pod("    command: [kube-controller-manager, --v=2, --cluster-name=a]\n    args: [--cluster-name=b]\n"),
			map[string]string{"v": "2", "cluster-name": "b"}, "--cluster-name is given 2 times: the last one counts|args split between command and args", "",
		},
		"a name from the environment": {
			pod(
				"    command: [kube-controller-manager, --cluster-name=$(NAME), --cloud-config=$(CONF), --x=$(SECRET_KEY)]\n    env: [{name: NAME, value: prod}, {name: SECRET_KEY, value: " + planted + "}]\n",
			),
			map[string]string{"cluster-name": "prod", "cloud-config": "$(CONF)", "x": "$(SECRET_KEY)"},
			"the value of --cloud-config depends on a variable that the manifest does not show ($(CONF))|the value of --x depends on a variable that the manifest does not show ($(SECRET_KEY))",
			"",
		},
		"anchors and a second container": {
			pod("    command: &c [kube-controller-manager, --v=2]\n  - {name: log, command: [tail]}\n") + "  nodeSelectr: {}\n",
			map[string]string{"v": "2"}, `the pod has 2 containers: flags are those of "kcm"|unknown field "spec.nodeSelectr", which a kubelet passes over`, "",
		},
		"a shell's script": {
			pod("    command: [sh, -c, 'exec kube-controller-manager --v=2']\n"),
			nil,
			"",
			"kube-controller-manager is started by a script of sh, so its flags cannot be read or edited",
		},
		"a second document": {
			pod("    command: [kube-controller-manager]\n") + "---\nkind: Pod\n",
			nil,
			"",
			"it is not YAML: line 9: a second document begins there, which a kubelet would ignore",
		},
		"a key twice": {
			pod("    command: [kube-controller-manager]\n    command: [x]\n"),
			nil,
			"",
			`it is not a usable Pod: line 8: mapping key "command" already defined at line 7`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "cp-1/etc/kubernetes/manifests/kube-controller-manager.yaml", tt.manifest)
			s, h := gatherHosts(t, dir, "cp-1", collect.Options{})
			if len(h.Components) != 1 {
				t.Fatalf("got %+v", h.Components)
			}
			c := h.Components[0]
			if diff := cmp.Diff(tt.flags, c.Flags); diff != "" {
				t.Errorf("flags, -want +got:\n%s", diff)
			}
			if got := strings.Join(
				c.Remarks,
				"|",
			); got != tt.remarks || c.Name != component.KCM || !strings.HasPrefix(c.Error, tt.err) ||
				(c.Error == "") != (tt.err == "") {
				t.Errorf("%s: remarks %q, error %q", c.Name, got, c.Error)
			}
			if strings.Contains(saved(t, s), planted) {
				t.Error("the snapshot holds a secret")
			}
		})
	}
}

func TestCloudConfigsOfOtherProviders(t *testing.T) {
	tests := map[string]struct {
		flags, config string
		provider      string
		problem, err  string
	}{
		"a key that nobody knows":       {"--cloud-provider=aws", "[Global]\nZoen = a\n", "aws", "Global.Zoen is known to neither provider", ""},
		"no provider":                   {"--v=2", "[Global]\n", "", "", "no component names a cloud provider"},
		"a provider without a way over": {"--cloud-provider=photon", "[Global]\n", "photon", "", "nothing is known of the configs of provider"},
		"no config at all":              {"--cloud-provider=aws", "{", "aws", "", "reading the cloud config"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "cp-1/etc/kubernetes/manifests/kcm.yaml", manifest(component.KCM, "i", tt.flags, "--cloud-config=/etc/cloud/cloud.conf"))
			write(t, dir, "cp-1/etc/kubernetes/cloud/cloud.conf", tt.config)
			_, h := gatherHosts(t, dir, "cp-1", collect.Options{})
			c := h.CloudConfig
			if c == nil || c.Provider != tt.provider || !strings.Contains(c.Error, tt.err) ||
				tt.problem != "" && !strings.Contains(strings.Join(c.Problems, "|"), tt.problem) ||
				tt.err == "" != (c.Error == "") {
				t.Errorf("got %+v", c)
			}
		})
	}
}
