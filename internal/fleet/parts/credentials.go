package parts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/cloudconfig"
	"github.com/transplant-dev/transplant/internal/component"
)

// source is a container of the control plane that has the cloud's credentials. They are read from it when the driver is
// installed, and never kept.
type source struct {
	parts     Parts
	pod       corev1.PodSpec
	container corev1.Container
	// have are the keys that the driver runs with; none for a new one.
	have map[string][]byte
}

// sources are the Deployments whose containers may have credentials: the in-tree manager while it has them, the
// cloud-controller-manager later.
func (p Parts) sources() []string {
	name := p.Provider
	if name == "gce" {
		name = "gcp"
	}
	return []string{
		"controller-manager",
		name + "-cloud-controller-manager",
		p.Provider + "-cloud-controller-manager",
		component.CCM,
	}
}

// keep brings the credentials of the driver into the user cluster and returns the version of the Secret. What cannot be
// read is an error, unless the Secret is there already.
func (p Parts) keepCredentials(ctx context.Context) (string, error) {
	secrets := p.User.Kube.CoreV1().Secrets(component.Namespace)
	have, err := secrets.Get(ctx, credentials, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("reading Secret %s/%s: %w", component.Namespace, credentials, err)
	}
	exists := err == nil
	data, err := p.credentialData(ctx, have.Data)
	switch {
	case (err != nil || len(data) == 0) &&
		exists: // those that were there once still are: the keys of a running driver are not removed
		return have.ResourceVersion, nil
	case err != nil:
		return "", fmt.Errorf(
			"%w: fix that, or make Secret %s/%s with %s in the user cluster yourself, or set spec.disableCsiDriver",
			err,
			component.Namespace,
			credentials,
			p.keys(),
		)
	case exists && reflect.DeepEqual(have.Data, data):
		return have.ResourceVersion, nil
	}
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:      credentials,
			Namespace: component.Namespace,
			Labels:    map[string]string{managedBy: fieldManager},
		},
		Type: corev1.SecretTypeOpaque,
		Data: data,
	}
	if exists {
		want.ResourceVersion = have.ResourceVersion
		have, err = secrets.Update(ctx, want, metav1.UpdateOptions{FieldManager: fieldManager})
	} else {
		have, err = secrets.Create(ctx, want, metav1.CreateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return "", fmt.Errorf("writing Secret %s/%s: %w", component.Namespace, credentials, err)
	}
	return have.ResourceVersion, nil
}

// keys are the names of the Secret's keys for the provider.
func (p Parts) keys() string {
	var names []string
	for _, d := range driversOf[p.Provider] {
		names = append(names, slices.Concat(d.controller.files, d.controller.variables)...)
	}
	return strings.Join(slices.Compact(names), " and ")
}

// credentialData are the keys of the Secret for the provider, from the first container that has them. None and no error
// means that there are no keys: the role of the instances counts. What the driver has is kept where it must not change.
func (p Parts) credentialData(ctx context.Context, have map[string][]byte) (map[string][]byte, error) {
	var errs []error
	keyless := false
	for _, name := range slices.Compact(p.sources()) {
		d, err := p.Seed.Dynamic.Resource(deploymentsResource).Namespace(p.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading Deployment %s/%s: %w", p.Namespace, name, err)
		}
		pod, container, err := podOf(d, name)
		if err != nil {
			return nil, fmt.Errorf("reading Deployment %s/%s: %w", p.Namespace, name, err)
		}
		from := &source{
			parts:     p,
			pod:       pod,
			container: container,
			have:      have,
		}
		data, err := from.data(ctx)
		if err == nil && len(data) > 0 {
			return data, nil
		}
		if keyless = keyless || err == nil; err == nil {
			continue
		}
		errs = append(errs, fmt.Errorf("taking the cloud's credentials from Deployment %s: %w", name, err))
	}
	switch {
	case keyless && len(errs) == 0:
		return map[string][]byte{}, nil
	case len(errs) == 0:
		return nil, errors.New("no Deployment of the control plane has the cloud's credentials")
	}
	return nil, errors.Join(errs...)
}

func (s *source) data(ctx context.Context) (map[string][]byte, error) {
	switch s.parts.Provider {
	case "aws":
		out := map[string][]byte{}
		for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
			value, found, err := s.env(ctx, name)
			if err != nil {
				return nil, err
			}
			if found {
				out[name] = []byte(value)
			}
		}
		return out, nil
	case "gce":
		where, found, err := s.env(ctx, "GOOGLE_APPLICATION_CREDENTIALS")
		if err != nil || !found {
			return nil, errors.Join(err, errors.New("its environment names no GOOGLE_APPLICATION_CREDENTIALS"))
		}
		return s.secretData(ctx, "cloud-sa.json", where, nil)
	case "openstack":
		return s.config(ctx, "cloud.conf", func(in []byte) ([]byte, error) {
			d, err := cloudconfig.Derive("openstack", in)
			return d.Data, err
		})
	case "azure":
		return s.config(ctx, "azure.json", nil)
	case "vsphere":
		const key = "csi-vsphere.conf"
		id := driverClusterID(s.have[key], cmp.Or(s.parts.ClusterName, s.parts.Name))
		return s.config(ctx, key, func(in []byte) ([]byte, error) { return vsphereConfig(in, id) })
	}
	return nil, fmt.Errorf("nothing is known of the credentials of provider %q", s.parts.Provider)
}

// config is the file of --cloud-config, made into the driver's.
func (s *source) config(
	ctx context.Context,
	key string,
	derive func([]byte) ([]byte, error),
) (map[string][]byte, error) {
	_, where, _ := readCommandLine(s.container.Command, s.container.Args).find("cloud-config", false)
	if where == "" {
		return nil, errors.New("it has no --cloud-config")
	}
	return s.secretData(ctx, key, where, derive)
}

func (s *source) secretData(
	ctx context.Context,
	key, where string,
	derive func([]byte) ([]byte, error),
) (map[string][]byte, error) {
	data, err := s.file(ctx, where)
	if err == nil && derive != nil {
		data, err = derive(data)
	}
	if err != nil {
		return nil, err
	}
	return map[string][]byte{key: data}, nil
}

// env is the value of an environment variable of the container.
func (s *source) env(ctx context.Context, name string) (string, bool, error) {
	for _, e := range slices.Backward(s.container.Env) { // the last one counts
		if e.Name != name {
			continue
		}
		switch f := e.ValueFrom; {
		case f == nil:
			return e.Value, true, nil
		case f.SecretKeyRef != nil:
			data, err := s.secret(ctx, f.SecretKeyRef.Name, f.SecretKeyRef.Key)
			return string(data), err == nil, err
		case f.ConfigMapKeyRef != nil:
			data, err := s.configMap(ctx, f.ConfigMapKeyRef.Name, f.ConfigMapKeyRef.Key)
			return string(data), err == nil, err
		default: // a field of the pod is no secret
			return "", false, nil
		}
	}
	return "", false, nil
}

// file is the content of a file that the container has from a Secret or a ConfigMap.
func (s *source) file(ctx context.Context, where string) ([]byte, error) {
	var best *corev1.VolumeMount
	for i, m := range s.container.VolumeMounts {
		inside := where == m.MountPath || strings.HasPrefix(where, strings.TrimSuffix(m.MountPath, "/")+"/")
		if inside && (best == nil || len(m.MountPath) > len(best.MountPath)) {
			best = &s.container.VolumeMounts[i]
		}
	}
	if best == nil {
		return nil, fmt.Errorf("its file %s is in no volume", where)
	}
	key := path.Join(best.SubPath, strings.TrimPrefix(strings.TrimPrefix(where, best.MountPath), "/"))
	for _, v := range s.pod.Volumes {
		switch {
		case v.Name != best.Name:
		case v.Secret != nil:
			return s.secret(ctx, v.Secret.SecretName, keyOf(v.Secret.Items, key))
		case v.ConfigMap != nil:
			return s.configMap(ctx, v.ConfigMap.Name, keyOf(v.ConfigMap.Items, key))
		}
	}
	return nil, fmt.Errorf("its file %s is in a volume that is neither a Secret nor a ConfigMap", where)
}

func keyOf(items []corev1.KeyToPath, file string) string {
	for _, i := range items {
		if i.Path == file {
			return i.Key
		}
	}
	return file
}

func (s *source) secret(ctx context.Context, name, key string) ([]byte, error) {
	o, err := s.parts.Seed.Kube.CoreV1().Secrets(s.parts.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	data, ok := o.Data[key]
	if !ok {
		return nil, fmt.Errorf(
			"the Secret %s has no key %s, it has %s",
			name,
			key,
			strings.Join(slices.Sorted(maps.Keys(o.Data)), ", "),
		)
	}
	return data, nil
}

func (s *source) configMap(ctx context.Context, name, key string) ([]byte, error) {
	o, err := s.parts.Seed.Kube.CoreV1().ConfigMaps(s.parts.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	if data, ok := o.Data[key]; ok {
		return []byte(data), nil
	}
	if data, ok := o.BinaryData[key]; ok {
		return data, nil
	}
	return nil, fmt.Errorf("the ConfigMap %s has no key %s", name, key)
}
