package loadbalancer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/shell"
)

// defaultClusterName is what both managers take when --cluster-name is not given.
const defaultClusterName = "kubernetes"

var clusterNames = rule.Check{
	Code:      "LB-011",
	Reason:    "ClusterNameDiffers",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "--cluster-name, which has to be the same in every manager",
	DependsOn: []string{"API-001", "HOST-001"},
	Judge:     judgeClusterNames,
}

func judgeClusterNames(f facts.Facts) v1.Finding {
	names, first := map[string][]string{}, ""
	for _, p := range f.InstancesOf(component.KCM) {
		name := p.Flag("cluster-name", defaultClusterName)
		first = findings.OrElse(first, name)
		names[name] = append(names[name], p.String())
	}
	if first == "" {
		return findings.Unknown("no kube-controller-manager says the cluster's name")
	}
	news := f.CCMs()
	for _, p := range news {
		name := p.Flag("cluster-name", defaultClusterName)
		names[name] = append(names[name], p.String())
	}
	var bad findings.Problems
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if name != first {
			bad.Add(names[name][0], "%s: --cluster-name=%s", findings.Few(names[name]), name)
		}
	}
	decides := cloudprovider.NamesBalancersByCluster(f.CloudName(), len(f.InTree()) > 0)
	fix := "kubectl -n kube-system get pods -o yaml | grep cluster-name"
	if bad.Empty() { // only kubeadm has another one
		fix = "kubectl -n kube-system edit configmap kubeadm-config"
	}
	if k := f.Kubeadm; k != nil {
		if arg, given := k.ExtraArgs["controllerManager"]["cluster-name"]; given && arg != first {
			bad.Add("ConfigMap/kube-system/kubeadm-config", "kubeadm would write --cluster-name=%s", arg)
		} else if !given && k.ClusterName != "" && k.ClusterName != first {
			bad.Add("ConfigMap/kube-system/kubeadm-config", "kubeadm would write --cluster-name=%s", k.ClusterName)
		}
	}
	if bad.Empty() {
		return findings.Pass(
			"%s --cluster-name=%s, which the new manager gets too",
			findings.Counting(len(f.InstancesOf(component.KCM))+len(news), "manager", "has", "have"),
			first,
		)
	}
	outcome := v1.Warn
	if decides {
		outcome = v1.Fail
	}
	return findings.With(
		bad.Finding(
			outcome,
			"%s another name of the cluster than the live %s, which has %s",
			findings.Counting(len(bad), "place", "has", "have"),
			component.KCM,
			first,
		),
		"--cluster-name="+first,
		"the managers' flags, ConfigMap/kube-system/kubeadm-config",
		fix,
	)
}

var neutronBalancers = rule.Check{
	Code:      "LB-012",
	Reason:    "NeutronBalancers",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "load balancers that are missing in the list: they are Neutron's",
	DependsOn: []string{"API-001", "HOST-001"},
	Judge:     judgeNeutron,
}

func judgeNeutron(f facts.Facts) v1.Finding {
	if finding, ok := f.OtherProvider("openstack"); ok {
		return finding
	}
	if finding, ok := f.Missing("services"); ok {
		return finding
	}
	served := slices.DeleteFunc(
		slices.Clone(f.Services),
		func(s v1.Service) bool { return len(s.Addresses) == 0 || isForOtherController(f, s) },
	)
	if len(served) == 0 {
		return findings.Pass("no Service has a load balancer that could be lost")
	}
	var bad findings.Problems
	configs := readConfigs(f)
	for _, c := range configs {
		if value := setting(c.CloudConfig, "LoadBalancer.use-octavia"); !isTrue(value) {
			bad.Add(
				c.of,
				"%s:%s says use-octavia=%s",
				c.of,
				c.Path,
				findings.OrElse(value, "nothing, which means false"),
			)
		}
	}
	const expected, source = "use-octavia=true in [LoadBalancer]", "the in-tree cloud config"
	switch finding, missing := f.Missing("hosts/*/cloud-config"); {
	case !bad.Empty():
		return findings.With(
			bad.Finding(
				v1.Fail,
				"the load balancers of %s are Neutron's, and would all be made again with new addresses",
				findings.Plural(len(served), "Service"),
			),
			expected,
			source,
			"openstack loadbalancer list",
		)
	case missing:
		return finding
	case len(configs) == 0:
		return findings.With(findings.Unknown(noConfig), expected, source, "")
	}
	return findings.Pass(
		"%s use-octavia=true, for %s",
		findings.Counting(len(configs), "cloud config", "says", "say"),
		findings.Plural(len(served), "Service"),
	)
}

var uncheckedMembers = rule.Check{
	Code:      "LB-016",
	Reason:    "UncheckedMembers",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	DependsOn: []string{"API-001", "HOST-001"},
	Judge:     judgeUncheckedMembers,
}

func judgeUncheckedMembers(f facts.Facts) v1.Finding {
	if finding, ok := f.OtherProvider("openstack"); ok {
		return finding
	}
	if !f.Readmits() {
		return findings.Skip(
			"the new manager's library 0.%d treats nodes that are not ready as the in-tree loop does",
			f.NewMinor(),
		)
	}
	asked := 0
	bad, finding, ok := eachService(f, func(s v1.Service) string {
		switch {
		case len(s.Addresses) == 0 || isForOtherController(f, s):
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
	case bad.Empty() && asked > 0:
		return findings.Pass("%s for a health monitor", findings.Counting(asked, "Service", "asks", "ask"))
	case bad.Empty():
		return findings.Pass("no Service has a load balancer")
	}
	says, finding, ok := everyConfigSays(f, "LoadBalancer.create-monitor")
	switch {
	case !ok:
		return findings.With(finding, expected, "the in-tree cloud config", "")
	case says:
		return findings.Pass("create-monitor=true, for %s", findings.Plural(len(bad), "Service"))
	}
	return findings.With(
		bad.Finding(
			v1.Warn,
			"the load balancers of %s go on sending connections to nodes that are not ready",
			findings.Plural(len(bad), "Service"),
		),
		expected,
		"the in-tree cloud config",
		kubectlService("annotate", bad[0].Object, "loadbalancer.openstack.org/enable-health-monitor=true"),
	)
}

// everyConfigSays reports whether every cloud config sets a key to true; the finding says why that is not known.
func everyConfigSays(f facts.Facts, key string) (says bool, finding v1.Finding, ok bool) {
	configs := readConfigs(f)
	says = !slices.ContainsFunc(configs, func(c configOf) bool { return !isTrue(setting(c.CloudConfig, key)) })
	if finding, missing := f.Missing("hosts/*/cloud-config"); missing {
		return false, finding, false
	}
	return says, findings.Unknown(noConfig), len(configs) > 0
}

// noConfig is why nothing is known of what a cloud config says.
const noConfig = "no cloud config of the in-tree managers was read"

// configOf is the cloud config of a host, or of a Deployment.
type configOf struct {
	of string
	*v1.CloudConfig
}

// readConfigs are those that were understood.
func readConfigs(f facts.Facts) (out []configOf) {
	for i := range f.Hosts {
		if h := &f.Hosts[i]; isReadable(h.CloudConfig) {
			out = append(out, configOf{h.Name, h.CloudConfig})
		}
	}
	for i := range f.Hosted {
		c := &f.Hosted[i]
		if c.Name == component.KCM && isReadable(c.CloudConfig) && c.CloudConfig.Provider != "external" {
			out = append(out, configOf{c.Manifest, c.CloudConfig})
		}
	}
	return out
}

// isReadable reports whether a cloud config was understood. One from which the external config cannot be derived has an
// error, and its keys all the same.
func isReadable(c *v1.CloudConfig) bool {
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

// isTrue reports whether gcfg reads a value as true.
func isTrue(value string) bool {
	switch strings.ToLower(value) {
	case "true", "yes", "on", "1":
		return true
	}
	return false
}

var clusterTags = rule.Check{
	Code:      "LB-013",
	Reason:    "ClusterTags",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the tags kubernetes.io/cluster/<id> of the instance: one for this cluster and no other",
	OnlyIf:    "no other cluster uses the instance, its disks or its network",
	Warning:   "a cluster with the removed tag no longer knows the instance as its own",
	DependsOn: rule.OnAPI,
	Judge:     judgeClusterTags,
}

func judgeClusterTags(f facts.Facts) v1.Finding {
	if finding, ok := f.OtherProvider("aws"); ok {
		return finding
	}
	if finding, ok := f.MissingInstances(); ok {
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
		return findings.Skip("the inventory does not hold the instances' tags")
	}
	most := mostOf(count)
	var bad findings.Problems
	for _, i := range f.Cloud.Instances {
		switch ids := clusterIDs(i); {
		case !i.Found || slices.Equal(ids, []string{most}):
		case len(ids) == 0:
			bad.Add(i.Node, "%s: instance %s has no tag kubernetes.io/cluster/<id>", i.Node, i.ID)
		default:
			bad.Add(i.Node, "%s: instance %s is tagged for %s", i.Node, i.ID, strings.Join(ids, " and "))
		}
	}
	if bad.Empty() {
		return findings.Pass(
			"%s tagged kubernetes.io/cluster/%s",
			findings.Counting(count[most], "instance", "is", "are"),
			most,
		)
	}
	cluster := findings.OrElse(most, findings.OrElse(f.Cluster.Name, unknownCluster))
	instances := facts.InstancesByNode(f)
	return findings.With(
		bad.Finding(
			v1.Fail,
			"%s not tagged for the cluster alone",
			findings.Counting(len(bad), "instance", "is", "are"),
		),
		"kubernetes.io/cluster/"+cluster+"=owned on each",
		"ec2:DescribeInstances",
		retag(f, instances, bad.Objects(), cluster),
	)
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

// unknownCluster stands for an ID that the reader has to fill in.
const unknownCluster = "<id>"

// retag is the command that makes the instance of the first worker the cluster's alone. Of the control plane's the tags
// are shown where one would be deleted.
func retag(f facts.Facts, instances map[string]v1.CloudInstance, nodes []string, cluster string) string {
	worker, isWorker := facts.FirstWorker(f, nodes)
	if isWorker {
		return makeOwn(instances[worker], cluster)
	}
	i := instances[nodes[0]]
	if fix := makeOwn(i, cluster); !strings.Contains(fix, " delete-tags ") {
		return fix
	}
	return "aws ec2 describe-tags --filters Name=resource-id,Values=" + shell.Quote(i.ID)
}

// makeOwn is the command that makes an instance the cluster's alone. Tags of other clusters go last, so that it is
// never without an owner.
func makeOwn(i v1.CloudInstance, cluster string) string {
	fix := ""
	if ids := clusterIDs(i); !slices.Contains(ids, cluster) {
		tag := "Key=kubernetes.io/cluster/" + cluster + ",Value=owned"
		if cluster != unknownCluster {
			tag = shell.Quote(tag)
		}
		fix = fmt.Sprintf("aws ec2 create-tags --resources %s --tags %s", shell.Quote(i.ID), tag)
	}
	for _, tag := range slices.Sorted(slices.Values(i.ClusterTags)) {
		id, value, _ := strings.Cut(tag, "=")
		if id == cluster {
			continue
		}
		if fix != "" {
			fix += " && "
		}
		// no other value's
		tag := shell.Quote("Key=kubernetes.io/cluster/" + id + ",Value=" + value)
		fix += fmt.Sprintf("aws ec2 delete-tags --resources %s --tags %s", shell.Quote(i.ID), tag)
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

var taggedGroups = rule.Check{
	Code:      "LB-014",
	Reason:    "TaggedGroups",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelError,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "the security groups of the instance: one has to have the cluster's tag, and no second one",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.OtherProvider("aws"); ok {
			return finding
		}
		if finding, ok := f.MissingInstances(); ok {
			return finding
		}
		if len(f.CloudErrors("securitygroups")) > 0 {
			return findings.Dependent("CLOUD-001")
		}
		var several, without findings.Problems
		read := 0
		for _, i := range f.Cloud.Instances {
			if !i.Found || i.ClusterGroups == nil {
				continue
			}
			read++
			switch n := *i.ClusterGroups; {
			case n > 1:
				several.Add(i.Node, "%s: instance %s has %d", i.Node, i.ID, n)
			case n == 0:
				without.Add(i.Node, "%s: instance %s has none", i.Node, i.ID)
			}
		}
		const expected, source = "one security group with the tag kubernetes.io/cluster/<id>", "ec2:DescribeInstances, ec2:DescribeSecurityGroups"
		fix := func(node string) string {
			return "aws ec2 describe-instances --instance-ids " + shell.Quote(facts.InstancesByNode(f)[node].ID) + " --query 'Reservations[].Instances[].SecurityGroups'"
		}
		switch {
		case read == 0:
			return findings.Skip("the inventory does not hold the instances' security groups")
		case !several.Empty():
			return findings.With(
				several.Finding(
					v1.Fail,
					"%s several security groups with the cluster's tag, where load balancers cannot be let in",
					findings.Counting(len(several), "instance", "has", "have"),
				),
				expected,
				source,
				fix(several[0].Object),
			)
		case !without.Empty():
			return findings.With(
				without.Finding(
					v1.Warn,
					"%s no security group with the cluster's tag, which works only while they have a single one",
					findings.Counting(len(without), "instance", "has", "have"),
				),
				expected,
				source,
				fix(without[0].Object),
			)
		}
		return findings.Pass(
			"%s one security group with the cluster's tag",
			findings.Counting(read, "instance", "has", "have"),
		)
	},
}

var excludeLabel = rule.Check{
	Code:      "LB-001",
	Reason:    "ExcludeLabelFalse",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	DependsOn: rule.OnAPI,
	Judge: rule.Nodes(rule.Each[v1.Node]{
		Unless: func(f facts.Facts) (v1.Finding, bool) {
			minor := f.NewMinor()
			const notRead = "the new manager's library 0.%d does not read the value of %s either"
			return findings.Skip(notRead, minor, facts.LabelExclude), !catalogue.ServiceLoopAt(minor).ReadsExclusion
		},
		Wrong: rule.Always(func(n v1.Node) string {
			v := n.Labels[facts.LabelExclude]
			if excluded, err := strconv.ParseBool(v); err == nil && !excluded {
				return facts.LabelExclude + "=" + v
			}
			return ""
		}),
		Outcome:  v1.Warn,
		Passes:   "no node has " + facts.LabelExclude + "=false",
		Fails:    "# [node is|nodes are] excluded from load balancers now and would be registered at takeover",
		Expected: "true, or no such label",
		Fix: func(name string) string {
			return "kubectl label --overwrite node " + shell.Quote(name) + " " + facts.LabelExclude + "=true"
		},
	}),
}
