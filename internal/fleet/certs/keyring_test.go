package certs

import (
	"crypto/x509"
	"maps"
	"strings"
	"testing"
	"time"
)

var (
	start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rules = policy{authority: 90 * time.Hour, leaf: 9 * time.Hour, overlap: 10 * time.Minute, hosts: []string{"webhooks.transplant.svc", "127.0.0.9"}}
)

func step(t *testing.T, k keyring, now time.Time, p policy) (keyring, bool) {
	t.Helper()
	next, changed, err := k.step(now, p)
	if err != nil {
		t.Fatal(err)
	}
	return next, changed
}

// trusts reports whether whoever trusts a bundle accepts what is served.
func trusts(bundle []*x509.Certificate, served keyring, host string, now time.Time) error {
	pool := x509.NewCertPool()
	for _, c := range bundle {
		pool.AddCert(c)
	}
	_, err := served.leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}

func TestANewKeyringIsTrustedByAllItsNamesAndIsNotChangedAgain(t *testing.T) {
	k, changed := step(t, keyring{}, start, rules)
	if !changed {
		t.Fatal("nothing was made of nothing")
	}
	for _, host := range rules.hosts {
		if err := trusts(k.bundle, k, host, start); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, changed := step(t, k, start.Add(time.Hour), rules); changed {
		t.Error("a good keyring was changed")
	}
}

func TestTheServingCertificateIsRenewedInTimeUnderTheSameAuthority(t *testing.T) {
	k, _ := step(t, keyring{}, start, rules)
	later := start.Add(7 * time.Hour)
	next, changed := step(t, k, later, rules)
	if !changed || next.bundle[0] != k.bundle[0] || next.leaf.Leaf.Equal(k.leaf.Leaf) {
		t.Fatalf("changed: %t, want a new certificate by the same authority", changed)
	}
	if err := trusts(k.bundle, next, rules.hosts[0], later); err != nil {
		t.Error(err)
	}
}

func TestANewNameIsServedAtOnce(t *testing.T) {
	k, _ := step(t, keyring{}, start, rules)
	p := rules
	p.hosts = []string{"elsewhere.svc"}
	next, changed := step(t, k, start.Add(time.Minute), p)
	if err := trusts(k.bundle, next, "elsewhere.svc", start); !changed || err != nil {
		t.Error(changed, err)
	}
}

func TestReplicasWithNamesOfTheirOwnShareACertificate(t *testing.T) {
	one, other := rules, rules
	one.hosts, other.hosts = []string{"webhooks.svc", "10.0.0.1", "::0:1"}, []string{"webhooks.svc", "10.0.0.2"}
	k, _ := step(t, keyring{}, start, one)
	if _, changed := step(t, k, start, one); changed {
		t.Error("a name that a certificate writes in another way is taken for one that is missing")
	}
	k, changed := step(t, k, start, other)
	if !changed {
		t.Error("the name of the second replica was not taken in")
	}
	for _, p := range []policy{one, other} {
		if _, changed := step(t, k, start.Add(time.Minute), p); changed {
			t.Errorf("%v: the replicas take the certificate from each other", p.hosts)
		}
	}
	k, _ = step(t, k, start.Add(7*time.Hour), other)
	if err := trusts(k.bundle, k, "10.0.0.1", start.Add(7*time.Hour)); err == nil {
		t.Error("a name is never forgotten")
	}
}

// Whoever reads the bundle late, and whoever serves an old certificate for a while, get on with each other at any moment of a rotation.
func TestAnAuthorityIsReplacedWithoutAMomentInWhichNobodyTrustsIt(t *testing.T) {
	k, _ := step(t, keyring{}, start, rules)
	previous := k // what another replica serves, and what an API server trusts, that are one pass behind
	authorities := map[string]bool{}
	for now := start; now.Before(start.Add(150 * time.Hour)); now = now.Add(5 * time.Minute) {
		k, _ = step(t, k, now, rules)
		authorities[k.leaf.Leaf.Issuer.CommonName] = true
		for what, pair := range map[string][2]keyring{"fresh": {k, k}, "a late API server": {previous, k}, "a late replica": {k, previous}} {
			if err := trusts(pair[0].bundle, pair[1], rules.hosts[0], now); err != nil {
				t.Fatalf("%s after %s: %v", what, now.Sub(start), err)
			}
		}
		if len(k.bundle) > 3 {
			t.Fatalf("%d authorities are trusted", len(k.bundle))
		}
		previous = k
	}
	if len(authorities) < 3 {
		t.Errorf("%d authorities in 150 h, want each to last about 60 h", len(authorities))
	}
}

func TestAfterAYearAwayEverythingIsMadeAnew(t *testing.T) {
	k, _ := step(t, keyring{}, start, rules)
	now := start.Add(365 * 24 * time.Hour)
	k, changed := step(t, k, now, rules)
	if err := trusts(k.bundle, k, rules.hosts[0], now); !changed || err != nil || len(k.bundle) != 1 {
		t.Error(changed, err, len(k.bundle))
	}
}

func TestASecretIsReadAsItWasWritten(t *testing.T) {
	k, _ := step(t, keyring{}, start, rules)
	k, _ = step(t, k, start.Add(61*time.Hour), rules)
	data, err := k.data()
	if err != nil {
		t.Fatal(err)
	}
	read, err := parseKeyring(data)
	if err != nil {
		t.Fatal(err)
	}
	if len(read.bundle) != 2 || !read.leaf.Leaf.Equal(k.leaf.Leaf) || !read.authority.Equal(k.authority) {
		t.Error("what was read is not what was written")
	}
	if _, changed := step(t, read, start.Add(61*time.Hour), rules); changed {
		t.Error("what was read was changed")
	}
}

func TestABrokenSecretIsToldApartWithoutQuotingIt(t *testing.T) {
	k, _ := step(t, keyring{}, start, rules)
	other, _ := step(t, keyring{}, start, rules)
	good, _ := k.data()
	foreign, _ := other.data()
	for name, edit := range map[string]func(map[string][]byte){
		"nothing in it": func(d map[string][]byte) { clear(d) },
		"no authority":  func(d map[string][]byte) { delete(d, keyBundle) },
		"garbage": func(d map[string][]byte) {
			d[keyBundle] = []byte("-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n")
		},
		"another's key":         func(d map[string][]byte) { d[keyAuthority] = foreign[keyAuthority] },
		"another's serving key": func(d map[string][]byte) { d[keyKey] = foreign[keyKey] },
		"half a key":            func(d map[string][]byte) { d[keyKey] = d[keyKey][:50] },
		"a leaf as authority":   func(d map[string][]byte) { d[keyBundle], d[keyAuthority] = d[keyCert], d[keyKey] },
	} {
		t.Run(name, func(t *testing.T) {
			data := maps.Clone(good)
			edit(data)
			_, err := parseKeyring(data)
			if err == nil {
				t.Fatal("it was taken")
			}
			if strings.Contains(err.Error(), "c2VjcmV0") || strings.Contains(err.Error(), "BEGIN") {
				t.Errorf("it is quoted: %v", err)
			}
		})
	}
}
