//go:build !faults

package main

import (
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// testHook is nil outside of fault-injection builds (-tags faults).
var testHook func(point, step string)

// testHosts hands the hosts on as they are: only fault-injection builds can lose one.
func testHosts(hosts []hostaccess.Host) []hostaccess.Host { return hosts }

// testClock is this machine's clock: only fault-injection builds can have another.
func testClock() clock.Clock { return clock.RealClock{} }
