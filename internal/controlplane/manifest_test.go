package controlplane

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/yamltext"
)

func example(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/manifests", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parse(t *testing.T, data []byte) *Manifest {
	t.Helper()
	m, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// facts are what a Manifest says of itself.
type facts struct {
	Name, Namespace, Component, Image, Address string
	Command                                    int // number of elements
	Flags                                      map[string]string
	Env                                        []string
	HostPaths                                  map[string]string
}

func TestParse(t *testing.T) {
	tests := map[string]facts{
		"kubeadm-1.30-kube-scheduler.yaml": {
			Name: "kube-scheduler", Namespace: "kube-system", Component: "kube-scheduler", Image: "registry.k8s.io/kube-scheduler:v1.30.14",
			Address: "127.0.0.1:10259", Command: 6,
			Flags: map[string]string{
				"authentication-kubeconfig": "/etc/kubernetes/scheduler.conf", "authorization-kubeconfig": "/etc/kubernetes/scheduler.conf",
				"bind-address": "127.0.0.1", "kubeconfig": "/etc/kubernetes/scheduler.conf", "leader-elect": "true",
			},
			HostPaths: map[string]string{"/etc/kubernetes/scheduler.conf": "/etc/kubernetes/scheduler.conf"},
		},
		"handwritten-kube-controller-manager.yaml": {
			Name: "kube-controller-manager", Namespace: "kube-system", Component: "kube-controller-manager",
			Image:   "registry.example/kcm@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
			Address: "127.0.0.1:10257", Command: 10,
			Flags:     map[string]string{"cloud-provider": "aws", "cloud-config": "/etc/cloud/aws.conf", "cluster-name": "it's prod", "leader-elect": "true", "v": "4"},
			Env:       []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
			HostPaths: map[string]string{"/etc/cloud": "/srv/cloud"},
		},
		"wrapped-kube-apiserver.json": {
			Name: "kube-apiserver", Namespace: "kube-system", Component: "kube-apiserver", Image: "registry.k8s.io/kube-apiserver:v1.27.4",
			Address: "127.0.0.1:443", Command: 6,
			Flags:     map[string]string{"cloud-provider": "aws", "secure-port": "443", "v": "2"},
			HostPaths: map[string]string{},
		},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			m := parse(t, example(t, name))
			got := facts{m.Name(), m.Namespace(), m.Component(), m.Image(), m.Address(), len(m.Command()), m.Flags(), m.EnvNames(), m.HostPaths()}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// pod wraps a container's fields, indented by four spaces, in a Pod.
func podOf(container string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec:\n  containers:\n  - name: first\n" + container
}

func TestComponent(t *testing.T) {
	tests := map[string]struct{ pod, component, address string }{
		"by its command":        {podOf("    command: [/usr/bin/kube-apiserver]\n"), "kube-apiserver", "127.0.0.1:6443"},
		"by its arguments only": {podOf("    args: [kube-scheduler, --x]\n"), "kube-scheduler", "127.0.0.1:10259"},
		"behind a wrapper": {
			podOf("    command: [/sbin/tini, --, kube-controller-manager]\n"),
			"kube-controller-manager",
			"127.0.0.1:10257",
		},
		"behind a shell that only passes it on": {
			podOf("    command: [/bin/sh, -c, 'exec \"$@\"', --, kube-apiserver, --secure-port=1]\n"),
			"kube-apiserver",
			"127.0.0.1:1",
		},
		"a cloud's manager": {podOf("    command: [/bin/aws-cloud-controller-manager]\n"), "cloud-controller-manager", "127.0.0.1:10258"},
		"by its image when that has the program": {
			podOf("    image: registry.example:5000/provider-aws/cloud-controller-manager:v1@sha256:00\n    args: [--v=2]\n"),
			"cloud-controller-manager",
			"127.0.0.1:10258",
		},
		"in the second container": {
			podOf("    command: [logs]\n  - name: b\n    command: [kube-scheduler]\n"),
			"kube-scheduler",
			"127.0.0.1:10259",
		},
		"in the second container, by image": {
			podOf("    command: [logs]\n  - name: b\n    image: x/cloud-controller-manager\n"),
			"cloud-controller-manager",
			"127.0.0.1:10258",
		},
		"an unknown program":                 {podOf("    command: [/bin/busy, --secure-port=1]\n"), "busy", ""},
		"nothing but a name":                 {podOf("    image: x/y:z\n"), "first", ""},
		"a shell that starts something else": {podOf("    command: [sh, -c, sleep]\n"), "sh", ""},
		"a component without HTTPS":          {podOf("    command: [kube-controller-manager, --secure-port=0]\n"), "kube-controller-manager", ""},
		"every address": {
			podOf("    command: [kube-controller-manager, --bind-address=0.0.0.0]\n"),
			"kube-controller-manager",
			"127.0.0.1:10257",
		},
		"every address of version 6": {
			podOf("    command: [kube-controller-manager, '--bind-address=::']\n"),
			"kube-controller-manager",
			"[::1]:10257",
		},
		"one address of version 6": {
			podOf("    command: [kube-controller-manager, --bind-address, 'fd00::1']\n"),
			"kube-controller-manager",
			"[fd00::1]:10257",
		},
		"an address that only the kubelet can expand": {podOf("    command: [kube-controller-manager, --bind-address=$(HOST_IP)]\n"), "kube-controller-manager", ""},
		"etcd": {podOf("    command: [etcd]\n"), "etcd", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := parse(t, []byte(tt.pod))
			if m.Component() != tt.component || m.Address() != tt.address || m.Namespace() != "default" {
				t.Errorf("got %q at %q in %q, want %q at %q", m.Component(), m.Address(), m.Namespace(), tt.component, tt.address)
			}
		})
	}
}

func TestParseResolvesAnchorsAndMerges(t *testing.T) {
	m := parse(t, []byte(`apiVersion: v1
kind: Pod
x-base: &base
  image: registry.example/a:1
  env: [{name: A}]
x-flags: &flags [kube-scheduler, &v --v=2]
metadata: {name: x}
spec:
  containers:
  - <<: *base
    command: *flags
    args: [*v, --leader-elect=false]
    volumeMounts:
    - {mountPath: /a, name: a, subPath: sub}
  volumes:
  - {name: a, hostPath: {path: /host}}
`))
	want := facts{
		"x",
		"default",
		"kube-scheduler",
		"registry.example/a:1",
		"127.0.0.1:10259",
		4,
		map[string]string{"v": "2", "leader-elect": "false"},
		[]string{"A"},
		map[string]string{"/a": "/host/sub"},
	}
	got := facts{m.Name(), m.Namespace(), m.Component(), m.Image(), m.Address(), len(m.Command()), m.Flags(), m.EnvNames(), m.HostPaths()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	var notYAML *yamltext.NotYAMLError
	var notPod *yamltext.NotPodError
	var shell *commandline.ShellCommandError
	tests := map[string]struct {
		in   string
		as   any
		want string
	}{
		"no YAML":                   {"a: b\n c: d\n", &notYAML, "it is not YAML: line 2: "},
		"a tab":                     {"a:\n\tb: c\n", &notYAML, "it is not YAML: line 2: "},
		"half a manifest":           {"apiVersion: v1\nkind: Pod\nmetadata: {name: \n", &notYAML, "it is not YAML: line 3: "},
		"not UTF-8":                 {"a: b\nc: \xff\n", &notYAML, "it is not YAML: line 2: it is not UTF-8 text"},
		"a key that is given twice": {"apiVersion: v1\nkind: Pod\nkind: Pod\n", &notYAML, "it is not YAML: line 3: mapping key \"kind\" already defined at line 2"},
		"two documents":             {podOf("") + "---\n" + podOf(""), &notYAML, "it is not YAML: line 9: a second document begins there"},
		"an unknown anchor":         {"a: *b\n", &notYAML, "it is not YAML: unknown anchor 'b' referenced"},
		"nothing":                   {"", &notPod, "it is not a Pod: it names no kind"},
		"comments only":             {"# nothing\n", &notPod, "it is not a Pod: it names no kind"},
		"a list":                    {"- a\n", &notPod, "it is not a Pod: it names no kind"},
		"a text":                    {"hello\n", &notPod, "it is not a Pod: it names no kind"},
		"another kind":              {"apiVersion: apps/v1\nkind: Deployment\n", &notPod, `it is a "Deployment", not a v1 Pod`},
		"another version":           {"apiVersion: v2\nkind: Pod\n", &notPod, `it is a "Pod", not a v1 Pod`},
		"a kind that is a map":      {"apiVersion: v1\nkind: {}\n", &notPod, "it is not a Pod: it names no kind"},
		"no containers":             {"apiVersion: v1\nkind: Pod\nspec: {}\n", &notPod, "it is not a usable Pod: it has no containers"},
		"a command that is no list": {podOf("    command: kube-apiserver --x\n"), &notPod, "it is not a usable Pod: line 8: cannot unmarshal"},
		"a component inside a script": {
			podOf("    command: [/bin/sh, -c, exec kube-apiserver --x]\n"),
			&shell,
			"kube-apiserver is started by a script of /bin/sh, so its flags cannot be read or edited; write the command as a list",
		},
		"a component inside args": {
			podOf("    command: [/bin/bash, -ec]\n    args: ['kube-scheduler --x 2>&1 | tee log']\n"),
			&shell,
			"kube-scheduler is started by a script of /bin/bash",
		},
		"a component that a script calls with nothing else": {
			podOf("    command: [sh, -c, exec /usr/bin/kube-scheduler]\n"),
			&shell,
			"kube-scheduler is started by a script of sh",
		},
		"a component as the name of a script": {
			podOf("    command: [sh, -c, exec /run --x, kube-scheduler]\n"),
			&shell,
			"kube-scheduler is started by a script of sh",
		},
		"a component in a second script": {
			podOf("    command: [logs]\n  - name: b\n    command: [sh, -c, kube-scheduler]\n"),
			&shell,
			"kube-scheduler is started by a script of sh",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := Parse([]byte(tt.in))
			if m != nil || err == nil || !errors.As(err, tt.as) || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, %T %v, want %q", m, err, err, tt.want)
			}
			out, err := Apply([]byte(tt.in), nil)
			if out != nil || err == nil || !errors.As(err, tt.as) {
				t.Errorf("Apply: got %q, %T %v", out, err, err)
			}
		})
	}
}

func TestASecondDocumentThatIsEmptyDoesNotMatter(t *testing.T) {
	for _, end := range []string{"---\n", "...\n", "---\n# nothing\n", "---\nnull\n"} {
		if _, err := Parse([]byte(podOf("") + end)); err != nil {
			t.Errorf("%q: %v", end, err)
		}
	}
}
