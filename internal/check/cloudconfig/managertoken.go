package cloudconfig

import (
	"fmt"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/boundtoken"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/shell"
)

var tokenExpires = rule.Check{
	Code:      "CRED-005",
	Reason:    "TokenExpires",
	Category:  findings.CategoryCloud,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactNoLoops,
	DependsOn: rule.OnHosts,
	Judge:     judgeTokenExpiry,
}

// placedToken is a token of a manager, and where it is for a reader.
type placedToken struct {
	*v1.ManagerToken
	object, where string
}

func managerTokens(f facts.Facts) []placedToken {
	var out []placedToken
	for _, h := range f.Hosts {
		if t := h.ManagerToken; t != nil {
			out = append(out, placedToken{t, h.Name, t.Path + " on host " + h.Name})
		}
	}
	if t := f.SeedToken; t != nil {
		out = append(out, placedToken{t, t.Path, t.Path + " of the seed"})
	}
	return out
}

func judgeTokenExpiry(f facts.Facts) v1.Finding {
	const expected, source = "30 days or more", "the manager's token, whose signature is not verified"
	if finding, ok := f.Missing("hosts/*/manager-token", "manager-token"); ok {
		return findings.With(finding, expected, source, "")
	}
	var bad findings.Problems
	var first time.Time
	tokens := managerTokens(f)
	for _, t := range tokens {
		if first.IsZero() || t.Expires.Before(first) {
			first = t.Expires
		}
		if why := TokenProblem(t.ManagerToken, f.Now()); why != "" {
			bad.Add(t.object, "%s%s", t.where, why)
		}
	}
	switch {
	case len(tokens) == 0:
		return findings.Skip("no manager has a token in a file of a host or a Secret of a seed")
	case bad.Empty():
		return findings.Pass("%s, the first ends %s", findings.Plural(len(tokens), "token"), first.Format(time.RFC3339))
	}
	fix := "transplant renew --host-access=pod:node-role.kubernetes.io/control-plane"
	if f.Cluster.Seed != "" {
		fix = "transplant renew --seed-namespace " + shell.Quote(f.Cluster.Seed)
	}
	return findings.With(bad.Some(v1.Warn, "%s within 30 days or cannot be used: run transplant renew",
		findings.HowMany(len(bad), "1 manager's token ends", "managers' tokens end")),
		expected, source, fix)
}

// TokenProblem says, after where a manager's token is, why it cannot be used or not for long; empty when nothing is
// wrong with it.
func TokenProblem(t *v1.ManagerToken, now time.Time) string {
	left := t.Expires.Sub(now)
	switch {
	case t.Error != "":
		return ": " + t.Error
	case left <= 0:
		return " ended " + t.Expires.Format(time.RFC3339)
	case left < boundtoken.Notice:
		return fmt.Sprintf(" ends %s, in %s", t.Expires.Format(time.RFC3339), findings.Plural(int(left.Hours()/24), "day"))
	}
	return ""
}
