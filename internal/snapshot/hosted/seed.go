package hosted

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/host"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// GatherSeed reads the control plane in the seed: the Deployments, their pods, and the cloud config that they mount.
// What a container runs decides, whatever its Deployment is called.
func GatherSeed(ctx context.Context, g *collect.Collector) {
	if g.Seed == nil {
		return
	}
	in := "namespace " + g.Seed.Namespace + " of the seed"
	ctx, cancel := g.Call(ctx)
	defer cancel()
	g.Snap.Cluster.Seed = g.Seed.Namespace
	ns, err := g.Seed.Kube.CoreV1().Namespaces().Get(ctx, g.Seed.Namespace, metav1.GetOptions{})
	if err != nil {
		g.Unknown("seed/namespace", fmt.Sprintf("reading %s: %v", in, err))
	} else {
		g.Snap.Cluster.SeedUID = string(ns.UID)
	}
	deployments, ok := collect.List(
		ctx,
		g,
		"seed/deployments",
		"deployments of "+in,
		g.Seed.Kube.AppsV1().Deployments(g.Seed.Namespace).List,
		func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items },
	)
	if !ok {
		return
	}
	pods, ok := collect.List(
		ctx,
		g,
		"seed/pods",
		"pods of "+in,
		g.Seed.Kube.CoreV1().Pods(g.Seed.Namespace).List,
		func(l *corev1.PodList) []corev1.Pod { return l.Items },
	)
	if !ok {
		return
	}
	g.SeedPods = pods
	for i := range deployments {
		readDeployment(ctx, g, &deployments[i])
	}
	slices.SortFunc(g.Snap.Hosted, func(a, b v1.Component) int {
		return strings.Compare(a.Name+"\x00"+a.Manifest, b.Name+"\x00"+b.Manifest)
	})
	seedToken(ctx, g)
}

func readDeployment(ctx context.Context, g *collect.Collector, d *appsv1.Deployment) {
	spec := &d.Spec.Template.Spec
	at := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return workloads.SeedComponent(&c) != "" })
	if at < 0 {
		return
	}
	container := &spec.Containers[at]
	name := workloads.SeedComponent(container)
	if !slices.Contains([]string{component.KAS, component.KCM, component.Scheduler, component.CCM}, name) {
		return
	}
	w := workloads.NewWorkload("Deployment", &d.ObjectMeta, d.Spec.Template, d.Spec.Replicas, d.Status.ReadyReplicas)
	shown := w.Containers[at]
	c := v1.Component{
		Name:     name,
		Runs:     v1.RunsDeployment,
		Manifest: w.Ref,
		SHA256:   CommandSHA256(slices.Concat(container.Command, container.Args)),
		Replicas: ptr.To(w.Replicas),
		Image:    shown.Image,
		Command:  shown.Command,
		Flags:    shown.Flags,
		EnvNames: shown.EnvNames,
		Rollout:  readRollout(g, d),
	}
	if workloads.StartedByShell(container.Command) {
		c.Error = "it is started by a shell: its flags cannot be changed safely"
	}
	if in := c.Flags["cloud-config"]; in != "" && name == component.KCM {
		c.CloudConfig = seedCloudConfig(ctx, g, spec, container, in, c.Flags["cloud-provider"])
	} else if p := c.Flags["cloud-provider"]; name == component.KCM && (p == "" || p == host.External) {
		c.CloudConfig = seedUnnamedConfig(ctx, g, spec, container)
	}
	g.Snap.Hosted = append(g.Snap.Hosted, c)
	if name == component.CCM || name == component.KCM {
		w.Strategy = string(d.Spec.Strategy.Type)
		w.Role = workloads.RoleOf("Deployment", w.Containers)
		if w.Role != "" {
			g.Snap.Workloads = append(g.Snap.Workloads, w.Workload)
		}
	}
}

// readRollout says why a Deployment is not what its template says; empty when it is.
func readRollout(g *collect.Collector, d *appsv1.Deployment) string {
	want := ptr.Deref(d.Spec.Replicas, 1)
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			return "its rollout is stuck: " + c.Message
		}
	}
	switch {
	case d.Status.ObservedGeneration < d.Generation:
		return "its controller has not seen the last change yet"
	case d.Status.UpdatedReplicas != want || d.Status.ReadyReplicas != want:
		return fmt.Sprintf("%d of %d pods are updated, %d ready", d.Status.UpdatedReplicas, want, d.Status.ReadyReplicas)
	case d.Spec.Selector == nil:
		return "it has no selector"
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return "its selector cannot be read"
	}
	n := 0
	for i := range g.SeedPods {
		p := &g.SeedPods[i]
		if selector.Matches(labels.Set(p.Labels)) && !workloads.HasEnded(p) {
			n++
		}
	}
	if n > int(want) {
		return fmt.Sprintf("%d of its pods still end", n-int(want))
	}
	return ""
}

// seedCloudConfig describes the cloud config that a container mounts.
func seedCloudConfig(
	ctx context.Context,
	g *collect.Collector,
	spec *corev1.PodSpec,
	c *corev1.Container,
	at, provider string,
) *v1.CloudConfig {
	out := &v1.CloudConfig{Path: at, Provider: provider, UsedBy: []string{component.KCM}}
	data, err := Mounted(ctx, g.Seed.Kube, g.Seed.Namespace, spec, c, at)
	if err != nil {
		out.Error = mask.Error(err)
		g.Unknown("seed/cloud-config", "cloud config of "+component.KCM+": "+err.Error())
		return out
	}
	out.SHA256 = hostaccess.SHA256(data)
	if provider == host.External {
		return out
	}
	if err := host.DescribeConfig(out, data, true); err != nil {
		out.Error = mask.Error(err)
	}
	return out
}

// seedToken notes when the token of the cluster's manager expires. Without a manager nothing is read: who checks a
// cluster before its migration needs no right to a Secret that is not there yet.
func seedToken(ctx context.Context, g *collect.Collector) {
	if !slices.ContainsFunc(g.Snap.Hosted, func(c v1.Component) bool { return c.Name == component.CCM }) {
		return
	}
	var err error
	if g.Snap.SeedToken, err = ManagerToken(ctx, g.Seed); err != nil {
		g.Unknown(seedTokenFact, err.Error())
	}
}

// seedTokenFact is not one of those under seed/, without which nothing can be planned.
const seedTokenFact = "manager-token"

// ManagerToken returns what the token of the cluster's manager says of itself; nil where the seed has none.
func ManagerToken(ctx context.Context, s *collect.Seed) (*v1.ManagerToken, error) {
	if s.TokenSecret == "" {
		return nil, nil
	}
	secret, err := s.Kube.CoreV1().Secrets(s.Namespace).Get(ctx, s.TokenSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf(
			"reading Secret %s/%s of the seed, which has the manager's token: %w",
			s.Namespace,
			s.TokenSecret,
			err,
		)
	}
	data, found := secret.Data[s.TokenKey]
	if !found {
		return nil, nil
	}
	return host.DescribeToken("Secret/"+s.Namespace+"/"+s.TokenSecret, data), nil
}
