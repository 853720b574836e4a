package version

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
)

// The minors of the API servers that the tests ran this project's cloud-controller-manager against, and all between
// them.
var firstClusterMinor, lastClusterMinor = proven.Minors()

// imageWords are what the words in the place of an image say of it.
var imageWords = map[string]string{cloudprovider.Official: "official ", cloudprovider.Own: "own "}

// strictSkew is how many minors a foreign cloud-controller-manager may be older than the API server, by the version
// skew policy. A newer one is outside the policy.
const strictSkew = 1

var ccmRange = rule.Check{
	Code:      "VER-001",
	Reason:    "ClusterOutOfRange",
	Category:  findings.CategoryVersions,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNoLoops,
	DependsOn: []string{"API-001"},
	Judge: func(f facts.Facts) v1.Finding {
		version, _ := f.Target()
		cluster, ok := facts.VersionMinor(version)
		if !ok {
			return findings.Unknown("version %q of the API server is not one that can be compared", version)
		}
		image, minor, ok := f.NewImage(cluster)
		switch {
		case !ok && image == "":
			finding := outOfRange(serverName(f))
			finding.Summary = fmt.Sprintf(
				"no %s is known for %s and Kubernetes %s",
				imageWords[f.Opts.Image]+component.CCM,
				findings.OrElse(f.Provider(), "this provider"),
				serverName(f),
			)
			return findings.With(
				finding,
				"a cloud-controller-manager for this version",
				"/version",
				"transplant plan --image=<cloud-controller-manager of your version>",
			)
		case facts.Own(image) && !proven.Covers(cluster):
			return findings.With(
				outOfRange(serverName(f)),
				fmt.Sprintf("1.%d to 1.%d", firstClusterMinor, lastClusterMinor),
				"/version",
				"transplant plan --image=<cloud-controller-manager of your version>",
			)
		case facts.Own(image) && cluster >= facts.DefaultCCMMinor:
			return findings.Pass(
				"the API server (%s) is of the minor that our cloud-controller-manager is built from",
				serverName(f),
			)
		case facts.Own(image):
			return findings.Pass(
				"the API server (%s) is one of 1.%d to 1.%d, with which our cloud-controller-manager is tested; the version skew policy does not cover it, since it is built of 1.%d (--image=official has the version that it covers)",
				serverName(f),
				firstClusterMinor,
				lastClusterMinor,
				facts.DefaultCCMMinor,
			)
		case !ok:
			return findings.With(
				findings.Unknown("the version of image %s cannot be told from its tag", image),
				"a tag such as v1.27.1",
				"--image",
				"transplant plan --image=<repository>:v1.x.y",
			)
		case minor > cluster || minor < cluster-strictSkew:
			finding := outOfRange(serverName(f))
			finding.Summary = fmt.Sprintf(
				"cloud-controller-manager 1.%d and API server %s are outside the version skew policy",
				minor,
				serverName(f),
			)
			return findings.With(
				finding,
				fmt.Sprintf("1.%d or 1.%d", cluster-strictSkew, cluster),
				"/version, --image",
				fmt.Sprintf("transplant plan --image=<repository>:v1.%d.x", cluster),
			)
		}
		return findings.Pass(
			"cloud-controller-manager 1.%d (%s) and API server %s are within the version skew policy",
			minor,
			image,
			serverName(f),
		)
	},
}

func outOfRange(version string) v1.Finding {
	return v1.Finding{
		Outcome: v1.Fail,
		Found:   version,
		Objects: []string{component.KAS},
		Summary: fmt.Sprintf(
			"the API server (%s) is outside the range that our cloud-controller-manager is meant for",
			version,
		),
	}
}

var providerInTree = rule.Check{
	Code:      "VER-002",
	Reason:    "ProviderNotInTree",
	Category:  findings.CategoryVersions,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the last version with your provider, and what to migrate with there",
	Mandatory: true,
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		in := f.InTree()
		if len(in) == 0 {
			return findings.Skip("no in-tree manager is left")
		}
		var bad findings.Problems
		var unclear []string
		for _, p := range in {
			provider := p.Flag("cloud-provider", "")
			known, ok := cloudprovider.Lookup(provider)
			minor, versioned := f.MinorOf(p)
			switch {
			case !ok:
				bad.Add(p.String(), "%s names the provider %q, which no version has in tree", p, provider)
			case known.Unsupported != "":
				bad.Add(p.String(), "%s uses %s, which Transplant cannot move: %s", p, known.Title, known.Unsupported)
			case !versioned:
				unclear = append(unclear, p.Unversioned())
			case minor > known.LastInTree:
				bad.Add(p.String(), "%s is 1.%d, and %s left after 1.%d", p, minor, provider, known.LastInTree)
			}
		}
		switch {
		case !bad.Empty():
			return findings.With(
				bad.Finding(v1.Fail, "%s", bad[0].Text),
				"a version that has the provider in tree",
				"manifests of "+component.KCM,
				"transplant explain VER-002",
			)
		case len(unclear) > 0:
			return findings.Unknown("%s", strings.Join(unclear, "; "))
		}
		return findings.Pass("%s has the in-tree provider %s", in[0].Image, in[0].Flag("cloud-provider", ""))
	},
}

var managerSkew = rule.Check{
	Code:      "VER-003",
	Reason:    "ManagerSkew",
	Category:  findings.CategoryVersions,
	Level:     findings.LevelError,
	Impact:    findings.ImpactAPI,
	LookFor:   "Server Version, and managers that are newer than it or more than one minor version older",
	DependsOn: []string{"API-001", "HOST-001", "CP-003"},
	Judge: func(f facts.Facts) v1.Finding {
		server, ok := facts.VersionMinor(f.Cluster.Version)
		if !ok {
			return findings.Unknown("version %q of the API server is not one that can be compared", f.Cluster.Version)
		}
		var bad findings.Problems
		var unclear []string
		for _, p := range slices.Concat(
			f.InstancesOf(component.KCM),
			f.InstancesOf(component.Scheduler),
			f.InstancesOf(component.KAS),
		) {
			minor, ok := p.Minor()
			switch {
			case !ok:
				unclear = append(unclear, p.Unversioned())
			case p.Name != component.KAS && !catalogue.WithinSkew(p.Name, minor, server),
				p.Name == component.KAS && (minor > server+1 || minor < server-1):
				bad.Add(p.String(), "%s is 1.%d, the API server %s", p, minor, f.Cluster.Version)
			}
		}
		switch {
		case !bad.Empty():
			return findings.With(
				bad.Finding(
					v1.Fail,
					"%s %s outside the version skew policy",
					findings.Plural(len(bad), "component"),
					english.Word(len(bad), "is", "are"),
				),
				fmt.Sprintf("1.%d or 1.%d", server-1, server),
				"images in the manifests",
				"kubectl version",
			)
		case len(unclear) > 0:
			return findings.Unknown("%s", strings.Join(unclear, "; "))
		}
		return findings.Pass("managers and API servers fit each other (API server %s)", f.Cluster.Version)
	},
}
