package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/waiting"
)

// The kernel asks the far side of a kept connection for a sign of life, and gives up after some without an answer. The
// requests also keep the idle time-outs of most load balancers from running out.
const (
	keepAliveEvery = 2 * time.Second
	keepAliveTries = 3
	// silentFor is for how long nothing came when the kernel gives up.
	silentFor = keepAliveEvery * (1 + keepAliveTries)
)

const (
	// mustStand is how long a new connection has to stay open until it replaces one that was cut. A load balancer without
	// targets accepts connections, and closes them at once.
	mustStand = time.Second
	// shortestTimer is for how long a connection has to be silent until its end may be that of a timer.
	shortestTimer = time.Second
	// maxKept bounds the connections that are kept, and with them the open files of this process.
	maxKept = 500
)

// KeepOpen connects to a target for a connection that is kept.
func (d *Dialer) KeepOpen(ctx context.Context, t Target) (net.Conn, error) {
	conn, err := d.connect(ctx, "tcp", t.Address)
	if err != nil {
		return nil, err
	}
	if c, ok := conn.(*net.TCPConn); ok {
		alive := net.KeepAliveConfig{
			Enable:   true,
			Idle:     keepAliveEvery,
			Interval: keepAliveEvery,
			Count:    keepAliveTries,
		}
		if err := c.SetKeepAliveConfig(alive); err != nil {
			return nil, errors.Join(fmt.Errorf("asking for keepalives: %w", err), conn.Close())
		}
	}
	return conn, nil
}

// keepAfterLook returns a look at a port that starts to keep a connection through it once it has answered. A port that
// cannot be reached is therefore listed as not probed once. Without a slot it tries again after the next look.
func (r *run) keepAfterLook(
	ctx context.Context,
	t Target,
	look func(context.Context) error,
) func(context.Context) error {
	kept, said := false, false
	return func(looking context.Context) error {
		if err := look(looking); err != nil {
			return err
		}
		switch {
		case kept:
		case r.takeKept():
			kept = true
			r.wg.Go(func() {
				defer r.releaseKept()
				r.keepConnections(ctx, t)
			})
		case !said:
			said = true
			why := fmt.Sprintf("connections through %d other ports are kept already", r.maxKept)
			r.sink(v1.ProbeEvent{
				Time:  r.now(),
				Event: v1.ProbeSkipped,
				Kind:  v1.PathTCPKept,
				Path:  t.Path,
				Error: why,
			})
		}
		return nil
	}
}

// keepConnections keeps a connection through a port until ctx ends, and a new one after each that was cut.
func (r *run) keepConnections(ctx context.Context, t Target) {
	k := &keeper{run: r, target: t, path: r.pathOf(key{v1.PathTCPKept, t.Path}, 0)}
	for ctx.Err() == nil {
		opened := k.keepOne(ctx)
		switch {
		case opened:
		case k.path.isSkipped():
			waiting.For(ctx, retrySkipped)
		default:
			waiting.For(ctx, r.currentPace())
		}
	}
}

// takeKept takes a slot for a port, and reports whether one was free.
func (r *run) takeKept() bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.kept >= r.maxKept {
		return false
	}
	r.kept++
	return true
}

func (r *run) releaseKept() {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.kept--
}

// keeper keeps connections through one port, one after the other.
//
//	open --cut early----------------------------> down --a new one stands--> open
//	  └---closed as late as usual--> idle --no new one stands at once--> down
//	                                   └----a new one stands--> open, and no outage
type keeper struct {
	*run
	target Target
	path   *path
	life   life
	// last is how the connection before ended; nil once a new one stands.
	last *ending
}

// ending is the end of a connection.
type ending struct {
	// at is the last moment at which it was known to work, and seen when its end was seen.
	at, seen time.Time
	// quiet is for how long nothing had come over it while it was known to work.
	quiet time.Duration
	// isSilent reports whether the far side did not close it, but stopped to answer.
	isSilent bool
	// isIdle reports whether it is no outage, if a new one stands at once.
	isIdle bool
	// replaced reports whether a new one stood at once.
	replaced bool
	err      error
}

// keepOne opens a connection and keeps it until it ends. It returns false if none could be opened that stands.
func (k *keeper) keepOne(ctx context.Context) bool {
	conn, err := k.connect(ctx)
	if err != nil {
		k.recordMissing(ctx, err)
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	opened := k.now()
	heard := time.Now()
	if err = conn.SetReadDeadline(heard.Add(k.mustStand)); err == nil {
		err = discardInput(conn, &heard)
	}
	if !isTimeout(err) {
		k.recordMissing(ctx, fmt.Errorf("a new connection was closed within %s: %w", k.mustStand, err))
		return false
	}
	if ctx.Err() != nil {
		return false
	}
	k.recordStanding(opened)
	if err = conn.SetReadDeadline(time.Time{}); err == nil {
		err = discardInput(conn, &heard)
	}
	if ctx.Err() == nil {
		seen := k.now()
		k.recordEnd(endingOf(err, opened, seen, time.Since(heard)))
	}
	return true
}

// connect waits for its turn and connects.
func (k *keeper) connect(ctx context.Context) (net.Conn, error) {
	release, ok := k.turn(ctx, k.path.isDown())
	if !ok {
		return nil, ctx.Err()
	}
	defer release()
	connecting, cancel := context.WithTimeout(ctx, k.Timeout)
	defer cancel()
	conn, err := k.Keep(connecting, k.target)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s", k.Timeout)
	}
	return conn, err
}

// discardInput reads until that fails. It notes when something came last: an idle time-out counts from then.
func discardInput(conn net.Conn, heard *time.Time) error {
	buffer := make([]byte, 4<<10)
	for {
		n, err := conn.Read(buffer)
		if n > 0 {
			*heard = time.Now()
		}
		if err != nil {
			return err
		}
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// endingOf returns how a connection ended whose read failed.
func endingOf(err error, opened, seen time.Time, quiet time.Duration) ending {
	e := ending{
		at:    seen,
		seen:  seen,
		quiet: quiet,
		err:   err,
	}
	switch {
	case errors.Is(err, io.EOF):
		e.err = errors.New("the far side closed it")
	case isTimeout(err), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		e.isSilent, e.at = true, seen.Add(-silentFor)
		if e.at.Before(opened) {
			e.at = opened
		}
		e.quiet = max(0, quiet-silentFor)
		e.err = fmt.Errorf("the far side does not answer keepalives: %w", err)
	}
	return e
}

// recordMissing notes that a connection could not be opened, or did not stand.
func (k *keeper) recordMissing(ctx context.Context, err error) {
	if ctx.Err() != nil || k.hasJumped() {
		return
	}
	now := k.now()
	since := now
	if k.last != nil && k.last.isIdle {
		since = k.last.at
	}
	k.last = nil
	k.path.broke(since, now, err)
}

// recordStanding notes that a connection stands since it was opened.
func (k *keeper) recordStanding(opened time.Time) {
	if k.last != nil {
		k.last.replaced = true
		if k.last.isIdle {
			k.path.reconnected()
		}
	}
	k.last = nil
	k.path.up(opened)
}

// recordEnd notes how a connection ended. Ends of connections over which this machine slept prove nothing.
func (k *keeper) recordEnd(e ending) {
	if k.hasJumped() {
		return
	}
	revoked := k.life.judge(&e)
	if revoked != nil {
		k.path.revoke(k.now(), revoked.at)
	}
	k.last = &e
	if !e.isIdle {
		k.path.broke(e.at, e.seen, e.err)
	}
}

// life is what is known of how long connections through a port stay open without a word. Load balancers and servers
// close a silent connection by a timer, which is no disruption: it strikes each as late as the one before. One end
// proves no timer, also where clouds have one of that length: a migration may have cut the connection by then.
type life struct {
	// longest is for how long a connection was silent that has ended.
	longest time.Duration
	// cut is the end of that connection, where it was taken for a cut.
	cut *ending
	// usual reports whether a timer is known to end connections after longest.
	usual bool
}

// judge finds whether a connection was closed since it was idle. It returns an earlier end that turns out to have been
// no cut either, if there is one.
func (l *life) judge(e *ending) (revoked *ending) {
	slack := slackOf(l.longest)
	switch {
	case e.quiet < max(shortestTimer, l.longest-slack):
		return nil // no timer is as short, or a connection that was silent for longer proves that none ended this one
	case e.quiet > l.longest+slack:
		*l = life{longest: e.quiet} // no timer strikes earlier than that
		if !e.isSilent {
			l.cut = e
		}
	case e.isSilent:
		l.cut = nil
	case l.usual:
		e.isIdle = true
	case l.cut != nil:
		e.isIdle, l.usual = true, true
		if l.cut.replaced {
			revoked = l.cut
		}
		l.cut = nil
	default:
		l.cut = e
	}
	return revoked
}

// slackOf is by how much the same timer may strike earlier or later.
func slackOf(d time.Duration) time.Duration {
	return min(max(d/20, 250*time.Millisecond), 5*time.Second)
}
