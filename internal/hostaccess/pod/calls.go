package pod

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/agent"
)

const (
	// failedFor is how long a pod that could not be started is not tried again. Every request about the host gets the same
	// answer meanwhile.
	failedFor = 30 * time.Second
	// impatience is after how long a waiting operator is told.
	impatience = 3 * time.Second
	// reminder is how often a line says that a host still cannot be asked.
	reminder = time.Minute
	// maxLost bounds how many pods are made without success before a host is given up.
	maxLost = 4
)

// podSession is one pod with its agent, made again when it is lost, and the session with it, opened again when it
// breaks.
type podSession struct {
	a    *access
	node string
	kind string
	spec spec // what every pod of this session is; its name differs

	mu         sync.Mutex
	pod        string // the pod that is there; empty when one has to be made
	uid        types.UID
	running    bool
	why        string    // it does not run yet, in words
	job        types.UID // what the pod belongs to
	generation int       // counts the pods
	session    *session
	opening    *opening
	failed     error
	failedAt   time.Time
	closed     bool
}

// opening is a session that is being opened; several callers may wait for it.
type opening struct {
	done chan struct{}
	err  error
}

func newPodSession(a *access, node string, s spec) *podSession {
	c := &podSession{
		a:    a,
		node: node,
		kind: AccessLook,
		spec: s,
	}
	if s.Change {
		c.kind = AccessChange
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.carriers[c] = true
	return c
}

var errClosed = errors.New("the access to the hosts was closed")

// get returns a session with a running agent, and the number of its pod. It waits as long as ctx does.
func (c *podSession) get(ctx context.Context) (*session, int, error) {
	told, said := time.After(impatience), ""
	for {
		c.mu.Lock()
		switch {
		case c.closed:
			c.mu.Unlock()
			return nil, 0, errClosed
		case c.hasSession():
			s, n := c.session, c.generation
			c.mu.Unlock()
			return s, n, nil
		case c.failed != nil && time.Since(c.failedAt) < failedFor:
			err := c.failed
			c.mu.Unlock()
			return nil, 0, err
		}
		o := c.beginOpening() //nolint:contextcheck // it is opened for all who wait, not for the first of them
		c.mu.Unlock()
	wait:
		select {
		case <-o.done:
			if o.err != nil {
				return nil, 0, o.err
			}
		case <-told:
			if why := c.waitsFor(); why != said {
				said = why
				hostaccess.Progress(ctx, "waiting for %s", why)
			}
			told = time.After(impatience)
			goto wait
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// hasSession reports whether there is a session. The session is locked.
func (c *podSession) hasSession() bool { return c.session != nil && !c.session.isOver() }

// beginOpening has a session opened, unless that is under way. The session is locked.
func (c *podSession) beginOpening() *opening {
	c.failed = nil
	if c.opening == nil {
		o := &opening{done: make(chan struct{})}
		c.opening = o
		c.a.loops.Go(func() { c.reopen(o) })
	}
	return c.opening
}

// reopen makes a session, and whatever it needs, once for all who wait.
func (c *podSession) reopen(o *opening) {
	ctx, cancel := context.WithTimeout(c.a.living, c.a.Start+c.a.Change)
	defer cancel()
	s, err := c.establish(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opening = nil
	if err == nil && c.closed {
		s.close()
		err = errClosed
	}
	if err != nil {
		if _, ok := errors.AsType[*startError](err); ok {
			c.failed, c.failedAt = err, time.Now()
		}
	} else {
		c.session = s
	}
	o.err = err
	close(o.done)
}

// establish tries until there is a session or a reason why there will be none.
func (c *podSession) establish(ctx context.Context) (*session, error) {
	lost, begun := 0, time.Now()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		s, err := c.try(ctx)
		if err == nil {
			return s, nil
		}
		if _, ok := errors.AsType[*startError](err); ok || isFinal(err) || errors.Is(err, errClosed) {
			return nil, err
		}
		if gone, ok := errors.AsType[*lostError](err); ok {
			if lost++; lost > maxLost {
				return nil, &startError{c.node, fmt.Errorf("%d pods were lost one after the other: %w", lost, err)}
			}
			c.a.Tell(fmt.Sprintf("the pod on host %s is gone (%s): making another one", c.node, gone.reason))
			if c.adopt(ctx) == nil {
				continue
			}
		}
		if ctx.Err() == nil { // else nothing is tried again
			c.a.reportUnreachable(c.node, time.Since(begun), err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (the last attempt: %w)", ctx.Err(), err)
		case <-time.After(wait):
		}
	}
}

// adopt sees that the next pod has an owner: one whose owner is gone would be taken away, too, as soon as it is there.
func (c *podSession) adopt(ctx context.Context) error {
	c.mu.Lock()
	job := c.job
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return c.a.ownAgain(ctx, job)
}

// reportUnreachable reports whether a host cannot be asked, once for all who want to, and again as long as that lasts.
func (a *access) reportUnreachable(node string, waited time.Duration, err error) {
	if waited <= 2*impatience {
		return
	}
	a.mu.Lock()
	soon := time.Since(a.told[node]) < reminder
	if !soon {
		a.told[node] = time.Now()
	}
	a.mu.Unlock()
	if !soon {
		a.Tell(fmt.Sprintf("host %s cannot be asked for %s now, trying again: %v", node, waited.Round(time.Second), err))
	}
}

// try makes a pod unless there is one, waits until it runs, and opens a session with it.
func (c *podSession) try(ctx context.Context) (*session, error) {
	c.mu.Lock()
	name, uid, running, closed := c.pod, c.uid, c.running, c.closed
	c.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if name == "" {
		var err error
		if name, uid, err = c.create(ctx); err != nil {
			return nil, err
		}
	}
	if !running {
		if err := c.await(ctx, name, uid); err != nil {
			return nil, c.forget(err) //nolint:contextcheck // a pod of no use is deleted, too, when nobody waits any longer
		}
		c.mu.Lock()
		c.running = true
		c.mu.Unlock()
	}
	s, err := open(ctx, c.a.exec, c.a.Namespace, name)
	if err == nil {
		// A session is opened by name. What has the UID now had it then, too.
		if _, err := c.get1(ctx, name, uid); err != nil {
			s.close()
			return nil, c.forget(err) //nolint:contextcheck // see above
		}
		return s, nil
	}
	if isFinal(err) {
		return nil, fmt.Errorf("asking pod %s/%s: %w", c.a.Namespace, name, err)
	}
	if lost := c.whyLost(ctx, name, uid); lost != nil {
		return nil, c.forget(lost) //nolint:contextcheck // see above
	}
	return nil, fmt.Errorf(
		"opening a session with pod %s/%s: %s",
		c.a.Namespace,
		name,
		sessionURL.ReplaceAllString(err.Error(), ""),
	)
}

// sessionURL is what the library repeats in its errors: the address of a session, with all that is run in it.
var sessionURL = regexp.MustCompile(`(?:Post|Get) "[^"]*/exec\?[^"]*": `)

// forget makes the next attempt make a pod, where this one is of no use any longer.
func (c *podSession) forget(err error) error {
	_, failed := errors.AsType[*startError](err)
	_, lost := errors.AsType[*lostError](err)
	if !failed && !lost {
		return err
	}
	c.mu.Lock()
	name := c.pod
	c.pod, c.running = "", false
	c.mu.Unlock()
	_ = c.a.discard(name) // it goes with its Job at the latest
	return err
}

// discard deletes a pod that is of no use.
func (a *access) discard(name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.living), 5*time.Second)
	defer cancel()
	return a.deletePod(ctx, name)
}

// callAgent asks the agent once, however often sessions break. A call that may not be repeated, and whose pod was lost
// while it was under way, is an error.
func (c *podSession) callAgent(ctx context.Context, method string, req agent.Request) (agent.Answer, error) {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return agent.Answer{}, fmt.Errorf("asking host %s: %w", c.node, err)
	}
	limit := c.limit(method, req)
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer in %s", limit))
	defer cancel()
	asked := 0
	for {
		s, generation, err := c.get(limited)
		if err != nil {
			return agent.Answer{}, c.unreachable(ctx, limited, err)
		}
		if asked != 0 && asked != generation && !canRepeat(method) {
			return agent.Answer{}, fmt.Errorf(
				"the pod on host %s was lost while it did what was asked (%s): whether that was done is not known; run the same command again, which looks first",
				c.node,
				method,
			)
		}
		body, err := c.encode(limited, s, method, req)
		if err != nil {
			return agent.Answer{}, err
		}
		asked = generation
		answer, err := s.callOnce(limited, method, hex.EncodeToString(random), body)
		switch {
		case err == nil:
			return answer, answer.Error.Err()
		case !errors.Is(err, errBroken):
			return agent.Answer{}, c.unreachable(ctx, limited, err)
		}
		c.dropSession(s)
	}
}

// encode makes the body of one attempt. A change that depends on a lock says until when it may be started, on the
// agent's clock. A change that is delayed, or sent by a machine that slept in between, is then refused.
func (c *podSession) encode(ctx context.Context, s *session, method string, req agent.Request) ([]byte, error) {
	if agent.Changes(method) {
		until, depends, err := hostaccess.LockedUntil(ctx)
		if err != nil {
			return nil, fmt.Errorf("changing host %s: %w", c.node, err)
		}
		if depends {
			req.Until = s.clock.translate(until)
		}
	}
	body, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("asking host %s: %w", c.node, err)
	}
	return body, nil
}

// canRepeat reports whether a call may be done twice: looking may, and so may writing the same bytes or removing a
// file that is gone.
func canRepeat(method string) bool { return method != agent.MethodUnit && method != agent.MethodRun }

// limit is how long a call may take with all its attempts.
func (c *podSession) limit(method string, req agent.Request) time.Duration {
	switch method {
	case agent.MethodWrite, agent.MethodRemove:
		return c.a.Change
	case agent.MethodUnit:
		if req.Verb == agent.VerbRestartKubelet {
			// a guard needs KubeletPatience and seconds; who waits longer waits for a kubelet that a person has to start
			return c.a.Change
		}
		return c.a.Change + 2*time.Minute
	case agent.MethodRun:
		if req.Command != nil && req.Command.Timeout > 0 {
			return c.a.Look + req.Command.Timeout
		}
		return c.a.Look + time.Minute
	}
	return c.a.Look
}

// unreachable is the error of a host that is out of reach, unless the caller itself gave up.
func (c *podSession) unreachable(ctx, limited context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if limited.Err() != nil {
		err = context.Cause(limited)
		c.mu.Lock()
		if c.pod != "" {
			err = fmt.Errorf("pod %s/%s: %w: the API server or the kubelet does not answer", c.a.Namespace, c.pod, err)
		}
		c.mu.Unlock()
	}
	return &hostaccess.UnreachableError{Host: c.node, Err: err}
}

// dial opens a connection from the host.
func (c *podSession) dial(ctx context.Context, network, address string) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, c.a.Look)
	defer cancel()
	for {
		s, _, err := c.get(limited)
		if err != nil {
			return nil, c.unreachable(ctx, limited, err)
		}
		conn, err := s.dial(limited, network, address)
		if !errors.Is(err, errBroken) {
			return conn, err
		}
		c.dropSession(s)
	}
}

// dropSession closes a session that broke, so that the next call opens another one.
func (c *podSession) dropSession(s *session) {
	s.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == s {
		c.session = nil
	}
}

// ping tells the agent that its client is still there. A session that broke is opened again next to it, and one that is
// being opened is left to its waiting caller. Among hundreds of hosts, unreachable ones would otherwise take the time
// of the others, whose agents would end.
func (c *podSession) ping(ctx context.Context) {
	c.mu.Lock()
	wanted, answers := !c.closed && c.failed == nil, c.hasSession()
	if wanted && !answers && c.pod != "" {
		c.beginOpening() //nolint:contextcheck // see get
	}
	c.mu.Unlock()
	if wanted && answers {
		_, _ = c.callAgent(ctx, agent.MethodHello, agent.Request{}) // the next caller for the host learns what is wrong
	}
}

// shut ends the session; the pod stays.
func (c *podSession) shut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.session != nil {
		c.session.close()
	}
}

// remove ends the session and deletes the pod.
func (c *podSession) remove(ctx context.Context) error {
	c.shut()
	c.a.mu.Lock()
	delete(c.a.carriers, c)
	c.a.mu.Unlock()
	c.mu.Lock()
	name := c.pod
	c.mu.Unlock()
	if name == "" {
		return nil
	}
	return c.a.deletePod(ctx, name)
}
