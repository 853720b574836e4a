package certs

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/transplant-dev/transplant/internal/apitest"
)

const (
	secretPath = "/api/v1/namespaces/transplant/secrets/" + DefaultSecret
	configPath = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/transplant"
)

func manager(t *testing.T, server *apitest.Server, clock *clocktesting.FakeClock) *Manager {
	t.Helper()
	kube, _ := server.Clients(t)
	return New(Options{
		Client: kube, Namespace: "transplant", Hosts: ServiceHosts("transplant", "webhooks"), Configurations: []string{"transplant", "not-installed"}, Clock: clock,
		AuthorityLifetime: 90 * time.Hour, Lifetime: 9 * time.Hour,
	})
}

func installed() *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "transplant"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "clusters.transplant.dev"}},
	}
}

func bundleOf(t *testing.T, server *apitest.Server) []byte {
	t.Helper()
	var config admissionregistrationv1.ValidatingWebhookConfiguration
	if !server.Get(t, configPath, &config) {
		t.Fatal("the configuration is gone")
	}
	return config.Webhooks[0].ClientConfig.CABundle
}

func secretOf(t *testing.T, server *apitest.Server) keyring {
	t.Helper()
	var secret corev1.Secret
	if !server.Get(t, secretPath, &secret) {
		t.Fatal("the secret is gone")
	}
	k, err := parseKeyring(secret.Data)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestReplicasThatStartTogetherServeOneAuthority(t *testing.T) {
	server, clock := apitest.New(t), clocktesting.NewFakeClock(start)
	server.Put(t, installed())
	replicas := []*Manager{manager(t, server, clock), manager(t, server, clock), manager(t, server, clock)}
	if err := replicas[0].Check(nil); err == nil {
		t.Error("ready before anything was read")
	}
	for range 40 { // over months, all at once each time
		var all sync.WaitGroup
		for _, m := range replicas {
			all.Go(func() {
				if err := m.Ensure(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		want := secretOf(t, server)
		if !bytes.Equal(bundleOf(t, server), want.bundlePEM()) {
			t.Fatal("the API server trusts another bundle than the secret's")
		}
		for i, m := range replicas {
			served, err := m.GetCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			k := keyring{leaf: *served}
			if err := trusts(want.bundle, k, "webhooks.transplant.svc", clock.Now()); err != nil {
				t.Fatalf("replica %d after %s: %v", i, clock.Since(start), err)
			}
			if err := m.Check(nil); err != nil {
				t.Errorf("replica %d: %v", i, err)
			}
		}
		clock.Step(3 * time.Hour)
	}
}

func TestAPassThatFindsEverythingInOrderWritesNothing(t *testing.T) {
	server, clock := apitest.New(t), clocktesting.NewFakeClock(start)
	server.Put(t, installed())
	m := manager(t, server, clock)
	for range 2 {
		if err := m.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := manager(t, server, clock).Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if writes := server.Writes(); len(writes) != 2 {
		t.Errorf("writes: %q, want one of the secret and one of the configuration", writes)
	}
}

func TestASecretThatIsLostOrSpoiltIsPutBack(t *testing.T) {
	server, clock := apitest.New(t), clocktesting.NewFakeClock(start)
	m := manager(t, server, clock)
	if err := m.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := secretOf(t, server)
	server.Delete(secretPath)
	if err := m.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := secretOf(t, server); !after.bundle[0].Equal(before.bundle[0]) {
		t.Error("a deleted secret has got another authority, although this replica still held the one that is trusted")
	}
	server.Put(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "transplant", Name: DefaultSecret}, Data: map[string][]byte{keyBundle: []byte("no")}})
	if err := m.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := secretOf(t, server); trusts(after.bundle, after, "webhooks", start) != nil {
		t.Error("a spoilt secret was not made again")
	}
}

func TestWhatIsHeldIsServedWhileTheAPIIsAway(t *testing.T) {
	server, clock := apitest.New(t), clocktesting.NewFakeClock(start)
	m := manager(t, server, clock)
	if err := m.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return true
	}
	if err := m.Ensure(t.Context()); err == nil {
		t.Error("an API that is away was not noticed")
	}
	if err := m.Check(nil); err != nil {
		t.Errorf("the certificate is still good: %v", err)
	}
	clock.Step(10 * time.Hour)
	if err := m.Check(nil); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("an expired certificate is ready: %v", err)
	}
}

func TestTheManagerLooksAtEveryIntervalUntilItIsToldToEnd(t *testing.T) {
	server, clock := apitest.New(t), clocktesting.NewFakeClock(start)
	m := manager(t, server, clock)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); m.Run(ctx) }()
	eventually(t, func() bool { return m.Check(nil) == nil })
	first := secretOf(t, server)
	clock.Step(7 * time.Hour)
	eventually(t, func() bool { return !secretOf(t, server).leaf.Leaf.Equal(first.leaf.Leaf) })
	cancel()
	<-ended
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		if holds() {
			return
		}
		<-tick.C
	}
	t.Fatal("it did not come true")
}
