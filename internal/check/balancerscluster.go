package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

// defaultClusterName is what both managers take when --cluster-name is not given.
const defaultClusterName = "kubernetes"

var clusterNames = Check{
	Code: "LB-011", Reason: "ClusterNameDiffers", Category: categoryBalancers, Level: LevelCritical, Impact: ImpactLoadBalancers, DependsOn: []string{"API-001", "HOST-001"},
	Title: "every manager, and kubeadm's configuration, has the cluster's name that names load balancers",
	Explain: []string{
		"--cluster-name is a part of the names of load balancers on Azure and OpenStack (kube_service_<cluster>_<namespace>_<name>), and of tags, firewall rules and descriptions everywhere. A manager with another name finds none of the existing load " +
			"balancers: it makes all of them again, with new addresses, and leaves the old ones behind. AWS and GCE name them after the Service's uid.",
		"The default is kubernetes in both managers, and kubeadm always gives one. A plan copies the name that the live kube-controller-manager runs with; a cloud-controller-manager that somebody installed may have another, and so may kubeadm's " +
			"ConfigMap, which the next kubeadm upgrade writes into the manifest. See https://github.com/kubermatic/kubermatic/pull/5322.",
	},
	judge: judgeClusterNames,
}

func judgeClusterNames(f facts) v1.Finding {
	names, first := map[string][]string{}, ""
	for _, p := range f.all(kcm) {
		name := p.flag("cluster-name", defaultClusterName)
		first = orElse(first, name)
		names[name] = append(names[name], p.String())
	}
	if first == "" {
		return unknown("no kube-controller-manager says the cluster's name")
	}
	news := f.ccms()
	for _, p := range news {
		name := p.flag("cluster-name", defaultClusterName)
		names[name] = append(names[name], p.String())
	}
	var bad complaints
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if name != first {
			bad.add(names[name][0], "%s: --cluster-name=%s", fewOf(names[name]), name)
		}
	}
	decides := catalogue.NamesBalancersByCluster(f.cloudName())
	if k := f.Kubeadm; k != nil {
		if arg, given := k.ExtraArgs["controllerManager"]["cluster-name"]; given && arg != first {
			bad.add("ConfigMap/kube-system/kubeadm-config", "kubeadm would write --cluster-name=%s", arg)
		} else if !given && k.ClusterName != "" && k.ClusterName != first {
			bad.add("ConfigMap/kube-system/kubeadm-config", "kubeadm would write --cluster-name=%s", k.ClusterName)
		}
	}
	if bad.empty() {
		return pass("%s --cluster-name=%s, which the new manager gets too", counting(len(f.all(kcm))+len(news), "manager", "has", "have"), first)
	}
	outcome := v1.Warn
	if decides {
		outcome = v1.Fail
	}
	fix := "kubectl -n kube-system get pods -o yaml | grep cluster-name"
	if strings.HasPrefix(bad.objects[0], "ConfigMap/") {
		fix = "kubectl -n kube-system edit configmap kubeadm-config"
	}
	return with(bad.finding(outcome, "%s another name of the cluster than the live %s, which has %s", counting(len(bad.lines), "place", "has", "have"), kcm, first), "--cluster-name="+first,
		"the managers' flags, ConfigMap/kube-system/kubeadm-config", fix)
}

// ccms are the cloud-controller-managers that exist: those on hosts, and those that run as a workload of the cluster.
func (f facts) ccms() []placed {
	out := slices.Clone(f.all(ccm))
	known := map[string]bool{}
	for _, p := range out {
		known[p.Manifest] = true
	}
	for _, w := range f.Workloads {
		if w.Role != v1.RoleCCM || known[w.Ref] {
			continue
		}
		for _, c := range w.Containers {
			if len(c.Flags) > 0 {
				out = append(out, placed{
					Component: v1.Component{Name: ccm, Runs: v1.RunsDeployment, Manifest: w.Ref, Image: c.Image, Command: c.Command, Flags: c.Flags},
					host:      v1.Host{Name: w.Ref},
				})
				break
			}
		}
	}
	return out
}

var neutronBalancers = Check{
	Code: "LB-012", Reason: "NeutronBalancers", Category: categoryBalancers, Level: LevelCritical, Impact: ImpactLoadBalancers, DependsOn: []string{"API-001", "HOST-001"},
	Title: "on OpenStack, load balancers are Octavia's",
	Explain: []string{
		"The in-tree provider talks to Neutron's LBaaS unless the configuration says use-octavia=true. The external one knows Octavia only: it finds no load balancer of Neutron's, makes every one again with a new address, and never deletes the old. " +
			"Some clouds gave Octavia the old load balancers and answer the old calls with a proxy; there the addresses stay.",
		"Move to Octavia before the migration: the cloud's operator can copy load balancers over (openstack loadbalancer list shows them then). Then set use-octavia=true in the [LoadBalancer] section of the in-tree configuration, restart the " +
			"managers one by one, and see that addresses stay. Without load balancers there is nothing to lose.",
	},
	judge: judgeNeutron,
}

func judgeNeutron(f facts) v1.Finding {
	if finding, ok := f.concerns("openstack"); !ok {
		return finding
	}
	if finding, ok := f.missing("services"); ok {
		return finding
	}
	served := slices.DeleteFunc(slices.Clone(f.Services), func(s v1.Service) bool { return len(s.Addresses) == 0 || f.elsewhere(s) })
	if len(served) == 0 {
		return pass("no Service has a load balancer that could be lost")
	}
	var bad complaints
	read := 0
	for _, h := range f.Hosts {
		if !readable(h.CloudConfig) {
			continue
		}
		read++
		if value := setting(h.CloudConfig, "LoadBalancer.use-octavia"); !isTrue(value) {
			bad.add(h.Name, "%s:%s says use-octavia=%s", h.Name, h.CloudConfig.Path, orElse(value, "nothing, which means false"))
		}
	}
	const expected, source = "use-octavia=true in [LoadBalancer]", "the in-tree cloud config"
	switch finding, missing := f.missing("hosts/*/cloud-config"); {
	case !bad.empty():
		return with(bad.finding(v1.Fail, "the load balancers of %s are Neutron's, and would all be made again with new addresses", plural(len(served), "Service")), expected, source,
			"openstack loadbalancer list")
	case missing:
		return finding
	case read == 0:
		return with(unknown("no host's cloud config was read"), expected, source, "")
	}
	return pass("%s use-octavia=true, for %s", counting(read, "cloud config", "says", "say"), plural(len(served), "Service"))
}

var uncheckedMembers = Check{
	Code: "LB-016", Reason: "UncheckedMembers", Category: categoryBalancers, Level: LevelWarning, Impact: ImpactLoadBalancers, DependsOn: []string{"API-001", "HOST-001"},
	Title: "on OpenStack, load balancers check the health of their members",
	Explain: []string{
		"Up to 1.26 the service loop takes a node that is not ready out of every load balancer. From 0.27 on it leaves that to the load balancer's health checks (KEP-3458), and on OpenStack there are none unless create-monitor=true stands in the " +
			"[LoadBalancer] section: it is false by default in both providers. From the handover on, a node that dies keeps its share of every Service's connections until somebody deletes it.",
		"Set create-monitor=true in the new manager's configuration: it then adds monitors to existing pools when it ensures each Service, without making them again. A Service may also ask for one with the annotation " +
			"loadbalancer.openstack.org/enable-health-monitor.",
	},
	judge: judgeUncheckedMembers,
}

func judgeUncheckedMembers(f facts) v1.Finding {
	if finding, ok := f.concerns("openstack"); !ok {
		return finding
	}
	if !f.readmits() {
		return skip("the new manager's library 0.%d treats nodes that are not ready as the in-tree loop does", f.newMinor())
	}
	asked := 0
	bad, finding, ok := f.eachService(func(s v1.Service) string {
		switch {
		case len(s.Addresses) == 0 || f.elsewhere(s):
			return ""
		case isTrue(s.Annotations["loadbalancer.openstack.org/enable-health-monitor"]):
			asked++
			return ""
		}
		return "no health monitor"
	})
	const expected = "create-monitor=true in [LoadBalancer]"
	switch {
	case !ok:
		return finding
	case bad.empty() && asked > 0:
		return pass("%s for a health monitor", counting(asked, "Service", "asks", "ask"))
	case bad.empty():
		return pass("no Service has a load balancer")
	}
	says, finding, ok := f.everyConfigSays("LoadBalancer.create-monitor")
	switch {
	case !ok:
		return with(finding, expected, "the in-tree cloud config", "")
	case says:
		return pass("create-monitor=true, for %s", plural(len(bad.lines), "Service"))
	}
	return with(bad.finding(v1.Warn, "the load balancers of %s go on sending connections to nodes that are not ready", plural(len(bad.lines), "Service")), expected, "the in-tree cloud config",
		kubectlService("annotate", bad.objects[0], "loadbalancer.openstack.org/enable-health-monitor=true"))
}

// everyConfigSays tells whether the cloud config of every host sets a key to true; the finding says why that is not known.
func (f facts) everyConfigSays(key string) (says bool, finding v1.Finding, ok bool) {
	configs := 0
	says = true
	for _, h := range f.Hosts {
		if readable(h.CloudConfig) {
			configs++
			says = says && isTrue(setting(h.CloudConfig, key))
		}
	}
	if finding, missing := f.missing("hosts/*/cloud-config"); missing {
		return false, finding, false
	}
	return says, unknown("no host's cloud config was read"), configs > 0
}

// readable tells whether a cloud config was understood. One from which the external config cannot be derived has an error, and its keys all the same.
func readable(c *v1.CloudConfig) bool {
	return c != nil && (c.Error == "" || len(c.Keys) > 0)
}

// setting is the value of a key in a cloud config; sections and keys of the ini format differ in case between clusters.
func setting(c *v1.CloudConfig, key string) string {
	for _, k := range slices.Sorted(maps.Keys(c.Settings)) {
		if strings.EqualFold(k, key) {
			return c.Settings[k]
		}
	}
	return ""
}

// isTrue reads a boolean as gcfg does.
func isTrue(value string) bool {
	switch strings.ToLower(value) {
	case "true", "yes", "on", "1":
		return true
	}
	return false
}

var clusterTags = Check{
	Code: "LB-013", Reason: "ClusterTags", Category: categoryBalancers, Level: LevelError, Impact: ImpactNoLoops, DependsOn: onAPI,
	Title: "on AWS, every instance of a node is tagged for one and the same cluster",
	Explain: []string{
		"The AWS provider finds the cluster's own things (instances, security groups, subnets, the route table) by the tag kubernetes.io/cluster/<id>, with the value owned or shared. It takes the id from the configuration (KubernetesClusterID), or " +
			"from the instance that it runs on, and refuses to start when that has tags of two clusters (\"Found multiple cluster tags\") or none. Nodes without the tag get no load balancer traffic and no routes.",
		"owned means that the thing goes with the cluster, shared that it stays. Instances are owned. The legacy tag KubernetesCluster=<id> still counts where no other is.",
	},
	judge: judgeClusterTags,
}

func judgeClusterTags(f facts) v1.Finding {
	if finding, ok := f.concerns("aws"); !ok {
		return finding
	}
	if finding, ok := f.instancesRead(); !ok {
		return finding
	}
	count, read := map[string]int{}, false
	for _, i := range f.Cloud.Instances {
		read = read || i.ClusterGroups != nil || len(i.ClusterTags) > 0
		for _, id := range clusterIDs(i) {
			count[id]++
		}
	}
	if !read {
		return skip("the inventory does not hold the instances' tags")
	}
	most := mostOf(count)
	var bad complaints
	for _, i := range f.Cloud.Instances {
		switch ids := clusterIDs(i); {
		case !i.Found || slices.Equal(ids, []string{most}):
		case len(ids) == 0:
			bad.add(i.Node, "%s: instance %s has no tag kubernetes.io/cluster/<id>", i.Node, i.ID)
		default:
			bad.add(i.Node, "%s: instance %s is tagged for %s", i.Node, i.ID, strings.Join(ids, " and "))
		}
	}
	if bad.empty() {
		return pass("%s tagged kubernetes.io/cluster/%s", counting(count[most], "instance", "is", "are"), most)
	}
	cluster := orElse(most, orElse(f.Cluster.Name, "<id>"))
	instances := f.instancesByNode()
	return with(bad.finding(v1.Fail, "%s not tagged for the cluster alone", counting(len(bad.lines), "instance", "is", "are")), "kubernetes.io/cluster/"+cluster+"=owned on each", "ec2:DescribeInstances",
		retag(instances[bad.objects[0]], cluster))
}

// instancesRead tells whether the cloud answered for the nodes' instances; the finding says why not.
func (f facts) instancesRead() (v1.Finding, bool) {
	if finding, ok := f.missing("nodes"); ok {
		return finding, false
	}
	if f.Cloud == nil || len(f.cloudErrors("instances")) > 0 {
		return dependent("CLOUD-001"), false
	}
	return v1.Finding{}, true
}

// clusterIDs are the clusters that an instance is tagged for, sorted and each once.
func clusterIDs(i v1.CloudInstance) []string {
	var ids []string
	for _, tag := range i.ClusterTags {
		id, _, _ := strings.Cut(tag, "=")
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// retag is the command that makes an instance the cluster's alone. Tags of other clusters go last, so that it's never nobody's.
func retag(i v1.CloudInstance, cluster string) string {
	fix := ""
	if ids := clusterIDs(i); !slices.Contains(ids, cluster) {
		fix = fmt.Sprintf("aws ec2 create-tags --resources %s --tags Key=kubernetes.io/cluster/%s,Value=owned", i.ID, cluster)
	}
	for _, tag := range slices.Sorted(slices.Values(i.ClusterTags)) {
		id, value, _ := strings.Cut(tag, "=")
		if id == cluster {
			continue
		}
		if fix != "" {
			fix += " && "
		}
		fix += fmt.Sprintf("aws ec2 delete-tags --resources %s --tags Key=kubernetes.io/cluster/%s,Value=%s", i.ID, id, value) // no other value's
	}
	return fix
}

// mostOf is the key that counts most, the first of them in order when several do.
func mostOf(count map[string]int) string {
	most := ""
	for _, key := range slices.Sorted(maps.Keys(count)) {
		if most == "" || count[key] > count[most] {
			most = key
		}
	}
	return most
}

var taggedGroups = Check{
	Code: "LB-014", Reason: "TaggedGroups", Category: categoryBalancers, Level: LevelError, Impact: ImpactLoadBalancers, DependsOn: onAPI,
	Title: "on AWS, every instance has exactly one security group with the cluster's tag",
	Explain: []string{
		"For each load balancer the AWS provider opens the nodes' ports in the one security group of each instance that is tagged for the cluster. With two it gives up (\"Multiple tagged security groups found for instance\"), and the load balancer " +
			"gets no traffic through; without any it takes the only group of the instance, and gives up if there are several. The in-tree provider does the same, but only when it next ensures a Service; the new manager ensures all of them when it " +
			"starts, so that an old mistake becomes an outage on that day. See https://github.com/kubernetes/kubernetes/issues/73906.",
	},
	judge: func(f facts) v1.Finding {
		if finding, ok := f.concerns("aws"); !ok {
			return finding
		}
		if finding, ok := f.instancesRead(); !ok {
			return finding
		}
		if len(f.cloudErrors("securitygroups")) > 0 {
			return dependent("CLOUD-001")
		}
		var several, without complaints
		read := 0
		for _, i := range f.Cloud.Instances {
			if !i.Found || i.ClusterGroups == nil {
				continue
			}
			read++
			switch n := *i.ClusterGroups; {
			case n > 1:
				several.add(i.Node, "%s: instance %s has %d", i.Node, i.ID, n)
			case n == 0:
				without.add(i.Node, "%s: instance %s has none", i.Node, i.ID)
			}
		}
		const expected, source = "one security group with the tag kubernetes.io/cluster/<id>", "ec2:DescribeInstances, ec2:DescribeSecurityGroups"
		fix := func(node string) string {
			return "aws ec2 describe-instances --instance-ids " + f.instancesByNode()[node].ID + " --query 'Reservations[].Instances[].SecurityGroups'"
		}
		switch {
		case read == 0:
			return skip("the inventory does not hold the instances' security groups")
		case !several.empty():
			return with(several.finding(v1.Fail, "%s several security groups with the cluster's tag, where load balancers cannot be let in", counting(len(several.lines), "instance", "has", "have")),
				expected, source, fix(several.objects[0]))
		case !without.empty():
			return with(without.finding(v1.Warn, "%s no security group with the cluster's tag, which works only while they have a single one", counting(len(without.lines), "instance", "has", "have")),
				expected, source, fix(without.objects[0]))
		}
		return pass("%s one security group with the cluster's tag", counting(read, "instance", "has", "have"))
	},
}
