package manual

import (
	"context"
	"errors"
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

func TestATokenIsRenewedByHand(t *testing.T) {
	for name, idle := range map[string]bool{"somebody runs what is printed": false, "nobody does": true} {
		t.Run(name, func(t *testing.T) {
			l, m, o, _ := byHand(t)
			o.idle = idle
			api := apitest.New(t)
			api.Put(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: layout.CCMAccount, Namespace: component.Namespace}})
			kube, _ := api.Clients(t)
			api.Now = func() time.Time { return time.Now().Add(-time.Hour) }
			old, _, err := tokenrequest.Create(t.Context(), kube, component.Namespace, layout.CCMAccount, boundtoken.Lifetime/2)
			if err != nil {
				t.Fatal(err)
			}
			api.Now = time.Now // a token of the same second would be the same
			writeTo(t, l, layout.CCMToken, old, 0o600)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			printed := &told{o, func() {
				if idle {
					cancel()
				}
			}}
			m.console.Out = printed
			r := managertoken.Renewal{Kube: kube, Now: time.Now, Always: true}
			token, err := r.OnHost(ctx, m)
			if len(o.blocks) != 1 || !strings.Contains(o.blocks[0], layout.CCMToken) {
				t.Fatalf("printed %q", o.blocks)
			}
			now := readFrom(t, l, layout.CCMToken)
			if idle {
				if !errors.Is(err, context.Canceled) || token.State == managertoken.Renewed || now != old {
					t.Errorf("%+v, %v", token, err)
				}
				return
			}
			if err != nil || token.State != managertoken.Renewed || now == old || strings.Contains(o.blocks[0], now) {
				t.Errorf("%+v, %v", token, err)
			}
		})
	}
}

// told is an operator who is seen to be told something.
type told struct {
	*operator
	seen func()
}

func (w *told) Write(p []byte) (int, error) {
	defer w.seen()
	return w.operator.Write(p)
}
