package check

// balancerChecks are the checks about what the new service loop would do to load balancers.
var balancerChecks = []Check{
	excludeLabel, // LB-001: a label whose value begins to matter
}
