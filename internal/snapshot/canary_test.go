package snapshot

import (
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// canaries hands out secrets and knows where each was put.
type canaries map[string]string

func (c canaries) in(place string) string {
	secret := fmt.Sprintf("Canary%dhunter2", len(c))
	c[secret] = place
	return secret
}

// commands are the ways in which a command line holds a secret.
func (c canaries) commands(at string) []string {
	key := base64.StdEncoding.EncodeToString([]byte("-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("QUJD", 20) + "\n-----END PRIVATE KEY-----\n"))
	c[key[40:80]] = at + ": a key in base64"
	return []string{
		"--oidc-client-secret=" + c.in(at+": --oidc-client-secret"), "--api_key=" + c.in(at+": --api_key"), "--db-pass=" + c.in(at+": --db-pass"),
		"--basic-auth=u:" + c.in(at+": --basic-auth"), "--bus=Endpoint=sb://x/;SharedAccessKey=" + c.in(at+": SharedAccessKey"),
		"--backup=https://x.blob.core.windows.net/c?sv=1&sig=" + c.in(at+": sig"), "--url=https://u:" + c.in(at+": a URL") + "@example.com",
		"--header=Authorization: Bearer " + c.in(at+": bearer"), "--data=" + key,
		"--jwt=eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJh." + c.in(at+": JWT"),
	}
}

func (c canaries) missing(t *testing.T, out string) {
	t.Helper()
	for secret, place := range c {
		if strings.Contains(out, secret) || strings.Contains(out, base64.StdEncoding.EncodeToString([]byte(secret))) {
			t.Errorf("the secret of %s is shown", place)
		}
	}
}

func TestNoCanaryIsInASnapshot(t *testing.T) {
	c := canaries{}
	quoted := func(args []string) []string {
		var out []string
		for _, a := range args {
			out = append(out, fmt.Sprintf("%q", a))
		}
		return out
	}
	dir, _ := writeHosts(t)
	write(
		t,
		dir,
		"cp-1/etc/kubernetes/manifests/kube-controller-manager.yaml",
		manifest(component.KCM, kcmImage, append(kcmArgs(1), quoted(c.commands("a manifest"))...)...),
	)
	write(
		t,
		dir,
		"cp-2/etc/kubernetes/manifests/kube-controller-manager.yaml",
		manifest(component.KCM, kcmImage, append(kcmArgs(2), "--db-pass", c.in("the next argument of a manifest"))...),
	)
	write(
		t,
		dir,
		"cp-1/etc/kubernetes/manifests/kube-scheduler.yaml",
		manifest("kube-scheduler", "i", "sh", "-c", `"exec kube-scheduler --v=2 --token `+c.in("a script in a manifest")+`"`),
	)
	write(t, dir, "cp-1/etc/kubernetes/cloud/cloud.conf", cloudConf+"secret-key = "+c.in("a cloud config")+"\npassword = "+c.in("a cloud config's password")+"\n")
	write(
		t,
		dir,
		"cp-1/etc/kubernetes/cloud/migration.yaml",
		leaderMigration+"---\nusers:\n- user:\n    client-key-data: "+c.in("a second document")+"\n# --token "+c.in("a comment")+"\n",
	)
	write(
		t,
		dir,
		"worker-1/var/lib/kubelet/kubeadm-flags.env",
		`KUBELET_KUBEADM_ARGS="--cloud-provider=aws --api_key=`+c.in("a kubelet's flags")+` --db-pass `+c.in("a kubelet's next flag")+`"`,
	)
	write(
		t,
		dir,
		"worker-1/etc/systemd/system/kubelet.service",
		"[Service]\nEnvironment=API_KEY="+c.in("a unit's environment")+"\nExecStart=/usr/bin/kubelet --cloud-provider=aws --basic-auth=u:"+c.in("a unit")+"\n",
	)
	write(
		t,
		dir,
		"worker-1/var/lib/kubelet/config.yaml",
		"kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nstaticPodURLHeader: {X-Api-Key: ["+c.in("a kubelet's configuration")+"]}\n",
	)
	annotations := map[string]string{
		"example.com/api_key": c.in("an annotation's name"), "example.com/values": `{"dbPass":"` + c.in("an annotation's JSON") + `"}`,
		"example.com/cmd": "x --token " + c.in("an annotation's script"), corev1.LastAppliedConfigAnnotation: c.in("kubectl's copy"),
	}
	parameters := maps.Clone(annotations)
	delete(parameters, corev1.LastAppliedConfigAnnotation)
	script := "exec kube-controller-manager --cloud-provider=aws --token " + c.in("a Deployment's script") + " --api_key='" + c.in("a Deployment's quotes") + "'"
	src := sources(t)
	src.Hosts = open(t, dir)
	put := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: component.Namespace, Annotations: annotations, Labels: map[string]string{"app": "x"}}
	}
	template := corev1.PodTemplateSpec{ObjectMeta: meta(""), Spec: corev1.PodSpec{Containers: []corev1.Container{
		{
			Name:    component.KCM,
			Image:   kcmImage,
			Command: []string{"/bin/sh", "-c"},
			Args:    []string{script},
			Env:     []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://u:" + c.in("a proxy") + "@proxy"}},
		},
	}}}
	_, err := src.Kube.AppsV1().
		Deployments(component.Namespace).
		Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: meta(component.KCM),
			Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](1), Template: template},
		}, metav1.CreateOptions{})
	put(err)
	plain := *template.DeepCopy()
	plain.Spec.Containers[0].Command, plain.Spec.Containers[0].Args = []string{"cloud-controller-manager"}, c.commands("a DaemonSet")
	_, err = src.Kube.AppsV1().
		DaemonSets(component.Namespace).
		Create(t.Context(), &appsv1.DaemonSet{ObjectMeta: meta("cloud-controller-manager"), Spec: appsv1.DaemonSetSpec{Template: plain}}, metav1.CreateOptions{})
	put(err)
	_, err = src.Kube.CoreV1().
		Services("shop").
		Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "canary", Namespace: "shop", Annotations: annotations},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
		}, metav1.CreateOptions{})
	put(err)
	_, err = src.Kube.StorageV1().
		StorageClasses().
		Create(t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "canary"}, Provisioner: "x", Parameters: parameters}, metav1.CreateOptions{})
	put(err)
	node := node("canary")
	node.Annotations = annotations
	_, err = src.Kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	put(err)
	for name, data := range map[string]map[string]string{
		"kubeadm-config": {"ClusterConfiguration": "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nkubernetesVersion: v1.26.0\ncertificateKey: " + c.in("kubeadm's certificate key") +
			"\ncontrollerManager:\n  extraArgs:\n    api_key: " + c.in("kubeadm's arguments") + "\n    x: \"a --db-pass " + c.in("kubeadm's script") + "\"\n"},
		"kubelet-config": {"kubelet": "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nstaticPodURLHeader: {Authorization: [" + c.in("kubelet-config") + "]}\n# --api_key " + c.in("a comment of kubelet-config") + "\n"},
	} {
		_, err := src.Kube.CoreV1().ConfigMaps(component.Namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta(name), Data: data}, metav1.CreateOptions{})
		put(err)
	}
	out := saved(t, Gather(t.Context(), src, collect.Options{}))
	c.missing(t, out)
	for _, kept := range []string{"DaemonSet/kube-system/cloud-controller-manager", "Deployment/kube-system/kube-controller-manager", "name: canary", "kubelet-config", "--api_key=(masked)",
		"--token (masked) --api_key=''", "--v=2 --token (masked)", "certificateKey: (masked)"} {
		if !strings.Contains(out, strings.Replace(kept, "''", "", 1)) {
			t.Errorf("the snapshot has no %q, so that nothing is proven by it", kept)
		}
	}
}
