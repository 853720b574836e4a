package check

import (
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

var flagsContradict = Check{
	Code: "CP-014", Reason: "CloudFlagsContradict", Category: categoryControlPlane, Level: LevelError, Impact: ImpactVolumes, DependsOn: onHosts,
	Title: "the cloud flags of kube-apiserver and kube-controller-manager fit each other on every host",
	Explain: []string{
		"--cloud-provider of kube-apiserver decides little: the admission of persistent volumes by their zone, the SSH tunnels of old versions, and since 1.29 whether it starts at all (VER-005). It has to name the same in-tree provider as kube-controller-manager until the end, or none. " +
			"An API server that is external while the managers are in-tree is the mark of a migration that was begun by hand.",
		"--external-cloud-volume-plugin keeps the in-tree volume code in an external kube-controller-manager. It has effect only beside --cloud-provider=external, it needs --cloud-config where the in-tree provider had one, and the plugin has to be in tree in that version: otherwise the manager exits when it leads, or attaches no volume and says so in its log alone.",
		"An in-tree provider without --cloud-config takes its zone, network and credentials from the machine that it runs on; so does the new manager, on the network of the same host (CFG-001).",
	},
	judge: judgeContradictions,
}

func judgeContradictions(f facts) v1.Finding {
	var bad complaints
	for _, p := range f.all(kcm) {
		for _, complaint := range f.volumePluginComplaints(p) {
			bad.add(p.String(), "%s: %s", p, complaint)
		}
	}
	plugins := len(bad.lines)
	f.serverComplaints(&bad)
	const expected, source = "one provider, and --external-cloud-volume-plugin only with --cloud-provider=external and --cloud-config", "manifests of " + kas + " and " + kcm
	switch {
	case bad.empty() && len(f.all(kas))+len(f.all(kcm)) == 0:
		return unknown("neither %s nor %s was found", kas, kcm)
	case bad.empty():
		return pass("the cloud flags of %s and %s fit each other", plural(len(f.all(kas)), kas), plural(len(f.all(kcm)), kcm))
	case f.opts.InProgress && plugins == 0:
		return with(bad.finding(v1.Warn, "the unfinished migration has moved some components and others not yet"), expected, source, "transplant apply")
	}
	return with(bad.some(v1.Fail, "%s", bad.lines[0]), expected, source, "grep -n cloud- /etc/kubernetes/manifests/kube-*.yaml   # on each host named")
}

// serverComplaints says which API servers name another provider than the managers.
func (f facts) serverComplaints(bad *complaints) {
	provider, inTree := f.provider(), map[string]bool{}
	for _, p := range f.inTree() {
		inTree[p.host.Name] = true
	}
	for _, p := range f.all(kas) {
		own := p.flag("cloud-provider", "")
		switch {
		case own == "" || own == "external" && !inTree[p.host.Name]:
		case own == "external":
			bad.add(p.String(), "%s is external while %s of the same host is in-tree", p, kcm)
		case f.stage() == stageExternal:
			bad.add(p.String(), "%s names %s although every %s is external", p, own, kcm)
		case provider != "" && own != provider:
			bad.add(p.String(), "%s names %s, and %s names %s", p, own, kcm, provider)
		}
	}
}

// volumePluginComplaints says what is wrong with --external-cloud-volume-plugin of a kube-controller-manager.
func (f facts) volumePluginComplaints(p placed) []string {
	plugin := p.flag("external-cloud-volume-plugin", "")
	if plugin == "" {
		return nil
	}
	var out []string
	if v := p.flag("cloud-provider", ""); v != "external" {
		out = append(out, "--external-cloud-volume-plugin="+plugin+" has no effect beside --cloud-provider="+v)
	}
	if named, _ := catalogue.Lookup(plugin); p.flag("cloud-config", "") == "" && (!named.ConfigOptional || f.cloudConfigBefore(p) != "") {
		out = append(out, "--external-cloud-volume-plugin="+plugin+" without --cloud-config: the volume code does not know its zone and network")
	}
	known, ok := catalogue.Lookup(plugin)
	minor, versioned := f.minorOf(p)
	switch {
	case !ok:
		out = append(out, fmt.Sprintf("--external-cloud-volume-plugin names %q, which no version has in tree", plugin))
	case versioned && minor > known.LastInTree:
		out = append(out, fmt.Sprintf("--external-cloud-volume-plugin=%s in 1.%d: %s left after 1.%d", plugin, minor, plugin, known.LastInTree))
	}
	return out
}

var sshTunnels = Check{
	Code: "CP-015", Reason: "SSHTunnels", Category: categoryControlPlane, Level: LevelError, Impact: ImpactAPI, DependsOn: onHosts,
	Title: "no kube-apiserver reaches the nodes through SSH tunnels of the cloud provider",
	Explain: []string{
		"Old API servers could reach kubelets through SSH tunnels (--ssh-user, --ssh-keyfile): the in-tree provider installed the key on the instances and told the addresses. Without an in-tree provider the key is not installed any more, and kubectl logs, exec and port-forward, webhooks and aggregated APIs behind the tunnel fail as nodes are replaced. " +
			"The flags went with Kubernetes 1.22.",
		"The replacement is the API server network proxy, konnectivity (KEP-1281): an egress selector configuration (--egress-selector-config-file), a konnectivity server beside each API server, agents on the nodes. Set it up before the migration. Its agents must tolerate node.cloudprovider.kubernetes.io/uninitialized.",
	},
	judge: func(f facts) v1.Finding {
		var bad complaints
		selectors := 0
		for _, p := range f.all(kas) {
			if p.flag("egress-selector-config-file", "") != "" {
				selectors++
			}
			if p.flag("ssh-user", "") != "" || p.flag("ssh-keyfile", "") != "" {
				bad.add(p.String(), "%s has --ssh-user=%s --ssh-keyfile=%s", p, p.flag("ssh-user", ""), p.flag("ssh-keyfile", ""))
			}
		}
		switch {
		case len(f.all(kas)) == 0:
			return unknown("no %s was found", kas)
		case !bad.empty():
			return with(bad.finding(v1.Fail, "%s reach%s the nodes through SSH tunnels of the cloud provider", plural(len(bad.lines), kas), verbES(len(bad.lines))),
				"--egress-selector-config-file, or a network in which the API servers reach the nodes", "manifests of "+kas,
				"grep -n 'ssh-\\|egress-selector' /etc/kubernetes/manifests/"+kas+".yaml   # https://kubernetes.io/docs/tasks/extend-kubernetes/setup-konnectivity/")
		case selectors > 0:
			return pass("%s reach the nodes through an egress selector", plural(selectors, kas))
		}
		return pass("%s reach the nodes without SSH tunnels", plural(len(f.all(kas)), kas))
	},
}

func verbES(n int) string {
	if n == 1 {
		return "es"
	}
	return ""
}
