// Package route decides which routes of the cloud lead to the pods of which node, and what a node's NetworkUnavailable
// condition says of it.
//
//	node added, removed, new podCIDRs or addresses --\
//	a failed call, after its back-off ---------------+--> judge(nodes, view) --> changes, one per destination --> cloud
//	resync ------------------------------------------/         ^      \--> conditions, patched when they differ --> kube
//	                                                   view: the last list, and what was done since
//
// What is right, and what users see of it, is as in upstream. The condition, its reasons, the event, and the routes
// that are made and deleted are the same. When the cloud is called is not:
//
//   - Upstream lists all routes every 10 s, 8,640 times a day for nothing. Here an event, a retry or the resync asks
//     for a list, and only if something is to be done. A list serves for 10 s, so a burst of nodes costs one. It also
//     tells nothing new until then: only this controller changes these routes.
//   - Upstream's event-driven mode (KEP-5237) never retries a failed CreateRoute. One throttled call leaves a node
//     without network until another node changes, or for half a day. Here every call has its own back-off, 1 s to 60 s.
//     There is a list between two attempts unless the cloud has said that it did nothing: a failed call may have been
//     executed.
//   - Nothing waits for anything else than the calls for its own destination. A route that cannot be deleted backs off
//     alone, and so does one that hangs. Deletes come before creates for a destination: most clouds refuse a second
//     route to it, and some delete by destination.
//   - A route whose instance has gone is a black hole as soon as it has been made. Making it again backs off as a
//     failure does. Upstream deletes and creates it every 10 s for as long as the node exists.
//   - When the cloud cannot list, the last list is used. With some providers one stale route makes the whole list fail.
//     Without a list, nodes that have never had a route get theirs all the same. Nothing is deleted that a list has not
//     shown.
//
// A takeover costs one list, and no write when everything is right.
package route
