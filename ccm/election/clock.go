package election

import (
	"time"

	"github.com/transplant-dev/transplant/internal/boottime"
)

// Boottime returns the clock that goes on while the machine is suspended. Go's own monotonic clock stands still then, and a guest that was
// frozen would take its lease for fresh. Where there is no CLOCK_BOOTTIME it is the monotonic clock; managers run in production on Linux.
func Boottime() Clock { return bootClock{} }

type bootClock struct{}

func (bootClock) Now() time.Duration { return boottime.Now() }
