package units

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Exit codes of systemctl that its callers know.
const (
	exitOK        = 0
	exitFailure   = 1
	exitNotActive = 3
	exitNoUnit    = 4
	exitNotLoaded = 5
)

// Systemctl executes a command line of systemctl, without the program's name, and returns its exit code. What it
// does not know it refuses.
func (m *Manager) Systemctl(args []string, out, errs io.Writer) int {
	c, err := parse(args)
	if err != nil {
		fmt.Fprintln(errs, err)
		return exitFailure
	}
	c.out, c.errs = out, errs
	switch c.verb {
	case "daemon-reload":
		return c.report(m.Reload())
	case "start":
		return c.each(m.Start)
	case "stop":
		return c.each(m.Stop)
	case "restart":
		return c.each(m.Restart)
	case "enable", "disable":
		return c.each(m.known) // every host starts its services at boot
	case "is-enabled":
		return c.answer(m, func(*service) (string, int) { return "enabled", exitOK })
	case "is-active":
		return c.answer(m, func(s *service) (string, int) {
			if s.state == Active {
				return s.state, exitOK
			}
			return s.state, exitNotActive
		})
	case "show":
		return c.show(m)
	case "status":
		return c.status(m)
	case "cat":
		return c.cat(m)
	}
	fmt.Fprintf(errs, "systemctl of the lab's hosts does not know %q\n", c.verb)
	return exitFailure
}

// call is a parsed command line.
type call struct {
	verb       string
	units      []string
	properties []string
	value      bool // print values alone
	quiet      bool
	out, errs  io.Writer
}

func parse(args []string) (*call, error) {
	c := &call{}
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		switch {
		case name == "-p" || name == "--property":
			if !given {
				if i++; i == len(args) {
					return nil, fmt.Errorf("option %s needs a value", name)
				}
				value = args[i]
			}
			c.properties = append(c.properties, strings.Split(value, ",")...)
		case args[i] == "--value":
			c.value = true
		case args[i] == "--quiet" || args[i] == "-q":
			c.quiet = true
		case slices.Contains([]string{"--no-pager", "--full", "-l", "--no-ask-password", "--system", "--now"}, args[i]):
		case strings.HasPrefix(args[i], "-"):
			return nil, fmt.Errorf("systemctl of the lab's hosts does not know the option %q", args[i])
		case c.verb == "":
			c.verb = args[i]
		default:
			c.units = append(c.units, args[i])
		}
	}
	if c.verb == "" {
		return nil, errors.New("systemctl of the lab's hosts needs a command")
	}
	if len(c.units) == 0 && c.verb != "daemon-reload" {
		return nil, fmt.Errorf("systemctl %s needs a unit", c.verb)
	}
	return c, nil
}

func (c *call) report(err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(c.errs, err)
	if errors.Is(err, errNotFound) {
		return exitNotLoaded
	}
	return exitFailure
}

func (c *call) each(do func(string) error) int {
	code := exitOK
	for _, name := range c.units {
		if failed := c.report(do(name)); failed != exitOK {
			code = failed
		}
	}
	return code
}

// known reports whether a unit has a file.
func (m *Manager) known(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.get(name)
	return err
}

// answer prints one word per unit.
func (c *call) answer(m *Manager, say func(*service) (string, int)) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	code := exitOK
	for _, name := range c.units {
		word, failed := Inactive, exitNoUnit
		if s, err := m.get(name); err == nil {
			word, failed = say(s)
		}
		if failed != exitOK {
			code = failed
		}
		if !c.quiet {
			fmt.Fprintln(c.out, word)
		}
	}
	return code
}

// show prints properties; a unit without a file has the load state not-found, which is no error.
func (c *call) show(m *Manager) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, name := range c.units {
		if n > 0 {
			fmt.Fprintln(c.out)
		}
		all := m.properties(name)
		wanted := c.properties
		if len(wanted) == 0 {
			for _, p := range all {
				wanted = append(wanted, p[0])
			}
		}
		for _, p := range all {
			if !slices.Contains(wanted, p[0]) {
				continue
			}
			if c.value {
				fmt.Fprintln(c.out, p[1])
				continue
			}
			fmt.Fprintf(c.out, "%s=%s\n", p[0], p[1])
		}
	}
	return exitOK
}

// properties are what is known of a unit, in a fixed order.
func (m *Manager) properties(name string) [][2]string {
	s, err := m.get(name)
	if s == nil {
		return [][2]string{
			{"Id", FullName(name)},
			{"LoadState", "not-found"},
			{"ActiveState", Inactive},
			{"SubState", "dead"},
			{"MainPID", "0"},
		}
	}
	out := [][2]string{{"Id", FullName(name)}}
	if s.unit == nil || err != nil {
		return append(
			out,
			[2]string{"LoadState", "bad-setting"},
			[2]string{"ActiveState", s.state},
			[2]string{"SubState", s.sub},
			[2]string{"MainPID", "0"},
		)
	}
	pid := 0
	if s.process != nil {
		pid = s.process.PID
	}
	return append(
		out,
		[2]string{
			"LoadState",
			"loaded",
		},
		[2]string{"ActiveState", s.state},
		[2]string{"SubState", s.sub},
		[2]string{"UnitFileState", "enabled"},
		[2]string{"MainPID", fmt.Sprint(pid)},
		[2]string{"NRestarts", fmt.Sprint(max(0, s.starts-1))},
		[2]string{"FragmentPath", s.unit.Path},
		[2]string{"DropInPaths", strings.Join(s.unit.DropIns, " ")},
		[2]string{"StateChangeTimestamp", s.since.UTC().Format(time.RFC3339Nano)},
		[2]string{"Environment", strings.Join(names(s.unit.Environment), " ")},
		[2]string{"EnvironmentFiles", strings.Join(s.unit.EnvironmentFiles, " ")},
	)
}

// names leaves out the values: they may be credentials.
func names(assignments []string) []string {
	var out []string
	for _, a := range assignments {
		name, _, _ := strings.Cut(a, "=")
		out = append(out, name)
	}
	return out
}

// status prints what a person, and kubeadm, reads.
func (c *call) status(m *Manager) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	code := exitOK
	for _, name := range c.units {
		s, err := m.get(name)
		if s == nil || s.unit == nil {
			fmt.Fprintf(
				c.out,
				"Unit %s could not be found.\n   Loaded: not-found (Reason: %v)\n   Active: inactive (dead)\n",
				FullName(name),
				err,
			)
			code = exitNoUnit
			continue
		}
		fmt.Fprintf(
			c.out,
			"* %s - %s\n   Loaded: loaded (%s; enabled)\n  Drop-In: %s\n   Active: %s (%s) since %s\n",
			s.unit.Name,
			s.unit.Description,
			s.unit.Path,
			strings.Join(s.unit.DropIns, " "),
			s.state,
			s.sub,
			s.since.UTC().Format(time.RFC3339),
		)
		if s.process != nil {
			fmt.Fprintf(c.out, " Main PID: %d\n", s.process.PID)
		}
		if s.ended != "" {
			fmt.Fprintf(c.out, "     Last: %s\n", s.ended)
		}
		if len(s.unit.Unknown) > 0 {
			fmt.Fprintf(c.out, " Not followed here: %s\n", strings.Join(s.unit.Unknown, " "))
		}
		if s.state != Active {
			code = exitNotActive
		}
	}
	return code
}

// cat prints the files of a unit as they are on the disk now.
func (c *call) cat(m *Manager) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range c.units {
		s, err := m.get(name)
		if err != nil {
			return c.report(err)
		}
		var text bytes.Buffer
		for _, path := range append([]string{s.unit.Path}, s.unit.DropIns...) {
			data, err := os.ReadFile(filepath.Join(m.root, path))
			if err != nil {
				return c.report(fmt.Errorf("reading unit file: %w", err))
			}
			fmt.Fprintf(&text, "# %s\n%s\n", path, data)
		}
		if _, err := text.WriteTo(c.out); err != nil {
			return exitFailure
		}
	}
	return exitOK
}
