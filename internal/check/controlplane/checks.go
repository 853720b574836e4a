package controlplane

import "github.com/transplant-dev/transplant/internal/check/rule"

// Checks are the checks about how the control plane is set up.
var Checks = []rule.Check{
	manifestsParse,        // CP-003: a manifest that is read wrongly would be written wrongly
	inTreeEverywhere,      // CP-001: what moves has to be there
	leaderElection,        // CP-002: without it nothing keeps two owners apart
	sameCloudFlags,        // CP-004: the owner would change its behaviour with its host
	podsCurrent,           // CP-005: what runs is not what the manifest says
	oneProcess,            // CP-006: no manager, or two, act on one host
	processCurrent,        // CP-016: the arguments of a process are the proof
	halfMigrated,          // CP-007: a migration was started and abandoned
	otherCCM,              // CP-012: a second owner that came with a chart
	hostsDiffer,           // CP-008: the hosts behave differently when they lead
	manifestCare,          // CP-009: what an edit has to mind
	controllersOverridden, // CP-010: loops that are off stay off
	ipamFlags,             // CP-018: flags about pod CIDRs that exclude each other
	flagsContradict,       // CP-014: the API server and the managers name one provider
	sshTunnels,            // CP-015: tunnels that the in-tree provider built
	nodeRestriction,       // CP-019: without it each kubelet may label its Node as control plane
	portTaken,             // CP-011: one process for each port
	strategyFits,          // CP-013: one host has no manager to hand over to
	kubeadmReverts,        // CP-017: the next upgrade would undo the migration
}
