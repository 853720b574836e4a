package client

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// program is the header of an executable for a machine.
func program(machine byte) []byte {
	out := make([]byte, 64)
	copy(out, "\x7fELF\x02\x01\x01")
	out[16], out[18], out[20], out[52] = 2, machine, 1, 64
	return out
}

// hostsOf are hosts with nodes of these architectures.
func hostsOf(archs ...string) *v1.Snapshot {
	s := &v1.Snapshot{}
	for i, arch := range archs {
		name := string(rune('a' + i))
		s.Hosts = append(s.Hosts, v1.Host{Name: "host-" + name, NodeName: name, Kubelet: &v1.Kubelet{Flags: map[string]string{"cloud-provider": "aws"}}})
		n := v1.Node{Name: name}
		if arch != "" {
			n.Labels = map[string]string{planstep.ArchLabel: arch}
		}
		s.Nodes = append(s.Nodes, n)
	}
	s.Nodes = append(s.Nodes, v1.Node{Name: "no-host", Labels: map[string]string{planstep.ArchLabel: "riscv64"}})
	return s
}

// external makes the kubelet of a host one that the plan leaves alone.
func external(s *v1.Snapshot, i int) *v1.Snapshot {
	s.Hosts[i].Kubelet.Flags["cloud-provider"] = "external"
	return s
}

func TestTheImageCredentialProviderIsOneThatTheHostsCanRun(t *testing.T) {
	dir := t.TempDir()
	amd, arm, script := program(0x3e), program(0xb7), []byte("#!/bin/sh\n")
	for name, data := range map[string][]byte{"amd64": amd, "arm64": arm, "script": script, "wrong-arm64": amd, "wrong-amd64": amd} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sum := hostaccess.SHA256
	for name, c := range map[string]struct {
		path string
		snap *v1.Snapshot
		want string // the sums, or what an error says after "!"
	}{
		"one for all":                      {"amd64", hostsOf("amd64", "amd64"), sum(amd)},
		"one, and nothing is known":        {"arm64", hostsOf("", ""), sum(arm)},
		"a script for both":                {"script", hostsOf("amd64", "arm64"), sum(script)},
		"one an architecture":              {"{arch}", hostsOf("amd64", "arm64", "amd64"), "amd64:" + sum(amd) + ",arm64:" + sum(arm)},
		"one of the two":                   {"{arch}", hostsOf("arm64"), "arm64:" + sum(arm)},
		"of another architecture":          {"amd64", hostsOf("arm64"), "!is a program for amd64, and node a is arm64: give --credential-provider a path with {arch}"},
		"one of both is another's":         {"wrong-{arch}", hostsOf("amd64", "arm64"), "!is a program for amd64, and node b is arm64"},
		"one is missing":                   {"{arch}", hostsOf("amd64", "s390x"), "!reading the image credential provider for node b: "},
		"it is missing":                    {"none", hostsOf(""), "!reading the image credential provider: "},
		"architectures are not known":      {"{arch}", hostsOf("", ""), "!no node of a kubelet that changes shows its architecture (label kubernetes.io/arch)"},
		"a directory":                      {"", hostsOf("amd64"), "!reading the image credential provider for node a: "},
		"one whose kubelet is external":    {"{arch}", external(hostsOf("amd64", "s390x"), 1), "amd64:" + sum(amd)},
		"one that names another file":      {"{arch}", hostsOf("amd64", "../amd64"), "amd64:" + sum(amd)},
		"hosts of a cluster without nodes": {"amd64", &v1.Snapshot{}, sum(amd)},
	} {
		path := filepath.Join(dir, c.path)
		have, err := readProviders(path, c.snap)
		if says, wrong := strings.CutPrefix(c.want, "!"); wrong {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %q, %v, want %q", name, have, err, says)
			}
			continue
		}
		if err != nil || have != c.want {
			t.Errorf("%s: %q, %v, want %q", name, have, err, c.want)
			continue
		}
		for _, f := range planstep.ProviderFiles(v1.Options{CredentialProvider: path, CredentialProviderSHA256: have}) {
			if !planstep.IsProviderFile(v1.Options{CredentialProvider: path, CredentialProviderSHA256: have}, f.Path, f.SHA256) {
				t.Errorf("%s: %+v is not known again", name, f)
			}
		}
	}
	o := v1.Options{CredentialProvider: "{arch}", CredentialProviderSHA256: "amd64:1,arm64:2"}
	for _, wrong := range [][2]string{{"amd64", "2"}, {"{arch}", o.CredentialProviderSHA256}, {"", ""}, {"s390x", "1"}} {
		if planstep.IsProviderFile(o, wrong[0], wrong[1]) {
			t.Errorf("%q with %q is taken", wrong[0], wrong[1])
		}
	}
	if planstep.IsProviderFile(v1.Options{}, "", "") {
		t.Error("no file is taken for one")
	}
}
