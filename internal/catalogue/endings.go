package catalogue

import "github.com/transplant-dev/transplant/internal/component"

// Ending is what becomes of a flag in the first minor of its component that no longer has it.
type Ending struct {
	// Replacement is the flag that takes the value over; empty when none does.
	Replacement string
	// Effect says in a clause what is different without the flag; empty when nothing is.
	Effect string
	// Refused says in a clause what has to be done before, by the one who set the flag; empty when the flag may be
	// removed.
	Refused string
}

// FlagEnds returns what becomes of a flag (without dashes) with a value when its component no longer has it. False for
// a flag whose end is not known here, and for one that has not ended.
func FlagEnds(program, flag, value string) (Ending, bool) {
	if _, last, ok := FlagRange(program, flag); !ok || last >= component.Newest {
		return Ending{}, false
	}
	for _, e := range endings[flag] {
		if e.component != "" && e.component != program {
			continue
		}
		if e.harmless == value && value != "" {
			return Ending{}, true
		}
		return e.Ending, true
	}
	return Ending{}, false
}

// ending is an Ending in one component, or in all of them.
type ending struct {
	component string
	// harmless is the value with which the flag says what holds without it.
	harmless string
	Ending
}

var (
	nothing = []ending{{}}
	toFiles = []ending{
		{
			Ending: Ending{
				Effect: "the log goes to standard error alone, from where the container runtime takes it, and no longer into files",
			},
		},
	}
	policy = []ending{
		{Ending: Ending{Refused: "write the scheduler's policy as a KubeSchedulerConfiguration (--config) first"}},
	}
	tunnels = []ending{
		{
			Ending: Ending{
				Refused: "give the API servers another way to the nodes than SSH tunnels first (--egress-selector-config-file)",
			},
		},
	}
)

// endings are the flags of kube-apiserver, kube-controller-manager and kube-scheduler that ended between Oldest and
// Newest. Sources: the CHANGELOGs of the minors and what the flags did in the last minor that had them. A test proves
// that the list is complete.
var endings = map[string][]ending{
	// The flags of klog (KEP-2845) ended with 1.26.
	"add-dir-header":    nothing,
	"log-backtrace-at":  nothing,
	"one-output":        nothing,
	"skip-headers":      nothing,
	"skip-log-headers":  nothing,
	"stderrthreshold":   nothing,
	"alsologtostderr":   nothing,
	"log-file-max-size": nothing,
	"log-dir":           toFiles,
	"log-file":          toFiles,
	"logtostderr":       {{harmless: "true", Ending: toFiles[0].Ending}},
	// Nothing has been served without TLS since 1.20; the flags were taken and did nothing.
	"address":                                 nothing,
	"port":                                    nothing,
	"insecure-bind-address":                   nothing,
	"insecure-port":                           nothing,
	"cloud-config":                            nothing,
	"cloud-provider":                          nothing,
	"cloud-provider-gce-l7lb-src-cidrs":       nothing,
	"cloud-provider-gce-lb-src-cidrs":         nothing,
	"deserialization-cache-size":              nothing,
	"enable-swagger-ui":                       nothing,
	"kubelet-https":                           nothing,
	"target-ram-mb":                           nothing,
	"experimental-encryption-provider-config": {{Ending: Ending{Replacement: "encryption-provider-config"}}},
	"service-account-api-audiences":           {{Ending: Ending{Replacement: "api-audiences"}}},
	"experimental-logging-sanitization": {
		{harmless: "false", Ending: Ending{Effect: "what the component logs is no longer searched for secrets"}},
	},
	"identity-lease-duration-seconds": {
		{Ending: Ending{Effect: "the leases by which API servers identify themselves last for their default"}},
	},
	"identity-lease-renew-interval-seconds": {
		{Ending: Ending{Effect: "the leases by which API servers identify themselves are renewed at their default"}},
	},
	"master-service-namespace": {
		{
			harmless: "default",
			Ending: Ending{
				Refused: "the Service kubernetes is in namespace default again: let nothing depend on another one first",
			},
		},
	},
	"ssh-keyfile":                       tunnels,
	"ssh-user":                          tunnels,
	"deleting-pods-burst":               nothing,
	"deleting-pods-qps":                 nothing,
	"deployment-controller-sync-period": nothing,
	"enable-taint-manager": {{harmless: "true", Ending: Ending{
		Effect: "pods are evicted from nodes with a NoExecute taint that they do not tolerate, which this flag kept from happening",
	}}},
	"experimental-cluster-signing-duration":     {{Ending: Ending{Replacement: "cluster-signing-duration"}}},
	"horizontal-pod-autoscaler-downscale-delay": nothing,
	"horizontal-pod-autoscaler-upscale-delay":   nothing,
	"horizontal-pod-autoscaler-use-rest-clients": {
		{harmless: "true", Ending: Ending{Refused: "let the autoscaler read the metrics API instead of Heapster first"}},
	},
	"pod-eviction-timeout": {{Ending: Ending{
		Effect: "pods leave a node that is not ready after the tolerationSeconds of their own (300 s by default); it had an effect next to --enable-taint-manager=false only",
	}}},
	"register-retry-count":             nothing,
	"volume-host-allow-local-loopback": nothing,
	"volume-host-cidr-denylist": {
		{
			Ending: Ending{
				Effect: "volume plugins are no longer kept from calling hosts of these ranges; those that call any are gone as well",
			},
		},
	},
	"algorithm-provider":                 policy,
	"policy-config-file":                 policy,
	"policy-configmap":                   policy,
	"policy-configmap-namespace":         policy,
	"use-legacy-policy-config":           {{harmless: "false", Ending: policy[0].Ending}},
	"hard-pod-affinity-symmetric-weight": {{harmless: "1", Ending: policy[0].Ending}},
	"scheduler-name":                     {{harmless: "default-scheduler", Ending: policy[0].Ending}},
	"lock-object-name":                   {{Ending: Ending{Replacement: "leader-elect-resource-name"}}},
	"lock-object-namespace":              {{Ending: Ending{Replacement: "leader-elect-resource-namespace"}}},
}

// pluginEnds are the admission plugins that a kube-apiserver no longer has, with the last minor that has each. The
// source is AllOrderedPlugins of pkg/kubeapiserver/options/plugins.go of every minor from Oldest to Newest. It does not
// start when one of them is named.
var pluginEnds = map[string]struct {
	last    int
	refused string
}{
	"DenyEscalatingExec": {
		20,
		"it kept people out of privileged pods: let an admission webhook or policy do that first",
	},
	"DenyExecOnPrivileged": {
		20,
		"it kept people out of privileged pods: let an admission webhook or policy do that first",
	},
	"PodSecurityPolicy": {
		24,
		"it kept pods from being privileged: move to Pod Security admission or a policy engine first",
	},
	"SecurityContextDeny": {
		29,
		"it kept pods from setting a security context: move to Pod Security admission or a policy engine first",
	},
	"PersistentVolumeLabel": {30, ""},
}

// AdmissionPluginEnds reports whether a kube-apiserver of a minor no longer has an admission plugin. It says in a
// clause what has to be done before; empty when nothing has to.
func AdmissionPluginEnds(plugin string, minor int) (refused string, ended bool) {
	end, ok := pluginEnds[plugin]
	return end.refused, ok && minor > end.last
}

// removedAPIs are the API versions of objects that a minor is the first not to serve:
// https://kubernetes.io/docs/reference/using-api/deprecation-guide/.
var removedAPIs = map[int][]string{
	22: {
		"admissionregistration.k8s.io/v1beta1",
		"apiextensions.k8s.io/v1beta1",
		"apiregistration.k8s.io/v1beta1",
		"authentication.k8s.io/v1beta1 TokenReview",
		"authorization.k8s.io/v1beta1",
		"certificates.k8s.io/v1beta1",
		"coordination.k8s.io/v1beta1",
		"extensions/v1beta1 and networking.k8s.io/v1beta1 Ingress",
		"networking.k8s.io/v1beta1 IngressClass",
		"rbac.authorization.k8s.io/v1beta1",
		"scheduling.k8s.io/v1beta1",
		"storage.k8s.io/v1beta1 CSIDriver, CSINode, StorageClass, VolumeAttachment",
	},
	25: {
		"batch/v1beta1 CronJob",
		"discovery.k8s.io/v1beta1 EndpointSlice",
		"events.k8s.io/v1beta1",
		"autoscaling/v2beta1",
		"policy/v1beta1 PodDisruptionBudget, PodSecurityPolicy",
		"node.k8s.io/v1beta1 RuntimeClass",
	},
	26: {"flowcontrol.apiserver.k8s.io/v1beta1", "autoscaling/v2beta2"},
	27: {"storage.k8s.io/v1beta1 CSIStorageCapacity"},
	29: {"flowcontrol.apiserver.k8s.io/v1beta2"},
	32: {"flowcontrol.apiserver.k8s.io/v1beta3"},
}

// RemovedAPIs are the API versions that a minor is the first not to serve.
func RemovedAPIs(minor int) []string { return removedAPIs[minor] }
