package kubelet

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// materialise fetches everything that a pod's processes see: its volumes become directories of the host, its variables
// values. The pod that the API shows stays as it is.
func (a *apiPods) materialise(ctx context.Context, pod *corev1.Pod) (*staticPod, error) {
	s := &staticPod{pod: pod, inner: pod.DeepCopy(), programs: map[string]Program{}}
	spec := &s.inner.Spec
	kubeconfig := ""
	for i := range spec.Volumes {
		token, err := a.volume(ctx, pod, &spec.Volumes[i])
		if err != nil {
			return nil, fmt.Errorf("MountVolume.SetUp failed for volume %q: %w", spec.Volumes[i].Name, err)
		}
		if token != "" {
			kubeconfig = token
		}
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		program, err := a.container(ctx, pod, c, kubeconfig)
		if err != nil {
			return nil, err
		}
		s.programs[c.Name] = program
	}
	address := a.k.opts.Address
	if !spec.HostNetwork || !a.k.opts.Pods.HostNetwork {
		own, err := a.k.opts.Pods.Address()
		if err != nil {
			return nil, err
		}
		address = own
	} else {
		s.hostName, _, _ = strings.Cut(a.k.opts.NodeName, ".") // as most machines are called
	}
	s.address = address
	for i := range spec.Containers {
		listenOn(&spec.Containers[i], address)
	}
	return s, nil
}

// container gives a container the program that stands for its image, its variables and its flags.
func (a *apiPods) container(
	ctx context.Context,
	pod *corev1.Pod,
	c *corev1.Container,
	kubeconfig string,
) (Program, error) {
	program, err := a.k.opts.Pods.Program(c)
	if err != nil {
		return Program{}, fmt.Errorf("image %q of container %q: %w", c.Image, c.Name, err)
	}
	if err := a.variables(ctx, pod.Namespace, c); err != nil {
		return Program{}, err
	}
	more := slices.Concat(program.Env, a.k.opts.Pods.Env)
	if kubeconfig != "" {
		more = append(more, corev1.EnvVar{Name: clientcmd.RecommendedConfigPathEnvVar, Value: kubeconfig})
	}
	for _, e := range more {
		if !slices.ContainsFunc(c.Env, func(have corev1.EnvVar) bool { return have.Name == e.Name }) {
			c.Env = append(c.Env, e)
		}
	}
	if change := a.k.opts.Pods.Variable; change != nil {
		for i, e := range c.Env {
			if e.ValueFrom == nil {
				c.Env[i].Value = change(pod, e.Name, e.Value)
			}
		}
	}
	addFlags(c, program.Args)
	for _, probe := range []**corev1.Probe{&c.StartupProbe, &c.LivenessProbe, &c.ReadinessProbe} {
		if *probe != nil && (*probe).HTTPGet == nil && (*probe).TCPSocket == nil {
			*probe = nil // a command in the container: taken for passed
		}
	}
	return program, nil
}

// addFlags adds the flags that the container's command line does not have.
func addFlags(c *corev1.Container, flags []string) {
	for _, flag := range flags {
		name, _, _ := strings.Cut(flag, "=")
		has := func(word string) bool { return word == name || strings.HasPrefix(word, name+"=") }
		if slices.ContainsFunc(c.Command, has) || slices.ContainsFunc(c.Args, has) {
			continue
		}
		if len(c.Args) > 0 || len(c.Command) == 0 {
			c.Args = append(c.Args, flag)
		} else {
			c.Command = append(c.Command, flag)
		}
	}
}

// allAddresses finds the address that stands for all of them, and that of the pod's own loopback, which a process does
// not have either: at the end of a word or of a string in JSON, in which http-prober is told what to start.
var allAddresses = regexp.MustCompile(
	`(^|=|")(?:0\.0\.0\.0|\[::\]|127\.0\.0\.1|localhost)?(:[0-9]+)("|$)|(^|=|")(?:0\.0\.0\.0|127\.0\.0\.1)("|$)`,
)

// listenOn replaces the address that stands for all addresses: a process has no network of its own, and two replicas
// would be in each other's way.
func listenOn(c *corev1.Container, address string) {
	for _, words := range [][]string{c.Command, c.Args} {
		for i, w := range words {
			words[i] = allAddresses.ReplaceAllString(w, "${1}${4}"+address+"${2}${3}${5}")
		}
	}
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if probe != nil && probe.HTTPGet != nil && probe.HTTPGet.Host == "127.0.0.1" {
			probe.HTTPGet.Host = address
		}
	}
}

// variables resolves what the container reads from Secrets and ConfigMaps.
func (a *apiPods) variables(ctx context.Context, namespace string, c *corev1.Container) error {
	out, err := a.variablesFrom(ctx, namespace, c)
	if err != nil {
		return err
	}
	for _, e := range c.Env {
		resolved, ok, err := a.variable(ctx, namespace, e)
		if err != nil {
			return fmt.Errorf("environment variable %q of container %q: %w", e.Name, c.Name, err)
		}
		if ok {
			out = append(out, resolved)
		}
	}
	c.Env, c.EnvFrom = out, nil
	return nil
}

// variablesFrom are the variables of whole Secrets and ConfigMaps.
func (a *apiPods) variablesFrom(ctx context.Context, namespace string, c *corev1.Container) ([]corev1.EnvVar, error) {
	var out []corev1.EnvVar
	for _, from := range c.EnvFrom {
		var data map[string][]byte
		var err error
		switch {
		case from.SecretRef != nil:
			data, err = a.content(ctx, namespace, "Secret", from.SecretRef.Name, from.SecretRef.Optional)
		case from.ConfigMapRef != nil:
			data, err = a.content(ctx, namespace, "ConfigMap", from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		}
		if err != nil {
			return nil, fmt.Errorf("envFrom of container %q: %w", c.Name, err)
		}
		for name, value := range data {
			out = append(out, corev1.EnvVar{Name: from.Prefix + name, Value: string(value)})
		}
	}
	return out, nil
}

// variable resolves one variable; false leaves it out.
func (a *apiPods) variable(ctx context.Context, namespace string, e corev1.EnvVar) (corev1.EnvVar, bool, error) {
	var kind, name, key string
	var optional *bool
	switch from := e.ValueFrom; {
	case from != nil && from.ResourceFieldRef != nil: // a process has no limits
		return e, false, nil
	case from != nil && from.SecretKeyRef != nil:
		kind, name, key, optional = "Secret", from.SecretKeyRef.Name, from.SecretKeyRef.Key, from.SecretKeyRef.Optional
	case from != nil && from.ConfigMapKeyRef != nil:
		kind, name, key, optional = "ConfigMap", from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Optional
	default:
		return e, true, nil
	}
	data, err := a.content(ctx, namespace, kind, name, optional)
	if err != nil {
		return e, false, err
	}
	value, ok := data[key]
	if !ok && (optional == nil || !*optional) {
		return e, false, fmt.Errorf("%s %q has no key %q", kind, name, key)
	}
	return corev1.EnvVar{Name: e.Name, Value: strings.ReplaceAll(string(value), "$", "$$")}, ok, nil
}

// content reads a Secret or a ConfigMap.
func (a *apiPods) content(
	ctx context.Context,
	namespace, kind, name string,
	optional *bool,
) (map[string][]byte, error) {
	out := map[string][]byte{}
	var err error
	if kind == "Secret" {
		var s *corev1.Secret
		if s, err = a.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			out = s.Data
		}
	} else {
		var m *corev1.ConfigMap
		if m, err = a.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			for key, value := range m.Data {
				out[key] = []byte(value)
			}
			for key, value := range m.BinaryData {
				out[key] = value
			}
		}
	}
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %q: %w", kind, name, err)
	}
	return out, nil
}

// volume writes a volume's files, and puts a directory of the host in its place. It returns a kubeconfig if there is a
// token in it.
func (a *apiPods) volume(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (kubeconfig string, err error) {
	if v.HostPath != nil || v.EmptyDir != nil {
		return "", nil
	}
	if claims := a.k.opts.Pods.Claims; v.PersistentVolumeClaim != nil && claims != nil {
		path, err := claims.Mount(ctx, pod, v.PersistentVolumeClaim.ClaimName)
		v.VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
		return "", err
	}
	files, err := a.filesOf(ctx, pod, v)
	if err != nil {
		return "", err
	}
	inside := filepath.Join("/var/lib/kubelet/pods", string(pod.UID), "volumes", v.Name)
	outside := filepath.Join(a.k.opts.HostDir, inside)
	for name, data := range files {
		path := filepath.Join(outside, filepath.Clean("/"+name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", fmt.Errorf("making directory of %q: %w", name, err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return "", fmt.Errorf("writing %q: %w", name, err)
		}
	}
	if err := os.MkdirAll(outside, 0o755); err != nil { // an empty one is there, too
		return "", fmt.Errorf("making directory: %w", err)
	}
	v.VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: inside}}
	if token, ok := files["token"]; ok && a.k.opts.Pods.Server != "" {
		return a.kubeconfig(pod, outside, string(token), files["ca.crt"])
	}
	return "", nil
}

// filesOf fetches what is in a volume, by path.
func (a *apiPods) filesOf(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (map[string][]byte, error) {
	files := map[string][]byte{}
	switch {
	case v.Secret != nil:
		return a.items(ctx, pod.Namespace, "Secret", v.Secret.SecretName, v.Secret.Optional, v.Secret.Items)
	case v.ConfigMap != nil:
		return a.items(ctx, pod.Namespace, "ConfigMap", v.ConfigMap.Name, v.ConfigMap.Optional, v.ConfigMap.Items)
	case v.DownwardAPI != nil:
		return files, downward(pod, v.DownwardAPI.Items, files)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if err := a.project(ctx, pod, source, files); err != nil {
				return nil, err
			}
		}
		return files, nil
	}
	return nil, fmt.Errorf("a simulated kubelet has no volumes of this kind")
}

// items chooses keys, or all of them.
func (a *apiPods) items(
	ctx context.Context,
	namespace, kind, name string,
	optional *bool,
	items []corev1.KeyToPath,
) (map[string][]byte, error) {
	data, err := a.content(ctx, namespace, kind, name, optional)
	if err != nil || len(items) == 0 {
		return data, err
	}
	out := map[string][]byte{}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok && (optional == nil || !*optional) {
			return nil, fmt.Errorf("references non-existent key %q of %s %q", item.Key, kind, name)
		}
		out[item.Path] = value
	}
	return out, nil
}

func (a *apiPods) project(
	ctx context.Context,
	pod *corev1.Pod,
	source corev1.VolumeProjection,
	files map[string][]byte,
) error {
	var more map[string][]byte
	var err error
	switch {
	case source.Secret != nil:
		more, err = a.items(ctx, pod.Namespace, "Secret", source.Secret.Name, source.Secret.Optional, source.Secret.Items)
	case source.ConfigMap != nil:
		more, err = a.items(
			ctx,
			pod.Namespace,
			"ConfigMap",
			source.ConfigMap.Name,
			source.ConfigMap.Optional,
			source.ConfigMap.Items,
		)
	case source.DownwardAPI != nil:
		err = downward(pod, source.DownwardAPI.Items, files)
	case source.ServiceAccountToken != nil:
		more, err = a.token(ctx, pod, source.ServiceAccountToken)
	}
	for name, data := range more {
		files[name] = data
	}
	return err
}

func (a *apiPods) token(
	ctx context.Context,
	pod *corev1.Pod,
	t *corev1.ServiceAccountTokenProjection,
) (map[string][]byte, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: new(int64(24 * 3600)), // it is not renewed
		BoundObjectRef: &authenticationv1.BoundObjectReference{
			Kind:       "Pod",
			APIVersion: "v1",
			Name:       pod.Name,
			UID:        pod.UID,
		},
	}}
	if t.Audience != "" {
		request.Spec.Audiences = []string{t.Audience}
	}
	out, err := a.client.CoreV1().
		ServiceAccounts(pod.Namespace).
		CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("requesting token of ServiceAccount %q: %w", pod.Spec.ServiceAccountName, err)
	}
	return map[string][]byte{t.Path: []byte(out.Status.Token)}, nil
}

func downward(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, files map[string][]byte) error {
	for _, item := range items {
		value, err := envValue(
			pod,
			&corev1.Container{},
			corev1.EnvVar{Name: item.Path, ValueFrom: &corev1.EnvVarSource{FieldRef: item.FieldRef}},
			"",
		)
		if err != nil {
			return err
		}
		files[item.Path] = []byte(value)
	}
	return nil
}

// kubeconfig writes what stands for the in-cluster configuration, and returns its path on this machine.
func (a *apiPods) kubeconfig(pod *corev1.Pod, dir, token string, ca []byte) (string, error) {
	if _, err := url.Parse(a.k.opts.Pods.Server); err != nil {
		return "", fmt.Errorf("reading the API's address: %w", err)
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["seed"] = &clientcmdapi.Cluster{Server: a.k.opts.Pods.Server, CertificateAuthorityData: ca}
	c.AuthInfos["pod"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["pod"] = &clientcmdapi.Context{Cluster: "seed", AuthInfo: "pod", Namespace: pod.Namespace}
	c.CurrentContext = "pod"
	path := filepath.Join(dir, "..", "kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		return "", fmt.Errorf("writing kubeconfig of pod %q: %w", pod.Name, err)
	}
	return path, nil
}
