package hosted

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/shell"
)

const partFinish = v1.PartFinish

// reports says that what could not be gathered under a prefix is told by this check.
func reports(f facts.Facts, prefix string) {
	for i, e := range f.Errors {
		if strings.HasPrefix(e.Fact, prefix) {
			f.Reported[i] = true
		}
	}
}

var seedReadable = rule.Check{
	Code:      "HCP-001",
	Reason:    "SeedUnreadable",
	Category:  categorySeed,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactNone,
	LookFor:   "the Deployment that the finding names, and the condition that is not met",
	Mandatory: true,
	Retryable: true,
	Judge: func(f facts.Facts) v1.Finding {
		reports(f, "seed/")
		for _, e := range f.Errors {
			if strings.HasPrefix(e.Fact, "seed/") && e.Fact != "seed/cloud-config" {
				return findings.Unknown("%s", e.Error)
			}
		}
		for _, name := range []string{component.KCM, component.KAS} {
			if c := f.Deployed(name); c == nil {
				return v1.Finding{
					Outcome: v1.Fail,
					Summary: fmt.Sprintf("namespace %s of the seed has no Deployment that runs %s", f.Cluster.Seed, name),
					Objects: []string{name},
				}
			} else if c.Error != "" {
				return v1.Finding{Outcome: v1.Fail, Summary: c.Manifest + ": " + c.Error, Objects: []string{c.Manifest}}
			}
		}
		return findings.Pass("namespace %s of the seed has both", f.Cluster.Seed)
	},
}

var seedProvider = rule.Check{
	Code:      "HCP-002",
	Reason:    "SeedProvider",
	Category:  categorySeed,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the flags of the Deployment that the finding names",
	Mandatory: true,
	DependsOn: []string{"HCP-001"},
	Judge: func(f facts.Facts) v1.Finding {
		c := f.Deployed(component.KCM)
		has := c.Flags["cloud-provider"]
		out := v1.Finding{
			Outcome:  v1.Fail,
			Objects:  []string{c.Manifest},
			Found:    "--cloud-provider=" + has,
			Expected: "an in-tree provider",
		}
		switch {
		case f.Opts.Part == facts.PartInstall:
			return madeExternal(f, c)
		case f.Opts.Part == partFinish && has == "external":
			return findings.Pass("%s is external already", c.Manifest)
		case has == "" || has == "external":
			out.Summary = fmt.Sprintf(
				"%s runs with --cloud-provider=%q: there is no in-tree provider to move out of",
				c.Manifest,
				has,
			)
			return out
		case f.Opts.Provider != "" && f.Opts.Provider != has:
			out.Summary = fmt.Sprintf(
				"%s runs with --cloud-provider=%s, and the cluster is said to be in %s",
				c.Manifest,
				has,
				f.Opts.Provider,
			)
			out.Expected = "--cloud-provider=" + f.Opts.Provider
			return out
		}
		return findings.Pass("%s runs with --cloud-provider=%s", c.Manifest, has)
	},
}

// madeExternal judges whether a first cloud-controller-manager may be installed for the provider that the owner of the
// cluster names.
func madeExternal(f facts.Facts, c *v1.Component) v1.Finding {
	has, is := c.Flags["cloud-provider"], f.Cluster.Provider
	out := v1.Finding{
		Outcome:  v1.Fail,
		Objects:  []string{c.Manifest},
		Found:    "--cloud-provider=" + has,
		Expected: "--cloud-provider=external, or none",
	}
	switch {
	case has != "" && has != "external":
		out.Summary = fmt.Sprintf(
			"%s runs with --cloud-provider=%s: its loops are handed over, and no other manager is started next to it",
			c.Manifest,
			has,
		)
		return out
	case f.Opts.Provider == "":
		out.Summary, out.Found, out.Expected = "the cluster does not say which cloud it is in", "", "spec.cloud.providerName"
		return out
	case is != "" && is != f.Opts.Provider:
		out.Summary = fmt.Sprintf("the nodes are in %s, and the cluster is said to be in %s", is, f.Opts.Provider)
		out.Found, out.Expected = is, f.Opts.Provider
		return out
	}
	return findings.Pass("%s runs with --cloud-provider=%q", c.Manifest, has)
}

var seedRolledOut = rule.Check{
	Code:      "HCP-003",
	Reason:    "SeedNotRolledOut",
	Category:  categorySeed,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the flags and the feature gates of the managers",
	Retryable: true,
	DependsOn: []string{"HCP-001"},
	Judge: func(f facts.Facts) v1.Finding {
		out := v1.Finding{Outcome: v1.Fail, Expected: "every pod updated and ready, none that ends"}
		for _, name := range []string{component.KAS, component.KCM} {
			c := f.Deployed(name)
			switch {
			case c.Replicas != nil && *c.Replicas == 0:
				out.Objects, out.Summary = append(
					out.Objects,
					c.Manifest,
				), c.Manifest+" has no replicas: the control plane is hibernated"
			case c.Rollout != "" && out.Summary == "":
				out.Objects, out.Summary = append(out.Objects, c.Manifest), c.Manifest+": "+c.Rollout
			case c.Rollout != "":
				out.Objects = append(out.Objects, c.Manifest)
			}
		}
		if out.Summary != "" {
			return out
		}
		return findings.Pass("both are")
	},
}

var seedConfig = rule.Check{
	Code:      "HCP-004",
	Reason:    "SeedCloudConfig",
	Category:  categorySeed,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the cloud config that the Deployment mounts",
	Mandatory: true,
	DependsOn: []string{"HCP-002"},
	Judge: func(f facts.Facts) v1.Finding {
		c := f.Deployed(component.KCM)
		switch {
		case f.Opts.Part == partFinish:
			return findings.Skip("nothing is derived any longer")
		case f.Opts.Part == facts.PartInstall && c.Flags["cloud-config"] == "" && c.CloudConfig == nil:
			return v1.Finding{
				Outcome: v1.Fail,
				Objects: []string{c.Manifest},
				Summary: fmt.Sprintf(
					"%s mounts no cloud config at /etc/kubernetes/cloud/config, and a cloud-controller-manager in a seed needs one",
					c.Manifest,
				),
				Fix: fmt.Sprintf(
					"kubectl -n %s create secret generic cloud-controller-manager-cloud-config --from-file=config=FILE",
					shell.Quote(f.Cluster.Seed),
				),
			}
		case f.Opts.Part == facts.PartInstall && c.Flags["cloud-config"] == "":
			if c.CloudConfig.Error != "" {
				return v1.Finding{Outcome: v1.Fail, Summary: c.CloudConfig.Error, Objects: []string{c.Manifest}}
			}
			return findings.Pass("%s can", c.CloudConfig.Path)
		case c.Flags["cloud-config"] == "":
			return withoutSeedConfig(c)
		case c.CloudConfig == nil:
			return findings.Unknown("the cloud config %s of %s was not looked at", c.Flags["cloud-config"], c.Manifest)
		case c.CloudConfig.Error != "":
			return v1.Finding{Outcome: v1.Fail, Summary: c.CloudConfig.Error, Objects: []string{c.Manifest}}
		}
		return findings.Pass("it can")
	},
}

// withoutSeedConfig judges a hosted kube-controller-manager that has no --cloud-config.
func withoutSeedConfig(c *v1.Component) v1.Finding {
	provider, known := cloudprovider.Lookup(c.Flags["cloud-provider"])
	if known && !provider.ConfigOptional {
		return v1.Finding{
			Outcome: v1.Fail,
			Objects: []string{c.Manifest},
			Summary: fmt.Sprintf(
				"%s has no --cloud-config, and with provider %s %s",
				c.Manifest,
				provider.Name,
				provider.WithoutConfig,
			),
		}
	}
	return findings.Pass("%s has none and needs none", c.Manifest)
}

var seedOwners = rule.Check{
	Code:      "HCP-005",
	Reason:    "SeedOwners",
	Category:  categorySeed,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "the holder of each lease, and pods that no Deployment of the control plane has made",
	Mandatory: true,
	Retryable: true,
	DependsOn: []string{"HCP-001"},
	Judge: func(f facts.Facts) v1.Finding {
		reports(f, "managers/")
		if !showsLoops(f) {
			return findings.Skip("%s of %s does not say which loops it runs", component.KCM, f.Cluster.Version)
		}
		if len(f.Managers) == 0 {
			return findings.Unknown("no pod of a manager was found in the seed")
		}
		var silent []string
		isEachToCome := true
		owners := map[string][]string{}
		for _, m := range f.Managers {
			if m.Error != "" {
				silent = append(silent, m.Component+" in pod "+m.Host+": "+m.Error)
				isEachToCome = isEachToCome && m.ErrorReason == v1.ErrorReasonNotMadeYet
			}
			for _, l := range m.Loops {
				owners[l] = append(owners[l], m.Component+"/"+m.Host)
			}
		}
		for _, l := range controllernames.CloudLoops {
			if o := owners[string(l)]; len(o) > 1 {
				slices.Sort(o)
				return v1.Finding{
					Outcome:  v1.Fail,
					Summary:  fmt.Sprintf("loop %s runs in %s at once", l, strings.Join(o, " and ")),
					Objects:  o,
					Expected: "one owner",
				}
			}
		}
		if len(silent) > 0 {
			slices.Sort(silent)
			out := v1.Finding{Outcome: v1.Unknown, Summary: "which loops they run is not known: " + strings.Join(silent, "; ")}
			if isEachToCome {
				out.Outcome = v1.Warn
			}
			return out
		}
		return findings.Pass("%s say so", findings.Plural(len(f.Managers), "pod"))
	},
}

// showsLoops reports whether a kube-controller-manager of the cluster's version says on /metrics which loops it
// runs.
func showsLoops(f facts.Facts) bool {
	minor, ok := facts.VersionMinor(f.Cluster.Version)
	return !ok || catalogue.ShowsLoops(component.KCM, minor)
}

var seedManager = rule.Check{
	Code:      "HCP-006",
	Reason:    "SeedManagerThere",
	Category:  categorySeed,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "the labels and the owner of the workload that the finding names",
	Mandatory: true,
	DependsOn: []string{"HCP-001"},
	Judge: func(f facts.Facts) v1.Finding {
		c := f.Deployed(component.CCM)
		if f.Opts.Part == partFinish {
			if c == nil || c.Replicas != nil && *c.Replicas == 0 {
				return v1.Finding{
					Outcome:  v1.Fail,
					Summary:  "no cloud-controller-manager runs in the seed: hand the loops over first",
					Expected: "a Deployment of one",
				}
			}
			return findings.Pass("%s runs one", c.Manifest)
		}
		// Before the lease that this manager holds sooner or later: what is read then would depend on when it is asked.
		if c != nil && (c.Replicas == nil || *c.Replicas > 0) {
			return v1.Finding{
				Outcome:  v1.Fail,
				Summary:  c.Manifest + " runs one already: remove it, or go on with the migration that started it",
				Objects:  []string{c.Manifest},
				Expected: "none",
			}
		}
		if other := otherManager(f); other != "" && f.Opts.Part == facts.PartInstall {
			return v1.Finding{
				Outcome:  v1.Fail,
				Summary:  other + ": it is left alone, and a second one is not started",
				Objects:  []string{component.CCM},
				Expected: "none",
			}
		}
		return findings.Pass("none does")
	},
}

// otherManager says by which evidence a cloud-controller-manager runs in the user cluster itself; empty when there is
// none.
func otherManager(f facts.Facts) string {
	for _, w := range f.Workloads {
		if w.Role == v1.RoleCCM && !strings.Contains(w.Ref, "/"+f.Cluster.Seed+"/") &&
			(w.Replicas > 0 || strings.HasPrefix(w.Ref, "DaemonSet/")) {
			return w.Ref + " of the user cluster runs a cloud-controller-manager"
		}
	}
	for _, l := range f.Leases {
		if l.Name == component.CCM && l.Holder != "" && l.RenewTime != nil &&
			f.TakenAt.Sub(*l.RenewTime) < 2*time.Duration(l.DurationSeconds)*time.Second {
			return fmt.Sprintf("%s holds Lease %s of the user cluster", l.Holder, l.Name)
		}
	}
	return ""
}

var seedElection = rule.Check{
	Code:      "HCP-007",
	Reason:    "SeedElection",
	Category:  categorySeed,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "the strategy and the leader election flags of the Deployment",
	Mandatory: true,
	DependsOn: []string{"HCP-001"},
	Judge: func(f facts.Facts) v1.Finding {
		c := f.Deployed(component.KCM)
		if c.Flags["leader-elect"] == "false" {
			return v1.Finding{
				Outcome:  v1.Fail,
				Summary:  c.Manifest + " runs with --leader-elect=false",
				Objects:  []string{c.Manifest},
				Expected: "leader election",
			}
		}
		return findings.Pass("%s does", c.Manifest)
	},
}
