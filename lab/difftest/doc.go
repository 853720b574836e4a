// Package difftest decides whether our controllers do what upstream's do: the same scenarios happen to two clusters,
// each with a real API server, a simulated cloud and a manager of one implementation, at the same time. At the end the
// objects, the events and the cloud have to be the same, and ours must not have called the cloud more often for any
// class of operations.
//
//	Scenarios --> world(upstream) --> Snapshot, calls --\
//	         \--> world(ours)     --> Snapshot, calls ---> equal, at most as many
//
// What two runs can never have in common is removed from a snapshot: UIDs, times, addresses that the cloud gives out,
// how often an event was repeated, and what a manager notes for itself.
package difftest
