package hosted

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// ErrNoKey says that a ConfigMap or a Secret is there and does not have a file.
var ErrNoKey = errors.New("no key")

// Mounted reads the file that a container of a pod finds at a path, from the ConfigMap or Secret that is mounted there.
// The content goes to the caller and nowhere else.
func Mounted(
	ctx context.Context,
	kube kubernetes.Interface,
	namespace string,
	spec *corev1.PodSpec,
	c *corev1.Container,
	at string,
) ([]byte, error) {
	mount, ok := mountOf(c, at)
	if !ok {
		return nil, fmt.Errorf("%s of container %s is on no volume: mount it from a ConfigMap or a Secret", at, c.Name)
	}
	inside := strings.TrimPrefix(strings.TrimPrefix(at, path.Clean(mount.MountPath)), "/")
	if mount.SubPath != "" {
		inside = path.Join(mount.SubPath, inside)
	}
	for i := range spec.Volumes {
		if spec.Volumes[i].Name == mount.Name {
			return volumeFile(ctx, kube, namespace, &spec.Volumes[i].VolumeSource, inside, at)
		}
	}
	return nil, fmt.Errorf("%s of container %s is on volume %s, which the pod has not", at, c.Name, mount.Name)
}

// HostFile is the path on its host of the file that a container of a pod finds at a path. It is false when it comes
// from no directory or file of the host.
func HostFile(spec *corev1.PodSpec, c *corev1.Container, at string) (string, bool) {
	mount, ok := mountOf(c, at)
	if !ok {
		return "", false
	}
	for i := range spec.Volumes {
		if v := spec.Volumes[i]; v.Name == mount.Name && v.HostPath != nil {
			return path.Join(v.HostPath.Path, mount.SubPath, strings.TrimPrefix(at, path.Clean(mount.MountPath))), true
		}
	}
	return "", false
}

// mountOf is the volume mount under which a container finds a path; false when there is none.
func mountOf(c *corev1.Container, at string) (corev1.VolumeMount, bool) {
	var best corev1.VolumeMount
	found := false
	for _, m := range c.VolumeMounts {
		dir := path.Clean(m.MountPath)
		if (at == dir || strings.HasPrefix(at, dir+"/")) && (!found || len(dir) > len(path.Clean(best.MountPath))) {
			best, found = m, true
		}
	}
	return best, found
}

func volumeFile(
	ctx context.Context,
	kube kubernetes.Interface,
	namespace string,
	v *corev1.VolumeSource,
	inside, at string,
) ([]byte, error) {
	switch {
	case v.Secret != nil:
		return fromSecret(ctx, kube, namespace, v.Secret.SecretName, keyOf(v.Secret.Items, inside))
	case v.ConfigMap != nil:
		return fromConfigMap(ctx, kube, namespace, v.ConfigMap.Name, keyOf(v.ConfigMap.Items, inside))
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			switch {
			case s.Secret != nil && holds(s.Secret.Items, inside):
				if data, err := fromSecret(ctx, kube, namespace, s.Secret.Name, keyOf(s.Secret.Items, inside)); err == nil {
					return data, nil
				}
			case s.ConfigMap != nil && holds(s.ConfigMap.Items, inside):
				if data, err := fromConfigMap(
					ctx,
					kube,
					namespace,
					s.ConfigMap.Name,
					keyOf(s.ConfigMap.Items, inside),
				); err == nil {
					return data, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("%s comes from no ConfigMap or Secret that has it: mount it from one", at)
}

// holds reports whether a volume's items leave a file in; no items leave all.
func holds(items []corev1.KeyToPath, file string) bool {
	for _, i := range items {
		if path.Clean(i.Path) == file {
			return true
		}
	}
	return len(items) == 0
}

func keyOf(items []corev1.KeyToPath, file string) string {
	for _, i := range items {
		if path.Clean(i.Path) == file {
			return i.Key
		}
	}
	return file
}

func fromSecret(ctx context.Context, kube kubernetes.Interface, namespace, name, key string) ([]byte, error) {
	s, err := kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s: %w", namespace, name, err)
	}
	if data, ok := s.Data[key]; ok {
		return data, nil
	}
	return nil, fmt.Errorf("the Secret %s/%s has %w %s", namespace, name, ErrNoKey, key)
}

func fromConfigMap(ctx context.Context, kube kubernetes.Interface, namespace, name, key string) ([]byte, error) {
	m, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name, err)
	}
	if data, ok := m.Data[key]; ok {
		return []byte(data), nil
	}
	if data, ok := m.BinaryData[key]; ok {
		return data, nil
	}
	return nil, fmt.Errorf("the ConfigMap %s/%s has %w %s", namespace, name, ErrNoKey, key)
}
