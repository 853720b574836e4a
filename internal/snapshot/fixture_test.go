package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// planted is a secret that lies wherever one could lie. It must never be in a snapshot.
const planted = "wJalrXUtnFEMI-planted"

var now = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

const leaderMigration = `apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: our-migration
controllerLeaders:
- {name: service, component: "*"}
`

const cloudConf = `[Global]
VPC = vpc-1
; password = ` + planted + `
[ServiceOverride "1"]
Service = ec2
URL = http://lab:` + planted + `@127.0.0.1:4566
`

// address is where the components of the i-th host listen.
func address(i int) string { return fmt.Sprintf("127.3.4.%d", 10+i) }

func nodeName(i int) string { return fmt.Sprintf("ip-10-0-0-%d.ec2.internal", 10+i) }

func manifest(component, image string, args ...string) string {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  namespace: kube-system\nspec:\n  containers:\n  - name: %[1]s\n    image: %s\n",
		component,
		image,
	)
	fmt.Fprintf(&b, "    command:\n    - %s\n", component)
	for _, a := range args {
		fmt.Fprintf(&b, "    - %s\n", a)
	}
	fmt.Fprintf(&b, "    env:\n    - name: AWS_SECRET_ACCESS_KEY\n      value: %s\n", planted)
	b.WriteString(
		"    volumeMounts:\n    - name: conf\n      mountPath: /etc/cloud\n  volumes:\n  - name: conf\n    hostPath:\n      path: /etc/kubernetes/cloud\n",
	)
	return b.String()
}

func kcmArgs(i int) []string {
	return []string{
		"--bind-address=" + address(i), "--cloud-provider=aws", "--cloud-config=/etc/cloud/cloud.conf", "--cluster-name=lab", "--allocate-node-cidrs=true",
		"--enable-leader-migration=true", "--leader-migration-config=/etc/cloud/migration.yaml",
	}
}

func kasArgs(i int) []string {
	return []string{"--advertise-address=" + address(i), "--secure-port=6443"}
}

const (
	kcmImage = "registry.k8s.io/kube-controller-manager:v1.26.0"
	kasImage = "registry.k8s.io/kube-apiserver:v1.26.0"
)

// writeHosts lays out two control-plane hosts and a worker under a directory and opens them.
func writeHosts(t *testing.T) (string, []hostaccess.Host) {
	t.Helper()
	dir := t.TempDir()
	for i := 1; i <= 2; i++ {
		host := fmt.Sprintf("cp-%d", i)
		write(t, dir, host+"/etc/kubernetes/manifests/kube-controller-manager.yaml", manifest(component.KCM, kcmImage, kcmArgs(i)...))
		write(t, dir, host+"/etc/kubernetes/manifests/kube-apiserver.yaml", manifest(component.KAS, kasImage, kasArgs(i)...))
		write(t, dir, host+"/etc/kubernetes/manifests/etcd.yaml", manifest("etcd", "registry.k8s.io/etcd:3.5.15-0"))
		write(t, dir, host+"/etc/kubernetes/cloud/cloud.conf", cloudConf)
		write(t, dir, host+"/etc/kubernetes/cloud/migration.yaml", leaderMigration)
		write(t, dir, host+"/etc/kubernetes/controller-manager.conf", "token: "+planted)
		write(t, dir, host+"/var/lib/kubelet/kubeadm-flags.env", `KUBELET_KUBEADM_ARGS="--cloud-provider=aws"`)
	}
	write(t, dir, "worker-1/var/lib/kubelet/kubeadm-flags.env", `KUBELET_KUBEADM_ARGS="--cloud-provider=aws --hostname-override=ip-10-0-1-11.ec2.internal"`)
	return dir, open(t, dir)
}

// scripts is a host in a directory whose programs are the test's own, and so are run.
type scripts struct{ *local.Host }

func (scripts) CanRun() error { return nil }

func (h scripts) Run(ctx context.Context, c hostaccess.Command) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(h.Dir, c.Path), c.Args...)
	cmd.Dir, cmd.Stdin, cmd.Env = h.Dir, bytes.NewReader(c.Stdin), append([]string{"PATH=" + os.Getenv("PATH")}, c.Env...)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running %s on host %s: %w", c.Path, h.Name(), err)
	}
	return out, nil
}

func open(t *testing.T, dir string) []hostaccess.Host {
	t.Helper()
	hosts := openDirectories(t, dir)
	for i, h := range hosts {
		hosts[i] = scripts{h.(*local.Host)}
	}
	return hosts
}

// openDirectories returns the hosts as an administrator opens them.
func openDirectories(t *testing.T, dir string) []hostaccess.Host {
	t.Helper()
	hosts, err := local.Open("local:" + dir)
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

func write(t *testing.T, dir, path, content string) {
	t.Helper()
	at := filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mirrorPod(program, node string, command ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: program + "-" + node, Namespace: component.Namespace, UID: types.UID("uid-" + program + "-" + node),
			Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "h", "kubernetes.io/config.hash": "h"},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: program, Command: command, Env: []corev1.EnvVar{{Name: "AWS_SECRET_ACCESS_KEY", Value: planted}},
		}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

func lease(name, holder string) *coordinationv1.Lease {
	seconds, transitions, renewed := int32(15), int32(3), metav1.NewMicroTime(now)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: component.Namespace, ResourceVersion: "7"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, LeaseTransitions: &transitions, RenewTime: &renewed},
	}
}

// api is the cluster of writeHosts, as its API shows it.
func api() *fake.Clientset {
	objects := []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: component.Namespace, UID: "uid-of-the-cluster"}},
		lease(component.KCM, "cp-1_a"),
		lease("our-migration", "cp-1_b"),
		lease("someone-elses", "x"),
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-web", Annotations: map[string]string{
				corev1.LastAppliedConfigAnnotation:                        `{"token":"` + planted + `"}`,
				"example.com/api-token":                                   planted,
				"service.beta.kubernetes.io/aws-load-balancer-internal":   "true",
				"service.beta.kubernetes.io/aws-load-balancer-extra-tags": "a=b",
			}},
			Spec:   corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80, Protocol: "TCP", NodePort: 31080}}},
			Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: "a1.elb.amazonaws.com"}}}},
		},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}},
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: component.Namespace, Name: "present", UID: "uid-role"},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}}},
		},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: component.Namespace, Name: "token", UID: "uid-secret"},
			Data:       map[string][]byte{"token": []byte(planted)},
		},
		mirrorPod("storage-provisioner", nodeName(1), "/storage-provisioner"),
	}
	for i := 1; i <= 2; i++ {
		objects = append(
			objects,
			node(nodeName(i)),
			mirrorPod(
				component.KCM,
				nodeName(i),
				append([]string{component.KCM}, kcmArgs(i)...)...),
			mirrorPod(component.KAS, nodeName(i), append([]string{component.KAS}, kasArgs(i)...)...),
		)
	}
	objects = append(objects, node("ip-10-0-1-11.ec2.internal"))
	client := fake.NewClientset(objects...)
	client.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: "v1.26.0"}
	client.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		review.Status.Allowed = review.Spec.ResourceAttributes.Verb != "escalate"
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		review.Status.Allowed = review.Spec.User == "system:kube-controller-manager" && review.Spec.ResourceAttributes.Name == component.KCM
		return true, review, nil
	})
	return client
}

func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(now)},
		Spec: corev1.NodeSpec{
			ProviderID: "aws:///us-east-1a/i-" + name,
			PodCIDRs:   []string{"10.200.0.0/24"},
			Taints:     []corev1.Taint{{Key: "z", Effect: "NoSchedule"}, {Key: "a", Value: "b", Effect: "NoExecute"}},
		},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.11"}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// cloud is an inventory that remembers what it was asked for.
type cloud struct{ nodes int }

func (c *cloud) Inventory(_ context.Context, nodes []v1.Node) *v1.CloudInventory {
	c.nodes = len(nodes)
	return &v1.CloudInventory{Provider: "aws", Errors: []string{"routes: ec2:DescribeRouteTables was refused"}}
}

func scrape(_ context.Context, _, host, _ string) v1.Manager {
	if host == "cp-2" {
		return v1.Manager{Error: "connection refused"}
	}
	return v1.Manager{Loops: []string{"service", "route"}, Leads: []string{component.KCM}}
}

func sources(t *testing.T) collect.Sources {
	t.Helper()
	_, hosts := writeHosts(t)
	return collect.Sources{
		Kube: api(), Hosts: hosts, Scrape: scrape, Cloud: &cloud{}, Context: "lab", Server: "https://127.0.0.1:6443", ToolVersion: "v0.1.0",
		Now: func() time.Time { return now },
	}
}

var errNoProc = errors.New("looking for processes: permission denied")
