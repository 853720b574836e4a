package version

import (
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/english"
)

var providerIDRequired = rule.Check{
	Code:      "VER-011",
	Reason:    "ProviderIDRequired",
	Category:  findings.CategoryVersions,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "the instance of the node, whose id the providerID has to name",
	DependsOn: rule.OnAPI,
	Judge:     judgeProviderIDRequired,
}

func judgeProviderIDRequired(f facts.Facts) v1.Finding {
	cluster, ok := facts.VersionMinor(f.Cluster.Version)
	if !ok {
		return findings.Unknown("version %q of the API server is not one that can be compared", f.Cluster.Version)
	}
	image, minor, ok := f.NewImage(cluster)
	switch {
	case image == "":
		return findings.Dependent("VER-001")
	case !ok:
		return findings.Unknown("the library's version in image %q of the new manager is not known", image)
	case minor < catalogue.ProviderIDRequired:
		return findings.Pass("cloud-controller-manager 0.%d initialises nodes without a providerID too", minor)
	}
	previews := map[string]v1.NodePreview{}
	if f.Preview != nil {
		for _, p := range f.Preview.Nodes {
			previews[p.Node] = p
		}
	}
	var refused findings.Problems
	var unclear []string
	_, finding, ok := f.EachNode(func(n v1.Node) string {
		if n.ProviderID != "" {
			return ""
		}
		p, asked := previews[n.Name]
		switch {
		case !asked || p.Error != "":
			unclear = append(unclear, n.Name)
		case p.ProviderID == "":
			refused.Add(n.Name, "%s: the provider finds no providerID", n.Name)
		}
		return ""
	})
	const source = "/api/v1/nodes, the new provider's own answer"
	switch {
	case !ok:
		return finding
	case !refused.Empty():
		return findings.With(
			refused.Some(
				v1.Fail,
				"cloud-controller-manager 0.%d would never initialise %s",
				minor,
				findings.Plural(len(refused), "node"),
			),
			"a providerID, or one that the provider finds",
			source,
			f.GiveProviderID(refused[0].Object),
		)
	case len(unclear) > 0:
		return findings.With(v1.Finding{
			Outcome: v1.Warn,
			Objects: unclear[:min(len(unclear), findings.MaxShown)],
			Found:   findings.Few(unclear),
			Summary: fmt.Sprintf(
				"%s %s no providerID, and the new provider was not asked whether it finds one",
				findings.Plural(len(unclear), "node"),
				english.Word(len(unclear), "has", "have"),
			),
		}, "a providerID, or one that the provider finds", source, facts.ProveOr(f, f.GiveProviderID(unclear[0])))
	}
	return findings.Pass(
		"cloud-controller-manager 0.%d would initialise all %s",
		minor,
		findings.Plural(len(f.Nodes), "node"),
	)
}
