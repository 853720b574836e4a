package run

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// TestOnlookersLearnHowACommandEnded: with its step, until the next command goes on. An interruption is no failure.
func TestOnlookersLearnHowACommandEnded(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	c := &client.Client{Kube: kube}
	server.Put(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: pause.ControlName, Namespace: "kube-system"}, Data: map[string]string{"run": "run-1"}})
	have := func() string {
		t.Helper()
		cm, err := kube.CoreV1().ConfigMaps("kube-system").Get(t.Context(), pause.ControlName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f := pause.EndingOf(cm, "run-1")
		if f == nil {
			return "none"
		}
		if f.At.IsZero() {
			t.Error("it has no time")
		}
		return f.Step + "|" + f.Reason
	}
	for _, c1 := range []struct {
		err  error
		want string
	}{
		{&step.StepError{Step: v1.Step{ID: "a"}, Err: errors.New("the plan is stale")}, "a|the plan is stale"},
		{nil, "none"},
		{fmt.Errorf("nothing was changed by this run: %w", errors.New("/etc/x is not on host cp-2")), "|nothing was changed by this run: /etc/x is not on host cp-2"},
		{step.ErrInterrupted, "none"},
	} {
		if noteEnding(t.Context(), c, "run-1", endingWith(c, c1.err)); have() != c1.want {
			t.Errorf("after %v: %q, want %q", c1.err, have(), c1.want)
		}
	}
	server.Deny("update", "configmaps") // the command itself still says it
	if noteEnding(t.Context(), c, "run-1", endingWith(c, errors.New("x"))); have() != "none" {
		t.Errorf("without the right: %q", have())
	}
}
