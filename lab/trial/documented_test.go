package trial

import (
	"context"
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cloudconfig"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/cluster"
)

// What the published documents of leader migration and of the AWS provider tell an operator to set up.

// Files of a migration by hand, on each control plane.
const (
	migrationFile  = "/etc/kubernetes/leadermigration.conf"     // for both managers
	migrationNew   = "/etc/kubernetes/leadermigration-new.conf" // for the new one alone
	ccmCloudConfig = "/etc/kubernetes/cloud-external.conf"
	ccmKubeconfig  = "/etc/kubernetes/cloud-controller-manager.conf"
	ccmManifest    = controlplane.ManifestDir + "/cloud-controller-manager.yaml"
	ccmAccount     = "cloud-controller-manager"
)

// Images of the new manager: upstream's, and the product's.
const (
	upstreamImage = build.UpstreamCCMImage + ":" + build.UpstreamCCMVersion
	ownImage      = build.CCMImage + ":v0.1.0"
)

// leaderMigration is a leader migration config for both sides, with the names of the loops and further lines.
func leaderMigration(service, route, lifecycle, more string) []byte {
	return fmt.Appendf(nil, `apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: %s
controllerLeaders:
- name: %s
  component: "*"
- name: %s
  component: "*"
- name: %s
  component: "*"
%s`, MigrationLease, route, service, lifecycle, more)
}

// documentedNames is the config that the documents show. Some of them have the resourceLock line of its first version.
func documentedNames(more string) []byte {
	return leaderMigration("service", "route", "cloud-node-lifecycle", more)
}

// quickLease is how long a lease lasts in these tests.
const quickLease = 6 * time.Second

// quickElection makes a manager's lease expire in six seconds instead of fifteen. Nothing else about an election depends on it.
func quickElection() []v1.Edit {
	return []v1.Edit{
		{Op: "setFlag", Name: "leader-elect-lease-duration", Value: quickLease.String()},
		{Op: "setFlag", Name: "leader-elect-renew-deadline", Value: "4s"},
		{Op: "setFlag", Name: "leader-elect-retry-period", Value: "1s"},
	}
}

// migrationOn switches leader migration on with the config.
func migrationOn() []v1.Edit {
	return []v1.Edit{
		{Op: "setFlag", Name: "enable-leader-migration", Value: "true"},
		{Op: "setFlag", Name: "leader-migration-config", Value: migrationFile},
		{Op: "addHostPath", Name: "leader-migration", Value: migrationFile, PathType: "File"},
	}
}

// createAccount creates what the AWS provider's example gives its cloud-controller-manager, and the right to ask the API server who asks for its
// metrics, which every cluster that scrapes it adds.
func (op *operator) createAccount(t *testing.T) {
	t.Helper()
	const name = "system:cloud-controller-manager"
	client := op.lab.Client()
	subject := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: ccmAccount, Namespace: metav1.NamespaceSystem}}
	add := func(err error, undo func(context.Context) error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		op.undo = append(op.undo, undo)
	}

	accounts := client.CoreV1().ServiceAccounts(metav1.NamespaceSystem)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: ccmAccount}}, metav1.CreateOptions{})
	add(err, func(ctx context.Context) error { return accounts.Delete(ctx, ccmAccount, metav1.DeleteOptions{}) })

	roles := client.RbacV1().ClusterRoles()
	watch := []string{"list", "watch", "patch", "update"}
	_, err = roles.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"*"}},
		{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"services", "services/status"}, Verbs: watch},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"create", "get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "list", "watch", "update"}},
	}}, metav1.CreateOptions{})
	add(err, func(ctx context.Context) error { return roles.Delete(ctx, name, metav1.DeleteOptions{}) })

	bindings := client.RbacV1().ClusterRoleBindings()
	for binding, role := range map[string]string{name: name, name + ":auth-delegator": "system:auth-delegator"} {
		_, err = bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: binding}, Subjects: subject,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}, metav1.CreateOptions{})
		add(err, func(ctx context.Context) error { return bindings.Delete(ctx, binding, metav1.DeleteOptions{}) })
	}
	const reader = "cloud-controller-manager:apiserver-authentication-reader"
	op.bind(t, reader, "extension-apiserver-authentication-reader", subject)
}

func (op *operator) bind(t *testing.T, name, role string, subjects []rbacv1.Subject) {
	t.Helper()
	bindings := op.lab.Client().RbacV1().RoleBindings(metav1.NamespaceSystem)
	_, err := bindings.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	op.undo = append(op.undo, func(ctx context.Context) error { return bindings.Delete(ctx, name, metav1.DeleteOptions{}) })
}

// grantLease lets both managers use the migration lease.
func (op *operator) grantLease(t *testing.T) {
	t.Helper()
	const name = "system::leader-locking-" + MigrationLease
	roles := op.lab.Client().RbacV1().Roles(metav1.NamespaceSystem)
	group, leases := []string{"coordination.k8s.io"}, []string{"leases"}
	_, err := roles.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: group, Resources: leases, Verbs: []string{"create"}},
		{APIGroups: group, Resources: leases, ResourceNames: []string{MigrationLease}, Verbs: []string{"get", "list", "update"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	op.undo = append(op.undo, func(ctx context.Context) error { return roles.Delete(ctx, name, metav1.DeleteOptions{}) })
	op.bind(t, name, name, []rbacv1.Subject{
		{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:kube-controller-manager"},
		{Kind: rbacv1.ServiceAccountKind, Name: ccmAccount, Namespace: metav1.NamespaceSystem},
	})
}

// prepareCCM puts on a host what its cloud-controller-manager reads: how to reach the API and the cloud.
func (op *operator) prepareCCM(t *testing.T, host string) {
	t.Helper()
	inTree, _ := op.read(t, host, "/etc/kubernetes/cloud.conf")
	external, err := cloudconfig.Derive("aws", inTree.Data)
	if err != nil {
		t.Fatal(err)
	}
	op.write(t, host, ccmCloudConfig, external.Data, 0o644)

	token, err := op.lab.Client().
		CoreV1().
		ServiceAccounts(metav1.NamespaceSystem).
		CreateToken(t.Context(), ccmAccount, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	theirs, _ := op.read(t, host, "/etc/kubernetes/controller-manager.conf")
	config, err := clientcmd.Load(theirs.Data)
	if err != nil {
		t.Fatal(err)
	}
	for _, context := range config.Contexts {
		context.AuthInfo = ccmAccount
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{ccmAccount: {Token: token.Status.Token}}
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	op.write(t, host, ccmKubeconfig, data, 0o600)
}

// runCCM makes the image the cloud-controller-manager of a host, with leader migration on and this config for it; "" for none.
func (op *operator) runCCM(t *testing.T, host, image, config string) {
	t.Helper()
	h, err := op.lab.Host(host)
	if err != nil {
		t.Fatal(err)
	}
	container := corev1.Container{
		Name: cluster.CloudControllerManager, Image: image, Env: cluster.CloudEnv(h, cluster.CloudControllerManager),
		Command: []string{
			cluster.CloudControllerManager, "--v=2", "--cloud-provider=aws", "--cloud-config=" + ccmCloudConfig,
			"--cluster-name=" + cluster.Name, "--cluster-cidr=" + cluster.PodCIDR, "--configure-cloud-routes=true", "--use-service-account-credentials=true",
			"--kubeconfig=" + ccmKubeconfig, "--authentication-kubeconfig=" + ccmKubeconfig, "--authorization-kubeconfig=" + ccmKubeconfig,
			"--bind-address=" + h.Address, "--enable-leader-migration=true",
			"--leader-elect-lease-duration=" + quickLease.String(), "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s",
		},
	}
	pod := corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: cluster.CloudControllerManager, Namespace: metav1.NamespaceSystem},
		Spec:       corev1.PodSpec{HostNetwork: true, PriorityClassName: "system-node-critical"},
	}
	files := map[string]string{"cloud-config": ccmCloudConfig, "kubeconfig": ccmKubeconfig}
	if config != "" {
		container.Command = append(container.Command, "--leader-migration-config="+config)
		files["leader-migration"] = config
	}
	for name, path := range files {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: true})
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: path, Type: new(corev1.HostPathFile)},
		}})
	}
	pod.Spec.Containers = []corev1.Container{container}
	data, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	op.restart(t, cluster.CloudControllerManager, []string{cluster.CloudControllerManager}, func() { op.write(t, host, ccmManifest, data, 0o600) })
}

// stopCCM takes a host's cloud-controller-manager away.
func (op *operator) stopCCM(t *testing.T, host string) {
	t.Helper()
	op.restart(t, cluster.CloudControllerManager, []string{cluster.CloudControllerManager}, func() { op.remove(t, host, ccmManifest) })
}
