package vsphereccm

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/vspheresim"
	"github.com/transplant-dev/transplant/provider/vsphere"
	"github.com/transplant-dev/transplant/provider/vsphere/client"
)

// clients are those of a cluster, as the manager gives them to its provider.
type clients struct {
	cloudprovider.ControllerClientBuilder

	api kubernetes.Interface
}

func (c clients) Client(string) (kubernetes.Interface, error) { return c.api, nil }

// secret is kube-system/vcenter with some keys. A key and its value follow one another.
func secret(pairs ...string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "vcenter"}, Data: map[string][]byte{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		s.Data[pairs[i]] = []byte(pairs[i+1])
	}
	return s
}

// What a vCenter's password is in these tests. Each password has a word that no error may hold.
const (
	right   = "hunter2-right"
	wrong   = "hunter2-wrong"
	rotated = "hunter2-rotated"
)

// bySecret is a vCenter whose credentials are in the Secret kube-system/vcenter, and our provider on it.
type bySecret struct {
	*fixture

	api    *fake.Clientset
	server string
}

// secretConfig is a cloud config that names the Secret, in YAML or as INI.
func secretConfig(t *testing.T, sim *vspheresim.VCenter, ini bool) []byte {
	t.Helper()
	host, port := sim.Address()
	ca := trusted(t, sim)
	if ini {
		return []byte("[Global]\nsecret-name = vcenter\nsecret-namespace = kube-system\n[VirtualCenter \"" + host + "\"]\nport = " + port +
			"\nca-file = " + strings.TrimPrefix(ca, "caFile: ") + "\ndatacenters = DC0\n")
	}
	return []byte("global: {secretName: vcenter, secretNamespace: kube-system}\n" +
		string(config("  a: {server: "+host+", port: "+port+", "+ca+"}\n", "")))
}

func startBySecret(t *testing.T, ini bool, objects ...runtime.Object) *bySecret {
	t.Helper()
	sim := vcenter(t, vspheresim.Options{Machines: 2, Number: 1})
	sim.SetPassword(right)
	b := &bySecret{fixture: &fixture{VCenter: sim}, api: fake.NewClientset(objects...)}
	b.server, _ = sim.Address()
	b.cloud = open(t, secretConfig(t, sim, ini), client.Options{RefusedFor: time.Hour}) // however long the test takes
	b.machines, b.nodes = nodes(t, sim)
	return b
}

// initialise gives the provider its client, and ends its sessions with the test.
func (b *bySecret) initialise(t *testing.T) *vsphere.Cloud {
	t.Helper()
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	b.cloud.Initialize(clients{api: b.api}, stop)
	return b.cloud
}

// write has the Secret be another one.
func (b *bySecret) write(t *testing.T, s *corev1.Secret) {
	t.Helper()
	secrets := b.api.CoreV1().Secrets(s.Namespace)
	_, err := secrets.Update(t.Context(), s, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(t.Context(), s, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bySecret) credentials(password string) *corev1.Secret {
	return secret(b.server+".username", vspheresim.User+"\n", b.server+".password", password+"\n")
}

// refuses checks that a list is an error that says what, and that no node is gone by it.
func (b *bySecret) refuses(t *testing.T, says ...string) {
	t.Helper()
	states, err := b.cloud.ListInstances(t.Context(), b.nodes, everything)
	if err == nil {
		t.Fatalf("there is no error: %+v", states)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not in the error %v", text, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a password is in the error %v", err)
	}
}

func (b *bySecret) lists(t *testing.T) {
	t.Helper()
	for i, s := range b.list(t, everything, b.nodes...) {
		if s.Err != nil || !s.Exists || s.Metadata == nil {
			t.Errorf("node %d: %+v", i, s)
		}
	}
}

func TestCredentialsOfASecret(t *testing.T) {
	for name, ini := range map[string]bool{"YAML": false, "INI": true} {
		t.Run(name, func(t *testing.T) {
			b := startBySecret(t, ini)
			b.refuses(t, "has no client of the cluster yet")
			b.initialise(t)
			b.refuses(t, "reading the Secret kube-system/vcenter", "create it with the keys "+b.server+".username and "+b.server+".password")
			b.write(t, b.credentials(right))
			b.lists(t)
			if sessions, err := b.Sessions(t.Context()); err != nil || sessions != 1 {
				t.Errorf("%d sessions, error %v", sessions, err)
			}
		})
	}
}

func TestASecretOfTheWrongKeys(t *testing.T) {
	b := startBySecret(t, false)
	b.initialise(t)
	for name, test := range map[string]struct {
		secret *corev1.Secret
		says   string
	}{
		"another server": {
			secret("vc.example.username", "u", "vc.example.password", wrong), "only the keys vc.example.password, vc.example.username; add both",
		},
		"no keys":            {secret(), "only the keys (none); add both"},
		"no password":        {secret(b.server+".username", "u"), "it has no " + b.server + ".username and " + b.server + ".password"},
		"an empty password":  {secret(b.server+".username", "u", b.server+".password", "\n"), "it has no " + b.server + ".username"},
		"a number's own key": {secret("server_1", b.server, "username_1", "u"), "it has no username_1 and password_1, only the keys server_1, username_1"},
	} {
		t.Run(name, func(t *testing.T) {
			b.write(t, test.secret)
			b.Calls()
			b.refuses(t, "the Secret kube-system/vcenter", test.says)
			if calls := b.Calls(); len(calls) > 0 {
				t.Errorf("vCenter is asked: %v", calls)
			}
		})
	}
	b.write(t, secret("server_1", b.server, "username_1", vspheresim.User, "password_1", right))
	b.lists(t)
}

func TestASecretThatMayNotBeRead(t *testing.T) {
	b := startBySecret(t, false)
	b.initialise(t)
	b.write(t, b.credentials(right))
	forbid := true
	b.api.PrependReactor("get", "secrets", func(kubetesting.Action) (bool, runtime.Object, error) {
		return forbid, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "vcenter", nil)
	})
	b.refuses(t, "reading the Secret kube-system/vcenter", "forbidden", "the verb get on this Secret")
	forbid = false
	b.lists(t)
}

// TestARotatedPasswordIsTakenWithoutARestart: a session goes on with the password that it was opened with. The next login has the
// new one. One that vCenter refuses is not sent again before it is another.
func TestARotatedPasswordIsTakenWithoutARestart(t *testing.T) {
	b := startBySecret(t, false)
	b.initialise(t)
	b.write(t, b.credentials(right))
	b.lists(t)
	b.SetPassword(rotated)
	b.lists(t) // the session that is open
	if err := b.EndSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Calls()
	for range 3 {
		b.refuses(t, "it does not take the user and password", "correct "+b.server+".username and "+b.server+".password in the Secret kube-system/vcenter")
	}
	if logins := count(b.Calls(), "Login"); logins != 1 {
		t.Errorf("%d logins with a password that is not taken: they lock the account", logins)
	}
	b.write(t, b.credentials(wrong))
	b.refuses(t, "it does not take the user and password")
	b.write(t, b.credentials(rotated))
	b.lists(t)
	if logins := count(b.Calls(), "Login"); logins != 2 {
		t.Errorf("%d logins for one wrong password and the right one", logins)
	}
	// A Secret that is gone ends no session, and deletes no node.
	if err := b.api.CoreV1().Secrets("kube-system").Delete(t.Context(), "vcenter", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.lists(t)
	if err := b.EndSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.refuses(t, "reading the Secret kube-system/vcenter")
	if _, err := b.cloud.InstanceExists(t.Context(), b.nodes[0]); err == nil || cloud.Classify(err) == cloud.OutcomeNotFound {
		t.Errorf("the error is %v (%s)", err, cloud.Classify(err))
	}
	b.write(t, b.credentials(rotated))
	b.lists(t)
}

// TestTheProgramTakesItsCredentialsFromASecret: the Secret comes after the manager, and its password changes while it runs.
func TestTheProgramTakesItsCredentialsFromASecret(t *testing.T) {
	w := newTrial(t, apiserver.DefaultVersion)
	sim := vcenter(t, vspheresim.Options{Machines: 2, Number: 1})
	machines, err := sim.Machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host, _ := sim.Address()
	w.register(t, "worker-0", machines[0].UUID)
	w.run(t, secretConfig(t, sim, false))
	w.untilNode(t, "worker-0", "still without its provider ID", func(n *corev1.Node) string {
		if !taintOf(n, cloudproviderapi.TaintExternalCloudProvider) || n.Spec.ProviderID != "" {
			t.Fatalf("it is initialised without credentials: %+v", n.Spec)
		}
		return ""
	})
	secrets := w.admin.CoreV1().Secrets(metav1.NamespaceSystem)
	credentials := func(password string) *corev1.Secret {
		return secret(host+".username", vspheresim.User, host+".password", password)
	}
	if _, err := secrets.Create(t.Context(), credentials(vspheresim.Password), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	initialised := func(name, uuid string) {
		t.Helper()
		w.untilNode(t, name, "initialised", func(n *corev1.Node) string {
			if taintOf(n, cloudproviderapi.TaintExternalCloudProvider) || n.Spec.ProviderID != "vsphere://"+uuid {
				return "it has its taint, or the provider ID " + n.Spec.ProviderID
			}
			return ""
		})
	}
	initialised("worker-0", machines[0].UUID)
	sim.SetPassword(rotated)
	if _, err := secrets.Update(t.Context(), credentials(rotated), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := sim.EndSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.register(t, "worker-1", machines[1].UUID)
	initialised("worker-1", machines[1].UUID)
}
