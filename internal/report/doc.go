// Package report decides whether a migration kept its promises, and says so: in a document (JSON, YAML), in a text (Markdown), and on a page that
// needs no network (HTML).
//
// Build is a pure function of the evidence: the journal, the inventory before and after, the ownership log and, where there is one, the cloud's own
// audit log. A promise is kept only where evidence shows it; what evidence is missing is named, and where it matters the result is "unknown", not
// "ok". Write renders a report and looks at nothing else, so that a stored report.json gives the same page years later.
package report
