package seed

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/pki"
	"github.com/transplant-dev/transplant/lab/seed/component"
)

// Deployments of a control plane, as Kubermatic names them.
const (
	appAPIServer = "apiserver"
	appManager   = "controller-manager"
	appMachines  = "machine-controller"
	appWebhook   = "machine-controller-webhook"
	appOSM       = "operating-system-manager"
)

// The ranges of every user cluster.
const (
	podCIDR     = "10.200.0.0/16"
	serviceCIDR = "10.96.0.0/16"
)

const (
	pkiDir         = "/etc/kubernetes/pki"
	kubeconfigPath = "/etc/kubernetes/kubeconfig/kubeconfig"
	cloudConfig    = "/etc/kubernetes/cloud/config"
)

// CloudSecret is what a user cluster's Secret with cloud credentials holds: it may stand in no plan, journal, log,
// event or condition.
func CloudSecret(name string) string { return "canary-of-" + name + "-never-to-be-seen" }

func appLabels(app string) map[string]string { return map[string]string{"app": app} }

// part is what differs between the Deployments.
type part struct {
	app, image, command string
	replicas            int32
	args                []string
	secrets             map[string]string // Secret -> directory
	configMaps          map[string]string
	env                 []corev1.EnvVar
	ready               *corev1.Probe
}

func secure(port int32, path string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(port), Scheme: corev1.URISchemeHTTPS},
		},
		PeriodSeconds:    1,
		TimeoutSeconds:   10,
		FailureThreshold: 3,
	}
}

func plain(port int32, path string) *corev1.Probe {
	p := secure(port, path)
	p.HTTPGet.Scheme = corev1.URISchemeHTTP
	return p
}

// deployment puts a part into Kubermatic's shape. A part that is wrapped is started by http-prober once the user
// cluster's API answers.
func (c *Cluster) deployment(p part) (*appsv1.Deployment, error) {
	container := corev1.Container{
		Name:           p.app,
		Image:          p.image,
		Command:        []string{p.command},
		Args:           p.args,
		ReadinessProbe: p.ready,
		Env: append(
			[]corev1.EnvVar{
				{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			},
			p.env...),
	}
	if c.Wrapped && p.app != appAPIServer {
		inner, err := json.Marshal(map[string]any{"command": p.command, "args": p.args})
		if err != nil {
			return nil, fmt.Errorf("encoding command of %s: %w", p.app, err)
		}
		container.Command = []string{"/http-prober-bin/" + component.Prober}
		container.Args = []string{
			"-endpoint",
			c.Server() + "/healthz",
			"-insecure",
			"-retries",
			"100",
			"-retry-wait",
			"2",
			"-timeout",
			"1",
			"-command",
			string(inner),
		}
	}
	spec := corev1.PodSpec{
		AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(10)),
	}
	mount := func(name, path string, source corev1.VolumeSource) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		container.VolumeMounts = append(
			container.VolumeMounts,
			corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: true},
		)
	}
	for name, path := range p.secrets {
		mount(name, path, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}})
	}
	for name, path := range p.configMaps {
		mount(
			name,
			path,
			corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
			},
		)
	}
	spec.Containers = []corev1.Container{container}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: p.app, Labels: appLabels(p.app)},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(max(1, p.replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: appLabels(p.app)},
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(1)),
				},
			},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: appLabels(p.app)}, Spec: spec},
		},
	}, nil
}

func (c *Cluster) apiServer() part {
	return part{
		app:      appAPIServer,
		image:    "registry.k8s.io/kube-apiserver:" + c.Version,
		command:  "/usr/local/bin/kube-apiserver",
		replicas: c.APIServers,
		secrets: map[string]string{
			"control-plane-pki": pkiDir,
		},
		configMaps: map[string]string{"cloud-config": "/etc/kubernetes/cloud"},
		ready:      secure(6443, "/readyz"),
		args: append([]string{
			"--bind-address=$(POD_IP)",
			"--advertise-address=$(POD_IP)",
			"--secure-port=" + portAPI,
			"--etcd-servers=https://" + net.JoinHostPort(c.seed.etcdHost(), "2379"),
			"--etcd-prefix=/" + c.Name,
			"--etcd-cafile=" + pkiDir + "/seed-etcd-ca.crt",
			"--etcd-certfile=" + pkiDir + "/seed-etcd-client.crt",
			"--etcd-keyfile=" + pkiDir + "/seed-etcd-client.key",
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			"--allow-privileged=true",
			"--client-ca-file=" + pkiDir + "/ca.crt",
			"--tls-cert-file=" + pkiDir + "/apiserver.crt",
			"--tls-private-key-file=" + pkiDir + "/apiserver.key",
			"--requestheader-client-ca-file=" + pkiDir + "/front-proxy-ca.crt",
			"--requestheader-allowed-names=front-proxy-client",
			"--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + pkiDir + "/sa.pub",
			"--service-account-signing-key-file=" + pkiDir + "/sa.key",
			"--service-cluster-ip-range=" + serviceCIDR,
			"--endpoint-reconciler-type=none",
		}, append(c.providerFlags(), c.kindFlags(cluster.APIServer, map[string]string{})...)...),
	}
}

// providerFlags are those of the in-tree provider. The cloud config is mounted without them as well, as Kubermatic does
// it.
func (c *Cluster) providerFlags() []string {
	if c.External {
		return nil
	}
	return []string{"--cloud-provider", c.provider(), "--cloud-config", cloudConfig}
}

// provider is the in-tree provider's name.
func (c *Cluster) provider() string {
	if c.Kind != nil {
		return c.Kind.Provider()
	}
	return "aws"
}

// kindFlags are those that a kind of cloud has a component started with.
func (c *Cluster) kindFlags(of string, flags map[string]string) (out []string) {
	if c.Kind != nil && !c.External {
		maps.Copy(flags, c.Kind.Flags(of))
	}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		out = append(out, "--"+name+"="+flags[name])
	}
	return out
}

func (c *Cluster) controllerManager() part {
	return part{
		app:      appManager,
		image:    "registry.k8s.io/kube-controller-manager:" + c.Version,
		command:  "/usr/local/bin/kube-controller-manager",
		replicas: c.Managers,
		secrets: map[string]string{
			"control-plane-pki":            pkiDir,
			"controllermanager-kubeconfig": "/etc/kubernetes/kubeconfig",
		},
		configMaps: map[string]string{"cloud-config": "/etc/kubernetes/cloud"},
		ready:      secure(10257, "/healthz"),
		env:        c.cloudEnv(),
		args: append([]string{
			"--bind-address",
			"$(POD_IP)",
			"--kubeconfig",
			kubeconfigPath,
			"--authentication-kubeconfig",
			kubeconfigPath,
			"--authorization-kubeconfig",
			kubeconfigPath,
			"--service-account-private-key-file",
			pkiDir + "/sa.key",
			"--root-ca-file",
			pkiDir + "/ca.crt",
			"--client-ca-file",
			pkiDir + "/ca.crt",
			"--cluster-signing-cert-file",
			pkiDir + "/ca.crt",
			"--cluster-signing-key-file",
			pkiDir + "/ca.key",
			"--controllers",
			"*,bootstrapsigner,tokencleaner",
			"--use-service-account-credentials=true",
			"--allocate-node-cidrs=true",
			"--cluster-cidr",
			podCIDR,
			"--service-cluster-ip-range",
			serviceCIDR,
			"--flex-volume-plugin-dir=" + pkiDir + "/flex",
		}, append(c.kindFlags(cluster.ControllerManager, map[string]string{
			"configure-cloud-routes": strconv.FormatBool(!c.NoRoutes),
		}), c.providerFlags()...)...),
	}
}

// cloudEnv is how a manager calls its cloud. The kubelet makes the access key the name of the pod, see accessKey.
func (c *Cluster) cloudEnv() []corev1.EnvVar {
	if c.Kind != nil {
		return c.Kind.ManagerEnv(nil, cluster.ControllerManager, net.JoinHostPort(c.cloud, portAccount))
	}
	from := func(key string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "cloud-credentials"},
				Key:                  key,
			},
		}
	}
	return []corev1.EnvVar{
		{
			Name:      "AWS_ACCESS_KEY_ID",
			ValueFrom: from("accessKeyId"),
		},
		{Name: "AWS_SECRET_ACCESS_KEY", ValueFrom: from("secretAccessKey")},
		{Name: "AWS_EC2_METADATA_DISABLED", Value: "true"},
	}
}

// OperatorNamespace is where the operator is installed.
const OperatorNamespace = "transplant-system"

// GrantOperator gives the operator that is installed in a namespace its rights in another one, with the RoleBinding
// that transplant fleet rights prints.
func GrantOperator(ctx context.Context, client kubernetes.Interface, installed, namespace string) error {
	name := "transplant-operator"
	if installed != OperatorNamespace {
		name += "-of-" + installed
	}
	rights := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName,
			Kind:     "ClusterRole",
			Name:     "transplant-operator-control-plane",
		},
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.ServiceAccountKind, Name: "transplant-operator", Namespace: installed},
		},
	}
	if _, err := client.RbacV1().
		RoleBindings(namespace).
		Create(ctx, rights, metav1.CreateOptions{}); existing(
		err,
	) != nil {
		return fmt.Errorf("creating the operator's rights: %w", err)
	}
	return nil
}

// install creates the namespace with everything that the API server and the managers need, and their Deployments.
func (c *Cluster) install(ctx context.Context, dir string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace}}
	if _, err := c.seed.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); existing(err) != nil {
		return fmt.Errorf("creating namespace: %w", err)
	}
	if err := GrantOperator(ctx, c.seed.client, OperatorNamespace, c.Namespace); err != nil {
		return err
	}
	certs, err := c.certificates(dir)
	if err != nil {
		return err
	}
	secrets := map[string]map[string][]byte{
		"control-plane-pki": certs,
		"cloud-credentials": {
			"accessKeyId":     []byte("AKIALAB" + strings.ToUpper(c.Name)),
			"secretAccessKey": []byte(CloudSecret(c.Name)),
		},
	}
	for name, id := range map[string]pki.Identity{
		"admin-kubeconfig": pki.Admin, "controllermanager-kubeconfig": pki.ControllerManager,
		"machinecontroller-kubeconfig": {User: "machine-controller", Groups: []string{"system:masters"}},
	} {
		data, err := c.pki.Kubeconfig(c.Server(), id)
		if err != nil {
			return err
		}
		secrets[name] = map[string][]byte{"kubeconfig": data}
	}
	for name, data := range secrets {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
		if _, err := c.seed.client.CoreV1().
			Secrets(c.Namespace).
			Create(ctx, s, metav1.CreateOptions{}); existing(
			err,
		) != nil {
			return fmt.Errorf("creating Secret %q: %w", name, err)
		}
	}
	endpoint := net.JoinHostPort(c.cloud, portAccount)
	config := cluster.CloudConfig("http://" + endpoint)
	if p, ok := c.account.cloud.(*places); ok {
		config = c.Kind.Config(p.hosts[0], endpoint) // a manager of vSphere says that it runs on some machine
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cloud-config"}, Data: map[string]string{"config": config}}
	if _, err := c.seed.client.CoreV1().
		ConfigMaps(c.Namespace).
		Create(ctx, m, metav1.CreateOptions{}); existing(
		err,
	) != nil {
		return fmt.Errorf("creating ConfigMap %q: %w", m.Name, err)
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "apiserver-external"},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeNodePort,
			Selector: appLabels(appAPIServer),
			Ports: []corev1.ServicePort{{
				Name: "secure", Port: 443, TargetPort: intstr.FromString(portAPI),
			}},
		},
	}
	service.Spec.Ports[0].TargetPort = intstr.FromInt32(6443)
	if _, err := c.seed.client.CoreV1().
		Services(c.Namespace).
		Create(ctx, service, metav1.CreateOptions{}); existing(
		err,
	) != nil {
		return fmt.Errorf("creating Service %q: %w", service.Name, err)
	}
	if err := c.deploy(ctx, c.apiServer()); err != nil {
		return err
	}
	// A manager that finds no API server ends, and its back-off would be added to the start.
	if err := Await(ctx, "the API server of "+c.Name, func(context.Context) error {
		if len(c.seed.readyPods(c.Namespace, labelsOf(appAPIServer))) == 0 {
			return fmt.Errorf("no pod is ready: %w", c.troubles())
		}
		return nil
	}); err != nil {
		return err
	}
	return c.deploy(ctx, c.controllerManager())
}

func (c *Cluster) deploy(ctx context.Context, p part) error {
	d, err := c.deployment(p)
	if err != nil {
		return err
	}
	if _, err := c.seed.client.AppsV1().
		Deployments(c.Namespace).
		Create(ctx, d, metav1.CreateOptions{}); existing(
		err,
	) != nil {
		return fmt.Errorf("creating Deployment %q: %w", p.app, err)
	}
	return nil
}

// certificates are the files of pkiDir, by name; what lies in a directory has it in its name.
func (c *Cluster) certificates(dir string) (map[string][]byte, error) {
	own, err := c.frontHost()
	if err != nil {
		return nil, err
	}
	at := filepath.Join(dir, "pki")
	if err := c.pki.WriteControlPlane(
		at,
		pki.APIServer{NodeName: c.Name, Addresses: []string{own, "10.96.0.1"}},
	); err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	read := func(key, path string) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading certificates: %w", err)
		}
		out[key] = data
		return nil
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), "apiserver-etcd-client") {
			continue
		}
		if err := read(e.Name(), filepath.Join(at, e.Name())); err != nil {
			return nil, err
		}
	}
	seedPKI := filepath.Join(c.seed.opts.Dir, "seed", "pki")
	for key, path := range map[string]string{
		"seed-etcd-ca.crt": "etcd/ca.crt", "seed-etcd-client.crt": "apiserver-etcd-client.crt", "seed-etcd-client.key": "apiserver-etcd-client.key",
	} {
		if err := read(key, filepath.Join(seedPKI, path)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *Cluster) frontHost() (string, error) {
	host, _, err := net.SplitHostPort(c.front.Addr())
	return host, err
}

func (s *Seed) etcdHost() string {
	host, _, _ := net.SplitHostPort(s.api.Address()) // it has both
	return host
}

// machineParts are the simulated parts of Kubermatic.
func (c *Cluster) machineParts() []part {
	secrets := func(more ...string) map[string]string {
		out := map[string]string{"machinecontroller-kubeconfig": "/etc/kubernetes/kubeconfig"}
		for _, m := range more {
			out[m] = "/etc/machine-controller/tls"
		}
		return out
	}
	machines := []corev1.EnvVar{{Name: component.EnvMachines, Value: "http://" + net.JoinHostPort(c.cloud, portMachines)}}
	return slices.Clone([]part{
		{
			app:     appOSM,
			image:   ImageOSM + ":v1.2.0",
			command: "/usr/local/bin/osm-controller",
			secrets: secrets(),
			ready:   plain(8085, "/readyz"),
			args: []string{
				"-worker-cluster-kubeconfig",
				kubeconfigPath,
				"-cluster-dns",
				"10.96.0.10",
				"-health-probe-address",
				"0.0.0.0:8085",
				"-metrics-address",
				"0.0.0.0:8080",
				"-namespace",
				c.Namespace,
			},
		},
		{
			app: appWebhook, image: ImageMachineController + ":v1.54.0", command: "/usr/local/bin/webhook",
			secrets: secrets("machinecontroller-webhook-serving-cert"), ready: secure(9876, "/healthz"),
			args: []string{
				"-kubeconfig",
				kubeconfigPath,
				"-listen-address",
				"0.0.0.0:9876",
				"-tls-cert-path",
				"/etc/machine-controller/tls/cert.pem",
				"-tls-key-path",
				"/etc/machine-controller/tls/key.pem",
				"-namespace",
				c.Namespace,
			},
		},
		{
			app:     appMachines,
			image:   ImageMachineController + ":v1.54.0",
			command: "/usr/local/bin/machine-controller",
			secrets: secrets(),
			env:     machines,
			ready:   plain(8085, "/readyz"),
			args: []string{
				"-kubeconfig",
				kubeconfigPath,
				"-cluster-dns",
				"10.96.0.10",
				"-health-probe-address",
				"0.0.0.0:8085",
				"-metrics-address",
				"0.0.0.0:8080",
			},
		},
	})
}
