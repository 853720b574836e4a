package hostedrun

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/cloudconfig"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
	"github.com/transplant-dev/transplant/internal/status"
	"github.com/transplant-dev/transplant/internal/waiting"
)

const (
	// askPeriod is how often the managers are asked which loops they run while a status is followed.
	askPeriod = 5 * time.Second
	// tokenPeriod is how often the token is read meanwhile. It warns a month before it ends, and may be renewed.
	tokenPeriod = time.Minute
)

// Board is what is read of both clusters for a status, and followed. Leases only say who may run a loop, so that the
// managers in the seed are asked as well.
type Board struct {
	*status.Board
	migration *Migration

	mu      sync.Mutex
	isAsked bool
	said    answers
}

// answers are what the managers, and the token of the new one, say.
type answers struct {
	// owners of the loops, and how each of them is known.
	owners, ownersFrom map[string]string
	health             []v1.Blocker
	notRead            []string
	// tokenRead is when the token was read last; zero where it was not found.
	tokenRead time.Time
	token     []v1.Blocker
}

func newAnswers() answers {
	return answers{owners: map[string]string{}, ownersFrom: map[string]string{}}
}

// NewBoard returns an empty board. It reads by the clients of a plane: those that follow changes have no limit of a
// request's time.
func (m *Migration) NewBoard(ctx context.Context, through *hosted.Plane) *Board {
	return &Board{Board: through.Board(ctx, m.Part, m.seedTime), migration: m}
}

// seedTime is that of the seed's API server.
func (m *Migration) seedTime() time.Time {
	switch {
	case m.Now != nil:
		return m.Now()
	case m.Plane.Clock != nil:
		return m.Plane.Clock.Now()
	}
	return time.Now()
}

// Status says how the part stands and who runs the loops.
func (m *Migration) Status(ctx context.Context) v1.Status {
	b := m.NewBoard(ctx, m.Plane)
	b.Look(ctx)
	return b.Status()
}

// Look reads everything once.
func (b *Board) Look(ctx context.Context) {
	b.Board.Look(ctx)
	b.askManagers(ctx)
}

// Follow follows the objects, and asks the managers again and again, until ctx ends.
func (b *Board) Follow(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { b.Board.Follow(ctx) })
	defer wg.Wait()
	for ctx.Err() == nil {
		b.askManagers(ctx)
		waiting.For(ctx, askPeriod)
	}
}

// Ready reports whether everything was read, and every manager asked, at least once.
func (b *Board) Ready() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.isAsked && b.Board.Ready()
}

// Status is what the board holds now.
func (b *Board) Status() v1.Status {
	f := b.Facts()
	b.mu.Lock()
	f.Owners, f.OwnersFrom = b.said.owners, b.said.ownersFrom
	f.Health = slices.Concat(b.said.health, b.said.token)
	f.NotRead = slices.Concat(f.NotRead, b.said.notRead)
	b.mu.Unlock()
	return b.Judge(f)
}

// Judge sums facts of the board up. The command that comes next is one for the control plane in the seed: without its
// namespace it would change another cluster.
func (b *Board) Judge(f status.Facts) v1.Status {
	s := status.Judge(f)
	s.Next = b.next(s)
	return s
}

// askManagers has the managers say which loops they run.
func (b *Board) askManagers(ctx context.Context) {
	b.mu.Lock()
	said := newAnswers()
	said.tokenRead, said.token = b.said.tokenRead, b.said.token
	b.mu.Unlock()
	owners, err := b.migration.Plane.Owners(ctx)
	if err != nil {
		said.notRead = append(said.notRead, err.Error())
	}
	said.addOwners(owners)
	if now := b.migration.seedTime(); now.Sub(said.tokenRead) >= tokenPeriod {
		said.readToken(ctx, b.migration, now)
	}
	if ctx.Err() != nil {
		return // what failed was this end
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isAsked, b.said = true, said
}

// addOwners takes in which manager runs which loop. That none runs it is known where each manager has answered.
func (a *answers) addOwners(found hosted.Owners) {
	for _, loop := range hosted.LoopNames() {
		o, has := found.Loops[loop]
		switch {
		case o.Component != "":
			a.owners[loop], a.ownersFrom[loop] = o.Component+"@"+o.Pod, status.FromGauges
			if o.ByLease {
				a.ownersFrom[loop] = status.ByLeaseAndFlags
			}
		case has && len(found.Unknown) == 0 && len(found.Managers) > 0:
			a.owners[loop], a.ownersFrom[loop] = status.NoOwner, status.FromGauges
		}
		for _, also := range o.Also {
			a.health = append(a.health, v1.Blocker{
				Code: v1.BlockerTwoOwners, Level: "error", Impact: findings.ImpactTwoOwners,
				Message: fmt.Sprintf("loop %s also runs in %s", loop, also),
			})
		}
	}
	a.notRead = append(a.notRead, found.Unknown...)
}

// readToken says when the manager's token cannot be used or not for long. What was said of it before stays while it
// cannot be read.
func (a *answers) readToken(ctx context.Context, m *Migration, now time.Time) {
	token, err := m.Plane.ManagerToken(ctx)
	if err != nil {
		a.notRead = append(a.notRead, err.Error())
		return
	}
	a.tokenRead, a.token = time.Time{}, nil
	if token == nil {
		return
	}
	a.tokenRead = now
	if why := cloudconfig.TokenProblem(token, now); why != "" {
		a.token = []v1.Blocker{{
			Code: v1.BlockerTokenExpires, Level: "warning", Impact: findings.ImpactNoLoops,
			Message: "transplant renew --seed-namespace " + m.Plane.Namespace + ": " + token.Path + " of the seed" + why,
		}}
	}
}

// next is the command that comes next.
func (b *Board) next(s v1.Status) string {
	m := b.migration
	at := " --seed-namespace " + m.Plane.Namespace
	command := "transplant apply --part " + string(m.Part) + at
	if s.Phase == v1.RunRollingBack {
		command = "transplant rollback" + at
	}
	switch {
	case s.Untrusted != "":
		return "find out who wrote the journal's ConfigMap in namespace " + m.Plane.Namespace + " of the seed"
	case s.State == v1.StateUnknown:
		return "repair why the journal was not read, then transplant status" + m.Where(m.Part)
	case s.State == v1.StateStalled:
		return command + " --steal-lock, once " + s.Lock.Holder + " has ended for certain"
	case s.State == v1.StateFailed:
		return "repair the error, then " + command
	case s.State == v1.StatePaused && s.Lock == nil:
		return pause.HowToResume(b.Home) + ", then " + command
	case s.Paused != nil && s.State != v1.StateApplied && s.State != v1.StateRolledBack:
		return pause.HowToResume(b.Home)
	case s.Phase == v1.RunApplied && m.Part == hosted.Handover:
		return "transplant apply --part finish" + at + ", when the machines are done"
	case s.Phase == v1.RunApplied:
		return ""
	case s.State == v1.StateApplying, s.State == v1.StateRollingBack:
		return "transplant status --watch" + m.Where(m.Part)
	}
	return command
}
