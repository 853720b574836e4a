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
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// writeUnits lays out a control plane that systemd starts.
func writeUnits(t *testing.T, dir string) {
	t.Helper()
	const at = "cp-1/etc/systemd/system/"
	write(t, dir, "cp-1/etc/kubernetes/admin.conf", "")
	write(
		t,
		dir,
		at+"kube-apiserver.service",
		"[Service]\nEnvironment=ETCD_PASSWORD="+planted+"\nExecStart=/usr/local/bin/kube-apiserver \\\n  --advertise-address="+address(
			1,
		)+" \\\n  --cloud-provider=aws \\\n  --etcd-servers=https://root:"+planted+"@10.0.0.1:2379\n",
	)
	write(
		t,
		dir,
		at+"kube-controller-manager.service",
		"[Service]\nEnvironmentFile=/etc/kubernetes/kcm.env\nExecStart=/usr/local/bin/kube-controller-manager --v=2 $KCM_ARGS\n",
	)
	write(t, dir, at+"kube-controller-manager.service.d/10-extra.conf", "[Service]\nEnvironment=AWS_SECRET_ACCESS_KEY="+planted+"\n")
	write(
		t,
		dir,
		"cp-1/etc/kubernetes/kcm.env",
		"KCM_ARGS=\"--bind-address="+address(1)+" --cloud-provider=aws --cloud-config=/etc/kubernetes/cloud.conf --cluster-name=lab\"\nTOKEN="+planted+"\n",
	)
	write(t, dir, "cp-1/etc/kubernetes/cloud.conf", cloudConf)
	write(t, dir, "cp-1/usr/lib/systemd/system/kubernetes-scheduler.service", "[Service]\nExecStart=/bin/sh -c 'exec kube-scheduler --token="+planted+"'\n")
	write(t, dir, at+"aws-cloud-controller-manager.service", "[Service]\nExecStart=/usr/bin/aws-cloud-controller-manager --cloud-provider=aws\n")
	write(t, dir, at+"kube-scheduler-exporter.service", "[Service]\nExecStart=/usr/bin/exporter\n")
	write(t, dir, at+"kube-scheduler@.service", "[Service]\nExecStart=/usr/bin/kube-scheduler\n")
	write(t, dir, at+"sshd.service", "[Service]\nExecStart=/usr/sbin/sshd --token="+planted+"\n")
}

func TestAControlPlaneOfUnits(t *testing.T) {
	dir := t.TempDir()
	writeUnits(t, dir)
	s, h := gatherHosts(t, dir, "cp-1", collect.Options{})
	var got []string
	for _, c := range h.Components {
		got = append(got, fmt.Sprintf("%s %s %s %s %s %s", c.Name, c.Runs, c.Unit, c.Manifest, c.Address, c.Error))
		if len(c.SHA256) != 64 {
			t.Errorf("%s has no hash", c.Name)
		}
	}
	want := []string{
		"cloud-controller-manager systemd aws-cloud-controller-manager.service /etc/systemd/system/aws-cloud-controller-manager.service 127.0.0.1:10258 ",
		"kube-apiserver systemd kube-apiserver.service /etc/systemd/system/kube-apiserver.service 127.0.0.1:6443 ",
		"kube-controller-manager systemd kube-controller-manager.service /etc/kubernetes/kcm.env " + address(1) + ":10257 ",
		"kube-scheduler systemd kubernetes-scheduler.service /usr/lib/systemd/system/kubernetes-scheduler.service  unit kubernetes-scheduler.service: kube-scheduler is started by a script of /bin/sh, " +
			"so its flags cannot be read or edited; write the command as a list, one argument an element",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	m := h.Components[2]
	if diff := cmp.Diff(
		[]string{
			"/usr/local/bin/kube-controller-manager",
			"--v=2",
			"--bind-address=" + address(1),
			"--cloud-provider=aws",
			"--cloud-config=/etc/kubernetes/cloud.conf",
			"--cluster-name=lab",
		},
		m.Command,
	); diff != "" {
		t.Errorf("command, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"v": "/etc/systemd/system/kube-controller-manager.service"}, m.Sources); diff != "" {
		t.Errorf("sources, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"AWS_SECRET_ACCESS_KEY", "KCM_ARGS", "TOKEN"}, m.EnvNames); diff != "" {
		t.Errorf("variables, -want +got:\n%s", diff)
	}
	if !h.ControlPlane || h.CloudConfig == nil || h.CloudConfig.Path != "/etc/kubernetes/cloud.conf" || s.Cluster.Name != "lab" {
		t.Errorf("control plane %t, cloud config %+v, cluster %q", h.ControlPlane, h.CloudConfig, s.Cluster.Name)
	}
	files := map[string]bool{}
	for _, f := range h.Files {
		files[f.Path] = f.Present
	}
	for _, at := range []string{"/etc/systemd/system/kube-controller-manager.service", "/etc/systemd/system/kube-controller-manager.service.d/10-extra.conf", "/etc/kubernetes/kcm.env"} {
		if !files[at] {
			t.Errorf("file %s is not told of", at)
		}
	}
	if out := saved(t, s); strings.Contains(out, planted) {
		t.Errorf("the snapshot holds a secret: …%s…", out[strings.Index(out, planted)-200:])
	}
}

func TestTheProgramOfAUnitSaysItsVersion(t *testing.T) {
	const unit = "cp-1/etc/systemd/system/kube-scheduler.service"
	tests := map[string]struct {
		start, script, version, unknown string
	}{
		"it does": {"/opt/kube-scheduler --v=2", `[ "$*" = --version ] && echo "Kubernetes v1.26.0"`, "v1.26.0", ""},
		"behind another program": {
			"/opt/hyperkube kube-scheduler --v=2",
			`[ "$*" = "kube-scheduler --version" ] && echo "Kubernetes v1.26.0-eks-a1"`,
			"v1.26.0-eks-a1",
			"",
		},
		"it fails":                  {"/opt/kube-scheduler", "exit 3", "", "running /opt/kube-scheduler on host cp-1: exit status 3"},
		"it says something else":    {"/opt/kube-scheduler", "echo " + planted, "", "/opt/kube-scheduler --version says something that is no version of Kubernetes"},
		"it is not there":           {"/opt/other/kube-scheduler", "true", "", "no such file or directory"},
		"it is found by its search": {"kube-scheduler", "true", "", "its command does not begin with a path of it"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "cp-1/etc/kubernetes/admin.conf", "")
			write(t, dir, unit, "[Service]\nExecStart="+tt.start+"\n")
			for _, program := range []string{"kube-scheduler", "hyperkube"} {
				write(t, dir, "cp-1/opt/"+program, "#!/bin/sh\n"+tt.script+"\n")
				if err := os.Chmod(filepath.Join(dir, "cp-1/opt", program), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			s, h := gatherHosts(t, dir, "cp-1", collect.Options{})
			if len(h.Components) != 1 || h.Components[0].Version != tt.version {
				t.Errorf("got %+v", h.Components)
			}
			why := ""
			for _, e := range s.Errors {
				if e.Fact == "hosts/cp-1/versions/kube-scheduler" {
					why = e.Error
				}
			}
			if tt.unknown == "" && why != "" || !strings.Contains(why, tt.unknown) || strings.Contains(why, planted) {
				t.Errorf("unknown is %q, want %q", why, tt.unknown)
			}
		})
	}
}

// TestASnapshotRunsNoProgramOfAHostsDirectory: root on a host whose disk is mounted here would become the administrator.
func TestASnapshotRunsNoProgramOfAHostsDirectory(t *testing.T) {
	dir, loot := writeProvider(t, credentialConfig, answering), filepath.Join(t.TempDir(), "loot")
	write(t, dir, "w-1/etc/systemd/system/kube-scheduler.service", "[Service]\nExecStart=/opt/kube-scheduler\n")
	write(t, dir, "w-1/etc/systemd/system/kube-controller-manager.service", "[Service]\nExecStart=/opt/kube-controller-manager\n")
	write(t, dir, "w-1/etc/kubernetes/manifests/kube-scheduler.yaml", manifest("kube-scheduler", "registry.k8s.io/kube-scheduler:v1.26.0"))
	for _, program := range []string{"opt/kube-scheduler", "opt/kube-controller-manager", "opt/bin/ecr-credential-provider", "usr/bin/systemctl"} {
		write(t, dir, "w-1/"+program, "#!/bin/sh\nid >>"+loot+"\necho Kubernetes v1.26.0\n")
		if err := os.Chmod(filepath.Join(dir, "w-1", program), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := Gather(t.Context(), collect.Sources{Hosts: openDirectories(t, dir)}, collect.Options{AskCredentialProviders: true})
	if data, err := os.ReadFile(loot); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("programs of the host ran: %s, %v", data, err)
	}
	for _, fact := range []string{"hosts/w-1/versions/kube-controller-manager", "hosts/w-1/credential-providers"} {
		if got := unknownsOf(s, fact); len(got) != 1 || !strings.Contains(got[0], "runs no programs of its host") {
			t.Errorf("%s is unknown for %q", fact, got)
		}
	}
}

// manager is a host whose service manager answers.
type manager struct {
	hostaccess.Host
	active bool
	err    error
}

func (manager) DaemonReload(context.Context) error { return errors.ErrUnsupported }

func (manager) Restart(context.Context, string) error { return errors.ErrUnsupported }

func (manager) Stop(context.Context, string) error { return errors.ErrUnsupported }

func (manager) Start(context.Context, string) error { return errors.ErrUnsupported }

func (m manager) Active(context.Context, string) (bool, error) { return m.active, m.err }

func TestAUnitBesideAStaticPod(t *testing.T) {
	dir, _ := writeHosts(t)
	write(t, dir, "cp-1/usr/lib/systemd/system/kube-controller-manager.service", "[Service]\nExecStart=/usr/bin/kube-controller-manager\n")
	host := open(t, dir)[0]
	tests := map[string]struct {
		host   hostaccess.Host
		n      int
		remark string
	}{
		"runs too":       {manager{host, true, nil}, 2, ""},
		"was left there": {manager{host, false, nil}, 1, "the host has a unit kube-controller-manager.service too: it does not run"},
		"cannot be told": {
			manager{host, false, errors.New("no systemctl")},
			1,
			"the host has a unit kube-controller-manager.service too: whether it runs could not be asked",
		},
		"cannot be asked of": {struct{ hostaccess.Host }{host}, 1, "the host has a unit kube-controller-manager.service too: whether it runs could not be asked"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := Gather(t.Context(), collect.Sources{Hosts: []hostaccess.Host{tt.host}, Now: func() time.Time { return now }}, collect.Options{})
			var found []v1.Component
			for _, c := range s.Hosts[0].Components {
				if c.Name == component.KCM {
					found = append(found, c)
				}
			}
			if len(found) != tt.n || strings.Join(found[0].Remarks, "|") != tt.remark {
				t.Errorf("got %+v", found)
			}
		})
	}
}

// sealed is a host one of whose directories cannot be read.
type sealed struct {
	hostaccess.Host
	dir string
}

func (s sealed) List(ctx context.Context, dir string) ([]string, error) {
	if dir == s.dir {
		return nil, errSealed
	}
	return s.Host.List(ctx, dir)
}

func (s sealed) ReadFile(ctx context.Context, p string) (hostaccess.File, error) {
	if strings.HasPrefix(p, s.dir+"/") {
		return hostaccess.File{}, errSealed
	}
	return s.Host.ReadFile(ctx, p)
}

var errSealed = errors.New("permission denied")

func TestUnitsThatCannotBeReadAreUnknown(t *testing.T) {
	dir := t.TempDir()
	writeUnits(t, dir)
	tests := map[string]struct {
		dir  string
		want []string
	}{
		"the directory of units": {"/etc/systemd/system", []string{
			"hosts/cp-1/kubelet: reading unit kubelet.service: permission denied", "hosts/cp-1/units: permission denied",
		}},
		"the manifests": {"/etc/kubernetes/manifests", []string{"hosts/cp-1: permission denied"}},
		"the environment files": {"/etc/kubernetes", []string{
			"hosts/cp-1/units: reading an environment file of kube-controller-manager.service: permission denied",
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := Gather(t.Context(), collect.Sources{Hosts: []hostaccess.Host{sealed{open(t, dir)[0], tt.dir}}, Now: func() time.Time { return now }}, collect.Options{})
			got := unknownsOf(s, "hosts/cp-1")
			for _, want := range tt.want {
				if !strings.Contains(strings.Join(got, "\n"), want) {
					t.Errorf("unknown are %q, want %q", got, want)
				}
			}
		})
	}
}
