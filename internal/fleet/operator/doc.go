// Package operator decides what is done for which user cluster, when, and how much of it at a time.
//
//	Clusters (two groups), Deployments ──watch──> queue ──> reconcile: state.Decide, conditions written when they changed
//	                                                ^            │
//	                                                │            ├──> looks: journal, owners, parts, machines     (two lanes)
//	                                                │            └──> runs of the engine                          (bounded, first come)
//	                                                └── what they found, kept in memory ──────┘
//
// A reconcile asks caches and memory only, and at most writes conditions to the seed: no user cluster can hold it up. Whatever takes long runs beside it,
// at most one look and one run for each cluster, and puts the cluster into the queue again when it has ended. A cluster whose looks fail uses a lane of its
// own, so that clusters that hang do not hold up those that answer; a run that has not moved for a while gives its place to another cluster and goes on.
//
// What has to outlast the process is in the cluster: the conditions, and the journals in the seed namespaces. An operator that starts reads them, and goes on.
package operator
