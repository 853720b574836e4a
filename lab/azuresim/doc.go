// Package azuresim decides what a simulated Azure answers: Resource Manager for one subscription with one resource
// group, and the tokens of managed identities and of client secrets. It has what providers of Kubernetes use, and
// refuses what it does not know with 501.
//
//   - Machines, scale sets with their machines, network interfaces, availability sets.
//   - Load balancers with backend pools, public addresses, security groups, route tables, subnets.
//   - Changes are operations that are asked for until they have ended, well or not.
//   - ETags, throttling and faults are Azure's.
//
// It does not have roles, quotas, zones that are full, or regions.
package azuresim
