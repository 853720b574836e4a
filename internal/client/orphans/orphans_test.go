package orphans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// script is the environment variable with the directory of the program's answers: a file for each question, and one
// with the question.
const script = "ORPHANS_TEST_SCRIPT"

func TestMain(m *testing.M) {
	if strings.HasPrefix(filepath.Base(os.Args[0]), cloudprogram.Argument0) {
		os.Exit(program(os.Getenv(script)))
	}
	os.Exit(m.Run())
}

// program answers the n-th question with the n-th file, and the last one for ever.
func program(dir string) int {
	question, err := io.ReadAll(os.Stdin)
	asked, globbed := filepath.Glob(filepath.Join(dir, "question-*"))
	answers, found := filepath.Glob(filepath.Join(dir, "answer-*"))
	if err := errors.Join(err, globbed, found); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	answer, err := os.ReadFile(answers[min(len(asked), len(answers)-1)])
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, fmt.Sprintf("question-%03d", len(asked))), question, 0o600)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, err = os.Stdout.Write(answer)
	if err != nil {
		return 1
	}
	return 0
}

// console records what it is told.
type console struct {
	client.Console

	said     []string
	asked    string
	refuses  error
	stopping chan struct{}
}

func (c *console) Narrate(format string, args ...any) {
	c.said = append(c.said, fmt.Sprintf(format, args...))
}

func (c *console) Approve(q client.Question) error {
	c.asked = q.What
	if q.Yes {
		return nil
	}
	return c.refuses
}

func (c *console) Interruptible(ctx context.Context) (context.Context, <-chan struct{}, func()) {
	return ctx, c.stopping, func() {}
}

const (
	lb    = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	other = "1b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	group = "2b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
)

var found = v1.Orphan{
	ID: lb, Kind: "load balancer", Name: "a1", State: v1.OrphanFound,
	Goes: []v1.OrphanPart{{Kind: "load balancer", ID: lb, Name: "a1"}, {Kind: "security group", ID: group, Name: "g"}},
}

func in(state v1.OrphanState, reason string) v1.Orphan {
	o := found
	o.State, o.Reason = state, reason
	return o
}

// removing runs the command on a cluster with a Service and a Node, with one answer of the program for each question.
func removing(t *testing.T, o Options, c *console, answers ...any) (v1.OrphanList, []cloudprogram.Question, error) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv(script, dir)
	for i, a := range answers {
		answer := cloudprogram.Answer{Protocol: cloudprogram.Protocol}
		switch a := a.(type) {
		case v1.Orphan:
			answer.Orphans = []v1.Orphan{a}
		case []v1.Orphan:
			answer.Orphans = a
		case string:
			answer.Error = a
		}
		data, err := json.Marshal(answer)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("answer-%03d", i)), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "openstack-cloud-controller-manager")
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	objects := []runtime.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{ProviderID: "openstack:///s"}},
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "web", UID: "u",
				Annotations: map[string]string{"loadbalancer.openstack.org/load-balancer-id": other, "password": "hunter2"},
			},
			Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}}},
		},
	}
	cl := &client.Client{
		Console: c, Kube: fake.NewClientset(objects...), Config: &rest.Config{Host: "https://api.example"},
		Clouds: cloudprogram.Programs{Cloud: "openstack:cluster=lab", Path: path},
	}
	o.IDs = append(o.IDs, lb)
	o.Poll = time.Millisecond
	o.Show = func(v1.OrphanList) {}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	list, err := Remove(t.Context(), cl, o)
	asked, globbed := filepath.Glob(filepath.Join(dir, "question-*"))
	if globbed != nil {
		t.Fatal(globbed)
	}
	var questions []cloudprogram.Question
	for _, file := range asked {
		data, err := os.ReadFile(file)
		var q cloudprogram.Question
		if err == nil {
			err = json.Unmarshal(data, &q)
		}
		if err != nil {
			t.Fatal(err)
		}
		questions = append(questions, q)
	}
	return list, questions, err
}

func TestAnOrphanIsRemovedAndWaitedFor(t *testing.T) {
	c := &console{}
	stays := in(v1.OrphanRemoved, "")
	stays.Stays = []v1.OrphanPart{{Kind: "floating IP", ID: "f", Name: "203.0.113.9", Reason: "it may be yours"}}
	list, questions, err := removing(t, Options{Yes: true}, c, found, in(v1.OrphanPending, "it is being deleted"), "OpenStack is away", stays)
	if err != nil || !list.Changed || list.Orphans[0].State != v1.OrphanRemoved || len(list.Orphans[0].Goes) != 2 || len(list.Orphans[0].Stays) != 1 {
		t.Errorf("%v: %+v", err, list)
	}
	want := []cloudprogram.OrphanService{{
		Namespace: "default", Name: "web", UID: "u", Addresses: []string{"203.0.113.1"},
		Annotations: map[string]string{"loadbalancer.openstack.org/load-balancer-id": other},
	}}
	for i, q := range questions {
		if diff := cmp.Diff(want, q.Orphans.Services); diff != "" || len(q.Nodes) != 1 || q.Nodes[0].ProviderID != "openstack:///s" {
			t.Errorf("question %d does not have the cluster as it is (-want +got): %s, %v", i, diff, q.Nodes)
		}
		if i > 0 && (q.Orphans.Remove != lb || !slices.Equal(q.Orphans.Approved, []string{lb, group})) || i == 0 && q.Orphans.Remove != "" {
			t.Errorf("question %d: %+v", i, q.Orphans)
		}
	}
	if len(questions) != 4 || !strings.HasPrefix(c.asked, "remove 1 cloud object of cluster ") {
		t.Errorf("%d questions, asked %q", len(questions), c.asked)
	}
	said := strings.Join(c.said, "\n")
	for _, says := range []string{"waiting for load balancer a1 (" + lb + "): it is being deleted", "OpenStack is away", "is removed", "203.0.113.9 (f) stays: it may be yours"} {
		if !strings.Contains(said, says) {
			t.Errorf("%q is not said: %s", says, said)
		}
	}
}

func TestWhatIsNotRemoved(t *testing.T) {
	refused := in(v1.OrphanRefused, "it is no orphan")
	missing := v1.Orphan{ID: other, State: v1.OrphanMissing, Reason: "it was removed before"}
	stopped := make(chan struct{})
	close(stopped)
	for name, test := range map[string]struct {
		options  Options
		console  *console
		answers  []any
		code     int
		says     []string
		removals int
	}{
		"refused": {Options{Yes: true}, &console{}, []any{refused}, exitcode.Error, []string{"nothing is removed, since 1 object is refused", "it is no orphan"}, 0},
		"one of two is refused": {
			Options{Yes: true, IDs: []string{other}}, &console{},
			[]any{[]v1.Orphan{found, {ID: other, Kind: "floating IP", Name: "f", State: v1.OrphanRefused, Reason: "in use"}}},
			exitcode.Error, []string{"floating IP f (" + other + "): in use"}, 0,
		},
		"refused meanwhile": {Options{Yes: true}, &console{}, []any{found, refused}, exitcode.Error, []string{"is not removed any more: it is no orphan"}, 1},
		"not approved":      {Options{}, &console{refuses: exitcode.With(exitcode.NotApproved, "no")}, []any{found}, exitcode.NotApproved, []string{"no"}, 0},
		"a dry run":         {Options{DryRun: true}, &console{}, []any{found}, exitcode.OK, nil, 0},
		"gone already": {
			Options{Yes: true}, &console{}, []any{v1.Orphan{ID: lb, State: v1.OrphanMissing, Reason: "it was removed before"}}, exitcode.Error, []string{lb + ": it was removed before"}, 0,
		},
		"another is gone already": {
			Options{Yes: true, IDs: []string{other}}, &console{}, []any{[]v1.Orphan{missing, found}, []v1.Orphan{missing, in(v1.OrphanRemoved, "")}},
			exitcode.Error, []string{other + ": it was removed before"}, 1,
		},
		"pending for too long": {
			Options{Yes: true, Timeout: 5 * time.Second}, &console{}, []any{found, in(v1.OrphanPending, "it is PENDING_UPDATE")}, exitcode.Timeout,
			[]string{"it is PENDING_UPDATE", "run the same command again", "name security group " + group}, 1,
		},
		"interrupted": {
			Options{Yes: true}, &console{stopping: stopped}, []any{found, in(v1.OrphanPending, "x")}, exitcode.Interrupted,
			[]string{step.ErrInterrupted.Error(), "run the same command again"}, 1,
		},
		"an error at once":    {Options{Yes: true}, &console{}, []any{found, "quota"}, exitcode.Error, []string{"removing load balancer a1", "quota"}, 1},
		"no answer":           {Options{Yes: true}, &console{}, []any{"login refused"}, exitcode.Error, []string{"login refused"}, 0},
		"an answer of others": {Options{Yes: true}, &console{}, []any{missing}, exitcode.Error, []string{"answered about other objects"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			list, questions, err := removing(t, test.options, test.console, test.answers...)
			text := fmt.Sprint(err)
			for _, says := range test.says {
				if !strings.Contains(text, says) {
					t.Errorf("%q is not in the error %v", says, err)
				}
			}
			removals := slices.ContainsFunc(questions, func(q cloudprogram.Question) bool { return q.Orphans.Remove != "" })
			if exitcode.Of(err) != test.code || removals != (test.removals > 0) {
				t.Errorf("exit code %d, want %d; removals %v; %v; %+v", exitcode.Of(err), test.code, removals, err, list)
			}
		})
	}
}
