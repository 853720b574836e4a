package cloudconfig

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/shell"
)

// environmentNames are the variables by which a manager reaches the cloud and whom it trusts on the way. Credentials
// are CRED-001's.
var environmentNames = []string{
	"HTTP_PROXY",
	"HTTPS_PROXY",
	"NO_PROXY",
	"SSL_CERT_FILE",
	"SSL_CERT_DIR",
	"AWS_CA_BUNDLE",
	"AWS_REGION",
	"AWS_DEFAULT_REGION",
	"AWS_STS_REGIONAL_ENDPOINTS",
	"AZURE_ENVIRONMENT_FILEPATH",
}

// trusted are the directories with certificates of authorities that the plan mounts into the new manager where the old
// one has them.
var trusted = []string{
	"/etc/ssl/certs",
	"/etc/ca-certificates",
	"/etc/pki",
	"/usr/local/share/ca-certificates",
	"/usr/share/ca-certificates",
}

var environmentLost = rule.Check{
	Code:      "CFG-004",
	Reason:    "EnvironmentLost",
	Category:  findings.CategoryCloud,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the variables that the finding names, their values, and whether the file is there",
	DependsOn: rule.OnHosts,
	Judge:     judgeEnvironment,
}

func judgeEnvironment(f facts.Facts) v1.Finding {
	in := f.InTree()
	if len(in) == 0 {
		return findings.Skip("no in-tree manager is left")
	}
	if _, missing := f.Missing("hosts/*/cloud-config"); missing {
		return findings.Dependent("CFG-001")
	}
	if finding, wrong := envFiles(f, func(n string) bool { return !slices.Contains(credentialSources, n) }); wrong {
		return finding
	}
	given := map[string]bool{}
	for _, name := range f.Opts.CCMEnv {
		given[strings.ToUpper(name)] = true
	}
	var failing, warning findings.Problems
	var missing []string
	for _, p := range in {
		missing = append(missing, lostVariables(f, p, given, &failing, &warning)...)
		missing = append(missing, lostAuthorities(p, given, &failing)...)
	}
	all, outcome, bad := findings.Worst(failing, warning)
	if !bad {
		return findings.Pass(
			"%s and the cloud config name no proxy and no authority that the new manager would lack",
			findings.Plural(len(in), component.KCM),
		)
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	const expected, source = "the same way to the cloud", "env of " + component.KCM + ", cloud config"
	if len(missing) == 0 {
		return findings.With(
			all.Some(outcome, "%s", all[0].Text),
			expected,
			source,
			"grep -n -A1 'name: "+catalogue.ReadsEnvironment(
				f.CloudName(),
			)+"' "+shell.Quote(in[0].Manifest)+"   # on host "+facts.HostIn(
				all[0].Object,
			),
		)
	}
	return findings.With(
		all.Some(
			outcome,
			"the new manager would lack %s, which the old one uses to reach the cloud",
			strings.Join(missing, ", "),
		),
		expected,
		source,
		"transplant plan --ccm-env "+strings.Join(shell.QuoteAll(missing), "=<value> --ccm-env ")+"=<value>",
	)
}

// lostVariables are the variables of a manager that the new one would lack.
func lostVariables(
	f facts.Facts,
	p facts.Instance,
	given map[string]bool,
	failing, warning *findings.Problems,
) (missing []string) {
	own := catalogue.ReadsEnvironment(f.CloudName())
	for _, name := range p.EnvNames {
		switch upper := strings.ToUpper(name); {
		case own != "" && strings.HasPrefix(name, own):
			failing.Add(
				p.String(),
				"%s has %s, which the external provider does not read: write it into the cloud config",
				p,
				name,
			)
		case slices.Contains(environmentNames, upper) && !given[upper]:
			warning.Add(p.String(), "%s has %s", p, name)
			missing = append(missing, name)
		}
	}
	return missing
}

// lostAuthorities returns by which variable the new manager would get the files of authorities that the cloud config
// names and a plan does not mount.
func lostAuthorities(p facts.Instance, given map[string]bool, failing *findings.Problems) (missing []string) {
	if p.Host.CloudConfig == nil || given["SSL_CERT_FILE"] {
		return nil
	}
	files := caFiles(*p.Host.CloudConfig)
	for _, key := range slices.Sorted(maps.Keys(files)) {
		if !slices.ContainsFunc(trusted, func(dir string) bool { return strings.HasPrefix(files[key], dir+"/") }) {
			failing.Add(p.Host.Name+":"+p.Host.CloudConfig.Path, "%s is %s, which would not be mounted", key, files[key])
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

var selfNotFound = rule.Check{
	Code:      "CFG-005",
	Reason:    "MetadataNeeded",
	Category:  findings.CategoryCloud,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the zone, network and cluster that the config names, which spare the manager the metadata service",
	DependsOn: rule.OnHosts,
	Judge:     judgeMetadata,
}

func judgeMetadata(f facts.Facts) v1.Finding {
	if finding, ok := f.OtherProvider("aws"); ok {
		return finding
	}
	configs, finding, ok := configs(f)
	if !ok && finding.DependsOn != "" {
		return finding
	}
	if finding, ok := f.Missing("workloads"); ok {
		return finding
	}
	var failing findings.Problems
	warning := halfConfigs(configs)
	short, asked := shortHops(f)
	podNetwork := onPodNetwork(f)
	for _, w := range podNetwork {
		if len(short) > 0 {
			failing.Add(
				w.Ref,
				"%s has a pod network, and %d of the instances answer one hop only: %s",
				w.Ref,
				len(short),
				findings.Few(short),
			)
		}
	}
	all, outcome, bad := findings.Worst(failing, warning)
	const expected = "the host's network or a hop limit of 2, and a cloud config that is whole"
	switch {
	case bad && outcome == v1.Fail:
		return findings.With(
			all.Some(outcome, "%s cannot reach the metadata service", findings.Plural(len(failing), "workload")),
			expected,
			"ec2:DescribeInstances, workloads",
			fmt.Sprintf(
				"aws ec2 modify-instance-metadata-options --http-put-response-hop-limit %d --instance-id %s",
				hopsBehindNetwork,
				instanceOf(f, short[0]),
			),
		)
	case len(podNetwork) > 0 && !asked:
		return findings.Dependent("CLOUD-001")
	case bad:
		return findings.With(
			all.Some(outcome, "%s", warning[0].Text),
			expected,
			all[0].Object,
			"grep -n -i -E 'zone|vpc|subnetid|kubernetescluster|rolearn' "+shell.Quote(pathOf(all[0].Object)),
		)
	}
	if len(podNetwork) == 0 {
		return findings.Pass(
			"no manager or driver needs the metadata service from a pod network, and no cloud config is half of what spares it",
		)
	}
	return findings.Pass(
		"%s the metadata service from a pod network, every instance answers that far, and no cloud config is half of what spares it",
		findings.HowMany(len(podNetwork), "1 manager or driver needs", "managers and drivers need"),
	)
}

// halfConfigs are the cloud configs that have a part of what spares the metadata service.
func halfConfigs(configs []configured) findings.Problems {
	var out findings.Problems
	for _, c := range configs {
		if missing, partly := halfElsewhere(c); partly {
			out.Add(
				c.String(),
				"%s has some of VPC, SubnetID and KubernetesClusterID and lacks %s",
				c,
				strings.Join(missing, ", "),
			)
		}
	}
	return out
}

// halfElsewhere returns what a config lacks to spare its provider the question for its own instance, and whether it has
// a part of it.
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
func shortHops(f facts.Facts) (nodes []string, asked bool) {
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

func instanceOf(f facts.Facts, node string) string {
	for _, i := range f.Cloud.Instances {
		if i.Node == node {
			return shell.Quote(i.ID)
		}
	}
	return "<instance>"
}

// onPodNetwork are the managers and AWS drivers on a pod network that take region or credentials from the metadata
// service.
func onPodNetwork(f facts.Facts) []v1.Workload {
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

// hasOwnCredentials reports whether a container gets credentials without the metadata service.
func hasOwnCredentials(c v1.Container) bool {
	return slices.ContainsFunc(c.EnvNames, func(n string) bool {
		return slices.Contains(credentialNames, n) || slices.Contains(credentialSources, n)
	})
}
