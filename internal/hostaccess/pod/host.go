// Package pod decides how hosts are reached through the Kubernetes API alone. That is through pods that are pinned to
// their nodes and mount no more of a host than they need.
//
//	look pod     one for each node, for the life of a command: everything is mounted and only read
//	change pod   one for each grant: the directories of that grant are mounted and may be changed; privileged only where units are restarted
//
// A pod is reached through one exec session. A session that breaks, because an API server or a kubelet was restarted,
// is opened again. What was under way goes on (see package agent). A lost pod is made again. Neither needs this process
// to clean up. The agents end without requests. The pods belong to a Job that is complete when it is created, and
// Kubernetes deletes it with them when it is no longer renewed.
package pod

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/agent"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
)

// remoteClock translates moments of this machine's clock to that of an agent, so that the agent can refuse what arrives
// late. Both clocks count the time for which their machines are suspended. Their values have nothing in common, and the
// time of day plays no part.
type remoteClock struct {
	now func() time.Duration

	mu    sync.Mutex
	known bool
	// ahead is by how much the agent's clock is ahead of this one's, or more; heard is when that was known.
	ahead, heard time.Duration
}

// drift is by how much the two clocks may go apart: twice what a kernel lets a clock be slewed.
const drift = time.Second / 1000 // in each second

// learn takes in what an agent said of its clock. It read it before the answer was received, so the agent's clock is
// ahead by as much or more. A moment that is translated with it comes too early on the agent's clock, and never too
// late. The answer that was quickest on its way knows it best.
func (c *remoteClock) learn(hello *agent.Hello) {
	if hello == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	heard := c.now()
	ahead := hello.Clock - heard
	if c.known {
		ahead = max(ahead, c.ahead-(heard-c.heard)/time.Second*drift-drift)
	}
	c.known, c.ahead, c.heard = true, ahead, heard
}

// translate returns a moment of this machine's clock on the agent's, or one before it.
func (c *remoteClock) translate(at time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := max(0, at-c.heard)
	return at + c.ahead - since/time.Second*drift - drift
}

// host is one node's machine.
type host struct {
	a      *access
	name   string
	reader *podSession

	mu      sync.Mutex
	grants  []*grant
	warmPod *warmPod
}

var (
	_ hostaccess.Host     = (*host)(nil)
	_ hostaccess.Units    = (*host)(nil)
	_ hostaccess.Executor = (*host)(nil)
	_ hostaccess.Digester = (*host)(nil)
	_ hostaccess.Clock    = (*host)(nil)
	_ hostaccess.Granter  = (*host)(nil)
	_ hostaccess.Dialer   = (*host)(nil)

	_ hostaccess.KubeletGuard = (*host)(nil)
)

func newHost(a *access, name string) *host {
	s := spec{
		Namespace: a.Namespace,
		Node:      name,
		Image:     a.Image,
		Run:       a.run,
		Idle:      a.Idle,
	}
	return &host{a: a, name: name, reader: newPodSession(a, name, s)}
}

func (h *host) Name() string { return h.name }

func (h *host) ReadFile(ctx context.Context, p string) (hostaccess.File, error) {
	out, err := h.reader.callAgent(ctx, agent.MethodRead, agent.Request{Path: p})
	if err != nil {
		return hostaccess.File{}, err
	}
	return hostaccess.File{Data: out.Data, Mode: out.Mode, Modified: out.Modified}, nil
}

func (h *host) List(ctx context.Context, dir string) ([]string, error) {
	out, err := h.reader.callAgent(ctx, agent.MethodList, agent.Request{Path: dir})
	return out.Names, err
}

func (h *host) Processes(ctx context.Context, component string) ([]v1.Process, error) {
	out, err := h.reader.callAgent(ctx, agent.MethodProcesses, agent.Request{Component: component})
	return out.Processes, err
}

func (h *host) Digest(ctx context.Context, p string) (string, fs.FileMode, error) {
	out, err := h.reader.callAgent(ctx, agent.MethodDigest, agent.Request{Path: p})
	return out.SHA256, out.Mode, err
}

// Run starts one of the host's own programs with the rights to look and no others.
func (h *host) Run(ctx context.Context, c hostaccess.Command) ([]byte, error) {
	out, err := h.reader.callAgent(ctx, agent.MethodRun, agent.Request{Command: &c})
	return out.Data, err
}

func (h *host) Active(ctx context.Context, unit string) (bool, error) {
	out, err := h.reader.callAgent(ctx, agent.MethodActive, agent.Request{Unit: unit})
	return out.Active, err
}

func (h *host) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return h.reader.dial(ctx, network, address)
}

func (h *host) WriteFile(ctx context.Context, p string, data []byte, mode fs.FileMode) error {
	g, inside, err := h.granted(p)
	if err != nil {
		return err
	}
	_, err = g.session.callAgent(ctx, agent.MethodWrite, agent.Request{Path: inside, Data: data, Mode: mode})
	return err
}

func (h *host) Remove(ctx context.Context, p string) error {
	g, inside, err := h.granted(p)
	if err != nil {
		return err
	}
	_, err = g.session.callAgent(ctx, agent.MethodRemove, agent.Request{Path: inside})
	return err
}

func (h *host) RestartKubelet(ctx context.Context) error {
	return h.unit(ctx, agent.Request{Verb: agent.VerbRestartKubelet, Unit: component.Kubelet})
}

// RestartKubeletGuarded leaves it to the agent to put the files back: while the kubelet does not run, the host cannot
// be reached through it.
func (h *host) RestartKubeletGuarded(ctx context.Context, before []hostaccess.GuardedFile) error {
	files := slices.Clone(before)
	for i := range files {
		_, inside, err := h.granted(files[i].Path)
		if err != nil {
			return err
		}
		files[i].Path = inside
	}
	return h.unit(ctx, agent.Request{Verb: agent.VerbRestartKubelet, Unit: component.Kubelet, Before: files})
}

func (h *host) DaemonReload(ctx context.Context) error {
	return h.unit(ctx, agent.Request{Verb: agent.VerbReload, Unit: "the units"})
}

func (h *host) Restart(ctx context.Context, unit string) error {
	return h.unit(ctx, agent.Request{Verb: agent.VerbRestart, Unit: unit})
}

func (h *host) Stop(ctx context.Context, unit string) error {
	return h.unit(ctx, agent.Request{Verb: agent.VerbStop, Unit: unit})
}

func (h *host) Start(ctx context.Context, unit string) error {
	return h.unit(ctx, agent.Request{Verb: agent.VerbStart, Unit: unit})
}

func (h *host) unit(ctx context.Context, req agent.Request) error {
	h.mu.Lock()
	i := slices.IndexFunc(h.grants, func(g *grant) bool { return g.need.Service })
	var g *grant
	if i >= 0 {
		g = h.grants[i]
	}
	h.mu.Unlock()
	if g == nil {
		return fmt.Errorf("%s of %s on host %s: %w", req.Verb, req.Unit, h.name, agent.ErrNotGranted)
	}
	_, err := g.session.callAgent(ctx, agent.MethodUnit, req)
	return err
}

// looks is how often the clock is asked for; the quickest answer knows it best.
const looks = 5

// Offset is measured by round trips: the host's time was read between the question and the answer.
func (h *host) Offset(ctx context.Context) (offset, uncertainty time.Duration, err error) {
	for range looks {
		asked := time.Now()
		out, err := h.reader.callAgent(ctx, agent.MethodHello, agent.Request{})
		if err != nil {
			return 0, 0, err
		}
		trip := time.Since(asked)
		if out.Hello == nil {
			return 0, 0, errors.New("the agent's answer holds no time")
		}
		if u := (trip + 1) / 2; uncertainty == 0 || u < uncertainty {
			uncertainty, offset = u, out.Hello.Now.Sub(asked.Round(0).Add(trip/2))
		}
	}
	return offset, uncertainty, nil
}

// grant is a change pod and what it may do.
type grant struct {
	need          hostaccess.Need
	resolvedPaths map[string]string // where each granted path really is
	spec          spec
	session       *podSession
}

// Grant makes a change pod for what is needed, and waits until it can be asked.
func (h *host) Grant(ctx context.Context, n hostaccess.Need) (func(context.Context), error) {
	g := &grant{need: n, resolvedPaths: map[string]string{}}
	var dirs []string
	for _, p := range n.Write {
		out, err := h.reader.callAgent(ctx, agent.MethodPlace, agent.Request{Path: p})
		if err != nil {
			return nil, err
		}
		if out.Place == nil || out.Place.Dir == "/" {
			return nil, fmt.Errorf(
				"changing %s on host %s: of its path only the root exists, and the root is never opened for changes; create its directory there first",
				p,
				h.name,
			)
		}
		g.resolvedPaths[p] = out.Place.Path
		dirs = append(dirs, out.Place.Dir)
	}
	h.reader.mu.Lock()
	s := h.reader.spec
	h.reader.mu.Unlock()
	s.Change, s.Service, s.Purpose, s.Parts = true, n.Service, n.Purpose, outermost(dirs)
	g.spec = s
	if g.session = h.takeWarmPod(s); g.session == nil {
		g.session = newPodSession(h.a, h.name, s)
	}
	limited, cancel := context.WithTimeout(ctx, h.a.Start+h.a.Look)
	defer cancel()
	if _, _, err := g.session.get(limited); err != nil {
		clean, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer stop()
		if !errors.Is(err, syscall.ENOSPC) { // the host is there, and full
			err = g.session.unreachable(ctx, limited, err)
		}
		return nil, errors.Join(err, g.session.remove(clean))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.grants = append(h.grants, g)
	return func(ctx context.Context) { h.release(ctx, g) }, nil
}

// release ends a grant: nothing can be changed through it any longer. Its pod is taken away, at once or when it has
// lingered.
func (h *host) release(ctx context.Context, g *grant) {
	h.mu.Lock()
	h.grants = slices.DeleteFunc(h.grants, func(other *grant) bool { return other == g })
	h.mu.Unlock()
	if h.a.Linger <= 0 {
		h.remove(ctx, g.session)
		return
	}
	h.putSpare(ctx, g)
}

// remove takes a change pod away. What cannot be taken away now goes with its Job.
func (h *host) remove(ctx context.Context, c *podSession) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := c.remove(ctx); err != nil {
		h.a.Tell(fmt.Sprintf("%v: it is taken away at the end", err))
	}
}

// warmPod is a change pod that no grant has. Steps of one host follow each other, and most need the same directories. A
// pod for each would take longer to start than the steps take.
type warmPod struct {
	spec    spec
	session *podSession
	timer   *time.Timer
}

// takeWarmPod returns a change pod that is there and may do exactly what is needed; nil for none.
func (h *host) takeWarmPod(s spec) *podSession {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.warmPod
	if p == nil || p.spec.Service != s.Service || !slices.Equal(p.spec.Parts, s.Parts) || !p.timer.Stop() {
		return nil
	}
	h.warmPod = nil
	return p.session
}

// putSpare keeps a change pod for a while; the one that was kept so far goes.
func (h *host) putSpare(ctx context.Context, g *grant) {
	p := &warmPod{spec: g.spec, session: g.session}
	h.mu.Lock()
	older := h.warmPod
	h.warmPod = p
	p.timer = time.AfterFunc(h.a.Linger, func() {
		h.mu.Lock()
		if h.warmPod == p {
			h.warmPod = nil
		}
		h.mu.Unlock()
		if h.a.living.Err() == nil { // else it went with everything else
			h.remove(h.a.living, p.session)
		}
	})
	h.mu.Unlock()
	if older != nil && older.timer.Stop() {
		h.remove(ctx, older.session)
	}
}

// granted finds the grant that covers a path, and where the path really is.
func (h *host) granted(p string) (*grant, string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.grants) - 1; i >= 0; i-- {
		g := h.grants[i]
		for _, w := range g.need.Write {
			if local.Within(path.Clean(w), path.Clean(p)) {
				return g, path.Join(g.resolvedPaths[w], path.Clean(p)[len(path.Clean(w)):]), nil
			}
		}
	}
	return nil, "", fmt.Errorf("changing %s on host %s: %w", p, h.name, agent.ErrNotGranted)
}

// outermost drops the directories that lie in others, and sorts the rest.
func outermost(dirs []string) []string {
	slices.Sort(dirs)
	var out []string
	for _, d := range dirs {
		if !slices.ContainsFunc(out, func(o string) bool { return local.Within(o, d) }) {
			out = append(out, d)
		}
	}
	return out
}
