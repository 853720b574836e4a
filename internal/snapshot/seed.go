package snapshot

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/boundtoken"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
)

// Seed is the cluster in which the control plane of the one that is looked at runs as Deployments.
type Seed struct {
	Kube kubernetes.Interface
	// Namespace of the cluster in the seed.
	Namespace string
	// Provider is what the owner of the cluster says the cloud is; empty where that is not said. ConfigSecret and ConfigKey are where a cloud config for
	// the cloud-controller-manager may be; empty when it is not looked for.
	Provider, ConfigSecret, ConfigKey string
	// TokenSecret and TokenKey are where the token of the cluster's manager is; empty when it is not looked for.
	TokenSecret, TokenKey string
}

// seedPlane reads the control plane in the seed: the Deployments, their pods, and the cloud config that they mount. What a container runs decides, whatever
// its Deployment is called.
func (g *gatherer) seedPlane(ctx context.Context) {
	if g.Seed == nil {
		return
	}
	in := "namespace " + g.Seed.Namespace + " of the seed"
	ctx, cancel := g.call(ctx)
	defer cancel()
	g.snap.Cluster.Seed = g.Seed.Namespace
	ns, err := g.Seed.Kube.CoreV1().Namespaces().Get(ctx, g.Seed.Namespace, metav1.GetOptions{})
	if err != nil {
		g.unknown("seed/namespace", fmt.Sprintf("reading %s: %v", in, err))
	} else {
		g.snap.Cluster.SeedUID = string(ns.UID)
	}
	deployments, ok := listed(ctx, g, "seed/deployments", "deployments of "+in, g.Seed.Kube.AppsV1().Deployments(g.Seed.Namespace).List,
		func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items })
	if !ok {
		return
	}
	pods, ok := listed(ctx, g, "seed/pods", "pods of "+in, g.Seed.Kube.CoreV1().Pods(g.Seed.Namespace).List, func(l *corev1.PodList) []corev1.Pod { return l.Items })
	if !ok {
		return
	}
	g.seedPods = pods
	for i := range deployments {
		g.seedDeployment(ctx, &deployments[i])
	}
	slices.SortFunc(g.snap.Hosted, func(a, b v1.Component) int {
		return strings.Compare(a.Name+"\x00"+a.Manifest, b.Name+"\x00"+b.Manifest)
	})
	g.seedToken(ctx)
}

func (g *gatherer) seedDeployment(ctx context.Context, d *appsv1.Deployment) {
	spec := &d.Spec.Template.Spec
	at := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return SeedComponent(&c) != "" })
	if at < 0 {
		return
	}
	container := &spec.Containers[at]
	name := SeedComponent(container)
	if !slices.Contains([]string{kas, kcm, scheduler, ccm}, name) {
		return
	}
	w := newWorkload("Deployment", &d.ObjectMeta, d.Spec.Template, d.Spec.Replicas, d.Status.ReadyReplicas)
	shown := w.Containers[at]
	c := v1.Component{
		Name: name, Runs: v1.RunsDeployment, Manifest: w.Ref, SHA256: CommandSHA256(slices.Concat(container.Command, container.Args)), Replicas: ptr.To(w.Replicas), Image: shown.Image,
		Command: shown.Command, Flags: shown.Flags, EnvNames: shown.EnvNames, Rollout: g.rollout(d),
	}
	if byShell(container.Command) {
		c.Error = "it is started by a shell: its flags cannot be changed safely"
	}
	if in := c.Flags["cloud-config"]; in != "" && name == kcm {
		c.CloudConfig = g.seedCloudConfig(ctx, spec, container, in, c.Flags["cloud-provider"])
	} else if p := c.Flags["cloud-provider"]; name == kcm && (p == "" || p == external) {
		c.CloudConfig = g.seedUnnamedConfig(ctx, spec, container)
	}
	g.snap.Hosted = append(g.snap.Hosted, c)
	if name == ccm || name == kcm {
		w.Strategy = string(d.Spec.Strategy.Type)
		w.Role = roleOf("Deployment", w.Containers)
		if w.Role != "" {
			g.snap.Workloads = append(g.snap.Workloads, w.Workload)
		}
	}
}

// rollout says why a Deployment is not what its template says; empty when it is.
func (g *gatherer) rollout(d *appsv1.Deployment) string {
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
	for i := range g.seedPods {
		p := &g.seedPods[i]
		if selector.Matches(labels.Set(p.Labels)) && !HasEnded(p) {
			n++
		}
	}
	if n > int(want) {
		return fmt.Sprintf("%d of its pods still end", n-int(want))
	}
	return ""
}

// seedCloudConfig describes the cloud config that a container mounts.
func (g *gatherer) seedCloudConfig(ctx context.Context, spec *corev1.PodSpec, c *corev1.Container, at, provider string) *v1.CloudConfig {
	out := &v1.CloudConfig{Path: at, Provider: provider, UsedBy: []string{kcm}}
	data, err := Mounted(ctx, g.Seed.Kube, g.Seed.Namespace, spec, c, at)
	if err != nil {
		out.Error = err.Error()
		g.unknown("seed/cloud-config", "cloud config of "+kcm+": "+err.Error())
		return out
	}
	out.SHA256 = hostaccess.SHA256(data)
	if provider == external {
		return out
	}
	if err := describeConfig(out, data, true); err != nil {
		out.Error = mask.Text(err.Error())
	}
	return out
}

// seedToken notes when the token of the cluster's manager expires. Without a manager nothing is read: who checks a cluster before
// its migration needs no right to a Secret that is not there yet.
func (g *gatherer) seedToken(ctx context.Context) {
	if !slices.ContainsFunc(g.snap.Hosted, func(c v1.Component) bool { return c.Name == ccm }) {
		return
	}
	var err error
	if g.snap.SeedToken, err = g.Seed.ManagerToken(ctx); err != nil {
		g.unknown(seedTokenFact, err.Error())
	}
}

// seedTokenFact is not one of those under seed/, without which nothing can be planned.
const seedTokenFact = "manager-token"

// ManagerToken returns what the token of the cluster's manager says of itself; nil where the seed has none.
func (s *Seed) ManagerToken(ctx context.Context) (*v1.ManagerToken, error) {
	if s.TokenSecret == "" {
		return nil, nil
	}
	secret, err := s.Kube.CoreV1().Secrets(s.Namespace).Get(ctx, s.TokenSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s of the seed, which has the manager's token: %w", s.Namespace, s.TokenSecret, err)
	}
	data, found := secret.Data[s.TokenKey]
	if !found {
		return nil, nil
	}
	return describeToken("Secret/"+s.Namespace+"/"+s.TokenSecret, data), nil
}

// describeToken keeps when a token expires, and nothing else of it.
func describeToken(from string, data []byte) *v1.ManagerToken {
	claims, err := boundtoken.Read(string(data))
	out := &v1.ManagerToken{Path: from, Expires: claims.Expires}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}

// seedManagers asks the pods of the managers in the seed for their gauges.
func (g *gatherer) seedManagers(ctx context.Context) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, p := range SeedPods(g.seedPods, kcm, ccm) {
		if !p.RunsNow() {
			continue
		}
		wg.Go(func() {
			m := v1.Manager{Component: p.Component, Host: p.Name, Error: "its pod has no address"}
			if p.Address != "" {
				m = g.manager(ctx, v1.Component{Name: p.Component, Address: p.Address}, p.Name)
			}
			if m.Error != "" {
				g.unknown("managers/"+p.Name+"/"+p.Component, "asking "+p.Component+" in pod "+p.Name+" which loops it runs: "+m.Error)
			}
			mu.Lock()
			defer mu.Unlock()
			g.snap.Managers = append(g.snap.Managers, m)
		})
	}
	wg.Wait()
}
