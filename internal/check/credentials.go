package check

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

var credentialsOnKubelets = Check{
	Code: "CRED-003", Reason: "CredentialsOnKubelets", Category: categoryCloud, Level: LevelWarning, Impact: ImpactNone, DependsOn: onHosts,
	Title: "kubelets hold no cloud credentials that they do not need any more",
	Explain: []string{
		"An in-tree kubelet calls the cloud for its addresses, zone and image credentials, so every node has a cloud config or an instance role with rights of the cloud. Once the cloud-controller-manager makes these calls, a worker needs none of them but the " +
			"right to read images. Whoever escapes from a pod on that worker has the rest.",
		"Before the migration this check passes and says what there is. After it, a kubelet that is external and still names a cloud config is a warning: take the flag and the file away (the flag ends the kubelet in a later version), and then reduce the role of the " +
			"workers' instances. On the control plane the file stays as long as a manager reads it.",
	},
	judge: judgeCredentialsOnKubelets,
}

func judgeCredentialsOnKubelets(f facts) v1.Finding {
	if finding, none := f.noKubelets(); none {
		return finding
	}
	var bad complaints
	configs := 0
	for _, k := range f.kubelets() {
		file := k.Flags["cloud-config"]
		if file == "" {
			continue
		}
		configs++
		if k.provider() == external {
			bad.add(k.String(), "%s is external and has --cloud-config=%s (%s)", k, file, k.source("cloud-config"))
		}
	}
	have := fmt.Sprintf("%d of %s a cloud config", configs, plural(len(f.kubelets()), "kubelet")+" "+has(configs))
	switch {
	case !bad.empty() && f.stage() == stageExternal:
		return with(bad.some(v1.Warn, "%s credentials of the cloud without need: %s", howMany(len(bad.lines), "1 kubelet holds", "kubelets hold"), have), "no --cloud-config on an external kubelet", "flags of the kubelets",
			"sed -i.before 's| *--cloud-config=[^ \"]*||' "+f.sourceOf(bad.objects[0], "cloud-config")+" && systemctl restart kubelet   # on host "+hostIn(bad.objects[0]))
	case f.stage() == stageExternal:
		have = "no external kubelet has a cloud config; " + have
	default:
		have = "the kubelets need them until the migration is over: " + have
	}
	finding := pass("%s", have)
	finding.Found = f.identities()
	return finding
}

// identities says how many instances have an identity of the cloud; nothing where the inventory does not tell.
func (f facts) identities() string {
	if f.Cloud == nil || len(f.cloudErrors("instances")) > 0 {
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
	return plural(roles, "instance") + " " + has(roles) + " an identity of the cloud"
}

// sourceOf is the file from which a kubelet has a flag.
func (f facts) sourceOf(name, flag string) string {
	for _, k := range f.kubelets() {
		if k.String() == name {
			return k.source(flag)
		}
	}
	return ""
}

var credentialsNowhere = Check{
	Code: "CRED-004", Reason: "CredentialsNowhere", Category: categoryCloud, Level: LevelError, Impact: ImpactNoLoops, DependsOn: onHosts,
	Title: "every host of the new manager has credentials for the cloud",
	Explain: []string{
		"The cloud-controller-manager takes its credentials from the environment, a file, or the identity of the instance it runs on. A control-plane instance without one, on a cluster whose kube-controller-manager gets its credentials in a way that is not carried " +
			"over, is a host on which the new manager reaches nothing as soon as it leads.",
		"Attach an instance profile with the rights of the provider's documentation, or give a file: --ccm-env AWS_SHARED_CREDENTIALS_FILE=/etc/kubernetes/ccm.credentials.",
	},
	judge: judgeCredentialsNowhere,
}

func judgeCredentialsNowhere(f facts) v1.Finding {
	if finding, ok := f.concerns("aws"); !ok {
		return finding
	}
	if slices.ContainsFunc(f.opts.CCMEnv, func(n string) bool { return slices.Contains(credentialSources, n) }) {
		if _, wrong := f.envFiles(func(n string) bool { return slices.Contains(credentialSources, n) }); wrong {
			return dependent("CRED-001")
		}
		return pass("the new manager gets its credentials through %s", strings.Join(f.opts.CCMEnv, ", "))
	}
	if f.Cloud == nil {
		return dependent("CLOUD-001")
	}
	if errs := f.cloudErrors("instances"); len(errs) > 0 {
		return unknown("%s", strings.Join(errs, "; "))
	}
	instances := make(map[string]v1.CloudInstance, len(f.Cloud.Instances))
	for _, i := range f.Cloud.Instances {
		instances[i.Node] = i
	}
	if !slices.ContainsFunc(f.Cloud.Instances, func(i v1.CloudInstance) bool { return i.Profile || i.MetadataHops != nil }) {
		return skip("the inventory does not say which identity instances have")
	}
	var bad complaints
	asked := 0
	for _, node := range f.ControlPlaneNodes {
		i, known := instances[node]
		if !known || !i.Found {
			continue // NODE-002
		}
		asked++
		if !i.Profile {
			bad.add(node, "%s (%s) has no instance profile", node, i.ID)
		}
	}
	switch {
	case asked == 0:
		return unknown("the cloud did not say which identity the instances of the control plane have")
	case bad.empty():
		return pass("all %s of the control plane have an instance profile", plural(asked, "instance"))
	}
	return with(bad.some(v1.Warn, "%s no identity of the cloud: the new manager would have no credentials there", howMany(len(bad.lines), "1 instance of the control plane has", "instances of the control plane have")),
		"an instance profile, or --ccm-env with a credentials file", "ec2:DescribeInstances", "aws ec2 associate-iam-instance-profile --iam-instance-profile Name=<profile> --instance-id "+instances[bad.objects[0]].ID)
}
