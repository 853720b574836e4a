package election

import (
	"time"

	"golang.org/x/sys/unix"
)

// Boottime returns the clock that goes on while the machine is suspended. Go's own monotonic clock stands still then, and a guest that was
// frozen would take its lease for fresh.
func Boottime() Clock { return boottime{} }

type boottime struct{}

func (boottime) Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("reading CLOCK_BOOTTIME: " + err.Error()) // every Linux since 2.6.39 has it; without a clock nothing may be written
	}
	return time.Duration(ts.Nano())
}
