//go:build !faults

package main

// testHook is nil outside of fault-injection builds (-tags faults).
var testHook func(point, step string)
