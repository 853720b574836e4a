package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/step/staticpod"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
)

func TestOwned(t *testing.T) {
	asked := func(component, host string, loops ...string) v1.Manager {
		return v1.Manager{Component: component, Host: host, Loops: loops}
	}
	for _, c := range []struct {
		name     string
		managers []v1.Manager
		expect   map[string]string
		want     string
	}{
		{"nothing is expected", nil, nil, ""},
		{
			"each loop has its owner",
			[]v1.Manager{asked(component.KCM, "a", "nodeipam"), asked(component.CCM, "b", "service", "route")},
			map[string]string{"service": component.CCM, "nodeipam": component.KCM},
			"",
		},
		{"either kind is right", []v1.Manager{asked(component.KCM, "a", "service")}, map[string]string{"service": ""}, ""},
		{"nobody", []v1.Manager{asked(component.KCM, "a")}, map[string]string{"service": component.KCM}, "no manager runs loop service"},
		{"nobody of either kind", []v1.Manager{asked(component.KCM, "a")}, map[string]string{"service": ""}, "no manager runs loop service"},
		{"two", []v1.Manager{asked(component.KCM, "a", "service"), asked(component.CCM, "b", "service")}, map[string]string{"service": component.CCM},
			"loop service runs in kube-controller-manager@a and cloud-controller-manager@b at once"},
		{"the wrong one", []v1.Manager{asked(component.KCM, "a", "service")}, map[string]string{"service": component.CCM}, "loop service runs in kube-controller-manager@a, not in a cloud-controller-manager"},
		{"one that does not answer may be an owner", []v1.Manager{asked(component.KCM, "a", "service"), {Component: component.CCM, Host: "b", Error: "timeout"}}, map[string]string{"service": component.KCM},
			"cloud-controller-manager on b did not answer: timeout"},
		{"the first problem in the order of the loops", nil, map[string]string{"service": component.KCM, "route": component.KCM}, "no manager runs loop route"},
	} {
		if have := manager.CompareOwners(c.managers, c.expect); have != c.want {
			t.Errorf("%s: %q, want %q", c.name, have, c.want)
		}
	}
}

func TestSameFlags(t *testing.T) {
	for _, c := range []struct {
		name       string
		want, have map[string]string
		same       bool
	}{
		{"the same", map[string]string{"a": "1", "b": "/etc/x"}, map[string]string{"a": "1", "b": "/etc/x"}, true},
		{"none", nil, nil, true},
		{"a value differs", map[string]string{"a": "1"}, map[string]string{"a": "2"}, false},
		{"one is missing", map[string]string{"a": "1"}, map[string]string{}, false},
		{"one is too many", map[string]string{}, map[string]string{"a": "1"}, false},
		{"another one", map[string]string{"a": "1"}, map[string]string{"b": "1"}, false},
		{"a path that is mapped on the host", map[string]string{"a": "/etc/x"}, map[string]string{"a": "/srv/hosts/cp-1/etc/x"}, true},
		{"a path that ends otherwise", map[string]string{"a": "/etc/x"}, map[string]string{"a": "/srv/etc/y"}, false},
		{"a list of paths", map[string]string{"a": "/etc/x,/etc/y"}, map[string]string{"a": "/h/etc/x,/h/etc/y"}, true},
		{"a shorter list of paths", map[string]string{"a": "/etc/x,/etc/y"}, map[string]string{"a": "/h/etc/y"}, false},
		{"no path may end in another value", map[string]string{"a": "aws"}, map[string]string{"a": "not-aws"}, false},
		{"an empty value is no path", map[string]string{"a": ""}, map[string]string{"a": "x"}, false},
	} {
		if have := staticpod.SameFlags(c.want, c.have); have != c.same {
			t.Errorf("%s: %v", c.name, have)
		}
	}
}

func TestReady(t *testing.T) {
	now := metav1.NewTime(noon)
	for _, c := range []struct {
		name string
		pod  corev1.Pod
		want bool
	}{
		{"no condition", corev1.Pod{}, false},
		{
			"ready",
			corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}}},
			true,
		},
		{"not ready", corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}}}, false},
		{
			"being deleted",
			corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now},
				Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
			},
			false,
		},
	} {
		if have := object.IsReady(&c.pod); have != c.want {
			t.Errorf("%s: %v", c.name, have)
		}
	}
}

func TestGroupsKeepTheOrderOfTheirSteps(t *testing.T) {
	step := func(id, group string) v1.Step {
		return v1.Step{ID: id, Phase: strings.TrimRight(id, "0123456789"), Group: group}
	}
	steps := []v1.Step{step("a1", ""), step("a2", ""), step("b1", "x"), step("b2", "x"), step("b3", "y"), step("c1", "x")}
	ids := func(in []v1.Step) (out []string) {
		for _, s := range in {
			out = append(out, s.ID)
		}
		return out
	}
	var have [][]string
	for _, p := range phases(steps) {
		for _, g := range groupsOf(p) {
			have = append(have, ids(g))
		}
	}
	if diff := cmp.Diff([][]string{{"a1"}, {"a2"}, {"b1", "b2"}, {"b3"}, {"c1"}}, have); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b1", "b2"}, ids(without(groupsOf(steps[2:5]), 1))); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
	if canDeferGroup([][]v1.Step{{step("a1", "")}}) || !canDeferGroup([][]v1.Step{{step("b1", "x")}}) {
		t.Error("a step without a group was overtaken, or a group cannot be")
	}
}

func TestTransient(t *testing.T) {
	gr := schema.GroupResource{Resource: "configmaps"}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{apierrors.NewServiceUnavailable("starting"), true},
		{apierrors.NewTooManyRequests("later", 1), true},
		{apierrors.NewInternalError(errors.New("etcd is away")), true},
		{&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError, Message: "etcdserver: request timed out"}}, true},
		{apierrors.NewTimeoutError("slow", 1), true},
		{fmt.Errorf("reading: %w", apierrors.NewServerTimeout(gr, "get", 1)), true},
		{&url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, true},
		{&url.Error{Op: "Get", Err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}}, true},
		{&url.Error{Op: "Get", Err: io.EOF}, true},
		{io.ErrUnexpectedEOF, true},
		{syscall.EPIPE, true},
		{&url.Error{Op: "Get", Err: context.DeadlineExceeded}, true},
		{&url.Error{Op: "Put", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}}, true},
		{&url.Error{Op: "Put", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}}, true},
		{&url.Error{Op: "Put", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTDOWN)}}, true},
		{&url.Error{Op: "Put", Err: errors.New("http2: client connection lost")}, true},
		{&url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "server misbehaving", Name: "api.example.org", IsTemporary: true}}}, true},
		{&url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "i/o timeout", Name: "api.example.org", IsTimeout: true}}}, true},
		{&url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "api.example.org", IsNotFound: true}}}, false},
		{apierrors.NewForbidden(gr, "x", errors.New("no")), false},
		{apierrors.NewUnauthorized("no"), false},
		{apierrors.NewConflict(gr, "x", errors.New("old")), false},
		{apierrors.NewNotFound(gr, "x"), false},
		{errors.New("else"), false},
	} {
		if have := retry.IsTransient(c.err); have != c.want {
			t.Errorf("%v: %v", c.err, have)
		}
	}
}

// noRoute answers writes as a kernel does that finds no way to an address, so many times.
type noRoute struct {
	http.RoundTripper
	times int
}

func (a *noRoute) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && a.times > 0 {
		a.times--
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
	}
	return a.RoundTripper.RoundTrip(r)
}

func TestAJournalIsWrittenAlthoughTheAPIServersHostIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.given(v1.Step{ID: "a", Phase: "p", Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/kubernetes/a"})
	at, gone := w.kube.CoreV1().RESTClient().Get().URL(), &noRoute{times: 2}
	cfg := &rest.Config{Host: at.Scheme + "://" + at.Host}
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { gone.RoundTripper = rt; return gone })
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Save(t.Context(), v1.StepRecord{ID: "a", Result: v1.StepResultStarted}); err != nil || gone.times != 0 {
		t.Errorf("error %v, %d times left", err, gone.times)
	}
}

func TestRetryGivesUpAtOnceWhereTryingAgainIsOfNoUse(t *testing.T) {
	tries := 0
	err := retry.Do(t.Context(), time.Minute, func(context.Context) error { tries++; return errors.New("no") })
	if tries != 1 || err == nil || err.Error() != "no" {
		t.Errorf("%d tries, %v", tries, err)
	}
	tries = 0
	err = retry.Do(t.Context(), time.Minute, func(context.Context) error {
		if tries++; tries < 2 {
			return apierrors.NewServiceUnavailable("starting")
		}
		return nil
	})
	if tries != 2 || err != nil {
		t.Errorf("%d tries, %v", tries, err)
	}
	err = retry.Do(t.Context(), time.Millisecond, func(context.Context) error { return apierrors.NewServiceUnavailable("starting") })
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("the last error, and not that time is up, is what helps: %v", err)
	}
}

func TestBackupsOfTwoStepsNeverHaveOneName(t *testing.T) {
	a, b := trust.BackupName("write//etc/a@cp-1"), trust.BackupName("write/_etc/a@cp-1")
	if a == b || strings.ContainsAny(a, "/@") {
		t.Errorf("%s and %s", a, b)
	}
}

func TestTargets(t *testing.T) {
	w := newWorld(t, 2)
	w.write("worker-1", "/var/lib/kubelet/x", "", 0o600)
	w.write("cp-1", manifests+".kube-controller-manager.yaml.swp", w.read("cp-1", kcmManifest), 0o600)
	w.write("cp-2", manifests+"notes.txt", "not a manifest", 0o600)
	hosts, err := local.Open("local:" + w.dir)
	if err != nil {
		t.Fatal(err)
	}
	have, err := manager.Targets(t.Context(), hosts, component.KCM, component.CCM)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(
		[]manager.Target{
			{Component: component.KCM, Host: "cp-1", Address: "127.9.9.1:10257", Path: kcmManifest},
			{Component: component.KCM, Host: "cp-2", Address: "127.9.9.2:10257", Path: kcmManifest},
		},
		have,
	); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
}

func TestAVerificationAsksForTheWholeComparison(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	p, _ := w.begin()
	var problems []string
	asked := 0
	compare := func(o *step.Options) {
		o.Compare = func(context.Context) ([]string, []string) {
			asked++
			return problems, []string{"CSINodes are unknown"}
		}
	}
	problems = []string{"Node/cp-1 taints was (none) and is x:NoSchedule"}
	err := w.engine(compare).Run(t.Context(), p, nil)
	says(
		t,
		err,
		"not as before the migration: Node/cp-1 taints was (none) and is x:NoSchedule. To live with a difference, run the same command again with --accept",
	)
	if _, ok := errors.AsType[*step.VerifyError](err); !ok || asked < 2 {
		t.Errorf("it was looked at %d times: %v", asked, err)
	}
	problems = nil
	var said []string
	if err := w.engine(compare, func(o *step.Options) {
		o.Tell = func(e step.Event) { said = append(said, e.Message) }
	}).Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(said, "not compared: CSINodes are unknown") {
		t.Errorf("what could not be compared was not told: %q", said)
	}
}
