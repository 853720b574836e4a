package console

import (
	"errors"
	"slices"
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
	client.NameDocs(report.Findings)
	c.events.findings(report)
	return printer.PrintCheck(c.Err, report, c.LayoutFor(c.Err, false))
}

// ShowUnseen implements ui.
func (c *Console) ShowUnseen(p *v1.Plan, results map[string]v1.StepResult) error {
	c.events.plan(p, nil)
	l := c.LayoutFor(c.Err, false)
	l.Results = results
	return printer.PrintUnseen(c.Err, p, l)
}

// ShowPlan implements ui: a plan before it is executed is part of the conversation; with --dry-run it is the answer.
func (c *Console) ShowPlan(p *v1.Plan, how client.PlanView) error {
	c.events.plan(p, how.DryRuns)
	w := c.Err
	if how.Answer && c.events != nil {
		return nil
	}
	if how.Answer {
		w = c.Out
	}
	l := c.LayoutFor(w, false)
	l.Folded = how.Made
	l.Results, l.DryRuns = how.Results, how.DryRuns
	return printer.PrintPlan(w, p, l)
}

// ReportFilter is what check prints of a report.
type ReportFilter struct {
	// Problems are printed alone; Strict counts warnings among what blocks.
	Problems, Strict bool
	// Next is the command that comes where nothing blocks; empty for none.
	Next string
}

// PrintReport prints a report in one of the formats of check.
func (c *Console) PrintReport(output *printer.Format, report v1.CheckReport, shown ReportFilter) error {
	client.NameDocs(report.Findings)
	text := func(wide bool) func() error {
		return func() error {
			l := c.LayoutFor(c.Out, wide)
			l.Problems, l.Strict, l.Next = shown.Problems, shown.Strict, shown.Next
			return printer.PrintCheck(c.Out, report, l)
		}
	}
	return output.Print(c.Out, report, map[string]func() error{
		"table": text(false), "wide": text(true), "junit": func() error { return printer.PrintJUnit(c.Out, report) },
	})
}

// PrintResult prints what a command changed, in a format for programs. In text it was told already.
func (c *Console) PrintResult(output *printer.Format, r v1.ChangeResult) error {
	r.TypeMeta = v1.Type(v1.KindChangeResult)
	return output.Print(c.Out, r, map[string]func() error{"text": func() error { return nil }})
}

// Tokens are what became of the tokens of managers.
type Tokens []v1.TokenStatus

// Add notes what became of a token. Where says whose it is.
func (t *Tokens) Add(where v1.TokenStatus, token managertoken.Token) {
	where.State = map[managertoken.State]string{
		managertoken.Renewed: v1.TokenRenewed,
		managertoken.Valid:   v1.TokenValid,
		managertoken.Endless: v1.TokenEndless,
	}[token.State]
	if token.State != managertoken.Endless {
		where.Expires = token.Expires.UTC()
	}
	*t = append(*t, where)
}

// PrintTokens prints what became of tokens, and fails where one never expires. None says that there are none.
func (c *Console) PrintTokens(output *printer.Format, tokens Tokens, none string) error {
	doc := v1.TokenList{TypeMeta: v1.Type(v1.KindTokenList), Tokens: tokens}
	if doc.Tokens == nil {
		doc.Tokens = []v1.TokenStatus{}
	}
	if err := output.Print(c.Out, doc, map[string]func() error{"text": func() error {
		if len(tokens) == 0 {
			visible.Fprintf(c.Out, "%s\n", none)
		}
		for _, token := range tokens {
			c.printToken(token)
		}
		return nil
	}}); err != nil {
		return err
	}
	if slices.ContainsFunc(tokens, func(t v1.TokenStatus) bool { return t.State == v1.TokenEndless }) {
		return ErrEndlessToken
	}
	return nil
}

func (c *Console) printToken(token v1.TokenStatus) {
	where := "host " + token.Host
	if token.Namespace != "" {
		where = "namespace " + token.Namespace
	}
	renewed := ""
	if token.State == v1.TokenRenewed {
		renewed = "renewed, "
	}
	if token.State == v1.TokenEndless {
		visible.Fprintf(c.Out, "%s: the token never expires\n", where)
		return
	}
	days := int(token.Expires.Sub(c.ServerTime()).Hours() / 24)
	visible.Fprintf(
		c.Out,
		"%s: %sexpires %s, in %s\n",
		where,
		renewed,
		token.Expires.Format(time.RFC3339),
		english.Count(days, "day"),
	)
}

// ErrEndlessToken says that managers have tokens which never expire.
var ErrEndlessToken = errors.New(
	"managers that an earlier version of transplant installed have a token that never expires: see \"Tokens that never expire\" in docs/explanation/manager-token.md",
)
