package object

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/tokenrequest"
)

// shortestToken is what a token has to last at least if its manager does not renew it. A shorter one ends before a
// person thinks of it.
const shortestToken = 30 * 24 * time.Hour

// NewToken asks for a token of the manager's account. The API server may grant a shorter life than the wanted one.
func NewToken(ctx context.Context, e *step.Env, lifetime time.Duration, renewing bool) (string, error) {
	token, claims, err := tokenrequest.Create(ctx, e.Kube, component.Namespace, layout.CCMAccount, lifetime)
	if err != nil {
		return "", err
	}
	if left := claims.Lifetime(); !renewing && left < shortestToken {
		return "", &step.VerifyError{
			Reason: fmt.Sprintf(
				"the API server grants tokens of at most %s (--service-account-max-token-expiration), and this manager does not renew its own; "+
					"raise that to 30 days or more on every kube-apiserver, then run the same command again",
				left.Round(time.Minute),
			),
		}
	}
	return token, nil
}

// OlderToken is the one that never expires, which the plans of earlier versions name; empty while it is not there.
func OlderToken(ctx context.Context, e *step.Env) (string, error) {
	secret, err := e.Kube.CoreV1().Secrets(component.Namespace).Get(ctx, layout.TokenSecret, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading Secret %s/%s: %w", component.Namespace, layout.TokenSecret, err)
	}
	// kube-controller-manager's token controller fills it in
	return string(secret.Data[corev1.ServiceAccountTokenKey]), nil
}

// ManagerKubeconfig is the kubeconfig of the cloud-controller-manager.
func ManagerKubeconfig(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) ([]byte, error) {
	const name = layout.CCMAccount
	out := clientcmdapi.NewConfig()
	out.Clusters[name], out.AuthInfos[name] = cluster, user
	out.Contexts[name], out.CurrentContext = &clientcmdapi.Context{Cluster: name, AuthInfo: name}, name
	return clientcmd.Write(*out)
}
