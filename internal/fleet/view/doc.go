// Package view decides what is shown of a fleet, and which of its clusters are migrated when. Cluster objects come in;
// rows, counts, waves and the next starts of a rollout come out. It is pure: no client, no clock, nothing remembered.
// The command line and the operator's page show the same rows.
//
// Everything is read from the Cluster objects alone. So a table of hundreds of clusters costs one list, and any machine
// can continue a rollout. What was started is known without a record of it.
package view
