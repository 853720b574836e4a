// Package workloads reads workloads, webhooks and pods, and decides which role a program has and which pod runs a
// manager.
package workloads

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/visible"
)

// GatherWorkloads lists Deployments, DaemonSets and StatefulSets of all namespaces. Which of them are kept is decided
// when the webhooks are known.
func GatherWorkloads(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("workloads", collect.NoAPI)
		return
	}
	apps := g.Kube.AppsV1()
	deployments, _ := collect.List(
		ctx,
		g,
		"workloads/deployments",
		"deployments",
		apps.Deployments(metav1.NamespaceAll).List,
		func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items },
	)
	for i := range deployments {
		d := &deployments[i]
		w := NewWorkload("Deployment", &d.ObjectMeta, d.Spec.Template, d.Spec.Replicas, d.Status.ReadyReplicas)
		w.Strategy = string(d.Spec.Strategy.Type)
		if r := d.Spec.Strategy.RollingUpdate; r != nil {
			w.MaxSurge = written(r.MaxSurge)
		}
		g.Found = append(g.Found, w)
	}
	daemonSets, _ := collect.List(ctx, g, "workloads/daemonsets", "daemonsets", apps.DaemonSets(metav1.NamespaceAll).List,
		func(l *appsv1.DaemonSetList) []appsv1.DaemonSet { return l.Items })
	for i := range daemonSets {
		d := &daemonSets[i]
		w := NewWorkload("DaemonSet", &d.ObjectMeta, d.Spec.Template, &d.Status.DesiredNumberScheduled, d.Status.NumberReady)
		w.Strategy = string(d.Spec.UpdateStrategy.Type)
		if r := d.Spec.UpdateStrategy.RollingUpdate; r != nil {
			w.MaxSurge = written(r.MaxSurge)
		}
		g.Found = append(g.Found, w)
	}
	statefulSets, _ := collect.List(
		ctx,
		g,
		"workloads/statefulsets",
		"statefulsets",
		apps.StatefulSets(metav1.NamespaceAll).List,
		func(l *appsv1.StatefulSetList) []appsv1.StatefulSet { return l.Items },
	)
	for i := range statefulSets {
		s := &statefulSets[i]
		w := NewWorkload("StatefulSet", &s.ObjectMeta, s.Spec.Template, s.Spec.Replicas, s.Status.ReadyReplicas)
		w.Strategy = string(s.Spec.UpdateStrategy.Type)
		g.Found = append(g.Found, w)
	}
	g.Count("deployments", len(deployments))
	g.Count("daemonsets", len(daemonSets))
	g.Count("statefulsets", len(statefulSets))
	slices.SortFunc(g.Found, func(a, b collect.Workload) int { return strings.Compare(a.Ref, b.Ref) })
}

func written(v *intstr.IntOrString) string {
	if v == nil {
		return ""
	}
	return v.String()
}

// NewWorkload returns what a snapshot keeps of a workload.
func NewWorkload(
	kind string,
	meta *metav1.ObjectMeta,
	template corev1.PodTemplateSpec,
	replicas *int32,
	ready int32,
) collect.Workload {
	w := collect.Workload{Namespace: meta.Namespace, Template: template}
	spec := &template.Spec
	w.Workload = v1.Workload{
		Ref:            kind + "/" + meta.Namespace + "/" + meta.Name,
		UID:            string(meta.UID),
		Labels:         mask.Annotations(template.Labels),
		NodeSelector:   spec.NodeSelector,
		HostNetwork:    spec.HostNetwork,
		DNSPolicy:      string(spec.DNSPolicy),
		PriorityClass:  spec.PriorityClassName,
		ServiceAccount: spec.ServiceAccountName,
		Replicas:       1,
		Ready:          ready,
	}
	if replicas != nil {
		w.Replicas = *replicas
	}
	for i := range spec.Containers {
		w.Containers = append(w.Containers, containerOf(&spec.Containers[i]))
	}
	for _, t := range spec.Tolerations {
		w.Tolerations = append(w.Tolerations, tolerationOf(t))
	}
	w.Role = RoleOf(kind, w.Containers)
	return w
}

func tolerationOf(t corev1.Toleration) string {
	key := t.Key
	if key == "" && t.Operator == corev1.TolerationOpExists {
		key = "*"
	}
	return key + "=" + t.Value + ":" + string(t.Effect)
}

// shownEnv are the environment variables whose values decide how the API or the cloud is reached.
var shownEnv = []string{
	"KUBERNETES_SERVICE_HOST",
	"KUBERNETES_SERVICE_PORT",
	"HTTPS_PROXY",
	"HTTP_PROXY",
	"NO_PROXY",
	"https_proxy",
	"http_proxy",
	"no_proxy",
	"AWS_REGION",
	"AWS_DEFAULT_REGION",
	"OS_CCM_REGIONAL",
	"SKIP_NODE_DELETION",
}

// maxWord is what is read of one word of a command. A script of blanks takes many times its bytes when it is masked.
const maxWord = 64 << 10

// shortWords are the words of a command, without the end of those that are too long.
func shortWords(words []string) []string {
	for i, word := range words {
		words[i] = visible.Cut(word, maxWord)
	}
	return words
}

func containerOf(c *corev1.Container) v1.Container {
	command := commandline.Unwrapped(shortWords(slices.Concat(c.Command, c.Args)))
	out := v1.Container{
		Name: c.Name, Image: c.Image, Command: mask.Command(command), Flags: mask.Map(commandline.FlagsOf(wordsOf(command))),
		Requests: quantities(c.Resources.Requests), Limits: quantities(c.Resources.Limits),
	}
	if len(out.Command) == 0 {
		out.Command = nil
	}
	for _, e := range c.Env {
		out.EnvNames = append(out.EnvNames, e.Name)
		if e.Value == "" || !slices.Contains(shownEnv, e.Name) {
			continue
		}
		if out.Env == nil {
			out.Env = map[string]string{}
		}
		out.Env[e.Name] = withoutUser(e.Name, e.Value)
	}
	slices.Sort(out.EnvNames)
	for _, p := range c.Ports {
		if p.HostPort != 0 {
			out.HostPorts = append(out.HostPorts, p.HostPort)
		}
	}
	slices.Sort(out.HostPorts)
	return out
}

// withoutUser removes the user from a proxy's address, also where it has no scheme.
func withoutUser(name, value string) string {
	if strings.HasSuffix(strings.ToLower(name), "_proxy") && !strings.EqualFold(name, "no_proxy") {
		return mask.Proxy(value)
	}
	return mask.Text(value)
}

// wordsOf splits the script that a shell is given, so that the flags in it can be read.
func wordsOf(command []string) []string {
	if !StartedByShell(command) {
		return command
	}
	var out []string
	for _, arg := range command[1:] {
		if !strings.HasPrefix(arg, "-") { // -c, -ec
			out = append(out, strings.Fields(arg)...)
		}
	}
	return out
}

// StartedByShell reports whether a command is run by a shell.
func StartedByShell(command []string) bool {
	return len(command) > 0 && slices.Contains([]string{"sh", "bash", "ash", "dash"}, baseOf(command[0]))
}

func baseOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }

func quantities(resources corev1.ResourceList) map[string]string {
	if len(resources) == 0 {
		return nil
	}
	out := map[string]string{}
	for name, quantity := range resources {
		out[string(name)] = quantity.String()
	}
	return out
}

// SummarizeWorkloads keeps those with a role and those behind webhooks.
func SummarizeWorkloads(g *collect.Collector) {
	for i := range g.Found {
		w := &g.Found[i]
		if w.Role == "" && w.Backs {
			w.Role = v1.RoleWebhook
		}
		if w.Role == "" {
			continue
		}
		if nodes := g.RunsOn[w.Ref]; len(nodes) > 0 {
			slices.Sort(nodes)
			w.Nodes = slices.Compact(nodes)
		}
		g.Snap.Workloads = append(g.Snap.Workloads, w.Workload)
	}
}
