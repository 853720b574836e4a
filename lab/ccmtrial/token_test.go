package ccmtrial

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
)

const (
	account     = "cloud-controller-manager"
	accountUser = "system:serviceaccount:kube-system:" + account
	oldPod      = "bearer-of-the-old-token" // the old token ends with it, and the audit log names it
	day         = 24 * time.Hour
)

// The renewal itself is a request with the old token. All clients of a manager have one source, so that they have the old one for
// 50 s more, unless it is refused.
func TestALeaderGoesOnWithTheRenewedTokenAfterTheOldOneIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--renew-token")
	old := w.oldToken(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	w.kubeconfig = w.withTokenFile(t, file)
	leader := w.leader(t, ours)
	before, err := w.term(t.Context(), mainLease)
	if err != nil {
		t.Fatal(err)
	}
	withOld := func(a apiserver.Write) bool { return a.BoundPod == oldPod }
	w.writes(t, leader, "the lease to be renewed with the old token", time.Time{}, true, withOld)

	if err := eventually(t.Context(), "the token to be renewed", patience, func(context.Context) error {
		now, err := os.ReadFile(file)
		if err == nil && string(now) == old {
			err = errNotYet
		}
		return errors.Join(err, leader.Alive())
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.admin.CoreV1().Pods(metav1.NamespaceSystem).Delete(t.Context(), oldPod, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.refuses(t, old)

	refused, withNew := time.Now(), func(a apiserver.Write) bool { return a.BoundPod == "" }
	w.writes(t, leader, "a loop to write after the old token is refused", refused, false, withNew)
	w.writes(t, leader, "the lease to be renewed after the old token is refused", refused, true, withNew)
	if err := w.busy(t.Context(), leader, refused, ensureRequests, patience); err != nil {
		t.Error(err)
	}
	if after, err := w.term(t.Context(), mainLease); err != nil || after != before {
		t.Errorf("the lease was %+v and is %+v: %v", before, after, err)
	}
}

// writes waits until a manager's account has changed something since a moment: a lease, or what a loop changes.
func (w *world) writes(t *testing.T, m *ccmlab.Manager, what string, since time.Time, lease bool, is func(apiserver.Write) bool) {
	t.Helper()
	if err := eventually(t.Context(), what, patience, func(context.Context) error {
		all, err := w.api.Audit()
		if err != nil {
			return err
		}
		for _, a := range all {
			ofKind := lease && a.Lease() || !lease && ofALoop(a) && a.Resource != "serviceaccounts"
			if a.User == accountUser && a.Received.After(since) && a.Accepted() && ofKind && is(a) {
				return nil
			}
		}
		return errors.Join(errNotYet, m.Alive())
	}); err != nil {
		t.Fatal(err)
	}
}

// refuses waits until the API server refuses a token.
func (w *world) refuses(t *testing.T, token string) {
	t.Helper()
	config, err := w.api.Config("admin")
	if err != nil {
		t.Fatal(err)
	}
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = token
	bearer := ccmtest.Connect(t, config)
	if err := eventually(t.Context(), "the old token to be refused", patience, func(ctx context.Context) error {
		_, err := bearer.CoreV1().Nodes().Get(ctx, "node-a", metav1.GetOptions{})
		if apierrors.IsUnauthorized(err) {
			return nil
		}
		return errors.Join(errNotYet, err)
	}); err != nil {
		t.Fatal(err)
	}
}

// oldToken makes the manager's account, and a token of it of which 40 of 90 days are over. The API server issues none
// that is older than now, so that this one is signed here, with its key.
func (w *world) oldToken(t *testing.T) string {
	t.Helper()
	made, err := w.admin.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: account}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := w.admin.CoreV1().Pods(metav1.NamespaceSystem).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: oldPod},
		Spec:       corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "none", Image: "none"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyutil.PrivateKeyFromFile(filepath.Join(w.dir, "server", "pki", "sa.key"))
	if err != nil {
		t.Fatal(err)
	}
	named := func(name string, uid any) map[string]any { return map[string]any{"name": name, "uid": uid} }
	const issuer = "https://kubernetes.default.svc.cluster.local"
	issued := time.Now().Add(-40 * day)
	return signed(t, key.(*ecdsa.PrivateKey), map[string]any{
		"iss": issuer, "aud": []string{issuer}, "sub": accountUser,
		"iat": issued.Unix(), "nbf": issued.Unix(), "exp": issued.Add(90 * day).Unix(),
		"kubernetes.io": map[string]any{
			"namespace": metav1.NamespaceSystem, "serviceaccount": named(account, made.UID), "pod": named(oldPod, pod.UID),
		},
	})
}

func signed(t *testing.T, key *ecdsa.PrivateKey, claims map[string]any) string {
	t.Helper()
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	unsigned := fmt.Sprintf("%s.%s", encode([]byte(`{"alg":"ES256"}`)), encode(body))
	sum := sha256.Sum256([]byte(unsigned))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	var signature [64]byte
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return unsigned + "." + encode(signature[:])
}

// withTokenFile writes a kubeconfig whose credential is the token in a file.
func (w *world) withTokenFile(t *testing.T, file string) string {
	t.Helper()
	path, err := w.api.Kubeconfig("template")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: file}
	}
	path = filepath.Join(w.dir, "token-kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
