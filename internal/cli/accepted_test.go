package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/plan/compare"
)

// twin gives both nodes the same providerID, which blocks: one of them would be deleted as soon as the other's instance goes.
func (c *live) twin() {
	c.t.Helper()
	kube, _ := c.api.Clients(c.t)
	list, err := kube.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, n := range list.Items {
		n.Spec.ProviderID = list.Items[0].Spec.ProviderID
		c.api.Put(c.t, &n)
	}
}

// TestAPlantedAcceptanceIsShownAndAnotherPlan: whoever may write where plans are kept could let a migration begin that the check
// blocks.
func TestAPlantedAcceptanceIsShownAndAnotherPlan(t *testing.T) {
	c := newLive(t)
	const planted = "NODE-006"
	path := c.edited(func(*v1.Plan) {})
	p, err := client.ReadPlan(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := compare.Digest(p)
	c.twin()
	fails(t, c.run("apply", path, "--dry-run"), exitcode.Blocked, "blocked by 1 finding", planted)
	p.Findings = append(p.Findings, v1.Finding{Code: planted, Outcome: v1.Warn, Summary: "nothing", Accepted: "it is\nfine"})
	if err := client.WritePlan(path, p); err != nil {
		t.Fatal(err)
	}
	fails(t, c.run("apply", path, "--yes", "--plan-sha256", sum), exitcode.Stale, "--plan-sha256 asks for "+sum)
	for _, args := range [][]string{{"apply", path}, {"apply", path, "--dry-run"}} {
		r := c.run(args...)
		for _, part := range []string{"accepted CLOUD-001 ", "· reason: no cloud in this test (", "accepted " + planted + " (fail): ", " · reason: it is fine (" + client.UserName() + ", "} {
			if !strings.Contains(r.text(nil), part) {
				t.Errorf("%v does not show %q:\n%s", args, part, r.text(nil))
			}
		}
		if strings.Contains(r.text(nil), "plan sha256: "+sum) || strings.Contains(r.text(nil), "nothing because") {
			t.Errorf("%v shows the plan's digest of before, or the file's words:\n%s", args, r.text(nil))
		}
	}
	c.unchanged()
}

// TestAnAcceptanceOfAPlanCountsForItsApply, and the journal keeps what the check found when it began: not what the file says.
func TestAnAcceptanceOfAPlanCountsForItsApply(t *testing.T) {
	c := newLive(t)
	path, p := c.rightsOnly(5)
	sum := compare.Digest(p)
	p.Findings[slices.IndexFunc(p.Findings, func(f v1.Finding) bool { return f.Code == "CLOUD-001" })].Summary = "words of the file"
	if err := client.WritePlan(path, p); err != nil {
		t.Fatal(err)
	}
	if r := c.run("apply", path, "--yes", "--plan-sha256", sum, "--until", p.Steps[2].ID); r.code != exitcode.OK {
		t.Fatal(r.text(nil))
	}
	kube, _ := c.api.Clients(t)
	j, err := journal.Open(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	doc := j.Doc()
	kept := compare.Accepted(&doc.Plan)
	if len(kept) != 1 || kept[0].Code != "CLOUD-001" || kept[0].Accepted != "no cloud in this test" || strings.Contains(kept[0].Summary, "of the file") {
		t.Errorf("the journal keeps %+v", kept)
	}
	if have := compare.Digest(&doc.Plan); have != sum {
		t.Errorf("the journal's plan has SHA-256 %s, the file's %s", have, sum)
	}
	if r := c.run("apply", path, "--yes", "--plan-sha256", sum); r.code != exitcode.OK {
		t.Errorf("the same file does not go on with it: %s", r.text(nil))
	}
}

// TestAnAcceptanceThatIsNotNeededStaysInTheDigest: what blocked when the plan was approved may be repaired before it is executed.
func TestAnAcceptanceThatIsNotNeededStaysInTheDigest(t *testing.T) {
	c := newLive(t)
	path := c.edited(func(p *v1.Plan) {
		p.Findings = append(p.Findings, v1.Finding{Code: "NODE-006", Outcome: v1.Fail, Summary: "2 nodes have it", Accepted: "one goes today"})
	})
	p, err := client.ReadPlan(path)
	if err != nil {
		t.Fatal(err)
	}
	r := c.run("apply", path, "--dry-run", "--plan-sha256", compare.Digest(p))
	if r.code != exitcode.OK || !strings.Contains(r.out, "accepted NODE-006 (pass): ") {
		t.Errorf("the plan cannot be executed, or hides what it accepts:\n%s", r.text(nil))
	}
}

// TestAcceptancesAreInTheReviewOfARefreshedPlan: plan --refresh takes them over from the file.
func TestAcceptancesAreInTheReviewOfARefreshedPlan(t *testing.T) {
	c := newLive(t)
	path := c.edited(func(p *v1.Plan) {
		p.Findings = append(p.Findings, v1.Finding{Code: "NODE-006", Outcome: v1.Fail, Accepted: "it is fine"})
	})
	c.twin()
	if r := c.run("plan", "--refresh", path); r.code != exitcode.OK || !strings.Contains(r.out, "accepted NODE-006 (fail): ") {
		t.Errorf("what the file accepts is not shown:\n%s", r.text(nil))
	}
}

func TestAPlansWordsOfAnAcceptanceAreWhole(t *testing.T) {
	var out bytes.Buffer
	reason := strings.Repeat("long ", 60) + "end"
	p := &v1.Plan{Findings: []v1.Finding{{Code: "X-1", Outcome: v1.Fail, Summary: "two\nlines", Accepted: reason}}}
	if err := printer.PrintPlan(&out, p, printer.Layout{}); err != nil {
		t.Fatal(err)
	}
	if want := "accepted X-1 (fail): two lines · reason: " + reason + "\n"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in:\n%s", want, out.String())
	}
}
