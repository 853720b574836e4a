package ccmtrial

import (
	"context"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
)

// allow gives a user leave for leases in kube-system, as the manifests of managers do.
func allow(t *testing.T, admin kubernetes.Interface, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	r := admin.RbacV1()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	if _, err := r.Roles(metav1.NamespaceSystem).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.RoleBindings(metav1.NamespaceSystem).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// elector is one that runs in the test's process.
type elector struct {
	*election.Elector
	leads chan time.Time
	stop  context.CancelFunc
	done  chan error
}

func elect(t *testing.T, api *apiserver.Server, user string) *elector {
	t.Helper()
	e := &elector{leads: make(chan time.Time, 1), done: make(chan error, 1)}
	var err error
	e.Elector, err = election.New(election.Config{
		Identity: user, Client: ccmtest.Client(t, api, user, "").CoordinationV1(),
		Leases:        []election.Lease{{Namespace: metav1.NamespaceSystem, Name: mainLease, Contend: true}},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		OnStarted: func(context.Context, string) { e.leads <- time.Now() },
	})
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, e.stop = context.WithCancel(t.Context())
	go func() { e.done <- e.Run(ctx) }()
	return e
}

func (e *elector) wait(t *testing.T, limit time.Duration) time.Time {
	t.Helper()
	select {
	case at := <-e.leads:
		return at
	case <-time.After(limit):
		t.Fatalf("it does not lead after %s", limit)
		return time.Time{}
	}
}

func (e *elector) end(t *testing.T) {
	t.Helper()
	e.stop()
	if err := <-e.done; err != nil {
		t.Error(err)
	}
}

func TestARealAPIServerTellsOfAReleaseAsFarAsItsRBACAllows(t *testing.T) {
	t.Parallel()
	api, admin := ccmtest.API(t, apiserver.Options{})
	base := rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}}
	watch := rbacv1.PolicyRule{
		APIGroups: base.APIGroups, Resources: base.Resources, Verbs: []string{"watch"}, ResourceNames: []string{mainLease},
	}
	allow(t, admin, "first", base)
	allow(t, admin, "watching", base, watch)
	allow(t, admin, "polling", base)

	first := elect(t, api, "first")
	first.wait(t, patience)
	watching := elect(t, api, "watching")
	<-time.After(5 * time.Second)
	released := time.Now()
	first.end(t)
	took := watching.wait(t, patience).Sub(released)
	t.Logf("by watch: %s", took)
	if took > time.Second {
		t.Errorf("with leave to watch it took %s", took)
	}

	polling := elect(t, api, "polling")
	<-time.After(5 * time.Second)
	released = time.Now()
	watching.end(t)
	took = polling.wait(t, patience).Sub(released)
	t.Logf("by polling: %s", took)
	if took > 4400*time.Millisecond {
		t.Errorf("without leave to watch it took %s", took)
	}

	if tenure := polling.Fence(mainLease).Tenure(); tenure.Epoch != 2 || released.Sub(tenure.AdoptedAt) < 10*time.Second {
		t.Errorf("tenure %+v; the third holder since %s ago", tenure, released.Sub(tenure.AdoptedAt))
	}
	if err := admin.CoordinationV1().Leases(metav1.NamespaceSystem).Delete(t.Context(), mainLease, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-polling.done:
		if err == nil {
			t.Error("a deleted lease is no loss")
		}
	case <-time.After(patience):
		t.Error("the deletion of the lease was not seen")
	}
	polling.stop()
}
