package v1alpha1

import "time"

// CloudCall is one request to the cloud's API as the cloud saw it: a line of a cloud audit log (JSON lines). The lab's simulated endpoint writes
// it; a converter from a cloud provider's own audit trail may.
type CloudCall struct {
	// Seq orders calls by arrival; unique within one log.
	Seq int64 `json:"seq"`
	// Key is who asked: the access key id, one per process in the lab. Never a secret.
	Key string `json:"key"`
	// Service is the API: ec2, elb, elbv2, imds.
	Service string `json:"service"`
	// Action is the operation, e.g. CreateRoute.
	Action string `json:"action"`
	// Mutating tells whether the operation changes the cloud when it succeeds.
	Mutating bool `json:"mutating"`
	// Params are the request's parameters, flattened as they were sent.
	Params map[string]string `json:"params,omitempty"`
	// Resources are the cloud objects that the call named or made, e.g. "rtb-lab", "loadbalancer/a1b2".
	Resources []string `json:"resources,omitempty"`
	// Arrived is when the whole request had been read.
	Arrived time.Time `json:"arrived"`
	// Effect is when the change took effect (or the answer was computed); nil when it never did.
	Effect *time.Time `json:"effect,omitempty"`
	// Error is the API error code that was answered; empty when the call succeeded.
	Error string `json:"error,omitempty"`
	// Unknown marks a call that the simulator did not know; every one is a failure of the lab.
	Unknown bool `json:"unknown,omitempty"`
}
