package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// The elements of JUnit's XML that continuous integration servers read: https://github.com/testmoapp/junitxml
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitMessage `xml:"failure,omitempty"`
		Error   *junitMessage `xml:"error,omitempty"`
		Skipped *junitMessage `xml:"skipped,omitempty"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// printJUnit writes a report as JUnit's XML: a category is a suite, a check is a case; what failed is a failure, what is unknown an error, and
// what was accepted is skipped with its reason. A warning is a case that passed and says something.
func printJUnit(w io.Writer, r v1.CheckReport) error {
	out := junitSuites{Name: "transplant check " + r.Cluster.Name}
	for _, f := range r.Findings {
		if n := len(out.Suites); n == 0 || out.Suites[n-1].Name != f.Category {
			out.Suites = append(out.Suites, junitSuite{Name: f.Category})
		}
		out.Suites[len(out.Suites)-1].add(f)
	}
	for _, s := range out.Suites {
		out.Tests, out.Failures, out.Errors, out.Skipped = out.Tests+s.Tests, out.Failures+s.Failures, out.Errors+s.Errors, out.Skipped+s.Skipped
	}
	data, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report as XML: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, data)
	return err
}

func (s *junitSuite) add(f v1.Finding) {
	c := junitCase{Class: f.Category, Name: f.Code + " " + f.Reason}
	var lines []string
	for _, d := range details(f, layout{wide: true}) {
		lines = append(lines, d.text)
	}
	text := strings.Join(append([]string{f.Summary}, lines...), "\n")
	s.Tests++
	switch {
	case f.Accepted != "":
		s.Skipped++
		c.Skipped, c.Output = &junitMessage{Message: "accepted: " + f.Accepted}, text
	case f.Outcome == v1.Fail:
		s.Failures++
		c.Failure = &junitMessage{Message: f.Summary, Type: f.Level, Text: text}
	case f.Outcome == v1.Unknown:
		s.Errors++
		c.Error = &junitMessage{Message: f.Summary, Type: "unknown", Text: text}
	case f.Outcome == v1.Skip:
		s.Skipped++
		c.Skipped = &junitMessage{Message: f.Summary}
	case f.Outcome == v1.Warn:
		c.Output = "warning: " + text
	}
	s.Cases = append(s.Cases, c)
}
