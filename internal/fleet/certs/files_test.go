package certs

import (
	"bytes"
	"context"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
)

// pairOf makes a certificate with its key.
func pairOf(t *testing.T, now time.Time) (certificate, key []byte) {
	t.Helper()
	ring, _, err := keyring{}.step(now, policy{authority: 90 * time.Hour, leaf: 9 * time.Hour, overlap: time.Minute, hosts: []string{"webhooks"}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := ring.data()
	if err != nil {
		t.Fatal(err)
	}
	return data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]
}

// mount writes files as the kubelet does with a Secret: all of them change at once, and the earlier ones are removed then.
func mount(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	next, err := os.MkdirTemp(dir, "..v")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(next, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := os.Readlink(filepath.Join(dir, "..data")) // none at first
	link := filepath.Join(dir, "..new")
	if err := os.Symlink(filepath.Base(next), link); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	if before != "" {
		if err := os.RemoveAll(filepath.Join(dir, before)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestACertificateThatOthersRenewIsServed(t *testing.T) {
	now := time.Now()
	dir, clock := t.TempDir(), clocktesting.NewFakePassiveClock(now)
	certificate, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if _, err := NewFiles("webhooks", certificate, key, clock); err == nil || !strings.Contains(err.Error(), certificate) {
		t.Errorf("files that are not there: %v", err)
	}
	firstCert, firstKey := pairOf(t, now)
	mount(t, dir, map[string][]byte{"tls.crt": firstCert, "tls.key": firstKey})
	f, err := NewFiles("webhooks", certificate, key, clock)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f.Run(ctx) }()
	serves := func(want []byte) bool {
		pair, err := f.GetCertificate(nil)
		return err == nil && bytes.Equal(want, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Leaf.Raw}))
	}
	if !serves(firstCert) || f.Check(nil) != nil {
		t.Error("the first certificate is not served")
	}
	secondCert, secondKey := pairOf(t, now.Add(time.Hour))
	mount(t, dir, map[string][]byte{"tls.crt": secondCert, "tls.key": firstKey})
	if err := f.content.RunOnce(ctx); err == nil || !serves(firstCert) {
		t.Errorf("a pair that does not fit together: %v; the one before is served: %t", err, serves(firstCert))
	}
	mount(t, dir, map[string][]byte{"tls.crt": secondCert, "tls.key": secondKey})
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return serves(secondCert), nil })
	if err != nil {
		t.Fatalf("the renewed certificate is not served: %v", err)
	}
	clock.SetTime(now.Add(24 * time.Hour))
	if err := f.Check(nil); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("after its end: %v", err)
	}
	cancel()
	<-ended
}
