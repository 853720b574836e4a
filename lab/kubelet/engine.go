package kubelet

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// engine is the container runtime of a host: it holds the pods and their processes, and outlives each single run of the
// kubelet.
type engine struct {
	host    string
	hostDir string
	address string
	env     []string
	resolve func(image string) (string, error)
	onExit  func(ExitRecord)
	log     *slog.Logger
	spawner *spawner

	mu    sync.Mutex
	pods  map[string]*pod // by namespace/name
	procs map[*process]bool
	exits []ExitRecord
}

// pod is a static pod that was started and not yet wholly stopped.
type pod struct {
	static  *staticPod
	address string // status.podIP, and where probes go
	created metav1.Time
	wake    chan struct{} // a process ended or a probe changed its mind

	mu         sync.Mutex
	containers []*container
	ready      bool
	readySince metav1.Time // since when ready has been what it is
}

// container is one container of a pod, over all its restarts. The pod's lock guards it.
type container struct {
	spec     *corev1.Container
	proc     *process                         // the latest one; nil before the first start
	waiting  corev1.ContainerStateWaiting     // why nothing runs; without a reason if the process tells
	last     *corev1.ContainerStateTerminated // the end before proc
	restarts int32
	handled  bool          // the end of proc has been reacted to
	delay    time.Duration // back-off of the next restart
	next     time.Time     // nothing is started before
	started  bool          // the startup probe has passed
	ready    bool
}

func (e *engine) pod(key string) *pod {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pods[key]
}

func (e *engine) keys() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.pods))
}

func (e *engine) create(s *staticPod) *pod {
	p := &pod{
		static:  s,
		address: cmp.Or(s.address, e.address),
		created: metav1.Now().Rfc3339Copy(),
		wake:    make(chan struct{}, 1),
	}
	spec := &s.effective().Spec
	for i := range spec.Containers {
		p.containers = append(p.containers, &container{
			spec: &spec.Containers[i], waiting: corev1.ContainerStateWaiting{Reason: reasonCreating},
		})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pods[s.key()] = p
	return p
}

func (e *engine) forget(p *pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pods[p.static.key()] == p {
		delete(e.pods, p.static.key())
	}
}

func (p *pod) poke() {
	select {
	case p.wake <- struct{}{}:
	default: // already awake
	}
}

// processes lists what runs, or has just ended, in the pod.
func (p *pod) processes() []*process {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*process
	for _, c := range p.containers {
		if c.proc != nil {
			out = append(out, c.proc)
		}
	}
	return out
}

const (
	podLogs           = "var/log/pods"
	containerIDScheme = "lab://"
	// stopGrace is what a container gets when the host goes down.
	stopGrace = 2 * time.Second
	stopHost  = "host stopped"
)

// start starts a container of the pod. What keeps it from running is returned as the state to show.
func (e *engine) start(p *pod, c *container, attempt int32) (*process, *corev1.ContainerStateWaiting) {
	spec := p.static.effective()
	mounts, err := mountsOf(e.hostDir, spec, c.spec)
	if err != nil {
		return nil, &corev1.ContainerStateWaiting{Reason: reasonCreating, Message: err.Error()}
	}
	program, err := e.program(p, c.spec)
	if err != nil {
		return nil, &corev1.ContainerStateWaiting{
			Reason:  reasonImage,
			Message: fmt.Sprintf("resolving image %q: %v", c.spec.Image, err),
		}
	}
	if !filepath.IsAbs(program) { // it would be looked for in the host's directory
		return nil, &corev1.ContainerStateWaiting{
			Reason:  reasonImage,
			Message: fmt.Sprintf("resolving image %q: program %q is not an absolute path", c.spec.Image, program),
		}
	}
	isolated := p.static.programs[c.spec.Name].Isolated
	rewritten := mounts
	if isolated {
		rewritten = nil
	}
	line, err := commandOf(spec, c.spec, program, p.address, e.env, rewritten)
	if err != nil {
		return nil, &corev1.ContainerStateWaiting{Reason: reasonConfig, Message: err.Error()}
	}
	out, err := e.logFile(p, c, attempt)
	if err != nil {
		return nil, &corev1.ContainerStateWaiting{Reason: reasonRun, Message: err.Error()}
	}
	defer func() { _ = out.Close() }() // the child has its own copy
	cmd := &exec.Cmd{Path: program, Args: line.args, Env: line.env, Dir: e.hostDir, Stdout: out, Stderr: out}
	if isolated {
		if err := e.isolate(cmd, p.static.pod.Name, mounts); err != nil {
			return nil, &corev1.ContainerStateWaiting{Reason: reasonRun, Message: err.Error()}
		}
	}
	if p.static.hostName != "" {
		nameHost(cmd, p.static.hostName)
	}
	e.mu.Lock() // ended waits for it, so that it finds what is entered here
	proc, err := launch(e.spawner, cmd, newID(), line.component, func(done *process) { e.ended(p, c.spec.Name, done) })
	if err == nil {
		e.procs[proc] = true
	}
	e.mu.Unlock()
	if err != nil {
		return nil, &corev1.ContainerStateWaiting{Reason: reasonRun, Message: fmt.Sprintf("starting %q: %v", program, err)}
	}
	e.log.Info(
		"Started container",
		"pod",
		p.static.key(),
		"container",
		c.spec.Name,
		"pid",
		proc.pid,
		"attempt",
		attempt,
		"hash",
		p.static.hash(),
	)
	return proc, nil
}

// program is what a container runs: what its pod says, or what stands for its image.
func (e *engine) program(p *pod, c *corev1.Container) (string, error) {
	if program, ok := p.static.programs[c.Name]; ok {
		return program.Path, nil
	}
	return e.resolve(c.Image)
}

// logFile is where the container's output goes, as it comes: without the time and stream that a container runtime puts
// before each line.
func (e *engine) logFile(p *pod, c *container, attempt int32) (*os.File, error) {
	spec := p.static.pod
	dir := filepath.Join(e.hostDir, podLogs, fmt.Sprintf("%s_%s_%s", spec.Namespace, spec.Name, spec.UID), c.spec.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making log directory: %w", err)
	}
	// A pod that comes back with its old hash, after a revert, has its old directory too.
	return os.OpenFile(filepath.Join(dir, fmt.Sprintf("%d.log", attempt)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
}

func (e *engine) ended(p *pod, name string, proc *process) {
	e.exited(p.static.key(), name, proc)
	p.poke()
}

// exited records the end of a process of a pod, or of a unit.
func (e *engine) exited(pod, name string, proc *process) {
	code, at, reason := proc.exit()
	record := ExitRecord{
		Host: e.host, Pod: pod, Container: name, Component: proc.component, PID: proc.pid, StartTicks: proc.startTicks,
		Started: proc.started, Ended: at, ExitCode: code, Reason: reason,
	}
	e.mu.Lock()
	delete(e.procs, proc)
	e.exits = append(e.exits, record)
	e.mu.Unlock()
	e.log.Info("Container ended", "pod", pod, "container", name, "pid", proc.pid, "exitCode", code, "reason", reason)
	if e.onExit != nil {
		e.onExit(record)
	}
}

// stopAll ends every process of the host and waits for it; when ctx ends, or after a short grace, without asking.
func (e *engine) stopAll(ctx context.Context) {
	e.mu.Lock()
	procs := slices.Collect(maps.Keys(e.procs))
	e.pods = map[string]*pod{}
	e.mu.Unlock()
	for _, p := range procs {
		if ctx.Err() != nil { // a power cut asks nobody
			p.kill(stopHost)
			continue
		}
		p.stop(stopHost, stopGrace)
	}
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	for _, p := range procs {
		select {
		case <-p.done:
		case <-ctx.Done():
			p.kill(stopHost)
		case <-timer.C:
			timer.Reset(0)
			p.kill(stopHost)
		}
		<-p.done
	}
}

func newID() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
