// Package answerlimit decides how much of an API server's answers is read into memory. There is a limit for one answer,
// for an event, and for a list over its pages. Two more bound the answers that are open at the same time: those of one
// cluster, and those of all clusters that one process asks. The API server of a user cluster belongs to its own
// administrator, and client-go reads what it answers into memory, several times over.
//
// # In memory
//
// An empty node is two bytes of an answer, and hundreds of what it is decoded into. So an answer of a user cluster is
// read to its end and weighed before its reader gets it. So is an event of a watch. It is weighed by the type that its
// reader decodes it into. What protobuf takes is not known before it is decoded: it is neither asked for nor taken.
//
// An answer is closed before it is decoded, so what it takes then is not among the open ones. The context of its reader
// says how long that has it. Keep is for a reader of which all answers stay in memory. Pass is for one that has them
// one by one.
//
// A watch is open for long, and its reader's buffers stay as large as its largest event made them. So that event counts
// among the open answers until the watch ends.
//
// # Between clusters
//
// A Total is what the open answers of several clusters may hold together. Three rules keep one cluster from starving
// the others:
//
//   - Where the limit is reached, the answer that reads on waits for room, until its request ends. So clusters that are
//     all read at once, as at the start of an operator, are read one after the other.
//   - An answer of the cluster that holds the most does not wait and is refused at once. So there is always one that
//     does not wait for the others, and the cluster that fills the limit pays for it.
//   - A cluster that holds the most and neither reads on nor ends is waited for no longer than patience. Then all of
//     its open answers are refused. So a server that sends a byte now and then holds up the others only once. For the
//     next time it has to send as much again.
//
// The equal share of a cluster is the limit divided by the number of clusters that hold something. Where the limit is
// passed, a cluster with no more than that is never the one that holds the most. It may wait, and is not refused. A
// queue in order of arrival, or a semaphore with weights, would not do. Answers that wait hold what was read of them,
// and could wait for each other.
package answerlimit
