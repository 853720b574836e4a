package azuresim_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/lab/azuresim"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/provider/azure"
)

// newCertificate is a certificate of its own authority, and its key, in PEM.
func newCertificate(t *testing.T, until time.Time) (*x509.Certificate, []byte, []byte) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	wanted := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "manager"}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until,
	}
	raw, err := x509.CreateCertificate(rand.Reader, wanted, wanted, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return made, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// TestTheCredentialsOfACertificate are those of a directory over TLS that knows it, and no error shows its key.
func TestTheCredentialsOfACertificate(t *testing.T) {
	sim := start(t, azuresim.Options{})
	id := sim.AddMachine(azuresim.Machine{Name: "one", IP: "10.0.0.1"})
	ask := func(clientID string, parts ...[]byte) error {
		made, err := azure.Open(sim.Config(map[string]any{
			"useManagedIdentityExtension": false, "aadClientId": clientID,
			"aadClientCertPath": ccmtest.WriteFile(t, t.TempDir(), "manager.pem", bytes.Join(parts, nil)),
		}), azure.Options{})
		if err != nil {
			return err
		}
		_, err = made.InstanceExists(t.Context(), node("one", id))
		return err
	}
	known, certificate, key := newCertificate(t, time.Now().Add(time.Hour))
	sim.RegisterCertificate(known)
	login.RegisterCertificate(known) // the one that this process has asked for its addresses first
	if err := ask(azuresim.ClientID, certificate, key); err != nil {
		t.Error(err)
	}
	calls := sim.Calls()
	if len(calls) == 0 {
		t.Error("nothing was asked")
	}
	for _, call := range calls {
		if call.Identity != azuresim.ClientID {
			t.Errorf("%s is of %q", call, call.Identity)
		}
	}
	past, old, oldKey := newCertificate(t, time.Now().Add(-time.Hour))
	sim.RegisterCertificate(past)
	login.RegisterCertificate(past)
	_, unknown, unknownKey := newCertificate(t, time.Now().Add(time.Hour))
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"one that is not registered": {ask(azuresim.ClientID, unknown, unknownKey), "AADSTS700027"},
		"one that has expired":       {ask(azuresim.ClientID, old, oldKey), "AADSTS700027"},
		"of another application":     {ask("99999999-0000-0000-0000-000000000002", certificate, key), "AADSTS700016"},
		"without its key":            {ask(azuresim.ClientID, certificate), "decoding the client certificate"},
		"with another one's key":     {ask(azuresim.ClientID, certificate, unknownKey), ""},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) || strings.Contains(c.err.Error(), "PRIVATE KEY") {
			t.Errorf("%s: the error is %v", name, c.err)
		}
		if isRefused := strings.HasPrefix(c.says, "AADSTS"); isRefused &&
			(cloud.Classify(c.err) != cloud.OutcomeAuth || !strings.Contains(c.err.Error(), "its secret or certificate")) {
			t.Errorf("%s: %s: %v", name, cloud.Classify(c.err), c.err)
		}
	}
}
