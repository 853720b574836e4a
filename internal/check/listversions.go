package check

// versionChecks are the checks about versions that fit each other.
var versionChecks = []Check{
	ccmRange,       // VER-001: our manager against this API server
	providerInTree, // VER-002: the in-tree provider exists in this version
	managerSkew,    // VER-003: managers and API servers fit each other
}
