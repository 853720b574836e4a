// Package service decides which load balancer each Service of type LoadBalancer has in the cloud, and makes it so.
//
// It stands in for upstream's service-lb-controller: finalizer, status, events and the rules of membership are the same. It differs in being
// level-triggered. What a load balancer should be (spec and annotations, members) is compared with what this process last made it, so a change that
// is taken back, or that changes nothing the cloud knows of, costs no call.
//
//	Service event ──────────────┐                       ┌─> ensure   spec, annotations: EnsureLoadBalancer, status
//	node events ──batch──node──>├─> queue ──> judge ──> ├─> update   members only: UpdateLoadBalancer
//	drift check, resync ────────┤   "service"           ├─> status   somebody changed it: patched back, without a call
//	retry, back-off ────────────┘                       ├─> check    GetLoadBalancer: still there, still at its address?
//	                                                    └─> cleanup  EnsureLoadBalancerDeleted, finalizer
//
// What is in line is also kept in a ConfigMap, as fingerprints, so that the next leader does not ensure everything again. An entry is taken out
// before the call that makes it untrue, and a leader believes the entries only if none but managers of this kind have led since they were written.
package service
