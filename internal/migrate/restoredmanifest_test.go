package migrate

import (
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// withBackup replaces the backup of a step by another one, with a record that names its sum: so does a journal that
// names the run of an earlier migration.
func (w *world) withBackup(s v1.Step, change func(string) string) {
	w.t.Helper()
	j := w.engine().env.Journal
	rec := j.Record(s.ID)
	data := change(w.read(s.Host, rec.Backup))
	w.write(s.Host, rec.Backup, data, 0o600)
	rec.BackupSHA256 = hostaccess.SHA256([]byte(data))
	if err := j.Save(w.t.Context(), rec); err != nil {
		w.t.Fatal(err)
	}
}

// TestABackupOfAnotherTimeIsNotPutBack: its sum is right, and what it starts is not what the migration found.
func TestABackupOfAnotherTimeIsNotPutBack(t *testing.T) {
	t.Parallel()
	replaced := func(old, by string) func(string) string {
		return func(data string) string {
			if !strings.Contains(data, old) {
				t.Errorf("the backup has no %q:\n%s", old, data)
			}
			return strings.Replace(data, old, by, 1)
		}
	}
	const command = "    command:\n    - " + component.KCM + "\n"
	for _, c := range []struct {
		name, strategy, says string
		change               func(string) string
	}{
		{"as it was", planstep.LeaderMigration, "", func(data string) string { return data }},
		{"an older image", planstep.LeaderMigration, "in more than the plan changes", replaced(component.KCM+":v1.26.0", component.KCM+":v1.20.0")},
		{"a flag", planstep.LeaderMigration, "in more than the plan changes", replaced(command, command+"    - --profiling=true\n")},
		{"a privileged container", planstep.LeaderMigration, "in more than the plan changes",
			replaced(command, "    securityContext:\n      privileged: true\n"+command)},
		{"another container", planstep.LeaderMigration, "in more than the plan changes",
			replaced("  containers:\n", "  containers:\n  - name: other\n    image: example.org/other:v1\n")},
		{"another component", planstep.LeaderMigration, "starts", replaced(command, "    command:\n    - kube-apiserver\n")},
		{"a gate", planstep.LeaderMigration, "in more than the plan changes", replaced(command, command+"    - --feature-gates=AnyVolumeDataSource=false\n")},
		{"as it was, after it was stopped", planstep.Downtime, "", func(data string) string { return data }},
		{"an older image, after it was stopped", planstep.Downtime, "was seen with", replaced(component.KCM+":v1.26.0", component.KCM+":v1.20.0")},
		{"another image, after it was stopped", planstep.Downtime, "was seen with", replaced("registry.k8s.io/"+component.KCM, "example.org/"+component.KCM)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]int{planstep.LeaderMigration: 2, planstep.Downtime: 1}[c.strategy])
			p := w.beginWith(v1.Options{Strategy: c.strategy})
			if _, err := w.run(p); err != nil {
				t.Fatal(err)
			}
			live := w.snapshot()
			back := w.planBack()
			at := slices.IndexFunc(back.Steps, func(s v1.Step) bool { return s.Kind == v1.StepRestoreManifest && s.Component == component.KCM })
			if at < 0 {
				t.Fatal("the rollback puts no manager back")
			}
			s := back.Steps[at]
			w.withBackup(v1.Step{ID: s.Restore, Host: s.Host}, c.change)
			_, err := w.run(back, func(o *step.Options) { o.Live = live })
			if c.says == "" && err != nil || c.says != "" && (!trust.IsUntrusted(err) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("it is not refused with %q: %v", c.says, err)
			}
		})
	}
}
