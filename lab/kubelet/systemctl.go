package kubelet

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// systemctlScript is the host's systemctl. It needs a POSIX shell and nothing else: a request is a file, and so is the
// answer. A socket would need a helper program, and a FIFO would hang whoever opens it after the lab has died.
//
//go:embed systemctl.sh
var systemctlScript []byte

const spoolDir = "run/systemctl"

// control answers the host's systemctl.
type control struct {
	spool   string
	service *service
	units   *units
	log     *slog.Logger
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// newControl installs usr/bin/systemctl in the host and serves it until close.
func newControl(hostDir string, s *service, u *units, log *slog.Logger) (*control, error) {
	c := &control{spool: filepath.Join(hostDir, spoolDir), service: s, units: u, log: log}
	if err := os.RemoveAll(c.spool); err != nil {
		return nil, fmt.Errorf("clearing %q: %w", spoolDir, err)
	}
	if err := os.MkdirAll(c.spool, 0o700); err != nil {
		return nil, fmt.Errorf("making %q: %w", spoolDir, err)
	}
	if err := os.WriteFile(filepath.Join(c.spool, "pid"), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("writing the service manager's PID: %w", err)
	}
	path := filepath.Join(hostDir, "usr/bin/systemctl")
	if err := os.WriteFile(path, systemctlScript, 0o755); err != nil { //nolint:gosec // a program of the host
		return nil, fmt.Errorf("installing systemctl: %w", err)
	}
	if err := os.Chmod(path, 0o755); err != nil { //nolint:gosec // as above, whatever the umask
		return nil, fmt.Errorf("installing systemctl: %w", err)
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching %q: %w", spoolDir, err)
	}
	if err := watcher.Add(c.spool); err != nil {
		return nil, fmt.Errorf("watching %q: %w", spoolDir, err)
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // outlives the call that made it: it ends with close
	c.cancel = cancel
	c.wg.Go(func() {
		defer func() { _ = watcher.Close() }()
		c.serve(ctx, watcher)
	})
	return c, nil
}

// close stops to answer; a systemctl that still asks is told that nobody is there.
func (c *control) close() {
	c.cancel()
	c.wg.Wait()
	_ = os.Remove(filepath.Join(c.spool, "pid"))
}

func (c *control) serve(ctx context.Context, watcher *fsnotify.Watcher) {
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-watcher.Errors:
			c.log.Warn("Watching for systemctl", "err", err)
		case e := <-watcher.Events:
			id, request := strings.CutSuffix(filepath.Base(e.Name), ".req")
			if !request || !e.Has(fsnotify.Create) {
				continue
			}
			if err := c.answer(e.Name, filepath.Join(c.spool, id)); err != nil {
				c.log.Warn("Answering systemctl", "err", err)
			}
		}
	}
}

// answer reads one request, one argument a line, and writes the outputs and last the exit code, for which the script
// waits.
func (c *control) answer(request, reply string) error {
	data, err := os.ReadFile(request)
	if err != nil {
		return fmt.Errorf("reading request: %w", err)
	}
	args := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	out, errOut, code := c.systemctl(args)
	c.log.Info("systemctl", "args", args, "exitCode", code)
	for _, f := range []struct{ suffix, content string }{{".out", out}, {".err", errOut}, {".tmp", strconv.Itoa(code) + "\n"}} {
		if err := os.WriteFile(reply+f.suffix, []byte(f.content), 0o600); err != nil {
			return fmt.Errorf("writing answer: %w", err)
		}
	}
	return os.Rename(reply+".tmp", reply+".rc")
}

// Exit codes of systemctl.
const (
	exitOK       = 0
	exitFailed   = 1
	exitInactive = 3
	exitNoUnit   = 5
)

func (c *control) systemctl(args []string) (out, errOut string, code int) {
	var words, options []string
	for _, a := range args {
		if strings.HasPrefix(a, "-") || len(options) > 0 && options[len(options)-1] == "-p" {
			options = append(options, a)
		} else if a != "" {
			words = append(words, a)
		}
	}
	if len(words) == 0 {
		return "", "systemctl: no command given\n", exitFailed
	}
	verb, units := words[0], words[1:]
	if verb == "daemon-reload" {
		if err := c.units.reload(); err != nil {
			return "", fmt.Sprintf("Failed to reload daemon: %v\n", err), exitFailed
		}
		return "", "", exitOK
	}
	if !slices.Contains([]string{"restart", "stop", "start", "is-active", "show", "status"}, verb) {
		return "", fmt.Sprintf(
			"Unknown command verb %s: this host knows restart, stop, start, is-active, status, show and daemon-reload.\n",
			verb,
		), exitFailed
	}
	name, job := c.find(units)
	if job == nil {
		return "", fmt.Sprintf(
			"Unit %s not found: this host has %s only.\n",
			strings.Join(units, " "),
			strings.Join(c.units.names(), ", "),
		), exitNoUnit
	}
	var err error
	switch verb {
	case "restart":
		err = job.restart()
	case "start":
		err = job.start()
	case "stop":
		job.stop()
	default:
		return show(verb, name, options, job.unit())
	}
	if err != nil {
		return "", fmt.Sprintf("Job for %s failed: %v\nSee %s of the host for details.\n", name, err, logOf(name)), exitFailed
	}
	return "", "", exitOK
}

// job is a unit that can be started and stopped.
type job interface {
	start() error
	restart() error
	stop()
	unit() unitState
}

// find is the one unit that is named, with its full name; nil when there is no such one.
func (c *control) find(units []string) (string, job) {
	if len(units) != 1 {
		return "", nil
	}
	name := strings.TrimSuffix(units[0], ".service") + ".service"
	if name == kubeletUnit {
		return name, c.service
	}
	p, err := c.units.find(name)
	if err != nil {
		c.log.Warn("Reading unit", "unit", name, "err", err)
	}
	if p == nil {
		return "", nil
	}
	return name, p
}

const kubeletUnit = "kubelet.service"

func logOf(name string) string {
	if name == kubeletUnit {
		return "var/log/kubelet.log"
	}
	return unitLogs + "/" + name + ".log"
}

func show(verb, name string, options []string, u unitState) (out, errOut string, code int) {
	if u.state != stateActive {
		code = exitInactive
	}
	sub := map[string]string{stateActive: "running", stateInactive: "dead", stateActivating: "auto-restart"}[u.state]
	result := "success"
	if u.err != nil {
		result = "exit-code"
	}
	switch verb {
	case "is-active":
		if slices.Contains(options, "-q") || slices.Contains(options, "--quiet") {
			return "", "", code
		}
		return u.state + "\n", "", code
	case "status":
		text := fmt.Sprintf(name+"\n   Active: %s (%s) since %s\n", u.state, sub, u.since.UTC().Format(time.RFC3339))
		if u.err != nil {
			text += fmt.Sprintf("   Error: %v\n", u.err)
		}
		return text, "", code
	}
	wanted, bare := properties(options)
	var b bytes.Buffer
	for _, p := range [][2]string{
		{"Id", name},
		{"LoadState", "loaded"},
		{"ActiveState", u.state},
		{"SubState", sub},
		{"Result", result},
		{"NRestarts", strconv.Itoa(max(0, u.starts-1))},
		{"StateChangeTimestamp", u.since.UTC().Format("Mon 2006-01-02 15:04:05 MST")},
	} {
		if len(wanted) > 0 && !slices.Contains(wanted, p[0]) {
			continue
		}
		if !bare {
			b.WriteString(p[0] + "=")
		}
		b.WriteString(p[1] + "\n")
	}
	return b.String(), "", exitOK
}

// properties reads -p NAME,NAME, -pNAME, --property=NAME and --value.
func properties(options []string) (names []string, bare bool) {
	for i, o := range options {
		switch {
		case o == "--value":
			bare = true
		case o == "-p" && i+1 < len(options):
			names = append(names, strings.Split(options[i+1], ",")...)
		case strings.HasPrefix(o, "--property="):
			names = append(names, strings.Split(strings.TrimPrefix(o, "--property="), ",")...)
		case strings.HasPrefix(o, "-p") && len(o) > 2:
			names = append(names, strings.Split(o[2:], ",")...)
		}
	}
	return names, bare
}
