package clusterview

import (
	"fmt"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
)

// DefaultClusterName is what a kube-controller-manager without --cluster-name calls the cluster.
const DefaultClusterName = "kubernetes"

// InTreeProvider is the provider that the kube-controller-managers run with. Those that are external already do not
// count: controlPlane names them.
func InTreeProvider(snap *v1.Snapshot) (string, error) {
	seen := map[string]bool{}
	for _, h := range snap.Hosts {
		if m := FindComponent(h, component.KCM); h.ControlPlane && m != nil && m.Error == "" {
			if name := m.Flags["cloud-provider"]; name != "" && name != "external" {
				seen[name] = true
			}
		}
	}
	if m := FindHosted(
		snap,
		component.KCM,
	); m != nil && m.Flags["cloud-provider"] != "" &&
		m.Flags["cloud-provider"] != "external" {
		seen[m.Flags["cloud-provider"]] = true
	}
	names := make([]string, 0, len(seen))
	for n := range seen {
		names = append(names, n)
	}
	sort.Strings(names)
	switch len(names) {
	case 0:
		return snap.Cluster.Provider, nil // controlPlane says what is there instead
	case 1:
		return names[0], nil
	}
	return "", fmt.Errorf(
		"the hosts run %s with different in-tree providers (%s): no cluster has two clouds; correct the manifests first",
		component.KCM,
		strings.Join(names, ", "),
	)
}

// LookupSupported looks a provider up and refuses, by its name, one that there is no external manager for. The empty
// name is left to controlPlane.
func LookupSupported(name string) (cloudprovider.Provider, error) {
	if name == "" {
		return cloudprovider.Provider{}, nil
	}
	p, ok := cloudprovider.Lookup(name)
	var known []string
	for _, p := range cloudprovider.Providers() {
		if p.Unsupported == "" {
			known = append(known, p.Name)
		}
	}
	switch {
	case !ok:
		return p, fmt.Errorf(
			"--cloud-provider=%s is no provider that was in tree: plans are made for %s",
			name,
			strings.Join(known, ", "),
		)
	case p.Unsupported != "":
		return p, fmt.Errorf(
			"provider %s is not supported: %s; plans are made for %s",
			name,
			p.Unsupported,
			strings.Join(known, ", "),
		)
	}
	return p, nil
}

// CredentialSecret is the Secret of kube-system that the cloud config names for the credentials (vSphere); empty for
// none.
func CredentialSecret(snap *v1.Snapshot) string {
	var configs []*v1.CloudConfig
	for i := range snap.Hosts {
		if len(snap.Hosts[i].Components) > 0 {
			configs = append(configs, snap.Hosts[i].CloudConfig)
		}
	}
	if m := FindHosted(snap, component.KCM); m != nil {
		configs = append(configs, m.CloudConfig)
	}
	for _, c := range configs {
		if c != nil && c.Settings["Global.secret-namespace"] == component.Namespace {
			if name := c.Settings["Global.secret-name"]; name != "" {
				return name
			}
		}
	}
	return ""
}
