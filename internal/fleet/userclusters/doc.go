// Package userclusters decides how the API servers of user clusters are reached from the seed. It decides which are
// connected to at a time, with which credentials, and which are not asked for a while because they do not answer.
//
// The clients of a cluster stay good as long as the pool is open. Each request goes through the connections that the
// cluster has at that moment. When its kubeconfig Secret changes they are replaced. When it is among the least recently
// used ones they are closed, and the next request opens them again. Holders of the clients do not notice.
//
// A cluster that hangs blocks only its own callers. No lock is held during a wait. Dialing and the first byte of an
// answer have bounds of their own, and pings find a dead connection.
package userclusters
