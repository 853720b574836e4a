package cli

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// plant writes a journal of a migration that nobody began, as somebody would who may write ConfigMaps in kube-system.
func (c *live) plant(change func(p *v1.Plan, doc *v1.Journal)) {
	c.t.Helper()
	kube, _ := c.api.Clients(c.t)
	p, err := client.ReadPlan(c.plan())
	if err != nil {
		c.t.Fatal(err)
	}
	doc := v1.Journal{Run: "20261121-120000", Started: client.Now(), Phase: v1.RunApplying, User: "ops"}
	change(p, &doc)
	doc.Plan = *p
	if _, err := journal.Create(c.t.Context(), kube, doc, c.snapshot()); err != nil {
		c.t.Fatal(err)
	}
}

// cron is a step that keeps every rule of order, and that no migration has.
func cron(p *v1.Plan) v1.Step {
	id := planstep.FileFact("cp-1", "/etc/cron.d/x")
	p.Facts = append(p.Facts, v1.Fact{ID: id, Value: "absent"})
	return v1.Step{
		ID:       "write/leader-migration",
		Phase:    p.Steps[0].Phase,
		Kind:     v1.StepWriteFile,
		Title:    "write " + planlayout.KCMMigration + " on cp-1",
		Host:     "cp-1",
		Path:     "/etc/cron.d/x",
		Content:  "* * * * * root id\n",
		Mode:     "0644",
		Requires: []string{"cluster:uid", id},
		Undo:     "remove it",
	}
}

// TestAPlantedJournalIsNotGoneOnWithNorBack, though whoever runs the command says yes to everything.
func TestAPlantedJournalIsNotGoneOnWithNorBack(t *testing.T) {
	c := newLive(t)
	c.plant(func(p *v1.Plan, _ *v1.Journal) { p.Steps = append([]v1.Step{cron(p)}, p.Steps...) })
	for _, args := range [][]string{{"apply", "--yes"}, {"rollback", "--yes"}} {
		r := c.run(args...)
		if r.code == exitcode.OK || !strings.Contains(r.text(nil), "rule P-42") || !strings.Contains(r.text(nil), "/etc/cron.d/x") {
			t.Errorf("%v is not refused with the file that it would write (code %d):\n%s", args, r.code, r.text(nil))
		}
	}
	if _, err := os.Stat(filepath.Join(c.dir, "cp-1", "etc", "cron.d")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written for cron: %v", err)
	}
}

// edited writes a plan of the cluster into a file, changed as somebody would who may write where plans are kept.
func (c *live) edited(change func(p *v1.Plan)) string {
	c.t.Helper()
	path := c.plan()
	p, err := client.ReadPlan(path)
	if err != nil {
		c.t.Fatal(err)
	}
	change(p)
	if err := client.WritePlan(path, p); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// TestAPlanThatWasEditedIsNotCarriedOut, and the refusal says in which step and field it is another one than the cluster's.
func TestAPlanThatWasEditedIsNotCarriedOut(t *testing.T) {
	c := newLive(t)
	for _, e := range []struct {
		name, says string
		change     func(p *v1.Plan)
	}{
		{"a file for cron", "rule P-42", func(p *v1.Plan) { p.Steps = append([]v1.Step{cron(p)}, p.Steps...) }},
		{"a title", "title: ", func(p *v1.Plan) { p.Steps[0].Title = "look" }},
		{"a step less", "is missing", func(p *v1.Plan) { p.Steps = p.Steps[1:] }},
		{"a reason", "why: ", func(p *v1.Plan) { p.Steps[len(p.Steps)-1].Why = "because" }},
	} {
		r := c.run("apply", c.edited(e.change), "--yes")
		if r.code == exitcode.OK || !strings.Contains(r.text(nil), e.says) {
			t.Errorf("%s is not refused with %q (code %d):\n%s", e.name, e.says, r.code, r.text(nil))
		}
	}
	c.unchanged()
}

// TestAPlanThatWasEditedIsNotCompared: its steps name files that are read as root, and shown.
func TestAPlanThatWasEditedIsNotCompared(t *testing.T) {
	c := newLive(t)
	c.write("cp-1", "/etc/shadow", "root:hush\n")
	path := c.edited(func(p *v1.Plan) {
		id := planstep.FileFact("cp-1", "/etc/shadow")
		p.Facts = append(p.Facts, v1.Fact{ID: id, Value: "x"})
		i := slices.IndexFunc(p.Steps, func(s v1.Step) bool {
			return s.Component == component.KCM && s.Kind == v1.StepEditManifest && s.Host == "cp-1"
		})
		stop := p.Steps[i]
		stop.ID, stop.Kind, stop.Component, stop.Path, stop.Edits = "stop/x@cp-1", v1.StepRemoveManifest, component.CCM, "/etc/shadow", nil
		stop.Requires = []string{"cluster:uid", id}
		p.Steps = slices.Insert(p.Steps, i, stop)
	})
	for _, o := range [][]string{nil, {"-o", "json"}} {
		r := c.run(append([]string{"diff", path}, o...)...)
		if r.code != exitcode.Stale || !strings.Contains(r.text(nil), "rule P-") || strings.Contains(r.text(nil), "hush") {
			t.Errorf("diff %v is not refused (code %d):\n%s", o, r.code, r.text(nil))
		}
	}
}

// TestAPlanIsPinnedByItsSHA256: what plan prints is what apply asks for, of a file, of a cluster and of a journal alike.
func TestAPlanIsPinnedByItsSHA256(t *testing.T) {
	c := newLive(t)
	path := c.plan()
	p, err := client.ReadPlan(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := compare.Digest(p)
	accept := []string{"--accept", "CLOUD-001=no cloud in this test"}
	if r := c.run(append([]string{"plan"}, accept...)...); !strings.Contains(r.out, "plan sha256: "+sum+"\n") {
		t.Errorf("plan does not print %s:\n%s", sum, r.out)
	}
	other := strings.Repeat("ab", 32)
	for _, args := range [][]string{{"apply", path}, append([]string{"apply"}, accept...)} {
		if r := c.run(append(args, "--dry-run", "--plan-sha256", sum)...); r.code != exitcode.OK {
			t.Errorf("%v with its own SHA-256: %s", args, r.text(nil))
		}
		fails(t, c.run(append(args, "--yes", "--plan-sha256", other)...), exitcode.Stale, "has SHA-256 "+sum+", and --plan-sha256 asks for "+other)
	}
	c.unchanged()
	c.journal(v1.RunApplying, 2, 0)
	fails(t, c.run("apply", "--yes", "--plan-sha256", other), exitcode.Stale, "the plan in the journal of migration 20261121-120000 has SHA-256")
	fails(t, c.run("rollback", "--yes", "--plan-sha256", other), exitcode.Stale, "the rollback has SHA-256")
	if r := c.run("status"); !strings.Contains(r.out, "plan       sha256 ") {
		t.Errorf("status does not print the SHA-256:\n%s", r.out)
	}
}

// unwrapped is a text without the breaks of lines that are too long.
func unwrapped(text string) string { return wrap.ReplaceAllString(text, " ") }

var wrap = regexp.MustCompile(`\n +\| `)

// TestAJournalThatWasNotApprovedHereIsShownByItsFields: whoever goes on with it sees the files and objects, and not only what the plan calls its steps.
func TestAJournalThatWasNotApprovedHereIsShownByItsFields(t *testing.T) {
	c := newLive(t)
	c.plant(func(p *v1.Plan, _ *v1.Journal) {
		for i := range p.Steps {
			p.Steps[i].Title, p.Steps[i].Changes = "look at the cluster", nil
		}
	})
	r := c.run("apply") // nobody to ask
	for _, part := range []string{
		"was not approved on this machine (sha256 ", "ClusterRole/transplant-observer", "  host cp-1\n", "at: /etc/kubernetes/manifests/kube-apiserver.yaml", "setFlag cloud-provider external",
		"image ghcr.io/transplant-dev/aws-cloud-controller-manager:", "from /etc/kubernetes/cloud.conf",
	} {
		if !strings.Contains(unwrapped(r.errOut), part) {
			t.Errorf("%q is not shown:\n%s", part, r.errOut)
		}
	}
	if strings.Contains(r.errOut, "look at the cluster") {
		t.Errorf("the words of the journal are shown:\n%s", r.errOut)
	}
	if r.code != exitcode.NotApproved {
		t.Errorf("exit code %d", r.code)
	}
}

// TestAPlantedRecordHidesNoStepOfTheReview: the engine asks the cluster and not the record, and executes a step that the record calls done.
func TestAPlantedRecordHidesNoStepOfTheReview(t *testing.T) {
	c := newLive(t)
	steps, image := 0, ""
	c.plant(func(p *v1.Plan, doc *v1.Journal) {
		fromElsewhere(p)
		steps, image = len(p.Steps), p.Options.Image
		for i, s := range p.Steps {
			p.Steps[i].Title, p.Steps[i].Changes = "look at the cluster", nil
			doc.Records = append(doc.Records, v1.StepRecord{ID: s.ID, Result: []v1.StepResult{v1.StepResultDone, v1.StepResultAlreadyDone, v1.StepResultSkipped}[i%3]})
		}
	})
	r := c.run("apply") // nobody to ask
	for _, part := range []string{
		"ClusterRole/transplant-observer", "  host cp-1\n", "at: /etc/kubernetes/manifests/kube-apiserver.yaml", "setFlag cloud-provider external", "from /etc/kubernetes/cloud.conf",
		"· image " + image, "done, as the journal says; executed again where the cluster does not show it", "skipped, as the journal says",
		"\nimage of the cloud-controller-manager: " + image + " (from another registry than this project's",
		"the manager: from another registry than this project's, with a path like ours (" + image + ")",
	} {
		if !strings.Contains(unwrapped(r.errOut), part) {
			t.Errorf("%q is not shown:\n%s", part, r.errOut)
		}
	}
	if shown := strings.Count(r.errOut, ", as the journal says; executed "); shown != steps {
		t.Errorf("%d of %d steps are shown as what the journal says of them:\n%s", shown, steps, r.errOut)
	}
	if strings.Contains(r.errOut, "the manager: ours") || strings.Contains(r.errOut, image+" (ours)") {
		t.Errorf("an image of another registry is called ours:\n%s", r.errOut)
	}
	if r.code != exitcode.NotApproved {
		t.Errorf("exit code %d", r.code)
	}
}

// fromElsewhere takes the image of the manager from another registry, which breaks no rule.
func fromElsewhere(p *v1.Plan) {
	_, rest, _ := strings.Cut(p.Options.Image, "/")
	image := "registry.example.com/" + rest
	for i := range p.Steps {
		p.Steps[i].Content = strings.ReplaceAll(p.Steps[i].Content, p.Options.Image, image)
		p.Steps[i].Object = strings.ReplaceAll(p.Steps[i].Object, p.Options.Image, image)
	}
	p.Options.Image = image
}

// TestAPlantedPlanIsNotGoneOnWithUnseen: it keeps every rule, and names its own image. With --yes nobody looks at it.
func TestAPlantedPlanIsNotGoneOnWithUnseen(t *testing.T) {
	c := newLive(t)
	var sum string
	c.plant(func(p *v1.Plan, doc *v1.Journal) {
		fromElsewhere(p)
		doc.Records = []v1.StepRecord{{ID: p.Steps[0].ID, Result: v1.StepResultDone, Created: true}}
		sum = compare.Digest(p)
	})
	writes := len(c.api.Writes())
	for _, words := range [][]string{{"apply"}, {"rollback"}, {"rollback", "--without-host=cp-2"}} {
		command, hosts := words[0], words[1:]
		r := c.run(append(words, "--yes")...)
		fails(t, r, exitcode.NotApproved, "was not approved on this machine")
		fails(t, r, exitcode.NotApproved, strings.Join(append([]string{"transplant", command, "--dry-run"}, hosts...), " ")+", and run")
		look := c.run(append(words, "--dry-run")...)
		_, shown, ok := strings.Cut(look.out, "plan sha256: ")
		if shown, _, _ = strings.Cut(shown, "\n"); !ok || !strings.Contains(r.errOut, "--plan-sha256 "+shown) || command == "apply" && shown != sum {
			t.Errorf("%s: what is to be pinned, %q, is not what is shown:\n%s\n%s", command, shown, look.out, r.errOut)
		}
	}
	if after := c.api.Writes(); len(after) != writes {
		t.Errorf("something was written: %v", after[writes:])
	}
	if r := c.run("apply", "--yes", "--plan-sha256", sum); r.code == exitcode.NotApproved {
		t.Errorf("who looked at it and pins it cannot go on:\n%s", r.text(nil))
	}
}

// TestAJournalThatChangesBehindTheQuestionIsNotGoneOnWith: what was approved is what is executed.
func TestAJournalThatChangesBehindTheQuestionIsNotGoneOnWith(t *testing.T) {
	const journalPath = "/api/v1/namespaces/" + component.Namespace + "/configmaps/" + journal.Name
	for _, command := range [][]string{{"apply"}, {"rollback"}, {"rollback", "--without-host", "cp-2"}} {
		c := newLive(t)
		journal := func(change func(*v1.Plan)) (*v1.Plan, *corev1.ConfigMap) {
			var made *v1.Plan
			c.api.Delete(journalPath)
			c.plant(func(p *v1.Plan, doc *v1.Journal) {
				made = p
				doc.Records = []v1.StepRecord{{ID: p.Steps[0].ID, Result: v1.StepResultDone, Created: true}}
				change(p)
			})
			var cm corev1.ConfigMap
			if !c.api.Get(t, journalPath, &cm) {
				t.Fatal("there is no journal")
			}
			return made, &cm
		}
		_, planted := journal(fromElsewhere)
		approved, own := journal(func(*v1.Plan) {})
		c.api.Put(t, own)
		state := t.TempDir()
		if err := (&client.Client{StateDir: state}).NoteApproval(approved, "20261121-120000"); err != nil {
			t.Fatal(err)
		}
		before, swapped := len(c.api.Writes()), false
		c.api.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/leases") && !swapped { // the lock is being taken
				swapped = true
				c.api.Put(t, planted)
			}
			return false
		}
		fails(t, c.run(append(slices.Clone(command), "--yes", "--state-dir", state)...), exitcode.Stale, "another one than the one that was approved just now")
		if !swapped {
			t.Errorf("%v: the lock was not taken", command)
		}
		for _, w := range c.api.Writes()[before:] {
			if !strings.Contains(w, "leases") {
				t.Errorf("%v: something was written: %s", command, w)
			}
		}
	}
}

// TestAPlantedUIDNamesNoFileOfThisMachine: logs and approvals are kept in a directory that is called by it.
func TestAPlantedUIDNamesNoFileOfThisMachine(t *testing.T) {
	c := newLive(t)
	c.plant(func(p *v1.Plan, _ *v1.Journal) { p.Cluster.UID = "../../../../escaped" })
	for _, args := range [][]string{{"apply", "--yes"}, {"rollback", "--yes"}, {"apply", "--yes", "--plan-sha256", strings.Repeat("ab", 32)}, {"timeline"}, {"report"}} {
		r := c.run(args...)
		if r.code == exitcode.OK || !strings.Contains(r.text(nil), "escaped") {
			t.Errorf("%v is not refused for the uid (code %d):\n%s", args, r.code, r.text(nil))
		}
	}
}

// TestAPlantedRollbackIsNotGoneOnWithUnseen: the plan was approved on this machine, and the journal's rollback is another's.
func TestAPlantedRollbackIsNotGoneOnWithUnseen(t *testing.T) {
	for name, change := range map[string]func(back *v1.Plan){
		"a step less":   func(back *v1.Plan) { back.Steps = back.Steps[:len(back.Steps)-1] },
		"its own image": func(back *v1.Plan) { back.Options.Image = "registry.example.com/evil:v1" },
	} {
		t.Run(name, func(t *testing.T) {
			c := newLive(t)
			j := c.journal(v1.RunApplying, 2, 1)
			here := c.approvedHere(j)
			doc, snap := j.Doc(), c.snapshot()
			back, err := rollback.Make(&doc, snap, client.Now())
			if err != nil {
				t.Fatal(err)
			}
			change(back)
			if err := j.SetPhase(t.Context(), v1.RunRollingBack, back, nil); err != nil {
				t.Fatal(err)
			}
			writes := len(c.api.Writes())
			r := c.run("rollback", "--yes", here)
			if says := map[string]string{"a step less": "was not approved on this machine", "its own image": "its options are not those of the plan: image"}[name]; r.code == exitcode.OK ||
				!strings.Contains(r.text(nil), says) {
				t.Errorf("it is not refused with %q (code %d):\n%s", says, r.code, r.text(nil))
			}
			if after := c.api.Writes(); len(after) != writes {
				t.Errorf("something was written: %v", after[writes:])
			}
		})
	}
}

// TestOnlyItsOwnApprovalCountsForAStoredRollback, in the cluster and in a seed.
func TestOnlyItsOwnApprovalCountsForAStoredRollback(t *testing.T) {
	for _, seed := range []string{"", "cluster-x"} {
		of := v1.Cluster{UID: "u", Seed: seed}
		doc := v1.Journal{Run: "run", Phase: v1.RunApplying, Plan: v1.Plan{Cluster: of, Direction: planstep.Forward}}
		back := &v1.Plan{Cluster: of, Direction: planstep.Rollback}
		c := &client.Client{StateDir: t.TempDir()}
		if c.IsBackApproved(&doc, back, "run") {
			t.Error("nothing was approved")
		}
		if err := c.NoteApproval(&doc.Plan, "run"); err != nil {
			t.Fatal(err)
		}
		if !c.IsBackApproved(&doc, back, "run") {
			t.Error("a rollback that is made of an approved plan is not approved")
		}
		doc.Phase, doc.Rollback = v1.RunRollingBack, back
		if c.IsBackApproved(&doc, back, "run") {
			t.Error("the approval of the plan counts for the rollback that somebody has written next to it")
		}
		if err := c.NoteApproval(back, client.RollbackRun("run")); err != nil {
			t.Fatal(err)
		}
		if !c.IsBackApproved(&doc, back, "run") {
			t.Error("a rollback that was approved here is not gone on with")
		}
	}
}

// TestARollbackIsRefusedWhileAManagerRunsThatNoRecordNames: its record was cut out of the journal, and the rollback would not stop it.
func TestARollbackIsRefusedWhileAManagerRunsThatNoRecordNames(t *testing.T) {
	c := newLive(t)
	j := c.journal(v1.RunApplying, 2, 0)
	if r := c.run("rollback", "--dry-run"); r.code != exitcode.OK {
		t.Fatalf("without such a manager (code %d):\n%s", r.code, r.text(nil))
	}
	at := filepath.Join(c.dir, "cp-1", filepath.FromSlash(planlayout.CCMManifest))
	if err := os.WriteFile(at, []byte("apiVersion: v1\nkind: Pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"rollback", "--dry-run"}, {"rollback", "--yes", c.approvedHere(j)}} {
		r := c.run(args...)
		if r.code == exitcode.OK || !strings.Contains(r.text(nil), planlayout.CCMManifest+" on host cp-1 is live") {
			t.Errorf("%v is not refused with the manager (code %d):\n%s", args, r.code, r.text(nil))
		}
	}
	kube, _ := c.api.Clients(t)
	after, err := journal.Open(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	if doc := after.Doc(); doc.Phase != v1.RunApplying || doc.Rollback != nil {
		t.Errorf("a rollback was begun: phase %s", doc.Phase)
	}
}
