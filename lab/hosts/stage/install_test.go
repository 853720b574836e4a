package stage

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/internal/cloudconfig"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/manifests"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/hosts"
)

var layouts = flag.String("hosts.images", "", "directory of make images: install the manager of this image from the manifests (make install-hosts)")

const (
	manager     = cluster.CloudControllerManager
	kubeSystem  = metav1.NamespaceSystem
	manifestDir = "/etc/kubernetes/manifests/"
	aside       = "/etc/kubernetes/" // no kubelet looks for manifests there
	minutes     = 4 * time.Minute
)

// A kubeadm cluster goes out of tree by hand, as AWS' guide says for control planes that may be away. Its manager comes from the manifests and has the image
// that is released. It runs the loops, shows its metrics as documented, and transplant knows it.
func TestRealHostsRunTheManagerOfTheManifests(t *testing.T) {
	if *layouts == "" {
		t.Skip("minutes on real hosts, with the images of make images: make install-hosts")
	}
	// No image but the released one has the tag that the manifests name.
	s := stageOf(t, hosts.Options{Name: *name, Subnet: *subnet, ControlPlanes: 1, Workers: 1, CCMTags: []string{hosts.DefaultTag}})
	if err := s.ImportLayout(t.Context(), filepath.Join(*layouts, "aws-cloud-controller-manager")); err != nil {
		t.Fatal(err)
	}
	_, cloud := settledFacts(t, s)
	in := installation{Stage: s, plane: s.controlPlanes()[0], worker: s.Cluster.Hosts()[1]}
	t.Cleanup(func() { in.explain(t) })

	in.stopInTree(t)
	in.makeExternal(t)
	begin := time.Now()
	in.install(t)
	in.startInTree(t)
	in.kubectl(t, "-n", kubeSystem, "rollout", "status", "daemonset/"+manager, "--timeout=4m")
	t.Logf("the manager was ready after %s", time.Since(begin).Round(time.Second))
	image := in.isTheReleasedOne(t)
	in.servesAService(t)
	if err := s.Check(t.Context(), cloud); err != nil {
		t.Error(err)
	}
	in.showsItsMetrics(t)
	in.isKnown(t, image)
	in.initialisesANode(t)
	in.deletesTheNodeOfAnInstanceThatIsGone(t)
}

// installation is a cluster of one control plane and one worker in the hands of an administrator who follows the guide.
type installation struct {
	*Stage
	plane, worker *hosts.Host
}

// kubectl runs kubectl of the cluster's version, which has to end well.
func (in installation) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := in.tryKubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (in installation) tryKubectl(ctx context.Context, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, in.Kubectl(), append([]string{"--kubeconfig", in.Kubeconfig()}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s%s", strings.Join(args, " "), err, errs.String(), out.String())
	}
	return out.String(), nil
}

// explain prints, of a test that has failed, what kubectl shows of the manager.
func (in installation) explain(t *testing.T) {
	if !t.Failed() {
		return
	}
	for _, args := range [][]string{
		{"get", "daemonsets,pods,leases", "-o", "wide"}, {"get", "events", "--sort-by=.lastTimestamp"},
		{"describe", "pods", "-l", "component=" + manager}, {"logs", "-l", "component=" + manager, "--tail=60"},
	} {
		out, err := in.tryKubectl(context.WithoutCancel(t.Context()), append([]string{"-n", kubeSystem}, args...)...)
		t.Logf("kubectl %v: %v\n%s", args, err, out)
	}
}

// on runs a script on a host, as an administrator would.
func on(t *testing.T, h *hosts.Host, script string) {
	t.Helper()
	if _, err := h.Output(t.Context(), "sh", "-ec", script); err != nil {
		t.Fatal(err)
	}
}

// The external provider in a manifest and in a kubelet's flags, in place of the one in tree. A manifest is edited where no kubelet reads what an editor leaves.
const (
	externalInManifest = `sed -i -e 's/--cloud-provider=aws$/--cloud-provider=external/' -e '/--cloud-config=/d' `
	externalInFlags    = `sed -i -e 's/--cloud-provider=aws/--cloud-provider=external/' -e 's/ *--cloud-config=[^ "]*//' /var/lib/kubelet/kubeadm-flags.env`
)

// stopInTree moves the manifest of kube-controller-manager out of the kubelet's directory.
func (in installation) stopInTree(t *testing.T) {
	t.Helper()
	on(t, in.plane, "mv "+manifestDir+"kube-controller-manager.yaml "+aside)
	within(t, minutes, "kube-controller-manager to end", func() error { return in.runs(t.Context(), cluster.ControllerManager, 0) })
}

// startInTree brings it back, with the external provider.
func (in installation) startInTree(t *testing.T) {
	t.Helper()
	on(t, in.plane, externalInManifest+aside+"kube-controller-manager.yaml && mv "+aside+"kube-controller-manager.yaml "+manifestDir)
	within(t, minutes, "kube-controller-manager to run", func() error { return in.runs(t.Context(), cluster.ControllerManager, 1) })
}

// makeExternal gives the API server and every kubelet the external provider.
func (in installation) makeExternal(t *testing.T) {
	t.Helper()
	const api = "kube-apiserver.yaml"
	on(t, in.plane, "cp "+manifestDir+api+" "+aside+" && "+externalInManifest+aside+api+" && mv "+aside+api+" "+manifestDir)
	within(t, minutes, "the API server with its new flags", func() error {
		found, err := in.plane.Processes(t.Context(), cluster.APIServer)
		if err != nil || len(found) != 1 || !slices.Contains(found[0].Args, "--cloud-provider=external") {
			return fmt.Errorf("there are %v, %w", found, err)
		}
		_, err = in.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err
	})
	for _, h := range in.Cluster.Hosts() {
		on(t, h, externalInFlags+" && systemctl restart kubelet")
	}
	flags(t, in.Stage, "kubelet", in.Cluster.Hosts(), []string{"--cloud-provider=external"}, []string{"--cloud-config="})
}

func (in installation) runs(ctx context.Context, component string, want int) error {
	found, err := in.plane.Processes(ctx, component)
	if err == nil && len(found) != want {
		err = fmt.Errorf("there are %d processes of %s, not %d", len(found), component, want)
	}
	return err
}

// install applies a kustomization of an administrator's own: that of the guide, with the account's cloud config and credentials, the cluster's routes, the API
// server of each pod's host, since no kube-proxy runs here, and metrics for Prometheus.
func (in installation) install(t *testing.T) {
	t.Helper()
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	of := func(path ...string) string {
		relative, err := filepath.Rel(dir, filepath.Join(append([]string{root}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return relative
	}
	inTree, err := in.plane.ReadFile(t.Context(), hosts.CloudConfigPath)
	if err != nil {
		t.Fatal(err)
	}
	config, err := cloudconfig.Derive("aws", []byte(inTree))
	if err != nil {
		t.Fatal(err)
	}
	secret := func(name string, more map[string]any) map[string]any {
		more["name"], more["namespace"] = name, kubeSystem
		return more
	}
	for file, content := range map[string]any{
		"daemonset.yaml": in.patch(),
		"kustomization.yaml": map[string]any{
			"resources": []string{of(manifests.GuideDir)},
			"components": []string{
				of(manifests.KustomizeDir, "components", "local-apiserver"), of(manifests.KustomizeDir, "components", "metrics"),
			},
			"patches": []any{map[string]any{"path": "daemonset.yaml"}},
			"secretGenerator": []any{
				secret("cloud-config", map[string]any{"files": []string{"cloud.conf"}}),
				secret("cloud-credentials", map[string]any{"literals": []string{
					"AWS_ACCESS_KEY_ID=" + hosts.AccessKey(in.plane.Name, manager), "AWS_SECRET_ACCESS_KEY=lab-only",
				}}),
			},
		},
	} {
		data, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cloud.conf"), config.Data, 0o600); err != nil {
		t.Fatal(err)
	}
	in.kubectl(t, "create", "namespace", "monitoring")
	in.kubectl(t, "-n", "monitoring", "create", "serviceaccount", "prometheus-k8s")
	in.kubectl(t, "-n", "monitoring", "create", "serviceaccount", "other")
	in.kubectl(t, "apply", "-k", dir)
}

// patch is what a DaemonSet of this account has besides that of the guide.
func (in installation) patch() any {
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": map[string]any{"name": manager, "namespace": kubeSystem},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{
				"name": manager,
				"args": []string{
					"--leader-elect=true", "--leader-elect-retry-period=1s", "--use-service-account-credentials=false",
					"--cloud-config=/etc/kubernetes/cloud-config/cloud.conf", "--cluster-name=" + hosts.ClusterName,
					"--configure-cloud-routes=true", "--allocate-node-cidrs=true", "--cluster-cidr=" + hosts.PodCIDR,
				},
				"envFrom": []any{map[string]any{"secretRef": map[string]any{"name": "cloud-credentials"}}},
				"env": []corev1.EnvVar{
					{Name: "HTTPS_PROXY", Value: "http://127.0.0.1:9"}, {Name: "NO_PROXY", Value: "127.0.0.0/8,10.0.0.0/8,169.254.169.254"},
				},
				"volumeMounts": []any{map[string]any{"name": "cloud-config", "mountPath": "/etc/kubernetes/cloud-config", "readOnly": true}},
			}},
			"volumes": []any{map[string]any{"name": "cloud-config", "secret": map[string]any{"secretName": "cloud-config"}}},
		}}},
	}
}

// isTheReleasedOne fails the test unless the one pod runs the image that the manifests name, as its unprivileged user. It returns the image.
func (in installation) isTheReleasedOne(t *testing.T) string {
	t.Helper()
	pods, err := in.Client.CoreV1().Pods(kubeSystem).List(t.Context(), metav1.ListOptions{LabelSelector: "component=" + manager})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("pods of the manager: %v, %v", pods, err)
	}
	digests, err := os.ReadFile(filepath.Join(*layouts, "digests.txt"))
	if err != nil {
		t.Fatal(err)
	}
	container := pods.Items[0].Spec.Containers[0]
	if !slices.ContainsFunc(strings.Split(string(digests), "\n"), func(line string) bool { return strings.HasPrefix(line, container.Image+"@") }) {
		t.Errorf("the manager has image %s, and built were\n%s", container.Image, digests)
	}
	if pod := pods.Items[0].Spec.SecurityContext; pod == nil || pod.RunAsUser == nil || *pod.RunAsUser == 0 {
		t.Errorf("the pod runs as root: %+v", pod)
	}
	flags(t, in.Stage, manager, []*hosts.Host{in.plane}, []string{"--cloud-provider=aws", "--cluster-cidr=" + hosts.PodCIDR}, nil)
	return container.Image
}

// servesAService has a Service get its load balancer, and lose it.
func (in installation) servesAService(t *testing.T) {
	t.Helper()
	services := in.Client.CoreV1().Services(hosts.WorkloadNamespace)
	const name = "of-the-manifests"
	if _, err := services.Create(t.Context(), cluster.NewService(name, nil, 80), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	within(t, minutes, "a load balancer of Service "+name, func() error {
		s, err := services.Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && len(s.Status.LoadBalancer.Ingress) == 0 {
			err = errors.New("it has none")
		}
		return err
	})
	if err := services.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	within(t, minutes, "the end of Service "+name, func() error {
		_, err := services.Get(t.Context(), name, metav1.GetOptions{})
		return gone(err)
	})
}

// gone is nil for the answer that an object is not there.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("it is there: %w", err)
}

// showsItsMetrics asks the manager at the address that Prometheus finds: its account gets them, and no other caller does.
func (in installation) showsItsMetrics(t *testing.T) {
	t.Helper()
	ofService := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + manager}
	listed, err := in.Client.DiscoveryV1().EndpointSlices(kubeSystem).List(t.Context(), ofService)
	if err != nil || len(listed.Items) != 1 || len(listed.Items[0].Endpoints) != 1 || len(listed.Items[0].Ports) != 1 {
		t.Fatalf("what Prometheus finds: %+v, %v", listed, err)
	}
	found := listed.Items[0]
	address := net.JoinHostPort(found.Endpoints[0].Addresses[0], fmt.Sprint(*found.Ports[0].Port))
	if want := net.JoinHostPort(in.plane.Address, "10258"); address != want {
		t.Errorf("Prometheus finds the manager at %s, and it is at %s", address, want)
	}
	for who, c := range map[string]struct {
		token string
		want  int
	}{
		"prometheus-k8s": {in.tokenOf(t, "prometheus-k8s"), http.StatusOK},
		"other":          {in.tokenOf(t, "other"), http.StatusForbidden},
		"nobody":         {"", http.StatusForbidden},
	} {
		code, text, err := get(t.Context(), "https://"+address+"/metrics", c.token)
		if err != nil || code != c.want || strings.Contains(text, "transplant_ccm_controller_lease") != (c.want == http.StatusOK) {
			t.Errorf("%s got %d (%v), want %d: %s", who, code, err, c.want, text[:min(len(text), 300)])
		}
	}
}

func (in installation) tokenOf(t *testing.T, account string) string {
	t.Helper()
	r, err := in.Client.CoreV1().ServiceAccounts("monitoring").CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.Token
}

// get asks a manager. Its certificate is its own, as it is for Prometheus.
func get(ctx context.Context, url, token string) (int, string, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// isKnown fails the test unless the product says who runs the loops now, and that nothing is left to migrate.
func (in installation) isKnown(t *testing.T, image string) {
	t.Helper()
	for command, says := range map[string][]string{
		"check --cloud " + Cloud: {"nothing blocks", "every kube-controller-manager is external already: nothing is left to move"},
		"status -o json":         {`"state": "not-started"`, `"name": "` + manager + `"`},
		"snapshot -o json":       {image},
	} {
		r := must(t, in.Stage, strings.Fields(command)...)
		for _, want := range says {
			if !strings.Contains(r.Stdout, want) {
				t.Errorf("transplant %s does not say %q:\n%s", command, want, r.Stdout)
			}
		}
	}
}

// initialisesANode has the worker join again, as a machine that is new does.
func (in installation) initialisesANode(t *testing.T) {
	t.Helper()
	nodes := in.Client.CoreV1().Nodes()
	before, err := nodes.Get(t.Context(), in.worker.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.worker.StopKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := nodes.Delete(t.Context(), in.worker.NodeName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := in.worker.StartKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	within(t, minutes, "the worker's new Node to be initialised", func() error {
		n, err := nodes.Get(t.Context(), in.worker.NodeName, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case n.UID == before.UID:
			return errors.New("it is the old one")
		case n.Spec.ProviderID != before.Spec.ProviderID || n.Labels[corev1.LabelTopologyZone] != in.worker.Zone || n.Labels[corev1.LabelInstanceTypeStable] == "":
			return fmt.Errorf("providerID %q, labels %v", n.Spec.ProviderID, n.Labels)
		case slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == component.TaintUninitialized }):
			return fmt.Errorf("it has taints %v", n.Spec.Taints)
		case !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}):
			return fmt.Errorf("it has conditions %v", n.Status.Conditions)
		}
		return nil
	})
}

// deletesTheNodeOfAnInstanceThatIsGone takes the worker's power, and its instance.
func (in installation) deletesTheNodeOfAnInstanceThatIsGone(t *testing.T) {
	t.Helper()
	if err := in.worker.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.terminate(t.Context(), in.worker); err != nil {
		t.Fatal(err)
	}
	within(t, minutes, "the Node of the instance that is gone to be deleted", func() error {
		_, err := in.Client.CoreV1().Nodes().Get(t.Context(), in.worker.NodeName, metav1.GetOptions{})
		return gone(err)
	})
}
