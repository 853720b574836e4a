package node

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/shell"
)

const sourcePreview = "the new provider's code, asked for every node"

// previewed is the finding of a check that compares each node with what the new provider would write. The judge returns
// what is wrong with one, or "". Nodes that the cloud did not answer for are returned too.
func previewed(
	f facts.Facts,
	judge func(v1.Node, v1.NodePreview) string,
) (bad findings.Problems, unanswered []string, finding v1.Finding, ok bool) {
	switch {
	case f.Preview == nil && len(f.UnknownReasons("preview")) > 0:
		finding, _ = f.Missing("preview")
		return bad, nil, finding, false
	case f.Preview == nil && !cloudprovider.HasProgram(f.CloudName()):
		return bad, nil, findings.Skip(
			"transplant has no program with the code of %s: what it would find for each node is not known",
			f.CloudName(),
		), false
	case f.Preview == nil:
		return bad, nil, findings.With(
			findings.Skip("the new provider's code was not asked about the nodes"),
			"",
			sourcePreview,
			"transplant check --prove",
		), false
	case f.Preview.Error != "":
		return bad, nil, findings.Unknown("the new provider's code did not answer: %s", f.Preview.Error), false
	}
	previews := make(map[string]v1.NodePreview, len(f.Preview.Nodes))
	for _, p := range f.Preview.Nodes {
		previews[p.Node] = p
	}
	bad, finding, ok = f.EachNode(func(n v1.Node) string {
		p, asked := previews[n.Name]
		if !asked || p.Error != "" {
			unanswered = append(unanswered, n.Name+": "+findings.OrElse(p.Error, "not asked"))
			return ""
		}
		return judge(n, p)
	})
	return bad, unanswered, finding, ok
}

// compared is the finding of a comparison with the preview: fail for complaints, or else pass. That nodes have no
// answer is NODE-010's to report.
func compared(
	f facts.Facts,
	judge func(v1.Node, v1.NodePreview) string,
	complaint, passes, expected, fix string,
) v1.Finding {
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	bad, unanswered, _, ok := previewed(f, judge)
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Finding(v1.Fail, complaint, len(bad), findings.Plural(len(f.Nodes), "node")),
			expected,
			sourcePreview,
			fmt.Sprintf(fix, shell.Quote(bad[0].Object)),
		)
	case !ok || len(unanswered) > 0:
		return findings.Dependent("NODE-010")
	}
	return findings.Pass(passes, findings.Plural(len(f.Nodes), "node"))
}

var previewFound = rule.Check{
	Code:      "NODE-010",
	Reason:    "PreviewNotFound",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactNodeDeletion,
	LookFor:   "the node's providerID and addresses, and whether that instance still exists in the cloud",
	DependsOn: rule.OnAPI,
	Retryable: true,
	Judge: func(f facts.Facts) v1.Finding {
		found := 0
		bad, unanswered, finding, ok := previewed(f, func(n v1.Node, p v1.NodePreview) string {
			if p.Found {
				found++
				return ""
			}
			return fmt.Sprintf(
				"no instance for providerID %s (node ready: %s)",
				findings.OrElse(n.ProviderID, "none, by its name"),
				n.Ready,
			)
		})
		const expected = "an instance for every node"
		switch {
		case !ok:
			return finding
		case found == 0 && !bad.Empty():
			return findings.With(
				bad.Finding(
					v1.Fail,
					"the new provider finds none of %s: its credentials, region or configuration are of another account",
					findings.Plural(len(f.Nodes), "node"),
				),
				expected,
				sourcePreview,
				"transplant check --prove",
			)
		case !bad.Empty():
			return findings.With(
				bad.Finding(v1.Fail, "the new manager would delete %s when not ready", findings.Plural(len(bad), "node")),
				expected,
				sourcePreview,
				"kubectl get node "+shell.Quote(bad[0].Object)+" -o wide",
			)
		case len(unanswered) > 0:
			return findings.With(
				findings.Unknown(
					"the new provider did not answer for %s: %s",
					findings.Plural(len(unanswered), "node"),
					findings.Few(unanswered),
				),
				expected,
				sourcePreview,
				"transplant check --prove",
			)
		}
		return findings.Pass(
			"the provider %s finds the instances of all %s, in %s to the cloud",
			f.Preview.Provider,
			findings.Plural(found, "node"),
			findings.Plural(f.Preview.Calls, "call"),
		)
	},
}

var previewIdentity = rule.Check{
	Code:      "NODE-011",
	Reason:    "PreviewIdentityChanges",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeDeletion,
	LookFor:   "the providerID, which the new provider's code says differently",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		return compared(f, func(n v1.Node, p v1.NodePreview) string {
			if !p.Found || p.ProviderID == "" || n.ProviderID == "" || strings.EqualFold(n.ProviderID, p.ProviderID) {
				return ""
			}
			return n.ProviderID + " would be " + p.ProviderID
		}, "%d of %s would get another providerID if they registered again", "the new provider gives all %s the providerIDs that they have", "the same providerID",
			"kubectl get node %s -o jsonpath='{.spec.providerID}'")
	},
}

var previewAddresses = rule.Check{
	Code:      "NODE-012",
	Reason:    "PreviewAddressesChange",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactAPI,
	LookFor:   "the addresses that the new provider would add or remove",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		return compared(
			f,
			addressChange,
			"%d of %s would get other addresses",
			"the new provider gives all %s the addresses that they have",
			"the same addresses in the same order",
			"kubectl get node %s -o jsonpath='{.status.addresses}'",
		)
	},
}

// addressChange says which addresses of a node the new manager would change; empty when none.
func addressChange(n v1.Node, p v1.NodePreview) string {
	if !p.Found || len(p.Addresses) == 0 {
		return ""
	}
	would := p.Addresses
	if len(facts.OfType(would, "Hostname")) == 0 {
		for _, name := range facts.OfType(n.Addresses, "Hostname") {
			would = append(slices.Clone(would), "Hostname="+name)
		}
	}
	var changes []string
	for _, kind := range []string{"InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS"} {
		is, will := facts.OfType(n.Addresses, kind), facts.OfType(would, kind)
		if provided := n.Annotations[facts.AnnotationProvidedIP]; provided != "" && slices.Contains(will, provided) {
			will = []string{provided} // the kubelet's choice is the only one of its type
		}
		if !slices.Equal(is, will) {
			changes = append(
				changes,
				fmt.Sprintf(
					"%s %s would be %s",
					kind,
					findings.OrElse(strings.Join(is, ","), "none"),
					findings.OrElse(strings.Join(will, ","), "none"),
				),
			)
		}
	}
	return strings.Join(changes, ", ")
}

var previewTopology = rule.Check{
	Code:      "NODE-013",
	Reason:    "PreviewTopologyChanges",
	Category:  findings.CategoryNodes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactVolumes,
	LookFor:   "the zone, region and instance type, which the new provider would change",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		return compared(
			f,
			topologyChange,
			"%d of %s would get another zone, region or type",
			"the new provider gives all %s the zone, region and type that they have",
			"the same labels",
			"kubectl get node %s -L topology.kubernetes.io/zone,topology.kubernetes.io/region,node.kubernetes.io/instance-type",
		)
	},
}

func topologyChange(n v1.Node, p v1.NodePreview) string {
	if !p.Found {
		return ""
	}
	var changes []string
	for _, l := range []struct {
		pair  labelPair
		would string
	}{{ZoneLabels, p.Zone}, {RegionLabels, p.Region}, {TypeLabels, p.Type}} {
		if is := l.pair.valueOn(n); is != "" && l.would != "" && is != l.would {
			changes = append(changes, fmt.Sprintf("%s %s would be %s", l.pair.what, is, l.would))
		}
	}
	return strings.Join(changes, ", ")
}
