// Package monitoring holds rules for Prometheus. By them it records who runs the cloud loops. It tells an administrator
// what is wrong with a manager, a migration or a fleet.
package monitoring
