// Package skew decides which kube-apiservers our cloud-controller-manager may be run against: those against which its
// tests were run, on real ones, through the life of a node, of a load balancer, of a route and of a lease.
//
// What they prove is the range that the program itself reports with --version=json, and that transplant check goes
// by.
package skew
