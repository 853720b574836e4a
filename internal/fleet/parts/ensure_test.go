package parts

import (
	"encoding/base64"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/fleet/machines"
)

const seedNamespace = "cluster-x"

// world is a seed and a user cluster.
type world struct {
	t          *testing.T
	seed, user *apitest.Server
	parts      Parts
}

// applies makes a server take server-side applies: the test's one only patches what is there.
func applies(s *apitest.Server) {
	var mu sync.Mutex
	there := map[string]bool{}
	s.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch") {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		if !there[r.URL.Path] {
			there[r.URL.Path] = true
			r.Method, r.URL.Path = http.MethodPost, path.Dir(r.URL.Path)
		}
		return false
	}
}

func newWorld(t *testing.T, provider string, minor int, managerArgs ...string) *world {
	t.Helper()
	w := &world{t: t, seed: apitest.New(t), user: apitest.New(t)}
	applies(w.user)
	w.parts = Parts{Name: "x", Namespace: seedNamespace, Provider: provider, Minor: minor, CCMReady: true, CSI: true}
	w.parts.Seed.Kube, w.parts.Seed.Dynamic = w.seed.Clients(t)
	w.parts.User.Kube, w.parts.User.Dynamic = w.user.Clients(t)
	w.seed.Put(t,
		deployment("controller-manager", append([]string{"--cloud-config=/etc/cloud/config"}, managerArgs...), func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "cloud", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "cloud"}}}}
			c := &d.Spec.Template.Spec.Containers[0]
			c.VolumeMounts = []corev1.VolumeMount{{Name: "cloud", MountPath: "/etc/cloud"}}
			c.Env = []corev1.EnvVar{
				secretEnv("AWS_ACCESS_KEY_ID", "id"),
				secretEnv("AWS_SECRET_ACCESS_KEY", "key"),
				{Name: "GOOGLE_APPLICATION_CREDENTIALS", Value: "/etc/cloud/account"},
			}
		}),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cloud", Namespace: seedNamespace}, Data: map[string][]byte{
			"id": []byte(
				"AKIATEST",
			),
			"key":     []byte("hush"),
			"account": []byte("{}"),
			"config":  []byte("[Global]\nauth-url=https://keystone\nusername=u\npassword=hush\ntenant-name=t\nregion=r\n"),
		}},
		deployment("operating-system-manager", []string{"-node-kubelet-feature-gates", "RotateKubeletServerCertificate=true"}, nil),
		deployment("machine-controller", []string{"-v", "4"}, nil),
		deployment("machine-controller-webhook", []string{"-command", `{"command":"/usr/local/bin/webhook","args":["-v","4"]}`}, nil))
	w.user.Put(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	return w
}

func secretEnv(name, key string) corev1.EnvVar {
	return corev1.EnvVar{
		Name:      name,
		ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "cloud"}, Key: key}},
	}
}

func deployment(name string, args []string, change func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: seedNamespace, Generation: 1},
		Spec: appsv1.DeploymentSpec{Replicas: pointer(int32(1)), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "sidecar", Image: "proxy"}, {Name: name, Image: name, Command: []string{"/" + name}, Args: args},
		}}}},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
	}
	if name == "controller-manager" {
		d.Spec.Template.Spec.Containers = d.Spec.Template.Spec.Containers[1:]
	}
	if change != nil {
		change(d)
	}
	return d
}

// ensure runs once and lets the workloads of the user cluster come up.
func (w *world) ensure() Result {
	w.t.Helper()
	r, err := w.parts.Ensure(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.up()
	return r
}

func (w *world) up() {
	apps := w.parts.User.Kube.AppsV1()
	for _, d := range w.deployments() {
		if d.Status.AvailableReplicas == 0 {
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}
			w.user.Put(w.t, &d)
		}
	}
	sets, err := apps.DaemonSets("").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range sets.Items {
		d.Status = appsv1.DaemonSetStatus{ObservedGeneration: d.Generation, DesiredNumberScheduled: 1, UpdatedNumberScheduled: 1, NumberReady: 1}
		w.user.Put(w.t, &d)
	}
}

func (w *world) deployments() []appsv1.Deployment {
	list, err := w.parts.User.Kube.AppsV1().Deployments("").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

func (w *world) args(name string) []string {
	w.t.Helper()
	d, err := w.parts.Seed.Kube.AppsV1().Deployments(seedNamespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return d.Spec.Template.Spec.Containers[1].Args
}

func TestNothingIsChangedBeforeTheCloudControllerManagerIsReady(t *testing.T) {
	w := newWorld(t, "aws", 26)
	w.parts.CCMReady = false
	r := w.ensure()
	if r.Ready || r.MachinesReady || r.CSIReady || len(r.Did) > 0 || len(w.seed.Writes())+len(w.user.Writes()) > 0 {
		t.Errorf("%+v; wrote %v %v", r, w.seed.Writes(), w.user.Writes())
	}
}

func TestMachinesAreMadeExternalOneComponentAfterTheOther(t *testing.T) {
	w := newWorld(t, "aws", 26)
	w.seed.Put(t, deployment("operating-system-manager", []string{"-v", "4"}, func(d *appsv1.Deployment) { d.Status.ObservedGeneration = 0 }))
	r := w.ensure()
	if !slices.Contains(w.args("operating-system-manager"), "-external-cloud-provider") ||
		slices.Contains(w.args("machine-controller"), "-node-external-cloud-provider") {
		t.Errorf("operating-system-manager %v, machine-controller %v: userdata has to come first", w.args("operating-system-manager"), w.args("machine-controller"))
	}
	if r.MachinesReady {
		t.Error("ready before it rolled out")
	}
	w.seed.Put(t, deployment("operating-system-manager", []string{"-v", "4", "-external-cloud-provider"}, nil))
	r = w.ensure()
	want := []string{"-command", `{"args":["-node-external-cloud-provider","-v","4"],"command":"/usr/local/bin/webhook"}`}
	if diff := cmp.Diff(want, w.args("machine-controller-webhook")); diff != "" || !r.MachinesReady {
		t.Errorf("webhook (-want +got):\n%s; %+v", diff, r)
	}
	before := len(w.seed.Writes())
	if r = w.ensure(); !r.Ready || len(r.Did) > 0 || len(w.seed.Writes()) != before {
		t.Errorf("a further call: %+v, wrote %v", r, w.seed.Writes()[before:])
	}
}

func TestGatesOfKubeletsFollowThoseOfTheManager(t *testing.T) {
	for name, c := range map[string]struct {
		minor int
		args  []string
		gates string
		want  []machines.Volume
	}{
		"on by itself":       {26, nil, "RotateKubeletServerCertificate=true", []machines.Volume{{Driver: "ebs.csi.aws.com", Plugin: "kubernetes.io/aws-ebs"}}},
		"off in the manager": {22, nil, "RotateKubeletServerCertificate=true", []machines.Volume{{Driver: "ebs.csi.aws.com"}}},
		"on in the manager": {
			22,
			[]string{"--feature-gates", "X=true,CSIMigrationAWS=true"},
			"RotateKubeletServerCertificate=true,CSIMigrationAWS=true",
			[]machines.Volume{{Driver: "ebs.csi.aws.com", Plugin: "kubernetes.io/aws-ebs"}},
		},
	} {
		w := newWorld(t, "aws", c.minor, c.args...)
		r := w.ensure()
		if diff := cmp.Diff(c.want, r.Volumes); diff != "" {
			t.Errorf("%s: volumes (-want +got):\n%s", name, diff)
		}
		if args := w.args("operating-system-manager"); !slices.Contains(args, c.gates) {
			t.Errorf("%s: %v", name, args)
		}
	}
}

func TestAClusterWithoutMachineControllerNeedsNoneOfIt(t *testing.T) {
	w := newWorld(t, "aws", 26)
	for _, c := range components {
		w.seed.Delete("/apis/apps/v1/namespaces/" + seedNamespace + "/deployments/" + c.deployment)
	}
	if r := w.ensure(); !r.MachinesReady {
		t.Errorf("got %+v", r)
	}
}

func TestAHibernatedComponentIsNotReady(t *testing.T) {
	w := newWorld(t, "aws", 26)
	w.seed.Put(t, deployment("machine-controller", []string{"-node-external-cloud-provider"}, func(d *appsv1.Deployment) {
		d.Spec.Replicas = pointer(int32(0))
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1}
	}))
	if r := w.ensure(); r.MachinesReady || !slices.Contains(r.Waiting, "Deployment machine-controller has no replicas") {
		t.Errorf("got %+v", r)
	}
}

func TestARolloutThatIsStuckIsNamed(t *testing.T) {
	w := newWorld(t, "aws", 26)
	w.seed.Put(t, deployment("machine-controller", []string{"-node-external-cloud-provider"}, func(d *appsv1.Deployment) {
		d.Status.AvailableReplicas = 0
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: "False", Reason: "ProgressDeadlineExceeded"}}
	}))
	if r := w.ensure(); r.MachinesReady || !strings.Contains(strings.Join(r.Waiting, "\n"), "ProgressDeadlineExceeded") {
		t.Errorf("got %+v", r)
	}
}

func TestTheDriverIsInstalledOnceWithTheManagersCredentials(t *testing.T) {
	for provider, want := range map[string]map[string]string{
		"aws": {
			"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "hush",
		}, "gce": {"cloud-sa.json": "{}"}, "openstack": {"cloud.conf": "password"}, "azure": {"azure.json": "[Global]"},
	} {
		t.Run(provider, func(t *testing.T) {
			w := newWorld(t, provider, 24)
			if r := w.ensure(); r.CSIReady {
				t.Errorf("ready before it runs: %+v", r)
			}
			r := w.ensure()
			if !r.Ready || r.CSIMessage != "the controller and the node part of the CSI driver run" {
				t.Errorf("got %+v", r)
			}
			secret, err := w.parts.User.Kube.CoreV1().Secrets(component.Namespace).Get(t.Context(), credentials, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for key, text := range want {
				if !strings.Contains(string(secret.Data[key]), text) {
					t.Errorf("key %s does not hold %q", key, text)
				}
			}
			writes := len(w.user.Writes())
			if r = w.ensure(); len(r.Did) > 0 || len(w.user.Writes()) != writes {
				t.Errorf("a further call did %v and wrote %v", r.Did, w.user.Writes()[writes:])
			}
		})
	}
}

func TestRotatedCredentialsRestartTheDriver(t *testing.T) {
	w := newWorld(t, "aws", 26)
	w.ensure()
	w.ensure()
	old := w.deployments()[0].Spec.Template.Annotations[credentialsAre]
	w.seed.Put(
		t,
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "cloud", Namespace: seedNamespace},
			Data:       map[string][]byte{"id": []byte("AKIANEW"), "key": []byte("new")},
		},
	)
	w.ensure()
	if now := w.deployments()[0].Spec.Template.Annotations[credentialsAre]; now == old || now == "" {
		t.Errorf("the pods are marked with %q, as before", now)
	}
	secret, err := w.parts.User.Kube.CoreV1().Secrets(component.Namespace).Get(t.Context(), credentials, metav1.GetOptions{})
	if err != nil || string(secret.Data["AWS_ACCESS_KEY_ID"]) != "AKIANEW" {
		t.Errorf("%v, %v", secret, err)
	}
}

func TestCredentialsAreInNoMessage(t *testing.T) {
	w := newWorld(t, "openstack", 24)
	w.seed.Put(
		t,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cloud", Namespace: seedNamespace}, Data: map[string][]byte{"config": []byte("[Global\npassword=hush")}},
	)
	r, err := w.parts.Ensure(t.Context())
	if err == nil || strings.Contains(err.Error(), "hush") || strings.Contains(strings.Join(append(r.Waiting, r.CSIMessage), " "), "hush") {
		t.Errorf("%v; %+v", err, r)
	}
	if !strings.Contains(err.Error(), "make Secret kube-system/transplant-csi-credentials with cloud.conf") {
		t.Errorf("nobody is told what to do: %v", err)
	}
	if !r.MachinesReady {
		t.Errorf("the half that could be done was not: %+v", r)
	}
	for _, text := range w.user.Writes() {
		if strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("hush"))) {
			t.Error(text)
		}
	}
}

func TestSomebodyElsesDriverIsLeftAlone(t *testing.T) {
	w := newWorld(t, "aws", 26)
	w.user.Put(t, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "ebs.csi.aws.com"}})
	r := w.ensure()
	if r.CSIReady || len(w.user.Writes()) > 0 || !strings.Contains(r.CSIMessage, "controller and node part does not run") {
		t.Errorf("%+v; wrote %v", r, w.user.Writes())
	}
	theirs := deployment("their-controller", nil, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[1].Image = "public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.35.0"
	})
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "their-node", Namespace: "storage"}, Spec: appsv1.DaemonSetSpec{Template: theirs.Spec.Template}}
	w.user.Put(t, theirs, set)
	if r = w.ensure(); !r.CSIReady || len(w.user.Writes()) > 0 {
		t.Errorf("%+v; wrote %v", r, w.user.Writes())
	}
}

func TestNoDriverWhereNoneIsWanted(t *testing.T) {
	w := newWorld(t, "aws", 26)
	w.parts.CSI = false
	if r := w.ensure(); !r.Ready || len(w.user.Writes()) > 0 || len(r.Volumes) > 0 {
		t.Errorf("%+v; wrote %v", r, w.user.Writes())
	}
}

func TestOnlyOneStorageClassIsTheDefault(t *testing.T) {
	for name, c := range map[string]struct {
		old  *storagev1.StorageClass
		want string
	}{
		"none is there":             {nil, "true"},
		"one is the default":        {&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "standard", Annotations: map[string]string{defaultClass: "true"}}}, ""},
		"one is by the old name":    {&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "standard", Annotations: map[string]string{oldDefault: "true"}}}, ""},
		"one is there, not default": {&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "standard"}}, "true"},
	} {
		w := newWorld(t, "aws", 26)
		if c.old != nil {
			w.user.Put(t, c.old)
		}
		w.ensure()
		got, err := w.parts.User.Kube.StorageV1().StorageClasses().Get(t.Context(), "ebs-sc", metav1.GetOptions{})
		if err != nil || got.Annotations[defaultClass] != c.want || got.Provisioner != "ebs.csi.aws.com" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestWithoutNodesADriverHasNothingToRunOn(t *testing.T) {
	w := newWorld(t, "aws", 26)
	w.user.Delete("/api/v1/nodes/n")
	if _, err := w.parts.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := w.parts.Ensure(t.Context()); err != nil || !r.CSIReady {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestAnUnreachableUserClusterDoesNotHoldUpTheSeed(t *testing.T) {
	w := newWorld(t, "aws", 26)
	w.user.Intercept = func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	r, err := w.parts.Ensure(t.Context())
	if err == nil || !r.MachinesReady || r.Ready {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestTheConfigOfVSphereIsTranslated(t *testing.T) {
	in := "[Global]\nuser = \"admin@vsphere.local\"\npassword = \"pa\\\"ss\"\ninsecure-flag = \"1\"\n[VirtualCenter \"vc.example\"]\ndatacenters = \"dc1\"\n[Workspace]\nserver = \"vc.example\"\ndatacenter = \"dc1\"\ndefault-datastore = \"ds\"\nfolder = \"f\"\n[Disk]\nscsicontrollertype = pvscsi\n"
	out, err := vsphereConfig([]byte(in), "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	want := "[Global]\ncluster-id = \"kubernetes\"\n\n[VirtualCenter \"vc.example\"]\nuser = \"admin@vsphere.local\"\npassword = \"pa\\\"ss\"\nport = \"443\"\ninsecure-flag = \"true\"\ndatacenters = \"dc1\"\n"
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := vsphereConfig([]byte("[Global]\nuser=u\n"), "k"); err == nil {
		t.Error("a config without a vCenter is taken")
	}
	without, err := vsphereConfig([]byte(in), "")
	if _, rest, _ := strings.Cut(want, "cluster-id = \"kubernetes\"\n"); err != nil || string(without) != rest {
		t.Errorf("of a driver that made its cluster-id itself: %q, %v", without, err)
	}
}

// TestTheClusterIDOfARunningDriverOfVSphereStays: the volumes that it has made are registered with it.
func TestTheClusterIDOfARunningDriverOfVSphereStays(t *testing.T) {
	for name, c := range map[string]struct{ have, want string }{
		"a new driver":                   {"", "x7k2p"},
		"ours":                           {"[Global]\ncluster-id = \"x7k2p\"\n", "x7k2p"},
		"another one, quoted":            {"[Global]\ncluster-id = \"compute \\\"1\\\"\"\n\n[VirtualCenter \"vc\"]\n", "compute \"1\""},
		"another one, as people write":   {"[Global]\n  Cluster-ID=compute-1\n[VirtualCenter \"vc\"]\n", "compute-1"},
		"one that the driver has itself": {"[VirtualCenter \"vc\"]\nuser = \"cluster-id\"\n", ""},
	} {
		if have := driverClusterID([]byte(c.have), "x7k2p"); have != c.want {
			t.Errorf("%s: %q, want %q", name, have, c.want)
		}
	}
}

func TestTheKeysOfARunningDriverAreNotTakenAway(t *testing.T) {
	w := newWorld(t, "aws", 26)
	w.ensure()
	w.seed.Put(t, deployment("controller-manager", []string{"--cloud-provider=external"}, nil)) // the migration is finished: no keys there any longer
	w.ensure()
	keys := func() string {
		secret, err := w.parts.User.Kube.CoreV1().Secrets(component.Namespace).Get(t.Context(), credentials, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(secret.Data["AWS_ACCESS_KEY_ID"])
	}
	if keys() != "AKIATEST" {
		t.Errorf("the key is %q", keys())
	}
	w.seed.Put(t, deployment("aws-cloud-controller-manager", nil, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[1].Env = []corev1.EnvVar{{Name: "AWS_ACCESS_KEY_ID", Value: "AKIACCM"}, {Name: "AWS_SECRET_ACCESS_KEY", Value: "x"}}
	}))
	w.ensure()
	if keys() != "AKIACCM" {
		t.Errorf("the key is %q, the cloud-controller-manager's is newer", keys())
	}
}

func TestADriverWithoutKeysUsesTheRoleOfItsInstance(t *testing.T) {
	w := newWorld(t, "aws", 26)
	w.seed.Put(t, deployment("controller-manager", nil, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{field("AWS_ACCESS_KEY_ID", "metadata.name")} // no key, whatever it is
	}))
	w.ensure()
	if r := w.ensure(); !r.CSIReady {
		t.Errorf("got %+v", r)
	}
}
