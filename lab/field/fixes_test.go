package field

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/build"
)

// Fixes that are not executed here, by what they would need:
//   - transplant plan, apply and rollback, by which a migration goes on: lab/trial runs whole migrations;
//   - kubectl edit, an editor of somebody who has to decide which of two values is meant;
//   - systemctl but for a kubelet's new start, journalctl, chronyc, kubeadm, ps and ss: a host with an init system, of which the hosts here have only the files
//     and the processes;
//   - az, gcloud, openstack and govc: accounts of clouds that nobody simulates here;
//   - values that only the operator knows, which the fix shows in angle brackets: where the hosts' directories are, which instance profile is meant;
//   - commands that only show (get, describe, grep, explain): whether a check passes afterwards is up to what they show.

// repair is a check that is made to fail, and its fix.
type repair struct {
	code, about string
	outcome     v1.Outcome
	// broken makes the check fail.
	broken func(*testing.T, *patient)
	// after plays what the cluster would do by itself once the fix is executed; nil for nothing.
	after func(*testing.T, *patient)
	// tidy takes away what broken made next to the fault; nil for nothing.
	tidy func(*testing.T, *patient)
	// blind leaves --cloud out of the check that fails.
	blind bool
}

// patient is a field with the programs with which an operator repairs it.
type patient struct {
	*Field
	bin string // a directory with kubectl, and a systemctl that only writes down what is asked of it
	dir string // where the operator works
	// seen are the manifests that the kubelets know, by component and host.
	seen map[string]string
}

// TestFixesRepairWhatTheirChecksFound breaks a cluster in one way after the other, executes what the check prints as its fix, word for word, and
// looks again. Without -field.all it takes the first ones of each sort.
func TestFixesRepairWhatTheirChecksFound(t *testing.T) {
	f := start(t, Options{Version: "v1.26.0"})
	p := newPatient(t, f)
	var repairs []repair
	for _, sort := range [][]repair{objectRepairs, workloadRepairs, hostRepairs, accountRepairs, webhookRepairs} {
		if !*whole {
			sort = sort[:min(2, len(sort))]
		}
		repairs = append(repairs, sort...)
	}
	for _, r := range repairs {
		t.Run(r.code+" "+r.about, func(t *testing.T) {
			if r.tidy != nil {
				defer r.tidy(t, p)
			}
			r.broken(t, p)
			before := p.check(t, r.code, r.blind, nil)
			if before.Outcome != r.outcome {
				t.Fatalf("broken, the check says %s, want %s: %s (%s)", before.Outcome, r.outcome, before.Summary, before.Found)
			}
			var more []string
			if again, ok := strings.CutPrefix(before.Fix, "transplant check "); ok {
				more = strings.Fields(withoutComment(again))
			} else {
				p.carryOut(t, before)
			}
			if r.after != nil {
				r.after(t, p)
			}
			after := p.check(t, r.code, false, more)
			if after.Outcome != v1.Pass {
				t.Errorf("after %s\nthe check says %s: %s (%s)", before.Fix, after.Outcome, after.Summary, after.Found)
			}
		})
	}
}

func newPatient(t *testing.T, f *Field) *patient {
	t.Helper()
	bins, err := build.Ensure(t.Context(), build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kubectl, err := bins.Path("kubectl", f.options.Version)
	if err != nil {
		t.Fatal(err)
	}
	p := &patient{Field: f, bin: t.TempDir(), dir: t.TempDir(), seen: map[string]string{}}
	if err := os.Symlink(kubectl, filepath.Join(p.bin, "kubectl")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.bin, "systemctl"), []byte("#!/bin/sh\necho \"$@\" >> "+f.path("systemctl.log")+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, h := range f.Hosts() {
		if err := os.MkdirAll(f.path("hosts", h.Name, "var/tmp"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.settle(t)
	return p
}

// check is what a check says now.
func (p *patient) check(t *testing.T, code string, blind bool, more []string) v1.Finding {
	t.Helper()
	f := *p.Field
	if blind {
		f.Account = nil
	}
	var report v1.CheckReport
	out := f.transplant(t, append([]string{"check", "-o", "json", "-q"}, more...)...)
	if err := json.Unmarshal([]byte(out.out), &report); err != nil {
		t.Fatalf("exit %d: %v: %s", out.code, err, out.errOut)
	}
	i := slices.IndexFunc(report.Findings, func(found v1.Finding) bool { return found.Code == code })
	if i < 0 {
		t.Fatalf("there is no finding of %s", code)
	}
	return report.Findings[i]
}

var (
	hostPath = regexp.MustCompile(`(^|[\s'"=>|])/(etc|var)/`)
	hostName = regexp.MustCompile(`\bcp-\d\b`)
)

// commentMark begins what a fix says to its reader alone.
const commentMark = "   # "

func withoutComment(fix string) string {
	command, _, _ := strings.Cut(fix, commentMark)
	return command
}

// carryOut runs a fix: a command of a host in that host's directory, on each host that the comment behind it or the finding names.
func (p *patient) carryOut(t *testing.T, found v1.Finding) {
	t.Helper()
	command := withoutComment(found.Fix)
	_, comment, commented := strings.Cut(found.Fix, commentMark)
	if command == "" || strings.Contains(command, "<") {
		t.Fatalf("the fix of %s leaves to the reader what only the operator knows: %s", found.Code, found.Fix)
	}
	if !commented || !strings.HasPrefix(comment, "on ") {
		p.sh(t, command)
		return
	}
	hosts := hostName.FindAllString(comment, -1)
	if strings.HasPrefix(comment, "on each host named") {
		hosts = hostName.FindAllString(strings.Join(found.Objects, " "), -1)
	}
	if len(hosts) == 0 {
		t.Fatalf("the fix of %s does not say on which host: %s", found.Code, found.Fix)
	}
	for _, h := range hosts {
		p.sh(t, hostPath.ReplaceAllString(command, "$1"+p.path("hosts", h)+"/$2/"))
	}
	p.settle(t)
}

// sh runs a command as the operator's shell does.
func (p *patient) sh(t *testing.T, command string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "PATH="+p.bin+":"+os.Getenv("PATH"), "KUBECONFIG="+p.Kubeconfig, "HOME="+p.path("home"), "NO_COLOR=1")
	cmd.Env = append(cmd.Env, p.Account.Env()...)
	cmd.Env = append(cmd.Env, "AWS_ACCESS_KEY_ID="+keyMaker, "AWS_DEFAULT_REGION="+region, "KUBE_EDITOR=false")
	cmd.WaitDelay = time.Second // a program that it left behind holds the test no longer
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out.String())
	}
}

// must ends the test on an error of an object's client.
func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(made T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
}

// kubectl breaks something with a command of an operator.
func kubectl(format string, a ...any) func(*testing.T, *patient) {
	return func(t *testing.T, p *patient) {
		t.Helper()
		p.sh(t, "kubectl "+fmt.Sprintf(format, a...))
	}
}

// apply makes an object.
func apply(object string) func(*testing.T, *patient) {
	return func(t *testing.T, p *patient) {
		t.Helper()
		p.sh(t, "kubectl create -f "+save(t, "object.yaml", object))
	}
}

var deleteNow = metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
