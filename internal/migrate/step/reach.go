package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// Reachability are the hosts that could not be reached, each with the last attempt.
type Reachability struct {
	Mu           sync.Mutex
	LastAttempts map[string]lastAttempt
}

type lastAttempt struct {
	at  time.Time
	err error
}

// awayFor is for how long an unreachable host is not tried again by callers that read all hosts. A read may take a
// minute to fail.
const awayFor = 20 * time.Second

// NoteUnreachable remembers a host that was out of reach.
func (e *Env) NoteUnreachable(err error) {
	if out, ok := errors.AsType[*hostaccess.UnreachableError](err); ok {
		e.UnreachableHosts.Mu.Lock()
		defer e.UnreachableHosts.Mu.Unlock()
		if e.UnreachableHosts.LastAttempts == nil {
			e.UnreachableHosts.LastAttempts = map[string]lastAttempt{}
		}
		e.UnreachableHosts.LastAttempts[out.Host] = lastAttempt{e.Clock.Now(), out}
	}
}

// RecentlyUnreachable is what the last attempt to reach a host ended with, if that was a moment ago.
func (e *Env) RecentlyUnreachable(host string) error {
	e.UnreachableHosts.Mu.Lock()
	defer e.UnreachableHosts.Mu.Unlock()
	if a, ok := e.UnreachableHosts.LastAttempts[host]; ok && e.Clock.Since(a.at) < awayFor {
		return a.err
	}
	return nil
}

// LookTimeout bounds one more look at a host that was out of reach.
const LookTimeout = 15 * time.Second

// WhyUnreachable is why a host cannot be looked at; nil when it can.
func (e *Env) WhyUnreachable(ctx context.Context, name string) error {
	h, ok := e.HostsByName[name]
	if !ok {
		return errors.New("it is not among the hosts of --host-access")
	}
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	_, err := h.List(ctx, "/etc/kubernetes")
	if out, ok := errors.AsType[*hostaccess.UnreachableError](err); ok {
		return out.Err
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("no answer in %s", LookTimeout)
	}
	return nil
}

// IsExcluded reports whether a step has nothing to act on any longer: its host, or its node.
func (e *Env) IsExcluded(s v1.Step) (v1.HostOut, bool) {
	for _, h := range e.Journal.Doc().Without {
		if s.Host == h.Name || s.Kind == v1.StepInitializeNode && s.Ref == "Node/"+h.Node {
			return h, true
		}
	}
	return v1.HostOut{}, false
}

// IsNodeExcluded reports whether a node's host was taken out of the migration.
func (e *Env) IsNodeExcluded(node string) bool {
	return slices.ContainsFunc(e.Journal.Doc().Without, func(h v1.HostOut) bool { return h.Node == node })
}
