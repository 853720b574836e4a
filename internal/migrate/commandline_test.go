package migrate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/mask"
)

const canary = "Canary7hunter2"

// canaries are arguments that hold a secret; the last two are one.
var canaries = []string{
	"--v=2", "--oidc-client-secret=" + canary, "--api_key", canary, "--basic-auth=u:" + canary, "--endpoint=https://u:" + canary + "@cloud.example.com", "--db-pass", canary,
}

// secretLines are command lines of a component with secrets in them.
func secretLines(t *testing.T) map[string]commandLine {
	t.Helper()
	args := append([]string{"--cloud-provider=aws", "--cloud-config", "/etc/cloud.conf"}, canaries...)
	wrap := func(fields any) commandLine {
		raw, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return commandLine{[]string{"/http-prober"}, []string{"-endpoint", "https://a", "-command", string(raw)}}
	}
	return map[string]commandLine{
		"a command":        {append([]string{kcm}, args...), nil},
		"command and args": {[]string{kcm, "--cloud-provider", "aws", "--token=" + canary}, canaries},
		"a seed's, in separate words": {[]string{kcm}, slices.Concat(
			[]string{"--bind-address", "$(POD_IP)", "--controllers", "*,bootstrapsigner", "--use-service-account-credentials=true", "--flex-volume-plugin-dir=/flex"}, canaries,
			[]string{"--cloud-provider", "aws", "--cloud-config", "/etc/cloud.conf"})},
		"a wrapped command": wrap(struct {
			Command any `json:"command"`
			Args    any `json:"args"`
		}{"/" + kcm, args}),
		"wrapped, as a map":   wrap(map[string]any{"command": "/" + kcm, "args": args}),
		"wrapped, in its way": {[]string{"/http-prober"}, []string{`-command={"args": ["--cloud-provider=aws", "--db-pass", "` + canary + `"], "command": "/` + kcm + `"}`}},
	}
}

func TestWhatIsKeptOfACommandLinePutsItBackAndHoldsNoSecret(t *testing.T) {
	for name, was := range secretLines(t) {
		for what, edits := range map[string][]v1.Edit{
			"nothing":  nil,
			"set":      {{Op: "setFlag", Name: "cloud-provider", Value: "external"}},
			"unset":    {{Op: "unsetFlag", Name: "cloud-config"}, {Op: "unsetFlag", Name: "cloud-provider"}},
			"new":      {{Op: "setFlag", Name: "controllers", Value: "*,-route"}, {Op: "setFlag", Name: "v", Value: "4"}},
			"all":      {{Op: "setFlag", Name: "cloud-provider", Value: "external"}, {Op: "unsetFlag", Name: "cloud-config"}, {Op: "setFlag", Name: "enable-leader-migration", Value: "true"}},
			"the last": {{Op: "unsetFlag", Name: "v"}},
			"in the place of another": {
				{Op: "setFlag", Name: "cloud-provider", Value: "external"}, {Op: "unsetFlag", Name: "cloud-config"}, {Op: "setFlag", Name: "feature-gates", Value: "InTreePluginAWSUnregister=true"},
			},
		} {
			s := v1.Step{ID: "edit", Ref: "Deployment/kube-system/" + kcm, Component: kcm, Edits: edits}
			is, err := was.edited(edits)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, what, err)
			}
			back, err := takeBackOf(s, was, is)
			if err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
				continue
			}
			data, err := json.Marshal(back)
			if err != nil || strings.Contains(string(data), canary) {
				t.Errorf("%s, %s: %v: it keeps %s", name, what, err, data)
			}
			var read commandBack
			if err := json.Unmarshal(data, &read); err != nil {
				t.Fatal(err)
			}
			if again, err := read.apply(is); err != nil || fmt.Sprint(again) != fmt.Sprint(was) || again.sum() != back.Was || is.sum() != back.Is {
				t.Errorf("%s, %s: %v: put back is %q, was %q", name, what, err, again, was)
			}
			// A secret that was rotated since stays so.
			rotated := commandLine{replaceAll(is.command, canary, "rotated"), replaceAll(is.args, canary, "rotated")}
			if again, err := read.apply(rotated); err != nil || strings.Contains(fmt.Sprint(again), canary) || rotated.sum() != back.Is {
				t.Errorf("%s, %s: rotated, put back is %q (%v)", name, what, again, err)
			}
			// Who hosts the control plane has added a flag: the values of the edited ones come back all the same.
			other, err := is.edited([]v1.Edit{{Op: "setFlag", Name: "theirs", Value: "x"}})
			if err != nil {
				t.Fatal(err)
			}
			inverse, err := read.inverse(&v1.Plan{}, s, other)
			if err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
				continue
			}
			text := fmt.Sprint(inverse)
			if !strings.Contains(text, "--theirs") || !strings.Contains(text, canary) || strings.Contains(text, "external") || strings.Contains(text, "-route") {
				t.Errorf("%s, %s: turned back it is %s", name, what, text)
			}
		}
	}
}

func replaceAll(in []string, old, by string) []string {
	var out []string
	for _, s := range in {
		out = append(out, strings.ReplaceAll(s, old, by))
	}
	return out
}

func TestASecretThatAStepEditsIsNotKept(t *testing.T) {
	s := v1.Step{ID: "edit", Ref: "Deployment/kube-system/x", Component: "x", Edits: []v1.Edit{{Op: "unsetFlag", Name: "api-token"}}}
	was := commandLine{[]string{"x", "--api-token=" + canary}, nil}
	is, err := was.edited(s.Edits)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := takeBackOf(s, was, is); err == nil || strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), "move it into a Secret or a file") {
		t.Errorf("got %v", err)
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
			d.Spec.Template.Spec.Containers[0].Command, d.Spec.Template.Spec.Containers[0].Args = line.command, line.args
			w.api.Put(t, &d)
			p := w.given(v1.Step{ID: "external/" + kcm, Phase: "p", Kind: v1.StepEditWorkload, Ref: "Deployment/kube-system/" + kcm, Component: kcm, Leases: []string{"deployed"},
				Edits: []v1.Edit{{Op: "setFlag", Name: "cloud-provider", Value: "external"}, {Op: "unsetFlag", Name: "cloud-config"}}})
			w.afterEveryDeath(p)
			holds(t, w, "external")
			w.backAfterEveryDeath()
			holds(t, w, "aws")
			c := w.deployment().Spec.Template.Spec.Containers[0]
			if !slices.Equal(c.Command, line.command) || !slices.Equal(c.Args, line.args) {
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
	j, err := Open(t.Context(), w.kube)
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
	ref := "Deployment/kube-system/" + kcm
	p := w.given(v1.Step{ID: "external/" + kcm, Phase: "p", Kind: v1.StepEditWorkload, Ref: ref, Component: kcm, Leases: []string{"deployed"},
		Edits: []v1.Edit{{Op: "setFlag", Name: "cloud-provider", Value: "external"}, {Op: "unsetFlag", Name: "v"}}})
	w.afterEveryDeath(p)
	j, err := Open(t.Context(), w.kube)
	if err != nil {
		t.Fatal(err)
	}
	rec := j.Record("external/" + kcm)
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
	j, err := Create(t.Context(), w.kube, v1.Journal{Run: "r", Phase: v1.RunApplying}, &v1.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	rec := v1.StepRecord{ID: "a", Result: "failed", Error: "running kcm --token " + canary + ": exit status 1", Notes: []string{"https://u:" + canary + "@host"},
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
	ref := "Deployment/kube-system/" + kcm
	for name, s := range map[string]v1.Step{
		"a file":    {ID: "write", Phase: "p", Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/kubernetes/x.yaml", Content: "token: (masked)\n"},
		"an object": {ID: "create", Phase: "p", Kind: v1.StepEnsureObject, Ref: "ConfigMap/kube-system/x", Object: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"kube-system"},"data":{"a":"(masked)"}}`},
		"a patch":   {ID: "patch", Phase: "p", Kind: v1.StepPatchObject, Ref: ref, Patch: `{"metadata":{"annotations":{"a":"(masked)"}}}`},
		"a flag":    {ID: "edit", Phase: "p", Kind: v1.StepEditWorkload, Ref: ref, Component: kcm, Edits: []v1.Edit{{Op: "setFlag", Name: "oidc-client-secret", Value: "(masked)"}}},
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
	ref, id := "Deployment/kube-system/"+kcm, "external/"+kcm
	p := w.given(v1.Step{ID: id, Phase: "p", Kind: v1.StepEditWorkload, Ref: ref, Component: kcm, Leases: []string{"deployed"},
		Edits: []v1.Edit{{Op: "setFlag", Name: "cloud-provider", Value: "external"}}})
	w.afterEveryDeath(p)
	c := w.deployment().Spec.Template.Spec.Containers[0]
	live := commandLine{c.Command, c.Args}
	wanted := commandLine{live.command, []string{"--v=2", "--authorization-mode=AlwaysAllow"}}
	form := func(before workloadBefore) string {
		data, err := json.Marshal(before)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	j, err := Open(t.Context(), w.kube)
	if err != nil {
		t.Fatal(err)
	}
	honest := j.Record(id)
	for name, before := range map[string]string{
		"":         honest.Before,
		"a change": form(workloadBefore{Back: &commandBack{Was: wanted.sum(), Is: live.sum(), Changes: changesOf(live.pieces(), wanted.pieces())}}),
		"a volume": form(workloadBefore{Mounted: []string{"audit-policy"}, Back: &commandBack{Was: live.sum(), Is: live.sum()}}),
	} {
		rec := honest
		rec.Before = before
		if err := j.Save(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		e := w.engine(func(o *Options) { o.unjudged = false })
		e.plan = p
		x := workload{e}
		o, err := x.live(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		err = x.onlyEditable(v1.Step{ID: "undo/" + id, Kind: v1.StepEditWorkload, Ref: ref, Component: kcm, Restore: id}, o)
		if refused := isUntrusted(err); refused != (name != "") || !refused && err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestAChangeThatDoesNotFitIsNoCommandLine(t *testing.T) {
	t.Parallel()
	is := commandLine{[]string{kcm, "--v=2"}, nil}
	for name, c := range map[string]tokenChange{
		"before the line": {At: -1}, "behind it": {At: 100}, "fewer than none": {Drop: -1}, "more than there are": {Drop: 100},
		"a piece before the line": {Put: []putPiece{{From: -1}}}, "a piece behind it": {Put: []putPiece{{From: 100}}},
	} {
		b := commandBack{Changes: []tokenChange{c}}
		if back, err := b.apply(is); err == nil {
			t.Errorf("%s: %v", name, back)
		}
	}
}
