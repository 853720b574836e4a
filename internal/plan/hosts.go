package plan

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Components of a control plane.
const (
	KCM = "kube-controller-manager"
	CCM = "cloud-controller-manager"
	KAS = "kube-apiserver"
	// Scheduler is changed only where volumes move to CSI.
	Scheduler   = "kube-scheduler"
	kubeletName = "kubelet"
)

// controlPlane returns the hosts that run a kube-controller-manager, the owner of the loops last, and says what keeps a plan from being made.
func controlPlane(snap *v1.Snapshot, provider string) ([]v1.Host, error) {
	var out []v1.Host
	var errs []error
	for _, h := range snap.Hosts {
		if !h.ControlPlane {
			continue
		}
		if h.APIOnly {
			errs = append(errs, fmt.Errorf("host %s runs a control plane and cannot be reached: name it with --host-access", h.Name))
			continue
		}
		m := component(h, KCM)
		switch {
		case m == nil:
			errs = append(errs, fmt.Errorf("host %s has no %s manifest: migrate or remove that host first", h.Name, KCM))
			continue
		case m.Error != "":
			errs = append(errs, fmt.Errorf("manifest %s on host %s: %s", m.Manifest, h.Name, m.Error))
			continue
		case provider == "" || m.Flags["cloud-provider"] != provider:
			errs = append(errs, fmt.Errorf("%s on host %s runs with --cloud-provider=%q, not %s: the in-tree provider is not what moves here; "+
				"if transplant began this migration, go on with: transplant apply; if somebody began it by hand, see: transplant explain CP-007", KCM, h.Name, m.Flags["cloud-provider"], quoted(provider)))
			continue
		case component(h, KAS) == nil:
			errs = append(errs, fmt.Errorf("host %s has no %s manifest: a manager that depends on another host's API server cannot be rolled safely", h.Name, KAS))
			continue
		}
		if c := component(h, CCM); c != nil {
			errs = append(errs, fmt.Errorf("host %s has a cloud-controller-manager already (%s): remove it, or continue the migration that put it there", h.Name, c.Manifest))
			continue
		}
		out = append(out, h)
	}
	if err := movedAlready(snap, provider); err != nil {
		return nil, err
	}
	if len(out) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("no control-plane host is known: name the hosts with --host-access"))
	}
	errs = append(errs, unreachable(snap)...)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	owner := OwnerHost(snap, KCM)
	sort.SliceStable(out, func(i, j int) bool { return out[i].Name != owner && out[j].Name == owner })
	return out, nil
}

// movedAlready says that no manager is left in-tree, once and not for every host.
func movedAlready(snap *v1.Snapshot, provider string) error {
	var names []string
	for _, h := range snap.Hosts {
		m := component(h, KCM)
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
	return fmt.Errorf("no %s has an in-tree provider any longer (external on %s): there is nothing to move; see transplant verify for who runs the loops, and transplant check for what is missing",
		KCM, strings.Join(names, ", "))
}

// quoted is the provider that was looked for.
func quoted(provider string) string {
	if provider == "" {
		return "with an in-tree provider"
	}
	return strconv.Quote(provider)
}

// unreachable are control-plane nodes that no host was named for: a manager there would go on beside the new one.
func unreachable(snap *v1.Snapshot) []error {
	known := map[string]bool{}
	for _, h := range snap.Hosts {
		known[h.NodeName] = true
	}
	var errs []error
	for _, n := range snap.ControlPlaneNodes {
		if !known[n] {
			errs = append(errs, fmt.Errorf("node %s runs a control plane and its host is not known: name it with --host-access", n))
		}
	}
	return errs
}

// OwnerHost is the host whose process of the component says that it leads the component's main lease; empty when none or several do.
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

func component(h v1.Host, name string) *v1.Component {
	for i := range h.Components {
		if h.Components[i].Name == name {
			return &h.Components[i]
		}
	}
	return nil
}

// minor is the minor of an image's tag or of the API server, e.g. 26 of v1.26.0.
func minor(image, fallback string) (int, error) {
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	for _, v := range []string{tag, fallback} {
		parts := strings.Split(strings.TrimPrefix(v, "v"), ".")
		if len(parts) < 2 || parts[0] != "1" {
			continue
		}
		if n, err := strconv.Atoi(parts[1]); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("version of image %q is not known, nor that of the API server (%q)", image, fallback)
}

// bindHost is the host part of the address on which a component serves.
func bindHost(c *v1.Component) string {
	host := c.Address
	if i := strings.LastIndex(host, ":"); i >= 0 {
		host = host[:i]
	}
	if host == "" {
		return "127.0.0.1"
	}
	return host
}
