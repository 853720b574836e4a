package v1alpha1

import "time"

// KindRunEvent is the kind of RunEvent.
const KindRunEvent = "RunEvent"

// RunEventType is what a line of apply -o jsonl or rollback -o jsonl is about.
type RunEventType string

// Types of a RunEvent, in the order in which a run has them.
const (
	// EventVersion is the first line: which program writes the others.
	EventVersion RunEventType = "version"
	// EventFinding is a finding that did not pass, where findings block the run.
	EventFinding RunEventType = "finding"
	// EventPlan is the plan that is shown before it is executed, or after --dry-run instead of it.
	EventPlan RunEventType = "plan"
	// EventQuestion says that an administrator is asked on standard error. Nothing goes on until the answer.
	EventQuestion RunEventType = "question"
	// EventStepStarted says that a step is being done.
	EventStepStarted RunEventType = "step.started"
	// EventStepProgress says what a step does or waits for.
	EventStepProgress RunEventType = "step.progress"
	// EventStepDeferred says that steps come after others of their phase.
	EventStepDeferred RunEventType = "step.deferred"
	// EventStepPaused and EventStepResumed say that the run waits before a step, and that it goes on.
	EventStepPaused  RunEventType = "step.paused"
	EventStepResumed RunEventType = "step.resumed"
	// EventStepFinished is the last line about a step. It comes without step.started where the step's effect was there
	// already, and where the step was skipped.
	EventStepFinished RunEventType = "step.finished"
	// EventFinished is the last line.
	EventFinished RunEventType = "finished"
)

// RunEvent is one line of apply -o jsonl and rollback -o jsonl. Which of its fields are there depends on Type. Readers
// ignore types and fields that they do not know.
type RunEvent struct {
	Type     RunEventType `json:"type"`
	TypeMeta `json:",inline"`
	// Time is by the clock of the process that executes the run.
	Time time.Time `json:"time"`
	// Command is apply or rollback, and Version that of the program: in the line of type version.
	Command string `json:"command,omitempty"`
	Version string `json:"version,omitempty"`
	// Step is the one that the line is about.
	Step *RunStep `json:"step,omitempty"`
	// Result of a step that is finished: done, already-done, skipped or failed.
	Result string `json:"result,omitempty"`
	// Message is what is waited for, asked, or went wrong.
	Message string `json:"message,omitempty"`
	// Waiting reports whether Message is what the step waits for.
	Waiting bool `json:"waiting,omitempty"`
	// Plan and PlanSHA256 of a line of type plan: the SHA-256 is what --plan-sha256 takes.
	Plan       *Plan  `json:"plan,omitempty"`
	PlanSHA256 string `json:"planSHA256,omitempty"`
	// Finding of a line of type finding.
	Finding *Finding `json:"finding,omitempty"`
	// ExitCode of a line of type finished: that of the process.
	ExitCode *int `json:"exitCode,omitempty"`
}

// RunStep names a step of the plan.
type RunStep struct {
	// ID is that of the plan.
	ID    string `json:"id"`
	Phase string `json:"phase,omitempty"`
	Title string `json:"title,omitempty"`
	Host  string `json:"host,omitempty"`
	// Number in the plan, from 1, of Total.
	Number int `json:"number,omitempty"`
	Total  int `json:"total,omitempty"`
}
