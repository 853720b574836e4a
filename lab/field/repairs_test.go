package field

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/servingrequest/requesttest"
	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/awssim"
)

const (
	worker      = "ip-10-0-1-12.ec2.internal"
	workerID    = "i-00000000000000112"
	defaultMark = "storageclass.kubernetes.io/is-default-class"
)

// leaders are the loops of a leader migration config, under the names that Kubernetes 1.26 knows.
const leaders = "controllerLeaders:\n- {name: service, component: \"*\"}\n- {name: route, component: \"*\"}\n- {name: cloud-node-lifecycle, component: \"*\"}\n"

// objectRepairs are of nodes, Services, volumes and requests.
var objectRepairs = []repair{
	{code: "NODE-001", about: "a node has no providerID, and the cloud knows its instance", outcome: v1.Fail, broken: func(t *testing.T, p *patient) {
		node := must[*corev1.Node](t)(p.kube.CoreV1().Nodes().Get(t.Context(), worker, metav1.GetOptions{}))
		p.replaceNode(t, node, func(n *corev1.Node) { n.Spec.ProviderID = "" })
	}},
	{code: "NODE-005", about: "a node is of another cloud", outcome: v1.Fail, broken: func(t *testing.T, p *patient) {
		node := must[*corev1.Node](t)(p.kube.CoreV1().Nodes().Get(t.Context(), worker, metav1.GetOptions{}))
		node.Name = "worker-3"
		p.newNode(t, node, func(n *corev1.Node) {
			n.Spec.ProviderID, n.Spec.PodCIDR, n.Spec.PodCIDRs = "kubermatic://worker-3", "", nil
		})
	}},
	{code: "LB-001", about: "a node's label says false, which means true", outcome: v1.Warn,
		broken: kubectl("label node %s node.kubernetes.io/exclude-from-external-load-balancers=false", worker),
		tidy:   kubectl("label node %s node.kubernetes.io/exclude-from-external-load-balancers-", worker)},
	{code: "LB-004", about: "a Service lost its finalizer, and the loop works on it again", outcome: v1.Warn,
		broken: kubectl(`-n shop patch service web --type=json -p '[{"op":"remove","path":"/metadata/finalizers"}]'`),
		after: func(t *testing.T, p *patient) {
			web := must[*corev1.Service](t)(p.kube.CoreV1().Services("shop").Get(t.Context(), "web", metav1.GetOptions{}))
			if web.Annotations["transplant.dev/touched"] == "" {
				t.Fatal("nothing has made the loop look at the Service")
			}
			web.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
			must[*corev1.Service](t)(p.kube.CoreV1().Services("shop").Update(t.Context(), web, metav1.UpdateOptions{}))
		}},
	{
		code:    "LB-007",
		about:   "a Service wants an address that it did not get",
		outcome: v1.Fail,
		broken: apply(
			"apiVersion: v1\nkind: Service\nmetadata: {name: old, namespace: shop}\nspec: {type: LoadBalancer, loadBalancerIP: 203.0.113.77, ports: [{port: 80}]}\n",
		),
		tidy: kubectl("-n shop delete service old"),
	},
	{code: "VOL-005", about: "nothing marks a volume as migrated", outcome: v1.Fail, broken: kubectl("annotate pv pvc-3f1c0a52 pv.kubernetes.io/migrated-to-")},
	{
		code:    "VOL-007",
		about:   "two classes are the default",
		outcome: v1.Warn,
		broken: apply(
			"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast, annotations: {" + defaultMark + `: "true"}}` + "\nprovisioner: ebs.csi.aws.com\n",
		),
		tidy: kubectl("delete storageclass fast"),
	},
	{code: "VOL-007", about: "no class is the default", outcome: v1.Warn, broken: kubectl("annotate storageclass gp2 %s-", defaultMark)},
	{
		code:    "VOL-007",
		about:   "the only class says that it is not the default",
		outcome: v1.Warn,
		broken:  kubectl("annotate --overwrite storageclass gp2 %s=false", defaultMark),
	},
	{code: "KUBELET-008", about: "a request of a kubelet was denied", outcome: v1.Warn, broken: func(t *testing.T, p *patient) {
		apply("apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {name: csr-1}\nspec:\n  signerName: kubernetes.io/kubelet-serving\n"+
			"  usages: [digital signature, key encipherment, server auth]\n  request: "+servingRequest(t)+"\n")(t, p)
		kubectl("certificate deny csr-1")(t, p)
	}},
	{
		code:    "KUBELET-007",
		about:   "every new node would get the same providerID",
		outcome: v1.Fail,
		broken: kubectl(
			"-n kube-system get configmap kubelet-config -o yaml | sed 's|^    rotateCertificates|    providerID: aws:///us-east-1a/i-1\\n&|' | kubectl replace -f -",
		),
	},
}

// workloadRepairs are of what runs in the cluster, and of its budgets and nodes.
var workloadRepairs = []repair{
	{
		code:    "SCHED-001",
		about:   "the CNI does not tolerate the uninitialised, and tolerates others",
		outcome: v1.Warn,
		broken:  tolerating("kube-router", `[{"key":"CriticalAddonsOnly","operator":"Exists"}]`),
		tidy:    tolerating("kube-router", `[{"operator":"Exists"}]`),
	},
	{
		code:    "SCHED-001",
		about:   "the CNI tolerates nothing",
		outcome: v1.Warn,
		broken:  kubectl(`-n kube-system patch daemonset kube-router --type=json -p '[{"op":"remove","path":"/spec/template/spec/tolerations"}]'`),
		tidy:    tolerating("kube-router", `[{"operator":"Exists"}]`),
	},
	{code: "SCHED-002", about: "every control-plane node is cordoned", outcome: v1.Warn, broken: kubectl("cordon -l node-role.kubernetes.io/control-plane"),
		tidy: kubectl("uncordon -l node-role.kubernetes.io/control-plane")},
	{
		code:    "SCHED-004",
		about:   "an autoscaler is at work",
		outcome: v1.Warn,
		broken:  apply(deployment("cluster-autoscaler", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.26.1")),
		tidy:    kubectl("-n kube-system delete deployment cluster-autoscaler"),
	},
	{code: "CP-012", about: "a cloud-controller-manager of somebody else is there", outcome: v1.Fail,
		broken: apply(deployment("aws-ccm", "registry.k8s.io/provider-aws/cloud-controller-manager:v1.26.1"))},
	{code: "CLOUD-001", about: "nobody asked the cloud", outcome: v1.Unknown, blind: true, broken: func(*testing.T, *patient) {}},
}

// hostRepairs are of files on hosts.
var hostRepairs = []repair{
	{
		code:    "CP-002",
		about:   "managers do without an election",
		outcome: v1.Fail,
		broken:  everywhere("kube-controller-manager", "--leader-elect=true", "--leader-elect=false"),
	},
	{code: "CP-003", about: "a backup lies next to a manifest", outcome: v1.Fail, broken: func(t *testing.T, p *patient) {
		p.write(t, "cp-2", "kube-controller-manager.yaml.bak", p.read(t, "cp-2", "kube-controller-manager.yaml"))
	}},
	{
		code:    "CP-007",
		about:   "one manager is external already",
		outcome: v1.Fail,
		broken:  on("kube-controller-manager", "--cloud-provider=aws", "--cloud-provider=external", "cp-1"),
	},
	{code: "CP-007", about: "a cloud-controller-manager was put next to the in-tree ones", outcome: v1.Fail, broken: func(t *testing.T, p *patient) {
		text := strings.ReplaceAll(p.read(t, "cp-3", "kube-controller-manager.yaml"), "kube-controller-manager", "cloud-controller-manager")
		p.write(t, "cp-3", "cloud-controller-manager.yaml", text)
	}},
	{
		code:    "LM-001",
		about:   "loops are listed under names that nobody registers",
		outcome: v1.Fail,
		broken: migrating("leaderName: cloud-provider-extraction-migration\ncontrollerLeaders:\n" +
			"- {name: service-lb-controller, component: \"*\"}\n- {name: node-route-controller, component: \"*\"}\n- {name: cloud-node-lifecycle-controller, component: \"*\"}\n"),
		tidy: notMigrating,
	},
	{
		code:    "LM-001",
		about:   "the wildcard stands without quotes",
		outcome: v1.Fail,
		broken: migrating("leaderName: cloud-provider-extraction-migration\ncontrollerLeaders:\n" +
			"- name: service\n  component: *\n- name: route\n  component: *\n- name: cloud-node-lifecycle\n  component: *\n"),
		tidy: notMigrating,
	},
	{
		code:    "LM-004",
		about:   "the lock is one that can be made nowhere",
		outcome: v1.Fail,
		broken:  migrating("leaderName: cloud-provider-extraction-migration\nresourceLock: endpoints\n" + leaders),
		tidy:    notMigrating,
	},
	{code: "LM-008", about: "the lease has another name", outcome: v1.Fail, broken: migrating("leaderName: ours\n" + leaders), tidy: notMigrating},
	{code: "LM-008", about: "one manager contends for another lease than the others", outcome: v1.Fail, broken: func(t *testing.T, p *patient) {
		migrating("leaderName: cloud-provider-extraction-migration\n"+leaders)(t, p)
		p.sh(t, "sed -i 's/^leaderName: .*/leaderName: ours/' "+p.path("hosts", "cp-1", "/etc/kubernetes/leadermigration.conf"))
	}, tidy: notMigrating},
	{code: "LM-002", about: "an external manager still contends for the loops", outcome: v1.Fail, broken: func(t *testing.T, p *patient) {
		everywhere("kube-controller-manager", "--cloud-provider=aws", "--cloud-provider=external\n    - --enable-leader-migration=true")(t, p)
	}, tidy: everywhere("kube-controller-manager", "--cloud-provider=external", "--cloud-provider=aws")},
	{code: "CRED-003", about: "an external kubelet keeps a cloud config that it does not need", outcome: v1.Warn, broken: func(t *testing.T, p *patient) {
		everywhere("kube-controller-manager", "--cloud-provider=aws", "--cloud-provider=external")(t, p)
		p.write(
			t,
			"cp-3",
			"cloud-controller-manager.yaml",
			strings.ReplaceAll(p.read(t, "cp-3", "kube-controller-manager.yaml"), "kube-controller-manager", "cloud-controller-manager"),
		)
		p.kubelet(t, p.Hosts()[0], func(text string) string {
			return strings.Replace(text, "--cloud-provider=aws", "--cloud-provider=external --cloud-config=/etc/kubernetes/cloud.conf", 1)
		})
	}, after: func(t *testing.T, p *patient) {
		if log, err := os.ReadFile(p.path("systemctl.log")); err != nil || string(log) != "restart kubelet\n" {
			t.Errorf("asked of systemctl: %q, %v; want the start of the kubelet again", log, err)
		}
		p.kubelet(t, p.Hosts()[0], func(text string) string { return text })
	}, tidy: func(t *testing.T, p *patient) {
		everywhere("kube-controller-manager", "--cloud-provider=external", "--cloud-provider=aws")(t, p)
		if err := os.Remove(p.path("hosts", "cp-3", manifests, "cloud-controller-manager.yaml")); err != nil {
			t.Fatal(err)
		}
		p.kubelet(t, p.Hosts()[0], func(text string) string {
			return strings.Replace(text, "--cloud-provider=external", "--cloud-provider=aws", 1)
		})
	}},
}

// accountRepairs are of the cloud.
var accountRepairs = []repair{
	{code: "ROUTE-001", about: "a route leads to an instance of no node", outcome: v1.Fail, broken: func(t *testing.T, p *patient) {
		stranger := must[awssim.Instance](t)(p.Account.AddInstance(awssim.Instance{PrivateIP: "10.0.1.99"}))
		aws("create-route --route-table-id %s --destination-cidr-block 10.200.9.0/24 --instance-id %s", RouteTable, stranger.ID)(t, p)
	}},
	{
		code:    "LB-013",
		about:   "an instance has no tag of the cluster",
		outcome: v1.Fail,
		broken:  aws("delete-tags --resources %s --tags Key=kubernetes.io/cluster/prod", workerID),
	},
	{
		code:    "LB-013",
		about:   "an instance is tagged for another cluster too",
		outcome: v1.Fail,
		broken:  aws("create-tags --resources %s --tags Key=kubernetes.io/cluster/other,Value=owned", workerID),
	},
}

// webhookRepairs come last: the API server remembers for a moment what it has to ask.
var webhookRepairs = []repair{
	{
		code:    "HOOK-001",
		about:   "nobody answers for what must be answered for",
		outcome: v1.Fail,
		broken:  webhook("daemonsets", "failurePolicy: Fail", "service: {namespace: shop, name: gone}"),
		tidy:    noWebhook,
	},
	{
		code:    "HOOK-002",
		about:   "who answers does not run on new nodes",
		outcome: v1.Warn,
		broken:  webhook("daemonsets", "failurePolicy: Fail", "service: {namespace: cert-manager, name: cert-manager-webhook}"),
		tidy:    noWebhook,
	},
	{
		code:    "HOOK-003",
		about:   "an answer about leases may take too long",
		outcome: v1.Warn,
		broken:  webhook("leases", "failurePolicy: Ignore\n  timeoutSeconds: 10", "url: \"https://127.0.0.1:1/\""),
		tidy:    noWebhook,
	},
}

// replaceNode makes a node again with a change that an update would refuse.
func (p *patient) replaceNode(t *testing.T, n *corev1.Node, change func(*corev1.Node)) {
	t.Helper()
	if err := p.kube.CoreV1().Nodes().Delete(t.Context(), n.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.newNode(t, n, change)
}

func (p *patient) newNode(t *testing.T, n *corev1.Node, change func(*corev1.Node)) {
	t.Helper()
	n.ObjectMeta = metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, Annotations: n.Annotations}
	change(n)
	status := n.Status
	made := must[*corev1.Node](t)(p.kube.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}))
	made.Status = status
	must[*corev1.Node](t)(p.kube.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{}))
}

// servingRequest is a request for a certificate as a kubelet makes it.
func servingRequest(t *testing.T) string {
	t.Helper()
	return base64.StdEncoding.EncodeToString(requesttest.Encode(t, requesttest.Of(worker, worker)))
}

func tolerating(daemonSet, tolerations string) func(*testing.T, *patient) {
	return kubectl(`-n kube-system patch daemonset %s --type=json -p '[{"op":"add","path":"/spec/template/spec/tolerations","value":%s}]'`, daemonSet, tolerations)
}

func deployment(name, image string) string {
	return fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %[1]s, namespace: kube-system}\nspec:\n  selector: {matchLabels: {app: %[1]s}}\n"+
		"  template:\n    metadata: {labels: {app: %[1]s}}\n    spec: {containers: [{name: main, image: %[2]q}]}\n", name, image)
}

func webhook(resource, policy, backend string) func(*testing.T, *patient) {
	return apply(fmt.Sprintf("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: policy}\nwebhooks:\n"+
		"- name: unconcerned.example.com\n  admissionReviewVersions: [v1]\n  sideEffects: None\n  failurePolicy: Ignore\n  clientConfig: {url: \"https://127.0.0.1:1/\"}\n  rules: []\n"+
		"- name: policy.example.com\n  admissionReviewVersions: [v1]\n  sideEffects: None\n  %s\n  clientConfig: {%s}\n"+
		"  rules: [{apiGroups: [apps, coordination.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [%s]}]\n", policy, backend, resource))
}

var noWebhook = kubectl("delete validatingwebhookconfiguration policy")

// aws breaks something with a command of the cloud. Who has none of its command lines cannot execute its fixes either.
func aws(format string, a ...any) func(*testing.T, *patient) {
	return func(t *testing.T, p *patient) {
		t.Helper()
		if _, err := exec.LookPath("aws"); err != nil {
			t.Skip("aws is not installed")
		}
		p.sh(t, "aws ec2 "+fmt.Sprintf(format, a...))
	}
}

const manifests = "/etc/kubernetes/manifests/"

func (p *patient) read(t *testing.T, host, manifest string) string {
	t.Helper()
	data, err := os.ReadFile(p.path("hosts", host, manifests, manifest))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (p *patient) write(t *testing.T, host, manifest, text string) {
	t.Helper()
	if err := write(p.path("hosts", host, manifests, manifest), []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// on edits a component's manifest on some hosts, whose kubelets take note.
func on(component, old, becomes string, hosts ...string) func(*testing.T, *patient) {
	return func(t *testing.T, p *patient) {
		t.Helper()
		for _, h := range hosts {
			text := p.read(t, h, component+".yaml")
			if !strings.Contains(text, old) {
				t.Fatalf("there is no %q in the manifest of %s on %s", old, component, h)
			}
			p.write(t, h, component+".yaml", strings.ReplaceAll(text, old, becomes))
		}
		p.settle(t)
	}
}

func everywhere(component, old, becomes string) func(*testing.T, *patient) {
	return on(component, old, becomes, "cp-1", "cp-2", "cp-3")
}

// migrating turns leader migration on everywhere, with this in its configuration.
func migrating(config string) func(*testing.T, *patient) {
	return func(t *testing.T, p *patient) {
		t.Helper()
		for _, h := range p.Hosts() {
			text := "apiVersion: controllermanager.config.k8s.io/v1beta1\nkind: LeaderMigrationConfiguration\n" + config
			if !strings.Contains(config, "resourceLock") {
				text = strings.Replace(text, "v1beta1", "v1", 1)
			}
			if err := write(p.path("hosts", h.Name, "/etc/kubernetes/leadermigration.conf"), []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		everywhere("kube-controller-manager", "--leader-elect=true", leaderMigration)(t, p)
	}
}

const leaderMigration = "--leader-elect=true\n    - --enable-leader-migration=true\n    - --leader-migration-config=/etc/kubernetes/leadermigration.conf"

func notMigrating(t *testing.T, p *patient) {
	everywhere("kube-controller-manager", leaderMigration, "--leader-elect=true")(t, p)
}

// settle plays the kubelets: a component whose manifest was edited is started again with its new arguments, and so is its mirror pod.
func (p *patient) settle(t *testing.T) {
	t.Helper()
	for i, h := range p.Hosts() {
		for _, c := range p.components() {
			text := p.read(t, h.Name, c.name+".yaml")
			var pod corev1.Pod
			if err := yaml.Unmarshal([]byte(text), &pod); err != nil {
				t.Fatalf("the kubelet of %s cannot read the manifest of %s: %v", h.Name, c.name, err)
			}
			args := pod.Spec.Containers[0].Command[1:]
			if p.seen[c.name+h.Name] == text {
				continue
			}
			first := p.seen[c.name+h.Name] == ""
			p.seen[c.name+h.Name] = text
			if first {
				continue
			}
			if err := p.kube.CoreV1().Pods(pod.Namespace).Delete(t.Context(), c.name+"-"+h.Node, deleteNow); err != nil {
				t.Fatal(err)
			}
			if err := p.mirror(t.Context(), h, c.name, []byte(text)); err != nil {
				t.Fatal(err)
			}
			p.restart(t, h, c, args, p.loopback(i), i == 1)
		}
	}
}

// kubelet edits the flags that kubeadm gave a kubelet, and starts it again.
func (p *patient) kubelet(t *testing.T, h Host, edit func(string) string) {
	t.Helper()
	path := p.path("hosts", h.Name, "/var/lib/kubelet/kubeadm-flags.env")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := edit(string(data))
	if err := write(path, []byte(text)); err != nil {
		t.Fatal(err)
	}
	_, flags, _ := strings.Cut(strings.TrimSpace(text), `"`)
	args := []string{
		"--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
		"--kubeconfig=/etc/kubernetes/kubelet.conf",
		"--config=/var/lib/kubelet/config.yaml",
	}
	p.restart(t, h, component{name: "kubelet"}, append(args, strings.Fields(strings.TrimSuffix(flags, `"`))...), "", false)
}

// restart starts the stand-in for a component again, and waits until it answers.
func (p *patient) restart(t *testing.T, h Host, c component, args []string, address string, owner bool) {
	t.Helper()
	i := slices.IndexFunc(p.processes, func(running *process.Process) bool { return running.Name() == c.name+" on "+h.Name })
	p.processes[i].Kill()
	p.processes = slices.Delete(p.processes, i, i+1)
	serve, loops := "", []string(nil)
	if c.name == "kube-controller-manager" {
		serve = address + ":" + c.port
	}
	if owner {
		loops = c.loops
	}
	if err := p.standIn(t.Context(), h, c.name, serve, args, loops); err != nil {
		t.Fatal(err)
	}
}
