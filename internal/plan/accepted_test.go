package plan

import (
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/compare"
)

// TestDigestsHoldWhatIsAcceptedAndNoWordsOfIt: a check that is accepted no longer keeps a migration from its start.
func TestDigestsHoldWhatIsAcceptedAndNoWordsOfIt(t *testing.T) {
	gap := v1.Finding{Code: "GAP-001", Outcome: v1.Fail, Summary: "a gap", Accepted: "known"}
	owner := v1.Finding{Code: "LM-006", Outcome: v1.Unknown, Accepted: "asked by hand"}
	with := func(findings ...v1.Finding) *v1.Plan { return &v1.Plan{Findings: findings} }
	later := gap
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	later.Summary, later.Outcome, later.AcceptedBy, later.AcceptedAt = "another gap", v1.Pass, "ops", &at
	why := gap
	why.Accepted = "why not"
	for name, digest := range map[string]func(*v1.Plan) string{"Digest": compare.Digest, "Seal": compare.Seal} {
		base := digest(with(gap, owner))
		for what, p := range map[string]*v1.Plan{
			"in another order": with(owner, gap), "with other words": with(later, owner),
			"with a finding that is not accepted": with(gap, v1.Finding{Code: "X-1"}, owner),
		} {
			if digest(p) != base {
				t.Errorf("%s of the same acceptances %s is another one", name, what)
			}
		}
		for what, p := range map[string]*v1.Plan{"one less": with(gap), "none": with(), "another reason": with(why, owner)} {
			if digest(p) == base {
				t.Errorf("%s of a plan with %s is the same", name, what)
			}
		}
	}
}

func TestFindingsOfNowTakeThePlaceOfAFiles(t *testing.T) {
	p := &v1.Plan{Findings: []v1.Finding{
		{Code: "GAP-001", Outcome: v1.Fail, Summary: "of the file", Accepted: "known"}, {Code: "CP-001", Outcome: v1.Warn, Summary: "of the file"},
		{Code: "CP-002", Outcome: v1.Fail, Summary: "of the file", Accepted: "fixed soon"}, {Code: "XX-001", Outcome: v1.Fail, Accepted: "there is no such check"},
	}}
	sum := compare.Digest(&v1.Plan{Findings: p.Findings[:3]})
	compare.ReplaceFindings(p, []v1.Finding{
		{Code: "GAP-001", Outcome: v1.Fail, Summary: "of now", Accepted: "known", AcceptedBy: "ops"}, {Code: "CP-001", Outcome: v1.Pass},
		{Code: "CP-002", Outcome: v1.Pass, Summary: "of now"},
		{Code: "CP-003", Outcome: v1.Warn, Summary: "of now"}, {Code: "CP-004", Outcome: v1.Skip},
	})
	var have []string
	for _, f := range p.Findings {
		have = append(have, f.Code+" "+string(f.Outcome)+" "+f.Summary+" "+f.Accepted)
	}
	want := []string{"GAP-001 fail of now known", "CP-002 pass of now fixed soon", "CP-003 warn of now "}
	if len(have) != len(want) || have[0] != want[0] || have[1] != want[1] || have[2] != want[2] {
		t.Errorf("the findings are %q, want %q", have, want)
	}
	if compare.Digest(p) != sum {
		t.Error("the digest of the acceptances has changed")
	}
}
