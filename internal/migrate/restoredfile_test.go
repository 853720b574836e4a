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
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// TestTheBackupOfAUnitOfAnotherTimeIsNotPutBack: its sum is right, and it starts what this migration did not find.
func TestTheBackupOfAUnitOfAnotherTimeIsNotPutBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, strategy, says string
		change               func(string) string
	}{
		{"as it was", planstep.LeaderMigration, "", func(data string) string { return data }},
		{"as it was, in a downtime", planstep.Downtime, "", func(data string) string { return data }},
		{"a flag", planstep.LeaderMigration, "in more than the plan changes", func(data string) string {
			return strings.Replace(data, `ARGS="`, `ARGS="--profiling=true `, 1)
		}},
		{"a variable", planstep.Downtime, "in more than the plan changes", func(data string) string {
			return data + "LD_PRELOAD=/tmp/x.so\n"
		}},
		{"a gate", planstep.LeaderMigration, "in more than the plan changes", func(data string) string {
			return strings.Replace(data, `ARGS="`, `ARGS="--feature-gates=AnyVolumeDataSource=false `, 1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			w.asUnits()
			p := w.beginWith(v1.Options{Strategy: c.strategy})
			if _, err := w.run(p); err != nil {
				t.Fatal(err)
			}
			live, back := w.snapshot(), w.planBack()
			s := stepOf(t, back, func(s v1.Step) bool {
				return (s.Kind == v1.StepEditUnit || s.Kind == v1.StepStartUnit) && s.Component == component.KCM && s.Restore != ""
			})
			w.withBackup(v1.Step{ID: s.Restore, Host: s.Host}, c.change)
			_, err := w.run(back, func(o *step.Options) { o.Live = live })
			if c.says == "" && err != nil || c.says != "" && (!trust.IsUntrusted(err) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("it is not refused with %q: %v", c.says, err)
			}
		})
	}
}

func stepOf(t *testing.T, p *v1.Plan, is func(v1.Step) bool) v1.Step {
	t.Helper()
	at := slices.IndexFunc(p.Steps, is)
	if at < 0 {
		t.Fatal("the plan has no such step")
	}
	return p.Steps[at]
}

// TestTheBackupOfAKubeletOfAnotherTimeIsNotPutBack in any of its files.
func TestTheBackupOfAKubeletOfAnotherTimeIsNotPutBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, path, more, says string }{
		{"as it was", flagsFile, "", ""},
		{"another flag", flagsFile, "KUBELET_EXTRA_ARGS=--anonymous-auth=true\n", "in more than the plan changes"},
		{"another variable", defaultsFile, "LD_PRELOAD=/tmp/x.so\n", "in more than the plan changes"},
		{"another command", dropInFile, "ExecStartPre=/tmp/x\n", "in more than the plan changes"},
		{"another setting", configFile, "authentication: {anonymous: {enabled: true}}\n", "in more than the plan changes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.spread("cp-1")
			p := w.given(spreadStep("cp-1"))
			if _, err := w.run(p); err != nil {
				t.Fatal(err)
			}
			there := w.read("cp-1", c.path)
			if c.more != "" {
				w.withBackupOf(p.Steps[0], c.path, func(data string) string { return data + c.more })
			}
			_, err := w.run(wayBack(p), func(o *step.Options) { o.Unjudged = false })
			if c.says == "" && err != nil || c.says != "" && (!trust.IsUntrusted(err) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("it is not refused with %q: %v", c.says, err)
			}
			if c.says != "" && w.read("cp-1", c.path) != there {
				t.Errorf("it was put back:\n%s", w.read("cp-1", c.path))
			}
		})
	}
}

// withBackupOf is withBackup for one of the files of a step.
func (w *world) withBackupOf(s v1.Step, path string, change func(string) string) {
	w.t.Helper()
	if path == s.Path {
		w.withBackup(s, change)
		return
	}
	j := w.engine().env.Journal
	rec := j.Record(s.ID)
	f := &rec.Files[slices.IndexFunc(rec.Files, func(f v1.FileRecord) bool { return f.Path == path })]
	data := change(w.read(s.Host, f.Backup))
	w.write(s.Host, f.Backup, data, 0o600)
	f.BackupSHA256 = hostaccess.SHA256([]byte(data))
	if err := j.Save(w.t.Context(), rec); err != nil {
		w.t.Fatal(err)
	}
}

// TestABackupThatSomebodyChangedIsNotPutBack, whatever kind of file it is of: the journal has its sum.
func TestABackupThatSomebodyChangedIsNotPutBack(t *testing.T) {
	t.Parallel()
	edited := func(component string) func(v1.Step) bool {
		return func(s v1.Step) bool {
			return s.Component == component && s.Host == "cp-1" && (s.Kind == v1.StepEditManifest || s.Kind == v1.StepEditUnit)
		}
	}
	for _, c := range []struct {
		name  string
		units bool
		of    func(v1.Step) bool
	}{
		{"a static pod", false, edited(component.KCM)},
		{"a unit", true, edited(component.KCM)},
		{"a removed file", false, func(s v1.Step) bool { return s.Path == layout.CCMKubeconfig && s.Host == "cp-1" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			w.write("cp-1", layout.CCMKubeconfig, "from before", 0o600)
			if c.units {
				w.asUnits()
			}
			p, _ := w.begin()
			if _, err := w.run(p); err != nil {
				t.Fatal(err)
			}
			s := stepOf(t, p, c.of)
			w.refusesTampered(s, w.engine().env.Journal.Record(s.ID).Backup, w.planBack())
		})
	}
	for _, path := range []string{flagsFile, dropInFile} {
		t.Run("a kubelet's "+path, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.spread("cp-1")
			p := w.given(spreadStep("cp-1"))
			if _, err := w.run(p); err != nil {
				t.Fatal(err)
			}
			rec := w.engine().env.Journal.Record(p.Steps[0].ID)
			at := rec.Backup
			for _, f := range rec.Files {
				if f.Path == path {
					at = f.Backup
				}
			}
			w.refusesTampered(p.Steps[0], at, wayBack(p))
		})
	}
}

// refusesTampered changes a backup, and holds that a rollback says so and puts nothing of it anywhere.
func (w *world) refusesTampered(s v1.Step, at string, back *v1.Plan) {
	w.t.Helper()
	const planted = "planted by somebody"
	kept := hostaccess.SHA256([]byte(w.read(s.Host, at)))
	w.write(s.Host, at, planted, 0o600)
	_, err := w.run(back)
	says(w.t, err, at, "on host "+s.Host, "step "+s.ID, hostaccess.SHA256([]byte(planted)), kept, "nothing was restored", "by hand")
	for path, data := range w.files() {
		if data == planted && !strings.HasSuffix(path, at) {
			w.t.Errorf("it was put back as %s", path)
		}
	}
}
