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
)

// programs are what a fix may begin with: what an operator of a cluster has at hand.
var programs = []string{
	"transplant", "kubectl", "kubeadm", "aws", "az", "gcloud", "openstack", "govc", "chronyc", "grep", "sed", "mv", "cp", "rm", "chmod", "chown", "install", "printf", "ps", "ss", "tr", "systemctl",
	"journalctl", "crictl", "ls", "cat", "stat", "curl", "openssl", "sudo", "echo", "for", "diff", "sha256sum", "helm", "head", "pgrep",
}

// subcommands are those of transplant.
var subcommands = []string{"snapshot", "check", "explain", "plan", "diff", "apply", "rollback", "verify", "status", "report"}

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

// TestFixesOfManifestsDoWhatTheySay runs the fixes that edit a manifest, on a copy.
func TestFixesOfManifestsDoWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		code      string
		change    func(*v1.Snapshot)
		has, lost []string
	}{
		{"CP-002", flagsOf(kcm, map[string]string{"leader-elect": "false"}), []string{"- --leader-elect=true\n", "- --v=2\n"}, []string{"--leader-elect=false"}},
		{"CP-007", func(s *v1.Snapshot) { setFlags(s, 1, kcm, map[string]string{"cloud-provider": "external"}) }, []string{"- --cloud-provider=aws\n", "- --v=2\n"}, []string{"external"}},
		{"LM-002", flagsOf(kcm, map[string]string{"cloud-provider": "external", "enable-leader-migration": "true"}), []string{"- --leader-elect=false\n", "- --v=2\n"}, []string{"leader-migration"}},
	} {
		t.Run(c.code, func(t *testing.T) {
			s := healthy()
			c.change(s)
			f := found(t, Run(s, Options{}), c.code)
			if f.Outcome != v1.Fail || f.Fix == "" {
				t.Fatalf("got %s and the fix %q", f.Outcome, f.Fix)
			}
			dir := t.TempDir()
			path := filepath.Join(dir, kcm+".yaml")
			if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
				t.Fatal(err)
			}
			command := strings.ReplaceAll(f.Fix, "/etc/kubernetes/manifests", dir)
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
			for _, text := range c.lost {
				if strings.Contains(string(got), text) {
					t.Errorf("after %s there still is %q:\n%s", command, text, got)
				}
			}
		})
	}
}
