// Package object executes the steps that change objects of the API, and decides whether a live object is what a step
// makes of it.
package object

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/boundtoken"
	"github.com/transplant-dev/transplant/internal/cloudconfig"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/kubeconfig"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/snapshot/hosted"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// Derived completes an object with the credentials of the cloud and of the cluster. They are in the seed and must be in
// no plan, journal or log. It is derived when the object is made, from the Deployment that the step names as its
// source; nil while it cannot be known yet.
func (x EnsureObject) Derived(
	ctx context.Context,
	s v1.Step,
	want *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	if s.Derive == "" {
		return want, nil
	}
	if s.Derive == layout.DeriveDeployedCloudConfig {
		return x.deployedConfig(ctx, s, want)
	}
	if x.Env.Seed == nil {
		return nil, fmt.Errorf("step %s derives from %s, and no seed was given", s.ID, s.Source)
	}
	_, name, ok := strings.Cut(s.Source, "/"+x.Env.Seed.Namespace+"/")
	if !ok {
		return nil, fmt.Errorf(
			"source %s of step %s is not in namespace %s of the seed",
			s.Source,
			s.ID,
			x.Env.Seed.Namespace,
		)
	}
	d, err := x.Env.Seed.Kube.AppsV1().Deployments(x.Env.Seed.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s in the seed: %w", s.Source, err)
	}
	at := slices.IndexFunc(
		d.Spec.Template.Spec.Containers,
		func(c corev1.Container) bool { return workloads.SeedComponent(&c) == component.KCM },
	)
	if at < 0 {
		return nil, fmt.Errorf("%s has no container that runs %s", s.Source, component.KCM)
	}
	src := managerSource{x.Env, x.Env.Seed.Kube, d, &d.Spec.Template.Spec.Containers[at], x.noToken}
	out := want.DeepCopy()
	switch s.Derive {
	case layout.DeriveSeedKubeconfig, layout.OlderSeedKubeconfig:
		return src.kubeconfig(ctx, out, s.Derive == layout.OlderSeedKubeconfig)
	case layout.DeriveSeedCloudConfig:
		return src.cloudConfig(ctx, out)
	case layout.DeriveSeedManager:
		return src.manager(out)
	}
	return nil, fmt.Errorf("derivation %q is not known to this version of transplant", s.Derive)
}

// specifiedPart is the part of an object that its step says itself. To the environment and the volumes of a derived
// manager others are added.
func specifiedPart(s v1.Step, want *unstructured.Unstructured) *unstructured.Unstructured {
	if s.Ref == layout.CloudIdentity {
		// its author has said how the cloud knows this cluster
		return &unstructured.Unstructured{Object: map[string]any{}}
	}
	if s.Derive != layout.DeriveSeedManager {
		return want
	}
	out := want.DeepCopy()
	spec, err := PodSpec(out)
	if err != nil {
		return want
	}
	delete(spec, "volumes")
	containers, _ := spec["containers"].([]any)
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok {
			delete(c, "env")
			delete(c, "volumeMounts")
		}
	}
	return out
}

// deployedConfig completes the Secret with the cloud config of a manager that runs as a Deployment of its own cluster.
func (x EnsureObject) deployedConfig(
	ctx context.Context,
	s v1.Step,
	want *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	parts := strings.Split(s.Source, "/")
	if len(parts) != 3 || parts[0] != "Deployment" {
		return nil, fmt.Errorf("source %s of step %s is no Deployment", s.Source, s.ID)
	}
	d, err := x.Env.Kube.AppsV1().Deployments(parts[1]).Get(ctx, parts[2], metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.Source, err)
	}
	at := slices.IndexFunc(
		d.Spec.Template.Spec.Containers,
		func(c corev1.Container) bool { return workloads.SeedComponent(&c) == component.KCM },
	)
	if at < 0 {
		return nil, fmt.Errorf("%s has no container that runs %s", s.Source, component.KCM)
	}
	src := managerSource{x.Env, x.Env.Kube, d, &d.Spec.Template.Spec.Containers[at], x.noToken}
	if src.flags()["cloud-config"] == "" {
		return x.madeBefore(ctx, s, want)
	}
	return src.cloudConfig(ctx, want.DeepCopy())
}

// madeBefore is a derived Secret as it is, once its source is external and does not say any longer what it was derived
// from.
func (x EnsureObject) madeBefore(
	ctx context.Context,
	s v1.Step,
	want *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	made, err := x.Env.Kube.CoreV1().Secrets(want.GetNamespace()).Get(ctx, want.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf(
			"%s runs without --cloud-config by now, and what was derived from its cloud config is not to be read: %w; take the migration back with transplant rollback and begin it again",
			s.Source,
			err,
		)
	}
	out := want.DeepCopy()
	return out, set(out, layout.SeedCloudConfigKey, made.Data[layout.SeedCloudConfigKey])
}

// managerSource is the kube-controller-manager's Deployment, in the seed or in its own cluster, and its container.
type managerSource struct {
	env        *step.Env
	kube       kubernetes.Interface
	deployment *appsv1.Deployment
	container  *corev1.Container
	noToken    bool
}

func (s managerSource) flags() map[string]string {
	return commandline.FlagsOf(commandline.Unwrapped(slices.Concat(s.container.Command, s.container.Args)))
}

func (s managerSource) file(ctx context.Context, at string) ([]byte, error) {
	spec := &s.deployment.Spec.Template.Spec
	if file, ok := hosted.HostFile(spec, s.container, at); ok && s.env.Seed == nil {
		return s.hostFile(ctx, file)
	}
	return hosted.Mounted(ctx, s.kube, s.deployment.Namespace, spec, s.container, at)
}

// hostFile reads a file that the pods have from their hosts. The hosts that have it must agree: the pods of one
// Deployment get one content. A host that is not proven to be of the control plane is not asked. Its root would
// choose where the manager sends the cloud's credentials.
func (s managerSource) hostFile(ctx context.Context, at string) ([]byte, error) {
	var found []byte
	on, left := "", ""
	for _, name := range slices.Sorted(maps.Keys(s.env.HostsByName)) {
		why, err := s.env.WhyNoControlPlane(ctx, name)
		if err != nil {
			return nil, err
		}
		if why != "" {
			left = " (" + why + ")"
			continue
		}
		f, err := s.env.HostsByName[name].ReadFile(ctx, at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		if on != "" && !bytes.Equal(found, f.Data) {
			return nil, fmt.Errorf(
				"%s on host %s is not that on host %s, and the pods of a Deployment are alike; make the files the same, or keep the cloud config in a Secret that %s mounts",
				at,
				name,
				on,
				s.deployment.Name,
			)
		}
		found, on = f.Data, name
	}
	if on == "" {
		return nil, fmt.Errorf(
			"%s mounts %s of its hosts, which no reached host of the control plane has%s; name the control plane's hosts with --host-access, or keep the cloud config in a Secret",
			s.deployment.Name,
			at,
			left,
		)
	}
	return found, nil
}

// kubeconfig takes server and CA from the kube-controller-manager's, and a token of the cloud-controller-manager's
// account in the migrated cluster. The token has a key of its own: a manager reads it again when the Secret changes.
func (s managerSource) kubeconfig(
	ctx context.Context,
	out *unstructured.Unstructured,
	older bool,
) (*unstructured.Unstructured, error) {
	var token string
	var err error
	if older {
		if token, err = OlderToken(ctx, s.env); err != nil || token == "" {
			return nil, err
		}
	}
	at := s.flags()["kubeconfig"]
	if at == "" {
		return nil, fmt.Errorf("%s has no --kubeconfig that tells where its API server is", s.deployment.Name)
	}
	data, err := s.file(ctx, at)
	if err != nil {
		return nil, err
	}
	cluster, err := kubeconfig.Server(data)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s of %s: %w", at, s.deployment.Name, err)
	}
	if err := s.inlineAuthority(ctx, cluster, path.Dir(at)); err != nil {
		return nil, err
	}
	user := &clientcmdapi.AuthInfo{Token: token}
	if !older {
		user = &clientcmdapi.AuthInfo{TokenFile: layout.SeedTokenKey} // in the directory of the kubeconfig
	}
	if !older && !s.noToken {
		if token, err = NewToken(ctx, s.env, boundtoken.Lifetime, false); err != nil {
			return nil, err
		}
		if err := set(out, layout.SeedTokenKey, []byte(token)); err != nil {
			return nil, err
		}
	}
	text, err := ManagerKubeconfig(cluster, user)
	if err != nil {
		return nil, fmt.Errorf("rendering the kubeconfig of %s: %w", component.CCM, noContent(err))
	}
	return out, set(out, layout.SeedKubeconfigKey, text)
}

// inlineAuthority puts the certificate authority that a file holds into the cluster itself.
func (s managerSource) inlineAuthority(ctx context.Context, cluster *clientcmdapi.Cluster, dir string) (err error) {
	ca := cluster.CertificateAuthority
	if ca == "" || len(cluster.CertificateAuthorityData) > 0 {
		return nil
	}
	if !path.IsAbs(ca) {
		ca = path.Join(dir, ca)
	}
	if cluster.CertificateAuthorityData, err = s.file(ctx, ca); err != nil {
		return err
	}
	cluster.CertificateAuthority = ""
	return nil
}

// noContent keeps the text of a parser's error back, which may quote the file that it read.
func noContent(error) error {
	return errors.New("it cannot be read (the reason is not shown, since it may quote the file)")
}

func (s managerSource) cloudConfig(
	ctx context.Context,
	out *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	at := cmp.Or(s.flags()["cloud-config"], hosted.UsualCloudConfig)
	data, err := s.file(ctx, at)
	if err != nil {
		return nil, err
	}
	d, err := cloudconfig.Derive(s.env.CloudProvider(), data)
	if err == nil && len(d.Problems) > 0 {
		err = errors.New(strings.Join(d.Problems, "; "))
	}
	if err != nil {
		return nil, fmt.Errorf("deriving the external provider's cloud config from %s of %s: %w", at, s.deployment.Name, err)
	}
	return out, set(out, layout.SeedCloudConfigKey, d.Data)
}

// set puts a value into a Secret.
func set(o *unstructured.Unstructured, key string, value []byte) error {
	return unstructured.SetNestedField(o.Object, base64.StdEncoding.EncodeToString(value), "data", key)
}

// manager gives the cloud-controller-manager what the kube-controller-manager reached the cloud with. That is its
// environment, and where it may run. It is also the volumes that are neither named by one of its flags (keys of the
// control plane) nor part of what starts it.
func (s managerSource) manager(out *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(out.Object, &d); err != nil {
		return nil, fmt.Errorf("reading the Deployment of %s: %w", component.CCM, err)
	}
	from, to := &s.deployment.Spec.Template.Spec, &d.Spec.Template.Spec
	c := &to.Containers[0]
	c.EnvFrom = s.container.EnvFrom
	given := map[string]bool{}
	for _, e := range c.Env {
		given[e.Name] = true
	}
	for _, e := range s.container.Env {
		if !given[e.Name] {
			c.Env = append(c.Env, e)
		}
	}
	for _, m := range s.container.VolumeMounts {
		if s.keepsBack(m) || slices.ContainsFunc(to.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
			continue
		}
		c.VolumeMounts = append(c.VolumeMounts, m)
		for _, v := range from.Volumes {
			if v.Name == m.Name {
				to.Volumes = append(to.Volumes, v)
			}
		}
	}
	to.NodeSelector = from.NodeSelector
	to.Tolerations = from.Tolerations
	to.Affinity = from.Affinity
	to.ImagePullSecrets = from.ImagePullSecrets
	to.ServiceAccountName, to.AutomountServiceAccountToken = from.ServiceAccountName, from.AutomountServiceAccountToken
	to.PriorityClassName = from.PriorityClassName
	to.DNSPolicy = from.DNSPolicy
	to.DNSConfig = from.DNSConfig
	to.HostAliases = from.HostAliases
	to.SecurityContext, to.RuntimeClassName = from.SecurityContext, from.RuntimeClassName
	s.labels(&d)
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&d)
	if err != nil {
		return nil, fmt.Errorf("writing the Deployment of %s: %w", component.CCM, err)
	}
	delete(object, "status")
	return &unstructured.Unstructured{Object: object}, nil
}

// keepsBack reports whether a mount is not the cloud-controller-manager's: a flag of the kube-controller-manager names
// a file in it, or its program is there.
func (s managerSource) keepsBack(m corev1.VolumeMount) bool {
	names := []string{}
	for _, value := range s.flags() {
		names = append(names, value)
	}
	for _, words := range [][]string{
		s.container.Command,
		commandline.Unwrapped(slices.Concat(s.container.Command, s.container.Args)),
	} {
		if len(words) > 0 {
			names = append(names, words[0])
		}
	}
	dir := path.Clean(m.MountPath)
	return slices.ContainsFunc(names, func(n string) bool { return n == dir || strings.HasPrefix(n, dir+"/") })
}

// labels of the kube-controller-manager's pods are those by which network policies let them reach the API server and
// the cloud. Those by which its own Deployment finds them are not copied.
func (s managerSource) labels(d *appsv1.Deployment) {
	var own map[string]string
	if s.deployment.Spec.Selector != nil {
		own = s.deployment.Spec.Selector.MatchLabels
	}
	for k, v := range s.deployment.Spec.Template.Labels {
		if _, is := own[k]; is || k == "pod-template-hash" || d.Spec.Template.Labels[k] != "" {
			continue
		}
		d.Spec.Template.Labels[k] = v
	}
}
