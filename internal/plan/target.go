package plan

import (
	"cmp"
	"errors"
	"fmt"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

// target is the cluster that a plan is made for, in the words of the steps.
type target struct {
	provider catalogue.Provider
	// api is the minor of the kube-apiserver, kcm that of the oldest kube-controller-manager.
	api, kcm int
	// hosts run the control plane; the owner of the loops comes last.
	hosts   []v1.Host
	program program
	volumes volumes
	// moveIPAM tells that node IPAM moves to the cloud-controller-manager, too.
	moveIPAM bool
	// shape of the cloud-controller-manager.
	shape string
	// up is the version that the control plane gets on the way.
	up upgrade
}

// identify finds out whose cluster it is and which program takes the loops over.
func (b *builder) identify() error {
	name, err := inTreeProvider(b.snap)
	if err != nil {
		return err
	}
	if b.provider, err = supported(name); err != nil || name == "" {
		return err // without a provider nothing is migrated; who plans says what is there instead
	}
	if b.api, err = minor("", b.snap.Cluster.Version); err != nil {
		b.api = 0
		for _, h := range b.snap.Hosts {
			if m := component(h, KCM); m != nil && b.api == 0 {
				b.api, _ = minor(m.Image, "")
			}
		}
	}
	b.up = ofOptions(b.opts)
	return b.chooseImage()
}

// aim finds out what is to be migrated and with what, and says everything that keeps a plan from being made.
func (b *builder) aim() error {
	var err error
	if b.hosts, err = controlPlane(b.snap, b.provider.Name); err != nil {
		return err
	}
	var errs []error
	b.kcm = catalogue.Newest
	for _, h := range b.hosts {
		n, err := b.minorOf(component(h, KCM))
		if err != nil {
			errs = append(errs, fmt.Errorf("host %s: %w", h.Name, err))
			continue
		}
		b.kcm = min(b.kcm, n)
		if n < catalogue.Oldest || n > b.provider.LastInTree {
			errs = append(errs, fmt.Errorf("%s on host %s is of 1.%d: plans are made for 1.%d to 1.%d, the last one with the in-tree provider %s", KCM, h.Name, n, catalogue.Oldest, b.provider.LastInTree, b.provider.Name))
		}
	}
	errs = append(errs, b.regional()...)
	errs = append(errs, b.chooseStrategy()...)
	errs = append(errs, b.chooseIPAM(component(b.hosts[0], KCM))...)
	b.shape = v1.ShapeStaticPod
	for _, h := range b.hosts {
		if b.ccmShape(h) == v1.ShapeDaemonSet {
			b.shape = v1.ShapeDaemonSet
		}
	}
	if len(errs) == 0 {
		errs = append(errs, b.chooseVolumes()...)
		errs = append(errs, b.chooseUpgrade()...)
	}
	return errors.Join(errs...)
}

// regional refuses the variable by which OpenStack's manager looks for another form of providerID: it would find no instance of any node that is there.
func (b *builder) regional() []error {
	if b.provider.Name != providerOpenStack {
		return nil
	}
	for _, e := range b.opts.Env {
		name, value, _ := strings.Cut(e, "=")
		if name != "OS_CCM_REGIONAL" || strings.EqualFold(value, "false") {
			continue
		}
		for _, n := range b.snap.Nodes {
			if strings.HasPrefix(n.ProviderID, "openstack:///") {
				return []error{fmt.Errorf("OS_CCM_REGIONAL=%s asks for providerIDs with a region, and node %s has %s: a providerID cannot be changed, and the manager would delete such nodes; leave the variable out", value, n.Name, n.ProviderID)}
			}
		}
	}
	return nil
}

// inTreeProvider is the provider that the kube-controller-managers run with. Those that are external already do not count: controlPlane names them.
func inTreeProvider(snap *v1.Snapshot) (string, error) {
	seen := map[string]bool{}
	for _, h := range snap.Hosts {
		if m := component(h, KCM); h.ControlPlane && m != nil && m.Error == "" {
			if name := m.Flags["cloud-provider"]; name != "" && name != "external" {
				seen[name] = true
			}
		}
	}
	if m := hosted(snap, KCM); m != nil && m.Flags["cloud-provider"] != "" && m.Flags["cloud-provider"] != "external" {
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
	return "", fmt.Errorf("the hosts run %s with different in-tree providers (%s): no cluster has two clouds; correct the manifests first", KCM, strings.Join(names, ", "))
}

// supported looks a provider up and refuses, by its name, one that there is no external manager for. The empty name is left to controlPlane.
func supported(name string) (catalogue.Provider, error) {
	if name == "" {
		return catalogue.Provider{}, nil
	}
	p, ok := catalogue.Lookup(name)
	var known []string
	for _, p := range catalogue.Providers() {
		if p.Unsupported == "" {
			known = append(known, p.Name)
		}
	}
	switch {
	case !ok:
		return p, fmt.Errorf("--cloud-provider=%s is no provider that was in tree: plans are made for %s", name, strings.Join(known, ", "))
	case p.Unsupported != "":
		return p, fmt.Errorf("provider %s is not supported: %s; plans are made for %s", name, p.Unsupported, strings.Join(known, ", "))
	}
	return p, nil
}

// minorOf is the minor of a component by its image, or by what the program of its unit says, else by the API server.
func (b *builder) minorOf(c *v1.Component) (int, error) {
	if c.Runs == v1.RunsSystemd {
		return minor("", cmp.Or(c.Version, b.snap.Cluster.Version))
	}
	return minor(c.Image, b.snap.Cluster.Version)
}

// kubeletMinor is the minor of a host's kubelet: its own answer, else the Node's, else the API server's.
func (b *builder) kubeletMinor(h v1.Host) int {
	version := ""
	if h.Kubelet != nil {
		version = h.Kubelet.Version
	}
	if version == "" {
		if n := b.node(h.NodeName); n != nil {
			version = n.KubeletVersion
		}
	}
	if n, err := minor("", version); err == nil {
		return n
	}
	return b.api
}

func (b *builder) node(name string) *v1.Node {
	for i := range b.snap.Nodes {
		if b.snap.Nodes[i].Name == name {
			return &b.snap.Nodes[i]
		}
	}
	return nil
}

// chooseStrategy takes leader migration wherever two hosts can hand over and both managers know it.
func (b *builder) chooseStrategy() []error {
	var why []string
	if len(b.hosts) < 2 {
		why = append(why, fmt.Sprintf("only one control-plane host (%s) is known, and leader migration needs a second one to take over: "+
			"name every control-plane host with --host-access", b.hosts[0].Name))
	}
	if b.kcm < firstLeaderMigration {
		why = append(why, fmt.Sprintf("%s of 1.%d has no leader migration, which came with 1.%d", KCM, b.kcm, firstLeaderMigration))
	}
	if b.program.image != "" && !b.program.leaderMigration {
		why = append(why, fmt.Sprintf("the manager in image %s has no leader migration: it would take the flags and run the loops beside the in-tree manager", b.program.image))
	}
	switch {
	case b.opts.Strategy == "" && len(why) == 0:
		b.opts.Strategy = LeaderMigration
	case b.opts.Strategy == "":
		b.opts.Strategy = Downtime
	case b.opts.Strategy == LeaderMigration:
		var errs []error
		for _, w := range why {
			errs = append(errs, fmt.Errorf("%s; or plan with --strategy=%s, which leaves the loops without a manager for a while", w, Downtime))
		}
		return errs
	}
	return nil
}
