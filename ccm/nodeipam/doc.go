// Package nodeipam decides which podCIDRs a node gets, for clusters whose node IPAM runs in the
// cloud-controller-manager.
//
//	lease won --> list, consistently --> note what is taken --> mark the nodes without podCIDRs --> give out, one PATCH for each node
//
// The flags, the metrics, the events and the order in which blocks are given out are those of the range allocator in
// kube-controller-manager. No two nodes may ever get the same podCIDR: podCIDRs cannot be changed once they are set, so
// nothing repairs it but a new Node.
//
// # What is guaranteed
//
// Between managers that are built on this package and hold the lease one after the other, no block is given to two
// nodes. That holds however long a process was frozen, wherever its request was delayed, and whatever answers were
// lost:
//
//   - Every PATCH names the node's UID and the resourceVersion that its sender had read, and passes the fence. What a
//     predecessor may still have under way was read before its fence closed, and so before the new leader's lease
//     began.
//   - The new leader lists nodes from etcd, not from its cache, after it has won. All that its predecessor has achieved
//     is in that list.
//   - It then changes every node that has no podCIDR: an annotation, which goes away again with the podCIDRs. From then
//     on whatever the predecessor had under way for that node is refused as a conflict. Only then is anything given
//     out. Without that step, a late request could give a node the block that the new leader has just given to another
//     one. A resourceVersion guards one node, and a block is about two.
//   - Whatever the PATCH returned, a block that was chosen for a node stays its own until the node has podCIDRs or is
//     gone. So an unknown outcome neither leaks a block (upstream: until the next restart) nor frees one that the node
//     may have got.
//   - A block belongs to a UID. An event about a node that is long gone does not free the block that another one has by
//     now.
//
// This is not guaranteed when something else writes podCIDRs: a kube-controller-manager that still runs node IPAM, or
// an administrator. It is detected and reported (an event at the node, and transplant_ccm_node_ipam_conflicts). Its
// requests name no resourceVersion. The event says which nodes share a block; the younger one has to be drained,
// deleted and registered again, which no controller should decide on. The same holds for two managers that run without
// leader election.
package nodeipam
