package host

import (
	"context"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// clock asks how far the host's clock is from this machine's. A lease is renewed by one clock and judged by another.
func (l *hostReader) clock(ctx context.Context) {
	fact := "clocks/" + l.host.Name
	c, ok := l.access.(hostaccess.Clock)
	if !ok {
		l.Unknown(
			fact,
			"this way to host "+l.host.Name+" does not tell its clock: compare \"date +%s.%N\" there with this machine's",
		)
		return
	}
	offset, uncertainty, err := c.Offset(ctx)
	if err != nil {
		l.Unknown(fact, "asking for the clock of host "+l.host.Name+": "+err.Error())
		return
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Snap.Clocks = append(l.Snap.Clocks, v1.Clock{
		Who: "host/" + l.host.Name, OffsetMillis: offset.Milliseconds(), UncertaintyMillis: uncertainty.Milliseconds(),
	})
}
