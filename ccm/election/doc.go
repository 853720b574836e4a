// Package election decides whether this process may act: it holds the leases under which cloud loops run, and it closes the fence in front of
// every write at the moment when another process may have taken over.
//
//	lease --renewed--> Fence --Check, Bind--> cloud requests that mutate, kube writes
//	      --other holder seen, too old, released--> ErrFenced
//
// The rules, and what they avoid:
//
//   - A lease that was last renewed at t is good until t + renew deadline, where t is read before the request is sent, on a clock that goes on
//     while the machine is suspended. A leader that was frozen for longer finds its fence closed at its first instruction. client-go's elector
//     lets the controllers of such a leader run for another renew deadline (kubernetes/kubernetes#44887).
//   - Seeing another holder ends leadership at once. client-go counts it as one more failed renewal.
//   - The migration lease is observed from the start, on standby too, so that its expiry does not have to be waited for a second time.
//   - A lease is released when the workers under it have drained.
//
// What no fence can stop is the one request that passed its last check before the fence closed. Writes to kube-apiserver carry UID or
// resourceVersion preconditions for that reason.
package election
