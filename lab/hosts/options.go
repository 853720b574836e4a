package hosts

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/lab/awssim"
)

// Options describe a cluster.
type Options struct {
	// Dir holds everything the cluster writes. It is created; it must lie on a file system that can hold containers'
	// images, not on an overlay. Default: hosts/<Name> below transplant-lab in the user's cache directory.
	Dir string `json:"dir"`
	// Name tells clusters on one machine apart: at most 6 lower-case letters and digits. Default: "lab".
	Name string `json:"name"`
	// Subnet is an IPv4 /24 of the cluster's own. Default: 10.77.0.0/24.
	Subnet string `json:"subnet"`
	// ControlPlanes is the number of control-plane hosts, 1 or 3 (2 works, but etcd then has no majority to spare).
	// Default: 3.
	ControlPlanes int `json:"controlPlanes"`
	// Workers is the number of workers, 0 to 3.
	Workers int `json:"workers"`
	// CLITag is the tag of the image of the product's command. Default: v0.1.0-dev, the version of a build without one.
	CLITag string `json:"cliTag"`
	// CCMTags are the tags of the product's manager, all of the same program. Default: the one that plans name, and
	// v0.1.0-dev.
	CCMTags []string `json:"ccmTags"`
	// Versions are further versions of Kubernetes whose control-plane images every host gets, for example v1.27.4.
	Versions []string `json:"versions"`
	// Keys are further access keys that may call the cloud, with what they may do.
	Keys map[string]awssim.Policy `json:"keys"`
	// Tags are build tags of the product, for example "faults".
	Tags []string `json:"tags"`

	// NoProduct leaves out the product's images; Load adds them.
	NoProduct bool `json:"noProduct"`

	// Root is the product's checkout. Default: the one around the working directory.
	Root string `json:"-"`
	// Progress is told what happens, a line at a time. Default: nothing is written.
	Progress io.Writer `json:"-"`
}

var validName = regexp.MustCompile(`^[a-z0-9]{1,6}$`)

func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = "lab"
	}
	if o.Subnet == "" {
		o.Subnet = "10.77.0.0/24"
	}
	if o.ControlPlanes == 0 {
		o.ControlPlanes = 3
	}
	if o.CLITag == "" {
		o.CLITag = DefaultTag
	}
	if len(o.CCMTags) == 0 {
		_, planned, _ := strings.Cut(options.DefaultImage, ":")
		o.CCMTags = []string{planned, DefaultTag}
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if err := o.check(); err != nil {
		return o, err
	}
	err := o.place()
	return o, err
}

// check refuses what makes no cluster.
func (o Options) check() error {
	if !validName.MatchString(o.Name) {
		return fmt.Errorf(
			"cluster name %q is not 1 to 6 lower-case letters and digits: it becomes part of network interfaces' names",
			o.Name,
		)
	}
	if p, err := netip.ParsePrefix(o.Subnet); err != nil || !p.Addr().Is4() || p.Bits() != 24 || p.Masked() != p {
		return fmt.Errorf("subnet %q is no IPv4 /24, for example 10.77.0.0/24", o.Subnet)
	}
	if o.ControlPlanes < 0 || o.ControlPlanes > 3 || o.Workers < 0 || o.Workers > 3 {
		return errors.New("a cluster has 1 to 3 control-plane hosts and at most 3 workers")
	}
	return nil
}

// place makes the directory absolute, or chooses one.
func (o *Options) place() error {
	if o.Dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("finding the user's cache directory: %w", err)
		}
		o.Dir = filepath.Join(user, "transplant-lab", "hosts", o.Name)
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return fmt.Errorf("resolving directory %q: %w", o.Dir, err)
	}
	o.Dir = dir
	return nil
}

// DefaultTag is the tag of the product's images: the version that a build of a checkout reports.
const DefaultTag = "v0.1.0-dev"
