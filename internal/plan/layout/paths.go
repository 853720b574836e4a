package layout

import (
	"path"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Paths on a host that a migration writes. They lie next to what kubeadm writes, never in the manifests directory, save
// the CCM's manifest.
const (
	Dir           = "/etc/kubernetes/transplant"
	KCMMigration  = Dir + "/leader-migration-kcm.yaml"
	CCMMigration  = Dir + "/leader-migration-ccm.yaml"
	CCMCloudConf  = "/etc/kubernetes/cloud-controller-manager.cloud.conf"
	CCMKubeconfig = "/etc/kubernetes/cloud-controller-manager.conf"
	KCMKubeconfig = "/etc/kubernetes/controller-manager.conf"
	CCMManifest   = "/etc/kubernetes/manifests/cloud-controller-manager.yaml"
	// CCMTokenDir is a directory of its own. A container that mounts it sees a token that takes the place of another one,
	// which a mounted file would not show.
	CCMTokenDir = "/etc/kubernetes/cloud-controller-manager"
	CCMToken    = CCMTokenDir + "/token"
)

// Paths of the image credential provider, where a kubelet names none yet.
const (
	CredentialConfig = "/etc/kubernetes/image-credential-provider.yaml"
	CredentialDir    = "/usr/local/lib/kubelet-credential-providers"
	// CredentialConfigMode is of a configuration that a migration makes. One that was there keeps its own.
	CredentialConfigMode = "0644"
)

// Files lists every path that a plan reads or writes on a control-plane host, for the snapshot.
func Files() []string {
	return []string{KCMMigration, CCMMigration, CCMCloudConf, CCMKubeconfig, CCMToken, KCMKubeconfig, CCMManifest}
}

// EnvFiles are the files that the environment of the cloud-controller-manager names, {host} for the host's name among
// them.
func EnvFiles(o v1.Options) []string {
	var out []string
	for _, e := range o.Env {
		if _, value, _ := strings.Cut(e, "="); path.IsAbs(value) {
			out = append(out, value)
		}
	}
	return out
}
