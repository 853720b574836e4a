package snapshot

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/objects"
	"github.com/transplant-dev/transplant/internal/snapshot/volume"
)

// live are the sources of a server, its traffic watched, without hosts.
func live(t *testing.T, s *apitest.Server) collect.Sources {
	t.Helper()
	traffic := &collect.Traffic{}
	cfg := s.Config()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	cfg.Transport = transport
	traffic.Watch(cfg)
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return collect.Sources{Kube: kube, Dynamic: dyn, Traffic: traffic, Server: s.URL}
}

func meta(ns, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ns, Name: name, CreationTimestamp: metav1.NewTime(now)}
}

func template(labels map[string]string, containers ...corev1.Container) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: containers}}
}

func deployment(ns, name string, t corev1.PodTemplateSpec) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: meta(ns, name),
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](2), Template: t},
		Status:     appsv1.DeploymentStatus{ReadyReplicas: 1},
	}
}

func daemonSet(ns, name string, t corev1.PodTemplateSpec) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: meta(ns, name),
		Spec:       appsv1.DaemonSetSpec{Template: t},
		Status:     appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, NumberReady: 3},
	}
}

func validating(name, service string) *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: meta("", name), Webhooks: []admissionv1.ValidatingWebhook{
		{
			Name:         "pods." + name,
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "policy", Name: service}},
			NamespaceSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"}},
				},
			},
			Rules: []admissionv1.RuleWithOperations{
				{
					Operations: []admissionv1.OperationType{"CREATE"},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				},
			},
		},
	}}
}

// everything has one object or more of each kind that is gathered.
func everything(t *testing.T) *apitest.Server {
	t.Helper()
	s := apitest.New(t)
	s.Serve(append(s.Groups(), "cluster.k8s.io/v1alpha1", "cluster.x-k8s.io/v1alpha4", "cluster.x-k8s.io/v1beta1")...)
	s.Put(
		t,
		node("a"),
		lease(component.KCM, "a_1"),
		&corev1.Service{
			ObjectMeta: meta("shop", "web"),
			Spec: corev1.ServiceSpec{
				Type:                  corev1.ServiceTypeLoadBalancer,
				LoadBalancerIP:        "192.0.2.7",
				ExternalTrafficPolicy: "Local",
				HealthCheckNodePort:   30303,
			},
		},
		&corev1.Service{ObjectMeta: meta("policy", "keeper"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "keeper"}}},
		mirrorPod(component.KCM, "a", component.KCM, "--cloud-provider=aws", "--cluster-name=lab"),
		mirrorPod("etcd", "a", "etcd"),
		deployment("policy", "keeper-pods", template(map[string]string{"app": "keeper"}, corev1.Container{Name: "keeper", Image: "example.com/keeper:v1"})),
		deployment("shop", "web", template(map[string]string{"app": "web"}, corev1.Container{Name: "web", Image: "example.com/web:v1"})),
		daemonSet("kube-system", "calico-node", template(nil, corev1.Container{Name: "calico-node", Image: "docker.io/calico/node:v3.27.0"})),
		&appsv1.StatefulSet{
			ObjectMeta: meta("shop", "db"),
			Spec:       appsv1.StatefulSetSpec{Template: template(nil, corev1.Container{Name: "db", Image: "postgres:16"})},
		},
		validating("keeper", "keeper"),
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: meta("", "outside"), Webhooks: []admissionv1.MutatingWebhook{{
			Name: "m.outside", FailurePolicy: ptr.To(admissionv1.Ignore), TimeoutSeconds: ptr.To[int32](3),
			ClientConfig: admissionv1.WebhookClientConfig{URL: ptr.To("https://jane:" + planted + "@hooks.example.com:8443/mutate?key=" + planted)},
		}}},
		&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "keeper-x", Labels: map[string]string{discoveryv1.LabelServiceName: "keeper"}},
			Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"10.1.0.1"}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "policy", Name: "keeper-1"}},
				{
					Addresses:  []string{"10.1.0.2"},
					TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "policy", Name: "keeper-2"},
					Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)},
				},
			},
		},
		&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "keeper-6", Labels: map[string]string{discoveryv1.LabelServiceName: "keeper"}},
			Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"fd00::1"}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "policy", Name: "keeper-1"}},
			},
		},
		volumeOf("pv-1", func(pv *corev1.PersistentVolume) {
			pv.Spec.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://us-east-1a/vol-1"}
			pv.Labels = map[string]string{corev1.LabelTopologyZone: "us-east-1a"}
			pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "data"}
		}),
		&corev1.PersistentVolumeClaim{
			ObjectMeta: meta("shop", "data"),
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1"},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		},
		&corev1.PersistentVolumeClaim{ObjectMeta: meta("shop", "pending")},
		volumeOf("pv-nfs", func(pv *corev1.PersistentVolume) { pv.Spec.NFS = &corev1.NFSVolumeSource{Server: "nfs", Path: "/"} }),
		&storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: "gp2", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			Provisioner: "kubernetes.io/aws-ebs",
			Parameters:  map[string]string{"type": "gp2", "userPassword": planted, "csi.storage.k8s.io/provisioner-secret-name": "disks"},
		},
		&storagev1.CSIDriver{ObjectMeta: meta("", "ebs.csi.aws.com")},
		&storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{volume.MigratedPlugins: "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"}},
			Spec: storagev1.CSINodeSpec{
				Drivers: []storagev1.CSINodeDriver{{Name: "ebs.csi.aws.com", NodeID: "i-1", Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To[int32](25)}}},
			},
		},
		&storagev1.VolumeAttachment{
			ObjectMeta: meta("", "csi-1"),
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: "ebs.csi.aws.com",
				NodeName: "a",
				Source:   storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv-1")},
			},
			Status: storagev1.VolumeAttachmentStatus{DetachError: &storagev1.VolumeError{Message: "timed out"}},
		},
		&policyv1.PodDisruptionBudget{
			ObjectMeta: meta("shop", "db"),
			Status:     policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, CurrentHealthy: 1, DesiredHealthy: 1},
		},
		&policyv1.PodDisruptionBudget{
			ObjectMeta: meta("shop", "web"),
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, ExpectedPods: 2, CurrentHealthy: 2, DesiredHealthy: 1},
		},
		request(
			"csr-pending",
			certificatesv1.KubeletServingSignerName,
		),
		request("csr-issued", certificatesv1.KubeletServingSignerName, "issued"),
		request("csr-other", "example.com/x"),
		request("csr-denied", certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.CertificateApproved, certificatesv1.CertificateDenied),
		machineObject(
			"cluster.k8s.io/v1alpha1",
			"MachineDeployment",
			"workers",
			map[string]string{"cluster.k8s.io/cluster-api-autoscaler-node-group-max-size": "5"},
			map[string]any{"replicas": int64(3)},
		),
		machineObject("cluster.k8s.io/v1alpha1", "Machine", "workers-1", map[string]string{objects.KubeletFlag: "true"}, nil),
		machineObject("cluster.x-k8s.io/v1beta1", "Machine", "capi-1", map[string]string{objects.Paused: ""}, nil),
		&corev1.ConfigMap{
			ObjectMeta: meta("kube-system", "kubeadm-config"),
			Data:       map[string]string{"ClusterConfiguration": "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nclusterName: lab\n"},
		},
		&corev1.ConfigMap{
			ObjectMeta: meta("kube-system", "kubelet-config-1.26"),
			Data:       map[string]string{"kubelet": "serverTLSBootstrap: true\nfeatureGates: {CSIMigrationAWS: false}\n"},
		},
	)
	return s
}

func volumeOf(name string, change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: meta("", name)}
	change(pv)
	return pv
}

func request(name, signer string, conditions ...certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequest {
	r := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: meta("", name),
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: signer, Username: "system:node:a", Request: []byte("no PEM")},
	}
	for _, c := range conditions {
		if c == "issued" {
			r.Status.Certificate = []byte("PEM")
			continue
		}
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: c, Status: "True"})
	}
	return r
}

func machineObject(apiVersion, kind, name string, annotations map[string]string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{
		Object: map[string]any{
			"apiVersion": apiVersion,
			"kind":       kind,
			"spec":       spec,
			"status":     map[string]any{"nodeRef": map[string]any{"name": "a"}, "readyReplicas": int64(2)},
		},
	}
	o.SetNamespace("kube-system")
	o.SetName(name)
	o.SetAnnotations(annotations)
	return o
}

func TestGatherEverythingOfTheAPI(t *testing.T) {
	s := everything(t)
	got := Gather(t.Context(), live(t, s), collect.Options{})
	if diff := cmp.Diff(
		[]v1.GatherError{
			{
				Fact:  "hosts",
				Error: "no host was given: leave --host-access=none out, and hosts are read through pods; or name each control-plane host, e.g. --host-access=local:cp-1=/mnt/cp-1",
			},
		},
		got.Errors,
	); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]v1.Webhook{
		{
			Ref:            "MutatingWebhookConfiguration/outside/m.outside",
			FailurePolicy:  "Ignore",
			TimeoutSeconds: 3,
			URL:            "https://(masked)@hooks.example.com:8443/mutate?masked",
		},
		{
			Ref:               "ValidatingWebhookConfiguration/keeper/pods.keeper",
			FailurePolicy:     "Fail",
			TimeoutSeconds:    10,
			NamespaceSelector: "kubernetes.io/metadata.name notin (kube-system)",
			Service:           "policy/keeper",
			Ready:             ptr.To(1),
			Backend:           "Deployment/policy/keeper-pods",
			Rules:             []v1.WebhookRule{{Groups: []string{""}, Resources: []string{"pods"}, Operations: []string{"CREATE"}, Scope: "*"}},
		},
	}, got.Webhooks); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
	var workloads []string
	for _, w := range got.Workloads {
		workloads = append(workloads, fmt.Sprintf("%s %s %d/%d", w.Ref, w.Role, w.Ready, w.Replicas))
	}
	if diff := cmp.Diff([]string{"DaemonSet/kube-system/calico-node cni 3/3", "Deployment/policy/keeper-pods webhook 1/2"}, workloads); diff != "" {
		t.Errorf("workloads (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&v1.Volumes{
		PersistentVolumes: []v1.PersistentVolume{
			{
				Name:   "pv-1",
				Plugin: "kubernetes.io/aws-ebs",
				Handle: "aws://us-east-1a/vol-1",
				Zones:  []string{"topology.kubernetes.io/zone=us-east-1a"},
				Claim:  "shop/data",
			},
		},
		Claims: []v1.VolumeClaim{{Ref: "shop/data", Volume: "pv-1", Phase: "Bound"}},
		StorageClasses: []v1.StorageClass{{Name: "gp2", Provisioner: "kubernetes.io/aws-ebs", Default: true, Parameters: map[string]string{
			"type": "gp2", "csi.storage.k8s.io/provisioner-secret-name": "disks",
		}}},
		CSIDrivers: []string{"ebs.csi.aws.com"},
		CSINodes: []v1.CSINode{
			{
				Name:            "a",
				Drivers:         []v1.CSINodeDriver{{Name: "ebs.csi.aws.com", Limit: ptr.To[int32](25)}},
				MigratedPlugins: []string{"kubernetes.io/aws-ebs", "kubernetes.io/gce-pd"},
			},
		},
		Attachments: []v1.VolumeAttachment{{Name: "csi-1", Attacher: "ebs.csi.aws.com", Node: "a", Volume: "pv-1", Error: "detaching: timed out", Created: now}},
	}, got.Volumes); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]v1.ServiceEndpoints{{Service: "policy/keeper", Ready: 1, Total: 2}, {Service: "shop/web"}}, got.Endpoints); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]v1.DisruptionBudget{{Namespace: "shop", Name: "db", Expected: 1, Healthy: 1, Desired: 1}}, got.Budgets); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]v1.CertificateRequest{
		{Name: "csr-denied", SignerName: "kubernetes.io/kube-apiserver-client-kubelet", Username: "system:node:a", State: "Denied", Created: now},
		{Name: "csr-pending", SignerName: "kubernetes.io/kubelet-serving", Username: "system:node:a", State: "Pending", Created: now, Problem: "it holds no single PEM block"},
	}, got.CertificateRequests); diff != "" {
		t.Errorf("certificate requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]v1.MachineObject{
		{Ref: "Machine.cluster.k8s.io/kube-system/workers-1", Ready: ptr.To[int32](2), Node: "a", External: true},
		{Ref: "Machine.cluster.x-k8s.io/kube-system/capi-1", Ready: ptr.To[int32](2), Node: "a", Paused: true},
		{Ref: "MachineDeployment.cluster.k8s.io/kube-system/workers", Replicas: ptr.To[int32](3), Ready: ptr.To[int32](2), Node: "a", Autoscaled: true},
	}, got.Machines); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
	if k := got.Kubeadm; k == nil || k.ClusterName != "lab" || k.APIVersion != "kubeadm.k8s.io/v1beta3" {
		t.Errorf("kubeadm: %+v", k)
	}
	if k := got.KubeletDefaults; k == nil || k.Name != "kubelet-config-1.26" || !k.ServerTLSBootstrap || k.FeatureGates["CSIMigrationAWS"] {
		t.Errorf("kubelet defaults: %+v", k)
	}
	if diff := cmp.Diff(map[string]int{
		"nodes": 1, "services": 2, "pods in kube-system": 2, "deployments": 2, "daemonsets": 1, "statefulsets": 1, "persistentvolumes": 2, "volumeattachments": 1,
		"poddisruptionbudgets": 2, "certificatesigningrequests": 4, "namespaces": 1, "endpointslices": 2, "persistentvolumeclaims": 2,
	}, got.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if len(got.Clocks) != 1 || got.Clocks[0].Who != "api" || got.Clocks[0].UncertaintyMillis > 1500 ||
		max(got.Clocks[0].OffsetMillis, -got.Clocks[0].OffsetMillis) > 1500 {
		t.Errorf("clocks: %+v", got.Clocks)
	}
	if out := saved(t, got); strings.Contains(out, planted) {
		t.Error("a secret is in the snapshot")
	}
	if writes := s.Writes(); len(writes) > 0 {
		t.Errorf("gathering wrote: %q", writes)
	}
}

func TestAHostThatWasNotNamedIsKnownFromItsMirrorPods(t *testing.T) {
	got := Gather(t.Context(), live(t, everything(t)), collect.Options{})
	if len(got.Hosts) != 1 {
		t.Fatalf("hosts: %+v", got.Hosts)
	}
	h := got.Hosts[0]
	if h.Name != "a" || h.NodeName != "a" || !h.APIOnly || !h.ControlPlane || len(h.Components) != 1 {
		t.Fatalf("host: %+v", h)
	}
	if c := h.Components[0]; c.Name != component.KCM || c.Manifest != "Pod/kube-system/kube-controller-manager-a" || c.Flags["cluster-name"] != "lab" ||
		c.Pod == nil ||
		c.SHA256 != "" {
		t.Errorf("component: %+v", c)
	}
	if got.Cluster.Name != "lab" || got.Cluster.Provider != "aws" || len(got.Managers) != 0 {
		t.Errorf("cluster %+v, managers %+v", got.Cluster, got.Managers)
	}
}

// facts of lists, by what is denied. What one list lacks must not show as an empty fact, and must not take others with it.
var factsOfLists = map[string]string{
	"nodes":                           "nodes",
	"services":                        "services",
	"pods":                            "pods",
	"leases":                          "leases",
	"namespaces":                      "namespaces",
	"deployments":                     "workloads/deployments",
	"daemonsets":                      "workloads/daemonsets",
	"statefulsets":                    "workloads/statefulsets",
	"validatingwebhookconfigurations": "webhooks/validating",
	"mutatingwebhookconfigurations":   "webhooks/mutating",
	"endpointslices":                  "endpoints webhooks/endpoints",
	"events":                          "services/events",
	"persistentvolumes":               "volumes/persistentvolumes",
	"persistentvolumeclaims":          "volumes/claims",
	"storageclasses":                  "volumes/storageclasses",
	"csidrivers":                      "volumes/csidrivers",
	"csinodes":                        "volumes/csinodes",
	"volumeattachments":               "volumes/attachments",
	"poddisruptionbudgets":            "budgets",
	"certificatesigningrequests":      "csrs",
	"machines":                        "machines/cluster.k8s.io machines/cluster.x-k8s.io",
	"machinedeployments":              "machines/cluster.k8s.io machines/cluster.x-k8s.io",
	"machinesets":                     "machines/cluster.k8s.io machines/cluster.x-k8s.io",
	"machinehealthchecks":             "machines/cluster.x-k8s.io",
}

func TestEveryListThatIsForbiddenIsAnUnknownFact(t *testing.T) {
	asked := everything(t)
	Gather(t.Context(), live(t, asked), collect.Options{})
	var lists []string
	for request := range asked.Requests() {
		if resource, ok := strings.CutPrefix(request, "list "); ok {
			lists = append(lists, resource)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(factsOfLists)), slices.Sorted(slices.Values(lists))); diff != "" {
		t.Fatalf("lists that were asked for (-known to this test +asked):\n%s", diff)
	}
	for resource, want := range factsOfLists {
		t.Run(resource, func(t *testing.T) {
			s := everything(t)
			s.Deny("list", resource)
			got := Gather(t.Context(), live(t, s), collect.Options{})
			var facts []string
			for _, e := range got.Errors {
				if e.Fact == "hosts" {
					continue
				}
				facts = append(facts, e.Fact)
				if !strings.Contains(e.Error, `forbidden: User "tester" cannot list resource "`+resource+`"`) {
					t.Errorf("%s: %s", e.Fact, e.Error)
				}
			}
			if diff := cmp.Diff(want, strings.Join(slices.Compact(facts), " ")); diff != "" {
				t.Errorf("unknown facts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadsThatAreForbiddenAreUnknownFacts(t *testing.T) {
	for name, tc := range map[string]struct{ resource, want string }{
		"the namespace":  {"namespaces", "cluster/uid"},
		"the ConfigMaps": {"configmaps", "authorities kubeadm kubelet-defaults"},
	} {
		t.Run(name, func(t *testing.T) {
			s := everything(t)
			s.Deny("get", tc.resource)
			var facts []string
			for _, e := range Gather(t.Context(), live(t, s), collect.Options{}).Errors {
				if e.Fact != "hosts" {
					facts = append(facts, e.Fact)
				}
			}
			if got := strings.Join(facts, " "); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// An API server of 1.20 has EndpointSlices and PodDisruptionBudgets in v1beta1 only.
func TestGatherFromAnAPIServerOf120(t *testing.T) {
	s := everything(t)
	groups := slices.DeleteFunc(s.Groups(), func(gv string) bool { return gv == "policy/v1" || gv == "discovery.k8s.io/v1" })
	s.Serve(append(groups, "policy/v1beta1", "discovery.k8s.io/v1beta1")...)
	s.Delete("/apis/discovery.k8s.io/v1/namespaces/policy/endpointslices/keeper-x")
	s.Delete("/apis/discovery.k8s.io/v1/namespaces/policy/endpointslices/keeper-6")
	s.Delete("/apis/policy/v1/namespaces/shop/poddisruptionbudgets/db")
	s.Delete("/apis/policy/v1/namespaces/shop/poddisruptionbudgets/web")
	s.Put(
		t,
		&policyv1beta1.PodDisruptionBudget{
			ObjectMeta: meta("shop", "old"),
			Status:     policyv1beta1.PodDisruptionBudgetStatus{ExpectedPods: 2, CurrentHealthy: 1, DesiredHealthy: 1},
		},
		&discoveryv1beta1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "keeper-x", Labels: map[string]string{discoveryv1.LabelServiceName: "keeper"}},
			Endpoints:  []discoveryv1beta1.Endpoint{{Addresses: []string{"10.1.0.1"}}},
		},
	)
	got := Gather(t.Context(), live(t, s), collect.Options{})
	if len(got.Errors) != 1 || got.Errors[0].Fact != "hosts" {
		t.Errorf("errors: %+v", got.Errors)
	}
	if len(got.Budgets) != 1 || got.Budgets[0].Name != "old" || got.Budgets[0].Expected != 2 {
		t.Errorf("budgets: %+v", got.Budgets)
	}
	if ready := got.Webhooks[1].Ready; ready == nil || *ready != 1 {
		t.Errorf("webhook: %+v", got.Webhooks[1])
	}
}

func TestEndpointsStandInForSlices(t *testing.T) {
	s := everything(t)
	s.Serve(slices.DeleteFunc(s.Groups(), func(gv string) bool { return gv == "policy/v1" || gv == "discovery.k8s.io/v1" })...)
	s.Put(t, &corev1.Endpoints{ObjectMeta: meta("policy", "keeper"), Subsets: []corev1.EndpointSubset{{ //nolint:staticcheck // what old clusters have
		Addresses: []corev1.EndpointAddress{{IP: "10.1.0.1"}, {IP: "10.1.0.2"}}, NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.1.0.3"}},
	}}})
	got := Gather(t.Context(), live(t, s), collect.Options{})
	if ready := got.Webhooks[1].Ready; ready == nil || *ready != 2 {
		t.Errorf("webhook: %+v", got.Webhooks[1])
	}
	if got, want := why(got, "budgets"), "listing poddisruptionbudgets: the API server has neither policy/v1 nor policy/v1beta1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
