package migrate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/boundtoken"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/step/file"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// tokenOn is the token on a host, and where it is.
func (w *world) tokenOn(host string) (at, token string, claims boundtoken.Claims) {
	w.t.Helper()
	at = filepath.Join(w.dir, host, layout.CCMToken)
	data, err := os.ReadFile(at)
	if err != nil {
		w.t.Fatal(err)
	}
	if claims, err = boundtoken.Read(string(data)); err != nil {
		w.t.Fatal(err)
	}
	return at, string(data), claims
}

func TestAManagerGetsATokenThatEndsAndNoSecretHoldsOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	w.past(p, "write/"+layout.CCMKubeconfig+"@cp-1")
	_, token, claims := w.tokenOn("cp-1")
	var account corev1.ServiceAccount
	if !w.api.Get(t, "/api/v1/namespaces/kube-system/serviceaccounts/"+layout.CCMAccount, &account) || claims.UID != string(account.UID) ||
		claims.Account != layout.CCMAccount {
		t.Errorf("the token is of %+v, the account has uid %q", claims, account.UID)
	}
	if claims.Lifetime() != boundtoken.RenewingLifetime {
		t.Errorf("the token lasts %s", claims.Lifetime())
	}
	if w.api.Get(t, "/api/v1/namespaces/kube-system/secrets/"+layout.TokenSecret, &corev1.Secret{}) {
		t.Error("there is a Secret with a token that never ends")
	}
	kubeconfig, err := os.ReadFile(filepath.Join(w.dir, "cp-1", layout.CCMKubeconfig))
	if err != nil || strings.Contains(string(kubeconfig), token) || !strings.Contains(string(kubeconfig), "tokenFile: cloud-controller-manager/token\n") {
		t.Errorf("error %v, kubeconfig:\n%s", err, kubeconfig)
	}
}

func TestATokenIsWrittenAgainOnceItIsDueOrOfAnotherAccount(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(w *world)
		same   bool
	}{
		"nothing changed":       {func(*world) {}, true},
		"a third of it is over": {func(w *world) { w.clock.Step(31 * 24 * time.Hour) }, false},
		"the account was made again": {func(w *world) {
			if err := w.kube.CoreV1().ServiceAccounts(component.Namespace).Delete(w.t.Context(), layout.CCMAccount, metav1.DeleteOptions{}); err != nil {
				w.t.Fatal(err)
			}
			w.api.Put(w.t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: layout.CCMAccount, Namespace: component.Namespace, UID: "another"}})
		}, false},
		"all may read it": {func(w *world) {
			at, _, _ := w.tokenOn("cp-1")
			if err := os.Chmod(at, 0o644); err != nil {
				w.t.Fatal(err)
			}
		}, false},
		"something else is there": {func(w *world) {
			at, _, _ := w.tokenOn("cp-1")
			if err := os.WriteFile(at, []byte("nothing"), 0o600); err != nil {
				w.t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			p, _ := w.begin()
			w.past(p, "write/"+layout.CCMToken+"@cp-1")
			step := p.Steps[slices.IndexFunc(p.Steps, func(s v1.Step) bool { return planstep.IsToken(s) && s.Host == "cp-1" })]
			_, before, _ := w.tokenOn("cp-1")
			tc.change(w)
			w.clock.Step(time.Second) // in the same second it would be the same token
			x := file.WriteFile{Env: w.engine().env}
			x.Env.Plan = p
			done, err := x.Done(t.Context(), step)
			if done != tc.same || isPending(err) == tc.same || err != nil && !isPending(err) {
				t.Fatalf("done is %v, error %v", done, err)
			}
			if tc.same {
				return
			}
			rec := v1.StepRecord{ID: step.ID}
			if err := x.Do(t.Context(), step, &rec); err != nil {
				t.Fatal(err)
			}
			if _, after, _ := w.tokenOn("cp-1"); after == before {
				t.Error("the old token is still there")
			}
			if done, err := x.Done(t.Context(), step); err != nil || !done {
				t.Errorf("after it was written: done is %v, error %v", done, err)
			}
		})
	}
}

func TestATokenThatItsManagerHasRenewedGoesWithTheRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	files := w.files()
	p, _ := w.begin()
	w.past(p, "write/"+layout.CCMKubeconfig+"@cp-1")
	at, token, _ := w.tokenOn("cp-1")
	if err := os.WriteFile(at, []byte(token+"renewed"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.rollBack()
	w.rolledBack(files)
}

func TestAnAPIServerThatGrantsShortTokensIsRefusedWhereNoManagerRenewsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.api.MaxTokenLife = 24 * time.Hour
	p, _ := w.begin()
	w.past(p, "write/"+layout.CCMToken+"@cp-1")
	step := p.Steps[slices.IndexFunc(p.Steps, func(s v1.Step) bool { return planstep.IsToken(s) && s.Host == "cp-1" })] // a manager that renews it does with a day
	step.Derive = layout.DeriveToken
	x := file.WriteFile{Env: w.engine().env}
	x.Env.Plan = p
	err := x.Do(t.Context(), step, &v1.StepRecord{ID: step.ID})
	says(t, err, "grants tokens of at most 24h0m0s", "--service-account-max-token-expiration", "run the same command again")
}
