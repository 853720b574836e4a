package plan

// Paths on a host that a migration writes. They lie beside what kubeadm writes, never in the manifests directory, save the CCM's manifest.
const (
	Dir           = "/etc/kubernetes/transplant"
	KCMMigration  = Dir + "/leader-migration-kcm.yaml"
	CCMMigration  = Dir + "/leader-migration-ccm.yaml"
	CCMCloudConf  = "/etc/kubernetes/cloud-controller-manager.cloud.conf"
	CCMKubeconfig = "/etc/kubernetes/cloud-controller-manager.conf"
	KCMKubeconfig = "/etc/kubernetes/controller-manager.conf"
	CCMManifest   = "/etc/kubernetes/manifests/cloud-controller-manager.yaml"
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
	// DeriveKubeconfig makes the CCM's kubeconfig from the KCM's (server, CA) and the token of TokenSecret.
	DeriveKubeconfig = "ccm-kubeconfig"
)

// Files lists every path that a plan reads or writes on a control-plane host, for the snapshot.
func Files() []string {
	return []string{KCMMigration, CCMMigration, CCMCloudConf, CCMKubeconfig, KCMKubeconfig, CCMManifest}
}
