package cloudconfig

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/shell"
)

var credentialsOnKubelets = rule.Check{
	Code:      "CRED-003",
	Reason:    "CredentialsOnKubelets",
	Category:  findings.CategoryCloud,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactNone,
	DependsOn: rule.OnHosts,
	Judge:     judgeCredentialsOnKubelets,
}

func judgeCredentialsOnKubelets(f facts.Facts) v1.Finding {
	if finding, none := f.NoKubelets(); none {
		return finding
	}
	var bad findings.Problems
	configs := 0
	for _, k := range f.Kubelets() {
		file := k.Flags["cloud-config"]
		if file == "" {
			continue
		}
		configs++
		if k.Provider() == facts.External {
			bad.Add(k.String(), "%s is external and has --cloud-config=%s (%s)", k, file, k.FlagSource("cloud-config"))
		}
	}
	have := fmt.Sprintf(
		"%d of %s a cloud config",
		configs,
		findings.Plural(len(f.Kubelets()), component.Kubelet)+" "+english.Word(configs, "has", "have"),
	)
	switch {
	case !bad.Empty() && f.Stage() == facts.StageExternal:
		return findings.With(
			bad.Some(
				v1.Warn,
				"%s credentials of the cloud without need: %s",
				findings.HowMany(len(bad), "1 kubelet holds", "kubelets hold"),
				have,
			),
			"no --cloud-config on an external kubelet",
			"flags of the kubelets",
			"sed -i.before 's| *--cloud-config=[^ \"]*||' "+shell.Quote(sourceOf(f, bad[0].Object, "cloud-config"))+" && systemctl restart kubelet   # on host "+facts.HostIn(
				bad[0].Object,
			),
		)
	case f.Stage() == facts.StageExternal:
		have = "no external kubelet has a cloud config; " + have
	default:
		have = "the kubelets need their cloud config until the migration is over: " + have
	}
	finding := findings.Pass("%s", have)
	finding.Found = identities(f)
	return finding
}

// identities says how many instances have an identity of the cloud; nothing where the inventory does not tell.
func identities(f facts.Facts) string {
	if f.Cloud == nil || len(f.CloudErrors("instances")) > 0 {
		return ""
	}
	roles := 0
	for _, i := range f.Cloud.Instances {
		if i.Profile {
			roles++
		}
	}
	if roles == 0 {
		return ""
	}
	return findings.Plural(roles, "instance") + " " + english.Word(roles, "has", "have") + " an identity of the cloud"
}

// sourceOf is the file from which a kubelet has a flag.
func sourceOf(f facts.Facts, name, flag string) string {
	for _, k := range f.Kubelets() {
		if k.String() == name {
			return k.FlagSource(flag)
		}
	}
	return ""
}

var credentialsNowhere = rule.Check{
	Code:      "CRED-004",
	Reason:    "CredentialsNowhere",
	Category:  findings.CategoryCloud,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the instance profile, or the file with credentials",
	DependsOn: rule.OnHosts,
	Judge:     judgeCredentialsNowhere,
}

func judgeCredentialsNowhere(f facts.Facts) v1.Finding {
	if finding, ok := f.OtherProvider("aws"); ok {
		return finding
	}
	if slices.ContainsFunc(f.Opts.CCMEnv, func(n string) bool { return slices.Contains(credentialSources, n) }) {
		if _, wrong := envFiles(f, func(n string) bool { return slices.Contains(credentialSources, n) }); wrong {
			return findings.Dependent("CRED-001")
		}
		return findings.Pass("the new manager gets its credentials through %s", strings.Join(f.Opts.CCMEnv, ", "))
	}
	if f.Cloud == nil {
		return findings.Dependent("CLOUD-001")
	}
	if errs := f.CloudErrors("instances"); len(errs) > 0 {
		return findings.Unknown("%s", strings.Join(errs, "; "))
	}
	instances := make(map[string]v1.CloudInstance, len(f.Cloud.Instances))
	for _, i := range f.Cloud.Instances {
		instances[i.Node] = i
	}
	if !slices.ContainsFunc(
		f.Cloud.Instances,
		func(i v1.CloudInstance) bool { return i.Profile || i.MetadataHops != nil },
	) {
		return findings.Skip("the inventory does not say which identity instances have")
	}
	var bad findings.Problems
	asked := 0
	for _, node := range f.ControlPlaneNodes {
		i, known := instances[node]
		if !known || !i.Found {
			continue // NODE-002
		}
		asked++
		if !i.Profile {
			bad.Add(node, "%s (%s) has no instance profile", node, i.ID)
		}
	}
	switch {
	case asked == 0:
		return findings.Unknown("the cloud did not say which identity the instances of the control plane have")
	case bad.Empty():
		return findings.Pass("all %s of the control plane have an instance profile", findings.Plural(asked, "instance"))
	}
	return findings.With(
		bad.Some(
			v1.Warn,
			"%s no identity of the cloud: the new manager would have no credentials there",
			findings.HowMany(len(bad), "1 instance of the control plane has", "instances of the control plane have"),
		),
		"an instance profile, or --ccm-env with a credentials file",
		"ec2:DescribeInstances",
		"aws ec2 associate-iam-instance-profile --iam-instance-profile Name=<profile> --instance-id "+shell.Quote(instances[bad[0].Object].ID),
	)
}

var credentialVariable = rule.Check{
	Code:      "CRED-001",
	Reason:    "CredentialsInEnvironment",
	Category:  findings.CategoryCloud,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the file with the cloud's credentials that the in-tree manager uses",
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		var bad findings.Problems
		for _, p := range f.InTree() {
			var names []string
			for _, n := range p.EnvNames {
				if slices.Contains(credentialNames, n) {
					names = append(names, n)
				}
			}
			if len(names) > 0 {
				bad.Add(p.String(), "%s has %s in its environment", p, strings.Join(names, " and "))
			}
		}
		given := slices.ContainsFunc(f.Opts.CCMEnv, func(n string) bool { return slices.Contains(credentialSources, n) })
		files, wrong := envFiles(f, func(n string) bool { return slices.Contains(credentialSources, n) })
		switch {
		case len(f.InTree()) == 0:
			return findings.Skip("no in-tree manager is left")
		case wrong:
			return files
		case bad.Empty():
			return findings.Pass("%s has no cloud credentials in its environment", component.KCM)
		case given:
			return findings.Pass("the new manager gets its credentials through %s", strings.Join(f.Opts.CCMEnv, ", "))
		}
		return findings.With(
			bad.Finding(
				costly(f),
				"%s has cloud credentials in its environment, and the new manager would not get them",
				component.KCM,
			),
			"--ccm-env that names a file, or an instance role with the same rights",
			"env of "+component.KCM,
			"transplant plan --ccm-env AWS_SHARED_CREDENTIALS_FILE=/etc/kubernetes/ccm.credentials",
		)
	},
}
