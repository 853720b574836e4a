package check

import (
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// planeFacts are the facts of a healthy cluster that checks of tooling, the control plane and versions look at.
func planeFacts(s *v1.Snapshot) {
	for i := range s.Nodes {
		s.Nodes[i].KubeletVersion, s.Nodes[i].Created = "v1.26.0", taken.Add(-100*24*time.Hour)
	}
	for i := range s.Hosts {
		setFlags(s, i, kas, map[string]string{"authorization-mode": "Node,RBAC"})
		s.Clocks = append(s.Clocks, v1.Clock{Who: "host/" + s.Hosts[i].Name, OffsetMillis: int64(i * 10), UncertaintyMillis: 5})
	}
	s.Clocks = append(s.Clocks, v1.Clock{Who: "api", OffsetMillis: -300, UncertaintyMillis: 500})
	for _, right := range []string{"get nodes", "patch nodes/status", "delete nodes", "patch services/status"} {
		s.Access = append(s.Access, managerRight(right, true))
	}
	for _, verb := range []string{"get", "update"} {
		s.Access = append(s.Access,
			v1.AccessAnswer{Who: userKCM, Verb: verb, Resource: "leases", Namespace: "kube-system", Name: kcm, Allowed: true},
			v1.AccessAnswer{Who: userCCM, Verb: verb, Resource: "leases", Namespace: "kube-system", Name: ccm, Allowed: true})
	}
	s.APIGroups = []string{"apps/v1", "batch/v1"}
	s.Kubeadm = &v1.KubeadmConfig{
		KubernetesVersion: "v1.26.0", ClusterName: "lab", PodSubnet: "10.200.0.0/16",
		ExtraArgs: map[string]map[string]string{
			"apiServer":         {"cloud-provider": "aws"},
			"controllerManager": {"cloud-provider": "aws", "cloud-config": "/etc/kubernetes/cloud.conf"},
		},
	}
}

// managerRight is an answer about the new manager's identity: "patch nodes/status".
func managerRight(right string, allowed bool) v1.AccessAnswer {
	verb, resource, _ := strings.Cut(right, " ")
	return v1.AccessAnswer{Who: userCCM, Verb: verb, Resource: resource, Allowed: allowed}
}

var planeRules = []rule{}
