package check

import (
	"fmt"
	"maps"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/node"
	"github.com/transplant-dev/transplant/internal/component"
)

var taken = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

const leaderMigrationPath = "/etc/kubernetes/leadermigration.conf"

// shortNames is a leader migration config in the dialect of kube-controller-manager 1.26.
const shortNames = `apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: cloud-provider-extraction-migration
controllerLeaders:
- {name: service, component: "*"}
- {name: route, component: "*"}
- {name: cloud-node-lifecycle, component: "*"}
`

// canonicalNames is the same in the dialect of 1.28 and later.
const canonicalNames = `apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: cloud-provider-extraction-migration
controllerLeaders:
- {name: service-lb-controller, component: "*"}
- {name: node-route-controller, component: "*"}
- {name: cloud-node-lifecycle-controller, component: "*"}
`

// healthy is a cluster of three control-plane hosts and two workers that is ready to be migrated: every check passes, save the one that always
// warns.
func healthy() *v1.Snapshot {
	s := &v1.Snapshot{
		TypeMeta: v1.Type(v1.KindSnapshot), TakenAt: taken, ToolVersion: "v0.1.0",
		Cluster: v1.Cluster{Name: "lab", UID: "uid-of-the-cluster", Version: "v1.26.0"},
		Cloud:   &v1.CloudInventory{Provider: "aws"},
	}
	for i := 1; i <= 3; i++ {
		node := fmt.Sprintf("ip-10-0-0-%d.ec2.internal", 10+i)
		host := v1.Host{
			Name: fmt.Sprintf("cp-%d", i), NodeName: node, ControlPlane: true,
			CloudConfig: &v1.CloudConfig{
				Path: "/etc/kubernetes/cloud.conf", SHA256: "aaaaaaaaaaaaaaaa", DerivedSHA256: "bbbb", DerivedChanges: []string{"renamed ServiceOverride ec2 to EC2"},
			},
		}
		for j, c := range []v1.Component{apiServer(), controllerManager()} {
			c.Processes = []v1.Process{{PID: 1000*i + j, StartTicks: 5, State: "S"}}
			c.Pod = &v1.MirrorPod{Name: c.Name + "-" + node, Ready: true, Command: c.Command}
			host.Components = append(host.Components, c)
		}
		s.Hosts = append(s.Hosts, host)
		s.ControlPlaneNodes = append(s.ControlPlaneNodes, node)
		manager := v1.Manager{Component: component.KCM, Host: host.Name}
		if i == 1 {
			manager.Loops = []string{"cloud-node-lifecycle", "nodeipam", "route", "service"}
			manager.Leads = []string{component.KCM}
		}
		s.Managers = append(s.Managers, manager)
		addNode(s, node, fmt.Sprintf("i-%017d", i))
	}
	for i := 1; i <= 2; i++ {
		addNode(s, fmt.Sprintf("ip-10-0-1-%d.ec2.internal", 10+i), fmt.Sprintf("i-1%016d", i))
	}
	withVolumes(s)
	withKubelets(s)
	withIdentities(s)
	served(s)
	previewed(s)
	for _, verb := range []string{"get", "list"} {
		s.Access = append(s.Access, v1.AccessAnswer{Who: "self", Verb: verb, Resource: "nodes", Allowed: true})
	}
	for _, user := range []string{component.UserKCM, component.UserCCM} {
		s.Access = append(s.Access,
			v1.AccessAnswer{Who: user, Verb: "create", Resource: "leases", Namespace: "kube-system", Allowed: true},
			v1.AccessAnswer{Who: user, Verb: "get", Resource: "leases", Namespace: "kube-system", Name: component.MigrationLease, Allowed: true},
			v1.AccessAnswer{Who: user, Verb: "update", Resource: "leases", Namespace: "kube-system", Name: component.MigrationLease, Allowed: true})
	}
	planeFacts(s)
	return s
}

func apiServer() v1.Component {
	return newComponent(component.KAS, "registry.k8s.io/kube-apiserver:v1.26.0", map[string]string{
		"cloud-provider": "aws", "enable-admission-plugins": "NodeRestriction",
	})
}

func controllerManager() v1.Component {
	return newComponent(component.KCM, "registry.k8s.io/kube-controller-manager:v1.26.0", map[string]string{
		"cloud-provider": "aws", "cloud-config": "/etc/kubernetes/cloud.conf", "cluster-name": "lab", "cluster-cidr": "10.200.0.0/16",
		"allocate-node-cidrs": "true", "leader-elect": "true",
	})
}

func newComponent(name, image string, flags map[string]string) v1.Component {
	return v1.Component{Name: name, Manifest: "/etc/kubernetes/manifests/" + name + ".yaml", Image: image, Command: []string{name}, Flags: flags}
}

func addNode(s *v1.Snapshot, name, id string) {
	n := len(s.Nodes) + 1
	cidr := fmt.Sprintf("10.200.%d.0/24", n)
	s.Nodes = append(s.Nodes, v1.Node{
		Name: name, UID: "uid-" + name, ProviderID: "aws:///us-east-1a/" + id, Ready: "True", OS: "linux", PodCIDRs: []string{cidr}, Addresses: addressesOf(name, n),
		Labels: map[string]string{node.ZoneLabels.Stable: "us-east-1a", node.RegionLabels.Stable: "us-east-1", node.TypeLabels.Stable: "m5.large"},
	})
	s.Cloud.Instances = append(s.Cloud.Instances, instanceOf(name, id))
	s.Cloud.Routes = append(s.Cloud.Routes, v1.Route{Table: "rtb-lab", CIDR: cidr, Target: id, State: "active"})
}

// migrated is the cluster after its migration: external, with our cloud-controller-manager on every host.
func migrated() *v1.Snapshot {
	s := healthy()
	for i := range s.Hosts {
		setFlags(s, i, component.KCM, map[string]string{"cloud-provider": "external"})
		setFlags(s, i, component.KAS, map[string]string{"cloud-provider": "external"})
		delete(manager(s, i, component.KCM).Flags, "cloud-config")
		delete(s.Hosts[i].Kubelet.Flags, "cloud-config")
		kubeletFlags(s, i, map[string]string{"cloud-provider": "external"})
		addCCM(s, i, "ghcr.io/transplant-dev/aws-cloud-controller-manager:v0.1.0")
	}
	s.Kubeadm.ExtraArgs = map[string]map[string]string{"apiServer": {"cloud-provider": "external"}, "controllerManager": {"cloud-provider": "external"}}
	s.Managers[0].Loops = []string{"nodeipam"}
	ccmManager(s, "cp-1").Loops = []string{"cloud-node", "cloud-node-lifecycle", "route", "service"}
	ccmManager(s, "cp-1").Leads = []string{component.CCM}
	return s
}

// manager returns a component of the i-th host, to be changed.
func manager(s *v1.Snapshot, i int, name string) *v1.Component {
	for j := range s.Hosts[i].Components {
		if s.Hosts[i].Components[j].Name == name {
			return &s.Hosts[i].Components[j]
		}
	}
	panic("the host has no " + name)
}

func ccmManager(s *v1.Snapshot, host string) *v1.Manager {
	for i := range s.Managers {
		if s.Managers[i].Component == component.CCM && s.Managers[i].Host == host {
			return &s.Managers[i]
		}
	}
	panic("there is no cloud-controller-manager on " + host)
}

func setFlags(s *v1.Snapshot, i int, name string, flags map[string]string) {
	maps.Copy(manager(s, i, name).Flags, flags)
}

// addCCM puts a cloud-controller-manager on the i-th host, without leader migration.
func addCCM(s *v1.Snapshot, i int, image string) {
	c := newComponent(component.CCM, image, map[string]string{"cloud-provider": "aws", "cluster-name": "lab", "cluster-cidr": "10.200.0.0/16"})
	c.Processes = []v1.Process{{PID: 9000 + i, StartTicks: 5, State: "S"}}
	c.Pod = &v1.MirrorPod{Name: component.CCM + "-" + s.Hosts[i].NodeName, Ready: true, Command: c.Command}
	s.Hosts[i].Components = append(s.Hosts[i].Components, c)
	s.Managers = append(s.Managers, v1.Manager{Component: component.CCM, Host: s.Hosts[i].Name})
}

const upstreamCCM = "registry.k8s.io/provider-aws/cloud-controller-manager:v1.37.0"

// migrating switches leader migration on in a component of every host that has it, with this config.
func migrating(s *v1.Snapshot, name, content string) {
	for i := range s.Hosts {
		for j := range s.Hosts[i].Components {
			if s.Hosts[i].Components[j].Name != name {
				continue
			}
			flags := map[string]string{"enable-leader-migration": "true"}
			if content != "" {
				flags["leader-migration-config"] = leaderMigrationPath
				s.Hosts[i].LeaderMigration = append(s.Hosts[i].LeaderMigration, v1.LeaderMigrationFile{Path: leaderMigrationPath, UsedBy: name, Content: content})
			}
			maps.Copy(s.Hosts[i].Components[j].Flags, flags)
		}
	}
}

// cannotGather makes facts unknown.
func cannotGather(s *v1.Snapshot, facts ...string) {
	for _, f := range facts {
		s.Errors = append(s.Errors, v1.GatherError{Fact: f, Error: "reading " + f + ": forbidden"})
	}
}

// found returns the finding of a check.
func found(t *testing.T, r v1.CheckReport, code string) v1.Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.Code == code {
			return f
		}
	}
	t.Fatalf("the report has no finding %s", code)
	return v1.Finding{}
}
