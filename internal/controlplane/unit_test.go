package controlplane

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/internal/controlplane/kubeletfile"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
)

// machine is the files of a host.
type machine map[string]string

func (m machine) Read(p string) ([]byte, error) {
	if text, ok := m[p]; ok {
		if text == "denied" {
			return nil, fs.ErrPermission
		}
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

func (m machine) List(dir string) ([]string, error) {
	var out []string
	for p := range m {
		if path.Dir(p) == dir {
			out = append(out, path.Base(p))
		}
	}
	if out == nil {
		return nil, fs.ErrNotExist
	}
	slices.Sort(out)
	return out, nil
}

const (
	unitFile   = "/etc/systemd/system/kube-controller-manager.service"
	kubeletOne = "/usr/lib/systemd/system/kubelet.service"
	kubeadmOne = "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"
	handmade   = `[Unit]
Description=Kubernetes Controller Manager
Documentation=https://github.com/kubernetes/kubernetes

[Service]
ExecStart=/usr/local/bin/kube-controller-manager \
  --bind-address=0.0.0.0 \
  --cluster-cidr=10.200.0.0/16 \
  --cluster-name=kubernetes \
  # the provider goes away in 1.27
  --cloud-provider=aws \
  --cloud-config=/etc/kubernetes/cloud.conf \
  --v=2
Restart=on-failure
RestartSec=5

[Install]
WantedBy=multi-user.target
`
)

// kubeadmHost is what the packages of kubeadm 1.26 and kubeadm itself leave.
func kubeadmHost() machine {
	return machine{
		kubeletOne: "[Unit]\nDescription=kubelet: The Kubernetes Node Agent\n\n[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\n",
		kubeadmOne: `# Note: This dropin only works with kubeadm and kubelet v1.11+
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
# This is a file that "kubeadm init" and "kubeadm join" generates at runtime, populating the KUBELET_KUBEADM_ARGS variable dynamically
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
# This is a file that the user can use for overrides of the kubelet args as a last resort.
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`,
		kubeletfile.KubeletFlagsFile: kubeadmFlags,
	}
}

func TestReadUnitOfAKubeadmKubelet(t *testing.T) {
	files := kubeadmHost()
	files["/etc/default/kubelet"] = "KUBELET_EXTRA_ARGS=--cloud-config=/etc/kubernetes/cloud.conf --node-labels=tier=front\n"
	u, err := systemdunit.ReadUnit(files, "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"bootstrap-kubeconfig":       kubeadmOne,
		"kubeconfig":                 kubeadmOne,
		"config":                     kubeadmOne,
		"cloud-provider":             kubeletfile.KubeletFlagsFile,
		"container-runtime-endpoint": kubeletfile.KubeletFlagsFile,
		"hostname-override":          kubeletfile.KubeletFlagsFile,
		"pod-infra-container-image":  kubeletfile.KubeletFlagsFile,
		"cloud-config":               "/etc/default/kubelet",
		"node-labels":                "/etc/default/kubelet",
	}
	if diff := cmp.Diff(want, u.Sources()); diff != "" {
		t.Errorf("sources, -want +got:\n%s", diff)
	}
	if got := u.Flags(); got["config"] != "/var/lib/kubelet/config.yaml" || got["cloud-provider"] != "aws" || got["node-labels"] != "tier=front" || len(got) != 9 {
		t.Errorf("flags are %v", got)
	}
	if got := u.Home(); got != kubeletfile.KubeletFlagsFile {
		t.Errorf("the flags stand in %s", got)
	}
	if diff := cmp.Diff([]string{kubeletOne, kubeadmOne, kubeletfile.KubeletFlagsFile, "/etc/default/kubelet"}, u.Paths()); diff != "" {
		t.Errorf("files, -want +got:\n%s", diff)
	}
	if u.Component() != "kubelet" || u.Name != "kubelet.service" || string(u.Data(kubeletfile.KubeletFlagsFile)) != kubeadmFlags {
		t.Errorf("it is %s of %s", u.Component(), u.Name)
	}
	if diff := cmp.Diff([]string{"KUBELET_CONFIG_ARGS", "KUBELET_EXTRA_ARGS", "KUBELET_KUBEADM_ARGS", "KUBELET_KUBECONFIG_ARGS"}, u.EnvNames()); diff != "" {
		t.Errorf("variables, -want +got:\n%s", diff)
	}
}

func TestReadUnitCommand(t *testing.T) {
	service := func(text string) machine { return machine{unitFile: "[Service]\n" + text} }
	const at = "/usr/bin/kube-controller-manager"
	tests := map[string]struct {
		files machine
		want  []string
	}{
		"lines that go on, with a comment between": {machine{unitFile: handmade}, []string{
			"/usr/local/bin/kube-controller-manager", "--bind-address=0.0.0.0", "--cluster-cidr=10.200.0.0/16", "--cluster-name=kubernetes", "--cloud-provider=aws",
			"--cloud-config=/etc/kubernetes/cloud.conf", "--v=2",
		}},
		"line breaks of Windows": {service("ExecStart=" + at + " \\\r\n --a=b\r\n"), []string{at, "--a=b"}},
		"quotes and escapes": {
			service(`ExecStart=` + at + ` "--a=b c" '--d=e\x20f' --g=\"h\" --i=$$j --k=100%%`),
			[]string{at, "--a=b c", "--d=e f", `--g="h"`, "--i=$j", "--k=100%"},
		},
		"a failure that does not matter": {service("ExecStart=-" + at + " --a"), []string{at, "--a"}},
		"a variable alone makes words":   {service("Environment=\"A=--a=b  --c 'd e'\"\nExecStart=" + at + " $A"), []string{at, "--a=b", "--c", "d e"}},
		"a value with a percent sign": {
			service("Environment=\"A=5%%i\" B=6%%\nExecStart=" + at + " --a=${A} --b=7%%i $B"),
			[]string{at, "--a=5%i", "--b=7%i", "6%"},
		},
		"a variable in braces makes one":          {service("Environment=\"A=b c\" B=d\nExecStart=" + at + " --a=${A} --${B}"), []string{at, "--a=b c", "--d"}},
		"a variable inside a word without braces": {service("Environment=A=b\nExecStart=" + at + " --a=$A"), []string{at, "--a=$A"}},
		"a variable that nothing sets":            {service("ExecStart=" + at + " $A --b=${C}"), []string{at, "--b="}},
		"a later setting wins":                    {service("Environment=A=--x A=--y\nEnvironment=A=--z\nExecStart=" + at + " $A"), []string{at, "--z"}},
		"an empty setting resets":                 {service("Environment=A=--x\nEnvironment=\nExecStart=" + at + " $A"), []string{at}},
		"a variable that is taken away":           {service("Environment=A=--x\nUnsetEnvironment=A\nExecStart=" + at + " $A"), []string{at}},
		"variables that are not replaced":         {service("Environment=A=--x\nExecStart=:" + at + " $A"), []string{at, "$A"}},
		"a program that starts it": {
			service("ExecStart=/hyperkube kube-controller-manager --a=b"),
			[]string{"/hyperkube", "kube-controller-manager", "--a=b"},
		},
		"other sections do not count": {
			machine{unitFile: "[Unit]\nExecStart=/bin/false\n[Service]\nExecStart=" + at + "\n[Install]\nExecStart=/bin/false\n"},
			[]string{at},
		},
		"a file wins over a setting": {
			machine{unitFile: "[Service]\nEnvironmentFile=/etc/kcm.env\nEnvironment=A=--x\nExecStart=" + at + " $A", "/etc/kcm.env": "A=--y\n"},
			[]string{at, "--y"},
		},
		"a file that may be absent": {service("EnvironmentFile=-/etc/kcm.env\nExecStart=" + at + " $A"), []string{at}},
		"files by a pattern": {
			machine{
				unitFile:           "[Service]\nEnvironmentFile=/etc/kcm.d/*.env\nExecStart=" + at + " $A $B",
				"/etc/kcm.d/2.env": "A=--y",
				"/etc/kcm.d/1.env": "A=--x\nB=--b",
				"/etc/kcm.d/3.bak": "A=--z",
			},
			[]string{at, "--y", "--b"},
		},
		"a drop-in adds a variable": {
			machine{unitFile: "[Service]\nExecStart=" + at + " $A", unitFile + ".d/1.conf": "[Service]\nEnvironment=A=--x\n"},
			[]string{at, "--x"},
		},
		"drop-ins in the order of their names": {
			machine{
				unitFile:               "[Service]\nExecStart=" + at + " $A",
				unitFile + ".d/2.conf": "[Service]\nEnvironment=A=--late\n",
				"/usr/lib/systemd/system/kube-controller-manager.service.d/1.conf": "[Service]\nEnvironment=A=--early\n",
			},
			[]string{at, "--late"},
		},
		"a drop-in takes another's place": {
			machine{
				unitFile:               "[Service]\nExecStart=" + at + " $A",
				unitFile + ".d/1.conf": "",
				"/usr/lib/systemd/system/kube-controller-manager.service.d/1.conf": "[Service]\nEnvironment=A=--early\n",
			},
			[]string{at},
		},
		"a drop-in of every unit that begins so": {
			machine{
				unitFile: "[Service]\nExecStart=" + at + " $A",
				"/etc/systemd/system/kube-.service.d/1.conf": "[Service]\nEnvironment=A=--x\n",
				"/etc/systemd/system/service.d/0.conf":       "[Service]\nEnvironment=A=--y\n",
			},
			[]string{at, "--x"},
		},
		"a drop-in resets the command": {
			machine{unitFile: "[Service]\nExecStart=/bin/false", unitFile + ".d/1.conf": "[Service]\nExecStart=\nExecStart=" + at + "\n"},
			[]string{at},
		},
		"the unit of an earlier directory counts": {
			machine{unitFile: "[Service]\nExecStart=" + at, "/lib/systemd/system/kube-controller-manager.service": "[Service]\nExecStart=/bin/false"},
			[]string{at},
		},
		"an environment file as shells write it": {
			machine{
				unitFile: "[Service]\nEnvironmentFile=/e\nExecStart=" + at + " $A $B $C $D",
				"/e":     "# c\n; d\nnonsense\nexport X=y\nA=\"--a=b \\\n--c=d\"\nB='--e=f'  \nC=--g=h \\\n  --i=j\nD=\"--k\"'=l'\n",
			},
			[]string{at, "--a=b", "--c=d", "--e=f", "--g=h", "--i=j", "--k=l"},
		},
		"an environment file with quotes in a value": {
			machine{unitFile: "[Service]\nEnvironmentFile=/e\nExecStart=" + at + " $A", "/e": `A=--a="b c" --d=e\ f`},
			[]string{at, "--a=b c", "--d=e", "f"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			u, err := systemdunit.ReadUnit(tt.files, "kube-controller-manager.service")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, u.Command()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestReadUnitOfAnInstance(t *testing.T) {
	files := machine{
		"/etc/systemd/system/kube-scheduler@.service":           "[Service]\nEnvironmentFile=/etc/%p/%i.env\nExecStart=/usr/bin/kube-scheduler $A --name=%i --host=%H\n",
		"/etc/kube-scheduler/a.env":                             "A=--x\n",
		"/etc/systemd/system/kube-scheduler@a.service.d/1.conf": "[Service]\nEnvironment=B=c\n",
	}
	u, err := systemdunit.ReadUnit(files, "kube-scheduler@a.service")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/usr/bin/kube-scheduler", "--x", "--name=a", "--host=%H"}, u.Command()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a flag holds %H, which systemd replaces"}, u.Remarks()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReadUnitRefuses(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"a shell's script":          {"ExecStart=/bin/sh -c 'exec kube-controller-manager --a=b'", "kube-controller-manager is started by a script of /bin/sh"},
		"a script of nothing known": {"ExecStart=/bin/bash -c /opt/start", "is started by a script of /bin/bash"},
		"a wrapper": {
			"ExecStart=/opt/start-kcm.sh --a=b",
			"unit kube-controller-manager.service starts /opt/start-kcm.sh, which is none of the components",
		},
		"a container runtime":      {"ExecStart=/usr/bin/docker run --rm x kube-controller-manager --a", "starts kube-controller-manager by way of /usr/bin/docker"},
		"no command":               {"Type=simple", "has no ExecStart="},
		"a command that was reset": {"ExecStart=/bin/false\nExecStart=", "has no ExecStart="},
		"several commands":         {"ExecStart=/bin/a\nExecStart=/bin/b", "several ExecStart= (" + unitFile + " line 2 and " + unitFile + " line 3)"},
		"commands in one line":     {"ExecStart=/bin/a ; /bin/b", "it starts several commands"},
		"an open quote":            {"ExecStart=/bin/a \"b", "line 2: ExecStart=: it has a quote (\") that is not closed"},
		"an unknown escape":        {`ExecStart=/bin/a \q`, `it has an escape ("\\q") that is not known`},
		"an open quote of a value": {"Environment='A=b\nExecStart=/bin/a", unitFile + " line 2: Environment=: it has a quote"},
		"a file that is absent":    {"EnvironmentFile=/absent\nExecStart=/bin/a", "reads the environment file /absent, which is not there"},
		"a file that is denied": {
			"EnvironmentFile=-/denied\nExecStart=/bin/a",
			"reading an environment file of kube-controller-manager.service: permission denied",
		},
		"a relative file":           {"EnvironmentFile=x\nExecStart=/bin/a", `the environment file "x" is no absolute path`},
		"a file by the host's name": {"EnvironmentFile=/etc/%H.env\nExecStart=/bin/a", "holds %H, which is not known here"},
		"a variable of systemd's":   {"PassEnvironment=A B\nExecStart=kube-scheduler $B", "the value of $B is passed on from systemd's own environment"},
		"a variable's open quote":   {"Environment=\"A=--a='b\"\nExecStart=kube-scheduler $A", "the value of $A in " + unitFile + ": a quote in it is not closed"},
		"another name":              {"ExecStart=@/bin/a b", "gives the program another name"},
		"nothing":                   {"ExecStart=-", "it names no program"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := systemdunit.ReadUnit(machine{unitFile: "[Service]\n" + tt.text, "/denied": "denied"}, "kube-controller-manager.service")
			if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestReadUnitThatIsNotThere(t *testing.T) {
	if _, err := systemdunit.ReadUnit(
		machine{},
		"kubelet",
	); !errors.Is(err, fs.ErrNotExist) ||
		!strings.HasPrefix(err.Error(), "there is no unit kubelet.service in /etc/systemd/system, ") {
		t.Errorf("err = %v", err)
	}
	if _, err := systemdunit.ReadUnit(
		machine{"/etc/systemd/system/kubelet.service": "\n"},
		"kubelet",
	); err == nil ||
		!strings.Contains(err.Error(), "is masked by an empty file") {
		t.Errorf("err = %v", err)
	}
	if _, err := systemdunit.ReadUnit(machine{"/etc/systemd/system/kubelet.service": "denied"}, "kubelet"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("err = %v", err)
	}
}

func TestHomeIsNoFileOfAPackageIfThatCanBe(t *testing.T) {
	files := machine{
		"/lib/systemd/system/kube-scheduler.service": "[Service]\nEnvironmentFile=/etc/kubernetes/scheduler\nExecStart=/usr/bin/kube-scheduler --a=b --c=d $ARGS\n",
		"/etc/kubernetes/scheduler":                  "ARGS=--v=2\n",
	}
	u, err := systemdunit.ReadUnit(files, "kube-scheduler")
	if err != nil || u.Home() != "/etc/kubernetes/scheduler" || u.Remarks() != nil {
		t.Errorf("%v, %v", u, err)
	}
	files["/etc/kubernetes/scheduler"] = "ARGS=\n"
	if u, err = systemdunit.ReadUnit(files, "kube-scheduler"); err != nil || len(u.Remarks()) != 1 || !strings.Contains(u.Remarks()[0], "belongs to a package") {
		t.Errorf("%v, %v", u, err)
	}
}
