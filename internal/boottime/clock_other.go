//go:build !linux

package boottime

import "time"

var started = time.Now()

// Now is the time since the process was started, where there is no CLOCK_BOOTTIME. On such a system, time that the
// machine is suspended may not be counted.
func Now() time.Duration { return time.Since(started) }
