package stage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/lab/hosts"
	"github.com/transplant-dev/transplant/lab/trial"
)

var (
	bad      = flag.Bool("hosts.bad", false, "give real hosts what an operator meets on a bad day (make bad-hosts)")
	versions = flag.String("hosts.with-version", "", "a further version of Kubernetes whose images the hosts get")
)

// mostPatience is for how long a command may run that cannot reach its end.
const mostPatience = 6 * time.Minute

// badStage is a cluster of at least this many hosts on which things are bad.
func badStage(t *testing.T, controlPlanes, workers int) *Stage {
	t.Helper()
	if !*bad {
		t.Skip("half an hour on real hosts: make bad-hosts")
	}
	if *planes < controlPlanes || *nodes < workers {
		t.Skipf("needs %d control planes and %d workers, and %d and %d are asked for", controlPlanes, workers, *planes, *nodes)
	}
	return theStage(t)
}

// One migration meets a read-only /etc, a budget that never allows a drain, a kubelet that does not start again whatever it is given, and one of a batch of two
// that does not start with its new flags. It stops each time, says why, and goes on when that was repaired. It is taken back by hand.
func TestRealHostsTakeBadInputs(t *testing.T) {
	s := badStage(t, 1, 3)
	before, cloud := settledFacts(t, s)
	p, file := drainingPlan(t, s)
	canary, pair := kubeletSteps(t, p)
	first := s.hostOf(t, canary)

	cp := s.controlPlanes()[0]
	readOnly(t, cp, true)
	stops(t, s, 1, []string{"read-only", "make it writable and run the same command again", cp.NodeName},
		append([]string{"apply", file, "--yes", "--probe", "--cloud", Cloud}, s.MigrationFlags()...)...)
	readOnly(t, cp, false)

	release := s.unevictable(t, first)
	again := []string{"apply", "--yes", "--cloud", Cloud}
	stops(t, s, 5, []string{"was not drained", "kept by PodDisruptionBudget " + hosts.WorkloadNamespace + "/lonely", "--drain-timeout"}, again...)
	if n, err := s.Client.CoreV1().Nodes().Get(t.Context(), first.NodeName, metav1.GetOptions{}); err != nil || n.Spec.Unschedulable {
		t.Errorf("node %s, which was not drained, may not get pods (%v)", first.NodeName, err)
	}
	release()

	mend := breakKubelet(t, first, "")
	r := stops(t, s, 5, []string{"To put it back, run there as root:", "systemctl restart kubelet"}, again...)
	mend()
	onHost(t, first, commandsIn(t, r.Stderr))

	second := s.hostOf(t, pair[0])
	mend = breakKubelet(t, second, "--cloud-provider=external")
	stops(t, s, 4, []string{"putting the kubelet on host " + second.NodeName + " back"}, again...)
	sideBySide(t, s, pair)
	flags(t, s, "kubelet", []*hosts.Host{second}, []string{"--cloud-provider=aws"}, nil)
	mend()

	must(t, s, again...)
	must(t, s, "verify", "--cloud", Cloud)
	runsExternal(t, s)
	if err := s.Check(t.Context(), cloud); err != nil {
		t.Error(err)
	}

	begin := time.Now()
	r, blocks := byHand(t, s, "rollback", "--yes", "--cloud", Cloud)
	if r.Code != 0 {
		t.Fatalf("the rollback by hand ended with exit code %d\n%s", r.Code, r.Stderr)
	}
	t.Logf("rollback by hand: %d blocks of commands, %s", len(blocks), time.Since(begin).Round(time.Second))
	must(t, s, "verify", "--cloud", Cloud)
	runsInTree(t, s)
	asBefore(t, s, before)
}

// drainingPlan is a plan that drains the first worker, which no plan for Kubernetes 1.26 on AWS does, and changes two of the others at a time.
func drainingPlan(t *testing.T, s *Stage) (*v1.Plan, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan.yaml")
	must(t, s, append([]string{"plan", "--out", file, "--cloud", Cloud, "--max-unavailable", "2", "--drain-timeout", "20s"}, s.MigrationFlags()...)...)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var p v1.Plan
	if err := yaml.UnmarshalStrict(data, &p); err != nil {
		t.Fatal(err)
	}
	canary := planstep.LastCanary(&p)
	for i := range p.Steps {
		p.Steps[i].Drain = p.Steps[i].ID == canary
	}
	if data, err = yaml.Marshal(p); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return &p, file
}

// kubeletSteps are the step of the first worker, and those that are done side by side behind it.
func kubeletSteps(t *testing.T, p *v1.Plan) (canary v1.Step, pair []v1.Step) {
	t.Helper()
	id := planstep.LastCanary(p)
	for _, s := range p.Steps {
		switch {
		case s.ID == id:
			canary = s
		case s.Batch != "":
			pair = append(pair, s)
		}
	}
	if canary.ID == "" || len(pair) != 2 {
		t.Fatalf("the plan has the canary %q and %d steps that are done side by side, not 2", id, len(pair))
	}
	return canary, pair
}

func (s *Stage) hostOf(t *testing.T, step v1.Step) *hosts.Host {
	t.Helper()
	h, err := s.Host(step.Host)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// stops runs a command that cannot reach its end, and has to say so in these words, with this exit code, and in time.
func stops(t *testing.T, s *Stage, code int, words []string, args ...string) trial.Result {
	t.Helper()
	return stopsTelling(t, s, told(s.Cluster.Name), code, words, args...)
}

// stopsTelling is stops with what the command says told to somebody as it comes.
func stopsTelling(t *testing.T, s *Stage, narration io.Writer, code int, words []string, args ...string) trial.Result {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), mostPatience, fmt.Errorf("it goes on after %s", mostPatience))
	defer cancel()
	begin := time.Now()
	r, err := s.Run(ctx, narration, args...)
	if err := errors.Join(err, context.Cause(ctx)); err != nil {
		t.Fatalf("transplant %s: %v", strings.Join(args, " "), err)
	}
	t.Logf("%s stopped after %s with exit code %d", args[0], time.Since(begin).Round(time.Second), r.Code)
	if r.Code != code {
		t.Errorf("transplant %s ended with exit code %d, not %d\n%s", strings.Join(args, " "), r.Code, code, r.Stderr)
	}
	for _, w := range words {
		if !strings.Contains(r.Stderr, w) {
			t.Errorf("transplant %s does not say %q:\n%s", strings.Join(args, " "), w, r.Stderr)
		}
	}
	return r
}

func readOnly(t *testing.T, h *hosts.Host, on bool) {
	t.Helper()
	if err := h.ReadOnly(t.Context(), "/etc", on); err != nil {
		t.Fatal(err)
	}
}

// unevictable puts a pod on a host whose budget never allows it to leave, and returns a function that takes the budget away.
func (s *Stage) unevictable(t *testing.T, h *hosts.Host) (release func()) {
	t.Helper()
	const name = "lonely"
	ctx, labels := t.Context(), map[string]string{"app": name}
	web, err := s.Client.AppsV1().Deployments(hosts.WorkloadNamespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec := web.Spec.Template.Spec.DeepCopy()
	spec.NodeSelector = map[string]string{corev1.LabelHostname: h.NodeName}
	deployments := s.Client.AppsV1().Deployments(hosts.WorkloadNamespace)
	_, err = deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: *spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	budgets := s.Client.PolicyV1().PodDisruptionBudgets(hosts.WorkloadNamespace)
	_, err = budgets.Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := deployments.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	within(t, time.Minute, "the pod that must not be evicted", func() error {
		b, err := budgets.Get(ctx, name, metav1.GetOptions{})
		if err == nil && (b.Status.CurrentHealthy != 1 || b.Status.DisruptionsAllowed != 0) {
			err = fmt.Errorf("%d pods are healthy, and %d may go", b.Status.CurrentHealthy, b.Status.DisruptionsAllowed)
		}
		return err
	})
	return func() {
		if err := budgets.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// within waits until a condition holds.
func within(t *testing.T, limit time.Duration, what string, holds func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v, after %s", what, err, limit)
		}
		select {
		case <-time.After(time.Second):
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		}
	}
}

// breakKubelet makes the kubelet of a host end at each start that has this argument, or at any start for an empty one.
func breakKubelet(t *testing.T, h *hosts.Host, argument string) (mend func()) {
	t.Helper()
	const script = `set -e
test -e /usr/bin/kubelet.real || mv /usr/bin/kubelet /usr/bin/kubelet.real
cat > /usr/bin/kubelet.new <<EOF
#!/bin/bash
case "\$*" in *"$1"*) echo "Error: failed to run Kubelet: this one does not start with [$1]" >&2; exit 1 ;; esac
exec -a /usr/bin/kubelet /usr/bin/kubelet.real "\$@"
EOF
chmod 755 /usr/bin/kubelet.new; mv /usr/bin/kubelet.new /usr/bin/kubelet`
	if _, err := h.Output(t.Context(), "sh", "-c", script, "sh", argument); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := h.Output(t.Context(), "mv", "/usr/bin/kubelet.real", "/usr/bin/kubelet"); err != nil {
			t.Fatal(err)
		}
	}
}

// indented are the commands in what an error says.
var indented = regexp.MustCompile(`(?m)^ {4}((?:cp|systemctl) .*)$`)

func commandsIn(t *testing.T, text string) []string {
	t.Helper()
	var out []string
	for _, m := range indented.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(out, m[1]) {
			out = append(out, m[1])
		}
	}
	if len(out) == 0 {
		t.Fatalf("there are no commands to run in:\n%s", text)
	}
	return out
}

func onHost(t *testing.T, h *hosts.Host, commands []string) {
	t.Helper()
	for _, c := range commands {
		if _, err := h.Output(t.Context(), "sh", "-c", c); err != nil {
			t.Fatal(err)
		}
	}
}

// sideBySide fails the test unless two steps were under way at one time.
func sideBySide(t *testing.T, s *Stage, pair []v1.Step) {
	t.Helper()
	j, err := journal.Open(t.Context(), s.Client)
	if err != nil {
		t.Fatal(err)
	}
	a, b := j.Record(pair[0].ID), j.Record(pair[1].ID)
	if a.Ended == nil || b.Ended == nil || a.Started.After(*b.Ended) || b.Started.After(*a.Ended) {
		t.Errorf("steps %s (%s to %v) and %s (%s to %v) were not done side by side", a.ID, a.Started, a.Ended, b.ID, b.Started, b.Ended)
	}
}
