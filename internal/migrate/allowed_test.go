package migrate

import (
	"errors"
	"os"
	"path/filepath"
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
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// withoutStarts are steps after which no manager runs the loops. Each is allowed by itself.
func withoutStarts(steps []v1.Step) []v1.Step {
	return slices.DeleteFunc(slices.Clone(steps), func(s v1.Step) bool { return strings.HasPrefix(s.ID, "start/") })
}

// TestAPlantedJournalIsNotGoneOnWith: whoever may write the journal's ConfigMap is not root on the control plane by that.
func TestAPlantedJournalIsNotGoneOnWith(t *testing.T) {
	w := newWorld(t, 1)
	p, j := w.begin()
	live := w.snapshot()
	cron := v1.Step{
		ID:       "write/x",
		Phase:    "prepare",
		Kind:     v1.StepWriteFile,
		Title:    "write the leader migration config",
		Host:     "cp-1",
		Path:     "/etc/cron.d/x",
		Content:  "* * * * * root id\n",
		Mode:     "0644",
		Requires: []string{"cluster:uid", planstep.FileFact("cp-1", "/etc/cron.d/x")},
		Undo:     "remove it",
	}
	back := func() *v1.Plan {
		doc := j.Doc()
		for _, s := range p.Steps {
			doc.Records = append(doc.Records, v1.StepRecord{ID: s.ID, Result: v1.StepResultDone})
		}
		out, err := rollback.Make(&doc, live, w.clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, c := range []struct {
		name, says string
		plant      func(doc *v1.Journal)
	}{
		{"as it was made", "", func(*v1.Journal) {}},
		{"its rollback as it was made", "", func(doc *v1.Journal) { doc.Rollback = back() }},
		{"a step that writes for cron", "rule P-42", func(doc *v1.Journal) {
			doc.Plan.Facts = append(doc.Plan.Facts, v1.Fact{ID: cron.Requires[1], Value: "absent"})
			doc.Plan.Steps = append([]v1.Step{cron}, doc.Plan.Steps...)
		}},
		{"a rollback that writes for cron", "rule P-42", func(doc *v1.Journal) {
			doc.Rollback = back()
			doc.Rollback.Steps = append([]v1.Step{cron}, doc.Rollback.Steps...)
		}},
		{"a rollback of another cluster", "no rollback of this cluster", func(doc *v1.Journal) {
			doc.Rollback = back()
			doc.Rollback.Cluster.UID = "other"
		}},
		{"a plan of another cluster", "uid", func(doc *v1.Journal) { doc.Plan.Cluster.UID = "other" }},
		{"a forward plan as a rollback", "no rollback", func(doc *v1.Journal) { doc.Rollback = p }},
		{"a plan with no manager of a direction of its own", `its direction is "Forward"`, func(doc *v1.Journal) {
			doc.Plan.Direction, doc.Plan.Steps = "Forward", withoutStarts(doc.Plan.Steps)
		}},
		{"a plan with no manager and no direction", "rule P-34", func(doc *v1.Journal) {
			doc.Plan.Direction, doc.Plan.Steps = "", withoutStarts(doc.Plan.Steps)
		}},
		{"a plan with no direction", "", func(doc *v1.Journal) { doc.Plan.Direction = "" }},
		{"a plan with no manager that says it is a rollback", `its direction is "rollback"`, func(doc *v1.Journal) {
			doc.Plan.Direction, doc.Plan.Steps = planstep.Rollback, withoutStarts(doc.Plan.Steps)
		}},
		{"a plan that says it is a rollback", `its direction is "rollback"`, func(doc *v1.Journal) {
			doc.Plan.Direction, doc.Plan.Steps = planstep.Rollback, append([]v1.Step{cron}, doc.Plan.Steps...)
		}},
		{"a backup of its own", "is not in " + trust.BackupDir("run-1"), func(doc *v1.Journal) {
			doc.Records = append(doc.Records, v1.StepRecord{ID: p.Steps[0].ID, Result: v1.StepResultDone, Backup: "/tmp/pod.yaml",
				BackupSHA256: strings.Repeat("ab", 32), BackupMode: "0600"})
		}},
		{"a backup of a kubelet's file of its own", "is not in " + trust.BackupDir("run-1"), func(doc *v1.Journal) {
			doc.Records = append(doc.Records, v1.StepRecord{ID: p.Steps[0].ID, Files: []v1.FileRecord{{Path: "/etc/default/kubelet", Backup: trust.BackupDir("run-1") + "/../../x"}}})
		}},
		{"a run whose directory is elsewhere", "its run is called", func(doc *v1.Journal) { doc.Run = "../../../../tmp" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := j.Doc()
			doc.Plan.Steps = append([]v1.Step(nil), p.Steps...)
			doc.Plan.Facts = append([]v1.Fact(nil), p.Facts...)
			c.plant(&doc)
			err := trust.CheckJournal(doc, live)
			if c.says == "" && err != nil || c.says != "" && (!trust.IsUntrusted(err) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("it is not refused with %q: %v", c.says, err)
			}
		})
	}
}

// TestTheEngineAsksOfEachStep what a migration does, whoever has let the plan pass before.
func TestTheEngineAsksOfEachStep(t *testing.T) {
	w := newWorld(t, 1)
	p, _ := w.begin()
	for _, s := range []v1.Step{
		{ID: "evil", Phase: "prepare", Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/cron.d/x", Content: "x", Mode: "0644"},
		{
			ID:        "evil",
			Phase:     "prepare",
			Kind:      v1.StepAddManifest,
			Host:      "cp-1",
			Component: component.CCM,
			Path:      manifests + "cloud-controller-manager.yaml",
			Content:   "apiVersion: v1\nkind: Pod\n",
			Mode:      "0600",
		},
		{
			ID:      "evil",
			Phase:   "prepare",
			Kind:    v1.StepCopyFile,
			Host:    "cp-1",
			Path:    layout.CredentialDir + "/ecr-credential-provider",
			Source:  "/srv/admin/kubeconfig",
			Content: strings.Repeat("ab", 32),
			Mode:    "0755",
		},
		{ID: "evil", Phase: "prepare", Kind: v1.StepEnsureObject, Ref: "ServiceAccount/kube-system/x", Object: `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"x","namespace":"kube-system"}}`},
	} {
		planted := *p
		planted.Steps = append([]v1.Step{s}, p.Steps...)
		if err := w.engine().Run(t.Context(), &planted, nil); !trust.IsUntrusted(err) {
			t.Errorf("%s of %s%s is not refused: %v", s.Kind, s.Path, s.Ref, err)
		}
	}
	if _, err := os.Stat(filepath.Join(w.dir, "cp-1", "etc/cron.d")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written for cron: %v", err)
	}
	if _, err := w.kube.CoreV1().ServiceAccounts("kube-system").Get(t.Context(), "x", metav1.GetOptions{}); err == nil {
		t.Error("the account was made")
	}
}

// TestAManifestIsItsComponentsOwn: with a record of a try in the journal no fact is asked, and the way back would leave another component's
// manifest as it is.
func TestAManifestIsItsComponentsOwn(t *testing.T) {
	const etcd = "apiVersion: v1\nkind: Pod\nmetadata: {name: etcd, namespace: kube-system}\nspec:\n  containers:\n  - name: etcd\n    image: registry.k8s.io/etcd:3.6.6-0\n    command: [etcd]\n"
	for _, kind := range []v1.StepKind{v1.StepEditManifest, v1.StepRemoveManifest} {
		w := newWorld(t, 1)
		p, j := w.begin()
		w.write("cp-1", manifests+"etcd.yaml", etcd, 0o600)
		at := slices.IndexFunc(p.Steps, func(s v1.Step) bool {
			return s.Component == component.KCM && s.Path != "" && s.Kind != v1.StepWriteFile
		})
		planted, s := *p, p.Steps[at]
		s.ID, s.Kind, s.Path = "evil", kind, manifests+"etcd.yaml"
		planted.Steps = []v1.Step{s}
		if err := j.Save(t.Context(), v1.StepRecord{ID: "evil", Result: v1.StepResultStarted}); err != nil {
			t.Fatal(err)
		}
		files := w.files()
		err := w.engine().Run(t.Context(), &planted, nil)
		if !trust.IsUntrusted(err) || !strings.Contains(err.Error(), "starts etcd, not kube-controller-manager") {
			t.Errorf("%s of etcd's manifest is not refused: %v", kind, err)
		}
		w.same(files)
	}
}

// TestABackupOfARecordIsReadFromItsOwnDirectoryOnly, also where nobody has judged the journal.
func TestABackupOfARecordIsReadFromItsOwnDirectoryOnly(t *testing.T) {
	w := newWorld(t, 1)
	p, _ := w.begin()
	e := w.engine()
	rec := v1.StepRecord{ID: p.Steps[0].ID, Backup: "/tmp/pod.yaml", BackupSHA256: strings.Repeat("ab", 32), BackupMode: "0600"}
	if _, _, _, err := e.env.ReadBackup(t.Context(), v1.Step{ID: rec.ID, Host: "cp-1"}, rec); !trust.IsUntrusted(err) {
		t.Errorf("it is read: %v", err)
	}
	if err := e.env.KeepBackup(t.Context(), v1.Step{ID: rec.ID, Host: "cp-1", Path: manifests + "kube-apiserver.yaml"}, rec, nil); !trust.IsUntrusted(err) {
		t.Errorf("it is written: %v", err)
	}
}

// TestKubeletsToComeGetGatesOnly, whatever the plan or a record says.
func TestKubeletsToComeGetGatesOnly(t *testing.T) {
	w := newWorld(t, 1)
	p, _ := w.begin()
	e := w.engine()
	e.env.Plan = p
	const text = "kind: KubeletConfiguration\nfeatureGates:\n  DisableCloudProviders: false\n  Other: true\n"
	live := &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap", "data": map[string]any{"kubelet": text}}}
	for after, holds := range map[string]bool{
		"kind: KubeletConfiguration\nfeatureGates:\n  Other: true\n":                                   true,
		"kind: KubeletConfiguration\nfeatureGates:\n  Other: false\n":                                  false,
		"kind: KubeletConfiguration\nstaticPodURL: http://evil\nfeatureGates:\n  Other: true\n":        false,
		"kind: KubeletConfiguration\nauthentication: {anonymous: {enabled: true}}\nfeatureGates: {}\n": false,
	} {
		patch := map[string]any{"data": map[string]any{"kubelet": after}}
		if err := object.OnlyGates(e.env, live, patch); (err == nil) != holds {
			t.Errorf("%q: %v", after, err)
		}
	}
	if err := object.OnlyGates(e.env, live, map[string]any{"data": map[string]any{"kubelet": text}, "metadata": map[string]any{"labels": nil}}); err == nil {
		t.Error("another field is patched")
	}
}

// TestOnlyAProgramIsCopiedToAHost: a plan that names the kubeconfig of who applies it, with its right sum, copies nothing.
func TestOnlyAProgramIsCopiedToAHost(t *testing.T) {
	w := newWorld(t, 1)
	p, _ := w.begin()
	const target = layout.CredentialDir + "/ecr-credential-provider"
	for content, holds := range map[string]bool{"apiVersion: v1\nkind: Config\n": false, "-----BEGIN KEY-----\n": false, "": false, "#!/bin/sh\n": true, "\x7fELF\x02": true} {
		w.readLocal = func(string) ([]byte, error) { return []byte(content), nil }
		e := w.engine()
		planned := *p
		e.env.Plan = &planned
		s := v1.Step{
			ID:      "copy/" + target + "@cp-1",
			Kind:    v1.StepCopyFile,
			Host:    "cp-1",
			Path:    target,
			Source:  "provider",
			Content: hostaccess.SHA256([]byte(content)),
			Mode:    "0755",
		}
		planned.Options.CredentialProvider, planned.Options.CredentialProviderSHA256 = s.Source, s.Content
		if err := e.env.CheckAllowed(s); err != nil {
			t.Fatal(err)
		}
		rec := v1.StepRecord{ID: s.ID}
		if err := (file.CopyFile{Env: e.env}).Do(t.Context(), s, &rec); (err == nil) != holds || err != nil && !trust.IsUntrusted(err) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// TestWhatRunsDecidesWhatAStepMayChange: a planted journal switches no admission plugin off, whether a snapshot shows the host or not.
func TestWhatRunsDecidesWhatAStepMayChange(t *testing.T) {
	for name, live := range map[string]func(w *world) *v1.Snapshot{
		"seen": func(w *world) *v1.Snapshot { return w.snapshot() }, "not seen": func(w *world) *v1.Snapshot { return &v1.Snapshot{} },
	} {
		for flag, value := range map[string]string{"disable-admission-plugins": "NodeRestriction", "enable-admission-plugins": "AlwaysAdmit", "feature-gates": "AllAlpha=true"} {
			w := newWorld(t, 1)
			p, _ := w.begin()
			files, planted := w.files(), *p
			planted.Steps = nil
			for _, s := range p.Steps {
				if s.ID == "external/"+component.KAS+"@cp-1" {
					s.Edits = append([]v1.Edit{{Op: v1.EditSetFlag, Name: flag, Value: value}}, s.Edits...)
					planted.Steps = []v1.Step{s}
				}
			}
			if len(planted.Steps) != 1 {
				t.Fatal("the plan has no step of the API server")
			}
			if err := w.engine(func(o *step.Options) { o.Live = live(w) }).Run(t.Context(), &planted, nil); !trust.IsUntrusted(err) {
				t.Errorf("%s: --%s=%s is not refused: %v", name, flag, value, err)
			}
			w.same(files)
		}
	}
}

// TestAPlantedRecordGivesKubeadmNoFlagOfItsOwn: what takes the step back names what the step has changed, and of a list only the migration's items.
func TestAPlantedRecordGivesKubeadmNoFlagOfItsOwn(t *testing.T) {
	w := newWorld(t, 1)
	p, _ := w.begin()
	e := w.engine()
	e.env.Plan = p
	const text = "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\napiServer:\n  extraArgs:\n    cloud-provider: external\n    feature-gates: A=true\n"
	live := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"ClusterConfiguration": text}}}
	s := v1.Step{
		ID:        "patch/kubeadm",
		Kind:      v1.StepPatchObject,
		Ref:       object.KubeadmRef,
		Derive:    layout.DeriveKubeadm,
		Component: component.KAS,
		Edits: []v1.Edit{
			{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}, {Op: v1.EditSetFlag, Name: "feature-gates", Value: "A=true"},
		},
	}
	for before, want := range map[string]string{
		`[{"op":"setFlag","name":"feature-gates","value":"A=true,DisableCloudProviders=false"}]`: "A=true,DisableCloudProviders=false",
		`[{"op":"setFlag","name":"feature-gates","value":"AllAlpha=true"}]`:                      "A=true",
		`[{"op":"unsetFlag","name":"feature-gates"}]`:                                            "",
		`[{"op":"setFlag","name":"enable-admission-plugins","value":"AlwaysAdmit"}]`:             "untrusted",
		`[{"op":"addHostPath","name":"x","value":"/etc/cloud"}]`:                                 "untrusted",
	} {
		undo, err := object.KubeadmTakenBack(e.env, s, v1.StepRecord{Before: before}, live)
		switch {
		case want == "untrusted":
			if !trust.IsUntrusted(err) {
				t.Errorf("%s is not refused: %v", before, err)
			}
		case err != nil || len(undo.Edits) != 1 || undo.Edits[0].Value != want:
			t.Errorf("%s becomes %+v, not %q: %v", before, undo.Edits, want, err)
		}
	}
}
