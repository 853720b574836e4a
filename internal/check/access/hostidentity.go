package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/english"
)

var hostsDistinct = rule.Check{
	Code:      "HOST-003",
	Reason:    "HostAmbiguous",
	Category:  findings.CategoryTooling,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "two hosts with one Node's name, or a Node without a host",
	Mandatory: true,
	DependsOn: []string{"API-001", "HOST-001"},
	Judge:     judgeHostsDistinct,
}

func judgeHostsDistinct(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	var bad, odd findings.Problems
	for _, h := range f.Hosts {
		if !h.APIOnly && h.NodeName == "" && h.Kubelet != nil {
			bad.Add(h.Name, "host %s has a kubelet and is no Node of this cluster", h.Name)
		}
	}
	hosts := hostsOfNodes(f.Hosts)
	bad = append(bad, takenForOneNode(hosts)...)
	labels := map[string][]string{}
	for _, n := range f.Nodes {
		if name := n.Labels[facts.LabelHostname]; name != "" {
			labels[name] = append(labels[name], n.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if nodes := labels[name]; len(nodes) > 1 {
			odd.Add(name, "Nodes %s have the host name %s", strings.Join(nodes, " and "), name)
		}
	}
	const expected, source = "one Node for each host, and a host name of its own for each Node", "/api/v1/nodes, --host-access"
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Finding(v1.Fail, "which Node is which host is not clear: %s", bad[0].Text),
			expected,
			source,
			"kubectl get nodes -L "+facts.LabelHostname+"   # and leave out of --host-access what is none of them",
		)
	case !odd.Empty():
		return findings.With(
			odd.Finding(v1.Warn, "%s %s shared", findings.Plural(len(odd), "host name"), english.Word(len(odd), "is", "are")),
			expected,
			source,
			"kubectl get nodes -L "+facts.LabelHostname,
		)
	}
	return findings.Pass("each of %s is one Node of its own", findings.Plural(len(hosts), "host"))
}

// hostsOfNodes are the names of hosts, by that of the Node that they are taken for.
func hostsOfNodes(all []v1.Host) map[string][]string {
	hosts := map[string][]string{}
	for _, h := range all {
		if !h.APIOnly && h.NodeName != "" {
			hosts[h.NodeName] = append(hosts[h.NodeName], h.Name)
		}
	}
	return hosts
}

func takenForOneNode(hosts map[string][]string) (bad findings.Problems) {
	for _, node := range slices.Sorted(maps.Keys(hosts)) {
		if names := hosts[node]; len(names) > 1 {
			bad.Add(node, "hosts %s are all taken for Node %s", strings.Join(names, " and "), node)
		}
	}
	return bad
}

// WrongHosts are the hosts that no run may go on with: two that are taken for one Node, or one of another cluster. A
// host whose Node is gone is none of them: to go on, or back, may be what brings the Node again.
func WrongHosts(s *v1.Snapshot) findings.Problems {
	_, ofOthers := compareAuthorities(s)
	return append(takenForOneNode(hostsOfNodes(s.Hosts)), ofOthers...)
}

var hostsOfCluster = rule.Check{
	Code:      "HOST-004",
	Reason:    "HostOfAnotherCluster",
	Category:  findings.CategoryTooling,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the fingerprint, which the CA file of each host has to have too",
	Mandatory: true,
	DependsOn: []string{"API-001", "HOST-001"},
	Judge:     judgeHostsOfCluster,
}

func judgeHostsOfCluster(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("authorities"); ok {
		return finding
	}
	if len(f.Authorities) == 0 {
		return findings.Skip("the cluster has no ConfigMap kube-system/kube-root-ca.crt to compare the hosts with")
	}
	compared, bad := compareAuthorities(f.Snapshot)
	if compared == 0 {
		return findings.Skip("no host shows the authority that it trusts")
	}
	if !bad.Empty() {
		return findings.With(
			bad.Finding(
				v1.Fail,
				"%s of another cluster: %s",
				findings.HowMany(len(bad), "1 host is", "hosts are"),
				strings.Join(bad.Objects(), ", "),
			),
			"a certificate that host and cluster both trust",
			"/etc/kubernetes/pki/ca.crt on the host, ConfigMap kube-system/kube-root-ca.crt",
			"kubectl -n kube-system get configmap kube-root-ca.crt -o jsonpath='{.data.ca\\.crt}' | openssl x509 -noout -fingerprint -sha256   # and correct --host-access or --context",
		)
	}
	return findings.Pass("%s and the cluster trust the same authority", findings.Plural(compared, "host"))
}

// compareAuthorities counts the hosts that show an authority, and returns those that do not trust the cluster's.
func compareAuthorities(s *v1.Snapshot) (compared int, bad findings.Problems) {
	if len(s.Authorities) == 0 {
		return 0, nil
	}
	for _, h := range s.Hosts {
		if len(h.Authorities) == 0 {
			continue
		}
		compared++
		if !slices.ContainsFunc(h.Authorities, func(a string) bool { return slices.Contains(s.Authorities, a) }) {
			bad.Add(
				h.Name,
				"host %s trusts another authority (SHA-256 %s) than the cluster (%s)",
				h.Name,
				fingerprint(h.Authorities),
				fingerprint(s.Authorities),
			)
		}
	}
	return compared, bad
}

func fingerprint(sums []string) string {
	return fmt.Sprintf("%.12s", sums[0])
}
