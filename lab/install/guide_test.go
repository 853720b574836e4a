package install

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cloudconfig"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
	"github.com/transplant-dev/transplant/internal/manifests"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/poll"
	"github.com/transplant-dev/transplant/lab/trial"
)

const (
	kubeSystem   = metav1.NamespaceSystem
	manager      = cluster.CloudControllerManager
	kubeletFlags = "/var/lib/kubelet/kubeadm-flags.env"
)

// The guide of the AWS provider for an existing cluster, "When Downtime is Acceptable", step by step and by hand. Then Helm takes over what kustomize has
// installed, upgrades it, goes back, and leaves nothing. At no time does a load balancer change.
func TestTheGuideOfAWSByHand(t *testing.T) {
	tool := withHelm(t)
	lab, err := trial.Start(t.Context(), trial.Options{Dir: t.TempDir(), ControlPlanes: 1, Workers: 1, RunPods: true, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	before, err := lab.State()
	if err != nil {
		t.Fatal(err)
	}
	g := &guide{tools: tool.as(lab.Kubeconfig()), lab: lab, hosts: hostsOf(t, lab)}
	t.Cleanup(func() { g.explain(t) })
	own := g.withCloud(t)

	g.stopInTree(t)
	g.makeExternal(t)
	g.must(t, g.kubectl, "apply", "-k", own)
	g.startInTree(t)
	g.must(t, g.kubectl, "-n", kubeSystem, "rollout", "status", "daemonset/"+manager, "--timeout=3m")
	g.awaitLoops(t, "web-of-kustomize")
	g.unchanged(t, before)

	values := g.values(t)
	begin := time.Now()
	helm := []string{
		"upgrade", "--install", "ccm", manifests.ChartDir, "--namespace", kubeSystem, "--values", values,
		"--take-ownership", "--force-conflicts", "--wait", "--timeout", "3m",
	}
	g.must(t, g.helm, helm...)
	t.Logf("Helm took the manager over, and it was ready, after %s", time.Since(begin).Round(100*time.Millisecond))
	g.awaitLoops(t, "web-of-helm")
	begin = time.Now()
	g.must(t, g.helm, append(slices.Clone(helm), "--set", "extraArgs={--concurrent-service-syncs=3}")...)
	g.awaitFlag(t, "--concurrent-service-syncs=3", true)
	t.Logf("upgraded after %s", time.Since(begin).Round(100*time.Millisecond))
	g.must(t, g.helm, "rollback", "ccm", "1", "--namespace", kubeSystem, "--wait", "--timeout", "3m")
	g.awaitFlag(t, "--concurrent-service-syncs=3", false)
	g.awaitLoops(t, "web-of-rollback")
	g.unchanged(t, before)

	g.must(t, g.helm, "uninstall", "ccm", "--namespace", kubeSystem, "--wait", "--timeout", "3m")
	g.nothingLeft(t)
	begin = time.Now()
	g.must(t, g.helm, "install", "ccm", manifests.ChartDir, "--namespace", kubeSystem, "--values", values, "--wait", "--timeout", "3m")
	t.Logf("installed again and ready after %s", time.Since(begin).Round(100*time.Millisecond))
	g.awaitLoops(t, "web-of-install")
	g.unchanged(t, before)
}

// guide is a person who follows a guide.
type guide struct {
	tools

	lab   *trial.Trial
	hosts []hostaccess.Host
	// stopped is the manifest of kube-controller-manager while it is out of the kubelet's way.
	stopped hostaccess.File
}

// explain prints, of a test that has failed, what kubectl shows of the manager.
func (g *guide) explain(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for _, args := range [][]string{
		{"get", "daemonsets,pods,leases", "-o", "wide"}, {"get", "events", "--sort-by=.lastTimestamp"}, {"describe", "pods", "-l", "component=" + manager},
	} {
		out, _, err := g.run(context.WithoutCancel(t.Context()), g.kubectl, append([]string{"-n", kubeSystem}, args...)...)
		t.Logf("kubectl %v: %v\n%s", args, err, out)
	}
	h := g.lab.ControlPlanes()[0]
	logs, err := filepath.Glob(h.Path("/var/log/pods/" + kubeSystem + "_" + manager + "*/*/*.log"))
	for _, file := range append(logs, h.Path("/var/log/kubelet.log")) {
		data, reading := os.ReadFile(file)
		lines := strings.Split(string(data), "\n")
		t.Logf("%s: %v, %v\n%s", file, err, reading, strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
}

func hostsOf(t *testing.T, lab *trial.Trial) []hostaccess.Host {
	t.Helper()
	hosts, err := local.Open(lab.HostAccess())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(hosts, func(a, b hostaccess.Host) int { return strings.Compare(a.Name(), b.Name()) })
	return hosts
}

// controlPlane is the host that the managers run on.
func (g *guide) controlPlane() hostaccess.Host {
	name := g.lab.ControlPlanes()[0].Name
	return g.hosts[slices.IndexFunc(g.hosts, func(h hostaccess.Host) bool { return h.Name() == name })]
}

func manifestOf(component string) string { return controlplane.ManifestDir + "/" + component + ".yaml" }

// write replaces a file of a host.
func (g *guide) write(t *testing.T, h hostaccess.Host, path string, data []byte, mode fs.FileMode) {
	t.Helper()
	if err := h.WriteFile(t.Context(), path, data, mode); err != nil {
		t.Fatal(err)
	}
}

func (g *guide) read(t *testing.T, h hostaccess.Host, path string) hostaccess.File {
	t.Helper()
	f, err := h.ReadFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// stopInTree moves the manifest of kube-controller-manager out of the kubelet's directory.
func (g *guide) stopInTree(t *testing.T) {
	t.Helper()
	h := g.controlPlane()
	g.stopped = g.read(t, h, manifestOf(cluster.ControllerManager))
	if err := h.Remove(t.Context(), manifestOf(cluster.ControllerManager)); err != nil {
		t.Fatal(err)
	}
	g.awaitProcesses(t, cluster.ControllerManager, 0)
}

// startInTree puts the manifest back, with the external provider.
func (g *guide) startInTree(t *testing.T) {
	t.Helper()
	g.write(t, g.controlPlane(), manifestOf(cluster.ControllerManager), external(t, g.stopped.Data), g.stopped.Mode)
	g.awaitProcesses(t, cluster.ControllerManager, 1)
}

func (g *guide) awaitProcesses(t *testing.T, component string, want int) {
	t.Helper()
	poll.EventuallyComplete(t, fmt.Sprintf("%d processes of %s", want, component), func(ctx context.Context) string {
		found, err := g.controlPlane().Processes(ctx, component)
		if err != nil {
			return err.Error()
		}
		if len(found) != want {
			return fmt.Sprintf("there are %d", len(found))
		}
		return ""
	})
}

// external is a manifest with the external provider, as the table of the guide has it.
func external(t *testing.T, manifest []byte) []byte {
	t.Helper()
	data, err := controlplane.Apply(manifest, []v1.Edit{
		{Op: "setFlag", Name: "cloud-provider", Value: "external"},
		{Op: "unsetFlag", Name: "cloud-config"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// makeExternal gives the API server and every kubelet the external provider.
func (g *guide) makeExternal(t *testing.T) {
	t.Helper()
	h := g.controlPlane()
	api := g.read(t, h, manifestOf(cluster.APIServer))
	old, err := h.Processes(t.Context(), cluster.APIServer)
	if err != nil || len(old) != 1 {
		t.Fatalf("API servers on %s: %v, %v", h.Name(), old, err)
	}
	g.write(t, h, manifestOf(cluster.APIServer), external(t, api.Data), api.Mode)
	poll.EventuallyComplete(t, "another API server", func(ctx context.Context) string {
		now, err := h.Processes(ctx, cluster.APIServer)
		if err != nil || len(now) != 1 || now[0].PID == old[0].PID {
			return fmt.Sprintf("there are %v, %v", now, err)
		}
		if _, err := g.lab.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	for _, h := range g.hosts {
		flags := g.read(t, h, kubeletFlags)
		text := strings.Replace(string(flags.Data), "--cloud-provider=aws", "--cloud-provider=external", 1)
		if text == string(flags.Data) {
			t.Fatalf("kubelet of %s has no in-tree provider: %s", h.Name(), text)
		}
		g.write(t, h, kubeletFlags, []byte(text), flags.Mode)
		machine, err := g.lab.Host(h.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := machine.Kubelet.Restart(); err != nil {
			t.Fatal(err)
		}
	}
}

// environment is how the lab's account is reached, in place of an instance's role.
func (g *guide) environment() []corev1.EnvVar {
	return cluster.CloudEnv(g.lab.ControlPlanes()[0], manager)
}

// cloudConfig is the external provider's for the lab's account.
func (g *guide) cloudConfig(t *testing.T) string {
	t.Helper()
	config, err := cloudconfig.Derive("aws", g.read(t, g.controlPlane(), "/etc/kubernetes/cloud.conf").Data)
	if err != nil {
		t.Fatal(err)
	}
	return string(config.Data)
}

// routes are the flags of a cluster whose in-tree manager has made routes.
func routes() []string {
	return []string{
		"--configure-cloud-routes=true", "--allocate-node-cidrs=true", "--cluster-cidr=" + cluster.PodCIDR, "--cluster-name=" + cluster.Name,
	}
}

// withCloud is the kustomization of somebody whose account is reached in another way: that of the guide, a cloud config and an environment.
func (g *guide) withCloud(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	base, err := filepath.Rel(dir, filepath.Join(g.root, manifests.GuideDir))
	if err != nil {
		t.Fatal(err)
	}
	patch := map[string]any{
		"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": map[string]any{"name": manager, "namespace": kubeSystem},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{
				"name": manager, "env": g.environment(),
				"args": append([]string{
					"--leader-elect=true", "--leader-elect-retry-period=1s", "--use-service-account-credentials=false", "--cloud-config=/etc/kubernetes/cloud-config/cloud.conf",
				}, routes()...),
				"volumeMounts": []any{map[string]any{"name": "cloud-config", "mountPath": "/etc/kubernetes/cloud-config"}},
			}},
			"volumes": []any{map[string]any{"name": "cloud-config", "secret": map[string]any{"secretName": "cloud-config"}}},
		}}},
	}
	for name, of := range map[string]any{
		"patch.yaml": patch,
		"kustomization.yaml": map[string]any{
			"resources": []string{base}, "patches": []any{map[string]any{"path": "patch.yaml"}},
			"secretGenerator": []any{map[string]any{"name": "cloud-config", "namespace": kubeSystem, "files": []string{"cloud.conf"}}},
		},
	} {
		data, err := yaml.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cloud.conf"), []byte(g.cloudConfig(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// values are the same for the chart.
func (g *guide) values(t *testing.T) string {
	t.Helper()
	data, err := yaml.Marshal(map[string]any{
		"clusterName": cluster.Name, "env": g.environment(),
		"routes":      map[string]any{"enabled": true, "clusterCIDR": cluster.PodCIDR},
		"cloudConfig": map[string]any{"content": g.cloudConfig(t)},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// awaitLoops waits until a new Service has its load balancer, and that of a deleted one is gone.
func (g *guide) awaitLoops(t *testing.T, name string) {
	t.Helper()
	services := g.lab.Client().CoreV1().Services(cluster.WorkloadNamespace)
	if _, err := services.Create(t.Context(), cluster.NewService(name, nil, 80), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.EventuallyComplete(t, "a load balancer of Service "+name, func(ctx context.Context) string {
		s, err := services.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if len(s.Status.LoadBalancer.Ingress) == 0 {
			return "it has none"
		}
		return ""
	})
	if err := services.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.EventuallyComplete(t, "the end of Service "+name, func(ctx context.Context) string {
		_, err := services.Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Sprintf("it is there, or: %v", err)
		}
		return ""
	})
}

// unchanged fails the test unless the account is as it was.
func (g *guide) unchanged(t *testing.T, before string) {
	t.Helper()
	if err := g.lab.Check(before); err != nil {
		t.Error(err)
	}
}

// awaitFlag waits until the manager's process has a flag, or has it no more.
func (g *guide) awaitFlag(t *testing.T, flag string, want bool) {
	t.Helper()
	poll.EventuallyComplete(t, fmt.Sprintf("flag %s to be there: %v", flag, want), func(ctx context.Context) string {
		pods, err := g.lab.Client().CoreV1().Pods(kubeSystem).List(ctx, metav1.ListOptions{LabelSelector: "component=" + manager})
		if err != nil {
			return err.Error()
		}
		for _, pod := range pods.Items {
			has := slices.Contains(pod.Spec.Containers[0].Args, flag)
			if has == want && pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, isReady) {
				return ""
			}
		}
		return fmt.Sprintf("%d pods, none of them ready with it", len(pods.Items))
	})
}

func isReady(c corev1.PodCondition) bool {
	return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
}

// nothingLeft fails the test where an object of the chart is left.
func (g *guide) nothingLeft(t *testing.T) {
	t.Helper()
	out := g.must(t, g.kubectl, "-n", kubeSystem, "get", "clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,configmaps,secrets,daemonsets,poddisruptionbudgets",
		"-l", "app.kubernetes.io/instance=ccm", "-o", "name")
	if diff := cmp.Diff("", out); diff != "" {
		t.Errorf("left after helm uninstall:\n%s", diff)
	}
	poll.EventuallyComplete(t, "the end of the manager's pods", func(ctx context.Context) string {
		pods, err := g.lab.Client().CoreV1().Pods(kubeSystem).List(ctx, metav1.ListOptions{LabelSelector: "component=" + manager})
		if err != nil || len(pods.Items) > 0 {
			return fmt.Sprintf("%d pods, %v", len(pods.Items), err)
		}
		return ""
	})
}
