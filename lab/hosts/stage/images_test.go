package stage

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/hosts"
	"github.com/transplant-dev/transplant/lab/imagecredentials"
	"github.com/transplant-dev/transplant/lab/poll"
)

var images = flag.String("hosts.images-subnet", "10.85.0.0/24", "network of the cluster that pulls images with credentials")

// Where a host has image credential providers before a migration, and what they are.
const (
	home         = "/root"
	ownProviders = "/etc/kubernetes/own-providers.yaml"
	ownBinaries  = "/usr/local/lib/own-providers"
	ownConfig    = `# Written by the machine's image. Keep the order: the kubelet tries the first one first.
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
  - name: own-credential-provider   # of the company
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    matchImages: [ "registry.example" ]
    defaultCacheDuration: "0s"
    env:
      - {name: OWN_SECRET, value: planted-secret}
`
	ownProgram = `#!/bin/sh
cat >/dev/null
cat <<'END'
{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "cacheKeyType": "Image",
 "auth": {"registry.example": {"username": "own", "password": "own"}}}
END
`
)

// A pod's image comes from a registry that asks for credentials. The kubelet has them from a program that the plan has installed: on one host next to a
// provider that was there, on the other alone. Its own code for that is switched off by the second gate of KEP-2395.
func TestRealHostsPullImagesWithTheProviderThatAPlanInstalls(t *testing.T) {
	s := ownStage(t, hosts.Options{Name: *name + "i", Subnet: *images, ControlPlanes: 1, Workers: 1})
	ctx := t.Context()
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	programs, err := build.BuildCredentialProviders(ctx, root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	amazon, registry, image := theRegistry(t, s)
	var worker *hosts.Host
	restarted := time.Now().Truncate(time.Second)
	for _, h := range s.Hosts() {
		reachable(t, s, h, amazon)
		if !h.ControlPlane {
			worker = h
		}
	}
	heardAgain(t, s, restarted)
	before, _ := settledFacts(t, s)
	provider := filepath.Join(programs, build.ECRCredentialProvider)
	must(t, s, append(s.apply(), "--strategy", "downtime", "--disable-in-tree", "--credential-provider", provider)...)
	disabled(t, s)

	config, err := worker.ReadFile(ctx, ownProviders)
	if err != nil {
		t.Fatal(err)
	}
	if added, found := strings.CutPrefix(config, ownConfig); !found || !strings.Contains(added, "name: "+build.ECRCredentialProvider) {
		t.Errorf("the configuration of the worker is now\n%s", config)
	}
	for _, h := range s.Hosts() {
		answered := registry.Served(amazon.Password)
		pulled(t, s, h, image)
		if registry.Served(amazon.Password) == answered {
			t.Errorf("the pod on %s runs, and its registry was asked for nothing", h.Name)
		}
	}
	if registry.Refused() == 0 {
		t.Error("the registry has refused nobody: a pull begins without credentials")
	}
	must(t, s, "rollback", "--yes", "--cloud", Cloud)
	asBefore(t, s, before)
}

// disabled fails the test unless every kubelet runs with both gates of KEP-2395.
func disabled(t *testing.T, s *Stage) {
	t.Helper()
	found, err := s.Arguments(t.Context(), "kubelet", s.Cluster.Hosts()...)
	if err != nil {
		t.Fatal(err)
	}
	for host, args := range found {
		for _, gate := range []string{catalogue.DisableCloudProviders, catalogue.DisableKubeletCloudCredentialProviders} {
			if !slices.ContainsFunc(args, func(a string) bool {
				return strings.HasPrefix(a, "--feature-gates=") && strings.Contains(a, gate+"=true")
			}) {
				t.Errorf("the kubelet on %s runs without %s: %q", host, gate, args)
			}
		}
	}
	if len(found) != len(s.Cluster.Hosts()) {
		t.Errorf("the arguments of %d kubelets are known, want those of %d", len(found), len(s.Cluster.Hosts()))
	}
}

// theRegistry is an account's registry and its token service, at the address of the cluster's bridge, with one image in it.
func theRegistry(t *testing.T, s *Stage) (*imagecredentials.Amazon, *imagecredentials.Registry, string) {
	t.Helper()
	n, err := imagecredentials.NewInternet()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	amazon := imagecredentials.NewAmazon(n, hosts.Region)
	amazon.Keys = []string{cluster.KeyKubelet}
	registry := imagecredentials.NewRegistry("AWS", amazon.Password)
	n.Handle(amazon.Registry(), registry)
	if err := n.Listen(bridge(t, s) + ":443"); err != nil {
		t.Fatal(err)
	}
	image := amazon.Registry() + "/lab/pause:v1"
	pause := filepath.Join(s.Dir, "bin", "pause")
	if err := imagecredentials.Push(t.Context(), n, image, pause, "AWS", amazon.Password); err != nil {
		t.Fatal(err)
	}
	return amazon, registry, image
}

// bridge is the address by which the hosts reach this machine.
func bridge(t *testing.T, s *Stage) string {
	t.Helper()
	u, err := url.Parse(s.CloudEndpoint())
	if err != nil {
		t.Fatal(err)
	}
	return u.Hostname()
}

// reachable lets a host reach the registry and the token service, as instances do: names, trust, credentials of the instance. A worker gets a provider of its
// own.
func reachable(t *testing.T, s *Stage, h *hosts.Host, a *imagecredentials.Amazon) {
	t.Helper()
	ctx := t.Context()
	names, err := h.ReadFile(ctx, "/etc/hosts")
	if err != nil {
		t.Fatal(err)
	}
	kubelet := "NO_PROXY=127.0.0.0/8,10.0.0.0/8,169.254.169.254,localhost,.amazonaws.com\nKUBELET_EXTRA_ARGS="
	if !h.ControlPlane {
		kubelet += "--image-credential-provider-config=" + ownProviders + " --image-credential-provider-bin-dir=" + ownBinaries
	}
	files := map[string]string{
		"/etc/hosts":                   fmt.Sprintf("%s%s %s api.ecr.%s.amazonaws.com\n", names, bridge(t, s), a.Registry(), a.Region),
		"/etc/ssl/certs/simulated.pem": string(a.CA()),
		home + "/.aws/credentials":     "[default]\naws_access_key_id = " + cluster.KeyKubelet + "\naws_secret_access_key = lab-only\n",
		"/etc/default/kubelet":         kubelet + "\n",
	}
	for at, text := range files {
		if err := h.WriteFile(ctx, at, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !h.ControlPlane {
		if err := h.WriteFile(ctx, ownProviders, ownConfig, 0o640); err != nil {
			t.Fatal(err)
		}
		if err := h.WriteFile(ctx, ownBinaries+"/own-credential-provider", ownProgram, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, restart := range []func(context.Context) error{h.StopKubelet, h.StartKubelet} {
		if err := restart(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// heardAgain waits until kubelets that were restarted after since have said that their nodes are ready. A kubelet that starts says first that its node is not,
// and kube-controller-manager marks the pods of the node, which stay so until the kubelet puts them right. It also forgets which containers have started, some
// seconds after its first word, until each startup probe has passed again: ready is what stays so for longer than two periods of a probe.
func heardAgain(t *testing.T, s *Stage, since time.Time) {
	t.Helper()
	silent := ""
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		nodes, err := s.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		silent = ""
		for i := range nodes.Items {
			heard := slices.ContainsFunc(nodes.Items[i].Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && !c.LastHeartbeatTime.Time.Before(since)
			})
			if !heard {
				silent += " " + nodes.Items[i].Name
			}
		}
		return silent == "", nil
	})
	if err == nil {
		ready := time.Now()
		err = poll.Within(t.Context(), time.Second, 5*time.Minute, "the cluster to stay ready", func(ctx context.Context) error {
			if err := s.Ready(ctx, s.Client); err != nil {
				ready = time.Now()
				return err
			}
			if time.Since(ready) < 25*time.Second {
				return fmt.Errorf("ready since %s", ready.Format(time.TimeOnly))
			}
			return nil
		})
	}
	if err != nil {
		t.Fatalf("waiting for the kubelets%s: %v", silent, err)
	}
}

// pulled runs a pod of an image on a host, which pulls it each time.
func pulled(t *testing.T, s *Stage, h *hosts.Host, image string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	pods := s.Client.CoreV1().Pods(hosts.WorkloadNamespace)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pulls-" + h.Name},
		Spec: corev1.PodSpec{
			NodeName: h.NodeName, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "pulls", Image: image, ImagePullPolicy: corev1.PullAlways}},
		},
	}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		zero := int64(0)
		_ = pods.Delete(context.WithoutCancel(ctx), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
	}()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && now.Status.Phase == corev1.PodRunning {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			var why []string
			if now != nil {
				for _, c := range now.Status.ContainerStatuses {
					if w := c.State.Waiting; w != nil {
						why = append(why, w.Reason+": "+w.Message)
					}
				}
			}
			t.Fatalf("the pod on %s does not run: %v %s", h.Name, err, strings.Join(slices.Compact(why), "; "))
		}
	}
}
