package client

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/apitest"
)

// Messages name Nodes, and a host may be called otherwise: what they say has to be taken.
func TestHostsOfTheControlPlaneAreNamedByTheirNodesToo(t *testing.T) {
	s := apitest.New(t)
	s.Put(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-10-0-0-1.ec2.internal"}})
	kube, _ := s.Clients(t)
	check := func(names ...string) error {
		return (&Client{Kube: kube, Host: HostOptions{ControlPlane: names}}).checkNamedHosts(t.Context())
	}
	if err := check("ip-10-0-0-1.ec2.internal"); err != nil {
		t.Error(err)
	}
	if err := check("ip-10-0-0-1.ec2.internal", "cp-1"); err == nil || !strings.Contains(err.Error(), `no host of the name "cp-1", and the cluster has no such Node`) {
		t.Error(err)
	}
	s.Deny("get", "nodes")
	if err := check("cp-1"); err == nil || !strings.Contains(err.Error(), `getting Node "cp-1": `) {
		t.Error(err)
	}
}
