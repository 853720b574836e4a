package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// lab is a snapshot of a lab of three control-plane hosts and five workers, in which cp-2 owns the loops.
func lab(t *testing.T) *v1.Snapshot {
	t.Helper()
	data, err := labJSON()
	if err != nil {
		t.Fatal(err)
	}
	var s v1.Snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// labJSON reads the snapshot once; each test gets a copy of its own.
var labJSON = sync.OnceValues(func() ([]byte, error) {
	data, err := os.ReadFile("testdata/lab.yaml")
	if err != nil {
		return nil, err
	}
	return yaml.YAMLToJSONStrict(data)
})

// labOptions are those with which the plan of the lab was made.
func labOptions() v1.Options {
	return v1.Options{
		Env: []string{"AWS_SHARED_CREDENTIALS_FILE=/etc/kubernetes/cloud-controller-manager.credentials", "AWS_EC2_METADATA_DISABLED=true", "HOST={host}"},
	}
}

// cluster is the smallest one that can be migrated, changed as a test wants it: two hosts, of which cp-1 owns the loops.
func cluster(change ...func(*v1.Snapshot)) *v1.Snapshot {
	s := &v1.Snapshot{TypeMeta: v1.Type(v1.KindSnapshot), Cluster: v1.Cluster{UID: "uid-1", Version: "v1.26.0", Name: "prod"}}
	for i := 1; i <= 2; i++ {
		name := fmt.Sprintf("cp-%d", i)
		s.Hosts = append(s.Hosts, v1.Host{
			Name: name, NodeName: "node-" + name, ControlPlane: true,
			Components: []v1.Component{
				{Name: component.KAS, Manifest: "/etc/kubernetes/manifests/kube-apiserver.yaml", SHA256: "kas-" + name, Flags: map[string]string{"cloud-provider": "aws"}},
				{
					Name:     component.KCM,
					Manifest: "/etc/kubernetes/manifests/kube-controller-manager.yaml",
					SHA256:   "kcm-" + name,
					Image:    "registry.k8s.io/kube-controller-manager:v1.26.0",
					Command:  []string{component.KCM, "--cloud-provider=aws"},
					Address:  fmt.Sprintf("10.0.0.%d:10257", i),
					Flags:    map[string]string{"cloud-provider": "aws", "cloud-config": "/etc/kubernetes/cloud.conf", "cluster-name": "prod", "allocate-node-cidrs": "true"},
				},
			},
			Kubelet:     &v1.Kubelet{Source: "/var/lib/kubelet/kubeadm-flags.env", SHA256: "kubelet-" + name, Flags: map[string]string{"cloud-provider": "aws"}},
			CloudConfig: &v1.CloudConfig{Path: "/etc/kubernetes/cloud.conf", SHA256: "conf"},
		})
	}
	s.Managers = []v1.Manager{{Component: component.KCM, Host: "cp-1", Leads: []string{component.KCM}}, {Component: component.KCM, Host: "cp-2"}}
	for _, c := range change {
		c(s)
	}
	return s
}

func kcmOf(s *v1.Snapshot, host int) *v1.Component {
	return clusterview.FindComponent(s.Hosts[host], component.KCM)
}

func mustMake(t *testing.T, s *v1.Snapshot, o v1.Options) *v1.Plan {
	t.Helper()
	p, err := Make(s, o, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// positions maps the IDs of the steps to their places.
func positions(p *v1.Plan) map[string]int {
	out := map[string]int{}
	for i, s := range p.Steps {
		out[s.ID] = i
	}
	return out
}

// hostsOf lists the hosts of the steps whose ID begins so, in order.
func hostsOf(p *v1.Plan, prefix string) []string {
	var out []string
	for _, s := range p.Steps {
		if strings.HasPrefix(s.ID, prefix) {
			out = append(out, s.Host)
		}
	}
	return out
}
