package plan

import (
	"path"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Paths on a host that a migration writes. They lie beside what kubeadm writes, never in the manifests directory, save the CCM's manifest.
const (
	Dir           = "/etc/kubernetes/transplant"
	KCMMigration  = Dir + "/leader-migration-kcm.yaml"
	CCMMigration  = Dir + "/leader-migration-ccm.yaml"
	CCMCloudConf  = "/etc/kubernetes/cloud-controller-manager.cloud.conf"
	CCMKubeconfig = "/etc/kubernetes/cloud-controller-manager.conf"
	KCMKubeconfig = "/etc/kubernetes/controller-manager.conf"
	CCMManifest   = "/etc/kubernetes/manifests/cloud-controller-manager.yaml"
	// CCMTokenDir is a directory of its own: a container that mounts it sees a token that takes the place of another one, which a mounted file would not show.
	CCMTokenDir = "/etc/kubernetes/cloud-controller-manager"
	CCMToken    = CCMTokenDir + "/token"
)

// Paths of the image credential provider, where a kubelet names none yet.
const (
	CredentialConfig = "/etc/kubernetes/image-credential-provider.yaml"
	CredentialDir    = "/usr/local/lib/kubelet-credential-providers"
)

// Names of derivations that the engine carries out on a host, where a plan must not hold the content.
const (
	// DeriveCloudConfig makes the external provider's cloud config from the in-tree one.
	DeriveCloudConfig = "cloud-config"
	// DeriveKubeconfig makes the CCM's kubeconfig from the KCM's (server, CA); it names CCMToken.
	DeriveKubeconfig = "ccm-token-kubeconfig"
	// DeriveToken asks for a token of the CCM's account that lasts a year, DeriveRenewingToken for a shorter one that the manager renews by itself.
	DeriveToken         = "ccm-token"
	DeriveRenewingToken = "ccm-renewing-token"
	// DeriveSeedKubeconfig and DeriveSeedCloudConfig do the same in the namespace of a seed, in Secrets, from what the kube-controller-manager's Deployment
	// mounts there; DeriveSeedManager gives the cloud-controller-manager's Deployment the environment, volumes and nodes of the kube-controller-manager's.
	DeriveSeedKubeconfig  = "seed-token-kubeconfig"
	DeriveSeedCloudConfig = "seed-cloud-config"
	DeriveSeedManager     = "seed-manager"
	// OlderKubeconfig and OlderSeedKubeconfig hold the token of TokenSecret, which never expires: journals of earlier versions have them.
	OlderKubeconfig     = "ccm-kubeconfig"
	OlderSeedKubeconfig = "seed-kubeconfig"
	// DeriveDeployedCloudConfig makes the external provider's cloud config in a Secret beside the cloud-controller-manager's Deployment, from what the
	// kube-controller-manager's mounts: a ConfigMap, a Secret, or a file of its hosts.
	DeriveDeployedCloudConfig = "deployed-cloud-config"
)

// Files lists every path that a plan reads or writes on a control-plane host, for the snapshot.
func Files() []string {
	return []string{KCMMigration, CCMMigration, CCMCloudConf, CCMKubeconfig, CCMToken, KCMKubeconfig, CCMManifest}
}

// EnvFiles are the files that the environment of the cloud-controller-manager names, {host} for the host's name among them.
func EnvFiles(o v1.Options) []string {
	var out []string
	for _, e := range o.Env {
		if _, value, _ := strings.Cut(e, "="); path.IsAbs(value) {
			out = append(out, value)
		}
	}
	return out
}

// Names of the objects that a migration makes in the namespace of a seed, and where their content is mounted.
const (
	SeedKubeconfig     = "cloud-controller-manager-kubeconfig"
	SeedKubeconfigKey  = "kubeconfig"
	SeedTokenKey       = "token"
	SeedCloudConfig    = "cloud-controller-manager-cloud-config"
	SeedCloudConfigKey = "config"
	SeedMigration      = "transplant-leader-migration"

	seedKubeconfigDir  = "/etc/kubernetes/kubeconfig"
	seedCloudConfigDir = "/etc/kubernetes/cloud-config"
	seedMigrationDir   = "/etc/transplant/leader-migration"
	seedMigrationKCM   = "kube-controller-manager.yaml"
	seedMigrationCCM   = "cloud-controller-manager.yaml"
)
