package v1alpha1

import "time"

// KindVerification is the kind of Verification.
const KindVerification = "Verification"

// Verification says whether a cluster is as its last migration, or its rollback, promised.
type Verification struct {
	TypeMeta `json:",inline"`
	Cluster  Cluster   `json:"cluster"`
	Run      string    `json:"run"`
	Phase    string    `json:"phase"`
	TakenAt  time.Time `json:"takenAt"`
	// Result is ok, failed, or unknown where nothing failed but a fact is missing.
	Result string `json:"result"`
	// Checks in a fixed order; one that does not apply is skipped and says why.
	Checks []VerificationCheck `json:"checks"`
	// Problems are the sentences of the checks that failed or are unknown; empty when Result is ok.
	Problems []string `json:"problems"`
}

// VerificationCheck is one thing that was verified.
type VerificationCheck struct {
	// Name is finished, owners, hosts, nodes, services, endpoints, volumes, attachments, csi-drivers, load-balancers, routes, disruption or facts.
	Name string `json:"name"`
	// Outcome is pass, fail, skip or unknown.
	Outcome Outcome `json:"outcome"`
	Summary string  `json:"summary"`
	// Problems are what failed or is unknown, one sentence each.
	Problems []string `json:"problems,omitempty"`
	// Differences of the check's objects, expected and accepted ones included.
	Differences []Difference `json:"differences,omitempty"`
}

// VerificationUnknown is the Result of a Verification in which nothing failed but a fact is missing.
const VerificationUnknown = "unknown"
