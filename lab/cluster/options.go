package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/kubelet"
)

// Options describe a lab.
type Options struct {
	// Dir holds everything the lab writes. It is created, and emptied if a lab was there before; a directory with other
	// content is refused.
	Dir string
	// Binaries are the programs of etcd and Kubernetes, as build.Ensure returns them.
	Binaries build.Binaries
	// Programs are further images that manifests may name, by repository without tag.
	Programs map[string]string
	// ControlPlanes is the number of control-plane hosts, at most 3. Default: 3.
	ControlPlanes int
	// Spares is the number of further control-plane hosts that are laid out, for Join. ControlPlanes and Spares are 6 at
	// most.
	Spares int
	// Shape is what the control plane's components run as. Default: StaticPods.
	Shape Shape
	// RunPods has the hosts run pods on the host's network that the API binds to them, next to their static pods. Hosts
	// with Deployments do in any case.
	RunPods bool
	// DiskSize makes file systems of their own of every host's /etc/kubernetes and /var/lib/kubelet, of so many bytes
	// each, so that FillDisk can fill them. It needs the right to mount (root), and these files are gone when the lab has
	// stopped. Default: 0, directories like the others.
	DiskSize int64
	// Workers is the number of worker nodes, at most 70. Default: 5.
	Workers int
	// Kind is the cloud that is simulated. Default: AWS.
	Kind Kind
	// Version is that of Kubernetes, of control plane and kubelets: one that has the in-tree provider. Default: the
	// kind's.
	Version string
	// Gates are feature gates of every component and kubelet, as --feature-gates has them: what an administrator set, and
	// an upgrade has kept. Default: none.
	Gates string
	// Volumes has the hosts mount what PersistentVolumeClaims stand for, by the in-tree plugin or by CSI drivers. Pods
	// then run in containers of their own. It needs root, and kubelet.RunContainer and csi.Run in main.
	Volumes bool
	// NoCloudConfig is AWS's alone. It gives the managers --cloud-provider=aws alone: what a cloud config would say they
	// ask the metadata service, and they call AWS by its own names, which lead to the simulated account. The metadata
	// service speaks for the first host to all of them.
	NoCloudConfig bool
	// Profile are the delays of the simulated kubelets. Default: kubelet.Short.
	Profile kubelet.Profile
	// Seed makes the kubelets' random delays repeatable.
	Seed uint64
	// LockDir holds the locks of address blocks and must be the same for all labs of a user. Default: transplant-lab
	// below the user's cache directory.
	LockDir string
	// Audit has the API servers of static pods keep a log of every request; see Cluster.Requests.
	Audit bool
	// Keys are AWS's alone: further access keys that may call the cloud, with what they may do. The components have
	// theirs already; any other key is refused.
	Keys map[string]awssim.Policy
	// OnExit is told each process of a host that has ended. It must not block.
	OnExit func(kubelet.ExitRecord)
	// Log is told what the lab does. Default: nothing is logged.
	Log *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("starting lab: option Dir is empty")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, fmt.Errorf("resolving directory %q: %w", o.Dir, err)
	}
	o.Dir = dir
	if o.ControlPlanes == 0 {
		o.ControlPlanes = maxControlPlanes
	}
	if err := o.checkMachines(); err != nil {
		return o, err
	}
	if err := o.checkShape(); err != nil {
		return o, err
	}
	if o.Workers == 0 {
		o.Workers = 5
	}
	if o.Workers < 0 || o.Workers > maxWorkers {
		return o, fmt.Errorf("starting lab: %d workers were asked for; there can be 1 to %d", o.Workers, maxWorkers)
	}
	if err := o.chooseKind(); err != nil {
		return o, err
	}
	if o.Profile == (kubelet.Profile{}) {
		o.Profile = kubelet.Short()
	}
	if o.LockDir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return o, fmt.Errorf("finding the user's cache directory: %w", err)
		}
		o.LockDir = filepath.Join(user, "transplant-lab", "blocks")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// checkMachines refuses numbers of control-plane hosts that there are no addresses for.
func (o *Options) checkMachines() error {
	if o.ControlPlanes < 0 || o.ControlPlanes > maxControlPlanes {
		return fmt.Errorf(
			"starting lab: %d control-plane hosts were asked for; there can be 1 to %d",
			o.ControlPlanes,
			maxControlPlanes,
		)
	}
	if o.Spares < 0 || o.ControlPlanes+o.Spares > maxMachines {
		return fmt.Errorf(
			"starting lab: %d control-plane hosts and %d spare ones were asked for; there can be %d",
			o.ControlPlanes,
			o.Spares,
			maxMachines,
		)
	}
	return nil
}

// checkShape refuses a shape that so many hosts cannot have, and what only static pods do.
func (o *Options) checkShape() error {
	if o.Audit && o.Shape != StaticPods {
		return errors.New("starting lab: only API servers that run as static pods keep an audit log")
	}
	if o.Volumes && (o.Shape != StaticPods || o.Spares > 0) {
		return errors.New("starting lab: only hosts of static pods that are there from the start mount volumes")
	}
	if o.Spares > 0 && (o.Shape != StaticPods || o.DiskSize > 0 || o.NoCloudConfig) {
		return errors.New("starting lab: spare hosts have static pods, a cloud config and the disk of this machine")
	}
	return o.Shape.check(o.ControlPlanes)
}

// chooseKind takes AWS where no other cloud is asked for, and refuses what only AWS has.
func (o *Options) chooseKind() error {
	if o.Kind == nil {
		keys := maps.Clone(o.Keys)
		if o.Volumes {
			keys = withKey(keys, KeyCSI, awssim.Full)
		}
		o.Kind = release{Kind: aws{noCloudConfig: o.NoCloudConfig, keys: keys}, version: o.Version, gates: o.Gates}
		return nil
	}
	if o.NoCloudConfig || o.Keys != nil || o.Volumes || o.Shape == Deployments {
		return fmt.Errorf(
			"starting lab: %s cannot be simulated without a cloud config, with access keys, volumes or under Deployments",
			o.Kind.Provider(),
		)
	}
	o.Kind = release{Kind: o.Kind, version: o.Version, gates: o.Gates}
	return nil
}

func withKey(keys map[string]awssim.Policy, key string, policy awssim.Policy) map[string]awssim.Policy {
	if keys == nil {
		keys = map[string]awssim.Policy{}
	}
	keys[key] = policy
	return keys
}
