package migrate

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/file"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// TestAPlantedRecordIsNotGoneOnWith: a record names files, backups and modes, and they are written and removed on hosts.
func TestAPlantedRecordIsNotGoneOnWith(t *testing.T) {
	w := newWorld(t, 2)
	p, j := w.begin()
	live := w.snapshot()
	restart := p.Steps[slices.IndexFunc(p.Steps, func(s v1.Step) bool { return s.Component == component.KAS && s.Kind == v1.StepEditManifest })]
	other := p.Steps[slices.IndexFunc(p.Steps, func(s v1.Step) bool { return s.Kind == v1.StepEditManifest && s.ID != restart.ID })]
	twin := p.Steps[slices.IndexFunc(p.Steps, func(s v1.Step) bool {
		return s.Component == component.KAS && s.Kind == v1.StepEditManifest && s.Host != restart.Host
	})]
	secret := p.Steps[slices.IndexFunc(p.Steps, func(s v1.Step) bool { return s.Path == layout.CCMKubeconfig })]
	sum := hostaccess.SHA256([]byte("kept"))
	own := func(id string) string { return trust.BackupDir("run-1") + "/" + trust.BackupName(id) }
	rollback := func(doc *v1.Journal, change func(s *v1.Step)) {
		all := *doc
		all.Records = nil
		for _, s := range p.Steps {
			all.Records = append(all.Records, v1.StepRecord{ID: s.ID, Result: v1.StepResultDone, Created: true})
		}
		made, err := rollback.Make(&all, live, w.clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		for i := range made.Steps {
			change(&made.Steps[i])
		}
		doc.Rollback = made
	}
	for _, c := range []struct {
		name, says string
		plant      func(doc *v1.Journal)
	}{
		{"its own backup", "", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: restart.ID, Backup: own(restart.ID), BackupSHA256: sum, BackupMode: "0640"}}
		}},
		{"a manager that hands over", "", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{
				{ID: trust.MovingID(restart, component.KCM), Result: v1.StepResultStarted, Path: manifests + "kube-controller-manager.yaml",
					Backup: own(trust.MovingID(restart, component.KCM)), BackupSHA256: sum},
			}
		}},
		{"the way back as it is made", "", func(doc *v1.Journal) { rollback(doc, func(*v1.Step) {}) }},
		{"a backup without a sum", "without a SHA-256", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: restart.ID, Backup: own(restart.ID), BackupMode: "0640"}}
		}},
		{"a backup of a file without a sum", "without a SHA-256", func(doc *v1.Journal) {
			files := []v1.FileRecord{{Path: flagsFile, Backup: own(restart.ID + ":" + flagsFile)}}
			doc.Records = []v1.StepRecord{{ID: restart.ID, Files: files}}
		}},
		{"another step's backup", "is not that of this step", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: restart.ID, Backup: own(other.ID), BackupSHA256: sum, BackupMode: "0600"}}
		}},
		{"a program that acts as its owner", "permissions alone", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: restart.ID, Backup: own(restart.ID), BackupSHA256: sum, BackupMode: "4755"}}
		}},
		{"a mode that is none", "permissions alone", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: restart.ID, Backup: own(restart.ID), BackupSHA256: sum, BackupMode: "rwx"}}
		}},
		{"a kubeconfig that all could read before", "", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: secret.ID, Backup: own(secret.ID), BackupSHA256: sum, BackupMode: "0644"}}
		}},
		{"a file that is none of its step", "none of this step", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: restart.ID, Files: []v1.FileRecord{{Path: "/etc/shadow", Backup: own(restart.ID + ":/etc/shadow"), BackupSHA256: sum}}}}
		}},
		{"a file of a step that is not in the plan", "none of this step", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: "x", Files: []v1.FileRecord{{Path: "/etc/shadow"}}}}
		}},
		{"a manager that is moved elsewhere", "no manifest", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: trust.MovingID(restart, component.KCM), Result: v1.StepResultStarted, Path: manifests + ".hidden"}}
		}},
		{"a file for cron that is moved", "directory of static pods", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: trust.MovingID(restart, component.KCM), Result: v1.StepResultStarted, Path: "/etc/cron.d/x"}}
		}},
		{"a path with detours", "without detours", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: trust.MovingID(restart, component.KCM), Result: v1.StepResultStarted, Path: manifests + "../../cron.d/x"}}
		}},
		{"another component that is moved", "no manager that hands over", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: trust.MovingID(restart, "etcd"), Result: v1.StepResultStarted, Path: manifests + "etcd.yaml"}}
		}},
		{"a step that restarts no API server", "restarts no API server", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: trust.MovingID(secret, component.KCM), Result: v1.StepResultStarted, Path: manifests + "kube-controller-manager.yaml"}}
		}},
		{"a unit among the manifests", "neither in the directory of static pods", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: trust.MovingID(restart, component.KCM), Path: manifests + component.KCM + ".service"}}
		}},
		{"an environment file that is moved", "neither in the directory of static pods", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: trust.MovingID(restart, component.KCM), Path: "/etc/default/" + component.KCM}}
		}},
		{"a manager of a step that is not there", "no plan in the journal has step", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: "x" + trust.MovingInfix + component.KCM, Path: manifests + "kube-controller-manager.yaml"}}
		}},
		{"a path of nothing", "belongs to no record of a step", func(doc *v1.Journal) { doc.Records = []v1.StepRecord{{ID: "x", Path: "/etc/shadow"}} }},
		{"a step of the plan that the rollback has as well", "both have step " + restart.ID, func(doc *v1.Journal) {
			rollback(doc, func(s *v1.Step) {
				if s.Restore == restart.ID {
					s.ID = restart.ID
				}
			})
		}},
		{"the path of a step", "belongs to no record of a step", func(doc *v1.Journal) { doc.Records = []v1.StepRecord{{ID: restart.ID, Path: "/etc/shadow"}} }},
		{"a way back with the backup of another host", "its host is", func(doc *v1.Journal) {
			rollback(doc, func(s *v1.Step) {
				if s.Restore == restart.ID {
					s.Restore = twin.ID
				}
			})
		}},
		{"a way back with the backup of another file", "its path is", func(doc *v1.Journal) {
			rollback(doc, func(s *v1.Step) {
				if s.Restore == restart.ID {
					s.Restore = secret.ID
				}
			})
		}},
		{"a way back of a step that is not there", "does not have", func(doc *v1.Journal) {
			rollback(doc, func(s *v1.Step) {
				if s.Restore == restart.ID {
					s.Restore = "x"
				}
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := j.Doc()
			c.plant(&doc)
			err := trust.CheckJournal(doc, live)
			if c.says == "" && err != nil || c.says != "" && (!trust.IsUntrusted(err) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("it is not refused with %q: %v", c.says, err)
			}
		})
	}
}

// TestAnObjectThatWasThereBeforeIsNotDeleted, though a planted record says that the migration made it.
func TestAnObjectThatWasThereBeforeIsNotDeleted(t *testing.T) {
	for labelled, want := range map[bool]bool{true: true, false: false} {
		w := newWorld(t, 1)
		p, j := w.begin()
		made := p.Steps[slices.IndexFunc(p.Steps, func(s v1.Step) bool {
			return s.Kind == v1.StepEnsureObject && strings.HasPrefix(s.Ref, "ServiceAccount/")
		})]
		o, err := object.DecodeObject(made)
		if err != nil {
			t.Fatal(err)
		}
		if !labelled {
			o.SetLabels(map[string]string{"app": "theirs"})
		}
		e := w.engine()
		e.env.Plan = p
		client, name, err := object.Object(e.env, made.Ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := j.Save(t.Context(), v1.StepRecord{ID: made.ID, Result: v1.StepResultDone, Created: true}); err != nil {
			t.Fatal(err)
		}
		e.env.Journal = j
		s := v1.Step{ID: "undo/" + made.ID, Kind: v1.StepDeleteObject, Ref: made.Ref, Restore: made.ID}
		err = (object.DeleteObject{Env: e.env}).Do(t.Context(), s, &v1.StepRecord{ID: s.ID})
		var left *unstructured.Unstructured
		left, getErr := client.Get(t.Context(), name, metav1.GetOptions{})
		if deleted := getErr != nil; deleted != want || want != (err == nil) || !want && !strings.Contains(err.Error(), "it was there before") {
			t.Errorf("labelled %v: %v, %v", labelled, err, left)
		}
	}
}

// TestTheSumOfALocalFileIsNotSaid: the name of the file is from a journal, and the error goes back into it.
func TestTheSumOfALocalFileIsNotSaid(t *testing.T) {
	w := newWorld(t, 1)
	p, _ := w.begin()
	w.readLocal = func(string) ([]byte, error) { return []byte("the administrator's key"), nil }
	e := w.engine()
	e.env.Plan = p
	s := v1.Step{
		ID:      "copy/x@cp-1",
		Kind:    v1.StepCopyFile,
		Host:    "cp-1",
		Path:    layout.CredentialDir + "/ecr-credential-provider",
		Source:  "/srv/admin/key",
		Content: strings.Repeat("ab", 32),
		Mode:    "0755",
	}
	err := (file.CopyFile{Env: e.env}).Do(t.Context(), s, &v1.StepRecord{ID: s.ID})
	if err == nil || strings.Contains(err.Error(), hostaccess.SHA256([]byte("the administrator's key"))) || !strings.Contains(err.Error(), s.Source) {
		t.Errorf("it ends with %v", err)
	}
}

// TestNoFileIsChangedWithoutItsBackup, whatever a record says: it is in a ConfigMap.
func TestNoFileIsChangedWithoutItsBackup(t *testing.T) {
	const path = "/etc/kubernetes/x"
	sum := func(s string) string { return hostaccess.SHA256([]byte(s)) }
	for name, c := range map[string]struct {
		rec       v1.StepRecord // Backup is "own" for the one of the step
		there     string        // what the backup of the step has already
		token     bool
		edits     bool // it is a step that fails where the file is not there
		adds      bool // it adds to a file of another owner
		untrusted bool
		want      string // what the backup has afterwards
	}{
		"none yet":                          {want: "now"},
		"kept, and unchanged":               {rec: v1.StepRecord{Backup: "own", BackupSHA256: sum("now")}, there: "now", want: "now"},
		"recorded, and not kept yet":        {rec: v1.StepRecord{Backup: "own", BackupSHA256: sum("now")}, want: "now"},
		"kept, and changed since":           {rec: v1.StepRecord{Backup: "own", BackupSHA256: sum("before")}, there: "before", want: "before"},
		"said to be kept":                   {rec: v1.StepRecord{Backup: "own", BackupSHA256: sum("before")}, untrusted: true, want: "(absent)"},
		"said to be kept as something else": {rec: v1.StepRecord{Backup: "own", BackupSHA256: sum("before")}, there: "other", untrusted: true, want: "other"},
		"said to be kept nowhere":           {rec: v1.StepRecord{BackupSHA256: sum("before")}, untrusted: true, want: "(absent)"},
		"recorded without a name":           {rec: v1.StepRecord{BackupSHA256: sum("now")}, want: "now"},
		"said not to be there":              {rec: v1.StepRecord{BackupSHA256: step.Absent}, want: "now"},
		"not there, and written since":      {rec: v1.StepRecord{BackupSHA256: step.Absent, AfterSHA256: sum("now")}, want: "(absent)"},
		"edited, and said not to have been there": {
			rec: v1.StepRecord{BackupSHA256: step.Absent, AfterSHA256: sum("now")}, edits: true, want: "now",
		},
		"added to, and said not to have been there": {
			rec: v1.StepRecord{BackupSHA256: step.Absent, AfterSHA256: sum("now")}, adds: true, want: "now",
		},
		"a token, not there, and renewed": {rec: v1.StepRecord{BackupSHA256: step.Absent}, token: true, want: "(absent)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.begin()
			e := w.engine()
			s := v1.Step{ID: "write/x@cp-1", Kind: v1.StepWriteFile, Host: "cp-1", Path: path}
			if c.token {
				s.Derive = layout.DeriveToken
			}
			if c.adds {
				s.Derive = layout.DeriveCredentialConfig
			}
			if c.edits {
				s.Kind = v1.StepEditManifest
			}
			own := trust.BackupDir(e.env.Journal.Doc().Run) + "/" + trust.BackupName(s.ID)
			rec := c.rec
			if rec.ID = s.ID; rec.Backup == "own" {
				rec.Backup, rec.BackupMode = own, "0600"
			}
			w.write("cp-1", path, "now", 0o600)
			if c.there != "" {
				w.write("cp-1", own, c.there, 0o600)
			}
			if err := e.env.BackUp(t.Context(), s, &rec); trust.IsUntrusted(err) != c.untrusted || err != nil && !c.untrusted {
				t.Errorf("the error is %v", err)
			}
			if got := w.read("cp-1", own); got != c.want {
				t.Errorf("the backup has %q", got)
			}
			if c.want == "now" && (rec.BackupSHA256 != sum("now") || rec.Backup != own) {
				t.Errorf("the record: %+v", rec)
			}
		})
	}
}
