package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since the machine was started.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		// every Linux since 2.6.39 has it; without a clock nothing may be written
		panic("reading CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
