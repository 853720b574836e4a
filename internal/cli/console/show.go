package console

import (
	"errors"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/managertoken"
	"github.com/transplant-dev/transplant/internal/visible"
)

// ShowReport implements ui.
func (c *Console) ShowReport(report v1.CheckReport) error {
	return printer.PrintCheck(c.Err, report, c.LayoutFor(c.Err, false))
}

// ShowUnseen implements ui.
func (c *Console) ShowUnseen(p *v1.Plan, results map[string]string) error {
	return printer.PrintUnseen(c.Err, p, results, c.LayoutFor(c.Err, false))
}

// ShowPlan implements ui: a plan before it is carried out is part of the conversation; with --dry-run it is the answer.
func (c *Console) ShowPlan(p *v1.Plan, how client.PlanView) error {
	w := c.Err
	if how.Answer {
		w = c.Out
	}
	l := c.LayoutFor(w, false)
	l.Folded = how.Made
	return printer.PrintPlan(w, p, l)
}

// ReportFilter is what check prints of a report: problems alone, and warnings as what blocks.
type ReportFilter struct{ Problems, Strict bool }

// PrintReport prints a report in one of the formats of check.
func (c *Console) PrintReport(output *printer.Format, report v1.CheckReport, shown ReportFilter) error {
	text := func(wide bool) func() error {
		return func() error {
			l := c.LayoutFor(c.Out, wide)
			l.Problems, l.Strict = shown.Problems, shown.Strict
			return printer.PrintCheck(c.Out, report, l)
		}
	}
	return output.Print(c.Out, report, map[string]func() error{
		"table": text(false), "wide": text(true), "junit": func() error { return printer.PrintJUnit(c.Out, report) },
	})
}

// PrintToken prints what became of a token.
func (c *Console) PrintToken(where string, token managertoken.Token) error {
	days := int(token.Expires.Sub(c.ServerTime()).Hours() / 24)
	switch token.State {
	case managertoken.Endless:
		visible.Fprintf(c.Out, "%s: the token never expires\n", where)
		return ErrEndlessToken
	case managertoken.Renewed:
		visible.Fprintf(
			c.Out,
			"%s: renewed, expires %s, in %s\n",
			where,
			token.Expires.Format(time.RFC3339),
			english.Count(days, "day"),
		)
	default:
		visible.Fprintf(c.Out, "%s: expires %s, in %s\n", where, token.Expires.Format(time.RFC3339), english.Count(days, "day"))
	}
	return nil
}

// ErrEndlessToken says that managers have tokens which never expire.
var ErrEndlessToken = errors.New(
	"managers that an earlier version of transplant installed have a token that never expires: see \"Tokens that never expire\" in docs/explanation/manager-token.md",
)
