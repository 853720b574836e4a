package migrate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/step/workload"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
)

const canary = "Canary7hunter2"

// canaries are arguments that hold a secret; the last two are one.
var canaries = []string{
	"--v=2",
	"--oidc-client-secret=" + canary,
	"--api_key",
	canary,
	"--basic-auth=u:" + canary,
	"--endpoint=https://u:" + canary + "@cloud.example.com",
	"--db-pass",
	canary,
}

// secretLines are command lines of a component with secrets in them.
func secretLines(t *testing.T) map[string]workload.CommandLine {
	t.Helper()
	args := append([]string{"--cloud-provider=aws", "--cloud-config", "/etc/cloud.conf"}, canaries...)
	wrap := func(fields any) workload.CommandLine {
		raw, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return workload.CommandLine{Command: []string{"/http-prober"}, Args: []string{"-endpoint", "https://a", "-command", string(raw)}}
	}
	return map[string]workload.CommandLine{
		"a command":        {Command: append([]string{component.KCM}, args...), Args: nil},
		"command and args": {Command: []string{component.KCM, "--cloud-provider", "aws", "--token=" + canary}, Args: canaries},
		"a seed's, in separate words": {Command: []string{component.KCM}, Args: slices.Concat(
			[]string{
				"--bind-address",
				"$(POD_IP)",
				"--controllers",
				"*,bootstrapsigner",
				"--use-service-account-credentials=true",
				"--flex-volume-plugin-dir=/flex",
			},
			canaries,
			[]string{"--cloud-provider", "aws", "--cloud-config", "/etc/cloud.conf"},
		)},
		"a wrapped command": wrap(struct {
			Command any `json:"command"`
			Args    any `json:"args"`
		}{"/" + component.KCM, args}),
		"wrapped, as a map": wrap(map[string]any{"command": "/" + component.KCM, "args": args}),
		"wrapped, in its way": {
			Command: []string{"/http-prober"},
			Args:    []string{`-command={"args": ["--cloud-provider=aws", "--db-pass", "` + canary + `"], "command": "/` + component.KCM + `"}`},
		},
	}
}

func TestAJournalKeepsNoSecretOfADeployment(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a command", "command and args", "wrapped, as a map", "wrapped, in its way"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.deployed(1)
			line := secretLines(t)[name]
			d := w.deployment()
			d.Spec.Template.Spec.Containers[0].Command, d.Spec.Template.Spec.Containers[0].Args = line.Command, line.Args
			w.api.Put(t, &d)
			p := w.given(
				v1.Step{
					ID:        "external/" + component.KCM,
					Phase:     "p",
					Kind:      v1.StepEditWorkload,
					Ref:       "Deployment/kube-system/" + component.KCM,
					Component: component.KCM,
					Leases:    []string{"deployed"},
					Edits:     []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}, {Op: v1.EditUnsetFlag, Name: "cloud-config"}},
				},
			)
			w.afterEveryDeath(p)
			holds(t, w, "external")
			w.backAfterEveryDeath()
			holds(t, w, "aws")
			c := w.deployment().Spec.Template.Spec.Containers[0]
			if !slices.Equal(c.Command, line.Command) || !slices.Equal(c.Args, line.Args) {
				t.Errorf("it is not put back as it was: %q %q", c.Command, c.Args)
			}
		})
	}
}

// holds expects a Deployment that has its secrets, and a journal that has none.
func holds(t *testing.T, w *world, text string) {
	t.Helper()
	c := w.deployment().Spec.Template.Spec.Containers[0]
	live := strings.Join(slices.Concat(c.Command, c.Args), " ")
	if !strings.Contains(live, text) || !strings.Contains(live, canary) || strings.Contains(live, mask.Masked) {
		t.Errorf("the Deployment runs %s", live)
	}
	j, err := journal.Open(t.Context(), w.kube)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(j.Doc())
	if err != nil {
		t.Fatal(err)
	}
	if at := strings.Index(string(data), canary); at >= 0 {
		t.Errorf("the journal holds a secret: …%s…", data[max(0, at-200):at+20])
	}
}

func TestAJournalOfAnOlderVersionPutsItsCommandLineBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.deployed(1)
	ref := "Deployment/kube-system/" + component.KCM
	p := w.given(v1.Step{ID: "external/" + component.KCM, Phase: "p", Kind: v1.StepEditWorkload, Ref: ref, Component: component.KCM, Leases: []string{"deployed"},
		Edits: []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}, {Op: v1.EditUnsetFlag, Name: "v"}}})
	w.afterEveryDeath(p)
	j, err := journal.Open(t.Context(), w.kube)
	if err != nil {
		t.Fatal(err)
	}
	rec := j.Record("external/" + component.KCM)
	rec.Before = `{"command":["kube-controller-manager","--cloud-provider=aws"],"args":["--v=2"],"edited":true}`
	if err := j.Save(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	w.backAfterEveryDeath()
	c := w.deployment().Spec.Template.Spec.Containers[0]
	if have := fmt.Sprint(c.Command, c.Args); have != "[kube-controller-manager --cloud-provider=aws] [--v=2]" {
		t.Errorf("flags are not as they were: %s", have)
	}
}

func TestRecordsQuoteNoSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	j, err := journal.Create(t.Context(), w.kube, v1.Journal{Run: "r", Phase: v1.RunApplying}, &v1.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	rec := v1.StepRecord{ID: "a", Result: v1.StepResultFailed, Error: "running kcm --token " + canary + ": exit status 1", Notes: []string{"https://u:" + canary + "@host"},
		Handovers: []v1.HandoverRecord{{Note: "password=" + canary}}}
	if err := j.Save(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(j.Doc())
	if err != nil || strings.Contains(string(data), canary) || strings.Count(string(data), mask.Masked) != 3 {
		t.Errorf("%v: the journal holds %s", err, data)
	}
}

func TestTheEngineWritesNoMask(t *testing.T) {
	t.Parallel()
	ref := "Deployment/kube-system/" + component.KCM
	for name, s := range map[string]v1.Step{
		"a file":    {ID: "write", Phase: "p", Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/kubernetes/x.yaml", Content: "token: (masked)\n"},
		"an object": {ID: "create", Phase: "p", Kind: v1.StepEnsureObject, Ref: "ConfigMap/kube-system/x", Object: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"kube-system"},"data":{"a":"(masked)"}}`},
		"a patch":   {ID: "patch", Phase: "p", Kind: v1.StepPatchObject, Ref: ref, Patch: `{"metadata":{"annotations":{"a":"(masked)"}}}`},
		"a flag": {
			ID:        "edit",
			Phase:     "p",
			Kind:      v1.StepEditWorkload,
			Ref:       ref,
			Component: component.KCM,
			Edits:     []v1.Edit{{Op: v1.EditSetFlag, Name: "oidc-client-secret", Value: "(masked)"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.deployed(1)
			before := w.deployment()
			_, err := w.run(w.given(s))
			says(t, err, "would write a mask", "where a secret was")
			after := w.deployment()
			if diff := cmp.Diff(before.Spec, after.Spec) + cmp.Diff(before.Annotations, after.Annotations); diff != "" {
				t.Errorf("the Deployment was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestAPlantedChangeOfACommandLineIsNotMade lets a record say, in each of its forms, that a flag was there by which a component knows who may do what.
func TestAPlantedChangeOfACommandLineIsNotMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.deployed(1)
	ref, id := "Deployment/kube-system/"+component.KCM, "external/"+component.KCM
	p := w.given(v1.Step{ID: id, Phase: "p", Kind: v1.StepEditWorkload, Ref: ref, Component: component.KCM, Leases: []string{"deployed"},
		Edits: []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}}})
	w.afterEveryDeath(p)
	c := w.deployment().Spec.Template.Spec.Containers[0]
	live := workload.CommandLine{Command: c.Command, Args: c.Args}
	wanted := workload.CommandLine{Command: live.Command, Args: []string{"--v=2", "--authorization-mode=AlwaysAllow"}}
	form := func(before workload.WorkloadBefore) string {
		data, err := json.Marshal(before)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	j, err := journal.Open(t.Context(), w.kube)
	if err != nil {
		t.Fatal(err)
	}
	honest := j.Record(id)
	for name, before := range map[string]string{
		"":         honest.Before,
		"a change": form(workload.WorkloadBefore{Back: &workload.CommandBack{Was: wanted.Sum(), Is: live.Sum(), Changes: workload.ChangesOf(live.Pieces(), wanted.Pieces())}}),
		"a volume": form(workload.WorkloadBefore{Mounted: []string{"audit-policy"}, Back: &workload.CommandBack{Was: live.Sum(), Is: live.Sum()}}),
	} {
		rec := honest
		rec.Before = before
		if err := j.Save(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		e := w.engine(func(o *step.Options) { o.Unjudged = false })
		e.env.Plan = p
		x := workload.Workload{Env: e.env}
		o, err := object.ReadLive(t.Context(), x.Env, ref)
		if err != nil {
			t.Fatal(err)
		}
		err = x.OnlyEditable(v1.Step{ID: "undo/" + id, Kind: v1.StepEditWorkload, Ref: ref, Component: component.KCM, Restore: id}, o)
		if refused := trust.IsUntrusted(err); refused != (name != "") || !refused && err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
