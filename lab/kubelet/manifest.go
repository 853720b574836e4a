package kubelet

import (
	"crypto/md5" //nolint:gosec // a fingerprint, as the kubelet's own; nothing is protected by it
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Annotations by which the API and its users know static pods and their mirrors.
const (
	annotationHash   = "kubernetes.io/config.hash"
	annotationSource = "kubernetes.io/config.source"
	annotationSeen   = "kubernetes.io/config.seen"
	annotationMirror = corev1.MirrorPodAnnotationKey
)

// staticPod is one manifest, parsed. The pod's UID is its hash: the same content in the same file is the same pod.
type staticPod struct {
	pod  *corev1.Pod
	path string // of the manifest, as seen on the host; empty for a pod of the API

	// A pod of the API has these: an address of its own, what its containers are run by, and what their processes see
	// next to what the API shows.
	address  string
	hostName string             // the processes' host name; empty: this machine's
	programs map[string]Program // by container
	inner    *corev1.Pod        // pod with the contents of its volumes and variables; nil: pod itself
}

// effective is the pod as its processes see it.
func (s *staticPod) effective() *corev1.Pod {
	if s.inner != nil {
		return s.inner
	}
	return s.pod
}

func (s *staticPod) key() string  { return s.pod.Namespace + "/" + s.pod.Name }
func (s *staticPod) hash() string { return string(s.pod.UID) }

// parseManifest reads one manifest. The hash is taken over the parsed pod, so that a comment or another order of keys
// changes nothing, and over the path, so that a copy of a manifest under another file name is another pod, which is
// what makes a backup file next to the original harmful.
func parseManifest(data []byte, path, nodeName string) (*staticPod, error) {
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal(data, pod); err != nil {
		return nil, fmt.Errorf("parsing manifest %q: %w", path, err)
	}
	if err := judgePod(pod); err != nil {
		return nil, fmt.Errorf("reading manifest %q: %w", path, err)
	}
	pod.Status = corev1.PodStatus{}
	if pod.Namespace == "" {
		pod.Namespace = corev1.NamespaceDefault
	}
	if pod.UID == "" {
		uid, err := fingerprint(pod, path, nodeName)
		if err != nil {
			return nil, fmt.Errorf("hashing manifest %q: %w", path, err)
		}
		pod.UID = uid
	}
	pod.Name = pod.Name + "-" + strings.ToLower(nodeName)
	if errs := validation.IsDNS1123Subdomain(pod.Name); len(errs) > 0 {
		return nil, fmt.Errorf("reading manifest %q: pod name %q: %s", path, pod.Name, strings.Join(errs, ", "))
	}
	pod.Spec.NodeName = nodeName
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	pod.Spec.Tolerations = append(
		pod.Spec.Tolerations,
		corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[annotationHash] = string(pod.UID)
	pod.Annotations[annotationSource] = "file"
	return &staticPod{pod: pod, path: path}, nil
}

func fingerprint(pod *corev1.Pod, path, nodeName string) (types.UID, error) {
	content, err := json.Marshal(pod)
	if err != nil {
		return "", err
	}
	sum := md5.New() //nolint:gosec // see the import
	_, _ = sum.Write(content)
	_, _ = fmt.Fprintf(sum, "host:%sfile:%s", nodeName, path)
	return types.UID(hex.EncodeToString(sum.Sum(nil))), nil
}

// judgePod refuses what a kubelet would refuse, and what this one cannot run.
func judgePod(pod *corev1.Pod) error {
	switch {
	case pod.Kind != "Pod" || pod.APIVersion != "v1":
		return fmt.Errorf("found kind %q of API version %q, not a Pod of v1", pod.Kind, pod.APIVersion)
	case pod.Name == "":
		return errors.New("metadata.name is empty")
	case len(pod.Spec.Containers) == 0:
		return errors.New("spec.containers is empty")
	case len(pod.Spec.InitContainers) > 0:
		return errors.New("spec.initContainers: a simulated kubelet runs no init containers")
	}
	volumes := map[string]bool{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Name == "" || volumes[v.Name] {
			return fmt.Errorf("spec.volumes[%d]: name %q is empty or given twice", i, v.Name)
		}
		if v.HostPath == nil && v.EmptyDir == nil {
			return fmt.Errorf("spec.volumes[%d]: volume %q is neither a hostPath nor an emptyDir", i, v.Name)
		}
		volumes[v.Name] = true
	}
	seen := map[string]bool{}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.Name == "" || seen[c.Name] {
			return fmt.Errorf("spec.containers[%d]: name %q is empty or given twice", i, c.Name)
		}
		seen[c.Name] = true
		if err := judgeContainer(c, volumes); err != nil {
			return fmt.Errorf("container %q: %w", c.Name, err)
		}
	}
	return nil
}

func judgeContainer(c *corev1.Container, volumes map[string]bool) error {
	if c.Image == "" {
		return errors.New("image is empty")
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			return fmt.Errorf("volumeMount of %q: no such volume", m.Name)
		}
		if !filepath.IsAbs(m.MountPath) {
			return fmt.Errorf("volumeMount of %q: mountPath %q is not absolute", m.Name, m.MountPath)
		}
	}
	for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if p != nil && p.HTTPGet == nil && p.TCPSocket == nil {
			return errors.New("probe: a simulated kubelet knows httpGet and tcpSocket only")
		}
	}
	return nil
}
