package snapshot

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
)

// noAPI is why facts of the API are unknown when there is no client.
const noAPI = "no API server was given: name a kubeconfig with --kubeconfig"

// cluster asks which cluster this is.
func (g *gatherer) cluster(ctx context.Context) {
	if g.Kube == nil {
		g.unknown("cluster", noAPI)
		return
	}
	ctx, cancel := g.call(ctx)
	defer cancel()
	if ns, err := g.Kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); err != nil {
		g.unknown("cluster/uid", g.describe("reading namespace "+namespace, err))
	} else {
		g.snap.Cluster.UID = string(ns.UID)
	}
	// The discovery client takes no context; the client's own timeout bounds it.
	if v, err := g.Kube.Discovery().ServerVersion(); err != nil {
		g.unknown("cluster/version", g.describe("reading /version", err))
	} else {
		g.snap.Cluster.Version = v.GitVersion
	}
}

func (g *gatherer) nodes(ctx context.Context) {
	if g.Kube == nil {
		g.unknown("nodes", noAPI)
		return
	}
	ctx, cancel := g.call(ctx)
	defer cancel()
	list, err := g.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		g.unknown("nodes", g.describe("listing nodes", err))
		return
	}
	out := make([]v1.Node, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, Node(&list.Items[i]))
	}
	slices.SortFunc(out, func(a, b v1.Node) int { return strings.Compare(a.Name, b.Name) })
	g.snap.Nodes = out
}

// Node returns the facts of a Node object.
func Node(n *corev1.Node) v1.Node {
	out := v1.Node{
		Name: n.Name, UID: string(n.UID), ProviderID: n.Spec.ProviderID, Labels: n.Labels, PodCIDRs: n.Spec.PodCIDRs,
		KubeletVersion: n.Status.NodeInfo.KubeletVersion, Created: n.CreationTimestamp.UTC(),
	}
	for _, a := range n.Status.Addresses {
		out.Addresses = append(out.Addresses, string(a.Type)+"="+a.Address)
	}
	for _, t := range n.Spec.Taints {
		out.Taints = append(out.Taints, t.Key+"="+t.Value+":"+string(t.Effect))
	}
	slices.Sort(out.Taints)
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Ready = string(c.Status)
		}
	}
	return out
}

func (g *gatherer) services(ctx context.Context) {
	if g.Kube == nil {
		g.unknown("services", noAPI)
		return
	}
	ctx, cancel := g.call(ctx)
	defer cancel()
	list, err := g.Kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		g.unknown("services", g.describe("listing services", err))
		return
	}
	var out []v1.Service
	for i := range list.Items {
		if list.Items[i].Spec.Type == corev1.ServiceTypeLoadBalancer {
			out = append(out, Service(&list.Items[i]))
		}
	}
	slices.SortFunc(out, func(a, b v1.Service) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	g.snap.Services = out
}

// secretName matches names whose values are not for a snapshot.
var secretName = regexp.MustCompile(`(?i)secret|password|passwd|token|private-?key|credential`)

// masked stands for a value that is left out.
const masked = "(masked)"

// Service returns the facts of a Service object. Annotations whose name speaks of a secret are masked, and the copy of the whole object that
// kubectl keeps in one is left out.
func Service(s *corev1.Service) v1.Service {
	out := v1.Service{Namespace: s.Namespace, Name: s.Name, UID: string(s.UID), Finalizers: s.Finalizers}
	if s.Spec.LoadBalancerClass != nil {
		out.Class = *s.Spec.LoadBalancerClass
	}
	for _, key := range slices.Sorted(maps.Keys(s.Annotations)) {
		if key == corev1.LastAppliedConfigAnnotation {
			continue
		}
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[key] = s.Annotations[key]
		if secretName.MatchString(key) {
			out.Annotations[key] = masked
		}
	}
	for _, p := range s.Spec.Ports {
		out.Ports = append(out.Ports, fmt.Sprintf("%d/%s->%d", p.Port, p.Protocol, p.NodePort))
	}
	for _, i := range s.Status.LoadBalancer.Ingress {
		out.Addresses = append(out.Addresses, i.Hostname+i.IP)
	}
	return out
}

// pods lists the mirror pods; which host each belongs to is found when the manifests have been read.
func (g *gatherer) pods(ctx context.Context) {
	if g.Kube == nil {
		g.unknown("pods", noAPI)
		return
	}
	ctx, cancel := g.call(ctx)
	defer cancel()
	list, err := g.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		g.unknown("pods", g.describe("listing pods in "+namespace, err))
		return
	}
	for _, p := range list.Items {
		if _, ok := p.Annotations[corev1.MirrorPodAnnotationKey]; ok {
			g.mirrors = append(g.mirrors, p)
		}
	}
	slices.SortFunc(g.mirrors, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
}

// leases are those of the managers' main elections and of every migration lease that some file or flag names.
func (g *gatherer) leases(ctx context.Context) {
	if g.Kube == nil {
		g.unknown("leases", noAPI)
		return
	}
	ctx, cancel := g.call(ctx)
	defer cancel()
	list, err := g.Kube.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		g.unknown("leases", g.describe("listing leases in "+namespace, err))
		return
	}
	wanted := g.leaseNames()
	for i := range list.Items {
		if wanted[list.Items[i].Name] {
			g.snap.Leases = append(g.snap.Leases, Lease(&list.Items[i]))
		}
	}
	slices.SortFunc(g.snap.Leases, func(a, b v1.Lease) int { return strings.Compare(a.Name, b.Name) })
}

func (g *gatherer) leaseNames() map[string]bool {
	wanted := map[string]bool{kcm: true, ccm: true, defaultLease: true, g.LeaseName: true}
	for _, h := range g.snap.Hosts {
		for _, c := range h.Components {
			if name := c.Flags["leader-elect-resource-name"]; name != "" && (c.Name == kcm || c.Name == ccm) {
				wanted[name] = true
			}
		}
		for _, f := range h.LeaderMigration {
			// A file that does not parse is for a check to complain of; its lease's name may be readable all the same.
			if config, _ := migrationconfig.Parse([]byte(f.Content)); config.LeaderName != "" {
				wanted[config.LeaderName] = true
			}
		}
	}
	return wanted
}

// Lease returns the facts of a Lease object.
func Lease(l *coordinationv1.Lease) v1.Lease {
	out := v1.Lease{Name: l.Name, ResourceVersion: l.ResourceVersion}
	if l.Spec.HolderIdentity != nil {
		out.Holder = *l.Spec.HolderIdentity
	}
	if l.Spec.LeaseDurationSeconds != nil {
		out.DurationSeconds = *l.Spec.LeaseDurationSeconds
	}
	if l.Spec.LeaseTransitions != nil {
		out.Transitions = *l.Spec.LeaseTransitions
	}
	out.AcquireTime, out.RenewTime = moment(l.Spec.AcquireTime), moment(l.Spec.RenewTime)
	return out
}

func moment(t *metav1.MicroTime) *time.Time {
	if t == nil {
		return nil
	}
	utc := t.UTC()
	return &utc
}
