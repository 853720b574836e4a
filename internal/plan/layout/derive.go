// Package layout says where a migration puts what it makes, and from what the contents are derived. It makes files on
// hosts, and objects in the cluster and in a seed.
package layout

import (
	"time"

	"github.com/transplant-dev/transplant/internal/boundtoken"
)

// TokenLifetime is how long a token is asked for.
func TokenLifetime(derivation string) time.Duration {
	if derivation == DeriveRenewingToken {
		return boundtoken.RenewingLifetime
	}
	return boundtoken.Lifetime
}

// Names of derivations that the engine executes on a host, where a plan must not hold the content.
const (
	// DeriveCloudConfig makes the external provider's cloud config from the in-tree one.
	DeriveCloudConfig = "cloud-config"
	// DeriveKubeconfig makes the CCM's kubeconfig from the KCM's (server, CA); it names CCMToken.
	DeriveKubeconfig = "ccm-token-kubeconfig"
	// DeriveToken asks for a token of the CCM's account that lasts a year, DeriveRenewingToken for a shorter one that
	// the manager renews by itself.
	DeriveToken         = "ccm-token"
	DeriveRenewingToken = "ccm-renewing-token"
	// DeriveSeedKubeconfig and DeriveSeedCloudConfig do the same in the namespace of a seed, in Secrets, from what the
	// kube-controller-manager's Deployment mounts there. DeriveSeedManager gives the cloud-controller-manager's
	// Deployment the environment, volumes and nodes of the kube-controller-manager's.
	DeriveSeedKubeconfig  = "seed-token-kubeconfig"
	DeriveSeedCloudConfig = "seed-cloud-config"
	DeriveSeedManager     = "seed-manager"
	// OlderKubeconfig and OlderSeedKubeconfig hold the token of TokenSecret, which never expires: journals of earlier
	// versions have them.
	OlderKubeconfig     = "ccm-kubeconfig"
	OlderSeedKubeconfig = "seed-kubeconfig"
	// DeriveDeployedCloudConfig makes the external provider's cloud config in a Secret next to the
	// cloud-controller-manager's Deployment. Its source is what the kube-controller-manager's mounts: a ConfigMap, a
	// Secret, or a file of its hosts.
	DeriveDeployedCloudConfig = "deployed-cloud-config"
	// DeriveCredentialConfig adds the provider of the step's content to the CredentialProviderConfig of a kubelet,
	// which is both source and target.
	DeriveCredentialConfig = "credential-provider-config"
)

// DeriveKubeadm is the derivation of StepPatchObject that applies the step's edits to kubeadm's
// ClusterConfiguration, for the step's component.
const DeriveKubeadm = "kubeadm-config"
