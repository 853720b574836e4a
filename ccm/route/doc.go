// Package route decides which routes of the cloud lead to the pods of which node, and what a node's NetworkUnavailable
// condition says of it.
//
//	node added, removed, new podCIDRs or addresses --\
//	a failed call, after its back-off ---------------+--> judge(nodes, view) --> changes, one per destination --> cloud
//	resync ------------------------------------------/         ^      \--> conditions, patched when they differ --> kube
//	                                                   view: the last list, and what was done since
//
// What is right, and what users see of it, is upstream's: the same condition with the same reasons, the same event, the
// same routes made and deleted. When the cloud is called is not:
//
//   - Upstream lists all routes every 10 s, 8,640 times a day for nothing. Here an event, a retry or the resync asks
//     for a list, and only if something is to be done. A list serves for 10 s, so a burst of nodes costs one. It also
//     tells nothing new until then: only this controller changes these routes.
//   - Upstream's event-driven mode (KEP-5237) never retries a failed CreateRoute: one throttled call leaves a node
//     without network until some other node changes, or for half a day. Here every call has its own back-off, 1 s to 60
//     s, and a list between two attempts unless the cloud has said that it did nothing: a call that failed may have
//     been carried out.
//   - Nothing waits for anything else than the calls for its own destination. A route that cannot be deleted backs off
//     alone, and so does one that hangs. Deletes come before creates for a destination: most clouds refuse a second
//     route to it, and some delete by destination.
//   - A route whose instance has gone is a black hole as soon as it has been made. Making it again backs off as a
//     failure does, instead of a delete and a create every 10 s for as long as the node exists.
//   - When the cloud cannot list (one stale route makes the list of some providers fail as a whole), the last list
//     serves, and without one nodes that have never had a route get theirs all the same. Nothing is deleted that a list
//     has not shown.
//
// A takeover costs one list, and no write when everything is right.
package route
