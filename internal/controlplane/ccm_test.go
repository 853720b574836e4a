package controlplane

import (
	"bytes"
	goflag "flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

var update = goflag.Bool("update", false, "write the golden files again")

var ccm = CCM{
	Name:        "cloud-controller-manager",
	Image:       "ghcr.io/transplant-dev/aws-cloud-controller-manager:v1.37.0",
	Host:        "cp-1",
	BindAddress: "0.0.0.0",
	Flags: []Flag{
		{"cloud-provider", "aws"},
		{"cloud-config", "/etc/kubernetes/transplant/cloud.conf"},
		{"bind-address", "0.0.0.0"},
		{"cluster-name", "it's: prod"},
		{"leader-elect", "true"},
	},
	Env: []Env{{Name: "NODE_NAME", FieldPath: "spec.nodeName"}, {Name: "AWS_REGION", Value: "us-east-1"}, {Name: "AWS_MAX_ATTEMPTS", Value: "5"},
		{Name: "QUOTED", Value: "a \"b\" \\ 'c' <d>: #e"}, {Name: "EMPTY"}},
	ReadyPath:    "/readyz",
	GraceSeconds: "30",
	HostPaths: []HostPath{
		{Path: "/etc/kubernetes/transplant/cloud.conf", Type: "File"},
		{Path: "/etc/kubernetes/transplant/ccm.yaml", Type: "File", Name: "transplant-leader-migration"},
		{Path: "/etc/ssl/certs", Type: "DirectoryOrCreate", Name: "ca-certs"},
		{Path: "/etc/kubernetes/transplant/cloud.conf", Type: "File"},
		{Path: "/srv/x"},
	},
}

func TestRenderCCM(t *testing.T) {
	const golden = "testdata/ccm.golden.yaml"
	got := RenderCCM(ccm)
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !bytes.Equal(got, RenderCCM(ccm)) {
		t.Error("the second time it is different")
	}
}

func TestARenderedCCMIsWhatItWasMadeFrom(t *testing.T) {
	data := RenderCCM(ccm)
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(data, &pod); err != nil {
		t.Fatal(err)
	}
	c := pod.Spec.Containers[0]
	env := map[string]string{}
	for _, e := range c.Env {
		if env[e.Name] = e.Value; e.ValueFrom != nil {
			env[e.Name] = "the pod's " + e.ValueFrom.FieldRef.FieldPath
		}
	}
	if diff := cmp.Diff(
		map[string]string{
			"NODE_NAME":        "the pod's spec.nodeName",
			"AWS_REGION":       "us-east-1",
			"AWS_MAX_ATTEMPTS": "5",
			"QUOTED":           "a \"b\" \\ 'c' <d>: #e",
			"EMPTY":            "",
		},
		env,
	); diff != "" {
		t.Errorf("environment, -want +got:\n%s", diff)
	}
	if !pod.Spec.HostNetwork || pod.Spec.PriorityClassName != "system-node-critical" || *pod.Spec.Priority != 2000001000 || pod.Namespace != "kube-system" ||
		pod.Spec.DNSPolicy != corev1.DNSDefault || pod.Spec.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("pod = %+v", pod.Spec)
	}
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace == nil || *grace != 30 {
		t.Errorf("grace period = %v", grace)
	}
	for p, path := range map[*corev1.Probe]string{c.LivenessProbe: "/healthz", c.StartupProbe: "/healthz", c.ReadinessProbe: "/readyz"} {
		if got := p.HTTPGet; got.Host != "127.0.0.1" || got.Port.IntValue() != 10258 || got.Path != path || got.Scheme != corev1.URISchemeHTTPS {
			t.Errorf("probe of %+v", got)
		}
	}
	for _, mount := range c.VolumeMounts {
		if !mount.ReadOnly {
			t.Errorf("%s can be written to", mount.MountPath)
		}
	}
	m := parse(t, data)
	if m.Component() != "cloud-controller-manager" || m.Address() != "127.0.0.1:10258" || m.Flags()["cluster-name"] != "it's: prod" {
		t.Errorf("component %q at %q with %v", m.Component(), m.Address(), m.Flags())
	}
	want := map[string]string{
		"/etc/kubernetes/transplant/cloud.conf": "/etc/kubernetes/transplant/cloud.conf",
		"/etc/kubernetes/transplant/ccm.yaml":   "/etc/kubernetes/transplant/ccm.yaml",
		"/etc/ssl/certs":                        "/etc/ssl/certs",
		"/srv/x":                                "/srv/x",
	}
	if diff := cmp.Diff(want, m.HostPaths()); diff != "" {
		t.Errorf("paths, -want +got:\n%s", diff)
	}
}

func TestARenderedCCMCanBeEdited(t *testing.T) {
	data := RenderCCM(ccm)
	out := apply(t, data, unset("leader-elect"), set("cloud-provider", "x"), remove("transplant-leader-migration", "/etc/kubernetes/transplant/ccm.yaml"))
	want := []string{
		"-    - --cloud-provider=aws", "+    - --cloud-provider=x", "-    - --leader-elect=true",
		"-    - mountPath: /etc/kubernetes/transplant/ccm.yaml", "-      name: transplant-leader-migration", "-      readOnly: true",
		"-      path: /etc/kubernetes/transplant/ccm.yaml", "-      type: File", "-    name: transplant-leader-migration", "-  - hostPath:",
	}
	if diff := cmp.Diff(want, changed(data, out)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTheSmallestCCM(t *testing.T) {
	data := RenderCCM(CCM{Name: "ccm", Image: "x", BindAddress: "::", Flags: []Flag{{"secure-port", "1258"}}})
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(data, &pod); err != nil {
		t.Fatal(err)
	}
	get := pod.Spec.Containers[0].LivenessProbe.HTTPGet
	if pod.Spec.Containers[0].ReadinessProbe != nil || pod.Spec.TerminationGracePeriodSeconds != nil {
		t.Errorf("a manager of somebody else is asked for /readyz, or has a grace period: %s", data)
	}
	if get.Host != "::1" || get.Port.IntValue() != 1258 || pod.Spec.Volumes != nil || pod.Annotations != nil {
		t.Errorf("pod = %s", data)
	}
	if _, err := Apply(data, []v1.Edit{add("x", "/x")}); err != nil {
		t.Error(err)
	}
}
