// Package managertoken renews the tokens by which cloud-controller-managers reach their cluster: in files of hosts, and
// in Secrets of a seed. Managers read a token again when it was replaced, so that none is restarted.
package managertoken

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/internal/boundtoken"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/tokenrequest"
)

// State is how a token was found.
type State string

// States of a token.
const (
	// Valid: it lasts for some time to come, and was left as it is.
	Valid State = "valid"
	// Renewed: it was replaced.
	Renewed State = "renewed"
	// Endless: the manager has a token of an earlier version, which never expires.
	Endless State = "endless"
	// None: there is no manager's kubeconfig.
	None State = "none"
)

// Token is what was found in one place.
type Token struct {
	State   State
	Expires time.Time
}

// Renewal says how tokens are renewed.
type Renewal struct {
	// Kube reaches the cluster that the manager works for.
	Kube kubernetes.Interface
	Now  func() time.Time
	// Always replaces tokens that are not due yet.
	Always bool
}

// OnHost renews the token of a manager on a host, once a third of its life is over.
func (r Renewal) OnHost(ctx context.Context, h hostaccess.Host) (Token, error) {
	f, err := h.ReadFile(ctx, layout.CCMToken)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := h.ReadFile(ctx, layout.CCMKubeconfig); errors.Is(err, fs.ErrNotExist) {
			return Token{State: None}, nil
		} else if err != nil {
			return Token{}, fmt.Errorf("reading %s on host %s: %w", layout.CCMKubeconfig, h.Name(), err)
		}
		return Token{State: Endless}, nil
	} else if err != nil {
		return Token{}, fmt.Errorf("reading %s on host %s: %w", layout.CCMToken, h.Name(), err)
	}
	found, token, err := r.renewed(ctx, string(f.Data))
	if err != nil {
		return Token{}, fmt.Errorf("%s on host %s: %w", layout.CCMToken, h.Name(), err)
	}
	if found.State != Renewed {
		return found, nil
	}
	if err := write(ctx, h, []byte(token), f.Mode.Perm()); err != nil {
		return Token{}, fmt.Errorf("writing %s on host %s: %w", layout.CCMToken, h.Name(), err)
	}
	return found, nil
}

// write replaces the token on a host and returns nil once the host has it. A host that is reached through pods is
// opened for this file alone. On one that people change it waits until they have made the change.
func write(ctx context.Context, h hostaccess.Host, token []byte, mode fs.FileMode) error {
	release, err := hostaccess.Grant(ctx, h, hostaccess.Need{Write: []string{layout.CCMToken}, Purpose: "renew"})
	if err != nil {
		return fmt.Errorf("opening the access: %w", err)
	}
	defer release(context.WithoutCancel(ctx))
	if err := h.WriteFile(ctx, layout.CCMToken, token, mode); err != nil {
		return err
	}
	if err := hostaccess.Commit(ctx, h); err != nil {
		return err
	}
	f, err := h.ReadFile(ctx, layout.CCMToken)
	if err != nil {
		return fmt.Errorf("reading it again: %w", err)
	}
	if !bytes.Equal(f.Data, token) {
		return errors.New("it holds something else than the new token: see what else writes it, and run the same command again")
	}
	return nil
}

// InSeed renews the token of a manager in a namespace of a seed, once a third of its life is over.
func (r Renewal) InSeed(ctx context.Context, seed kubernetes.Interface, namespace string) (Token, error) {
	name := namespace + "/" + layout.SeedKubeconfig
	secret, err := seed.CoreV1().Secrets(namespace).Get(ctx, layout.SeedKubeconfig, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Token{State: None}, nil
	} else if err != nil {
		return Token{}, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	if len(secret.Data[layout.SeedTokenKey]) == 0 {
		return Token{State: Endless}, nil
	}
	found, token, err := r.renewed(ctx, string(secret.Data[layout.SeedTokenKey]))
	if err != nil {
		return Token{}, fmt.Errorf("key %s of Secret %s: %w", layout.SeedTokenKey, name, err)
	}
	if found.State != Renewed {
		return found, nil
	}
	return found, replace(ctx, seed, secret, token)
}

// replace changes nothing in a Secret that another one has changed since.
func replace(ctx context.Context, seed kubernetes.Interface, secret *corev1.Secret, token string) error {
	secret = secret.DeepCopy()
	secret.Data[layout.SeedTokenKey] = []byte(token)
	if _, err := seed.CoreV1().
		Secrets(secret.Namespace).
		Update(ctx, secret, metav1.UpdateOptions{FieldManager: "transplant"}); err != nil {
		return fmt.Errorf("writing Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// renewed returns a new token where the old one is due, has ended, or is of an account that was made again since. What
// is no token of the manager is not replaced: who could write any file there would get a token for it.
func (r Renewal) renewed(ctx context.Context, old string) (Token, string, error) {
	claims, err := boundtoken.Read(old)
	if err != nil && !errors.Is(err, boundtoken.ErrEndless) {
		return Token{}, "", fmt.Errorf(
			"%w: it is not replaced; see what wrote it, and if it is the manager's, give it a token by hand "+
				"(kubectl -n %s create token %s --duration=8760h)",
			err,
			component.Namespace,
			layout.CCMAccount,
		)
	}
	if !claims.IsOf(component.Namespace, layout.CCMAccount) {
		return Token{}, "", fmt.Errorf(
			"the token is of ServiceAccount %s/%s, not of %s/%s: it is not replaced",
			claims.Namespace,
			claims.Account,
			component.Namespace,
			layout.CCMAccount,
		)
	}
	endless := err != nil
	account, err := r.Kube.CoreV1().ServiceAccounts(component.Namespace).Get(ctx, layout.CCMAccount, metav1.GetOptions{})
	if err != nil {
		return Token{}, "", fmt.Errorf("reading ServiceAccount %s/%s: %w", component.Namespace, layout.CCMAccount, err)
	}
	if !endless && !r.Always && !claims.IsDue(r.Now()) && claims.UID == string(account.UID) {
		return Token{Valid, claims.Expires}, "", nil
	}
	lifetime := boundtoken.Lifetime
	if !endless {
		lifetime = min(claims.Lifetime(), lifetime) // the file says it, and its signature is not verified
	}
	token, claims, err := tokenrequest.Create(ctx, r.Kube, component.Namespace, layout.CCMAccount, lifetime)
	return Token{Renewed, claims.Expires}, token, err
}
