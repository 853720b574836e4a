package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// componentUnit is what units of control planes are called: kube-controller-manager.service,
// kubernetes-apiserver.service, aws-cloud-controller-manager.service. What they start decides, not their name.
var componentUnit = regexp.MustCompile(`(kube|cloud).*(apiserver|api-server|controller-manager|scheduler).*\.service$`)

// services finds the components that systemd starts.
func (l *hostReader) services(ctx context.Context) {
	found := map[string]string{} // unit -> where it was found first
	for _, dir := range systemdunit.UnitDirs {
		names, err := l.access.List(ctx, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			l.Unknown(l.fact("units"), err.Error())
			return
		}
		for _, name := range names {
			if componentUnit.MatchString(name) && !strings.Contains(name, "@.") && found[name] == "" {
				found[name] = path.Join(dir, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		c, unit := l.service(ctx, name, found[name])
		if c == nil || !l.acceptsUnit(ctx, c) {
			continue
		}
		l.host.Components = append(l.host.Components, *c)
		if unit != nil {
			l.units = append(l.units, unit.Paths()...)
		}
	}
}

// service is what a unit says; nil for one that starts something else.
func (l *hostReader) service(ctx context.Context, name, at string) (*v1.Component, *systemdunit.Unit) {
	c := &v1.Component{Runs: v1.RunsSystemd, Unit: name, Manifest: at}
	u, err := systemdunit.ReadUnit(hostaccess.Reading(ctx, l.access), name)
	if err != nil {
		c.Name, c.Error = meantByUnit(name), mask.Text(err.Error())
		if c.Name == "" || errors.Is(err, fs.ErrNotExist) { // gone since it was listed
			return nil, nil
		}
		if _, unreadable := errors.AsType[*systemdunit.UnreadableError](err); unreadable {
			l.Unknown(l.fact("units"), c.Error)
		}
		if file, err := l.access.ReadFile(ctx, at); err == nil {
			c.SHA256 = hostaccess.SHA256(file.Data)
		}
		return c, nil
	}
	if c.Name = u.Component(); !slices.Contains(collect.ComponentNames, c.Name) {
		return nil, nil
	}
	c.Manifest = u.Home()
	c.SHA256 = hostaccess.SHA256(u.Data(c.Manifest))
	c.Command, c.Flags = mask.Command(u.Command()), mask.Map(u.Flags())
	c.EnvNames, c.Address, c.Remarks = u.EnvNames(), u.Address(), mask.Texts(u.Remarks())
	c.Sources = programsElsewhere(u.Sources(), c.Manifest)
	if c.Version, err = l.programVersion(ctx, c.Name, u.Command()); err != nil {
		l.Unknown(l.fact("versions/"+c.Name), fmt.Sprintf("asking the program of unit %s for its version: %v", name, err))
	}
	return c, u
}

// versionTimeout bounds a program that is asked for its version.
const versionTimeout = 30 * time.Second

// versionPattern is what the components of Kubernetes answer to --version.
var versionPattern = regexp.MustCompile(`^Kubernetes (v1\.[0-9]+\.[0-9]+\S*)\s*$`)

// programVersion asks the program that a unit starts which version it is: no image says so. It is the one on the host's
// disk, which is what runs after the next restart. A cloud-controller-manager is not asked: what counts of it is its
// library.
func (l *hostReader) programVersion(ctx context.Context, program string, command []string) (string, error) {
	if program == component.CCM {
		return "", nil
	}
	i := slices.IndexFunc(command, func(w string) bool { return path.Base(w) == program })
	if i < 0 || !path.IsAbs(command[0]) {
		return "", errors.New("its command does not begin with a path of it")
	}
	runner, err := hostaccess.RunnerOf(l.access)
	if err != nil {
		return "", err
	}
	out, err := runner.Run(
		ctx,
		hostaccess.Command{
			Path:    command[0],
			Args:    append(slices.Clone(command[1:i+1]), "--version"),
			Timeout: versionTimeout,
		},
	)
	if err != nil {
		return "", err
	}
	said := versionPattern.FindSubmatch(out)
	if said == nil {
		return "", fmt.Errorf("%s --version says something that is no version of Kubernetes", command[0])
	}
	return string(said[1]), nil
}

// namedUnit is what a unit of a component is called whose command cannot be read; kube-scheduler-exporter.service is
// none.
var namedUnit = regexp.MustCompile(
	`^(?:kube|kubernetes)-?(apiserver|api-server|controller-manager|scheduler)\.service$|cloud-controller-manager\.service$`,
)

// meantByUnit is the component that a unit which cannot be read is of, by its name; empty when it is of none.
func meantByUnit(name string) string {
	m := namedUnit.FindStringSubmatch(name)
	switch {
	case m == nil:
		return ""
	case m[1] == "":
		return component.CCM
	case m[1] == "api-server":
		return component.KAS
	default:
		return "kube-" + m[1]
	}
}

// programsElsewhere are the sources that are not the file itself.
func programsElsewhere(sources map[string]string, home string) map[string]string {
	var out map[string]string
	for flag, file := range sources {
		if file != home {
			if out == nil {
				out = map[string]string{}
			}
			out[flag] = file
		}
	}
	return out
}

// acceptsUnit decides whether a unit is a component of this control plane. Packages install units that are never
// started. One that is not known to run, next to a static pod of the same component, is a remark of that.
func (l *hostReader) acceptsUnit(ctx context.Context, c *v1.Component) bool {
	i := slices.IndexFunc(
		l.host.Components,
		func(o v1.Component) bool { return o.Name == c.Name && o.Runs != v1.RunsSystemd },
	)
	if i < 0 {
		return true
	}
	state := "whether it runs could not be asked"
	if units, ok := l.access.(hostaccess.Units); ok {
		if running, err := units.Active(ctx, c.Unit); err == nil && running {
			return true
		} else if err == nil {
			state = "it does not run"
		}
	}
	remarks := &l.host.Components[i].Remarks
	*remarks = append(*remarks, fmt.Sprintf("the host has a unit %s too: %s", c.Unit, state))
	return false
}
