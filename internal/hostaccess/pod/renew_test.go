package pod

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/boundtoken"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/managertoken"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/tokenrequest"
)

func TestATokenIsRenewedThroughPods(t *testing.T) {
	c := newCluster(t, "cp-1")
	h := c.open(nil)[0]
	api := apitest.New(t)
	api.Put(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: layout.CCMAccount, Namespace: component.Namespace}})
	kube, _ := api.Clients(t)
	api.Now = func() time.Time { return time.Now().Add(-time.Hour) }
	old, _, err := tokenrequest.Create(t.Context(), kube, component.Namespace, layout.CCMAccount, boundtoken.Lifetime/2)
	if err != nil {
		t.Fatal(err)
	}
	api.Now = time.Now // a token of the same second would be the same
	c.write(strings.TrimPrefix(layout.CCMToken, "/"), old)
	r := managertoken.Renewal{Kube: kube, Now: time.Now, Always: true}
	token, err := r.OnHost(t.Context(), h)
	if err != nil || token.State != managertoken.Renewed {
		t.Fatalf("%+v, %v", token, err)
	}
	data, err := os.ReadFile(filepath.Join(c.root, layout.CCMToken))
	if err != nil || string(data) == old {
		t.Fatalf("the file was not written: %v", err)
	}
	if claims, err := boundtoken.Read(string(data)); err != nil || !claims.Expires.Equal(token.Expires) {
		t.Errorf("it holds another token: %+v, %v", claims, err)
	}
	if pods := c.pods(); len(pods) != 1 || !strings.Contains(pods[0], "-look-") {
		t.Errorf("after the renewal: %v", pods)
	}
}
