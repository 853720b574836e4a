package check

// controlPlaneChecks are the checks about how the control plane is set up.
var controlPlaneChecks = []Check{
	manifestsParse,   // CP-003: a manifest that is read wrongly would be written wrongly
	inTreeEverywhere, // CP-001: what moves has to be there
	leaderElection,   // CP-002: without it nothing keeps two owners apart
	sameCloudFlags,   // CP-004: the owner would change its behaviour with its host
	podsCurrent,      // CP-005: what runs is not what the manifest says
	oneProcess,       // CP-006: nobody, or two, act on one host
	halfMigrated,     // CP-007: somebody began and left
}
