// Package tokenrequest asks an API server for tokens of ServiceAccounts.
package tokenrequest

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/internal/boundtoken"
)

// Create asks for a new token of a ServiceAccount. The API server may grant a shorter life than the wanted one
// (--service-account-max-token-expiration).
func Create(
	ctx context.Context,
	kube kubernetes.Interface,
	namespace, account string,
	lifetime time.Duration,
) (string, boundtoken.Claims, error) {
	answer, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(lifetime / time.Second))},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", boundtoken.Claims{}, fmt.Errorf("asking for a token of ServiceAccount %s/%s: %w", namespace, account, err)
	}
	claims, err := boundtoken.Read(answer.Status.Token)
	if err != nil {
		return "", boundtoken.Claims{}, fmt.Errorf(
			"the API server's answer for ServiceAccount %s/%s: %w",
			namespace,
			account,
			err,
		)
	}
	return answer.Status.Token, claims, nil
}
