package check

// cloudChecks are the checks about the provider's configuration and its way to the cloud.
var cloudChecks = []Check{
	cloudConfig,        // CFG-001: the external provider's configuration can be derived
	credentialVariable, // CRED-001: credentials that the new manager would not have
	inventoryComplete,  // CLOUD-001: before and after can be compared
}
