package seed

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/seed/component"
)

func TestMain(m *testing.M) {
	component.Run()
	os.Exit(m.Run())
}

func startSeed(t *testing.T, o Options) *Seed {
	t.Helper()
	if testing.Short() {
		t.Skip("needs etcd and Kubernetes")
	}
	bins, err := build.Ensure(t.Context(), build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Dir, o.Binaries = t.TempDir(), bins
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// One seed for everything, since a start costs half a minute.
func TestASeedRunsTheControlPlanesOfUserClusters(t *testing.T) {
	begin := time.Now()
	s := startSeed(t, Options{})
	t.Logf("seed after %s", time.Since(begin))
	ctx := within(t, 5*time.Minute)
	c, err := s.AddCluster(ctx, ClusterOptions{Name: "wrapped", Wrapped: true, Managers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("cluster after %s", time.Since(begin))

	if err := c.AddMachines(ctx, "pool", 2); err != nil {
		t.Fatal(err)
	}
	t.Logf("machines after %s", time.Since(begin))
	service := cluster.WorkloadServices()[0]
	if _, err := c.Client().CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := Await(ctx, "the load balancer", func(ctx context.Context) error {
		have, err := c.Client().CoreV1().Services("default").Get(ctx, service.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(have.Status.LoadBalancer.Ingress) == 0 || len(c.AWS().State().ELB) != 1 {
			return fmt.Errorf("the in-tree manager has made none")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("load balancer after %s", time.Since(begin))

	managers, err := c.Pods(ctx, appManager)
	if err != nil || len(managers) != 2 {
		t.Fatalf("%d pods of controller-manager, %v", len(managers), err)
	}
	keys := map[string]bool{}
	for _, call := range c.AWS().Audit().Calls(mutations()) {
		if call.Service != "lab" {
			keys[call.Key] = true
		}
	}
	if len(keys) != 1 || !slices.ContainsFunc(managers, func(p corev1.Pod) bool { return keys[p.Name] }) {
		t.Errorf("the account was changed by %v, not by one of the manager's pods", keys)
	}

	t.Run("machines that are only deleted come back with their old flags", func(t *testing.T) { deletedMachines(t, c) })
	t.Run("machines of a new template get what operating-system-manager says now", func(t *testing.T) { restartedMachines(t, c) })
	t.Run("a pod ends before its object", func(t *testing.T) { podEnds(t, s, c) })
	if unknown := c.AWS().Unknown(); len(unknown) > 0 {
		t.Errorf("the simulated account does not know %v", unknown)
	}
}

// external gives the machine parts the flags that a migration gives them.
func external(t *testing.T, c *Cluster) {
	t.Helper()
	ctx := within(t, 3*time.Minute)
	for app, flag := range map[string]string{appMachines: "-node-external-cloud-provider", appWebhook: "-node-external-cloud-provider", appOSM: "-external-cloud-provider"} {
		d, err := c.seed.client.AppsV1().Deployments(c.Namespace).Get(ctx, app, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		args := d.Spec.Template.Spec.Containers[0].Args
		if c.Wrapped {
			args[len(args)-1] = strings.Replace(args[len(args)-1], `"args":[`, `"args":["`+flag+`",`, 1)
		} else {
			d.Spec.Template.Spec.Containers[0].Args = append(args, flag)
		}
		if _, err := c.seed.client.AppsV1().Deployments(c.Namespace).Update(ctx, d, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := Await(ctx, app, func(ctx context.Context) error {
			have, err := c.seed.client.AppsV1().Deployments(c.Namespace).Get(ctx, app, metav1.GetOptions{})
			if err != nil {
				return err
			}
			pods, err := c.Pods(ctx, app)
			if err != nil || have.Status.ObservedGeneration < have.Generation || have.Status.UpdatedReplicas != 1 || have.Status.AvailableReplicas != 1 ||
				len(pods) != 1 {
				return fmt.Errorf("rolling out: %+v, %d pods, %w", have.Status, len(pods), err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func flagsOf(c *Cluster) string {
	var out []string
	for _, flags := range c.Kubelets() {
		out = append(out, strings.Join(flags, " "))
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

func deletedMachines(t *testing.T, c *Cluster) {
	external(t, c)
	before := c.Kubelets()
	ctx := within(t, 3*time.Minute)
	if err := c.DeleteMachines(ctx); err != nil {
		t.Fatal(err)
	}
	if err := Await(ctx, "other machines", func(context.Context) error {
		for node := range c.Kubelets() {
			if _, ok := before[node]; ok {
				return fmt.Errorf("%s is still there", node)
			}
		}
		if n := len(c.Kubelets()); n != len(before) { // what is gone is gone before what comes is there
			return fmt.Errorf("%d of %d kubelets run", n, len(before))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitMachines(ctx, "pool", 2); err != nil {
		t.Fatal(err)
	}
	if got := flagsOf(c); got != "--cloud-provider=aws,--cloud-provider=aws" {
		t.Errorf("kubelets run with %s", got)
	}
	machines, err := c.Dynamic().Resource(component.Machines).Namespace(component.MachineNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range machines.Items {
		if m.GetAnnotations()[component.AnnotationExternal] != "true" {
			t.Errorf("machine %s has annotations %v; the webhook was started with the flag", m.GetName(), m.GetAnnotations())
		}
	}
}

func restartedMachines(t *testing.T, c *Cluster) {
	ctx := within(t, 3*time.Minute)
	if err := c.RestartMachines(ctx, "pool"); err != nil {
		t.Fatal(err)
	}
	if err := Await(ctx, "external kubelets", func(context.Context) error {
		if got := flagsOf(c); got != "--cloud-provider=external,--cloud-provider=external" {
			return fmt.Errorf("kubelets run with %s", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	nodes, err := c.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if n.Spec.ProviderID == "" && len(n.Spec.Taints) == 0 {
			t.Errorf("node %s is of an external kubelet, has no provider ID and no taint", n.Name)
		}
	}
}

// podEnds shows that a pod's object outlives its process, and that its last status says how that ended.
func podEnds(t *testing.T, s *Seed, c *Cluster) {
	ctx := within(t, 3*time.Minute)
	pods, err := c.Pods(ctx, appManager)
	if err != nil {
		t.Fatal(err)
	}
	name := pods[0].Name
	events, err := s.Client().CoreV1().Pods(c.Namespace).Watch(ctx, metav1.SingleObject(pods[0].ObjectMeta))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	if err := s.Client().CoreV1().Pods(c.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := Await(ctx, "the pod's end", func(ctx context.Context) error {
		_, err := s.Client().CoreV1().Pods(c.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("it is still there")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	ended := false
	for _, exit := range s.Exits() {
		ended = ended || strings.HasSuffix(exit.Pod, "/"+name)
	}
	if !ended {
		t.Error("the object is gone and its process has not ended")
	}
	for e := range events.ResultChan() {
		if e.Type != watch.Deleted {
			continue
		}
		last, ok := e.Object.(*corev1.Pod)
		if !ok || len(last.Status.ContainerStatuses) != 1 || last.Status.ContainerStatuses[0].State.Terminated == nil {
			t.Errorf("the object went without saying that its container has terminated: %+v", e.Object)
		}
		return
	}
	t.Error("the watch did not bring the deletion")
}
