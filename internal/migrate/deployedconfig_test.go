package migrate

import (
	"encoding/base64"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// The cloud config of a kube-controller-manager that is a Deployment lies on a volume of its pods: a ConfigMap, a Secret, or a file of their hosts.
func TestTheCloudConfigOfADeploymentIsReadFromItsVolume(t *testing.T) {
	t.Parallel()
	const (
		inTree  = "[Global]\nZone = us-east-1a\nVPC = vpc-1\n"
		onHosts = "/etc/cloud/aws.conf"
	)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: component.Namespace}
	}
	tests := map[string]struct {
		volume corev1.VolumeSource
		lay    func(*world)
		noFlag bool
		fails  string
	}{
		"a ConfigMap": {
			volume: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cloud"}}},
			lay: func(w *world) {
				w.api.Put(w.t, &corev1.ConfigMap{ObjectMeta: meta("cloud"), Data: map[string]string{"config": inTree}})
			},
		},
		"a Secret, under another key": {
			volume: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "cloud", Items: []corev1.KeyToPath{{Key: "aws", Path: "config"}}}},
			lay: func(w *world) {
				w.api.Put(w.t, &corev1.Secret{ObjectMeta: meta("cloud"), Data: map[string][]byte{"aws": []byte(inTree)}})
			},
		},
		"a directory of the hosts": {
			volume: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc/cloud"}},
			lay: func(w *world) {
				for _, h := range w.hostNames() {
					w.write(h, "/etc/cloud/config", inTree, 0o600)
				}
			},
		},
		"hosts that differ": {
			volume: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc/cloud"}},
			lay: func(w *world) {
				for _, h := range w.hostNames() {
					w.write(h, "/etc/cloud/config", inTree+"# of "+h+"\n", 0o600)
				}
			},
			fails: "/etc/cloud/config on host cp-2 is not that on host cp-1",
		},
		"no host that has it": {
			volume: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: onHosts}}, lay: func(*world) {},
			fails: "which no reached host of the control plane has",
		},
		"a worker has another": {
			volume: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc/cloud"}},
			lay: func(w *world) {
				w.write("cp-2", "/etc/cloud/config", inTree, 0o600)
				w.write("cp-1", "/etc/cloud/config", "[Global]\nZone = of-an-attacker\n", 0o600)
				w.api.Put(w.t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1"}})
			},
		},
		"a worker alone has it": {
			volume: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc/cloud"}},
			lay: func(w *world) {
				w.write("cp-1", "/etc/cloud/config", inTree, 0o600)
				w.api.Put(w.t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1"}})
			},
			fails: "no Node cp-1 is labelled as control plane",
		},
		"no such key": {
			volume: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cloud"}}},
			lay:    func(w *world) { w.api.Put(w.t, &corev1.ConfigMap{ObjectMeta: meta("cloud")}) },
			fails:  "has no key config",
		},
		"made before, and its source is external": {
			noFlag: true,
			lay: func(w *world) {
				w.api.Put(w.t, &corev1.Secret{ObjectMeta: meta(layout.SeedCloudConfig), Data: map[string][]byte{layout.SeedCloudConfigKey: []byte(inTree)}})
			},
		},
		"never made, and its source is external": {noFlag: true, lay: func(*world) {}, fails: "runs without --cloud-config by now"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			tt.lay(w)
			command := []string{component.KCM, "--cloud-provider=aws", "--cloud-config=/etc/kubernetes/cloud/config"}
			if tt.noFlag {
				command = []string{component.KCM, "--cloud-provider=external"}
			}
			labels := map[string]string{"app": "kcm"}
			w.api.Put(w.t, &appsv1.Deployment{ObjectMeta: meta(component.KCM), Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
					Volumes: []corev1.Volume{{Name: "cloud", VolumeSource: tt.volume}},
					Containers: []corev1.Container{
						{Name: component.KCM, Command: command, VolumeMounts: []corev1.VolumeMount{{Name: "cloud", MountPath: "/etc/kubernetes/cloud"}}},
					},
				}},
			}})
			s := v1.Step{
				ID:     "create",
				Phase:  "p",
				Kind:   v1.StepEnsureObject,
				Derive: layout.DeriveDeployedCloudConfig,
				Source: "Deployment/kube-system/" + component.KCM,
			}
			p := w.given(s)
			want := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": layout.SeedCloudConfig, "namespace": component.Namespace}}}
			e := w.engine()
			e.env.Plan = p
			out, err := object.EnsureObject{Env: e.env}.Derived(t.Context(), s, want)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) || strings.Contains(err.Error(), "vpc-1") {
					t.Errorf("error %v, want %q", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			data, _, _ := unstructured.NestedString(out.Object, "data", layout.SeedCloudConfigKey)
			if text, err := base64.StdEncoding.DecodeString(data); err != nil || !strings.Contains(string(text), "VPC = vpc-1") {
				t.Errorf("the Secret holds %q, %v", text, err)
			}
			if len(want.Object) != 1 {
				t.Errorf("the plan's object was changed: %v", want.Object)
			}
		})
	}
}
