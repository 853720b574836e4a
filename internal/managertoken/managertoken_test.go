package managertoken

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/boundtoken"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/tokenrequest"
)

const namespace = "cluster-x"

// place is a manager's token, on a host and in a seed.
type place struct {
	t      *testing.T
	server *apitest.Server
	kube   kubernetes.Interface
	clock  *clocktesting.FakeClock
	dir    string
	host   hostaccess.Host
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, server: apitest.New(t), clock: clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), dir: t.TempDir()}
	p.server.Now = p.clock.Now
	p.kube, _ = p.server.Clients(t)
	p.server.Put(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: layout.CCMAccount, Namespace: component.Namespace}})
	if err := os.MkdirAll(filepath.Join(p.dir, "cp-1", layout.CCMTokenDir), 0o700); err != nil {
		t.Fatal(err)
	}
	hosts, err := local.Open("local:" + p.dir)
	if err != nil {
		t.Fatal(err)
	}
	p.host = hosts[0]
	p.put(p.token(layout.CCMAccount))
	return p
}

func (p *place) token(account string) string {
	p.t.Helper()
	token, _, err := tokenrequest.Create(p.t.Context(), p.kube, component.Namespace, account, boundtoken.Lifetime)
	if err != nil {
		p.t.Fatal(err)
	}
	return token
}

// put writes a token to both places.
func (p *place) put(token string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, "cp-1", layout.CCMToken), []byte(token), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.server.Put(p.t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: layout.SeedKubeconfig, Namespace: namespace},
		Data:       map[string][]byte{layout.SeedKubeconfigKey: []byte("kubeconfig"), layout.SeedTokenKey: []byte(token)},
	})
}

// tokens are those of both places.
func (p *place) tokens() (host, seed string) {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, "cp-1", layout.CCMToken))
	if err != nil {
		p.t.Fatal(err)
	}
	secret, err := p.kube.CoreV1().Secrets(namespace).Get(p.t.Context(), layout.SeedKubeconfig, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	if string(secret.Data[layout.SeedKubeconfigKey]) != "kubeconfig" {
		p.t.Error("the kubeconfig has changed")
	}
	return string(data), string(secret.Data[layout.SeedTokenKey])
}

func TestATokenIsRenewedWhenItIsDue(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(p *place)
		always bool
		want   State
		says   string
	}{
		"a new one":       {func(*place) {}, false, Valid, ""},
		"a new one, all":  {func(*place) {}, true, Renewed, ""},
		"a third is over": {func(p *place) { p.clock.Step(boundtoken.Lifetime/3 + time.Hour) }, false, Renewed, ""},
		"it has ended":    {func(p *place) { p.clock.Step(2 * boundtoken.Lifetime) }, false, Renewed, ""},
		"no token":        {func(p *place) { p.put("s3cret-text") }, true, "", "the content is no token of a ServiceAccount: it is not replaced"},
		"nothing":         {func(p *place) { p.put(" ") }, true, "", "it is not replaced"},
		"it never ends":   {func(p *place) { p.put(endless) }, false, Renewed, ""},
		"the account is new": {func(p *place) {
			p.server.Delete("/api/v1/namespaces/kube-system/serviceaccounts/" + layout.CCMAccount)
			p.remake()
		}, false, Renewed, ""},
		"another account's":     {func(p *place) { p.put(p.otherToken()) }, true, "", "not of kube-system/cloud-controller-manager"},
		"there is no account":   {func(p *place) { p.server.Delete("/api/v1/namespaces/kube-system/serviceaccounts/" + layout.CCMAccount) }, false, "", "reading ServiceAccount kube-system/cloud-controller-manager"},
		"it may not be renewed": {func(p *place) { p.server.Deny("create", "serviceaccounts/token") }, true, "", "asking for a token of ServiceAccount"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.clock.Step(time.Second) // in the same second it would be the same token
			tc.change(p)
			wasHost, wasSeed := p.tokens()
			r := Renewal{Kube: p.kube, Now: p.clock.Now, Always: tc.always}
			onHost, err1 := r.OnHost(t.Context(), p.host)
			inSeed, err2 := r.InSeed(t.Context(), p.kube, namespace)
			for _, err := range []error{err1, err2} {
				if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
					t.Fatalf("errors %v and %v", err1, err2)
				}
				if err != nil && strings.Contains(err.Error(), "s3cret") {
					t.Errorf("the error quotes the content: %v", err)
				}
			}
			if onHost.State != tc.want || inSeed.State != tc.want {
				t.Errorf("states %q and %q, not %q", onHost.State, inSeed.State, tc.want)
			}
			host, seed := p.tokens()
			if (host != wasHost) != (tc.want == Renewed) || (seed != wasSeed) != (tc.want == Renewed) {
				t.Errorf("replaced on the host: %v, in the seed: %v", host != wasHost, seed != wasSeed)
			}
			if tc.want == Renewed {
				claims, err := boundtoken.Read(host)
				if err != nil || !claims.Expires.Equal(onHost.Expires) || claims.Lifetime() != boundtoken.Lifetime || claims.IsDue(p.clock.Now()) {
					t.Errorf("the new token: %+v, %v", claims, err)
				}
			}
		})
	}
}

// endless is a token of the manager of a version before, without a signature: none is verified here.
var endless = "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"system:serviceaccount:kube-system:cloud-controller-manager"}`)) + ".x"

func (p *place) remake() {
	p.server.Put(p.t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: layout.CCMAccount, Namespace: component.Namespace, UID: "another"}})
}

func (p *place) otherToken() string {
	p.server.Put(p.t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: component.Namespace}})
	return p.token("other")
}

func TestAManagerOfAnEarlierVersionIsSaidToHaveAnEndlessToken(t *testing.T) {
	p := newPlace(t)
	r := Renewal{Kube: p.kube, Now: p.clock.Now}
	if err := os.Remove(filepath.Join(p.dir, "cp-1", layout.CCMToken)); err != nil {
		t.Fatal(err)
	}
	p.server.Put(
		t,
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: layout.SeedKubeconfig, Namespace: namespace},
			Data:       map[string][]byte{layout.SeedKubeconfigKey: []byte("kubeconfig")},
		},
	)
	found, err := r.OnHost(t.Context(), p.host)
	if err != nil || found.State != None {
		t.Errorf("a host without a manager: %+v, %v", found, err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "cp-1", layout.CCMKubeconfig), []byte("kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err = r.OnHost(t.Context(), p.host)
	if err != nil || found.State != Endless {
		t.Errorf("on the host: %+v, %v", found, err)
	}
	found, err = r.InSeed(t.Context(), p.kube, namespace)
	if err != nil || found.State != Endless {
		t.Errorf("in the seed: %+v, %v", found, err)
	}
}

// TestATokenDoesNotSayHowLongTheNextOneLasts: its signature is not verified where it is read.
func TestATokenDoesNotSayHowLongTheNextOneLasts(t *testing.T) {
	p := newPlace(t)
	long, _, err := tokenrequest.Create(t.Context(), p.kube, component.Namespace, layout.CCMAccount, 100*boundtoken.Lifetime)
	if err != nil {
		t.Fatal(err)
	}
	p.put(long)
	token, err := Renewal{Kube: p.kube, Now: p.clock.Now, Always: true}.OnHost(t.Context(), p.host)
	if err != nil || token.State != Renewed || token.Expires.Sub(p.clock.Now()) > boundtoken.Lifetime {
		t.Errorf("%+v, %v", token, err)
	}
}
