package kubelet

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPathsUnderMountsAreMappedToTheHost(t *testing.T) {
	mounts := []mount{{"/etc/kubernetes/pki", "/h/pki"}, {"/etc/kubernetes", "/h/etc"}, {"/etc/ssl", "/h/ssl"}}
	for in, want := range map[string]string{
		"/etc/kubernetes/x.conf":                        "/h/etc/x.conf",
		"--a=/etc/kubernetes/pki/ca.crt":                "--a=/h/pki/ca.crt",
		"--a=/etc/kubernetes/a,/etc/kubernetes/pki/b":   "--a=/h/etc/a,/h/pki/b",
		"--a=/etc/kubernetes":                           "--a=/h/etc",
		"--a=/etc/kubernetesx/y":                        "--a=/etc/kubernetesx/y",
		"--a=file:///etc/kubernetes/y":                  "--a=file:///h/etc/y",
		"--a=https://127.0.0.1:6443/etc/kubernetes/y":   "--a=https://127.0.0.1:6443/etc/kubernetes/y",
		"--a=../etc/kubernetes/y":                       "--a=../etc/kubernetes/y",
		"--tls-sni-cert-key=/etc/ssl/a,/etc/ssl/b:x.io": "--tls-sni-cert-key=/h/ssl/a,/h/ssl/b:x.io",
		"/var/log": "/var/log",
		"":         "",
	} {
		if got := mapPaths(in, mounts); got != want {
			t.Errorf("%q: %q, not %q", in, got, want)
		}
	}
	if got := mapPaths("--a=/x", []mount{{"/", "/h"}}); got != "--a=/h/x" {
		t.Errorf("a mount of the root: %q", got)
	}
}

func TestVariablesAreExpandedAsInAContainer(t *testing.T) {
	vars := map[string]string{"A": "1", "B": "$(A)"}
	for in, want := range map[string]string{
		"$(A)": "1", "x$(A)y$(A)": "x1y1", "$$(A)": "$(A)", "$(NONE)": "$(NONE)", "$A": "$A", "$": "$", "$(A": "$(A", "$(B)": "$(A)",
	} {
		if got := expand(in, vars); got != want {
			t.Errorf("%q: %q, not %q", in, got, want)
		}
	}
}

func TestHostPathTypesAreHonoured(t *testing.T) {
	for name, c := range map[string]struct {
		kind corev1.HostPathType
		path string
		err  string
		made string // file or directory
	}{
		"unset makes a directory": {corev1.HostPathUnset, "/new", "", "directory"},
		"directory or create":     {corev1.HostPathDirectoryOrCreate, "/new", "", "directory"},
		"file or create":          {corev1.HostPathFileOrCreate, "/new", "", "file"},
		"directory":               {corev1.HostPathDirectory, "/dir", "", "directory"},
		"file":                    {corev1.HostPathFile, "/file", "", "file"},
		"no directory":            {corev1.HostPathDirectory, "/new", "/new is not a directory", ""},
		"a file for a directory":  {corev1.HostPathDirectoryOrCreate, "/file", "/file is not a directory", ""},
		"a directory for a file":  {corev1.HostPathFileOrCreate, "/dir", "/dir is not a file", ""},
		"no file":                 {corev1.HostPathFile, "/new", "/new is not a file", ""},
		"no socket":               {corev1.HostPathSocket, "/new", "/new does not exist", ""},
		"unknown type":            {"Pipe", "/new", `hostPath type "Pipe" is unknown`, ""},
		"out of the host":         {corev1.HostPathFile, "/../../file", "", "file"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &host{t: t, dir: t.TempDir()}
			h.write("file", "")
			if err := os.Mkdir(h.path("dir"), 0o755); err != nil {
				t.Fatal(err)
			}
			v := &corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: c.path, Type: &c.kind}}}
			got, err := prepareVolume(h.dir, &corev1.Pod{}, v)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(got)
			if err != nil || info.IsDir() != (c.made == "directory") || !strings.HasPrefix(got, h.dir) {
				t.Errorf("%s: %v, %v", got, info, err)
			}
		})
	}
}

func TestManifestThatIsNotAPodIsRefusedWithAReason(t *testing.T) {
	for name, c := range map[string]struct{ manifest, want string }{
		"not YAML":        {"\t{", "parsing manifest"},
		"wrong type":      {"apiVersion: v1\nkind: Pod\nmetadata: []\n", "parsing manifest"},
		"empty":           {"", `found kind "" of API version ""`},
		"a list":          {"apiVersion: v1\nkind: PodList\n", `found kind "PodList"`},
		"no name":         {strings.Replace(kcm(), "  name: kube", "  nam: kube", 1), "metadata.name is empty"},
		"bad name":        {strings.Replace(kcm(), "  name: kube", "  name: KUBE", 1), `pod name "KUBE-controller-manager-`},
		"no containers":   {"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n", "spec.containers is empty"},
		"no image":        {strings.Replace(kcm(), "image:", "imag:", 1), `container "kube-controller-manager": image is empty`},
		"two of a name":   {kcm() + "  - {name: kube-controller-manager, image: x}\n", `name "kube-controller-manager" is empty or given twice`},
		"init containers": {kcm() + "  initContainers: [{name: i, image: x}]\n", "runs no init containers"},
		"secret volume":   {kcm() + "  volumes: [{name: s, secret: {secretName: x}}]\n", `volume "s" is neither a hostPath nor an emptyDir`},
		"unknown volume":  {kcm() + "    volumeMounts: [{name: vol, mountPath: /x}]\n", `volumeMount of "vol": no such volume`},
		"relative mount":  {kcm() + "    volumeMounts: [{name: vol, mountPath: x}]\n  volumes: [{name: vol, emptyDir: {}}]\n", `mountPath "x" is not absolute`},
		"exec probe":      {kcm() + "    livenessProbe: {exec: {command: [x]}}\n", "knows httpGet and tcpSocket only"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseManifest([]byte(c.manifest), "/etc/kubernetes/manifests/x.yaml", testNode)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `"/etc/kubernetes/manifests/x.yaml"`) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestHashDependsOnContentFileAndNodeOnly(t *testing.T) {
	parse := func(content, path, node string) string {
		t.Helper()
		p, err := parseManifest([]byte(content), path, node)
		if err != nil {
			t.Fatal(err)
		}
		return p.hash()
	}
	base := parse(kcm("--v=1"), "/a.yaml", testNode)
	if again := parse("# x\n"+strings.Replace(kcm("--v=1"), "kind: Pod\n", "", 1)+"\nkind: Pod\n", "/a.yaml", testNode); again != base {
		t.Error("a comment and another order change the hash")
	}
	for name, other := range map[string]string{
		"content": parse(kcm("--v=2"), "/a.yaml", testNode), "file": parse(kcm("--v=1"), "/a.yaml.bak", testNode), "node": parse(kcm("--v=1"), "/a.yaml", "other"),
	} {
		if other == base {
			t.Errorf("another %s has the same hash", name)
		}
	}
}
