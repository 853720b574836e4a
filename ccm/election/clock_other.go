//go:build !linux

package election

import "time"

// Boottime returns the process's monotonic clock where there is no CLOCK_BOOTTIME. On such a system, time that the machine is suspended may not
// be counted; managers run in production on Linux.
func Boottime() Clock { return monotonic{time.Now()} }

type monotonic struct{ start time.Time }

func (m monotonic) Now() time.Duration { return time.Since(m.start) }
