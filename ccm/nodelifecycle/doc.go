// Package nodelifecycle decides which Nodes have lost their instance and are deleted, and which have the shutdown
// taint. It behaves as upstream's cloud-node-lifecycle-controller where a user or another component can see it:
//
//	Ready                                -> the shutdown taint goes, the cloud is not asked
//	not Ready, instance is gone, twice   -> event DeletingNode, DELETE, or event NodeDeletionHeld
//	not Ready, instance is shut down     -> shutdown taint
//	not Ready, instance runs, or unknown -> nothing
//
// What differs, and why:
//   - If the provider lists instances, all nodes that are not Ready are asked for in one call per tick. If there are
//     too many for one call, it is two calls, and the rest at the next tick. Upstream makes two calls for each of them.
//   - A node that stays shut down is asked for less and less often, up to Options.BackoffLimit, and at once when it
//     changes. Without a list, where each question is a call, so is a node whose instance runs or for which calls fail.
//   - A deletion carries the UID and the resource version that were judged. A node that has become Ready, or another
//     that has taken the name, is not deleted. EC2 gives instances, and so nodes, the names of former ones (k/k#39893).
//   - A node is deleted when two looks have found no instance, a monitor period apart. Only "does not exist" without an
//     error counts. One look is enough where the cloud describes the instance as terminated.
//   - No node is deleted while the cloud does not know the manager's own instance, or none that it is asked for. Ready
//     nodes are asked for as well when others are to be deleted: a wrong account has no instance for any of them.
//   - More nodes than a limit are not deleted within some minutes, and none of them, until there are fewer or an
//     operator says so. Terminated ones have a higher limit of their own. See Options.DeletionLimit,
//     TerminatedLimitPercent and ReleaseAnnotation.
//   - A node that was not Ready before managers of this kind took over is not deleted in the first minutes after that.
//     The in-tree manager kept nodes whose instance is unknown to EC2 (its error was no answer). The administrator must
//     get the time to investigate. See Options.TakeoverGrace.
package nodelifecycle
