// Package userclusters decides how the API servers of user clusters are reached from the seed: which are connected to
// at a time, with which credentials, and which are left alone for a while because they do not answer.
//
// The clients of a cluster stay good for as long as the pool is open: each request goes through the connections that
// the cluster has at that moment. When its kubeconfig Secret changes they are replaced, and when it is among the least
// recently used ones they are closed and opened again by the next request, under the feet of whoever holds the clients.
//
// A cluster that hangs holds up nobody but those who ask it: no lock is held while anything is waited for, dialing and
// the first byte of an answer have bounds of their own, and a dead connection is found by pings.
package userclusters
