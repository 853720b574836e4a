package trial

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/cluster"
)

// cloudLoops are those that a migration moves, as metrics call them.
var cloudLoops = []string{"service", "route", "cloud-node-lifecycle"}

// Five configurations that the documents lead to. Each leaves the cloud loops with two owners or with none while every pod is ready, or ends the new
// manager, and check refuses each. They are taken in an order in which one is left by the step that leads to the next, so that the managers are
// restarted as rarely as possible.
func TestTheDocumentedConfigurationsBreakSilently(t *testing.T) {
	long(t)
	lab := theLab(t)
	before := facts(t, lab)
	cloud, err := lab.State()
	if err != nil {
		t.Fatal(err)
	}
	op := newOperator(t, lab)
	defer func() {
		op.restore(t)
		unchanged(t, lab, before)
		if err := lab.Check(cloud); err != nil {
			t.Error(err)
		}
	}()
	upstream := make(chan error, 1)
	go func() { upstream <- buildUpstream(t.Context(), lab) }()

	host := lab.ControlPlanes()[0].Name
	for _, b := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"without a right to the migration lease no manager runs the loops", func(t *testing.T) { withoutTheRight(t, op) }},
		{"a resourceLock ends the new manager, and only the new one", func(t *testing.T) {
			if err := <-upstream; err != nil {
				t.Fatal(err)
			}
			withAResourceLock(t, op, host)
		}},
		{"with the documented names both managers run everything", func(t *testing.T) { withTheDocumentedNames(t, op, host) }},
		{"without a file both managers run service and route", func(t *testing.T) { withoutAFile(t, op, host) }},
		{"leader migration left on keeps the loops from running", func(t *testing.T) { withMigrationLeftOn(t, op, host) }},
	} {
		begin := time.Now()
		if !t.Run(b.name, b.run) {
			return // the next one begins where this one ends
		}
		t.Logf("%s: %s", b.name, time.Since(begin).Round(100*time.Millisecond))
	}
}

func buildUpstream(ctx context.Context, lab *Trial) error {
	root, err := build.FindRoot()
	if err != nil {
		return err
	}
	return build.BuildUpstreamCCM(ctx, root, filepath.Dir(lab.product.CCM))
}

// Step N of the documents, without the role that they mention in passing.
func withoutTheRight(t *testing.T, op *operator) {
	op.createAccount(t)
	w := watch(t, op)
	for name := range op.hosts {
		op.write(t, name, migrationFile, documentedNames("resourceLock: leases\n"), 0o644)
	}
	op.restart(t, cluster.ControllerManager, []string{cluster.ControllerManager}, func() {
		op.edit(t, cluster.ControllerManager, append(quickElection(), migrationOn()...)...)
	})
	leader := op.awaitLeader(t, cluster.ControllerManager, cluster.ControllerManager)
	op.awaitLogged(t, leader, cluster.ControllerManager, `leases.coordination.k8s.io "`+MigrationLease+`" is forbidden`)
	op.awaitRenewals(t, cluster.ControllerManager)
	healthy(t, op)
	op.awaitOwners(t, nobody(cloudLoops...))
	refused(t, op, "LM-003", "LM-006")
	requireNoOwner(t, w, cloudLoops...)

	op.grantLease(t)
	op.awaitOwners(t, inTree(cloudLoops...))
}

// The lock is a line of the first version of the config, and still in published examples of the third.
func withAResourceLock(t *testing.T, op *operator, host string) {
	op.prepareCCM(t, host)
	op.runCCM(t, host, upstreamImage, migrationFile)
	await(t, "the upstream manager to crash again and again", func(ctx context.Context) (string, error) {
		pod, err := ccmPod(ctx, op, host)
		if err != nil {
			return err.Error(), nil
		}
		for _, s := range pod.Status.ContainerStatuses {
			if s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff" {
				return "", nil
			}
		}
		return fmt.Sprintf("its containers are %+v", pod.Status.ContainerStatuses), nil
	})
	op.awaitLogged(t, host, cluster.CloudControllerManager, `unknown field "resourceLock"`)
	op.awaitOwners(t, inTree(cloudLoops...), cluster.CloudControllerManager) // kube-controller-manager has read the same file
	refused(t, op, "LM-001", "LM-004", "LM-006")

	w := watch(t, op)
	op.runCCM(t, host, ownImage, migrationFile)
	op.awaitLeader(t, cluster.CloudControllerManager, cluster.CloudControllerManager)
	op.awaitLogged(t, host, cluster.CloudControllerManager, "resourceLock: v1 has no such field; it is ignored here")
	op.awaitOwners(t, with(inTree("service", "route", "cloud-node-lifecycle", "nodeipam"), "cloud-node"))
	aService(t, op, 1)
	refused(t, op)
	j, err := w.Judge()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range j.Overlaps {
		t.Errorf("with our manager %s has two owners, %s and %s, by %s", o.Loop, o.Old, o.New, o.Evidence)
	}
}

// What is left when the line is deleted, as the upstream manager's log asks for.
func withTheDocumentedNames(t *testing.T, op *operator, host string) {
	for name := range op.hosts {
		op.write(t, name, migrationFile, documentedNames(""), 0o644)
	}
	w := watch(t, op)
	begin := time.Now()
	op.runCCM(t, host, upstreamImage, migrationFile)
	op.awaitOwners(t, with(inTree(cloudLoops...), append(cloudLoops, "cloud-node")...))
	healthy(t, op, host)
	awaitWrite(t, op, host, begin)
	aService(t, op, 2)
	refused(t, op, "LM-001", "LM-006")
	requireTwoOwners(t, w, v1.EvidenceGauges, cloudLoops...)
	requireTwoOwners(t, w, v1.EvidenceCalls, "service")
}

// The upstream default, which the documents offer to who moves all loops.
func withoutAFile(t *testing.T, op *operator, host string) {
	op.runCCM(t, host, upstreamImage, "")
	w := watch(t, op)
	op.awaitOwners(t, with(inTree(cloudLoops...), "service", "route", "cloud-node")) // and the node lifecycle loop in one of them
	healthy(t, op, host)
	refused(t, op, "LM-005", "LM-006")
	requireTwoOwners(t, w, v1.EvidenceGauges, "service", "route")
}

// Step N+1 with one flag forgotten, although both files are right.
func withMigrationLeftOn(t *testing.T, op *operator, host string) {
	op.stopCCM(t, host)
	w := watch(t, op)
	op.restart(t, cluster.ControllerManager, []string{cluster.ControllerManager, MigrationLease}, func() {
		op.edit(t, cluster.ControllerManager, v1.Edit{Op: "setFlag", Name: "cloud-provider", Value: "external"}, v1.Edit{Op: "unsetFlag", Name: "cloud-config"})
	})
	op.awaitLeader(t, cluster.ControllerManager, MigrationLease)
	op.write(t, host, migrationNew, leaderMigration("service-lb-controller", "node-route-controller", "cloud-node-lifecycle-controller", ""), 0o644)
	op.runCCM(t, host, upstreamImage, migrationNew)
	op.awaitLeader(t, cluster.CloudControllerManager, cluster.CloudControllerManager)
	op.awaitRenewals(t, MigrationLease)
	healthy(t, op, host)
	op.awaitOwners(t, with(nobody(cloudLoops...), "cloud-node"))
	refused(t, op, "LM-002", "LM-006", "LM-007")
	requireNoOwner(t, w, cloudLoops...)
}

func nobody(loops ...string) map[string][]string {
	out := map[string][]string{}
	for _, loop := range loops {
		out[loop] = nil
	}
	return out
}

// with adds the cloud-controller-manager as an owner of the loops.
func with(owners map[string][]string, loops ...string) map[string][]string {
	for _, loop := range loops {
		owners[loop] = append(owners[loop], cluster.CloudControllerManager)
	}
	return owners
}

// aService creates a Service with a load balancer and deletes it, and waits until so many managers have said that they did the work.
func aService(t *testing.T, op *operator, managers int) {
	t.Helper()
	services := op.lab.Client().CoreV1().Services(cluster.WorkloadNamespace)
	s, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "late-"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "late"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deleted := false
	defer func() {
		if !deleted {
			_ = services.Delete(t.Context(), s.Name, metav1.DeleteOptions{}) // the test has failed already
		}
	}()
	said := func(reason string) {
		t.Helper()
		await(t, fmt.Sprintf("%d managers to say %s", managers, reason), func(ctx context.Context) (string, error) {
			events, err := op.lab.Client().CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(s.UID)})
			if err != nil {
				return "", err
			}
			var all []string
			n := 0
			for _, e := range events.Items {
				all = append(all, fmt.Sprintf("%s (%d): %s", e.Reason, e.Count, e.Message))
				if e.Reason == reason {
					n++
				}
			}
			if n < managers {
				return fmt.Sprintf("%d did: %s", n, strings.Join(all, "; ")), nil
			}
			return "", nil
		})
	}
	said("EnsuredLoadBalancer")
	if err := services.Delete(t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deleted = true
	said("DeletedLoadBalancer")
}
