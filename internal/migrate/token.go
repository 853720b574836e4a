package migrate

import (
	"context"
	"fmt"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/boundtoken"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/tokenrequest"
)

// tokenBesideKubeconfig is the token's file as the kubeconfig on a host names it: from its own directory on, so that both can be looked at under another root.
var tokenBesideKubeconfig = path.Base(plan.CCMTokenDir) + "/" + path.Base(plan.CCMToken)

// shortestToken is what a token has to last at least if its manager does not renew it: less is over before a person thinks of it.
const shortestToken = 30 * 24 * time.Hour

// hasToken reports whether a file holds a token of the manager's account, as it is now, that is valid for some time to come.
func (x writeFile) hasToken(ctx context.Context, s v1.Step) (bool, error) {
	f, sum, err := x.read(ctx, s.Host, s.Path)
	if err != nil || sum == absent {
		return false, err
	}
	mode, err := fileMode(s)
	if err != nil || isWider(f, mode) { // who has read it may use it until it ends: a new one is written
		return false, err
	}
	claims, err := boundtoken.Read(string(f.Data))
	if err != nil || claims.Namespace != namespace || claims.Account != plan.CCMAccount || claims.IsDue(x.Clock.Now()) {
		return false, nil //nolint:nilerr // what is there is no such token, so that one is written
	}
	account, err := x.Kube.CoreV1().ServiceAccounts(namespace).Get(ctx, plan.CCMAccount, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("reading ServiceAccount %s/%s: %w", namespace, plan.CCMAccount, err)
	}
	return claims.UID == string(account.UID), nil
}

// writeToken asks for a token and writes it. It goes nowhere but into that file.
func (x writeFile) writeToken(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	token, err := x.newToken(ctx, plan.TokenLifetime(s.Derive), s.Derive == plan.DeriveRenewingToken)
	if err != nil {
		return err
	}
	mode, err := fileMode(s)
	if err != nil {
		return err
	}
	return x.write(ctx, s, rec, []byte(token), mode)
}

// newToken asks for a token of the manager's account. The API server may grant a shorter life than the wanted one.
func (e *Engine) newToken(ctx context.Context, lifetime time.Duration, renewing bool) (string, error) {
	token, claims, err := tokenrequest.Create(ctx, e.Kube, namespace, plan.CCMAccount, lifetime)
	if err != nil {
		return "", err
	}
	if left := claims.Lifetime(); !renewing && left < shortestToken {
		return "", &VerifyError{Reason: fmt.Sprintf("the API server grants tokens of at most %s (--service-account-max-token-expiration), and this manager does not renew its own: "+
			"raise that to 30 days or more on every kube-apiserver, then run the same command again", left.Round(time.Minute))}
	}
	return token, nil
}

// olderToken is the one that never expires, which the plans of earlier versions name; empty while it is not there.
func (e *Engine) olderToken(ctx context.Context) (string, error) {
	secret, err := e.Kube.CoreV1().Secrets(namespace).Get(ctx, plan.TokenSecret, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading Secret %s/%s: %w", namespace, plan.TokenSecret, err)
	}
	return string(secret.Data[corev1.ServiceAccountTokenKey]), nil // kube-controller-manager's token controller fills it in
}

// managerKubeconfig is the kubeconfig of the cloud-controller-manager.
func managerKubeconfig(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) ([]byte, error) {
	const name = plan.CCMAccount
	out := clientcmdapi.NewConfig()
	out.Clusters[name], out.AuthInfos[name] = cluster, user
	out.Contexts[name], out.CurrentContext = &clientcmdapi.Context{Cluster: name, AuthInfo: name}, name
	return clientcmd.Write(*out)
}
