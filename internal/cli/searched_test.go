package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/mask/canary"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
)

// searchedCommand is how a command is run when what it says and saves is searched for secrets, once for each format of its -o.
type searchedCommand struct {
	// on is the cluster: "fresh", "begun" (with a journal) or "fleet"; empty for none.
	on   string
	args []string
	// whyNot says why a command is not searched.
	whyNot string
}

// Words of a searched command that stand for files of the test.
const (
	outFile      = "OUT"
	snapshotFile = "SNAPSHOT"
)

// searched are all commands. One that is missing here fails the test.
var searched = map[string]searchedCommand{
	"check":            {on: "fresh"},
	"plan":             {on: "fresh", args: []string{"--out", outFile}},
	"snapshot":         {on: "fresh", args: []string{"--out", outFile}},
	"diff":             {on: "fresh"},
	"explain":          {on: "fresh", args: []string{"KUBELET-008", "--from-snapshot", snapshotFile}},
	"probe":            {on: "fresh", args: []string{"--for", "50ms"}},
	"renew":            {on: "fresh", args: []string{"--host=cp-1,cp-2", "--all"}},
	"remove-orphans":   {on: "fresh", args: []string{"--cloud=openstack", "--cloud-program=/dev/null", "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"}},
	"bundle":           {on: "begun", args: []string{"--out", outFile}},
	"status":           {on: "begun", args: []string{"--details", "nodes"}},
	"timeline":         {on: "begun"},
	"verify":           {on: "begun"},
	"report":           {on: "begun", args: []string{"--out", outFile}},
	"apply":            {on: "begun", args: []string{"--dry-run"}},
	"rollback":         {on: "begun", args: []string{"--dry-run"}},
	"pause":            {on: "begun", args: []string{"--reason", "export OS_PASSWORD=CanaryOfAReason7hunter2"}},
	"resume":           {on: "begun"},
	"unlock":           {on: "begun", args: []string{"--yes"}},
	"version":          {},
	"fleet":            {},
	"fleet status":     {on: "fleet"},
	"fleet plan":       {on: "fleet", args: []string{"--details", "none"}},
	"fleet apply":      {on: "fleet", args: []string{"--dry-run"}},
	"fleet rights":     {on: "fleet"},
	"host-agent serve": {whyNot: "it answers this program alone, through a socket of its pod"},
	"host-agent relay": {whyNot: "it joins two streams of this program"},
}

// formatsOf are the values of a command's -o; one empty one where it has no such flag.
func formatsOf(t *testing.T, cmd *cobra.Command) []string {
	t.Helper()
	flag := cmd.Flags().Lookup("output")
	if flag == nil {
		return []string{""}
	}
	f, ok := flag.Value.(*printer.Format)
	if !ok {
		t.Fatalf("-o of %s has no list of formats", cmd.CommandPath())
	}
	return f.Allowed
}

// TestEveryCommandIsSearchedForSecretsInEveryFormat goes through the commands as they are. A new one has to be added to the table, and each of
// its formats is run.
func TestEveryCommandIsSearchedForSecretsInEveryFormat(t *testing.T) {
	known := map[string]bool{}
	s := newSearch(t)
	var all func(cmd *cobra.Command)
	all = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			all(sub)
		}
		name := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "transplant"), " ")
		if name == "" || !cmd.Runnable() {
			return
		}
		how, found := searched[name]
		if known[name] = true; !found {
			t.Errorf("command %q is searched for no secret: add it to the table", name)
		} else if how.whyNot == "" {
			for _, format := range formatsOf(t, cmd) {
				s.search(t, name, how, format)
			}
		}
	}
	all(newRoot(console.Streams{}, "transplant"))
	s.watches(t)
	for name := range searched {
		if !known[name] {
			t.Errorf("there is no command %q: take it off the table", name)
		}
	}
	if !strings.Contains(s.shown.String(), "(masked)") {
		t.Error("nothing is said to be masked, so that nothing is proven")
	}
}

// search are the clusters in which secrets are planted, and the secrets.
type search struct {
	fresh, begun *live
	fleet        *seedWorld
	snapshot     string
	step         string // of the run in begun, which has not ended
	secrets      canary.Secrets
	shown        strings.Builder
}

func newSearch(t *testing.T) *search {
	t.Helper()
	s := &search{secrets: canary.Secrets{}}
	for _, at := range []**live{&s.fresh, &s.begun} {
		c, secrets := withCanaries(t)
		*at = c
		for secret, where := range secrets {
			s.secrets[secret] = where
		}
		c.plantEverywhere(s.secrets)
	}
	s.snapshot = filepath.Join(t.TempDir(), "snapshot.yaml")
	if r := s.fresh.run("snapshot", "--out", s.snapshot); r.code != exitcode.OK {
		t.Fatal(r.text(nil))
	}
	s.step = s.begun.plantJournal(s.secrets)
	s.fleet = filled(t)
	_, planted := canary.PlantError()
	for _, name := range s.fleet.names() {
		s.fleet.phase(name, kubermaticv1.PhaseFailed, planted.Error())
		s.fleet.patch(name, `{"metadata":{"annotations":{"example.com/api_key":"`+s.secret("an annotation of a Cluster")+`"}}}`)
	}
	s.secrets["CanaryOfAReason7hunter2"] = "the reason of a pause"
	return s
}

// secret is a new secret that is planted at a place.
func (s *search) secret(where string) string { return plant(s.secrets, where) }

func plant(secrets canary.Secrets, where string) string {
	secret := "Canary" + strings.Map(func(r rune) rune {
		if strings.ContainsRune(" '.:-/", r) {
			return -1
		}
		return r
	}, where) + "7hunter2"
	secrets[secret] = where
	return secret
}

// plantEverywhere puts secrets where withCanaries has none: into manifests, kubeconfigs, ConfigMaps, workloads, Nodes, pods, events, Leases, Services and logs.
func (c *live) plantEverywhere(secrets canary.Secrets) {
	c.t.Helper()
	_, texts := canary.Plant()
	all := strings.Join(texts, "\n")
	c.plantInFiles(texts)
	for _, host := range []string{"cp-1", "cp-2"} {
		c.write(host, planlayout.KCMKubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: kcm\n"+
			"clusters: [{name: lab, cluster: {server: https://10.0.0.1:6443}}]\ncontexts: [{name: kcm, context: {cluster: lab, user: kcm}}]\n"+
			"users: [{name: kcm, user: {token: "+plant(secrets, "a kubeconfig of a host")+", client-key-data: "+plant(secrets, "a key of a host's kubeconfig")+"}}]\n")
	}
	c.plantOwnKubeconfig(secrets)
	annotations := map[string]string{
		"example.com/api_key": plant(secrets, "an annotation's name"), "example.com/values": `{"dbPass":"` + plant(secrets, "an annotation's JSON") + `"}`,
		"example.com/cmd": "x --token " + plant(secrets, "an annotation's script"), corev1.LastAppliedConfigAnnotation: plant(secrets, "kubectl's copy"),
	}
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations, Labels: map[string]string{"app": "x"}}
	}
	env := []corev1.EnvVar{{Name: "DB_PASS", Value: plant(secrets, "the environment of a workload")}, {Name: "HTTPS_PROXY", Value: "http://u:" + plant(secrets, "a proxy") + "@proxy"}}
	template := corev1.PodTemplateSpec{ObjectMeta: meta("", ""), Spec: corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "p", Image: "registry.k8s.io/sig-storage/csi-provisioner:v4", Env: env,
			Args: append([]string{"--db-pass", plant(secrets, "the arguments of a workload")}, texts...),
		}},
		Volumes: []corev1.Volume{{Name: "c", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cloud-config"}},
		}}},
	}}
	at := metav1.NewTime(time.Now().Add(-time.Second)) // by the clock of the API server, or they would be old
	now := metav1.NewMicroTime(client.Now())
	c.api.Put(c.t,
		&appsv1.DaemonSet{ObjectMeta: meta("kube-system", "csi"), Spec: appsv1.DaemonSetSpec{Template: template}},
		&corev1.ConfigMap{ObjectMeta: meta("kube-system", "cloud-config"), Data: map[string]string{"cloud.conf": "[Global]\npassword = " + plant(secrets, "a ConfigMap with a cloud config") + "\n"}},
		&corev1.ConfigMap{ObjectMeta: meta("kube-system", "kubeadm-config"), Data: map[string]string{"ClusterConfiguration": "apiVersion: kubeadm.k8s.io/v1beta3\n" +
			"kind: ClusterConfiguration\nkubernetesVersion: v1.26.0\ncertificateKey: " + plant(secrets, "a ConfigMap's certificate key") + "\napiServer:\n  extraArgs:\n    api_key: " + plant(secrets, "kubeadm's arguments") + "\n"}},
		&corev1.ConfigMap{ObjectMeta: meta("kube-system", "kubelet-config"), Data: map[string]string{"kubelet": "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n" +
			"staticPodURLHeader: {Authorization: [" + plant(secrets, "the ConfigMap of kubelets") + "]}\n"}},
		&corev1.Service{ObjectMeta: meta("shop", "web"), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}, Status: corev1.ServiceStatus{
			Conditions: []metav1.Condition{{Type: "x", Message: all}}}},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "e1"}, Type: "Warning", Reason: "Failed", Message: all, LastTimestamp: at,
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "kube-system", Name: "x"}},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e2"}, Type: "Warning", Reason: "Failed", Message: all, LastTimestamp: at,
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "node-cp-1"}},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e3"}, Type: "Warning", Reason: "SyncLoadBalancerFailed", Message: all, LastTimestamp: at,
			InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "shop", Name: "web"}, Source: corev1.EventSource{Component: "service-controller"}},
		&coordinationv1.Lease{
			ObjectMeta: meta("kube-system", "canary"),
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("password=" + plant(secrets, "the holder of a Lease")), RenewTime: &now},
		},
	)
	c.plantInStatuses(annotations, all)
	logging(c.api, func(w http.ResponseWriter, _ *http.Request) {
		for _, text := range texts {
			_, _ = io.WriteString(w, "2026-11-21T12:00:00Z E1121 controller.go:7] \x1b[31m"+text+"\x1b[0m\n")
		}
		_, _ = io.WriteString(w, "cut through: token="+strings.Repeat("x", 100_000)+"\npassword: CanaryOfALog7hunter2\n--token\nCanaryOfALog7hunter2\n")
	})
	secrets["CanaryOfALog7hunter2"] = "a log"
}

// plantInStatuses has the objects that are there say secrets: Nodes and the pods of the control plane.
func (c *live) plantInStatuses(annotations map[string]string, all string) {
	c.t.Helper()
	for path := range c.api.Objects() {
		var node corev1.Node
		var pod corev1.Pod
		switch {
		case strings.HasPrefix(path, "/api/v1/nodes/") && c.api.Get(c.t, path, &node):
			node.Annotations = annotations
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "NetworkUnavailable", Status: "True", Reason: "x", Message: all})
			c.api.Put(c.t, &node)
		case strings.HasPrefix(path, "/api/v1/namespaces/kube-system/pods/") && c.api.Get(c.t, path, &pod):
			for name, value := range annotations {
				pod.Annotations[name] = value
			}
			pod.Status.Message = all
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "ContainersReady", Status: "False", Message: all})
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: pod.Spec.Containers[0].Name, RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: all}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: all}},
			}}
			c.api.Put(c.t, &pod)
		}
	}
}

// plantOwnKubeconfig has the operator reach the cluster by an address with a password, and a token.
func (c *live) plantOwnKubeconfig(secrets canary.Secrets) {
	c.t.Helper()
	k, err := clientcmd.LoadFromFile(c.kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	for name := range k.Clusters {
		k.Clusters[name].Server = strings.Replace(c.api.URL, "://", "://jane:"+plant(secrets, "the address of the API server")+"@", 1)
	}
	for name := range k.AuthInfos {
		k.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: plant(secrets, "the token of the administrator")}
	}
	c.kubeconfig = filepath.Join(c.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*k, c.kubeconfig); err != nil {
		c.t.Fatal(err)
	}
}

// plantJournal begins a migration as an earlier version may have: its records hold secrets in sentences, and in what objects were like before. It
// returns the step that has failed.
func (c *live) plantJournal(secrets canary.Secrets) string {
	c.t.Helper()
	out := filepath.Join(c.t.TempDir(), "plan.yaml")
	accept := []string{"--accept", "CLOUD-001=none", "--accept", "KUBELET-008=none", "--accept", "SCHED-003=none"}
	if r := c.run(append([]string{"plan", "--out", out}, accept...)...); r.code != exitcode.OK {
		c.t.Fatal(r.text(nil))
	}
	p, err := client.ReadPlan(out)
	if err != nil {
		c.t.Fatal(err)
	}
	_, planted := canary.PlantError()
	doc := v1.Journal{Run: "20261121-120000", Started: client.Now(), Phase: v1.RunApplying, User: "ops", Plan: *p}
	for i, s := range p.Steps[:min(8, len(p.Steps))] {
		r := v1.StepRecord{ID: s.ID, Started: client.Now(), Result: v1.StepResultDone, Notes: []string{planted.Error()}, Created: true}
		if r.Path == "" && s.Kind == v1.StepPatchObject || i == 0 {
			r.Before = `{"metadata":{"annotations":{"note":"` + plant(secrets, "what an object was like before") + `"}}}`
		}
		if i == 7 {
			r.Result, r.Error, r.Notes = v1.StepResultFailed, planted.Error(), nil
			r.Flags = map[string]string{"api_key": plant(secrets, "a flag of a kubelet's process")}
		}
		doc.Records = append(doc.Records, r)
	}
	doc.Pauses = []v1.PauseRecord{{Pause: v1.Pause{Run: doc.Run, By: "boss@desk", At: client.Now(), Reason: planted.Error()}, From: client.Now()}}
	kube, _ := c.api.Clients(c.t)
	if _, err := journal.Create(c.t.Context(), kube, doc, c.snapshot()); err != nil {
		c.t.Fatal(err)
	}
	return p.Steps[7].ID
}

// search runs a command in one format, and looks for secrets in all that it says and saves.
func (s *search) search(t *testing.T, name string, how searchedCommand, format string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	args := strings.Fields(name)
	for _, arg := range how.args {
		args = append(args, strings.NewReplacer(outFile, out, snapshotFile, s.snapshot).Replace(arg))
	}
	if format != "" {
		args = append(args, "-o", format)
	}
	var r result
	switch how.on {
	case "fresh":
		if name == "explain" {
			r = transplant(t, args...)
			break
		}
		r = s.fresh.run(args...)
	case "begun":
		if name == "unlock" {
			s.begun.lock("OS_PASSWORD=" + s.secret("the holder of the lock"))
			was := client.LockClock
			client.LockClock = impatient{was, func() {}}
			defer func() { client.LockClock = was }()
		}
		r = s.begun.run(args...)
		var control corev1.ConfigMap
		s.begun.api.Get(t, "/api/v1/namespaces/kube-system/configmaps/"+pause.ControlName, &control)
		if found := s.secrets.In(fmt.Sprint(control.Data)); len(found) > 0 {
			t.Errorf("%v keeps the secret of %q in ConfigMap %s", args, found, pause.ControlName)
		}
	case "fleet":
		r = s.fleet.run(args[1:]...)
	default:
		r = transplant(t, args...)
	}
	if strings.Contains(r.errOut, "unknown flag") || strings.Contains(r.errOut, "unknown command") || r.out == "" && strings.Contains(r.errOut, "Usage:") {
		t.Errorf("%v was not run: %s", args, r.errOut)
	}
	noSecret(t, r, s.secrets)
	s.shown.WriteString(r.out + r.errOut)
	if _, err := os.Stat(out); err != nil {
		if slices.Contains(how.args, outFile) {
			t.Errorf("%v saved nothing:\n%s", args, r.text(nil))
		}
		return
	}
	files := map[string]string{}
	if name == "bundle" {
		files = unpacked(t, out)
	} else if data, err := os.ReadFile(out); err != nil {
		t.Fatal(err)
	} else {
		files["the file"] = string(data)
	}
	for where, text := range files {
		s.shown.WriteString(text)
		if found := s.secrets.In(text); len(found) > 0 {
			t.Errorf("%v saves the secret of %q in %s", args, found, where)
		}
	}
}

// TestNoCloudConfigIsShownInAnyDialect has the managers of each provider read a config with secrets, as a file of a host.
func TestNoCloudConfigIsShownInAnyDialect(t *testing.T) {
	for dialect, c := range map[string]struct{ provider, config string }{
		"aws, INI":       {"aws", "[Global]\nVPC = vpc-1\nRoleARN = arn:aws:iam::1:role/r\n# password = SECRET\n[ServiceOverride \"1\"]\nService = ec2\nURL = https://jane:SECRET@ec2.example.com\n"},
		"openstack, INI": {"openstack", "[Global]\nauth-url = https://k:5000\nusername = u\npassword = SECRET\napplication-credential-secret = SECRET\ntrust-id = t\nregion = r\ntenant-name = t\n[LoadBalancer]\nodd-password = SECRET\n"},
		"gce, INI":       {"gce", "[global]\nproject-id = p\ntoken-url = https://jane:SECRET@token.example.com\ntoken-body = \"grant=SECRET\"\n"},
		"azure, JSON":    {"azure", `{"cloud": "AzurePublicCloud", "tenantId": "t", "aadClientId": "c", "aadClientSecret": "SECRET", "aadClientCertPassword": "SECRET", "odd": {"password": "SECRET"}}`},
		"azure, YAML":    {"azure", "cloud: AzurePublicCloud\ntenantId: t\naadClientId: c\naadClientSecret: SECRET\nodd: [SECRET]\n"},
		"vsphere, INI":   {"vsphere", "[Global]\nuser = u\npassword = \"SECRET\"\nserver = v\n[VirtualCenter \"v\"]\nuser = u\npassword = SECRET\n[Workspace]\nserver = v\ndatacenter = d\n"},
		"vsphere, YAML":  {"vsphere", "global:\n  user: u\n  password: SECRET\nvcenter:\n  v:\n    server: v\n    password: SECRET\n    datacenters: [d]\n"},
		"no dialect":     {"openstack", "password SECRET\n\x00{{{ SECRET"},
	} {
		t.Run(dialect, func(t *testing.T) {
			l := newLive(t)
			secrets := canary.Secrets{}
			config := c.config
			for i := 0; strings.Contains(config, "SECRET"); i++ {
				config = strings.Replace(config, "SECRET", plant(secrets, fmt.Sprintf("%s of %d", dialect, i)), 1)
			}
			for _, host := range []string{"cp-1", "cp-2"} {
				l.write(host, "/etc/kubernetes/cloud.conf", config)
				for _, name := range []string{component.KCM, component.KAS} {
					data, err := os.ReadFile(filepath.Join(l.dir, host, manifestPath(name)))
					if err != nil {
						t.Fatal(err)
					}
					l.write(host, manifestPath(name), strings.ReplaceAll(string(data), "--cloud-provider=aws", "--cloud-provider="+c.provider))
				}
			}
			l.restartChanged()
			shown := ""
			for _, args := range [][]string{{"check", "-o", "wide"}, {"check", "-o", "json"}, {"snapshot"}, {"plan", "-o", "wide"}, {"diff"}} {
				r := l.run(args...)
				noSecret(t, r, secrets)
				shown += r.out
			}
			r, out := l.bundle()
			noSecret(t, r, secrets)
			for name, text := range unpacked(t, out) {
				if found := secrets.In(text); len(found) > 0 {
					t.Errorf("%s of the bundle holds the secret of %q", name, found)
				}
			}
			if !strings.Contains(shown, "cloud.conf") || !strings.Contains(shown, c.provider) {
				t.Errorf("no config of %s was looked at, so that nothing is proven:\n%s", c.provider, shown)
			}
		})
	}
}
