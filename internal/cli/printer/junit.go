package printer

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/findings"
)

// The elements of JUnit's XML that continuous integration servers read: https://github.com/testmoapp/junitxml
type (
	// JUnitSuites is the root of a JUnit document.
	JUnitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Suites   []JUnitSuite `xml:"testsuite"`
	}
	// JUnitSuite is a group of cases.
	JUnitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []JUnitCase `xml:"testcase"`
	}
	// JUnitCase is a check.
	JUnitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *JUnitMessage `xml:"failure,omitempty"`
		Error   *JUnitMessage `xml:"error,omitempty"`
		Skipped *JUnitMessage `xml:"skipped,omitempty"`
		Output  string        `xml:"system-out,omitempty"`
	}
	// JUnitMessage says why a case did not pass.
	JUnitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// PrintJUnit writes a report as JUnit's XML: a category is a suite, a check is a case. What failed is a failure, what
// is unknown an error, and what was accepted is skipped with its reason. A warning is a case that passed and says
// something.
func PrintJUnit(w io.Writer, r v1.CheckReport) error {
	out := JUnitSuites{Name: "transplant check " + r.Cluster.Name}
	for _, f := range r.Findings {
		if n := len(out.Suites); n == 0 || out.Suites[n-1].Name != f.Category {
			out.Suites = append(out.Suites, JUnitSuite{Name: f.Category})
		}
		out.Suites[len(out.Suites)-1].add(f, r.TakenAt)
	}
	for _, s := range out.Suites {
		out.Tests = out.Tests + s.Tests
		out.Failures = out.Failures + s.Failures
		out.Errors = out.Errors + s.Errors
		out.Skipped = out.Skipped + s.Skipped
	}
	data, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report as XML: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, data)
	return err
}

func (s *JUnitSuite) add(f v1.Finding, taken time.Time) {
	c := JUnitCase{Class: f.Category, Name: f.Code + " " + f.Reason}
	var lines []string
	for _, d := range details(f, taken, Layout{Wide: true}) {
		lines = append(lines, d.text)
	}
	text := strings.Join(append([]string{f.Summary}, lines...), "\n")
	s.Tests++
	switch {
	case f.Accepted != "":
		s.Skipped++
		c.Skipped, c.Output = &JUnitMessage{Message: "accepted: " + f.Accepted}, text
	case f.Outcome == v1.Fail:
		s.Failures++
		c.Failure = &JUnitMessage{Message: f.Summary, Type: f.Level, Text: text}
	case f.Outcome == v1.Unknown:
		s.Errors++
		c.Error = &JUnitMessage{Message: f.Summary, Type: "unknown", Text: text}
	case f.Outcome == v1.Skip:
		s.Skipped++
		c.Skipped = &JUnitMessage{Message: f.Summary}
	case f.Outcome == v1.Warn:
		c.Output = "warning: " + text
	}
	s.Cases = append(s.Cases, c)
}

// VerificationJUnit writes a verification as JUnit's XML, a case for each check.
func VerificationJUnit(w io.Writer, v v1.Verification) error {
	suite := JUnitSuite{Name: "verify"}
	for _, c := range v.Checks {
		one := JUnitCase{Class: "verify", Name: c.Name}
		text := strings.Join(append([]string{c.Summary}, c.Problems...), "\n")
		suite.Tests++
		switch c.Outcome {
		case v1.Fail:
			suite.Failures++
			one.Failure = &JUnitMessage{Message: c.Summary, Type: findings.LevelError, Text: text}
		case v1.Unknown:
			suite.Errors++
			one.Error = &JUnitMessage{Message: c.Summary, Type: "unknown", Text: text}
		case v1.Skip:
			suite.Skipped++
			one.Skipped = &JUnitMessage{Message: c.Summary}
		default:
			one.Output = c.Summary
		}
		suite.Cases = append(suite.Cases, one)
	}
	out := JUnitSuites{
		Name:     "transplant verify " + v.Cluster.Name,
		Tests:    suite.Tests,
		Failures: suite.Failures,
		Errors:   suite.Errors,
		Skipped:  suite.Skipped,
		Suites:   []JUnitSuite{suite},
	}
	data, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the verification as XML: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, data)
	return err
}
