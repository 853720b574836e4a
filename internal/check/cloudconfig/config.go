package cloudconfig

import (
	"fmt"
	"slices"
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

var cloudConfig = rule.Check{
	Code:      "CFG-001",
	Reason:    "CloudConfigUnusable",
	Category:  findings.CategoryCloud,
	Level:     findings.LevelError,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "the path of the cloud config, and the key or the volume that the finding names",
	DependsOn: rule.OnHosts,
	Judge:     judgeCloudConfig,
}

func judgeCloudConfig(f facts.Facts) v1.Finding {
	in := f.InTree()
	bad, changes, without, deployed := sortConfigs(f, in)
	if !bad.Empty() {
		return findings.With(
			bad.Finding(v1.Fail, "no cloud config for the external provider can be derived: %s", bad[0].Text),
			"a cloud config that parses, on every host",
			"--cloud-config of "+component.KCM,
			"transplant explain CFG-001",
		)
	}
	if refused := refusedByOurs(f, in); !refused.Empty() {
		return findings.With(
			refused.Some(v1.Fail, "this project's manager refuses the cloud config: %s", refused[0].Text),
			"a cloud config that the manager of the plan takes",
			refused[0].Object,
			"transplant plan --image="+cloudprovider.Official,
		)
	}
	if finding, ok := f.Missing("hosts/*/cloud-config"); ok {
		return finding
	}
	if len(in) == 0 {
		return findings.Skip("no in-tree manager is left")
	}
	if len(deployed) > 0 {
		return judgeMountedConfig(deployed[0])
	}
	if p := unreadConfig(in); p != nil {
		return findings.Unknown("the snapshot does not hold the cloud config of %s", p)
	}
	if len(without) > 0 {
		return judgeManagersWithoutConfig(without, len(in))
	}
	if half := settingsThatLast(f, in); !half.Empty() {
		return findings.With(
			half.Some(v1.Warn, "%s", half[0].Text),
			"no setting that the in-tree provider applies by half",
			half[0].Object,
			"transplant explain CFG-001",
		)
	}
	slices.Sort(changes)
	changes = slices.Compact(changes)
	if len(changes) == 0 {
		return findings.Pass("the external provider can read the cloud config as it is")
	}
	source := in[0].Host.Name + ":" + in[0].Host.CloudConfig.Path // all of them have one
	var changed findings.Problems
	for _, c := range changes {
		changed.Add(source, "%s", c)
	}
	return findings.With(
		changed.Finding(
			v1.Pass,
			"the external provider's cloud config can be derived, with %s",
			findings.Plural(len(changes), "change"),
		),
		"",
		source,
		"",
	)
}

// sortConfigs tells the managers' cloud configs apart: what is wrong with them, what their derivation changes, who has
// none, and whose lie on volumes.
func sortConfigs(
	f facts.Facts,
	in []facts.Instance,
) (bad findings.Problems, changes []string, without, deployed []facts.Instance) {
	for _, p := range in {
		c := p.Host.CloudConfig
		switch {
		case p.Flags["cloud-config"] == "":
			provider, _ := cloudprovider.Lookup(p.Flags["cloud-provider"])
			if !provider.ConfigOptional {
				bad.Add(
					p.String(),
					"%s has no --cloud-config, and with provider %s %s",
					p,
					provider.Name,
					findings.OrElse(provider.WithoutConfig, "none is known to do without"),
				)
			} else {
				without = append(without, p)
			}
		case c == nil && p.RunKind() == v1.RunsDeployment && f.Cluster.Seed == "":
			deployed = append(deployed, p)
		case c == nil:
			continue
		case c.Error != "":
			bad.Add(p.Host.Name+":"+c.Path, "%s on host %s: %s", c.Path, p.Host.Name, c.Error)
		default:
			changes = append(changes, c.DerivedChanges...)
		}
	}
	return bad, changes, without, deployed
}

// refusedByOurs are the settings of the in-tree managers' configs with which ours would end at its start. There are
// none where the plan takes another manager.
func refusedByOurs(f facts.Facts, in []facts.Instance) (refused findings.Problems) {
	if !bringsOurs(f) {
		return nil
	}
	eachRefused(f, in, func(c configured, r catalogue.RefusedSetting) {
		text := r.Why
		if r.InTree != "" {
			text += ". " + r.InTree
		}
		refused.Add(c.String(), "%s on %s: %s", c.Path, c.host.Name, text)
	})
	return refused
}

// settingsThatLast are those by which the in-tree provider has made what stays behind.
func settingsThatLast(f facts.Facts, in []facts.Instance) (half findings.Problems) {
	eachRefused(f, in, func(c configured, r catalogue.RefusedSetting) {
		if r.InTree != "" {
			half.Add(c.String(), "%s on %s: %s", c.Path, c.host.Name, r.InTree)
		}
	})
	return half
}

// eachRefused finds the settings that our manager refuses.
func eachRefused(f facts.Facts, in []facts.Instance, found func(configured, catalogue.RefusedSetting)) {
	for _, p := range in {
		c := p.Host.CloudConfig
		if c == nil {
			continue
		}
		held := configured{*c, p.Host}
		for _, r := range catalogue.RefusedByOurs(findings.OrElse(c.Provider, f.CloudName())) {
			if held.has(r.Key) && r.Refuses(held.setting(r.Key), held.setting(r.Unless)) {
				found(held, r)
			}
		}
	}
}

// unreadConfig is the first manager that names a cloud config which was not read; nil when there is none.
func unreadConfig(in []facts.Instance) *facts.Instance {
	for i, p := range in {
		if p.Host.CloudConfig == nil && p.Flags["cloud-config"] != "" {
			return &in[i]
		}
	}
	return nil
}

// judgeMountedConfig says when the cloud config of a Deployment is looked at: it may lie in a Secret, and a snapshot
// reads none.
func judgeMountedConfig(p facts.Instance) v1.Finding {
	finding := v1.Finding{
		Outcome: v1.Warn,
		Objects: []string{p.Manifest},
		Summary: fmt.Sprintf(
			"the cloud config of %s lies on a volume of its pods and was not read; the first phase derives the external provider's config from it, before anything is stopped; a config that cannot be converted ends the migration there",
			p.Manifest,
		),
	}
	parts := strings.Split(p.Manifest, "/")
	return findings.With(
		finding,
		"a cloud config that can be derived",
		"--cloud-config of "+p.Manifest,
		fmt.Sprintf(
			"kubectl -n %s get %s %s -o yaml | grep -n -A3 volumes",
			shell.Quote(parts[1]),
			shell.Quote(strings.ToLower(parts[0])),
			shell.Quote(parts[len(parts)-1]),
		),
	)
}

// judgeManagersWithoutConfig judges the managers without a cloud config, of all that are in tree.
func judgeManagersWithoutConfig(without []facts.Instance, all int) v1.Finding {
	first := without[0]
	if len(without) < all {
		finding := v1.Finding{
			Outcome: v1.Warn, Summary: fmt.Sprintf("%s has no --cloud-config, and others have one", first),
			Objects: []string{first.String()},
		}
		return findings.With(
			finding,
			"the same on every host",
			"--cloud-config of "+component.KCM,
			"grep -n cloud-config "+shell.Quote(first.Manifest)+"   # on host "+shell.Quote(first.Host.Name),
		)
	}
	provider, _ := cloudprovider.Lookup(first.Flags["cloud-provider"])
	return findings.Pass("%s has no --cloud-config and needs none: %s", component.KCM, provider.WithoutConfig)
}

// credentialNames are the environment variables through which the AWS SDKs take credentials.
var credentialNames = []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}

// credentialSources are the variables that give the new manager credentials without holding them.
var credentialSources = []string{
	"AWS_SHARED_CREDENTIALS_FILE",
	"AWS_CONFIG_FILE",
	"AWS_PROFILE",
	"AWS_WEB_IDENTITY_TOKEN_FILE",
	"AWS_CONTAINER_CREDENTIALS_FULL_URI",
}

// costly is the outcome of what would keep the new manager from reaching the cloud, and may be wrong. Under leader
// migration the old manager goes on until the new one is ready; ours is ready when the cloud has answered. Otherwise no
// manager runs the loops until an administrator has fixed it.
func costly(f facts.Facts) v1.Outcome {
	if f.Strategy() == facts.StrategyDowntime || !bringsOurs(f) {
		return v1.Fail
	}
	return v1.Warn
}

// bringsOurs reports whether the manager which the plan brings in is this project's own.
func bringsOurs(f facts.Facts) bool {
	version, _ := f.Target()
	cluster, ok := facts.VersionMinor(version)
	if !ok {
		return facts.Own(f.Opts.Image)
	}
	image, _, _ := f.NewImage(cluster)
	return image != "" && facts.Own(image)
}
