package ccm

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/boundtoken"
	"github.com/transplant-dev/transplant/internal/tokenrequest"
)

// renewing is a renewer of a token for 90 days that has just been written.
func renewing(t *testing.T) (*apitest.Server, *tokenRenewer, *clocktesting.FakeClock) {
	t.Helper()
	server := apitest.New(t)
	c := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	server.Now = c.Now
	server.Put(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "cloud-controller-manager", Namespace: "kube-system"}})
	kube, _ := server.Clients(t)
	token, _, err := tokenrequest.Create(t.Context(), kube, "kube-system", "cloud-controller-manager", boundtoken.RenewingLifetime)
	if err != nil {
		t.Fatal(err)
	}
	r := &tokenRenewer{filepath.Join(t.TempDir(), "token"), kube, c}
	if err := os.WriteFile(r.file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return server, r, c
}

func (r *tokenRenewer) claims(t *testing.T) boundtoken.Claims {
	t.Helper()
	data, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := boundtoken.Read(string(data))
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

func TestATokenIsRenewedOnceAThirdOfItsLifeIsOver(t *testing.T) {
	_, r, c := renewing(t)
	first := r.claims(t)
	for _, step := range []struct {
		after   time.Duration
		renewed bool
	}{{29 * 24 * time.Hour, false}, {2 * 24 * time.Hour, true}, {29 * 24 * time.Hour, false}, {2 * 24 * time.Hour, true}} {
		before := r.claims(t)
		c.Step(step.after)
		if err := r.renewIfDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after := r.claims(t); (after != before) != step.renewed {
			t.Fatalf("after %s: renewed is %v", step.after, after != before)
		} else if after.Lifetime() != first.Lifetime() {
			t.Fatalf("the new token lasts %s, the first one %s", after.Lifetime(), first.Lifetime())
		}
	}
	info, err := os.Stat(r.file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(r.file))
	if err != nil || len(left) != 1 {
		t.Errorf("next to the token: %v, error %v", left, err)
	}
}

func TestARenewalThatFailsKeepsTheTokenAndIsTriedAgain(t *testing.T) {
	server, r, c := renewing(t)
	before := r.claims(t)
	c.Step(31 * 24 * time.Hour)
	var allowed atomic.Bool
	server.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		if !allowed.Load() {
			w.WriteHeader(http.StatusForbidden)
		}
		return !allowed.Load()
	}
	err := r.renewIfDue(t.Context())
	if err == nil || !strings.Contains(err.Error(), "asking for a token of ServiceAccount kube-system/cloud-controller-manager") {
		t.Fatalf("error %v", err)
	}
	if r.claims(t) != before {
		t.Error("the token has gone")
	}
	allowed.Store(true)
	if err := r.renewIfDue(t.Context()); err != nil || r.claims(t) == before {
		t.Errorf("with the right again: error %v", err)
	}
}

func TestRenewingTakesAKubeconfigThatNamesATokenFile(t *testing.T) {
	if _, err := newTokenRenewer("", &rest.Config{BearerToken: "x"}); err == nil || !strings.Contains(err.Error(), "names no tokenFile") {
		t.Errorf("error %v", err)
	}
}
