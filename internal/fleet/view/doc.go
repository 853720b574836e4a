// Package view decides what is shown of a fleet, and which of its clusters are migrated when: Cluster objects in; rows,
// counts, waves and the next starts of a rollout out. It is pure: no client, no clock, nothing remembered. The command
// line and the operator's page show the same rows.
//
// Everything is taken from the Cluster objects alone, so that a table of hundreds of clusters costs one list, a rollout
// can be gone on with from any machine, and what was started is known without a record of it.
package view
