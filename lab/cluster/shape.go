package cluster

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/lab/pki"
)

// Shape is what the control plane's components run as.
type Shape string

// Shapes of a control plane.
const (
	// StaticPods are kubeadm's.
	StaticPods Shape = ""
	// Units are systemd units on the control-plane hosts, whose kubelets have a directory for static pods as well.
	Units Shape = "units"
	// Deployments are objects of the cluster itself, with a pod on each of two or three control-plane hosts: what controls
	// and schedules them runs in them.
	Deployments Shape = "deployments"
)

func (s Shape) check(controlPlanes int) error {
	if s == Deployments && controlPlanes < 2 {
		return fmt.Errorf(
			"starting lab: a control plane of Deployments needs two hosts: one host's pods would have to start each other",
		)
	}
	if slices.Contains([]Shape{StaticPods, Units, Deployments}, s) {
		return nil
	}
	return fmt.Errorf("starting lab: shape %q is not known", s)
}

// run makes a component run on a host, in the shape of the cluster.
func (c *Cluster) run(h *Host, component component) error {
	if c.opts.Shape != Units {
		component.hostPort = c.opts.Shape == Deployments
		return writeManifest(h, component)
	}
	if err := writeUnit(h, component); err != nil {
		return err
	}
	return h.Kubelet.StartUnit(component.name)
}

// unitPrograms is where a unit's programs are installed on a host.
const unitPrograms = "/usr/local/bin"

// writeUnit puts the component's unit on the host, and the variables that it has in a file next to, as those do who
// install a control plane by hand.
func writeUnit(h *Host, c component) error {
	var text, variables strings.Builder
	fmt.Fprintf(&text, "[Unit]\nDescription=%s\nAfter=network-online.target\n\n[Service]\n", c.name)
	if len(c.env) > 0 {
		for _, e := range c.env {
			fmt.Fprintf(&variables, "%s=%s\n", e.Name, e.Value)
		}
		file := "/etc/kubernetes/" + c.name + ".env"
		if err := pki.WriteSecret(h.Path(file), []byte(variables.String())); err != nil {
			return err
		}
		fmt.Fprintf(&text, "EnvironmentFile=%s\n", file)
	}
	fmt.Fprintf(&text, "ExecStart=%s/%s", unitPrograms, c.name)
	for _, name := range slices.Sorted(maps.Keys(c.flags)) {
		fmt.Fprintf(&text, " \\\n  --%s=%s", name, c.flags[name])
	}
	text.WriteString("\nRestart=always\nRestartSec=2\n\n[Install]\nWantedBy=multi-user.target\n")
	return writePublic(h.Path("/etc/systemd/system/"+c.name+".service"), text.String())
}

// unitProgram finds what stands for a program that a unit starts.
func (c *Cluster) unitProgram(path string) (string, error) {
	if filepath.Dir(path) != unitPrograms {
		return "", fmt.Errorf("no program is installed as %s", path)
	}
	return c.opts.Binaries.Path(filepath.Base(path), c.site.kind.Version())
}

// installPrograms puts the programs of units on a host, for who runs them there: each is a script that starts the one
// of this machine.
func (c *Cluster) installPrograms(h *Host) error {
	for _, component := range staticPods {
		path := unitPrograms + "/" + component
		program, err := c.unitProgram(path)
		if err != nil {
			return err
		}
		if err := writePublic(h.Path(path), "#!/bin/sh\nexec "+program+" \"$@\"\n"); err != nil {
			return err
		}
		if err := os.Chmod(h.Path(path), 0o755); err != nil { //nolint:gosec // a program of the host
			return fmt.Errorf("installing %s on host %q: %w", component, h.Name, err)
		}
	}
	return nil
}

// checkUnits sees that the control plane's programs run.
func (c *Cluster) checkUnits() error {
	var missing []error
	for _, h := range c.ControlPlanes() {
		for _, component := range staticPods {
			if h.Kubelet.UnitPID(component) == 0 {
				missing = append(missing, fmt.Errorf("unit %s on host %q does not run", component, h.Name))
			}
		}
	}
	return errors.Join(missing...)
}
