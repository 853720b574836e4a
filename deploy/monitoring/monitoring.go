// Package monitoring holds rules for Prometheus. By them it records who runs the cloud loops. It tells an administrator
// what is wrong with a manager, a migration or a fleet.
package monitoring

import _ "embed"

// Rules is a rule file of Prometheus. docs/reference/alerts.md says of each alert what to do.
//
//go:embed rules.yaml
var Rules []byte
