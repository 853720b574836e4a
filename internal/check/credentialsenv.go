package check

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

// environmentNames are the variables by which a manager reaches the cloud and whom it trusts on the way. Credentials are CRED-001's.
var environmentNames = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "AWS_CA_BUNDLE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_STS_REGIONAL_ENDPOINTS", "AZURE_ENVIRONMENT_FILEPATH"}

// trusted are the directories with certificates of authorities that the plan mounts into the new manager where the old one has them.
var trusted = []string{"/etc/ssl/certs", "/etc/ca-certificates", "/etc/pki", "/usr/local/share/ca-certificates", "/usr/share/ca-certificates"}

var environmentLost = Check{
	Code: "CFG-004", Reason: "EnvironmentLost", Category: categoryCloud, Level: LevelError, Impact: ImpactNoLoops, DependsOn: onHosts,
	Title: "the new manager gets the proxy and the certificate authorities that the old one reaches the cloud with",
	Explain: []string{
		"kube-controller-manager may reach the cloud through a proxy of its environment, or trust a private authority by a file. A snapshot holds names of variables and no values, so a plan cannot carry them over: give them with " +
			"--ccm-env NAME=value. A file under /etc that a value names is mounted with it, and has to be on every control-plane host: the kubelet starts no pod with one that is not there.",
		"The directories of the distribution's own authorities are mounted where kube-controller-manager has them. A ca-file of the cloud config that is elsewhere is not: name it with --ccm-env SSL_CERT_FILE=<file>, which mounts it at the same " +
			"place, or move it. Without it every call ends with an unknown authority.",
		"The in-tree OpenStack provider takes settings from variables that begin with OS_; the external one reads its config alone, so that they have to be written there.",
		"Under leader migration to our own manager a wrong proxy stops the migration and not the cluster: the handover does not start before that one is ready, which it is when the cloud has answered. An official manager may be ready without.",
	},
	judge: judgeEnvironment,
}

func judgeEnvironment(f facts) v1.Finding {
	in := f.inTree()
	if len(in) == 0 {
		return skip("no in-tree manager is left")
	}
	if _, missing := f.missing("hosts/*/cloud-config"); missing {
		return dependent("CFG-001")
	}
	if finding, wrong := f.envFiles(func(n string) bool { return !slices.Contains(credentialSources, n) }); wrong {
		return finding
	}
	given := map[string]bool{}
	for _, name := range f.opts.CCMEnv {
		given[strings.ToUpper(name)] = true
	}
	var failing, warning complaints
	var missing []string
	for _, p := range in {
		missing = append(missing, f.lostVariables(p, given, &failing, &warning)...)
		missing = append(missing, lostAuthorities(p, given, &failing)...)
	}
	all, outcome, bad := worst(&failing, &warning)
	if !bad {
		return pass("%s and the cloud config name no proxy and no authority that the new manager would lack", plural(len(in), kcm))
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	const expected, source = "the same way to the cloud", "env of " + kcm + ", cloud config"
	if len(missing) == 0 {
		return with(all.some(outcome, "%s", all.lines[0]), expected, source, "grep -n -A1 'name: "+catalogue.ReadsEnvironment(f.cloudName())+"' "+in[0].Manifest+"   # on host "+hostIn(all.objects[0]))
	}
	return with(all.some(outcome, "the new manager would not have %s, with which the old one reaches the cloud", strings.Join(missing, ", ")), expected, source,
		"transplant plan --ccm-env "+strings.Join(missing, "=<value> --ccm-env ")+"=<value>")
}

// lostVariables are the variables of a manager that the new one would lack.
func (f facts) lostVariables(p placed, given map[string]bool, failing, warning *complaints) (missing []string) {
	own := catalogue.ReadsEnvironment(f.cloudName())
	for _, name := range p.EnvNames {
		switch upper := strings.ToUpper(name); {
		case own != "" && strings.HasPrefix(name, own):
			failing.add(p.String(), "%s has %s, which the external provider does not read: write it into the cloud config", p, name)
		case slices.Contains(environmentNames, upper) && !given[upper]:
			warning.add(p.String(), "%s has %s", p, name)
			missing = append(missing, name)
		}
	}
	return missing
}

// lostAuthorities tells by which variable the new manager would get the files of authorities that the cloud config names and a plan does not mount.
func lostAuthorities(p placed, given map[string]bool, failing *complaints) (missing []string) {
	if p.host.CloudConfig == nil || given["SSL_CERT_FILE"] {
		return nil
	}
	files := caFiles(*p.host.CloudConfig)
	for _, key := range slices.Sorted(maps.Keys(files)) {
		if !slices.ContainsFunc(trusted, func(dir string) bool { return strings.HasPrefix(files[key], dir+"/") }) {
			failing.add(p.host.Name+":"+p.host.CloudConfig.Path, "%s is %s, which would not be mounted", key, files[key])
			missing = append(missing, "SSL_CERT_FILE")
		}
	}
	return missing
}

// caFiles are the settings that name a file with certificates of authorities.
func caFiles(c v1.CloudConfig) map[string]string {
	out := map[string]string{}
	for key, value := range c.Settings {
		name := strings.ToLower(strings.ReplaceAll(key[strings.LastIndex(key, ".")+1:], "-", ""))
		if (name == "cafile" || name == "cacert") && path.IsAbs(value) {
			out[key] = value
		}
	}
	return out
}

// hopsBehindNetwork is how many hops the metadata service is from a pod that has a network of its own.
const hopsBehindNetwork = 2

var selfNotFound = Check{
	Code: "CFG-005", Reason: "MetadataNeeded", Category: categoryCloud, Level: LevelError, Impact: ImpactNoLoops, DependsOn: onHosts,
	Title: "the managers and drivers that ask the instance metadata service can reach it",
	Explain: []string{
		"The AWS provider looks for its own instance in the metadata service, to learn region, zone and VPC, unless the cloud config has Zone, VPC, SubnetID (or RoleARN) and KubernetesClusterID (or KubernetesClusterTag) together. A part of them is not " +
			"enough: the service is asked all the same, and what was written is used beside it.",
		"An instance whose metadata service has the hop limit 1 answers processes of the host and its network only. A manager or CSI controller with a pod network of its own gets no answer there, and exits or has no credentials. The manager that a plan makes " +
			"uses the host's network. Raise the limit to 2, or give such a workload region and credentials in its environment.",
	},
	judge: judgeMetadata,
}

func judgeMetadata(f facts) v1.Finding {
	if finding, ok := f.concerns("aws"); !ok {
		return finding
	}
	configs, finding, ok := f.configs()
	if !ok && finding.DependsOn != "" {
		return finding
	}
	if finding, ok := f.missing("workloads"); ok {
		return finding
	}
	var failing complaints
	warning := halfConfigs(configs)
	short, asked := f.shortHops()
	podNetwork := f.onPodNetwork()
	for _, w := range podNetwork {
		if len(short) > 0 {
			failing.add(w.Ref, "%s has a pod network, and %d of the instances answer one hop only: %s", w.Ref, len(short), few(short))
		}
	}
	all, outcome, bad := worst(&failing, &warning)
	const expected = "the host's network or a hop limit of 2, and a cloud config that is whole"
	switch {
	case bad && outcome == v1.Fail:
		return with(all.some(outcome, "%s cannot reach the metadata service", plural(len(failing.lines), "workload")), expected, "ec2:DescribeInstances, workloads",
			fmt.Sprintf("aws ec2 modify-instance-metadata-options --http-put-response-hop-limit %d --instance-id %s", hopsBehindNetwork, f.instanceOf(short[0])))
	case len(podNetwork) > 0 && !asked:
		return dependent("CLOUD-001")
	case bad:
		return with(all.some(outcome, "%s", warning.lines[0]), expected, all.objects[0], "grep -n -i -E 'zone|vpc|subnetid|kubernetescluster|rolearn' "+pathOf(all.objects[0]))
	}
	if len(podNetwork) == 0 {
		return pass("no manager or driver needs the metadata service from a pod network, and no cloud config is half of what spares it")
	}
	return pass("%s the metadata service from a pod network, every instance answers that far, and no cloud config is half of what spares it",
		howMany(len(podNetwork), "1 manager or driver needs", "managers and drivers need"))
}

// halfConfigs are the cloud configs that have a part of what spares the metadata service.
func halfConfigs(configs []configured) complaints {
	var out complaints
	for _, c := range configs {
		if missing, partly := halfElsewhere(c); partly {
			out.add(c.String(), "%s has some of VPC, SubnetID and KubernetesClusterID and lacks %s", c, strings.Join(missing, ", "))
		}
	}
	return out
}

// halfElsewhere tells what a config lacks to spare its provider the question for its own instance, and whether it has a part of it.
func halfElsewhere(c configured) (missing []string, partly bool) {
	vpc, subnet := c.has("Global.VPC"), c.has("Global.SubnetID") || c.has("Global.RoleARN")
	cluster := c.has("Global.KubernetesClusterID") || c.has("Global.KubernetesClusterTag")
	for name, set := range map[string]bool{"VPC": vpc, "SubnetID": subnet, "KubernetesClusterID": cluster} {
		if !set {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing, (vpc || subnet) && len(missing) > 0
}

// shortHops are the nodes whose metadata service answers one hop only; asked is false when no instance says.
func (f facts) shortHops() (nodes []string, asked bool) {
	if f.Cloud == nil {
		return nil, false
	}
	for _, i := range f.Cloud.Instances {
		if i.MetadataHops == nil {
			continue
		}
		asked = true
		if *i.MetadataHops < hopsBehindNetwork {
			nodes = append(nodes, i.Node)
		}
	}
	return nodes, asked
}

func (f facts) instanceOf(node string) string {
	for _, i := range f.Cloud.Instances {
		if i.Node == node {
			return i.ID
		}
	}
	return "<instance>"
}

// onPodNetwork are the managers and AWS drivers on a pod network that take region or credentials from the metadata service.
func (f facts) onPodNetwork() []v1.Workload {
	var out []v1.Workload
	for _, w := range f.Workloads {
		if w.HostNetwork || w.Role != v1.RoleCCM && w.Role != v1.RoleCSIController || len(w.Containers) == 0 {
			continue
		}
		if !slices.ContainsFunc(w.Containers, hasOwnCredentials) {
			out = append(out, w)
		}
	}
	return out
}

// hasOwnCredentials tells that a container gets credentials without the metadata service.
func hasOwnCredentials(c v1.Container) bool {
	return slices.ContainsFunc(c.EnvNames, func(n string) bool {
		return slices.Contains(credentialNames, n) || slices.Contains(credentialSources, n)
	})
}
