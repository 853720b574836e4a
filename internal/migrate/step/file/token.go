package file

import (
	"context"
	"fmt"
	"path"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/boundtoken"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// tokenNextToKubeconfig is the token's file as the kubeconfig on a host names it. That is relative to its own
// directory, so that both can be read under another root.
var tokenNextToKubeconfig = path.Base(layout.CCMTokenDir) + "/" + path.Base(layout.CCMToken)

// hasToken reports whether a file holds a token of the manager's account, as it is now, that is valid for some time to
// come.
func (x WriteFile) hasToken(ctx context.Context, s v1.Step) (bool, error) {
	f, sum, err := x.Env.ReadFile(ctx, s.Host, s.Path)
	if err != nil {
		return false, err
	}
	if sum == step.Absent {
		return false, step.Pending("token %s is not on host %s", s.Path, s.Host)
	}
	mode, err := step.FileMode(s)
	if err != nil {
		return false, err
	}
	if step.IsWider(f.Mode, mode) { // who has read it may use it until it ends: a new one is written
		return false, step.Pending("token %s on host %s has mode %04o, not %04o", s.Path, s.Host, f.Mode.Perm(), mode)
	}
	claims, err := boundtoken.Read(string(f.Data))
	if err != nil || !claims.IsOf(component.Namespace, layout.CCMAccount) || claims.IsDue(x.Env.Clock.Now()) {
		// what is there is no such token, so that one is written
		return false, step.Pending(
			"%s on host %s holds no token of ServiceAccount %s/%s that is valid for long enough",
			s.Path,
			s.Host,
			component.Namespace,
			layout.CCMAccount,
		)
	}
	account, err := x.Env.Kube.CoreV1().
		ServiceAccounts(component.Namespace).
		Get(ctx, layout.CCMAccount, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("reading ServiceAccount %s/%s: %w", component.Namespace, layout.CCMAccount, err)
	}
	if claims.UID != string(account.UID) {
		return false, step.Pending(
			"the token in %s on host %s is of an earlier ServiceAccount %s/%s",
			s.Path,
			s.Host,
			component.Namespace,
			layout.CCMAccount,
		)
	}
	return true, nil
}

// writeToken asks for a token and writes it. It goes nowhere but into that file.
func (x WriteFile) writeToken(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	token, err := object.NewToken(ctx, x.Env, layout.TokenLifetime(s.Derive), s.Derive == layout.DeriveRenewingToken)
	if err != nil {
		return err
	}
	mode, err := step.FileMode(s)
	if err != nil {
		return err
	}
	return x.Env.WriteFile(ctx, s, rec, []byte(token), mode)
}
