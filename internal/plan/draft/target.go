package draft

import (
	"cmp"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/program"
)

// Target is the cluster that a plan is made for, in the words of the steps.
type Target struct {
	Provider cloudprovider.Provider
	// APIMinor is the minor of the kube-apiserver, kcm that of the oldest kube-controller-manager.
	APIMinor, KCMMinor int
	// Hosts run the control plane; the owner of the loops comes last.
	Hosts   []v1.Host
	Program program.Program
	Volumes Volumes
	// MoveIPAM reports whether node IPAM moves to the cloud-controller-manager, too.
	MoveIPAM bool
	// Shape of the cloud-controller-manager.
	Shape string
	// Upgrade is the version that the control plane gets on the way.
	Upgrade Upgrade
}

// MinorOf is the minor of a component by its image, or by what the program of its unit says, else by the API server.
func (d *Draft) MinorOf(c *v1.Component) (int, error) {
	if c.Runs == v1.RunsSystemd {
		return clusterview.ParseMinor("", cmp.Or(c.Version, d.Snapshot.Cluster.Version))
	}
	return clusterview.ParseMinor(c.Image, d.Snapshot.Cluster.Version)
}

// KubeletMinor is the minor of a host's kubelet: its own answer, else the Node's, else the API server's.
func (d *Draft) KubeletMinor(h v1.Host) int {
	version := ""
	if h.Kubelet != nil {
		version = h.Kubelet.Version
	}
	if version == "" {
		if n := d.FindNode(h.NodeName); n != nil {
			version = n.KubeletVersion
		}
	}
	if n, err := clusterview.ParseMinor("", version); err == nil {
		return n
	}
	return d.APIMinor
}

// FindNode returns a Node by its name; nil when the snapshot has none.
func (d *Draft) FindNode(name string) *v1.Node {
	for i := range d.Snapshot.Nodes {
		if d.Snapshot.Nodes[i].Name == name {
			return &d.Snapshot.Nodes[i]
		}
	}
	return nil
}

// Upgrade is the version that the control plane gets on the way; its zero value is none.
type Upgrade struct {
	// Version is v1.27.4, minor 27.
	Version string
	Minor   int
}

// UpgradeOf is the upgrade that options ask for; hosts that are replaced have a way of their own.
func UpgradeOf(o v1.Options) Upgrade {
	if o.TargetVersion == "" || o.ReplaceHosts {
		return Upgrade{}
	}
	n, err := clusterview.ParseMinor("", o.TargetVersion)
	if err != nil {
		return Upgrade{} // Validate says so
	}
	return Upgrade{"v" + strings.TrimPrefix(o.TargetVersion, "v"), n}
}

// IsWanted reports whether versions change at all.
func (u Upgrade) IsWanted() bool { return u.Minor > 0 }

// MinorAfterUpgrade is the minor that a component has after a step that gives it its new version.
func (d *Draft) MinorAfterUpgrade(c *v1.Component) (int, error) {
	if d.Upgrade.IsWanted() {
		return d.Upgrade.Minor, nil
	}
	return d.MinorOf(c)
}

// MinorNow returns the minor of a component, or the API server's when its own is not known.
func (d *Draft) MinorNow(c *v1.Component) int {
	n, err := d.MinorOf(c)
	if err != nil {
		return d.APIMinor
	}
	return n
}

// Volumes is what happens to the in-tree volume plugins of the provider. KEP-625 wants an order. First the
// attach-detach controller and the scheduler learn to leave a plugin's volumes to its CSI driver. Then each kubelet
// does, on a drained node. When the last one has, the plugin may go. Until then the external kube-controller-manager
// attaches volumes of the plugin for the kubelets that have not changed, and needs the provider for that.
type Volumes struct {
	// Plugins in use whose volumes are not left to CSI yet; none means that nothing has to be done.
	Plugins []cloudprovider.VolumePlugin
	// CSI reports whether they will be; else the in-tree plugins stay, behind --external-cloud-volume-plugin.
	CSI bool
	// Unknown reports whether the volumes were not read.
	Unknown bool
}

// KeepProvider reports whether an external kube-controller-manager keeps the provider for its volume controllers.
func (v Volumes) KeepProvider() bool { return len(v.Plugins) > 0 }
