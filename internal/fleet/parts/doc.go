// Package parts decides what else of a cluster has to change when its cloud loops have moved: how machine-controller, its webhook and
// operating-system-manager are started, so that new machines are external, and which CSI driver the user cluster runs, so that their volumes work.
//
// Both come only when the cloud-controller-manager is ready: a machine that is made external before that waits for somebody who is not there. What was
// patched is never undone here, since the API forbids switching the feature off.
package parts
