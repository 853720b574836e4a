package cli

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// TestARollbackThatGoesOnSaysWhatIsDone: it was begun eight days ago, and ended in its middle.
func TestARollbackThatGoesOnSaysWhatIsDone(t *testing.T) {
	c := newLive(t)
	_, p := c.rightsOnly(5)
	kube, _ := c.api.Clients(t)
	long := time.Now().UTC().Add(-8 * 24 * time.Hour).Truncate(time.Second)
	doc := v1.Journal{Run: "20261121-120000", Started: long, Phase: v1.RunApplied, User: "ops", Plan: *p}
	done := func(id string) v1.StepRecord {
		return v1.StepRecord{ID: id, Started: long, Ended: &long, Result: v1.StepResultDone}
	}
	for _, s := range p.Steps {
		doc.Records = append(doc.Records, done(s.ID))
	}
	snap := c.snapshot()
	j, err := journal.Create(t.Context(), kube, doc, snap)
	if err != nil {
		t.Fatal(err)
	}
	back, err := rollback.Make(&doc, snap, long)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Save(t.Context(), done(back.Steps[0].ID)); err != nil {
		t.Fatal(err)
	}
	if err := j.SetPhase(t.Context(), v1.RunRollingBack, back, nil); err != nil {
		t.Fatal(err)
	}

	const unfinished = "the rollback of migration 20261121-120000 was begun and is not finished"
	r := c.run("rollback", "--dry-run")
	if r.code != exitcode.OK || !strings.Contains(r.errOut, unfinished+": its journal says that 1 of its 9 steps are done") ||
		strings.Count(r.out, "journal: done\n") != 1 {
		t.Error(r.text(nil))
	}
	if r := c.run("plan"); !strings.Contains(r.errOut, unfinished+", and no command executes it now: transplant rollback goes on with it; change nothing by hand") {
		t.Error(r.text(nil))
	}
	c.lock("ops@bastion pid 4412 start=812 boot=x pidns=pid:[1] since=2026-11-22T12:00:00Z")
	if r := c.run("plan"); !strings.Contains(r.errOut, "the rollback of migration 20261121-120000 is under way: ops@bastion pid 4412 executes it") {
		t.Error(r.text(nil))
	}
	renewed := metav1.NewMicroTime(client.Now().Add(-time.Hour))
	c.api.Put(t, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: lock.LeaseName, Namespace: component.Namespace},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("ops@bastion pid 4412 start=812 boot=x pidns=pid:[1]"), RenewTime: &renewed},
	})
	if r := c.run("plan"); !strings.Contains(r.errOut, unfinished+", and ops@bastion pid 4412 no longer renews its lock: see transplant status") {
		t.Error(r.text(nil))
	}
	c.api.Delete("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/transplant-lock")

	r = c.run("rollback", "--yes", "--plan-sha256", compare.Digest(back))
	if r.code != exitcode.OK || !strings.Contains(r.errOut, "rolled back: 9 steps in ") || !strings.Contains(r.errOut, ", and 192h0m") {
		t.Fatal(r.text(nil))
	}
	if j, err = journal.Open(t.Context(), kube); err != nil {
		t.Fatal(err)
	}
	if stops := j.Doc().Stops; len(stops) != 1 || !stops[0].From.Equal(long) || stops[0].By == "" {
		t.Errorf("the journal has these stops: %+v", stops)
	}
	if r := c.run("timeline"); !strings.Contains(r.out, "no command executed the run, until "+j.Doc().Stops[0].By+" went on with it") {
		t.Error(r.text(nil))
	}
}
