package plan

import (
	"encoding/hex"
	"fmt"
	"maps"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/controlplane/kubeletfile"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/kubeadm"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// kubeadmCluster is a cluster as kubeadm makes it, with an in-tree provider given in extraArgs: so many control-plane hosts, of which the second (or
// the only) one owns the loops, and workers.
type kubeadmCluster struct {
	provider, version string
	hosts, workers    int
	config            string   // path of the cloud config
	ca                []string // directories with authorities that kubeadm mounts
	// kas, kcm, scheduler and kubelet are flags next to kubeadm's own.
	kas, kcm, scheduler, kubelet map[string]string
	providerID                   func(i int, name string) string
}

func (c kubeadmCluster) snapshot() *v1.Snapshot {
	s := &v1.Snapshot{
		TypeMeta:    v1.Type(v1.KindSnapshot),
		ToolVersion: "test",
		Cluster:     v1.Cluster{UID: "7c1d0a52-5f64-4c8a-9a51-2d6a4d2b8f10", Version: c.version, Provider: c.provider, Name: c.kcm["cluster-name"]},
		Kubeadm: &v1.KubeadmConfig{
			APIVersion:           "kubeadm.k8s.io/v1beta3",
			KubernetesVersion:    c.version,
			SHA256:               strings.Repeat("ad", 32),
			ControlPlaneEndpoint: "api.prod.example:6443",
			ExtraArgs:            map[string]map[string]string{},
			ExtraVolumes:         map[string][]string{"apiServer": {c.config}, "controllerManager": {c.config}},
		},
		Volumes: &v1.Volumes{},
	}
	cloud := map[string]string{"cloud-provider": c.provider, "cloud-config": c.config}
	for section, flags := range map[string]map[string]string{"apiServer": merged(cloud, c.kas), "controllerManager": merged(cloud, c.kcm), "scheduler": c.scheduler} {
		s.Kubeadm.ExtraArgs[section] = flags
	}
	s.Kubeadm.ClusterConfiguration = "apiServer:\n  extraVolumes:\n  - name: cloud\n    hostPath: " + c.config + "\n    mountPath: " + c.config +
		"\ncontrollerManager:\n  extraVolumes:\n  - name: cloud\n    hostPath: " + c.config + "\n    mountPath: " + c.config + "\n"
	for i := 1; i <= c.hosts; i++ {
		name := fmt.Sprintf("cp-%d", i)
		h := c.host(name, i)
		h.ControlPlane = true
		h.Components = c.components(fmt.Sprintf("10.0.0.1%d", i))
		h.CloudConfig = &v1.CloudConfig{Path: c.config, SHA256: sum("conf"), Provider: c.provider}
		h.Files = []v1.File{{Path: layout.KCMKubeconfig, Present: true, SHA256: sum("kcm.conf")}}
		s.Hosts = append(s.Hosts, h)
		m := v1.Manager{Component: component.KCM, Host: name}
		if i == min(2, c.hosts) {
			m.Leads = []string{component.KCM}
		}
		s.Managers = append(s.Managers, m)
		s.ControlPlaneNodes = append(s.ControlPlaneNodes, name)
		s.NamedHosts = append(s.NamedHosts, name) // a load balancer is announced
		s.Nodes = append(s.Nodes, c.node(name, i, true))
	}
	for i := 1; i <= c.workers; i++ {
		name := fmt.Sprintf("worker-%d", i)
		s.Hosts = append(s.Hosts, c.host(name, 100+i))
		s.Nodes = append(s.Nodes, c.node(name, 100+i, false))
	}
	return s
}

func sum(of string) string { return strings.Repeat(fmt.Sprintf("%x", of), 64)[:64] }

func merged(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

func (c kubeadmCluster) host(name string, _ int) v1.Host {
	flags := merged(
		map[string]string{"cloud-provider": c.provider, "cloud-config": c.config, "container-runtime-endpoint": "unix:///run/containerd/containerd.sock",
			"pod-infra-container-image": "registry.k8s.io/pause:3.6", "hostname-override": name},
		c.kubelet,
	)
	return v1.Host{Name: name, NodeName: name, Kubelet: &v1.Kubelet{
		Source: kubeletfile.KubeletFlagsFile, SHA256: sum("kubelet" + name), Flags: flags, Version: c.version,
		Config: &v1.KubeletConfig{Path: "/var/lib/kubelet/config.yaml", StaticPodPath: "/etc/kubernetes/manifests"},
	}}
}

func (c kubeadmCluster) node(name string, i int, controlPlane bool) v1.Node {
	n := v1.Node{
		Name:           name,
		UID:            "uid-" + name,
		KubeletVersion: c.version,
		Ready:          "True",
		OS:             "linux",
		Labels:         map[string]string{"kubernetes.io/os": "linux"},
		ProviderID:     c.providerID(i, name),
	}
	if controlPlane {
		if k, err := clusterview.ParseMinor("", c.version); err == nil && k < ccm.FirstWithoutMaster {
			n.Labels[layout.LabelMaster] = ""
		}
		n.Labels[layout.LabelControlPlane] = ""
	}
	return n
}

// components are kubeadm's static pods, with their flags in its order.
func (c kubeadmCluster) components(ip string) []v1.Component {
	cloud := map[string]string{"cloud-provider": c.provider, "cloud-config": c.config}
	kas := merged(map[string]string{
		"advertise-address":        ip,
		"allow-privileged":         "true",
		"authorization-mode":       "Node,RBAC",
		"client-ca-file":           "/etc/kubernetes/pki/ca.crt",
		"enable-admission-plugins": "NodeRestriction",
		"etcd-servers":             "https://127.0.0.1:2379",
		"secure-port":              "6443",
		"service-account-issuer":   "https://kubernetes.default.svc.cluster.local",
		"service-cluster-ip-range": "10.96.0.0/12",
		"tls-cert-file":            "/etc/kubernetes/pki/apiserver.crt",
	}, cloud, c.kas)
	kcm := merged(map[string]string{
		"authentication-kubeconfig":        layout.KCMKubeconfig,
		"authorization-kubeconfig":         layout.KCMKubeconfig,
		"bind-address":                     "127.0.0.1",
		"client-ca-file":                   "/etc/kubernetes/pki/ca.crt",
		"controllers":                      "*,bootstrapsigner,tokencleaner",
		"kubeconfig":                       layout.KCMKubeconfig,
		"leader-elect":                     "true",
		"root-ca-file":                     "/etc/kubernetes/pki/ca.crt",
		"service-account-private-key-file": "/etc/kubernetes/pki/sa.key",
		"use-service-account-credentials":  "true",
	}, cloud, c.kcm)
	sched := merged(map[string]string{"bind-address": "127.0.0.1", "kubeconfig": "/etc/kubernetes/scheduler.conf", "leader-elect": "true"}, c.scheduler)
	paths := map[string]string{"/etc/kubernetes/pki": "/etc/kubernetes/pki", c.config: c.config}
	for _, dir := range c.ca {
		paths[dir] = dir
	}
	return []v1.Component{
		c.pod(component.KAS, kas, ip+":6443", paths),
		c.pod(component.KCM, kcm, "127.0.0.1:10257", paths),
		c.pod(component.Scheduler, sched, "127.0.0.1:10259", nil),
	}
}

func (c kubeadmCluster) pod(name string, flags map[string]string, address string, paths map[string]string) v1.Component {
	command := []string{name}
	for k, v := range flags {
		command = append(command, "--"+k+"="+v)
	}
	sort.Strings(command[1:])
	return v1.Component{
		Name: name, Manifest: controlplane.ManifestDir + "/" + name + ".yaml", SHA256: sum(name), Image: "registry.k8s.io/" + name + ":" + c.version,
		Command: command, Flags: flags, Address: address, HostPaths: paths,
	}
}

// inTree makes volumes of a plugin: a class, a volume, and one that is mounted on a node.
func inTree(s *v1.Snapshot, plugin, node string) {
	s.Volumes.StorageClasses = append(s.Volumes.StorageClasses, v1.StorageClass{Name: "standard", Provisioner: plugin, Default: true})
	s.Volumes.PersistentVolumes = append(s.Volumes.PersistentVolumes, v1.PersistentVolume{Name: "pvc-1", Plugin: plugin, ProvisionedBy: plugin, Handle: "disk-1"})
	for i := range s.Nodes {
		if s.Nodes[i].Name == node {
			s.Nodes[i].VolumesInUse = []string{plugin + "/disk-1"}
		}
	}
}

// driver installs a CSI driver on every node.
func driver(s *v1.Snapshot, name string) {
	s.Volumes.CSIDrivers = append(s.Volumes.CSIDrivers, name)
	for _, n := range s.Nodes {
		s.Volumes.CSINodes = append(s.Volumes.CSINodes, v1.CSINode{Name: n.Name, Drivers: []v1.CSINodeDriver{{Name: name}}})
	}
}

// openstack20 is a cluster of 1.20: no leader migration, in-tree volumes whose CSI migration is off by default, a router for the route loop, a node
// without providerID, and labels of volumes from the API server.
func openstack20() *v1.Snapshot {
	s := kubeadmCluster{
		provider: "openstack", version: "v1.20.15", hosts: 3, workers: 2, config: "/etc/kubernetes/cloud.conf", ca: []string{"/etc/ssl/certs", "/etc/pki"},
		kas: map[string]string{"enable-admission-plugins": "NodeRestriction,PersistentVolumeLabel"},
		kcm: map[string]string{"allocate-node-cidrs": "true", "cluster-cidr": "10.244.0.0/16", "cluster-name": "prod-eu", "node-cidr-mask-size": "24",
			"feature-gates": "EphemeralContainers=true", "controllers": "*,bootstrapsigner,tokencleaner,-ttl"},
		scheduler:  map[string]string{"feature-gates": "EphemeralContainers=true"},
		kubelet:    map[string]string{"feature-gates": "EphemeralContainers=true", "node-ip": "10.0.0.11"},
		providerID: func(i int, _ string) string { return fmt.Sprintf("openstack:///%08d-0000-4000-8000-000000000000", i) },
	}.snapshot()
	for i := range s.Hosts {
		if c := s.Hosts[i].CloudConfig; c != nil {
			c.Keys = []string{"Global.auth-url", "Global.ca-file", "LoadBalancer.subnet-id", "LoadBalancer.use-octavia", "Route.router-id"}
			c.Settings = map[string]string{"Global.ca-file": "/etc/kubernetes/keystone.pem", "LoadBalancer.use-octavia": "true"}
		}
	}
	inTree(s, "kubernetes.io/cinder", "worker-1")
	driver(s, "cinder.csi.openstack.org")
	s.Nodes[4].ProviderID = ""
	s.Services = []v1.Service{{Namespace: "shop", Name: "web"}}
	return s
}

// aws26 is one host of 1.26: nobody could take the loops over under a lease.
func aws26() *v1.Snapshot {
	s := kubeadmCluster{
		provider: "aws", version: "v1.26.0", hosts: 1, workers: 2, config: "/etc/kubernetes/cloud.conf", ca: []string{"/etc/ssl/certs"},
		kcm:        map[string]string{"allocate-node-cidrs": "true", "cluster-cidr": "10.244.0.0/16", "configure-cloud-routes": "false"},
		providerID: func(i int, _ string) string { return fmt.Sprintf("aws:///eu-central-1a/i-%017d", i) },
	}.snapshot()
	inTree(s, "kubernetes.io/aws-ebs", "worker-1")
	s.Kubeadm.ControlPlaneEndpoint = ""
	return s
}

// azure28 is a cluster of 1.28 with routes from the cloud, an image credential provider to come, and a private authority.
func azure28() *v1.Snapshot {
	s := kubeadmCluster{
		provider: "azure",
		version:  "v1.28.5",
		hosts:    3,
		workers:  1,
		config:   "/etc/kubernetes/azure.json",
		ca:       []string{"/etc/ssl/certs", "/usr/local/share/ca-certificates"},
		kcm: map[string]string{"allocate-node-cidrs": "true", "cluster-cidr": "10.244.0.0/16", "cluster-name": "prod", "configure-cloud-routes": "true",
			"route-reconciliation-period": "10s"},
		kubelet: map[string]string{"azure-container-registry-config": "/etc/kubernetes/azure.json"},
		providerID: func(_ int, name string) string {
			return "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/" + name
		},
	}.snapshot()
	return s
}

// gce30 is a cluster of 1.30 whose owner has switched the in-tree providers on again, and whose pod CIDRs come from the cloud.
func gce30() *v1.Snapshot {
	again := "DisableCloudProviders=false"
	s := kubeadmCluster{
		provider: "gce", version: "v1.30.4", hosts: 3, workers: 2, config: "/etc/kubernetes/gce.conf", ca: []string{"/etc/ssl/certs"},
		kas: map[string]string{"feature-gates": again + ",DisableKubeletCloudCredentialProviders=false,APIServerTracing=true"},
		kcm: map[string]string{"allocate-node-cidrs": "true", "cidr-allocator-type": "CloudAllocator", "cluster-cidr": "10.8.0.0/14", "cluster-name": "prod",
			"feature-gates": again, "configure-cloud-routes": "false"},
		kubelet:    map[string]string{"feature-gates": again + ",DisableKubeletCloudCredentialProviders=false,GracefulNodeShutdown=true"},
		providerID: func(_ int, name string) string { return "gce://project/europe-west4-a/" + name },
	}.snapshot()
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nfeatureGates:\n  DisableCloudProviders: false\n  GracefulNodeShutdown: true\nkind: KubeletConfiguration\n"
	s.KubeletDefaults = &v1.KubeletDefaults{Name: "kubelet-config", SHA256: hex.EncodeToString(kubeadm.HashOf(text)), Text: text,
		FeatureGates: map[string]bool{"DisableCloudProviders": false, "GracefulNodeShutdown": true}}
	return s
}

// vsphere29 is a cluster of 1.29: no load balancers, no routes, a manager that serves on the usual port already, a node without providerID.
func vsphere29() *v1.Snapshot {
	again := "DisableCloudProviders=false"
	s := kubeadmCluster{
		provider: "vsphere",
		version:  "v1.29.2",
		hosts:    3,
		workers:  1,
		config:   "/etc/kubernetes/vsphere.conf",
		ca:       []string{"/etc/ssl/certs"},
		kas: map[string]string{
			"feature-gates": again + ",DisableKubeletCloudCredentialProviders=false",
		},
		kcm:        map[string]string{"allocate-node-cidrs": "true", "cluster-cidr": "10.244.0.0/16", "feature-gates": again},
		kubelet:    map[string]string{"feature-gates": again},
		providerID: func(i int, _ string) string { return fmt.Sprintf("vsphere://4221%04d-0000-0000-0000-000000000000", i) },
	}.snapshot()
	s.Nodes[3].ProviderID = ""
	s.Workloads = []v1.Workload{{Ref: "DaemonSet/kube-system/other", HostNetwork: true, Containers: []v1.Container{{Name: "other", HostPorts: []int32{10258}}}}}
	return s
}
