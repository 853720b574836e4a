package snapshot

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/hosted"
)

func TestAControlPlaneThatRunsAsDeployments(t *testing.T) {
	s := apitest.New(t)
	manager := template(
		map[string]string{"app": "kcm"},
		corev1.Container{Name: "proxy", Image: "registry.k8s.io/kas-network-proxy/proxy-agent:v0.30.0"},
		corev1.Container{
			Name:    "kcm",
			Image:   kcmImage,
			Command: []string{"/bin/sh", "-c"},
			Args:    []string{"exec kube-controller-manager --cloud-provider=aws --cluster-name=plane --token=" + planted},
			Env: []corev1.EnvVar{
				{Name: "AWS_SECRET_ACCESS_KEY", Value: planted},
				{Name: "KUBERNETES_SERVICE_HOST", Value: "10.0.0.1"},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "conf", MountPath: "/etc/cloud"}},
			Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("0.1")}},
		},
	)
	manager.Spec.Volumes = []corev1.Volume{
		{Name: "conf", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc/kubernetes/cloud"}}},
	}
	s.Put(
		t,
		deployment("kube-system", "kube-controller-manager", manager),
		deployment("kube-system", "scheduler", template(nil, corev1.Container{Name: "s", Image: "registry.k8s.io/kube-scheduler:v1.26.0"})),
		deployment(
			"another",
			"kube-controller-manager",
			template(nil, corev1.Container{Name: "k", Image: kcmImage, Command: []string{"kube-controller-manager", "--cloud-provider=gce"}}),
		),
		deployment("another", "kube-apiserver", template(nil, corev1.Container{Name: "k", Image: kasImage})),
		deployment("another", "ccm", template(nil, corev1.Container{Name: "c", Image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.26.0"})),
		deployment("notebooks", "user-scheduler", template(nil, corev1.Container{Name: "s", Image: "registry.k8s.io/kube-scheduler:v1.26.0"})),
		deployment(
			"kube-system",
			"ccm",
			template(
				nil,
				corev1.Container{
					Name:  "c",
					Image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.26.0",
					Args:  []string{"--use-service-account-credentials", "--leader-elect-resource-name=own-lease"},
				},
			),
		),
		lease("own-lease", "x"),
	)
	got := Gather(t.Context(), live(t, s), collect.Options{})
	var names []string
	for _, c := range got.Hosted {
		names = append(names, c.Name+" "+c.Manifest)
	}
	if diff := cmp.Diff(
		[]string{
			"cloud-controller-manager Deployment/kube-system/ccm",
			"kube-controller-manager Deployment/kube-system/kube-controller-manager",
			"kube-scheduler Deployment/kube-system/scheduler",
		},
		names,
	); diff != "" {
		t.Fatalf("hosted (-want +got):\n%s", diff)
	}
	c := got.Hosted[1]
	var object map[string]any
	var d struct {
		Spec struct{ Template map[string]any }
	}
	raw, err := live(
		t,
		s,
	).Kube.AppsV1().
		RESTClient().
		Get().
		SetHeader("Accept", "application/json").
		Namespace("kube-system").
		Resource("deployments").
		Name("kube-controller-manager").
		DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	object = d.Spec.Template
	want := v1.Component{
		Name:     component.KCM,
		Runs:     v1.RunsDeployment,
		Manifest: "Deployment/kube-system/kube-controller-manager",
		Replicas: ptr.To[int32](2),
		Image:    kcmImage,
		SHA256:   hosted.TemplateSHA256(object),
		Command:  []string{"/bin/sh", "-c", "exec kube-controller-manager --cloud-provider=aws --cluster-name=plane --token=(masked)"},
		Flags: map[string]string{
			"cloud-provider": "aws",
			"cluster-name":   "plane",
			"token":          mask.Masked,
		},
		EnvNames:  []string{"AWS_SECRET_ACCESS_KEY", "KUBERNETES_SERVICE_HOST"},
		HostPaths: map[string]string{"/etc/cloud": "/etc/kubernetes/cloud"},
		Remarks:   []string{"args split between command and args", "started by a shell"},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("component (-want +got):\n%s", diff)
	}
	if got.Cluster.Name != "plane" || got.Cluster.Provider != "aws" {
		t.Errorf("cluster %+v", got.Cluster)
	}
	if len(got.Leases) != 1 || got.Leases[0].Name != "own-lease" {
		t.Errorf("leases %+v", got.Leases)
	}
	if len(got.Managers) != 2 || got.Managers[0].Host != "Deployment/kube-system/ccm" || got.Managers[0].Error == "" ||
		why(got, "managers/Deployment/kube-system/ccm/cloud-controller-manager") == "" {
		t.Errorf("managers %+v", got.Managers)
	}
	asked := map[string]bool{}
	for _, a := range got.Access {
		asked[a.Who+" "+a.Verb+" "+a.Resource] = true
	}
	for _, question := range []string{" create serviceaccounts/token", " patch nodes/status", " delete nodes", " patch services/status", " create events", " update nodes"} {
		if !asked[component.UserCCM+question] {
			t.Errorf("not asked:%s", question)
		}
	}
}

// What only managers on upstream's library do is not asked of ours, whose role does not grant it.
func TestOurManagerIsNotAskedForWhatUpstreamsDoes(t *testing.T) {
	s := apitest.New(t)
	const ours = "ghcr.io/transplant-dev/aws-cloud-controller-manager:v0.1.0"
	s.Put(t, deployment("kube-system", "ccm", template(nil, corev1.Container{Name: "c", Image: ours})))
	got := Gather(t.Context(), live(t, s), collect.Options{})
	if len(got.Hosted) != 1 || got.Hosted[0].Image != ours {
		t.Fatalf("hosted: %+v", got.Hosted)
	}
	verbs := map[string]bool{}
	for _, a := range got.Access {
		if a.Who == component.UserCCM && a.Resource == "nodes" {
			verbs[a.Verb] = true
		}
	}
	if !verbs["patch"] || verbs["update"] {
		t.Errorf("of Nodes, the verbs %v were asked", verbs)
	}
}
