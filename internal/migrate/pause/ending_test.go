package pause

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
)

// TestHowACommandEndedIsKeptUntilTheNextOne goes on, next to a pause, without its secrets, and for its run alone.
func TestHowACommandEndedIsKeptUntilTheNextOne(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	h := journal.InCluster(kube)
	read := func() *corev1.ConfigMap {
		t.Helper()
		cm, err := kube.CoreV1().ConfigMaps("kube-system").Get(t.Context(), ControlName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return cm
	}
	note := func(run string, f *Ending) {
		t.Helper()
		if err := NoteEnding(t.Context(), h, run, f); err != nil {
			t.Fatal(err)
		}
	}
	failure := &Ending{Step: "a", Reason: "no access with --token=eyJhbGciOiJIUzI1NiJ9.c2VjcmV0c2VjcmV0.c2VjcmV0c2VjcmV0 " + strings.Repeat("x", 1<<20), At: noon}
	note("run-1", failure) // before there is anything to write it into
	if _, err := Request(t.Context(), journal.InCluster(kube), v1.Pause{Run: "run-1", By: "ops", At: noon}); err != nil {
		t.Fatal(err)
	}
	note("run-1", failure)
	have := EndingOf(read(), "run-1")
	if have == nil || have.Step != "a" || !have.At.Equal(noon) || len(have.Reason) > maxFailure+3 || strings.Contains(have.Reason, "c2VjcmV0") {
		t.Fatalf("kept: %.300v", have)
	}
	if EndingOf(read(), "run-2") != nil || EndingOf(nil, "run-1") != nil {
		t.Error("it counts for another run")
	}
	note("run-2", nil) // of another run: nothing is written
	note("run-1", nil)
	if cm := read(); EndingOf(cm, "run-1") != nil || Requested(cm, "run-1") == nil {
		t.Errorf("when the next command goes on: %v", cm.Data)
	}
	note("run-1", failure)
	note("run-1", &Ending{Step: "b"})
	if have := EndingOf(read(), "run-1"); have == nil || have.Step != "b" || have.Reason != "" {
		t.Errorf("told to stop behind a step: %+v", have)
	}
	note("run-1", nil)
	writes := len(server.Writes())
	if note("run-1", nil); len(server.Writes()) != writes {
		t.Error("nothing is written where there is nothing to forget")
	}
	by := &corev1.ConfigMap{Data: map[string]string{"run": "r", "failure": "a\x1b[2J --password=hunter2hunter2", "failed-at": "soon"}}
	if f := EndingOf(by, "r"); f == nil || !f.At.Equal(time.Time{}) || strings.Contains(f.Reason, "hunter2") {
		t.Errorf("of a client that may pause: %+v", f)
	}
}
