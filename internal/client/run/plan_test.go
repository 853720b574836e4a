package run

import (
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
)

// silent is a console on which nothing is seen.
type silent struct{ client.Console }

func (silent) Narrate(string, ...any) {}

func TestAPlanThatCannotBeMadeReadsTheJournalOnce(t *testing.T) {
	for phase, want := range map[string]string{
		v1.RunApplying: "no command executes it now: transplant apply goes on with it, transplant rollback takes it back; another plan",
		v1.RunApplied:  "migration r-1 is applied: look at it with transplant verify",
	} {
		kube := fake.NewClientset()
		if _, err := journal.Create(t.Context(), kube, v1.Journal{Run: "r-1", Phase: phase}, &v1.Snapshot{}); err != nil {
			t.Fatal(err)
		}
		c := &client.Client{Kube: kube, Console: silent{}}
		var u underWay
		var o client.PlanOptions
		u.note(t.Context(), c, &o)
		kube.ClearActions()
		if have := u.nextCommand(); !strings.Contains(have, want) {
			t.Errorf("%s: the next command is %q", phase, have)
		}
		if read := kube.Actions(); len(read) > 0 {
			t.Errorf("%s: the advice asks the cluster again: %v", phase, read)
		}
	}
	if have := (&underWay{}).nextCommand(); have != "" {
		t.Errorf("without a journal, the next command is %q", have)
	}
}
