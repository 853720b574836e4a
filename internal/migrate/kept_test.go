package migrate

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

var keep = flag.String("keep", "", "name of the version, e.g. v0.2.0, under which worlds in the middle of a run are written to testdata/kept")

// keptWorlds are where worlds are kept in which an earlier version was at work: its journal, and all that it had changed by then.
const keptWorlds = "testdata/kept"

// keptWorld is a world in the middle of a run.
type keptWorld struct {
	Commit    string                    `json:"commit"`
	Time      time.Time                 `json:"time"`
	LastPID   int                       `json:"lastPID"`
	Before    map[string]string         `json:"before"` // the files before the migration, as world.files returned them
	Files     map[string]keptFile       `json:"files"`
	Processes map[string]keptProcess    `json:"processes"`
	Kubelets  map[string]keptKubelet    `json:"kubelets"`
	Objects   map[string]map[string]any `json:"objects"`
}

type keptFile struct {
	Mode    os.FileMode `json:"mode"`
	Content string      `json:"content"`
}

type keptProcess struct {
	PID       int               `json:"pid"`
	Args      []string          `json:"args"`
	Sum       string            `json:"sum"`
	Flags     map[string]string `json:"flags"`
	Component string            `json:"component"`
	Host      string            `json:"host"`
}

type keptKubelet struct {
	PID      int      `json:"pid"`
	Args     []string `json:"args"`
	Renewals int      `json:"renewals"`
}

// keep writes a world down under the version that -keep names.
func (w *world) keep(name string, before map[string]string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	out := keptWorld{
		Commit:    *keep,
		Time:      w.clock.Now(),
		LastPID:   w.lastPID,
		Before:    before,
		Files:     map[string]keptFile{},
		Processes: map[string]keptProcess{},
		Kubelets:  map[string]keptKubelet{},
		Objects:   w.api.Objects(),
	}
	err := filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		out.Files[strings.TrimPrefix(path, w.dir)] = keptFile{info.Mode().Perm(), string(data)}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for key, p := range w.procs {
		out.Processes[key] = keptProcess{p.pid, p.args, p.sum, p.flags, p.component, p.host}
	}
	for host, k := range w.lives {
		out.Kubelets[host] = keptKubelet{k.pid, k.args, k.renewals}
	}
	data, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(keptWorlds, *keep+"-"+name+".json"), append(data, '\n'), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// takeUp makes a world that was kept, and returns its files from before the migration.
func takeUp(t *testing.T, path string) (*world, map[string]string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var was keptWorld
	if err := json.Unmarshal(data, &was); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, 0)
	w.api.Restore(was.Objects)
	w.clock.SetTime(was.Time)
	w.lastPID, w.lives = was.LastPID, map[string]*kubeletLife{}
	for at, f := range was.Files {
		host, path, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
		w.write(host, "/"+path, f.Content, f.Mode)
	}
	for key, p := range was.Processes {
		w.procs[key] = &process{pid: p.PID, args: p.Args, sum: p.Sum, flags: p.Flags, component: p.Component, host: p.Host}
	}
	for host, k := range was.Kubelets {
		w.lives[host] = &kubeletLife{pid: k.PID, args: k.Args, renewals: k.Renewals}
	}
	for _, lease := range []string{component.KCM, component.CCM, component.MigrationLease} {
		w.renewed[lease] = was.Time
	}
	w.openHosts()
	return w, was.Before
}

// TestKeepTheWorldsOfThisVersion writes what later versions have to go on with: go test ./internal/migrate -run TestKeepTheWorlds -keep v0.2.0.
func TestKeepTheWorldsOfThisVersion(t *testing.T) {
	if *keep == "" {
		t.Skip("worlds are kept with -keep, when a version is released")
	}
	for _, c := range []struct {
		name  string
		hosts int
		stop  string // during this step; empty for nowhere
	}{
		{"begun", 2, "nothing"}, {
			"in-a-handover",
			2,
			"external/" + component.KCM + "@cp-1",
		}, {"in-a-kubelet", 2, "external/kubelet@cp-2"}, {"in-a-downtime", 1, "external/" + component.KCM + "@cp-1"}, {"applied", 2, ""},
	} {
		w := newWorld(t, c.hosts)
		files := w.files()
		p, _ := w.begin()
		if c.stop == "nothing" {
			w.keep(c.name, files)
			continue
		}
		died, err := w.runUntil(p, func(at, id string) bool { return at == "during" && id == c.stop })
		if err != nil || died != (c.stop != "") {
			t.Fatalf("%s: died %v, %v", c.name, died, err)
		}
		if died {
			w.keep(c.name, files)
			continue
		}
		j := w.engine().env.Journal
		ended := w.clock.Now()
		if err := j.SetPhase(t.Context(), v1.RunApplied, nil, &ended); err != nil {
			t.Fatal(err)
		}
		w.keep(c.name, files)
		doc := j.Doc()
		back, err := rollback.Make(&doc, w.snapshot(), w.clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := j.SetPhase(t.Context(), v1.RunRollingBack, back, nil); err != nil {
			t.Fatal(err)
		}
		if died, err := w.runUntil(back, func(at, id string) bool { return at == "during" && id == back.Steps[len(back.Steps)/2].ID }); err != nil || !died {
			t.Fatalf("a rollback: died %v, %v", died, err)
		}
		w.keep("rolling-back", files)
	}
}

// TestWhatEarlierVersionsBeganIsFinishedAndTakenBack goes on with every journal that was kept, from where its run was left.
func TestWhatEarlierVersionsBeganIsFinishedAndTakenBack(t *testing.T) {
	t.Parallel()
	all, err := filepath.Glob(filepath.Join(keptWorlds, "*.json"))
	if err != nil || len(all) == 0 {
		t.Fatalf("no world was kept: %v", err)
	}
	finish := func(t *testing.T, w *world) *v1.Plan {
		t.Helper()
		e := w.engine(func(o *step.Options) { o.ToolVersion = "v9.1.0" })
		doc := e.env.Journal.Doc()
		if err := trust.CheckJournal(doc, w.snapshot()); err != nil {
			t.Fatal(err)
		}
		p := &doc.Plan
		if doc.Phase == v1.RunRollingBack {
			p = doc.Rollback
		}
		if err := e.Run(t.Context(), p, nil); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, path := range all {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, before := takeUp(t, path)
			was := w.engine().env.Journal.Doc()
			p := finish(t, w)
			if strings.HasSuffix(name, "-rolling-back") {
				w.rolledBack(before)
			} else {
				w.migrated(p)
				w.rollBack()
				w.rolledBack(before)
			}
			now := w.engine().env.Journal.Doc()
			if now.Schema != v1.JournalSchema || !strings.HasSuffix(name, "-applied") && now.ToolVersion != "v9.1.0" {
				t.Errorf("what was written to the journal is of schema %d by %q", now.Schema, now.ToolVersion)
			}
			for i, r := range was.Records {
				if now.Records[i].ID != r.ID || now.Records[i].Backup != r.Backup || r.Result == v1.StepResultDone && r.AfterSHA256 != now.Records[i].AfterSHA256 {
					t.Errorf("what was recorded is not there any longer: %+v, now %+v", r, now.Records[i])
				}
			}
		})
		t.Run(name+"-taken-back-at-once", func(t *testing.T) {
			t.Parallel()
			if strings.HasSuffix(name, "-rolling-back") {
				t.Skip("it is on its way back")
			}
			w, before := takeUp(t, path)
			w.rollBack()
			w.rolledBack(before)
		})
	}
}

// readAsBefore is how versions from before there were numbers of schemas read a journal.
func readAsBefore(cm *corev1.ConfigMap) (*v1.Journal, error) {
	var doc v1.Journal
	z, err := gzip.NewReader(bytes.NewReader(cm.BinaryData["journal.json.gz"]))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	if doc.APIVersion != v1.GroupVersion || doc.Kind != v1.KindJournal {
		return nil, fmt.Errorf("journal ConfigMap %s/%s holds %s %s, which this version of transplant does not know: use the version that wrote it",
			component.Namespace, journal.Name, doc.APIVersion, doc.Kind)
	}
	return &doc, nil
}

func TestAVersionFromBeforeThereWereNumbersRefusesWhatThisOneWrites(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/namespaces/kube-system/configmaps/" + journal.Name
	w, _ := takeUp(t, filepath.Join(keptWorlds, "660a25f-in-a-handover.json"))
	var cm corev1.ConfigMap
	w.api.Get(t, path, &cm)
	if was, err := readAsBefore(&cm); err != nil || was.Run != "run-1" {
		t.Fatalf("its own journal: %v", err)
	}
	j := w.engine(func(o *step.Options) { o.ToolVersion = "v9.1.0" }).env.Journal
	if err := j.Save(t.Context(), v1.StepRecord{ID: "verify/handed-over", Result: v1.StepResultStarted, Started: w.clock.Now()}); err != nil {
		t.Fatal(err)
	}
	w.api.Get(t, path, &cm)
	const want = "holds transplant.dev/v1alpha1 (schema 2, of transplant v9.1.0) Journal, which this version of transplant does not know: use the version that wrote it"
	if _, err := readAsBefore(&cm); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("it reads the journal and would write back less of it: %v", err)
	}
	if now, err := journal.NewReader(journal.InCluster(w.kube)).Read(t.Context(), &cm); err != nil || now.Run != "run-1" {
		t.Errorf("this version: %v", err)
	}
}
