package catalogue

import (
	"fmt"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
)

// Gates that switch the in-tree providers off. The first one is of all components: alpha from 1.22, on unless said
// otherwise from 1.29 (KEP-2395). The second one is of the kubelet's image credentials (KEP-2133).
const (
	DisableCloudProviders                  = "DisableCloudProviders"
	DisableKubeletCloudCredentialProviders = "DisableKubeletCloudCredentialProviders"
)

// External is the value of --cloud-provider under which a component leaves the cloud to a cloud-controller-manager.
const External = "external"

// GateValue is a feature gate with a value.
type GateValue struct {
	Gate  string
	Value bool
}

// Acceptance is whether a component starts with a value of --cloud-provider.
type Acceptance struct {
	// Starts is false when it ends at once, whatever its gates are; Why says so in a sentence.
	Starts bool
	Why    string
	// Gates have to have these values for it to start.
	Gates []GateValue
}

// Accepts reports whether a component (kube-apiserver, kube-controller-manager, kubelet) of a minor starts with a value
// of --cloud-provider: the name of a provider, "external", or nothing.
//
// Sources: pkg/kubeapiserver/options/cloudprovider.go (Validate, since 1.29),
// cmd/kube-controller-manager/app/cloudproviders.go, cmd/kubelet/app/server.go and pkg/kubelet/kubelet.go of each
// minor, and plugins.go of k8s.io/cloud-provider.
func Accepts(name, value string, minor int) Acceptance {
	if flag, _ := FlagAt(name, "cloud-provider", minor); value != "" && !flag.Known {
		return Acceptance{Why: fmt.Sprintf("%s 1.%d does not know --cloud-provider", name, minor)}
	}
	if name == component.KAS {
		return serverAccepts(value, minor)
	}
	switch {
	case value == "", value == External:
		return Acceptance{Starts: true}
	case !InTree(value, minor):
		return Acceptance{Why: fmt.Sprintf("%s 1.%d has no provider %q: it ends at once", name, minor, value)}
	}
	return Acceptance{Starts: true, Gates: gatesThat(DisableCloudProviders, false, minor)}
}

// serverAccepts: up to 1.28 the API server takes any value; then it wants the gates to agree with it.
func serverAccepts(value string, minor int) Acceptance {
	switch {
	case value == "" || minor < 29:
		return Acceptance{Starts: true}
	case value == External || InTree(value, minor):
		on := value == External
		return Acceptance{
			Starts: true,
			Gates: append(
				gatesThat(DisableCloudProviders, on, minor),
				gatesThat(DisableKubeletCloudCredentialProviders, on, minor)...),
		}
	}
	return Acceptance{Why: fmt.Sprintf("kube-apiserver 1.%d has no provider %q: it ends at once", minor, value)}
}

// gatesThat names a gate that has to have a value, in the minors that have it.
func gatesThat(gate string, value bool, minor int) []GateValue {
	if !GateAt(gate, minor).Known {
		return nil
	}
	return []GateValue{{gate, value}}
}

// InTree reports whether the components of a minor still have a provider.
func InTree(provider string, minor int) bool {
	p, ok := cloudprovider.Lookup(provider)
	return ok && minor <= p.LastInTree
}
