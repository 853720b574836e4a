// Package trim decides what the caches of our controllers keep of an object.
package trim

import (
	"os"
	"runtime/debug"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Object removes from an object what neither our controllers nor a provider of ours reads. A kubelet's list of images
// is more than half of a Node, and what it says of its resources a quarter of the rest. Therefore, a Node or a Service
// of the cache must never be written as a whole. That would erase in the API what was removed here. Our controllers
// send patches of what they change.
func Object(object any) (any, error) {
	if described, ok := object.(metav1.Object); ok {
		described.SetManagedFields(nil)
	}
	if service, ok := object.(*corev1.Service); ok {
		delete(service.Annotations, corev1.LastAppliedConfigAnnotation) // which is as large as the rest of it
	}
	if node, ok := object.(*corev1.Node); ok {
		s := &node.Status
		isTrimmed := s.Capacity == nil && s.NodeInfo.MachineID == "" // or no kubelet has written it
		for _, unread := range unreadAnnotations {
			delete(node.Annotations, unread)
		}
		s.Conditions = readConditions(s.Conditions)
		s.Images, s.VolumesInUse, s.VolumesAttached = nil, nil, nil
		s.Capacity, s.Allocatable, s.NodeInfo.MachineID, s.NodeInfo.BootID = nil, nil, "", ""
		if !isTrimmed {
			share(node)
		}
	}
	return object, nil
}

// unreadAnnotations are those of kubectl, kubelets and kubeadm that are of no use to a cloud.
var unreadAnnotations = []string{
	corev1.LastAppliedConfigAnnotation,
	"csi.volume.kubernetes.io/nodeid",
	"kubeadm.alpha.kubernetes.io/cri-socket",
	"node.alpha.kubernetes.io/ttl",
	"volumes.kubernetes.io/controller-managed-attach-detach",
}

// readConditions are those that say whether a node is ready and connected. Kubelets write three more, and detectors of
// problems a dozen.
func readConditions(all []corev1.NodeCondition) (read []corev1.NodeCondition) {
	for _, c := range all {
		if c.Type == corev1.NodeReady || c.Type == corev1.NodeNetworkUnavailable {
			read = append(read, c)
		}
	}
	return read
}

// common are strings that many objects have, each once. Decoding makes a copy for each object.
var common = struct {
	sync.Mutex
	texts map[string]string
}{texts: map[string]string{}}

// mostCommon and longestCommon bound them, as kubelets write them. What comes after that, or is longer, is kept as it
// is.
const (
	mostCommon    = 4096
	longestCommon = 128
)

// valuesDiffer are labels whose values are a node's own.
var valuesDiffer = map[string]bool{corev1.LabelHostname: true}

// share has a Node use the strings that other Nodes have, too.
func share(node *corev1.Node) {
	common.Lock()
	defer common.Unlock()
	node.Labels = withSharedKeys(node.Labels, func(key, value string) string {
		if value == node.Name {
			return node.Name
		}
		if valuesDiffer[key] {
			return value
		}
		return shared(value)
	})
	node.Annotations = withSharedKeys(node.Annotations, func(_, value string) string { return value })
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		c.Type, c.Status = corev1.NodeConditionType(shared(string(c.Type))), corev1.ConditionStatus(shared(string(c.Status)))
		c.Reason, c.Message = shared(c.Reason), shared(c.Message)
	}
	for i := range node.Status.Addresses {
		a := &node.Status.Addresses[i]
		a.Type = corev1.NodeAddressType(shared(string(a.Type)))
		if a.Address == node.Name {
			a.Address = node.Name
		}
	}
	info := &node.Status.NodeInfo
	for _, text := range []*string{
		&info.KernelVersion, &info.OSImage, &info.OperatingSystem, &info.Architecture, &info.ContainerRuntimeVersion,
		&info.KubeletVersion, &info.KubeProxyVersion, //nolint:staticcheck // kubelets of before 1.31 write it
	} {
		*text = shared(*text)
	}
}

// shared is a string that others have, too. The caller has the lock.
func shared(text string) string {
	if len(text) > longestCommon {
		return text
	}
	known, ok := common.texts[text]
	if !ok && len(common.texts) < mostCommon {
		common.texts[text], known, ok = text, text, true
	}
	if !ok {
		return text
	}
	return known
}

// withSharedKeys returns a map with keys that others have, too, and what is made of the values. The caller has the
// lock.
func withSharedKeys(of map[string]string, value func(key, value string) string) map[string]string {
	if of == nil {
		return nil
	}
	out := make(map[string]string, len(of))
	for k, v := range of {
		out[shared(k)] = value(k, v)
	}
	return out
}

// garbage is how much garbage there may be before it is collected, in percent of what is in use.
const garbage = 50

// CollectOften halves the garbage that the process keeps, unless its environment says how much that is to be. Caches
// are most of its memory and rarely change, so that collecting costs little.
func CollectOften() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(garbage)
	}
}
