// Package election decides whether this process may act: it holds the leases under which cloud loops run, and it closes the fence in front of
// every write at the moment when another process may have taken over.
//
//	lease --renewed--> Fence --Check, Bind--> cloud requests that mutate, kube writes
//	      --other holder seen, too old, drained, released--> ErrFenced
//
// The rules, and what they avoid:
//
//   - A lease that was last renewed at t is good until t + renew deadline, where t is read before the request is sent, on a clock that goes on
//     while the machine is suspended. A leader that was frozen for longer finds its fence closed at its first instruction. client-go's elector
//     lets the controllers of such a leader run for another renew deadline (kubernetes/kubernetes#44887).
//   - Seeing another holder ends leadership at once, and so does a lease that somebody else released or deleted: anybody may take it from then on.
//     client-go counts it as one more failed renewal. Deleting a lease is thus a way to force an election.
//   - Leases are observed from the start, on standby and before they may be contended for, so that the expiry of the migration lease does not have to
//     be waited for after that of the main lease. A watch tells of a release within milliseconds; without leave to watch, polling does.
//   - A lease is released when the workers under it have drained, the migration lease before the main lease. Workers that do not end in time are cut
//     off, and then the lease is left to expire: a successor must not meet their last call.
//   - A loss ends leadership of all leases of the process, which then exits. Nothing is released: a worker may be in a call.
//
// On the wire this is client-go's election by Lease objects: holderIdentity, leaseDurationSeconds, renewTime, acquireTime, and leaseTransitions, which
// grows with every change of holder. Contenders of both kinds understand each other. One annotation is ours; see AdoptedAnnotation.
//
// What no fence can stop is the one request that passed its last check before the fence closed. Writes to kube-apiserver carry UID or
// resourceVersion preconditions for that reason. docs/explanation/fence.md says all this to operators.
package election
