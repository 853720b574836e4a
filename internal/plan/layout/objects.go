package layout

import (
	"encoding/json"
	"fmt"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/kubeadmconfig"
)

// Names of the workloads that a plan makes.
const (
	CCMDaemonSet = "DaemonSet/" + component.Namespace + "/" + component.CCM
	CCMBudget    = "PodDisruptionBudget/" + component.Namespace + "/" + component.CCM
	// NodeManager initialises nodes on Azure, one on each: Azure's manager leaves that to it.
	NodeManager          = "cloud-node-manager"
	NodeManagerDaemonSet = "DaemonSet/" + component.Namespace + "/" + NodeManager
)

// LabelMaster is the label of control-plane nodes that kubeadm sets up to 1.23.
const LabelMaster = "node-role.kubernetes.io/master"

// LabelControlPlane is the label of control-plane nodes that kubeadm sets from 1.20 on.
const LabelControlPlane = "node-role.kubernetes.io/control-plane"

// LabelComponent names the component of a pod, in the manner of kubeadm's static pods.
const LabelComponent = "component"

// EncodeObject returns an object as JSON.
func EncodeObject(o any) string {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err) // maps of strings and numbers marshal
	}
	return string(raw)
}

// CloudConfigSecret returns the Secret with the cloud config of a manager that runs as a Deployment, without its
// content.
func CloudConfigSecret() Object {
	return Object{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": Metadata(SeedCloudConfig, component.Namespace)}
}

// KubeadmConfigRef is the ConfigMap with kubeadm's ClusterConfiguration.
const KubeadmConfigRef = "ConfigMap/" + component.Namespace + "/" + kubeadmconfig.Name

const nodeManagerRole = "transplant-" + NodeManager

// Names of the API objects that a migration makes. Existing roles are never changed: rules are added next to them.
const (
	Observer      = "transplant-observer"
	MigrationRole = "transplant-leader-migration"
	CCMAccount    = component.CCM
	CCMRole       = "transplant-cloud-controller-manager"
	CCMState      = statePrefix + cloudprovider.AWS  // where our manager on AWS notes which load balancers are in line
	TokenSecret   = "cloud-controller-manager-token" // of earlier versions: it never expires
	AccountRef    = "ServiceAccount/" + component.Namespace + "/" + CCMAccount
	statePrefix   = "transplant-service-state-"
)

// StateName is the ConfigMap in which our manager of a provider notes which load balancers are in line.
func StateName(provider string) string { return statePrefix + provider }

// Object is an object of the Kubernetes API as a plan renders it.
type Object = map[string]any

// Metadata returns the metadata of an object that this migration makes.
func Metadata(name, namespace string) Object {
	m := Object{"name": name, "labels": Object{"app.kubernetes.io/managed-by": "transplant"}}
	if namespace != "" {
		m["namespace"] = namespace
	}
	return m
}

// CloudIdentity is the ConfigMap with the name that Google's provider gives this cluster in its cloud. Its first author
// decides: it is neither changed nor deleted, since load balancers are named by it.
const CloudIdentity = "ConfigMap/" + component.Namespace + "/ingress-uid"

// Ref names an object as Kind/namespace/name or Kind/name.
func Ref(o map[string]any) string {
	m := o["metadata"].(Object)
	if ns, ok := m["namespace"]; ok {
		return fmt.Sprintf("%s/%s/%s", o["kind"], ns, m["name"])
	}
	return fmt.Sprintf("%s/%s", o["kind"], m["name"])
}

// Names of the objects that a migration makes in the namespace of a seed, and where their content is mounted.
const (
	SeedKubeconfig     = "cloud-controller-manager-kubeconfig"
	SeedKubeconfigKey  = "kubeconfig"
	SeedTokenKey       = "token"
	SeedCloudConfig    = "cloud-controller-manager-cloud-config"
	SeedCloudConfigKey = "config"
	SeedMigration      = "transplant-leader-migration"

	SeedKubeconfigDir  = "/etc/kubernetes/kubeconfig"
	SeedCloudConfigDir = "/etc/kubernetes/cloud-config"
	SeedMigrationDir   = "/etc/transplant/leader-migration"
	SeedMigrationKCM   = "kube-controller-manager.yaml"
	SeedMigrationCCM   = "cloud-controller-manager.yaml"
)

// ContainsRef reports whether an object of the list has a reference.
func ContainsRef(objects []Object, ref string) bool {
	for _, o := range objects {
		if Ref(o) == ref {
			return true
		}
	}
	return false
}

// MigrationVolume is the volume of the leader migration configs.
const MigrationVolume = "transplant-leader-migration"

// SeedDeploymentName is the name of the cloud-controller-manager's Deployment in the seed, as Kubermatic has it.
func SeedDeploymentName(provider string) string { return provider + "-" + component.CCM }

// FieldKubernetesVersion is the field of kubeadm's ClusterConfiguration with the version of the control plane.
const FieldKubernetesVersion = "kubernetesVersion"
