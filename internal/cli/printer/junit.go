package printer

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/visible"
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
	return writeJUnit(w, out)
}

// writeJUnit counts the cases of a document and writes it.
func writeJUnit(w io.Writer, out JUnitSuites) error {
	for i := range out.Suites {
		s := &out.Suites[i]
		for _, c := range s.Cases {
			s.Tests++
			switch {
			case c.Failure != nil:
				s.Failures++
			case c.Error != nil:
				s.Errors++
			case c.Skipped != nil:
				s.Skipped++
			}
		}
		out.Tests += s.Tests
		out.Failures += s.Failures
		out.Errors += s.Errors
		out.Skipped += s.Skipped
	}
	data, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("writing JUnit's XML: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, visible.Escaped(string(data)))
	return err
}

// add adds the case of a finding.
func (s *JUnitSuite) add(f v1.Finding, taken time.Time) {
	name := f.Code + " " + f.Reason
	if k, ok := check.Find(f.Code); ok {
		name = f.Code + " " + check.Title(k)
	}
	c := JUnitCase{Class: f.Category, Name: name}
	var lines []string
	for _, d := range details(f, taken, Layout{Wide: true}) {
		lines = append(lines, d.text)
	}
	text := strings.Join(append([]string{f.Summary}, lines...), "\n")
	switch {
	case f.Accepted != "":
		c.Skipped, c.Output = &JUnitMessage{Message: "accepted: " + f.Accepted}, text
	case f.Outcome == v1.Fail:
		c.Failure = &JUnitMessage{Message: f.Summary, Type: f.Level, Text: text}
	case f.Outcome == v1.Unknown:
		c.Error = &JUnitMessage{Message: f.Summary, Type: "unknown", Text: text}
	case f.Outcome == v1.Skip:
		c.Skipped = &JUnitMessage{Message: f.Summary}
	case f.Outcome == v1.Warn:
		c.Output = "warning: " + text
	}
	s.Cases = append(s.Cases, c)
}

// verified are the titles of what a verification looks at.
var verified = map[string]string{
	"finished":       "the migration or its rollback has ended",
	"owners":         "each loop has the owner that was promised",
	"hosts":          "no host that was excluded stands in the way",
	"nodes":          "nodes are as before",
	"services":       "Services of type LoadBalancer are as before",
	"endpoints":      "Services have the endpoints that they had",
	"volumes":        "PersistentVolumes are as before",
	"attachments":    "volumes are attached as before",
	"csi-drivers":    "CSI drivers are on the nodes as before",
	"load-balancers": "load balancers of the cloud are as before",
	"routes":         "routes of the cloud are as before",
	"disruption":     "outages kept their budget",
	"objectives":     "managers keep the objectives of KEP-2395",
	"facts":          "nothing else that was looked for is unknown",
}

// VerificationJUnit writes a verification as JUnit's XML, a case for each check.
func VerificationJUnit(w io.Writer, v v1.Verification) error {
	suite := JUnitSuite{Name: "verify"}
	for _, c := range v.Checks {
		one := JUnitCase{Class: "verification", Name: strings.TrimSpace(c.Name + " " + verified[c.Name])}
		text := strings.Join(append([]string{c.Summary}, c.Problems...), "\n")
		switch c.Outcome {
		case v1.Fail:
			one.Failure = &JUnitMessage{Message: c.Summary, Type: findings.LevelError, Text: text}
		case v1.Unknown:
			one.Error = &JUnitMessage{Message: c.Summary, Type: "unknown", Text: text}
		case v1.Skip:
			one.Skipped = &JUnitMessage{Message: c.Summary}
		default:
			one.Output = c.Summary
		}
		suite.Cases = append(suite.Cases, one)
	}
	return writeJUnit(w, JUnitSuites{Name: "transplant verify " + v.Cluster.Name, Suites: []JUnitSuite{suite}})
}

// ReportJUnit writes a report as JUnit's XML: a phase is a suite, a step is a case, and one more case is the result.
func ReportJUnit(w io.Writer, r v1.Report) error {
	out := JUnitSuites{Name: "transplant report " + r.Cluster.Name}
	for _, s := range r.Steps {
		if n := len(out.Suites); n == 0 || out.Suites[n-1].Name != s.Phase {
			out.Suites = append(out.Suites, JUnitSuite{Name: s.Phase})
		}
		c := JUnitCase{Class: s.Phase, Name: s.ID + " " + s.Title}
		switch s.Result {
		case v1.StepResultDone, v1.StepResultAlreadyDone:
			c.Output = fmt.Sprintf("%s in %.0fs", s.Result, s.DurationSeconds)
		case v1.StepResultFailed:
			c.Failure = &JUnitMessage{Message: s.Error, Type: findings.LevelError, Text: s.Error}
		default:
			c.Skipped = &JUnitMessage{Message: strings.TrimSuffix(string(s.Result)+": "+s.Error, ": ")}
		}
		suite := &out.Suites[len(out.Suites)-1]
		suite.Cases = append(suite.Cases, c)
	}
	result := JUnitCase{Class: "result", Name: "result every step is done, and nothing was lost"}
	reasons := strings.Join(r.Reasons, "\n")
	switch r.Result {
	case v1.ResultOK:
	case v1.ResultUnknown:
		result.Error = &JUnitMessage{Message: r.Result, Type: r.Result, Text: reasons}
	case v1.ResultRolledBack:
		result.Skipped = &JUnitMessage{Message: strings.TrimSuffix(r.Result+": "+reasons, ": ")}
	default:
		result.Failure = &JUnitMessage{Message: r.Result, Type: r.Result, Text: reasons}
	}
	out.Suites = append(out.Suites, JUnitSuite{Name: "result", Cases: []JUnitCase{result}})
	return writeJUnit(w, out)
}
