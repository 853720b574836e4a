package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/unit"
)

const (
	unitDir  = "etc/systemd/system"
	unitLogs = "var/log/units"
	// unitGrace is how long a unit's program may take to end before it is killed; systemd's own is 90 s.
	unitGrace = 10 * time.Second
	// stopUnit is the reason of a process that systemctl has ended.
	stopUnit = "stopped by systemctl"
)

// units are the host's services next to the kubelet: programs that it starts from unit files in etc/systemd/system, as
// on a control plane that nobody made with kubeadm. As systemd does, it starts what it read when the host booted or at
// the last daemon-reload, and what a start finds in environment files.
type units struct {
	engine *engine
	// program finds what stands for an absolute path of the host that a unit starts.
	program func(path string) (string, error)
	// delay before a program that has ended by itself is started again.
	delay time.Duration

	mu     sync.Mutex
	loaded map[string]*unitService
	open   bool
}

// unitService is a service with its process.
type unitService struct {
	name  string // with .service
	units *units

	jobs sync.Mutex // one start or stop at a time

	mu     sync.Mutex // guards what follows
	file   []*unit.UnitOption
	proc   *process
	state  string
	since  time.Time
	starts int
	err    error
	retry  *time.Timer
}

// find returns the service of a unit file; nil when there is none.
func (u *units) find(name string) (*unitService, error) {
	name = strings.TrimSuffix(name, ".service") + ".service"
	u.mu.Lock()
	defer u.mu.Unlock()
	if p := u.loaded[name]; p != nil {
		return p, nil
	}
	file, err := u.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	p := &unitService{name: name, units: u, file: file, state: stateInactive, since: time.Now()}
	u.loaded[name] = p
	return p, nil
}

func (u *units) read(name string) ([]*unit.UnitOption, error) {
	f, err := os.Open(filepath.Join(u.engine.hostDir, unitDir, filepath.Base(name)))
	if err != nil {
		return nil, fmt.Errorf("opening unit %s: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	options, err := unit.DeserializeOptions(f)
	if err != nil {
		return nil, fmt.Errorf("reading unit %s: %w", name, err)
	}
	return options, nil
}

// reload reads the files of all known units again. What runs goes on as it is.
func (u *units) reload() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name, p := range u.loaded {
		file, err := u.read(name)
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.file = file
		p.mu.Unlock()
	}
	return nil
}

// names lists the units that there are on the host, the kubelet's first.
func (u *units) names() []string {
	files, _ := filepath.Glob(filepath.Join(u.engine.hostDir, unitDir, "*.service"))
	out := []string{kubeletUnit}
	for _, f := range files {
		if name := filepath.Base(f); name != kubeletUnit {
			out = append(out, name)
		}
	}
	return out
}

// power opens the units for jobs, or closes them: nothing is started again then. It ends no process; the engine does
// when its host stops.
func (u *units) power(on bool) {
	u.mu.Lock()
	u.open = on
	all := slices.Collect(maps.Values(u.loaded))
	u.mu.Unlock()
	if on {
		return
	}
	for _, p := range all {
		p.mu.Lock()
		p.state = stateInactive
		p.forgetRetry()
		p.mu.Unlock()
	}
}

func (u *units) isOpen() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.open
}

func (p *unitService) start() error {
	p.jobs.Lock()
	defer p.jobs.Unlock()
	if p.unit().state == stateActive {
		return nil
	}
	return p.begin()
}

func (p *unitService) restart() error {
	p.jobs.Lock()
	defer p.jobs.Unlock()
	p.end()
	return p.begin()
}

func (p *unitService) stop() {
	p.jobs.Lock()
	defer p.jobs.Unlock()
	p.end()
}

// begin starts a process. The job lock is held.
func (p *unitService) begin() error {
	if !p.units.isOpen() {
		return errStopped
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetRetry()
	p.proc, p.err = p.launch()
	p.starts++
	p.since = time.Now()
	if p.err != nil {
		p.state = stateInactive
		return p.err
	}
	p.state = stateActive
	return nil
}

// launch starts the unit's program. The lock is held.
func (p *unitService) launch() (*process, error) {
	e := p.units.engine
	words, env, err := p.command()
	if err != nil {
		return nil, err
	}
	file, err := p.units.program(words[0])
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(e.hostDir, unitLogs), 0o755); err != nil {
		return nil, fmt.Errorf("making log directory: %w", err)
	}
	out, err := os.OpenFile(filepath.Join(e.hostDir, unitLogs, p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, fmt.Errorf("opening log: %w", err)
	}
	defer func() { _ = out.Close() }() // the child has its own copy
	component := path.Base(words[0])
	args := []string{component}
	for _, w := range words[1:] {
		args = append(args, mapPaths(w, e.hostPaths()))
	}
	cmd := &exec.Cmd{
		Path:   file,
		Args:   args,
		Env:    append(slices.Clone(e.env), env...),
		Dir:    e.hostDir,
		Stdout: out,
		Stderr: out,
	}
	e.mu.Lock() // ended waits for it, so that it finds what is entered here
	proc, err := launch(e.spawner, cmd, newID(), component, p.ended)
	if err == nil {
		e.procs[proc] = true
	}
	e.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", words[0], err)
	}
	e.log.Info("Started unit", "unit", p.name, "pid", proc.pid)
	return proc, nil
}

// hostPaths say where the host's files are on this machine, for a program that sees all of them.
func (e *engine) hostPaths() []mount {
	var out []mount
	for _, dir := range []string{"/etc", "/usr", "/var", "/run", "/srv", "/opt"} {
		out = append(out, mount{dir, filepath.Join(e.hostDir, dir)})
	}
	return out
}

// ended is told by the process that it is gone. One that nobody has stopped is started again.
func (p *unitService) ended(proc *process) {
	p.units.engine.exited(p.name, p.name, proc)
	_, _, reason := proc.exit()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc != proc || p.state != stateActive {
		return
	}
	p.state, p.since, p.err = stateActivating, time.Now(), errors.New(reason)
	p.retry = time.AfterFunc(p.units.delay, p.again)
}

// again is the automatic restart (Restart=always).
func (p *unitService) again() {
	p.jobs.Lock()
	defer p.jobs.Unlock()
	if p.unit().state == stateActivating {
		_ = p.begin() // shown as the unit's state; nobody waits for it
	}
}

// end stops the process and waits for its end. The job lock is held.
func (p *unitService) end() {
	p.mu.Lock()
	proc := p.proc
	p.proc, p.state, p.err, p.since = nil, stateInactive, nil, time.Now()
	p.forgetRetry()
	p.mu.Unlock()
	if proc != nil {
		proc.stop(stopUnit, unitGrace)
		<-proc.done
	}
}

func (p *unitService) forgetRetry() {
	if p.retry != nil {
		p.retry.Stop()
		p.retry = nil
	}
}

func (p *unitService) unit() unitState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return unitState{state: p.state, since: p.since, starts: p.starts, err: p.err}
}

// command is the command line of a unit and its environment. It knows what the lab writes, and what a tool may make of
// that: one ExecStart, over several lines, without quotes; $NAME alone for the words of a variable.
func (p *unitService) command() (words, env []string, err error) {
	start := ""
	vars := map[string]string{}
	set := func(from map[string]string) {
		for name, value := range from {
			vars[name] = value
			env = append(env, name+"="+value)
		}
	}
	for _, o := range p.file {
		if o.Section != "Service" {
			continue
		}
		value := strings.ReplaceAll(o.Value, "\\\n", " ")
		switch o.Name {
		case "Environment":
			made, err := parseEnvFile([]byte(value))
			if err != nil {
				return nil, nil, fmt.Errorf("unit %s: %w", p.name, err)
			}
			set(made)
		case "EnvironmentFile":
			data, err := os.ReadFile(filepath.Join(p.units.engine.hostDir, filepath.Clean("/"+strings.TrimPrefix(value, "-"))))
			if err != nil {
				return nil, nil, fmt.Errorf("unit %s: %w", p.name, err)
			}
			made, err := parseEnvFile(data)
			if err != nil {
				return nil, nil, fmt.Errorf("unit %s: %s: %w", p.name, value, err)
			}
			set(made)
		case "ExecStart":
			if start != "" {
				return nil, nil, fmt.Errorf("unit %s has several ExecStart=", p.name)
			}
			start = value
		}
	}
	for _, w := range strings.Fields(start) {
		if strings.ContainsAny(w, `"'\`) {
			return nil, nil, fmt.Errorf(
				"unit %s: word %s of ExecStart= has quotes, which this host's service manager does not know",
				p.name,
				w,
			)
		}
		if name, ok := strings.CutPrefix(w, "$"); ok {
			words = append(words, strings.Fields(vars[name])...)
			continue
		}
		words = append(words, w)
	}
	if len(words) == 0 {
		return nil, nil, fmt.Errorf("unit %s has no ExecStart=", p.name)
	}
	slices.Sort(env)
	return words, env, nil
}

// StartUnit starts a service of the host, as systemctl start does.
func (k *Kubelet) StartUnit(name string) error {
	p, err := k.units.find(name)
	if err != nil {
		return err
	}
	if p == nil {
		return fmt.Errorf("host %q has no unit %s", k.opts.HostName, name)
	}
	return p.start()
}

// UnitPID is the process of a service that runs; zero when it does not.
func (k *Kubelet) UnitPID(name string) int {
	p, err := k.units.find(name)
	if err != nil || p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != stateActive || p.proc == nil {
		return 0
	}
	return p.proc.pid
}
