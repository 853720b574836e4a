package check

import (
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// categorySeed is that of the checks about control planes that another cluster hosts.
const categorySeed = "hosted control plane"

// seedChecks are the checks about a control plane that another cluster hosts. They are in the report of such a cluster only.
var seedChecks = []Check{
	seedReadable,  // HCP-001: without the seed nothing is known of the control plane
	seedProvider,  // HCP-002: the in-tree provider is what moves
	seedRolledOut, // HCP-003: a rollout that does not end takes the loops with it
	seedConfig,    // HCP-004: a config that cannot be derived is found while the loops run
	seedOwners,    // HCP-005: each loop has at most one owner, and everybody was asked
	seedManager,   // HCP-006: a manager that somebody else has started
	seedElection,  // HCP-007: nothing keeps old pods from acting beside new ones
}

// checksFor are those of the list, and for a hosted control plane its own.
func checksFor(s *v1.Snapshot) []Check {
	if s.Cluster.Seed == "" {
		return Checks
	}
	return slices.Concat(seedChecks, Checks)
}

// elsewhereInSeed are the checks that ask for what a hosted control plane has not, or has elsewhere, and where that is.
var elsewhereInSeed = map[string]string{
	"HOST-001": noHosts, "HOST-002": noHosts, "HOST-003": noHosts, "HOST-004": noHosts,
	"CFG-001":  "the config that the Deployment in the seed mounts says it: HCP-004",
	"CRED-001": "the new manager gets the environment and the volumes of the kube-controller-manager in the seed",
	"CRED-004": "the new manager gets the environment and the volumes of the kube-controller-manager in the seed",
	"LM-006":   "the pods in the seed say it: HCP-005",
}

const noHosts = "a hosted control plane has no hosts: its components are Deployments in the seed"

// otherwiseInSeed says why a check has nothing to look at where another cluster hosts the control plane; empty when it has.
func otherwiseInSeed(c Check, f facts) string {
	if f.Cluster.Seed == "" {
		return ""
	}
	if f.opts.Part == partFinish && c.Category != categorySeed && c.Category != categoryTooling {
		return "it is asked before the handover, and the loops have moved"
	}
	if f.opts.Part == partInstall && c.Category != categorySeed && c.Category != categoryTooling && c.Code != "CLOUD-002" {
		return "it is asked before loops move, and this control plane was external from the start"
	}
	if c.Code == "CLOUD-001" && f.Cloud == nil {
		return "the cloud of a hosted cluster is asked by nobody but its own managers: nodes and load balancers are compared with those from before by what the API shows"
	}
	return elsewhereInSeed[c.Code]
}
