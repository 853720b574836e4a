// Package state decides the state of one user cluster's migration and what is to be done next. Observations come in;
// phase, conditions, events and work come out. It is pure: no client, no clock, nothing remembered.
//
//	NotNeeded      Held  Blocked          pause, hibernation, hold, refusals: from anywhere
//	               Queued ──run──> Handover ──> Components ──> Machines ──run──> Finish ──> Completed
//	                                                                   └ a cluster that was made external ──> Completed
//	                                   │ failed for good           ^
//	                                   v                           └ until every machine's node is external
//	                                 Failed ──hold put on and taken off──> Queued
//
// Three rules run through it:
//
//   - What is not known keeps the phase. A failed look, or an operator that has just started, moves nothing back.
//   - A handover that was started is completed, whatever is wrong with the Cluster object by then. In its middle
//     perhaps no manager runs the cloud loops, and no load balancer would be deleted with the cluster. Only pause and
//     hibernation stop it, because a person asked for that.
//   - Completed is a latch, as the API of the original promises. What is wrong with a completed cluster is said by
//     ConditionMachines.
package state
