package trial

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/poll"
	"github.com/transplant-dev/transplant/lab/rights"
)

// The operator of a migration who has the roles of deploy/rbac and no others.
const operatorName = "operator"

// operatorRoles are the roles of deploy/rbac that apply and rollback take where hosts are reached without pods.
var operatorRoles = []string{"reader", "planner", "pauser", "migrator"}

// managerAccount is whom API servers take our manager for.
const managerAccount = "system:serviceaccount:" + metav1.NamespaceSystem + ":" + layout.CCMAccount

// withRoles gives the operator the roles of deploy/rbac, and the cluster the account by which such an operator asks managers, with kubectl.
func withRoles(t *testing.T, lab *Trial) *Trial {
	t.Helper()
	apply := []string{"--kubeconfig", lab.Kubeconfig(), "apply", "-f", roleFile(t, "observer")}
	for _, role := range operatorRoles {
		apply = append(apply, "-f", roleFile(t, role))
	}
	if out, err := exec.CommandContext(t.Context(), lab.Kubectl(), apply...).CombinedOutput(); err != nil {
		t.Fatalf("kubectl %v: %v\n%s", apply, err, out)
	}
	operator, err := lab.As(operatorName, "transplant:readers", "transplant:planners", "transplant:pausers", "transplant:migrators")
	if err != nil {
		t.Fatal(err)
	}
	return operator
}

func roleFile(t *testing.T, role string) string {
	t.Helper()
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "deploy", "rbac", role+".yaml")
}

// operatorSituations are the rights of operators that a migration of static pods on AWS does not use, by how their texts begin, each with what takes it.
var operatorSituations = map[string]string{
	"bind ":                      "the API server itself asks for it when a role is bound that grants more than the operator has",
	"escalate ":                  "the API server itself asks for it when a role is made that grants more than the operator has",
	"create daemonsets":          "the manager comes as a DaemonSet",
	"delete daemonsets":          "the manager came as a DaemonSet",
	"get daemonsets":             "the manager comes as a DaemonSet",
	"update daemonsets":          "the managers are DaemonSets",
	"list controllerrevisions":   "the manager comes as a DaemonSet",
	"create deployments":         "the manager comes as a Deployment",
	"delete deployments":         "the manager came as a Deployment",
	"get deployments":            "the managers are Deployments",
	"update deployments":         "the managers are Deployments",
	"create pods in kube-system": "a manager that comes as a Deployment is tried in a pod first",
	"delete pods in kube-system": "a manager that comes as a Deployment is tried in a pod first, and the pods of a DaemonSet are replaced",
	"get pods/log":               "a pod that is waited for ends again and again",
	"create pods/eviction":       "a worker is drained",
	"update nodes":               "a worker is cordoned, or a Node is initialised again",
	"get endpointslices":         "API servers announce their addresses, which those of the lab do not",
	"delete secrets":             "an earlier version of this program left a token that never expires",
	"get secrets":                "an earlier version of this program left a token that never expires",

	"get configmaps in kube-system named transplant-before-":    "the snapshot from before is in pieces",
	"get configmaps in kube-system named transplant-journal-":   "the journal is in pieces",
	"update configmaps in kube-system named transplant-control": "the migration is paused",
	"watch configmaps in kube-system named transplant-":         "status --watch",
	"watch events": "status --watch",
	"watch nodes":  "status --watch",
	"watch pods":   "status --watch",
	"watch leases.coordination.k8s.io in kube-system named tran": "status --watch",
}

// managerSituations are those of the manager.
var managerSituations = map[string]string{
	"create serviceaccounts/token": "the manager's token is 30 days old; lab/ccmtrial has that",
	"get nodes":                    "another client wrote the Node first",
	"watch pods":                   "the manager is the first process of its container; lab/ccmtrial has the rest",
}

// leastPrivilege fails the test when the operator or the manager was refused something, or has a right that nothing takes.
func leastPrivilege(t *testing.T, lab *Trial, managers []apitest.Right) {
	t.Helper()
	var files []string
	for _, role := range operatorRoles {
		files = append(files, roleFile(t, role))
	}
	requests, err := lab.Requests()
	if err != nil {
		t.Fatal(err)
	}
	rights.Used(t, apitest.Granted(t, files...), rights.Needed(t, requests, operatorName), operatorSituations)
	rights.Used(t, managers, rights.Needed(t, requests, managerAccount), managerSituations)
}

// grantedTo returns what the roles that are bound to an account of kube-system grant it.
func grantedTo(t *testing.T, lab *Trial, account string) []apitest.Right {
	t.Helper()
	rbac := lab.Client().RbacV1()
	is := func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == metav1.NamespaceSystem && s.Name == account
	}
	clusterBindings, err := rbac.ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []apitest.Right
	add := func(rules []rbacv1.PolicyRule, namespace string) {
		for _, rule := range rules {
			out = append(out, apitest.RightsOf(rule, namespace)...)
		}
	}
	for _, b := range clusterBindings.Items {
		if !slices.ContainsFunc(b.Subjects, is) {
			continue
		}
		role, err := rbac.ClusterRoles().Get(t.Context(), b.RoleRef.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		add(role.Rules, "")
	}
	bindings, err := rbac.RoleBindings(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bindings.Items {
		if !slices.ContainsFunc(b.Subjects, is) {
			continue
		}
		role, err := rbac.Roles(b.Namespace).Get(t.Context(), b.RoleRef.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		add(role.Rules, b.Namespace)
	}
	return out
}

// lifeOfTheManager has the manager do what it does in the years after a migration: a load balancer is made, changed and deleted, a node joins and its
// instance goes. The lab is as it was afterwards.
func lifeOfTheManager(t *testing.T, lab *Trial) {
	t.Helper()
	aNewLoadBalancer(t, lab)
	aNewNode(t, lab)
}

func aNewLoadBalancer(t *testing.T, lab *Trial) {
	t.Helper()
	services := lab.Client().CoreV1().Services(cluster.WorkloadNamespace)
	service, err := services.Create(t.Context(), cluster.NewService("for-a-while", nil, 8443), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // of a test that has failed half way
		_ = services.Delete(context.WithoutCancel(t.Context()), service.Name, metav1.DeleteOptions{})
	})
	poll.Eventually(t, "the new Service to have a load balancer", func(ctx context.Context) error {
		if service, err = services.Get(ctx, service.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if len(service.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("its status is %+v", service.Status)
		}
		return nil
	})
	poll.Eventually(t, "the load balancer to be deleted with its Service", func(ctx context.Context) error {
		err := services.Delete(ctx, service.Name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

func aNewNode(t *testing.T, lab *Trial) {
	t.Helper()
	worker := lab.Workers()[0]
	made, err := lab.AWS().AddInstance(awssim.Instance{Type: "m5.large", Zone: worker.Zone, PrivateIP: "10.0.1.200"})
	if err != nil {
		t.Fatal(err)
	}
	name := "ip-10-0-1-200.ec2.internal"
	nodes := lab.Client().CoreV1().Nodes()
	_, err = nodes.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: component.TaintUninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = nodes.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		_ = lab.AWS().VanishInstance(made.ID)
	})
	poll.Eventually(t, "the new Node to be initialised and reachable", func(ctx context.Context) error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		network := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeNetworkUnavailable })
		if node.Spec.ProviderID == "" || network < 0 || node.Status.Conditions[network].Status != corev1.ConditionFalse {
			return fmt.Errorf("providerID %q, taints %v, conditions %v", node.Spec.ProviderID, node.Spec.Taints, node.Status.Conditions)
		}
		return nil
	})
	if err := lab.AWS().VanishInstance(made.ID); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, "the Node of the instance that is gone to be deleted", func(ctx context.Context) error {
		_, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}
