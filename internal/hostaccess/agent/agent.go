package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/transplant-dev/transplant/internal/boottime"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
)

const (
	// maxRequest bounds a call: the largest file, as base64.
	maxRequest = 32 << 20
	// finishFor is how long an agent that is told to end waits for the changes that are under way.
	finishFor = 20 * time.Second
	// hostRoot is the root of process 1, which is the host's where its processes are seen.
	hostRoot = "/proc/1/root"
)

// Options of an agent.
type Options struct {
	// Name of the host, for messages.
	Name string
	// Root is where the host's root directory is mounted.
	Root string
	// Parts are the directories that are mounted and may be changed, absolute on the host; with none, everything is
	// mounted and may only be read.
	Parts []string
	// Service allows to restart, stop and start units.
	Service bool
	// Idle is how long an agent lives without a request; zero means for ever.
	Idle time.Duration
	// Steady is how long a restarted kubelet has to live to be up. Patience is how long that may take. Zero means 10 s and
	// 90 s.
	Steady, Patience time.Duration
	// Clock is package boottime's when nil.
	Clock func() time.Duration
}

// Agent answers calls about one host.
type Agent struct {
	Options
	host    local.Machine // what is mounted
	units   local.Machine // the host itself; nil without Service
	results results
	asked   atomic.Int64 // when a call last began or ended, in nanoseconds
	active  atomic.Int64 // calls and tunnels that are under way
	server  *http.Server
}

// refused is what to do where a host refuses something to root.
const refused = "the host's SELinux or AppArmor, or an attribute of the file (lsattr), may refuse it; look for a denial in the host's audit log or journal, " +
	"and run again with --host-access=manual to make the change yourself"

// New returns an agent; Serve starts it.
func New(o Options) (*Agent, error) {
	o.Steady, o.Patience = cmp.Or(o.Steady, steady), cmp.Or(o.Patience, hostaccess.KubeletPatience)
	if o.Clock == nil {
		o.Clock = boottime.Now
	}
	a := &Agent{Options: o, results: results{now: time.Now, calls: map[string]*result{}}}
	if o.Service && len(o.Parts) == 0 { // nothing is mounted: what is looked at is the host itself
		a.Root = hostRoot
	}
	var err error
	if a.host, err = local.OpenMounted(
		local.MountedRoot{
			Name:    o.Name,
			Dir:     a.Root,
			Parts:   o.Parts,
			Refused: refused,
		},
	); err != nil {
		return nil, err
	}
	if o.Service {
		if a.units, err = local.OpenMounted(local.MountedRoot{Name: o.Name, Dir: hostRoot, Refused: refused}); err != nil {
			return nil, err
		}
	}
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	a.server = &http.Server{
		Handler:           http.HandlerFunc(a.serve),
		Protocols:         protocols,
		ReadHeaderTimeout: time.Minute,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 1000,
			SendPingTimeout:      20 * time.Second,
			PingTimeout:          20 * time.Second,
		},
	}
	return a, nil
}

// Serve answers on the listener until ctx ends, or no request has come for Idle. Changes that are under way are
// finished.
func (a *Agent) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.touch()
	go a.watch(ctx, cancel)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		a.finish()
		_ = a.server.Close()
	}()
	err := a.server.Serve(l)
	cancel()
	<-stopped
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("answering calls: %w", err)
}

// finish waits for the changes that are under way.
func (a *Agent) finish() {
	end := time.After(finishFor)
	for a.results.running() > 0 {
		select {
		case <-end:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (a *Agent) touch() { a.asked.Store(time.Now().UnixNano()) }

// watch ends an agent without requests.
func (a *Agent) watch(ctx context.Context, end func()) {
	if a.Idle <= 0 {
		return
	}
	ticker := time.NewTicker(max(a.Idle/20, 10*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if a.active.Load() == 0 && a.results.running() == 0 && time.Since(time.Unix(0, a.asked.Load())) > a.Idle {
			end()
			return
		}
	}
}

func (a *Agent) serve(w http.ResponseWriter, r *http.Request) {
	a.active.Add(1)
	a.touch()
	defer func() { a.touch(); a.active.Add(-1) }()
	method := strings.TrimPrefix(r.URL.Path, Prefix)
	if method == MethodDial {
		a.dial(w, r)
		return
	}
	id := r.Header.Get(CallHeader)
	if r.Method != http.MethodPost || id == "" || len(id) > 64 {
		http.Error(w, "a call is a POST with an ID", http.StatusBadRequest)
		return
	}
	var req Request
	if err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&req); err != nil {
		http.Error(w, "reading the call: "+err.Error(), http.StatusBadRequest)
		return
	}
	if !keepsResult(method) {
		_, _ = w.Write(a.answer(r.Context(), method, req))
		return
	}
	// The caller may be cut off and ask again: the call goes on.
	answer, err := a.results.once(
		r.Context(),
		id,
		func() []byte { return a.answer(context.WithoutCancel(r.Context()), method, req) }, //nolint:contextcheck // see above
	)
	if err == nil {
		_, _ = w.Write(answer)
	}
}

func (a *Agent) answer(ctx context.Context, method string, req Request) []byte {
	out, err := a.handleCall(ctx, method, req)
	root := a.Root
	if method == MethodUnit {
		root = hostRoot
	}
	out.Error = encodeError(err, root)
	return encodeAnswer(out)
}

func (a *Agent) handleCall(ctx context.Context, method string, req Request) (out Answer, err error) {
	switch method {
	case MethodHello:
		out.Hello = &Hello{Protocol: Protocol, Now: time.Now(), Clock: a.Clock()}
	case MethodRead:
		var f hostaccess.File
		f, err = a.host.ReadFile(ctx, req.Path)
		out.Data, out.Mode, out.Modified = f.Data, f.Mode, f.Modified
	case MethodList:
		out.Names, err = a.host.List(ctx, req.Path)
	case MethodDigest:
		out.SHA256, out.Mode, err = a.host.Digest(ctx, req.Path)
	case MethodPlace:
		var p local.Place
		p, err = a.host.Place(ctx, req.Path)
		out.Place = &p
	case MethodProcesses:
		out.Processes, err = a.host.Processes(ctx, req.Component)
	case MethodActive:
		out.Active, err = a.host.Active(ctx, req.Unit)
	case MethodRun:
		if req.Command == nil {
			return out, errors.New("there is no program to run")
		}
		out.Data, err = a.host.Run(ctx, *req.Command)
	case MethodWrite, MethodRemove, MethodUnit:
		err = a.handleChange(ctx, method, req)
	default:
		err = fmt.Errorf(
			"method %q is not known here: the image is of another version; name the right one with --host-image",
			method,
		)
	}
	return out, err
}

// handleChange does what the agent was started for, and nothing else.
func (a *Agent) handleChange(ctx context.Context, method string, req Request) error {
	if late := a.Clock() - req.Until; req.Until != 0 && late > 0 {
		return fmt.Errorf(
			"host %s was asked for a change %s too late, so that it was not begun: %w",
			a.Name,
			late.Round(time.Millisecond),
			hostaccess.ErrLockLost,
		)
	}
	if method == MethodUnit {
		return a.unit(ctx, req)
	}
	if len(a.Parts) == 0 {
		return fmt.Errorf("changing %s on host %s: %w", req.Path, a.Name, ErrNotGranted)
	}
	if method == MethodRemove {
		return a.host.Remove(ctx, req.Path)
	}
	return a.host.WriteFile(ctx, req.Path, req.Data, req.Mode)
}

func (a *Agent) unit(ctx context.Context, req Request) error {
	if a.units == nil {
		return fmt.Errorf("%s of %s on host %s: %w", req.Verb, req.Unit, a.Name, ErrNotGranted)
	}
	switch req.Verb {
	case VerbReload:
		return a.units.DaemonReload(ctx)
	case VerbRestart:
		return a.units.Restart(ctx, req.Unit)
	case VerbStop:
		return a.units.Stop(ctx, req.Unit)
	case VerbStart:
		return a.units.Start(ctx, req.Unit)
	case VerbRestartKubelet:
		if len(req.Before) > 0 {
			return a.restartGuarded(ctx, req.Before)
		}
		return a.units.RestartKubelet(ctx)
	}
	return fmt.Errorf("%q is nothing that can be done to a unit", req.Verb)
}

// Listen makes the socket on which an agent answers; a user who may enter its directory may ask it.
func Listen(socket string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the agent's socket: %w", err)
	}
	_ = os.Remove(socket) // of an earlier start in this pod
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("opening the agent's socket: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("closing the agent's socket to others: %w", err), l.Close())
	}
	return l, nil
}
