package ccm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/internal/boundtoken"
	"github.com/transplant-dev/transplant/internal/tokenrequest"
	"github.com/transplant-dev/transplant/internal/wholefile"
)

// tokenCheckPeriod is how often the age of the token is looked at, and how long a renewal that failed is waited with.
const tokenCheckPeriod = 10 * time.Minute

// tokenRenewer replaces the token of the process in its file before it expires. Clients of this and of other processes read the file again by themselves. Every
// replica renews its own, whoever leads: a standby has to be able to take over.
type tokenRenewer struct {
	file   string
	client kubernetes.Interface
	clock  clock.Clock
}

// newTokenRenewer returns the renewer of a token file, with the credentials of a kubeconfig.
func newTokenRenewer(file string, kubeconfig *rest.Config) (*tokenRenewer, error) {
	if file == "" {
		return nil, errors.New("--renew-token is given, and the kubeconfig names no tokenFile: name one there, or leave the flag out")
	}
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(kubeconfig), "token-renewal"))
	if err != nil {
		return nil, fmt.Errorf("making the client that renews the token: %w", err)
	}
	return &tokenRenewer{file, client, clock.RealClock{}}, nil
}

// run looks after the token until ctx ends.
func (r *tokenRenewer) run(ctx context.Context) {
	for {
		if err := r.renewIfDue(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Renewing the token of this manager failed, will try again", "file", r.file, "after", tokenCheckPeriod)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.clock.After(tokenCheckPeriod):
		}
	}
}

// renewIfDue replaces the token once a third of its life is over. The new one lasts as long as the old one did in all.
func (r *tokenRenewer) renewIfDue(ctx context.Context) error {
	info, err := os.Stat(r.file)
	if err != nil {
		return fmt.Errorf("reading the token: %w", err)
	}
	data, err := os.ReadFile(r.file)
	if err != nil {
		return fmt.Errorf("reading the token: %w", err)
	}
	claims, err := boundtoken.Read(string(data))
	if err != nil {
		return fmt.Errorf("reading the token in %s: %w", r.file, err)
	}
	showTokenExpiry(claims)
	if !claims.IsDue(r.clock.Now()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	token, renewed, err := tokenrequest.Create(ctx, r.client, claims.Namespace, claims.Account, max(claims.Lifetime(), 10*time.Minute))
	if err != nil {
		return err
	}
	if err := wholefile.Write(r.file, []byte(token), info.Mode().Perm()); err != nil {
		return err
	}
	showTokenExpiry(renewed)
	klog.InfoS("Renewed the token of this manager", "file", r.file, "expires", renewed.Expires)
	return nil
}
