package migrationconfig

import (
	"errors"
	"strings"
)

// Code names a kind of problem. Codes are stable: reports and tests refer to them.
type Code string

// What can be wrong with a file as such. The managers refuse most of these too, some versions of them silently read
// something else.
const (
	// NotYAML is a file that no manager can read.
	NotYAML Code = "NotYAML"
	// UnquotedWildcard is "component: *", as the Kubernetes documentation prints it; YAML takes the asterisk for an alias.
	UnquotedWildcard Code = "UnquotedWildcard"
	// StrayListItem is a list item that holds what belongs to the item above it, as in the documentation's node IPAM
	// sample.
	StrayListItem Code = "StrayListItem"
	// TabIndent is a file that is indented with tabs, which no manager can read.
	TabIndent Code = "TabIndent"
	// SeveralDocuments is a file with more than one YAML document; managers read the first and ignore the rest.
	SeveralDocuments Code = "SeveralDocuments"
	// WrongKind is another apiVersion or kind.
	WrongKind Code = "WrongKind"
	// UnknownField is ignored by managers up to 1.31; later ones exit.
	UnknownField Code = "UnknownField"
	// WrongType is a value of another type than the field's.
	WrongType Code = "WrongType"
	// MissingValue is a field without which managers exit.
	MissingValue Code = "MissingValue"
	// BadResourceLock is a lock that does not exist.
	BadResourceLock Code = "BadResourceLock"
)

// What can be wrong with a file for the manager that reads it.
const (
	// VersionTooNew is an apiVersion that the manager does not know yet.
	VersionTooNew Code = "VersionTooNew"
	// NoLeaderMigration is a manager older than the feature.
	NoLeaderMigration Code = "NoLeaderMigration"
	// ResourceLockInV1 is a field that v1 does not have.
	ResourceLockInV1 Code = "ResourceLockInV1"
	// WrongName is a loop under a name that this version does not register: it runs under the main lease, next to the
	// other manager's.
	WrongName Code = "WrongName"
	// UnknownName is a name of no cloud loop. It may be another controller of the manager, which then runs under the
	// migration lease.
	UnknownName Code = "UnknownName"
	// MissingLoop is a cloud loop that the file does not list: it runs under the main lease, next to the other manager's.
	MissingLoop Code = "MissingLoop"
	// DuplicateName is a name listed twice; the last one counts.
	DuplicateName Code = "DuplicateName"
	// OtherComponent is a loop given to the other manager: this one never runs it.
	OtherComponent Code = "OtherComponent"
	// UnknownComponent is a component that is no manager: no manager runs the loop on its account.
	UnknownComponent Code = "UnknownComponent"
	// DifferentLease means that two sides contend for different leases, so that both lead.
	DifferentLease Code = "DifferentLease"
)

// Problem is something wrong with a leader migration config.
type Problem struct {
	Code Code
	// Field is the path of the value, such as controllerLeaders[2].name; "" for the file as a whole.
	Field string
	// Summary says what is wrong and what follows from it.
	Summary string
	// Fix says what to write instead; "" when the summary leaves no choice.
	Fix string
	// Blocking problems keep a manager from starting, or leave a loop with two owners or with none.
	Blocking bool
}

// String returns the problem in a line.
func (p Problem) String() string {
	var b strings.Builder
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	b.WriteString(p.Summary)
	if p.Fix != "" {
		b.WriteString("; " + p.Fix)
	}
	return b.String()
}

// ParseError holds everything that is wrong with a file, in the file's order.
type ParseError struct{ Problems []Problem }

// Error returns all problems in a line.
func (e *ParseError) Error() string {
	lines := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "; ")
}

// ProblemsOf returns the problems inside err when Parse refused a file, and nil for any other error.
func ProblemsOf(err error) []Problem {
	if refused, ok := errors.AsType[*ParseError](err); ok {
		return refused.Problems
	}
	return nil
}
