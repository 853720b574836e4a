package openstacktrial

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/openstacksim"
)

// user is an operator with the released programs, a real API server and an in-tree cluster in the simulator.
type user struct {
	*inhabited

	admin      kubernetes.Interface
	cli        string
	kubeconfig string
	hosts      string
}

const inTreeManager = `apiVersion: v1
kind: Pod
metadata: {name: kube-controller-manager, namespace: kube-system}
spec:
  hostNetwork: true
  containers:
  - name: kube-controller-manager
    image: registry.k8s.io/kube-controller-manager:v1.25.0
    command: [kube-controller-manager, --cloud-provider=openstack, --cloud-config=/etc/kubernetes/cloud.conf, --cluster-name=lab, --leader-elect=true]
`

func newUser(t *testing.T) *user {
	t.Helper()
	u := &user{inhabited: inhabit(t), hosts: t.TempDir()}
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	if u.cli, err = build.BuildCommand(t.Context(), root, filepath.Dir(u.program), "transplant"); err != nil {
		t.Fatal(err)
	}
	api, err := apiserver.Start(t.Context(), apiserver.Options{Dir: t.TempDir(), Progress: narration{t}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Stop)
	if u.kubeconfig, err = api.Kubeconfig("admin", "system:masters"); err != nil {
		t.Fatal(err)
	}
	if u.admin, err = api.Client("admin", "system:masters"); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(u.config)
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string]string{
		"manifests/kube-controller-manager.yaml": inTreeManager, "cloud.conf": string(config),
	} {
		at := filepath.Join(u.hosts, "n-0/etc/kubernetes", path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(data), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range u.nodes {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}, Spec: corev1.NodeSpec{ProviderID: n.ProviderID},
		}
		if i == 0 {
			node.Labels["node-role.kubernetes.io/control-plane"] = ""
		}
		made, err := u.admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made.Status.NodeInfo.SystemUUID = u.servers[i] // as its kubelet reads it from the machine
		made.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: strings.TrimPrefix(n.Addresses[0], "InternalIP=")}}
		made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
		if _, err := u.admin.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

// publish makes a Service, and the load balancer that the in-tree manager would make for it.
func (u *user) publish(t *testing.T, name string) (*corev1.Service, openstacksim.LoadBalancer) {
	t.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"service.kubernetes.io/load-balancer-cleanup"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	services := u.admin.CoreV1().Services("default")
	made, err := services.Create(t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	balancer := ("a" + strings.ReplaceAll(string(made.UID), "-", ""))[:32]
	u.balance(balancer, "10.0.0.10", "10.0.0.11")
	lb := u.lb(balancer)
	id := u.AddFloatingIP(openstacksim.FloatingIP{Network: "public", Port: lb.VIPPort})
	all := u.FloatingIPs()
	ip := all[slices.IndexFunc(all, func(f openstacksim.FloatingIP) bool { return f.ID == id })]
	made.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip.Address}}
	if made, err = services.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return made, lb
}

// lose deletes a Service while no manager cleans up behind it.
func (u *user) lose(t *testing.T, name string) {
	t.Helper()
	services := u.admin.CoreV1().Services("default")
	s, err := services.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Finalizers = nil
	if _, err := services.Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := services.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// run runs transplant as the user types it.
func (u *user) run(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	args = append(args, "--kubeconfig", u.kubeconfig)
	if args[0] == "check" {
		args = append(args, "--host-access", "local:"+u.hosts)
	}
	cmd := exec.CommandContext(t.Context(), u.cli, args...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return code, stdout.String(), stderr.String()
}

// findings are those of a check, by their codes.
func (u *user) findings(t *testing.T, args ...string) map[string]v1.Finding {
	t.Helper()
	code, out, errOut := u.run(t, append([]string{"check", "-o", "json"}, args...)...)
	var report v1.CheckReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 && code != 3 {
		t.Fatalf("check ended with %d: %v\n%s%s", code, err, out, errOut)
	}
	all := map[string]v1.Finding{}
	for _, f := range report.Findings {
		all[f.Code] = f
	}
	return all
}

// TestAUserChecksAndProvesAClusterAndRemovesWhatIsLeft has the programs as they are released, an API server and Octavia, and goes from the finding to
// the command that it names.
func TestAUserChecksAndProvesAClusterAndRemovesWhatIsLeft(t *testing.T) {
	u := newUser(t)
	u.SetPending(300 * time.Millisecond)
	web, lb := u.publish(t, "web")
	_, left := u.publish(t, "left")
	cloud := "--cloud=openstack:config=" + u.config + ",cluster=lab"
	u.Calls()

	whole := u.findings(t, cloud, "--prove")
	for code, says := range map[string]string{
		"CLOUD-001": "4 load balancers, 3 routes and the instances of 3 nodes", "NODE-002": "", "NODE-010": "the provider openstack finds the instances of all 3 nodes",
		"NODE-011": "", "LB-010": "",
	} {
		if f := whole[code]; f.Outcome != v1.Pass || !strings.Contains(f.Summary, says) {
			t.Errorf("%s: %s: %s; %s (want %q)", code, f.Outcome, f.Summary, f.Found, says)
		}
	}
	if text := fmt.Sprint(whole["NODE-013"]); !strings.Contains(text, "f-1 would be m1.small") || !strings.Contains(text, "old would be az-1") {
		t.Errorf("the type that changes is not foreseen: %s", text)
	}
	u.readOnly(t)

	u.lose(t, "left")
	orphan := u.findings(t, cloud)["LB-009"]
	if orphan.Outcome != v1.Warn || !strings.Contains(orphan.Found, left.ID) || strings.Contains(orphan.Found, lb.ID) ||
		!strings.HasPrefix(orphan.Fix, "transplant remove-orphans --cloud=openstack:cluster=lab ") || orphan.OnlyIf == "" || orphan.Warning == "" {
		t.Errorf("LB-009: %+v", orphan)
	}

	remove := func(ids ...string) (int, string, string) {
		return u.run(t, append([]string{"remove-orphans", cloud}, ids...)...)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"the Service is there":     {[]string{lb.ID, left.ID, "--yes"}, 1, "Service default/web which it was made for, is there"},
		"of another cluster":       {[]string{u.lb("a1111111111111111111111111111111").ID, "--yes"}, 1, "none of its members is a server of this cluster's Nodes"},
		"made by hand":             {[]string{u.lb("made-by-hand").ID, "--yes"}, 1, "no manager names the load balancer"},
		"unknown":                  {[]string{"99999999-4f50-6172-8394-a5b6c7d8e9f0", "--yes"}, 1, "it was removed before, or the ID is mistyped"},
		"a name and no ID":         {[]string{left.Name, "--yes"}, 1, "give the UUID that LB-009 shows"},
		"twice":                    {[]string{left.ID, left.ID, "--yes"}, 1, "is named twice"},
		"nothing named":            {[]string{"--yes"}, 1, "name the ID of each object"},
		"nobody to ask":            {[]string{left.ID}, 7, "--yes"},
		"only looked at":           {[]string{left.ID, "--dry-run"}, 0, ""},
		"another setting of cloud": {[]string{left.ID, "--yes", "--cloud=openstack:colour=red"}, 1, "there are config, cluster and router"},
		"another cloud":            {[]string{left.ID, "--yes", "--cloud=aws"}, 1, "nothing is removed on aws"},
	} {
		u.Calls()
		code, out, errOut := remove(c.args...)
		if code != c.code || !strings.Contains(errOut, c.says) {
			t.Errorf("%s: exit code %d\n%s%s\nwant %d, %q", name, code, out, errOut, c.code, c.says)
		}
		u.readOnly(t)
	}

	ip := u.FloatingIPs()[slices.IndexFunc(u.FloatingIPs(), func(f openstacksim.FloatingIP) bool { return f.Port == left.VIPPort })]
	code, out, errOut := remove(left.ID, ip.ID, "--yes", "-o", "json")
	var list v1.OrphanList
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || !list.Changed || len(list.Orphans) != 2 ||
		list.Orphans[0].State != v1.OrphanRemoved || list.Orphans[1].State != v1.OrphanRemoved {
		t.Errorf("exit code %d, %v: %+v\n%s", code, err, list, errOut)
	}
	for _, says := range []string{"can be removed", "goes port", "waiting for load balancer " + left.Name, left.ID + ") is removed"} {
		if !strings.Contains(errOut, says) {
			t.Errorf("it does not say %q: %s", says, errOut)
		}
	}
	if slices.ContainsFunc(u.LoadBalancers(), func(l openstacksim.LoadBalancer) bool { return l.ID == left.ID }) || len(u.LoadBalancers()) != 5 {
		t.Errorf("load balancers %v", u.LoadBalancers())
	}
	if len(u.FloatingIPs()) != 1 || u.FloatingIPs()[0].Address != web.Status.LoadBalancer.Ingress[0].IP {
		t.Errorf("floating IPs %+v", u.FloatingIPs())
	}
	if code, _, errOut := remove(left.ID, "--yes"); code != 1 || !strings.Contains(errOut, "was removed before") {
		t.Errorf("a second time: exit code %d, %s", code, errOut)
	}
	if again := u.findings(t, cloud)["LB-009"]; strings.Contains(again.Found, left.ID) {
		t.Errorf("LB-009 afterwards: %+v", again)
	}
}
