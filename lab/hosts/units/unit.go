// Package units runs a host's services from systemd's unit files, on machines where systemd itself does not run.
//
// It decides what a unit file means: files and drop-ins are read at a daemon-reload only, environment files at each
// start, as systemd does; a directive that it does not know is reported and never silently dropped. It is no systemd:
// there are no dependencies, targets, timers, sockets or cgroups of services, and a stop ends a service's main process
// alone.
package units

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// searchPath are the directories of unit files, the first one wins; drop-ins are taken from all of them.
var searchPath = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"}

// Unit is a service as its files say.
type Unit struct {
	Name        string   // with its suffix, for example "kubelet.service"
	Path        string   // of the main file
	DropIns     []string // in the order in which they apply
	Description string
	Start       string   // the command line, not yet split
	Environment []string // NAME=VALUE
	// EnvironmentFiles are read at each start; a leading "-" allows a file to be missing.
	EnvironmentFiles []string
	Restart          string // "no", "always" or "on-failure"
	RestartDelay     time.Duration
	StopTimeout      time.Duration
	Unknown          []string // directives that are not followed
}

// ignored are directives without a meaning where services have no cgroups, limits or order.
var ignored = []string{
	"After",
	"Before",
	"Wants",
	"Documentation",
	"WantedBy",
	"Delegate",
	"KillMode",
	"LimitNPROC",
	"LimitCORE",
	"LimitNOFILE",
	"TasksMax",
	"OOMScoreAdjust",
	"StartLimitInterval",
	"StartLimitIntervalSec",
	"Type",
}

// load reads a unit below root: its main file and every drop-in. The error is fs.ErrNotExist when there is no main
// file.
func load(root, name string) (*Unit, error) {
	u := &Unit{Name: name, Restart: "no", RestartDelay: 100 * time.Millisecond, StopTimeout: 90 * time.Second}
	for _, dir := range searchPath {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(filepath.Join(root, path)); err == nil {
			u.Path = path
			break
		}
	}
	if u.Path == "" {
		return nil, fmt.Errorf("unit %s: %w", name, fs.ErrNotExist)
	}
	dropIns, err := findDropIns(root, name)
	if err != nil {
		return nil, err
	}
	u.DropIns = dropIns
	for _, path := range append([]string{u.Path}, u.DropIns...) {
		if err := u.read(root, path); err != nil {
			return nil, err
		}
	}
	if u.Start == "" {
		return nil, fmt.Errorf("unit %s has no ExecStart", name)
	}
	return u, nil
}

// findDropIns lists the drop-ins of a unit in the order of their file names; the first directory of the search path
// wins for each name.
func findDropIns(root, name string) ([]string, error) {
	found := map[string]string{}
	for _, dir := range searchPath {
		below := filepath.Join(dir, name+".d")
		entries, err := os.ReadDir(filepath.Join(root, below))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("listing drop-ins of %s: %w", name, err)
		}
		for _, e := range entries {
			if _, taken := found[e.Name()]; !taken && strings.HasSuffix(e.Name(), ".conf") {
				found[e.Name()] = filepath.Join(below, e.Name())
			}
		}
	}
	names := make([]string, 0, len(found))
	for n := range found {
		names = append(names, n)
	}
	slices.Sort(names)
	out := make([]string, 0, len(names))
	for _, n := range names {
		out = append(out, found[n])
	}
	return out, nil
}

// read applies one file to the unit.
func (u *Unit) read(root, path string) error {
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return fmt.Errorf("reading unit file: %w", err)
	}
	for _, line := range logicalLines(string(data)) {
		name, value, found := strings.Cut(line, "=")
		if !found {
			if !strings.HasPrefix(line, "[") {
				return fmt.Errorf("unit file %s: line %q is neither a section nor an assignment", path, line)
			}
			continue
		}
		if err := u.set(strings.TrimSpace(name), strings.TrimSpace(value)); err != nil {
			return fmt.Errorf("unit file %s: %w", path, err)
		}
	}
	return nil
}

// logicalLines joins continued lines and leaves out comments and empty ones.
func logicalLines(text string) []string {
	var out []string
	pending := ""
	s := bufio.NewScanner(strings.NewReader(text))
	for s.Scan() {
		line := strings.TrimSpace(s.Text())
		if pending == "" && (line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";")) {
			continue
		}
		if rest, continued := strings.CutSuffix(line, "\\"); continued {
			pending += rest + " "
			continue
		}
		out = append(out, strings.TrimSpace(pending+line))
		pending = ""
	}
	if pending != "" {
		out = append(out, strings.TrimSpace(pending))
	}
	return out
}

// set applies one assignment. An empty value resets a list.
func (u *Unit) set(name, value string) error {
	switch name {
	case "Description":
		u.Description = value
	case "ExecStart":
		if value != "" && u.Start != "" {
			return errors.New("a second ExecStart without an empty one before it")
		}
		u.Start = value
	case "Environment":
		words, err := split(value)
		if err != nil {
			return err
		}
		if value == "" {
			u.Environment = nil
		}
		u.Environment = append(u.Environment, words...)
	case "EnvironmentFile":
		u.EnvironmentFiles = appendOrReset(u.EnvironmentFiles, value)
	case "Restart":
		if !slices.Contains([]string{"no", "always", "on-failure"}, value) {
			return fmt.Errorf("Restart=%s is not supported", value) //nolint:staticcheck // the directive's name
		}
		u.Restart = value
	case "RestartSec":
		return setDuration(&u.RestartDelay, name, value)
	case "TimeoutStopSec":
		return setDuration(&u.StopTimeout, name, value)
	default:
		if !slices.Contains(ignored, name) {
			u.Unknown = append(u.Unknown, name)
		}
	}
	return nil
}

func appendOrReset(list []string, value string) []string {
	if value == "" {
		return nil
	}
	return append(list, value)
}

// setDuration takes plain seconds or a duration with units.
func setDuration(into *time.Duration, name, value string) error {
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		*into = time.Duration(seconds * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(strings.ReplaceAll(value, " ", ""))
	if err != nil {
		return fmt.Errorf("%s=%s is no duration", name, value)
	}
	*into = d
	return nil
}
