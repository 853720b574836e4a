// Package awssim decides what a simulated AWS answers: one HTTP endpoint for EC2, classic Elastic Load Balancing,
// Elastic Load Balancing v2 and the instance metadata service, as far as the in-tree AWS provider of Kubernetes 1.26,
// cloud-provider-aws 1.37 and, for volumes, the EBS CSI driver 1.63 use them.
//
// A call's way through the server, and what the audit log keeps of it:
//
//	request read --> arrived      (Seq, Key, Arrived)
//	   |  key unknown, action unknown, not permitted  --> refused, no effect
//	   |  faults: throttle, error, drop, hang         --> refused, no effect
//	   |  fault: latency before the effect               the client may leave meanwhile; the call goes on
//	   v
//	effect: guards, then the change, under one lock --> Effect, or the refusal's code
//	   |  faults: latency after the effect, error or drop although the change was made
//	   v
//	answer
//
// What it doesn't know it refuses and marks Unknown: an invented empty answer would read as "gone", and managers delete
// things that are gone. Signatures are not verified. The reference page, docs/reference/awssim.md, lists every action
// with its guards, and what is not known about the real service.
package awssim
