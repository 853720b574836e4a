package ccm

import (
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/draft"
)

// TestAPodIsSentToNoServerThatOneConfigMapNames: the pod's token goes to the address, and the ConfigMap kubeadm-config is written by others, too.
func TestAPodIsSentToNoServerThatOneConfigMapNames(t *testing.T) {
	for name, c := range map[string]struct {
		endpoint, server string
		announced        []string
		want             int
	}{
		"the server of the kubeconfig":       {"api.example.com:6443", "https://API.example.com:6443", nil, 2},
		"an address that is announced":       {"192.0.2.10:6443", "https://lb.example.com", []string{"192.0.2.10"}, 2},
		"without a port":                     {"192.0.2.10", "https://192.0.2.10:6443", nil, 2},
		"an address that nobody else knows":  {"198.51.100.7:6443", "https://api.example.com:6443", []string{"192.0.2.10"}, 0},
		"another server, and none is known":  {"198.51.100.7:6443", "", nil, 0},
		"a cluster that has no such address": {"", "https://api.example.com:6443", nil, 0},
		"no address":                         {":6443", "", nil, 0},
		"another server behind the port":     {"192.0.2.10:443@203.0.113.9", "https://192.0.2.10:443", []string{"192.0.2.10"}, 0},
		"no port":                            {"192.0.2.10:0", "https://192.0.2.10:443", nil, 0},
	} {
		d := &draft.Draft{Snapshot: &v1.Snapshot{
			Cluster: v1.Cluster{Server: c.server}, APIServers: c.announced, Kubeadm: &v1.KubeadmConfig{ControlPlaneEndpoint: c.endpoint},
		}}
		if env := EndpointEnv(d); len(env) != c.want {
			t.Errorf("%s: %v", name, env)
		}
	}
}
