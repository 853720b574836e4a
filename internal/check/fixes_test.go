package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/component"
)

// programs are what a fix may begin with: what an operator of a cluster has at hand.
var programs = []string{
	"transplant",
	"kubectl",
	"kubeadm",
	"aws",
	"az",
	"gcloud",
	"openstack",
	"govc",
	"chronyc",
	"grep",
	"sed",
	"mv",
	"cp",
	"rm",
	"chmod",
	"chown",
	"install",
	"printf",
	"ps",
	"ss",
	"tr",
	"systemctl",
	"journalctl",
	"crictl",
	"ls",
	"cat",
	"stat",
	"curl",
	"openssl",
	"sudo",
	"echo",
	"for",
	"diff",
	"sha256sum",
	"helm",
	"head",
	"pgrep",
	"test",
}

// subcommands are those of transplant.
var subcommands = []string{"snapshot", "check", "explain", "plan", "diff", "apply", "rollback", "verify", "status", "report", "renew", "remove-orphans"}

// fixes are the fixes of all cases, with the code of one that has each.
func fixes(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, tc := range allRules() {
		if fix := tc.finding(t).Fix; fix != "" {
			out[fix] = tc.code
		}
	}
	return out
}

func TestEveryFixIsACommand(t *testing.T) {
	placeholder := regexp.MustCompile(`<[a-z][^<>]*>`)
	all := fixes(t)
	if len(all) < 100 {
		t.Errorf("only %d fixes were seen", len(all))
	}
	for fix, code := range all {
		words := strings.Fields(fix)
		if !slices.Contains(programs, words[0]) {
			t.Errorf("%s: no operator has %q at hand: %s", code, words[0], fix)
		}
		if words[0] == "transplant" && (len(words) < 2 || !slices.Contains(subcommands, words[1])) {
			t.Errorf("%s: transplant has no such command: %s", code, fix)
		}
		if strings.HasPrefix(fix, "transplant explain ") {
			if _, ok := Explain(words[2]); !ok {
				t.Errorf("%s: there is no check %s to explain", code, words[2])
			}
		}
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", placeholder.ReplaceAllString(fix, "X")).CombinedOutput(); err != nil {
			t.Errorf("%s: a shell does not take the fix: %s\n%s", code, fix, out)
		}
	}
}

const manifest = `apiVersion: v1
kind: Pod
spec:
  containers:
  - command:
    - kube-controller-manager
    - --cloud-provider=external
    - --enable-leader-migration=true
    - --leader-elect=false
    - --leader-migration-config=/etc/kubernetes/leadermigration.conf # ours
    - --v=2
`

// externalWithoutConfig makes managers external and removes their cloud config, as the procedure says.
func externalWithoutConfig(hosts ...int) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		for _, i := range hosts {
			setFlags(s, i, component.KCM, map[string]string{"cloud-provider": "external"})
			delete(manager(s, i, component.KCM).Flags, "cloud-config")
		}
	}
}

// TestAHalfMigratedClusterGetsItsCloudConfigBackFromWhoShowsIt is about the path in the fix, where no manager in the middle of a migration has it.
func TestAHalfMigratedClusterGetsItsCloudConfigBackFromWhoShowsIt(t *testing.T) {
	all := externalWithoutConfig(0, 1, 2)
	noKubelet := func(s *v1.Snapshot) { delete(s.Hosts[0].Kubelet.Flags, "cloud-config") }
	serverHas := func(i int, path string) func(*v1.Snapshot) {
		return func(s *v1.Snapshot) { setFlags(s, i, component.KAS, map[string]string{"cloud-config": path}) }
	}
	for name, c := range map[string]struct {
		change func(*v1.Snapshot)
		has    string // empty for no path
	}{
		"a manager that is in-tree": {externalWithoutConfig(1, 2), "--cloud-config=/etc/kubernetes/cloud.conf"},
		"managers that are in-tree do without": {
			changes(externalWithoutConfig(1), func(s *v1.Snapshot) { delete(manager(s, 0, component.KCM).Flags, "cloud-config") }, serverHas(1, "/etc/a.conf")),
			"",
		},
		"the API server of another host":            {changes(all, serverHas(2, "/etc/c.conf")), "--cloud-config=/etc/c.conf"},
		"the API server of the host, before others": {changes(all, serverHas(0, "/etc/a.conf"), serverHas(2, "/etc/c.conf")), "--cloud-config=/etc/a.conf"},
		"the kubelet of the host":                   {changes(all, func(s *v1.Snapshot) { kubeletFlags(s, 0, map[string]string{"cloud-config": "/etc/k.conf"}) }), "--cloud-config=/etc/k.conf"},
		"a path that a shell would read":            {changes(all, noKubelet, serverHas(0, "/etc/$(x)|'.conf")), ""},
		"nobody":                                    {changes(all, noKubelet), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			c.change(s)
			fix := found(t, Run(s, facts.Options{}), "CP-007").Fix
			if !strings.Contains(fix, "--cloud-provider=aws") || !strings.Contains(fix, c.has) || (c.has == "" && strings.Contains(fix, "--cloud-config")) {
				t.Errorf("got %s, want it with %q", fix, c.has)
			}
		})
	}
}

// TestFixesOfManifestsDoWhatTheySay runs the fixes that edit a manifest, on a copy.
func TestFixesOfManifestsDoWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		code      string
		change    func(*v1.Snapshot)
		has, lost []string
	}{
		{"CP-002", flagsOf(component.KCM, map[string]string{"leader-elect": "false"}), []string{"- --leader-elect=true\n", "- --v=2\n"}, []string{"--leader-elect=false"}},
		{
			"CP-007",
			func(s *v1.Snapshot) { setFlags(s, 1, component.KCM, map[string]string{"cloud-provider": "external"}) },
			[]string{"- --cloud-provider=aws\n", "- --v=2\n"},
			[]string{"external", "cloud-config"},
		},
		{"CP-007", externalWithoutConfig(1), []string{"    - --cloud-config=/etc/kubernetes/cloud.conf\n", "    - --cloud-provider=aws\n", "- --v=2\n"}, []string{"external"}},
		{
			"LM-002",
			flagsOf(component.KCM, map[string]string{"cloud-provider": "external", "enable-leader-migration": "true"}),
			[]string{"- --leader-elect=false\n", "- --v=2\n"},
			[]string{"leader-migration"},
		},
	} {
		t.Run(c.code, func(t *testing.T) {
			s := healthy()
			c.change(s)
			f := found(t, Run(s, facts.Options{}), c.code)
			if f.Outcome != v1.Fail || f.Fix == "" {
				t.Fatalf("got %s and the fix %q", f.Outcome, f.Fix)
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "manifests", component.KCM+".yaml")
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
				t.Fatal(err)
			}
			command := strings.ReplaceAll(f.Fix, " /etc/kubernetes/", " "+dir+"/")
			if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", command, err, out)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range c.has {
				if !strings.Contains(string(got), line) {
					t.Errorf("after %s there is no %q:\n%s", command, line, got)
				}
			}
			if left, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(left) != 1 {
				t.Errorf("after %s there are %q, %v", command, left, err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("after %s the manifest is %v, %v", command, info, err)
			}
			for _, text := range c.lost {
				if strings.Contains(string(got), text) {
					t.Errorf("after %s there still is %q:\n%s", command, text, got)
				}
			}
		})
	}
}
