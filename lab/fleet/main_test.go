package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/csi"
	"github.com/transplant-dev/transplant/lab/kubelet"
	"github.com/transplant-dev/transplant/lab/seed"
	"github.com/transplant-dev/transplant/lab/seed/component"
)

func TestMain(m *testing.M) {
	kubelet.RunContainer()
	csi.Run()
	component.Run()
	os.Exit(m.Run())
}

// patience bounds what a test waits for; a slow machine may take as long.
const patience = 20 * time.Minute

// Flags of the operator that make it look more often than it would in earnest.
var quick = []string{"--look-interval=1s", "--retry=1s", "--max-retry=5s"}

func newWorld(t *testing.T, sets ...string) *World {
	t.Helper()
	return newWorldOf(t, nil, sets...)
}

// newWorldOf has the cloud-controller-managers of further providers than AWS.
func newWorldOf(t *testing.T, providers []string, sets ...string) *World {
	t.Helper()
	if testing.Short() {
		t.Skip("needs etcd and Kubernetes")
	}
	dir := t.TempDir()
	if keep := os.Getenv("FLEET_DIR"); keep != "" { // to look at afterwards
		dir = filepath.Join(keep, strings.ReplaceAll(t.Name(), "/", "-"))
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	programs, err := seed.BuildPrograms(t.Context(), filepath.Join(dir, "bin"), providers...)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	w, err := Start(t.Context(), seed.Options{Dir: dir, Programs: programs, AuditReads: true, Log: log}, sets...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if t.Failed() {
			w.explain(ctx, t)
		}
		if err := w.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return w
}

// explain logs what the operator's pods said last, and the Clusters' conditions.
func (w *World) explain(ctx context.Context, t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(w.Dir(), seed.NodeName, "var/log/pods", OperatorNamespace+"_*", "*", "*.log"))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		t.Logf("%s:\n%s", filepath.Base(filepath.Dir(filepath.Dir(f))), strings.Join(lines[max(0, len(lines)-25):], "\n"))
	}
	for _, group := range []string{"kubermatic.k8c.io", "kubermatic.k8s.io"} {
		list, err := w.Dynamic().Resource(clusters(group)).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for i := range list.Items {
			conditions, _ := (&Object{w, group, list.Items[i].GetName()}).Conditions(ctx)
			for name, c := range conditions {
				t.Logf("%s %s: %s %s %s", list.Items[i].GetName(), name, c.Status, c.Reason, c.Message)
			}
		}
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	d := patience
	if given, err := time.ParseDuration(os.Getenv("FLEET_PATIENCE")); err == nil {
		d = given
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// addCluster adds a user cluster with machines, load balancers and routes of the in-tree manager's.
func (w *World) addCluster(t *testing.T, o seed.ClusterOptions, machines int) *seed.Cluster {
	t.Helper()
	ctx := within(t)
	c, err := w.AddCluster(ctx, o)
	must(t, err)
	must(t, c.AddMachines(ctx, "pool", machines))
	for _, s := range cluster.WorkloadServices()[:2] {
		_, err := c.Client().CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{})
		must(t, err)
	}
	routes := machines
	if o.NoRoutes {
		routes = 0
	}
	must(t, seed.Await(ctx, "load balancers and routes", func(ctx context.Context) error { return inLine(ctx, c, routes) }))
	return c
}

// grant makes the namespace of a control plane, where the operator has its rights.
func (w *World) grant(ctx context.Context, name string) error {
	return w.grantTo(ctx, OperatorNamespace, name)
}

// grantTo does so for an operator that is installed elsewhere.
func (w *World) grantTo(ctx context.Context, installed, name string) error {
	_, err := w.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return seed.GrantOperator(ctx, w.Client(), installed, name)
}

// writers are who wrote a Cluster, or a subresource of it, in the order in which the seed's audit log has the writes that were taken.
func (w *World) writers(t *testing.T, name, subresource string) (users []string) {
	t.Helper()
	writes, err := w.API().Audit()
	must(t, err)
	for _, write := range writes {
		if write.Resource == "clusters" && write.Subresource == subresource && write.Name == name && write.Accepted() {
			users = append(users, write.User)
		}
	}
	return users
}

// inLine reports whether every Service has its load balancer, and the account so many routes.
func inLine(ctx context.Context, c *seed.Cluster, want int) error {
	services, err := c.Client().CoreV1().Services("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range services.Items {
		if s := &services.Items[i]; s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("service %s has no load balancer", s.Name)
		}
	}
	routes := 0
	for _, table := range c.AWS().State().EC2.RouteTables {
		for _, r := range table.Routes {
			if strings.HasPrefix(r.CIDR, "10.200.") {
				routes++
			}
		}
	}
	if routes != want {
		return fmt.Errorf("there are %d routes, not %d", routes, want)
	}
	return nil
}

// load gives the managers of a cluster something to do all the time, so that its account's log says who acts: the ports of a Service change, again and
// again. stop ends it.
func load(t *testing.T, c *seed.Cluster) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for n := int32(0); ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			s, err := c.Client().CoreV1().Services("default").Get(ctx, cluster.WorkloadServices()[0].Name, metav1.GetOptions{})
			if err != nil {
				continue
			}
			s.Spec.Ports[0].Port = 2000 + n%1000
			_, _ = c.Client().CoreV1().Services("default").Update(ctx, s, metav1.UpdateOptions{}) // a conflict is tried again with the next
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}
