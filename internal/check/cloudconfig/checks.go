package cloudconfig

import "github.com/transplant-dev/transplant/internal/check/rule"

// Checks are the checks about the provider's configuration and its way to the cloud.
var Checks = []rule.Check{
	cloudConfig,           // CFG-001: the external provider's configuration can be derived
	configKeys,            // CFG-002: keys that a provider refuses or misreads
	settingLost,           // CFG-003: keys without effect, and defaults that change
	environmentLost,       // CFG-004: the way to the cloud that the new manager would lack
	selfNotFound,          // CFG-005: a metadata service that does not answer
	credentialVariable,    // CRED-001: credentials that the new manager would not have
	secretsReadable,       // CRED-002: secrets that everybody on the host can read
	credentialsOnKubelets, // CRED-003: credentials that are not needed any more
	credentialsNowhere,    // CRED-004: hosts without any
	tokenExpires,          // CRED-005: a manager that is locked out of its cluster soon
	inventoryComplete,     // CLOUD-001: before and after can be compared
	nodeManagerMissing,    // CLOUD-002: nodes that no manager initialises
	ccmResources,          // CLOUD-003: a manager that is throttled or evicted
}
