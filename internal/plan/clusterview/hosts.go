// Package clusterview looks things up in a snapshot: hosts and components, versions, the in-tree provider, and which
// loops a manager has to run.
package clusterview

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// FindHosted is the component of the control plane that runs as a Deployment; nil for none.
func FindHosted(snap *v1.Snapshot, name string) *v1.Component {
	if all := AllHosted(snap, name); len(all) > 0 {
		return all[0]
	}
	return nil
}

// AllHosted are the Deployments that run a component of the control plane.
func AllHosted(snap *v1.Snapshot, name string) []*v1.Component {
	var out []*v1.Component
	for i := range snap.Hosted {
		if c := &snap.Hosted[i]; c.Name == name && IsOwnDeployment(snap.Cluster, c.Manifest) {
			out = append(out, c)
		}
	}
	return out
}

// IsOwnDeployment reports whether a Deployment is in the namespace of the cluster's control plane. Who may create one
// in another namespace is no administrator for that, and there may be the control plane of another cluster.
func IsOwnDeployment(of v1.Cluster, ref string) bool {
	parts := strings.Split(ref, "/")
	return len(parts) == 3 && parts[0] == "Deployment" && parts[1] == cmp.Or(of.Seed, component.Namespace) && parts[2] != ""
}

// APIPort is where a component on a host finds the API server of its own host.
func APIPort(h v1.Host) string {
	api := FindComponent(h, component.KAS)
	if api == nil {
		return ""
	}
	if p := api.Flags["secure-port"]; p != "" {
		return p
	}
	return component.PortKAS
}

// IsGone reports whether all that is left of a host are pods of a Node that is gone. kube-controller-manager collects
// them after a while.
func IsGone(snap *v1.Snapshot, h v1.Host) bool {
	return h.APIOnly && !slices.ContainsFunc(snap.Nodes, func(n v1.Node) bool { return n.Name == h.NodeName })
}

// ControlPlaneHosts returns the hosts that run a kube-controller-manager, the owner of the loops last, and says what
// keeps a plan from being made.
func ControlPlaneHosts(snap *v1.Snapshot, provider string) ([]v1.Host, error) {
	var out []v1.Host
	var errs []error
	for _, h := range snap.Hosts {
		if !h.ControlPlane {
			continue
		}
		if h.APIOnly {
			errs = append(
				errs,
				fmt.Errorf("host %s runs a control plane and cannot be reached: name it with --host-access", h.Name),
			)
			continue
		}
		m := FindComponent(h, component.KCM)
		switch {
		case m == nil:
			errs = append(
				errs,
				fmt.Errorf("host %s has no %s manifest: migrate or remove that host first", h.Name, component.KCM),
			)
			continue
		case m.Error != "":
			errs = append(errs, fmt.Errorf("manifest %s on host %s: %s", m.Manifest, h.Name, m.Error))
			continue
		case provider == "" || m.Flags["cloud-provider"] != provider:
			errs = append(
				errs,
				fmt.Errorf("%s on host %s runs with --cloud-provider=%q, not %s: this plan moves in-tree providers only; "+
					"if transplant started this migration, continue it with: transplant apply; if it was started by hand, see: transplant explain CP-007", component.KCM, h.Name, m.Flags["cloud-provider"], quoteProvider(provider)),
			)
			continue
		case FindComponent(h, component.KAS) == nil:
			errs = append(
				errs,
				fmt.Errorf(
					"host %s has no %s manifest: a manager that depends on another host's API server cannot be rolled safely",
					h.Name,
					component.KAS,
				),
			)
			continue
		}
		if c := FindComponent(h, component.CCM); c != nil {
			errs = append(
				errs,
				fmt.Errorf(
					"host %s has a cloud-controller-manager already (%s): remove it, or continue the migration that put it there",
					h.Name,
					c.Manifest,
				),
			)
			continue
		}
		out = append(out, h)
	}
	if err := checkNotMoved(snap, provider); err != nil {
		return nil, err
	}
	if len(out) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("no control-plane host is known: name the hosts with --host-access"))
	}
	errs = append(errs, unknownHosts(snap)...)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	owner := OwnerHost(snap, component.KCM)
	sort.SliceStable(out, func(i, j int) bool { return out[i].Name != owner && out[j].Name == owner })
	return out, nil
}

// checkNotMoved says that no manager is left in-tree, once and not for every host.
func checkNotMoved(snap *v1.Snapshot, provider string) error {
	var names []string
	for _, h := range snap.Hosts {
		m := FindComponent(h, component.KCM)
		if m == nil {
			continue
		}
		if provider != "" || m.Flags["cloud-provider"] != "external" {
			return nil
		}
		names = append(names, h.Name)
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf(
		"no %s has an in-tree provider any longer (external on %s): there is nothing to move; see transplant verify for who runs the loops, and transplant check for what is missing",
		component.KCM,
		strings.Join(names, ", "),
	)
}

// quoteProvider is the provider that was looked for.
func quoteProvider(provider string) string {
	if provider == "" {
		return "with an in-tree provider"
	}
	return strconv.Quote(provider)
}

// unknownHosts are control-plane nodes that no host was named for: a manager there would go on next to the new one.
func unknownHosts(snap *v1.Snapshot) []error {
	known := map[string]bool{}
	for _, h := range snap.Hosts {
		known[h.NodeName] = true
	}
	var errs []error
	for _, n := range snap.ControlPlaneNodes {
		if !known[n] {
			errs = append(
				errs,
				fmt.Errorf("node %s runs a control plane and its host is not known: name it with --host-access", n),
			)
		}
	}
	return errs
}

// OwnerHost is the host whose process of the component says that it leads the component's main lease; empty when none
// or several do.
func OwnerHost(snap *v1.Snapshot, comp string) string {
	owner := ""
	for _, m := range snap.Managers {
		if m.Component != comp || m.Error != "" {
			continue
		}
		for _, l := range m.Leads {
			if l != comp {
				continue
			}
			if owner != "" {
				return ""
			}
			owner = m.Host
		}
	}
	return owner
}

// FindComponent returns a component of a host by its name; nil when the host has none.
func FindComponent(h v1.Host, name string) *v1.Component {
	for i := range h.Components {
		if h.Components[i].Name == name {
			return &h.Components[i]
		}
	}
	return nil
}

// BindHost is the host part of the address on which a component serves, without the brackets of an IPv6 address: no
// flag takes those.
func BindHost(c *v1.Component) string {
	host := c.Address
	if i := strings.LastIndex(host, ":"); i >= 0 {
		host = strings.Trim(host[:i], "[]")
	}
	if host == "" {
		return "127.0.0.1"
	}
	return host
}

// IsInUnitDir reports whether a file lies in a directory of systemd units.
func IsInUnitDir(at string) bool {
	return slices.ContainsFunc(systemdunit.UnitDirs, func(dir string) bool { return strings.HasPrefix(at, dir+"/") })
}

// KubeconfigPath is the kubeconfig of a kube-controller-manager, whose API server and CA its successor gets.
func KubeconfigPath(h v1.Host, m *v1.Component) string {
	for _, f := range h.Files {
		if f.Present && f.Path == m.Flags["kubeconfig"] {
			return f.Path
		}
	}
	return layout.KCMKubeconfig
}

// NodeName returns the name of a host's Node, or the host's own where the Node is not known.
func NodeName(h v1.Host) string {
	if h.NodeName != "" {
		return h.NodeName
	}
	return h.Name
}

// HasMountedVolumes reports whether volumes of the in-tree plugin are in use on a node.
func HasMountedVolumes(n v1.Node, p cloudprovider.VolumePlugin) bool {
	for _, name := range n.VolumesInUse {
		if strings.HasPrefix(name, p.Name+"/") {
			return true
		}
	}
	return false
}
