// Package hosted decides what is asked of a control plane that a seed hosts: which checks do not apply there, and
// which take their place.
package hosted

import (
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
)

// categorySeed is that of the checks about control planes that another cluster hosts.
const categorySeed = "hosted control plane"

// Checks are the checks about a control plane that another cluster hosts. They are in the report of such a cluster
// only.
var Checks = []rule.Check{
	seedReadable,  // HCP-001: without the seed nothing is known of the control plane
	seedProvider,  // HCP-002: the in-tree provider is what moves
	seedRolledOut, // HCP-003: a rollout that does not end takes the loops with it
	seedConfig,    // HCP-004: a config that cannot be derived is found while the loops run
	seedOwners,    // HCP-005: each loop has at most one owner, and everybody was asked
	seedManager,   // HCP-006: a manager that another program has started
	seedElection,  // HCP-007: nothing keeps old pods from acting next to new ones
}

// Elsewhere are the checks that ask for what a hosted control plane has not, or has elsewhere, and where that is.
var Elsewhere = map[string]string{
	"HOST-001": noHosts, "HOST-002": noHosts, "HOST-003": noHosts, "HOST-004": noHosts,
	"CFG-001":  "the config that the Deployment in the seed mounts says it: HCP-004",
	"CRED-001": "the new manager gets the environment and the volumes of the kube-controller-manager in the seed",
	"CRED-004": "the new manager gets the environment and the volumes of the kube-controller-manager in the seed",
	"LM-006":   "the pods in the seed say it: HCP-005",
}

const noHosts = "a hosted control plane has no hosts: its components are Deployments in the seed"

// WhyNot says why a check has nothing to look at where another cluster hosts the control plane; empty when it has.
func WhyNot(c rule.Check, f facts.Facts) string {
	if f.Cluster.Seed == "" {
		return ""
	}
	if f.Opts.Part == partFinish && c.Category != categorySeed && c.Category != findings.CategoryTooling {
		return "it is asked before the handover, and the loops have moved"
	}
	if f.Opts.Part == facts.PartInstall && c.Category != categorySeed && c.Category != findings.CategoryTooling &&
		c.Code != "CLOUD-002" {
		return "it is asked before loops move, and this control plane was external from the start"
	}
	if c.Code == "CLOUD-001" && f.Cloud == nil {
		return "only the managers of a hosted cluster ask its cloud: nodes and load balancers before and after are compared by what the API shows"
	}
	return Elsewhere[c.Code]
}
