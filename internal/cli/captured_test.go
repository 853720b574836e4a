package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/snapshot"
)

// captured were taken from real API servers, of clusters with the manifests of kubeadm; see lab/field.
const captured = "../../internal/check/testdata/captured/"

func capturedSnapshot(t *testing.T, name string) *v1.Snapshot {
	t.Helper()
	data, err := os.ReadFile(captured + name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := snapshot.Load(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestControlPlanesOfThreeVersions: what an operator reads of a healthy cluster, and what would be done to it.
func TestControlPlanesOfThreeVersions(t *testing.T) {
	old := file(t, "openstack-v1.20.15.yaml", kubeadm120(t))
	for _, c := range []struct {
		name, path string
		accept     []string
	}{
		{"aws-1.26", captured + "aws-v1.26.0.yaml", nil},
		{"gce-1.30", captured + "gce-v1.30.14.yaml", []string{"--accept", "CLOUD-001=load balancers and routes are compared by hand"}},
		{"openstack-1.20", old, []string{"--accept", "CLOUD-001=load balancers and routes are compared by hand"}},
	} {
		v := volatile{old: "openstack-v1.20.15.yaml"}
		golden(t, "check-"+c.name, transplant(t, append([]string{"check", "--from-snapshot", c.path}, c.accept...)...), v)
		golden(t, "plan-"+c.name, transplant(t, append([]string{"plan", "--from-snapshot", c.path}, c.accept...)...), v)
	}
}

// kubeadm120 is the captured cluster as one of Kubernetes 1.20 on OpenStack: the manifests that kubeadm 1.20 writes, volumes of the in-tree plugin, no
// CSI, and the API groups and names of that time.
func kubeadm120(t *testing.T) *v1.Snapshot {
	t.Helper()
	const version, config = "v1.20.15", "/etc/kubernetes/cloud.conf"
	s := capturedSnapshot(t, "aws-v1.26.0.yaml")
	s.Cluster.Version, s.Cluster.Provider, s.Cloud, s.Preview, s.DryRuns = version, "openstack", nil, nil, nil
	for i := range s.Hosts {
		h := &s.Hosts[i]
		for j := range h.Components {
			manifest120(t, &h.Components[j])
		}
		h.CloudConfig = &v1.CloudConfig{Path: config, SHA256: "config", Provider: "openstack", Format: "ini", DerivedSHA256: "derived",
			Keys:     []string{"Global.auth-url", "Global.password", "Global.region", "Global.tenant-name", "Global.username", "LoadBalancer.use-octavia"},
			Settings: map[string]string{"LoadBalancer.use-octavia": "true"}}
		h.CloudConfigs = nil
		h.Kubelet.Flags["cloud-provider"], h.Kubelet.Flags["cloud-config"], h.Kubelet.Version = "openstack", config, version
		delete(h.Kubelet.Flags, "container-runtime-endpoint")
		h.Kubelet.Process.Args = []string{"kubelet"}
		for name, value := range h.Kubelet.Flags {
			h.Kubelet.Process.Args = append(h.Kubelet.Process.Args, "--"+name+"="+value)
		}
		slices.Sort(h.Kubelet.Process.Args[1:])
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.ProviderID, n.KubeletVersion, n.VolumesInUse = fmt.Sprintf("openstack:///3f2b1c9a-0000-4000-8000-%012d", i+1), version, nil
		if _, control := n.Labels["node-role.kubernetes.io/control-plane"]; control {
			n.Labels["node-role.kubernetes.io/master"] = ""
		}
	}
	for i := range s.Volumes.PersistentVolumes {
		p := &s.Volumes.PersistentVolumes[i]
		p.Plugin, p.Driver, p.ProvisionedBy, p.MigratedTo = "kubernetes.io/cinder", "", "kubernetes.io/cinder", ""
	}
	for i := range s.Volumes.StorageClasses {
		s.Volumes.StorageClasses[i].Provisioner, s.Volumes.StorageClasses[i].Parameters = "kubernetes.io/cinder", nil
	}
	s.Volumes.CSIDrivers, s.Volumes.Attachments = nil, nil
	for i := range s.Volumes.CSINodes {
		s.Volumes.CSINodes[i].Drivers, s.Volumes.CSINodes[i].MigratedPlugins = nil, nil
	}
	s.Workloads = slices.DeleteFunc(s.Workloads, func(w v1.Workload) bool { return strings.HasPrefix(w.Role, "csi-") })
	s.APIGroups = slices.DeleteFunc(s.APIGroups, func(group string) bool { return group == "policy/v1" || group == "discovery.k8s.io/v1" })
	s.KubeletDefaults.Name = "kubelet-config-1.20"
	s.Kubeadm = nil // an old cluster whose owner has removed it
	return s
}

// manifest120 makes a component one of kubeadm 1.20's manifests, with the address and the processes that it had.
func manifest120(t *testing.T, c *v1.Component) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../internal/controlplane/testdata/manifests", "kubeadm-1.20-"+c.Name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "--cloud-provider=aws", "--cloud-provider=openstack")
	m, err := controlplane.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	before := c.Flags
	c.Image, c.Command, c.Flags, c.HostPaths, c.Remarks = m.Image(), m.Command(), m.Flags(), m.HostPaths(), m.Remarks()
	for _, flag := range []string{"bind-address", "cluster-cidr"} { // these are the captured cluster's
		if value, ok := before[flag]; ok && c.Flags[flag] != "" {
			c.Command[slices.Index(c.Command, "--"+flag+"="+c.Flags[flag])] = "--" + flag + "=" + value
			c.Flags[flag] = value
		}
	}
	for i := range c.Processes {
		c.Processes[i].Args = c.Command
	}
	if c.Pod != nil {
		c.Pod.Command = c.Command
	}
}
