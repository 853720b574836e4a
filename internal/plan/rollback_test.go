package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// begun is a journal of the lab's migration in which the first n steps were begun.
func begun(t *testing.T, n int) *v1.Journal {
	t.Helper()
	j := &v1.Journal{TypeMeta: v1.Type(v1.KindJournal), Run: "20261121-120000", Started: now, Plan: *mustMake(t, lab(t), labOptions())}
	for i, s := range j.Plan.Steps[:n] {
		rec := v1.StepRecord{ID: s.ID, Started: now.Add(time.Duration(i) * time.Second), Result: v1.StepResultDone}
		if i == n-1 {
			rec.Result = v1.StepResultStarted
		}
		j.Records = append(j.Records, rec)
	}
	return j
}

// during is the snapshot of a migration under way: cp-2 leads the kube-controller-managers, cp-1 the cloud-controller-managers.
func during(t *testing.T) *v1.Snapshot {
	s := lab(t)
	s.Managers = append(
		s.Managers,
		v1.Manager{Component: component.CCM, Host: "cp-1", Leads: []string{component.CCM}},
		v1.Manager{Component: component.CCM, Host: "cp-3"},
	)
	return s
}

func mustRollBack(t *testing.T, j *v1.Journal) *v1.Plan {
	t.Helper()
	p, err := rollback.Make(j, during(t), now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheRollbackOfAWholeMigration(t *testing.T) {
	golden(t, "lab.rollback.yaml", mustRollBack(t, begun(t, len(begun(t, 0).Plan.Steps))))
}

func TestARollbackFromEveryStep(t *testing.T) {
	for n := range len(begun(t, 0).Plan.Steps) + 1 {
		t.Run(fmt.Sprintf("after %d steps", n), func(t *testing.T) {
			j := begun(t, n)
			p := mustRollBack(t, j)
			ownersComeLast(t, p)
			apiServersAfterTheirManagers(t, p)
			if err := invariant.CheckWellFormed(p); err != nil {
				t.Error(err)
			}
			everyChangeIsUndoneOnce(t, j, p)
			inTreeBeforeTheLastCCMGoes(t, p)
		})
	}
}

func ownersComeLast(t *testing.T, p *v1.Plan) {
	t.Helper()
	for prefix, owner := range map[string]string{
		"undo/leader-migration/" + component.KCM: "cp-2", "undo/external/" + component.KCM: "cp-2", "undo/start/" + component.CCM: "cp-1", "undo/finish/" + component.CCM: "cp-1",
	} {
		hosts := hostsOf(p, prefix)
		for i, h := range hosts {
			if h == owner && i != len(hosts)-1 {
				t.Errorf("%s: the owner's host %s is not the last of %v", prefix, owner, hosts)
			}
		}
	}
}

// apiServersAfterTheirManagers: an API server is restarted only when its host's manager runs as it did before, so that it is no owner, or the only one.
func apiServersAfterTheirManagers(t *testing.T, p *v1.Plan) {
	t.Helper()
	at := positions(p)
	for id, i := range at {
		host, ok := strings.CutPrefix(id, "undo/external/"+component.KAS+"@")
		if !ok {
			continue
		}
		for _, before := range []string{"undo/external/" + component.KCM + "@" + host, "undo/leader-migration/" + component.KCM + "@" + host, "undo/start/" + component.CCM + "@" + host} {
			if j, planned := at[before]; planned && j > i {
				t.Errorf("%s comes before %s", id, before)
			}
		}
	}
}

func everyChangeIsUndoneOnce(t *testing.T, j *v1.Journal, p *v1.Plan) {
	t.Helper()
	undone := map[string]int{}
	for i, s := range p.Steps {
		if s.Restore != "" {
			undone[s.Restore]++
			if undone[s.Restore] > 1 {
				t.Errorf("step %s is undone a second time by %s", s.Restore, s.ID)
			}
		}
		for _, f := range j.Plan.Steps {
			if f.ID == s.ID {
				t.Errorf("step %s has the ID of a step of the way there: their records would be one", s.ID)
			}
		}
		if i > 0 && s.Phase != p.Steps[i-1].Phase {
			for _, earlier := range p.Steps[:i] {
				if earlier.Phase == s.Phase {
					t.Errorf("phase %s is taken up again by %s", s.Phase, s.ID)
				}
			}
		}
	}
	for _, rec := range j.Records {
		s := j.Plan.Steps[positions(&j.Plan)[rec.ID]]
		want := 1
		if s.Kind == v1.StepVerify || s.Kind == v1.StepDeleteObject || s.Kind == v1.StepRemoveFile {
			want = 0 // what they took away is made again and goes with what made it
		}
		if undone[s.ID] != want {
			t.Errorf("step %s is undone %d times, want %d", s.ID, undone[s.ID], want)
		}
	}
	// What a file is restored to last is what was there before the first step that changed it.
	last := map[string]string{}
	for _, s := range p.Steps {
		if s.Restore != "" && s.Path != "" {
			last[s.Host+s.Path] = s.Restore
		}
	}
	first := map[string]string{}
	for _, rec := range j.Records {
		s := j.Plan.Steps[positions(&j.Plan)[rec.ID]]
		if s.Path != "" && first[s.Host+s.Path] == "" {
			first[s.Host+s.Path] = s.ID
		}
	}
	if diff := cmp.Diff(first, last); diff != "" {
		t.Errorf("first step that changed a file, and what it is restored from (-want +have):\n%s", diff)
	}
}

// inTreeBeforeTheLastCCMGoes: with the last cloud-controller-manager the loops go to an in-tree manager, so one has to be there.
func inTreeBeforeTheLastCCMGoes(t *testing.T, p *v1.Plan) {
	t.Helper()
	at := positions(p)
	for id, i := range at {
		if !strings.HasPrefix(id, "undo/external/"+component.KCM) {
			continue
		}
		for ccm, k := range at {
			if strings.HasPrefix(ccm, "undo/start/") && k < i {
				t.Errorf("%s comes before %s", ccm, id)
			}
		}
	}
	for id, i := range at {
		if strings.HasPrefix(id, "undo/finish/") {
			for again, k := range at {
				if strings.HasPrefix(again, "again/") && k > i {
					t.Errorf("%s: leader migration comes on before %s", id, again)
				}
			}
		}
	}
}

func TestARollbackBelongsToItsCluster(t *testing.T) {
	s := during(t)
	s.Cluster.UID = "another"
	_, err := rollback.Make(begun(t, 3), s, now)
	if err == nil || !strings.Contains(err.Error(), "this one has another") {
		t.Errorf("error: %v", err)
	}
}

func TestARollbackOfNothingLooksAndDeletesOnlyLeases(t *testing.T) {
	for _, s := range mustRollBack(t, begun(t, 0)).Steps {
		if s.Kind == v1.StepVerify {
			continue
		}
		if s.Kind != v1.StepDeleteObject || !strings.HasPrefix(s.Ref, "Lease/") {
			t.Errorf("step %s", s.ID)
		}
	}
}
