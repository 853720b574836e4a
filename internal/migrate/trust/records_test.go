package trust

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// A rollback puts back what a record says was there, and the plan says what it found.
func TestARecordOfAFileThatIsAddedToIsHeldToWhatThePlanFound(t *testing.T) {
	const path = "/etc/own.yaml"
	found := strings.Repeat("ab", 32)
	added := v1.Step{ID: "write/" + path + "@a", Kind: v1.StepWriteFile, Host: "a", Path: path, Derive: layout.DeriveCredentialConfig}
	written := v1.Step{ID: "write/" + path + "@b", Kind: v1.StepWriteFile, Host: "b", Path: path}
	doc := v1.Journal{Run: "run-1", Plan: v1.Plan{
		Facts: []v1.Fact{{ID: planstep.FileFact("a", path), Value: found}, {ID: planstep.FileFact("b", path), Value: "absent"}},
		Steps: []v1.Step{added, written},
	}}
	steps, err := JournaledSteps(doc)
	if err != nil {
		t.Fatal(err)
	}
	own := BackupDir(doc.Run) + "/" + BackupName(added.ID)
	for name, c := range map[string]struct {
		rec  v1.StepRecord
		says string
	}{
		"before its backup":            {v1.StepRecord{ID: added.ID}, ""},
		"as the plan found it":         {v1.StepRecord{ID: added.ID, Backup: own, BackupSHA256: found}, ""},
		"said not to have been there":  {v1.StepRecord{ID: added.ID, BackupSHA256: "absent"}, "it says that " + path + " had SHA-256 absent before"},
		"said to have been another":    {v1.StepRecord{ID: added.ID, Backup: own, BackupSHA256: strings.Repeat("cd", 32)}, "which is not what the plan found on host a"},
		"a file that the plan creates": {v1.StepRecord{ID: written.ID, BackupSHA256: "absent"}, ""},
	} {
		err := judgeRecordOf(doc, steps, c.rec)
		if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	doc.Plan.Facts = nil
	if err := judgeRecordOf(doc, steps, v1.StepRecord{ID: added.ID, Backup: own, BackupSHA256: found}); err == nil {
		t.Error("a plan that found nothing there is believed")
	}
}
