package v1alpha1

import "time"

// Kinds of short answers of commands.
const (
	KindVersion      = "Version"
	KindCheckList    = "CheckList"
	KindExplanation  = "Explanation"
	KindDiff         = "Diff"
	KindChangeResult = "ChangeResult"
	KindTokenList    = "TokenList"
)

// Version says which program this is.
type Version struct {
	TypeMeta `json:",inline"`
	Version  string `json:"version"`
	// Commit that it was built from; empty where the build does not say.
	Commit string `json:"commit,omitempty"`
	// Go is the version of the compiler, Platform the operating system and the architecture.
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// CheckList names the checks that this version has.
type CheckList struct {
	TypeMeta `json:",inline"`
	Checks   []CheckInfo `json:"checks"`
}

// CheckInfo is what is known of a check before it has judged anything.
type CheckInfo struct {
	Code     string `json:"code"`
	Reason   string `json:"reason"`
	Category string `json:"category"`
	Level    string `json:"level"`
	Impact   string `json:"impact"`
	Title    string `json:"title"`
	// Mandatory reports whether --accept cannot take its findings.
	Mandatory bool `json:"mandatory"`
	// Retryable reports whether what it finds may pass by itself.
	Retryable bool     `json:"retryable"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// Explanation is what a check looks for, why, and what to do about it.
type Explanation struct {
	TypeMeta `json:",inline"`
	Check    CheckInfo `json:"check"`
	// Text is Markdown.
	Text string `json:"text"`
	// Report has the findings of this check in a snapshot; nil where no snapshot was named.
	Report *CheckReport `json:"report,omitempty"`
}

// Diff is what a plan would change in files and objects.
type Diff struct {
	TypeMeta    `json:",inline"`
	Cluster     Cluster       `json:"cluster"`
	Differences []TextualDiff `json:"differences"`
}

// TextualDiff is what would change in one file or object.
type TextualDiff struct {
	// Name is that of the file, after its host, or of the object.
	Name string `json:"name"`
	// Unified is the difference in the format that patch reads. Secrets are masked.
	Unified string `json:"unified"`
}

// ChangeResult is what pause, resume and unlock did.
type ChangeResult struct {
	TypeMeta `json:",inline"`
	// Command is pause, resume or unlock.
	Command string `json:"command"`
	// Changed is false where everything was as asked already.
	Changed bool   `json:"changed"`
	Run     string `json:"run,omitempty"`
	// Phase is that of the journal.
	Phase string `json:"phase,omitempty"`
	// Paused is the request that the run waits for, or the one that was taken back; nil where there was none.
	Paused *Pause `json:"paused,omitempty"`
	// Lock is who held the lock when the command looked; nil when it was free, and when it could not be read.
	Lock *LockStatus `json:"lock,omitempty"`
	// Next is the command that comes next.
	Next string `json:"next,omitempty"`
}

// TokenList is what became of the tokens of cloud-controller-managers.
type TokenList struct {
	TypeMeta `json:",inline"`
	Tokens   []TokenStatus `json:"tokens"`
}

// TokenStatus is the token of one manager.
type TokenStatus struct {
	// Host that has the token in a file, or Namespace of the control plane in a seed.
	Host      string `json:"host,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// State is renewed, valid or endless.
	State string `json:"state"`
	// Expires is when it ends; zero for one that never does.
	Expires time.Time `json:"expires,omitzero"`
}

// States of a token.
const (
	TokenRenewed = "renewed"
	TokenValid   = "valid"
	// TokenEndless never expires: an earlier version of transplant made it.
	TokenEndless = "endless"
)
