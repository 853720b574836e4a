package pause

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
)

func TestAPauseIsKeptForItsRun(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	want := v1.Pause{Run: "run-1", By: "ops@bastion", At: noon, Reason: "the shop is open"}
	for _, asked := range []v1.Pause{want, {Run: "run-1", By: "somebody@else", At: noon.Add(time.Minute)}} { // the second changes nothing
		have, err := Request(t.Context(), journal.InCluster(kube), asked)
		if err != nil || *have != want {
			t.Fatalf("paused: %+v, %v", have, err)
		}
	}
	var cm corev1.ConfigMap
	server.Get(t, "/api/v1/namespaces/kube-system/configmaps/"+ControlName, &cm)
	if p := Requested(&cm, "run-1"); p == nil || *p != want {
		t.Errorf("kept: %+v", p)
	}
	if p := Requested(&cm, "run-2"); p != nil {
		t.Errorf("the pause of another run counts: %+v", p)
	}
	if p, err := Resume(t.Context(), journal.InCluster(kube), "run-1"); err != nil || *p != want {
		t.Errorf("resumed: %+v, %v", p, err)
	}
	if p, err := Resume(t.Context(), journal.InCluster(kube), "run-1"); err != nil || p != nil {
		t.Errorf("resumed twice: %+v, %v", p, err)
	}
	if have, err := Request(t.Context(), journal.InCluster(kube), v1.Pause{Run: "run-2", By: "ops@bastion", At: noon}); err != nil || have.Run != "run-2" {
		t.Errorf("a newer run: %+v, %v", have, err)
	}
	writes := server.Writes()
	if want := []string{"create", "update", "update"}; !slices.Equal(verbs(writes), want) {
		t.Errorf("writes: %v", writes)
	}
}
