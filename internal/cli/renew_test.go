package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/boundtoken"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/component"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/tokenrequest"
)

func TestRenewReplacesTokensAndNamesThoseThatNeverEnd(t *testing.T) {
	c := newLive(t)
	if r := c.run("renew", "--host-access=pod:x"); r.code != exitcode.OK || !strings.Contains(r.out, "nothing to renew") || len(c.api.Writes()) > 0 {
		t.Fatalf("before there is an account: %s", r.text(nil))
	}
	c.api.Put(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: planlayout.CCMAccount, Namespace: component.Namespace}})
	// A worker's root may write what looks like an old token: only hosts that are said to have a manager are given a new one.
	fails(t, c.run("renew"), exitcode.Error, "no host has the name of a node with the label node-role.kubernetes.io/control-plane", "with --host")
	fails(t, c.run("renew", "--host=cp-9"), exitcode.Error, "--host cp-9: --host-access reaches no host of this name")
	const hosts = "--host=cp-1,cp-2"
	r := c.run("renew", hosts)
	if r.code != exitcode.OK || !strings.Contains(r.out, "nothing to renew") {
		t.Fatal(r.text(nil))
	}
	kube, _ := c.api.Clients(t)
	old, _, err := tokenrequest.Create(t.Context(), kube, component.Namespace, planlayout.CCMAccount, boundtoken.RenewingLifetime)
	if err != nil {
		t.Fatal(err)
	}
	c.write("cp-1", planlayout.CCMToken, old)
	c.write("cp-1", planlayout.CCMKubeconfig, "apiVersion: v1\nkind: Config\n")
	if r = c.run("renew", hosts); r.code != exitcode.OK || !strings.Contains(r.out, "host cp-1: expires ") {
		t.Fatal(r.text(nil))
	}
	c.write("cp-1", planlayout.CCMToken, "what is no token")
	fails(t, c.run("renew", hosts, "--all"), exitcode.Error, "the content is no token of a ServiceAccount: it is not replaced")
	if data, err := os.ReadFile(filepath.Join(c.dir, "cp-1", planlayout.CCMToken)); err != nil || string(data) != "what is no token" {
		t.Errorf("what is no token was replaced: %v", err)
	}
	c.write("cp-1", planlayout.CCMToken, old)
	if r = c.run("renew", hosts, "--all"); r.code != exitcode.OK || !strings.Contains(r.out, "host cp-1: renewed, expires ") {
		t.Fatal(r.text(nil))
	}
	data, err := os.ReadFile(filepath.Join(c.dir, "cp-1", planlayout.CCMToken))
	if err != nil || !strings.Contains(string(data), apitest.TokenMark) {
		t.Errorf("the new token was not written: %v", err)
	}
	if strings.Contains(r.text(nil), apitest.TokenMark) {
		t.Error("the token is printed")
	}
	c.write("cp-2", planlayout.CCMKubeconfig, "apiVersion: v1\nkind: Config\n")
	if r = c.run(
		"renew",
		hosts,
	); r.code != exitcode.Error || !strings.Contains(r.out, "host cp-2: the token never expires") ||
		!strings.Contains(r.text(nil), "docs/explanation/manager-token.md") {
		t.Error(r.text(nil))
	}
}

func TestTheStatusOfAHostedControlPlaneWarnsOfATokenThatEndsSoon(t *testing.T) {
	for name, c := range map[string]struct {
		lifetime time.Duration
		denied   bool
		says     string
		warned   bool
	}{
		"it ends in 10 days": {10*24*time.Hour + time.Minute, false, "in 10 days", true},
		"it lasts":           {60 * 24 * time.Hour, false, "", false},
		"it may not be read": {60 * 24 * time.Hour, true, "which has the manager's token", false},
	} {
		t.Run(name, func(t *testing.T) {
			seed, user := apitest.New(t), apitest.New(t)
			user.Put(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: planlayout.CCMAccount, Namespace: component.Namespace}})
			kube, _ := user.Clients(t)
			token, _, err := tokenrequest.Create(t.Context(), kube, component.Namespace, planlayout.CCMAccount, c.lifetime)
			if err != nil {
				t.Fatal(err)
			}
			seed.Put(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cluster-x", UID: "ns"}}, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "cluster-x", Name: planlayout.SeedKubeconfig}, Data: map[string][]byte{planlayout.SeedTokenKey: []byte(token)},
			})
			if c.denied {
				seed.Deny("get", "secrets")
			}
			var out strings.Builder
			code := Run(
				t.Context(),
				[]string{"status", "--output=json", "--seed-namespace=cluster-x", "--seed-kubeconfig", seed.Kubeconfig(t), "--kubeconfig", user.Kubeconfig(t)},
				console.Streams{In: strings.NewReader(""), Out: &out, Err: &out},
			)
			said := out.String()
			hasCode := strings.Contains(said, `"code": "TokenExpires"`)
			if code != exitcode.OK || !strings.Contains(said, c.says) || strings.Contains(said, "renew --seed-namespace cluster-x") != c.warned || hasCode != c.warned {
				t.Errorf("exit code %d, want %q:\n%s", code, c.says, said)
			}
			if strings.Contains(said, token) {
				t.Error("the token is printed")
			}
		})
	}
}

func TestRenewGivesATokenToHostsOfTheControlPlaneAlone(t *testing.T) {
	c := newLive(t)
	c.api.Put(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}})
	c.api.Put(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: planlayout.CCMAccount, Namespace: component.Namespace}})
	kube, _ := c.api.Clients(t)
	old, _, err := tokenrequest.Create(t.Context(), kube, component.Namespace, planlayout.CCMAccount, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"cp-1", "cp-2"} {
		c.write(host, planlayout.CCMToken, old)
		c.write(host, planlayout.CCMKubeconfig, "apiVersion: v1\nkind: Config\n")
	}
	// No Node has an address that the API servers announce: the label alone may be a worker's.
	refused := c.run("renew")
	fails(t, refused, exitcode.Error, "host cp-1 is left out", "none is announced", "--control-plane-hosts=cp-1")
	if data, err := os.ReadFile(filepath.Join(c.dir, "cp-1", planlayout.CCMToken)); err != nil || string(data) != old {
		t.Errorf("a host without a proof was given a token: %v", err)
	}
	fails(t, c.run("renew", "--control-plane-hosts=cp-9"), exitcode.Error, "--control-plane-hosts: --host-access reaches no host of the name \"cp-9\", and the cluster has no such Node")
	if r := c.run("renew", "--all", "--control-plane-hosts=cp-1"); r.code != exitcode.OK || !strings.Contains(r.out, "host cp-1: renewed, expires ") || strings.Contains(r.out, "cp-2") {
		t.Error(r.text(nil))
	}
	if data, err := os.ReadFile(filepath.Join(c.dir, "cp-2", planlayout.CCMToken)); err != nil || string(data) != old {
		t.Errorf("another host was given a token: %v", err)
	}
	// The label alone is not enough where API servers announce the addresses of Nodes: the others get their tokens.
	for i, host := range []string{"cp-1", "cp-2"} {
		c.api.Put(t, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: host, Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0." + strconv.Itoa(i+1)}}},
		})
	}
	c.api.Put(t, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	})
	r := c.run("renew", "--all")
	fails(t, r, exitcode.Error, "host cp-2 is left out", "its addresses (10.0.0.2)")
	if !strings.Contains(r.out, "host cp-1: renewed, expires ") || strings.Contains(r.out, "cp-2: renewed") {
		t.Error(r.text(nil))
	}
}
