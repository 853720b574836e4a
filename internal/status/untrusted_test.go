package status

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
)

// labJournal is a journal with the plan of the lab, of which nothing is done.
func labJournal(t testing.TB) v1.Journal {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "plan", "testdata", "lab.plan.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	doc := v1.Journal{Run: "run-1", Started: noon.Add(-time.Minute), Phase: v1.RunApplying}
	if err := yaml.UnmarshalStrict(data, &doc.Plan); err != nil {
		t.Fatal(err)
	}
	return doc
}

// plantedStep is what somebody who may write the journal adds to its plan.
func plantedStep() v1.Step {
	return v1.Step{
		ID: "write//etc/cron.d/x@cp-1", Phase: "prepare", Title: "write the cloud configuration", Kind: v1.StepWriteFile,
		Host: "cp-1", Path: "/etc/cron.d/x", Content: "* * * * * root id",
	}
}

func TestAJournalThatBreaksTheRulesIsNamedFirst(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1.Journal)
		says   string // empty where the journal is a migration's
	}{
		{"a plan as it was made", func(*v1.Journal) {}, ""},
		{"a step that no migration has", func(doc *v1.Journal) { doc.Plan.Steps = append(doc.Plan.Steps, plantedStep()) }, "/etc/cron.d/x"},
		{"a backup outside of its directory", func(doc *v1.Journal) {
			doc.Records = []v1.StepRecord{{ID: doc.Plan.Steps[0].ID, Result: v1.StepResultDone, Backup: "/var/x"}}
		}, "/var/x"},
		{"applied, and never judged", func(doc *v1.Journal) {
			doc.Phase, doc.Plan.Steps = v1.RunApplied, append(doc.Plan.Steps, plantedStep())
		}, "/etc/cron.d/x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := apitest.New(t)
			kube, _ := server.Clients(t)
			doc := labJournal(t)
			c.change(&doc)
			if _, err := journal.Create(t.Context(), kube, doc, &v1.Snapshot{}); err != nil {
				t.Fatal(err)
			}
			server.Put(t, node("worker-1", "False", noon.Add(-time.Hour))) // an older problem, which the rules come before
			b := boardOf(t, server)
			b.Look(t.Context())
			f := b.Facts()
			s := Judge(f)
			const who = "find out who wrote the journal: kubectl -n kube-system get configmap transplant-journal --show-managed-fields -o yaml"
			if c.says == "" {
				if f.Untrusted != nil || s.Untrusted != "" || strings.Contains(s.Next, who) {
					t.Errorf("%v\n%+v", f.Untrusted, s)
				}
				return
			}
			if f.Untrusted == nil || !strings.Contains(s.Untrusted, c.says) || s.Next != who {
				t.Errorf("%v\nuntrusted %q, next %q", f.Untrusted, s.Untrusted, s.Next)
			}
			if len(s.Health) < 2 || s.Health[0].Level != levelError || s.Health[0].Message != s.Untrusted {
				t.Errorf("it is not what stands in the way first: %+v", s.Health)
			}
		})
	}
}

func TestAJournalThatIsMendedIsTrustedAgain(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	doc := labJournal(t)
	doc.Plan.Steps = append(doc.Plan.Steps, plantedStep())
	if _, err := journal.Create(t.Context(), kube, doc, &v1.Snapshot{}); err != nil {
		t.Fatal(err)
	}
	b := boardOf(t, server)
	b.Look(t.Context())
	if b.Facts().Untrusted == nil {
		t.Fatal("a planted step is trusted")
	}
	server.Delete("/api/v1/namespaces/kube-system/configmaps/" + journal.Name)
	b.Look(t.Context())
	if f := b.Facts(); f.Untrusted != nil || f.Journal != nil {
		t.Errorf("there is no journal, and this is said of it: %v", f.Untrusted)
	}
}

func TestManyBrokenRulesAreCounted(t *testing.T) {
	doc := labJournal(t)
	for i := range doc.Plan.Steps {
		doc.Plan.Steps[i].Host = "../" + doc.Plan.Steps[i].Host
	}
	err := trust.CheckJournal(doc, nil)
	if err == nil {
		t.Fatal("hosts that are paths are allowed")
	}
	s := Judge(Facts{Journal: &doc, Untrusted: err, Now: noon})
	if lines := strings.Count(err.Error(), "\n"); lines <= brokenRulesNamed || len(s.Untrusted) > 1500 || !strings.Contains(s.Untrusted, " more") {
		t.Errorf("%d lines become %d letters: %s", lines, len(s.Untrusted), s.Untrusted)
	}
	if slices.ContainsFunc(strings.Split(s.Untrusted, ""), func(c string) bool { return c == "\n" }) {
		t.Errorf("it is no single line: %q", s.Untrusted)
	}
}
