package ccm

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/controller-manager/pkg/clientbuilder"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/internal/apitest"
)

// try writes and reads with a client, and returns the error of the write.
func try(t *testing.T, ctx context.Context, client kubernetes.Interface) error {
	t.Helper()
	if _, err := client.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{}); err != nil {
		t.Errorf("reading: %v", err)
	}
	_, err := client.CoreV1().
		ConfigMaps("kube-system").
		Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: time.Now().Format("t150405.000000000")}}, metav1.CreateOptions{})
	return err
}

func TestClientsOfALeaseWriteWhileItsFenceIsOpen(t *testing.T) {
	server := apitest.New(t)
	fence := election.Unfenced(time.Now())
	client := builder{clientbuilder.SimpleControllerClientBuilder{ClientConfig: server.Config()}, fencedBy(fence)}.ClientOrDie("test")
	if err := try(t, t.Context(), client); err != nil {
		t.Errorf("with an open fence: %v", err)
	}
	fence.Revoke("test")
	if err := try(t, t.Context(), client); !errors.Is(err, election.ErrFenced) {
		t.Errorf("with a closed fence: %v", err)
	}
}

func TestTheProvidersOwnClientsWriteWhileAnyFenceIsOpen(t *testing.T) {
	server := apitest.New(t)
	main, migration := election.NewFence("main", election.Boottime()), election.Unfenced(time.Now())
	client := builder{
		clientbuilder.SimpleControllerClientBuilder{ClientConfig: server.Config()},
		fencedByAny([]*election.Fence{main, migration}),
	}.ClientOrDie(
		"test",
	)
	if err := try(t, t.Context(), client); err != nil {
		t.Errorf("with one open fence: %v", err)
	}
	if err := try(t, election.NewContext(t.Context(), main), client); !errors.Is(err, election.ErrFenced) {
		t.Errorf("for a lease whose fence is closed: %v", err)
	}
	migration.Revoke("test")
	if err := try(t, t.Context(), client); !errors.Is(err, election.ErrFenced) {
		t.Errorf("with no open fence: %v", err)
	}
}
