// Package elb decides what classic load balancers exist and which calls about them are refused.
//
// Guards follow the Elastic Load Balancing API reference, version 2012-06-01: each action's page lists its errors.
// Where the reference is silent, the comment at the guard names the evidence. Nothing here is safe for concurrent use:
// the server serialises calls.
package elb
