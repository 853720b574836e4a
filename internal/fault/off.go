//go:build !faults

// Package fault is where tests make hosts, clocks and steps fail. Without the build tag faults it does nothing.
package fault

import (
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// Hook is nil outside of fault-injection builds (-tags faults).
var Hook func(point, step string)

// Hosts hands the hosts on as they are: only fault-injection builds can lose one.
func Hosts(hosts []hostaccess.Host) []hostaccess.Host { return hosts }

// Clock is this machine's clock: only fault-injection builds can have another.
func Clock() clock.Clock { return clock.RealClock{} }

// HostProcesses reports whether what runs on a host is seen among this machine's processes. That is so of simulated
// hosts alone.
var HostProcesses = func(string) bool { return false }

// HostPrograms reports whether programs in a directory of a host may be run on this machine: only fault-injection
// builds do.
func HostPrograms(string) bool { return false }
