package v1alpha1

import "time"

// KindCheckReport is the kind of CheckReport.
const KindCheckReport = "CheckReport"

// Outcome is how a check ended.
type Outcome string

// Outcomes. Unknown blocks an apply exactly as Fail does.
const (
	Pass    Outcome = "pass"
	Warn    Outcome = "warn"
	Fail    Outcome = "fail"
	Skip    Outcome = "skip"
	Unknown Outcome = "unknown"
)

// CheckReport is the judgement of a snapshot.
type CheckReport struct {
	TypeMeta    `json:",inline"`
	TakenAt     time.Time    `json:"takenAt"`
	ToolVersion string       `json:"toolVersion"`
	Cluster     Cluster      `json:"cluster"`
	Summary     CheckSummary `json:"summary"`
	Findings    []Finding    `json:"findings"`
	// StaleAcceptances are codes that --accept named although their checks do not block: waivers that should be taken
	// back. Sorted.
	StaleAcceptances []string `json:"staleAcceptances,omitempty"`
}

// CheckSummary counts the findings by outcome.
type CheckSummary struct {
	Passed  int `json:"passed"`
	Warned  int `json:"warned"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	Unknown int `json:"unknown"`
	// Accepted counts the failed and unknown findings that --accept took.
	Accepted int `json:"accepted,omitempty"`
	// Blocked reports whether a failed or unknown finding was not accepted.
	Blocked bool `json:"blocked"`
}

// Finding is the answer of one check.
type Finding struct {
	// Code is stable and never reused, e.g. LM-001.
	Code string `json:"code"`
	// Reason is the CamelCase name of the check, e.g. WrongControllerNames.
	Reason   string `json:"reason"`
	Category string `json:"category"`
	// Level is info, warning, error or critical: how bad it is when the check does not pass.
	Level string `json:"level"`
	// Impact is what suffers: none, node deletion, no cloud loops, two owners, load balancer traffic, routes or API.
	// Others are gap, node join, scheduling, volume attach, image pulls and data loss.
	Impact  string   `json:"impact,omitempty"`
	Outcome Outcome  `json:"outcome"`
	Summary string   `json:"summary"`
	Objects []string `json:"objects,omitempty"`
	// Problems are what is wrong with the objects, each problem once: the first ten, and MoreProblems counts the rest.
	Problems     []Problem `json:"problems,omitempty"`
	MoreProblems int       `json:"moreProblems,omitempty"`
	Expected     string    `json:"expected,omitempty"`
	// Found is what there is instead, in one text for those who print it: the problems, where there are any.
	Found string `json:"found,omitempty"`
	// Source is where the fact was read: an API path, host:file, a cloud call.
	Source string `json:"source,omitempty"`
	// Fix is a runnable command, and FixKind says of which kind.
	Fix     string  `json:"fix,omitempty"`
	FixKind FixKind `json:"fixKind,omitempty"`
	// LookFor is what to look for in what a command of kind look prints.
	LookFor string `json:"lookFor,omitempty"`
	// OnlyIf is the condition under which a fix that deletes, drains or stops something may be run. Warning says what
	// it does then.
	OnlyIf  string `json:"onlyIf,omitempty"`
	Warning string `json:"warning,omitempty"`
	// Docs is the page of the check, of a finding that did not pass. explain prints the same without a network.
	Docs string `json:"docs,omitempty"`
	// Since is when what was found began, where that is known.
	Since *time.Time `json:"since,omitempty"`
	// DependsOn is the check because of which this one was not evaluated.
	DependsOn string `json:"dependsOn,omitempty"`
	// Accepted is the administrator's reason for accepting this finding, which would block otherwise.
	Accepted string `json:"accepted,omitempty"`
	// AcceptedBy and AcceptedAt say who accepted it and when, where the caller of the check said so.
	AcceptedBy string     `json:"acceptedBy,omitempty"`
	AcceptedAt *time.Time `json:"acceptedAt,omitempty"`
}

// FixKind is what the command of a finding does.
type FixKind string

// Kinds of commands.
const (
	// FixLook is a command that reads, and shows more of what was found.
	FixLook FixKind = "look"
	// FixChange is a command that changes something, or gives transplant the option that the finding asks for.
	FixChange FixKind = "fix"
)

// Problem is what is wrong with one object, or with several of which the same is wrong.
type Problem struct {
	// Object is one of the finding's.
	Object string `json:"object"`
	// Text is a clause that names the object.
	Text string `json:"text"`
	// Objects are all objects with this problem, where there are several. Object is the first.
	Objects []string `json:"objects,omitempty"`
}
