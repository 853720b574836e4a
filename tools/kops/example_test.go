package kops

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	newCluster = "../../examples/kops-new-cluster/overlays/cloud-controller-manager"
	existing   = "../../examples/kops-existing-cluster"
)

// TestTheExampleHasAnExternalManager: every program of kOps' cluster has the flags that the AWS guide asks for.
func TestTheExampleHasAnExternalManager(t *testing.T) {
	e, err := Render(Options{Dir: newCluster})
	if err != nil {
		t.Fatal(err)
	}
	flags, err := e.Flags()
	if err != nil {
		t.Fatal(err)
	}
	has(t, "cloud-controller-manager", flags.CloudControllerManager, "--cloud-provider=aws")
	has(t, "kube-controller-manager", flags.KubeControllerManager, "--cloud-provider=external")
	has(t, "kubelet", flags.Kubelet, "--cloud-provider=external")
	config := e.Cluster.Spec.CloudConfig
	if config == nil || config.AWSEBSCSIDriver == nil || config.AWSEBSCSIDriver.Enabled == nil || !*config.AWSEBSCSIDriver.Enabled {
		t.Error("the EBS CSI driver is not enabled, and nobody else attaches volumes")
	}
	if len(e.Groups) != 2 {
		t.Errorf("%d instance groups", len(e.Groups))
	}
}

func has(t *testing.T, program string, flags []string, want ...string) {
	t.Helper()
	for _, flag := range want {
		if !slices.Contains(flags, flag) {
			t.Errorf("%s has no %s: %q", program, flag, flags)
		}
	}
}

func TestTheExampleTakesItsNames(t *testing.T) {
	o := Options{Dir: newCluster, Name: "west.example.org", Zone: "us-west-2b", State: "s3://mine/", Image: "registry.example/ccm:v1"}
	e, err := Render(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{nameInFile, zoneInFile, stateInFile, "ghcr.io"} {
		if strings.Contains(string(e.Manifest), left) {
			t.Errorf("it still has %s", left)
		}
	}
	again, err := read(e.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	if s := again.Cluster.Spec; again.Cluster.Name != o.Name || s.ConfigBase != "s3://mine/west.example.org" || s.ExternalCloudControllerManager.Image != o.Image {
		t.Errorf("%s, %s, %s", again.Cluster.Name, s.ConfigBase, s.ExternalCloudControllerManager.Image)
	}
	words, err := e.Words("out/cluster.yaml")
	for _, want := range []string{"--cloud-provider=external", "KOPS_STATE_STORE=s3://mine\n", "create -f out/cluster.yaml\n", "update cluster west.example.org --yes"} {
		if err != nil || !strings.Contains(words, want) {
			t.Errorf("the words lack %q: %v\n%s", want, err, words)
		}
	}
	for _, bad := range []Options{
		{Name: "West"}, {Name: "a b"}, {Zone: "eu-central-1"}, {Zone: "x\ny"}, {State: "mine"}, {State: "s3://a b"}, {Image: "a: b"}, {Dir: "nowhere"},
	} {
		if bad.Dir == "" {
			bad.Dir = newCluster
		}
		if _, err := Render(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// old is what kops get cluster -o yaml shows of a cluster with the in-tree provider.
const old = `apiVersion: kops.k8s.io/v1alpha2
kind: Cluster
metadata:
  name: old.example.org
spec:
  cloudProvider: aws
  configBase: s3://mine/old.example.org
  kubeControllerManager:
    enableLeaderMigration: true
    concurrentDeploymentSyncs: 7
  kubelet:
    anonymousAuth: false
  kubernetesVersion: 1.23.17
  networking:
    calico: {}
`

// TestThePatchMovesAnExistingCluster to leader migration: the new manager takes part, and the external one has no such flag any more.
func TestThePatchMovesAnExistingCluster(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(existing)); err != nil {
		t.Fatal(err)
	}
	if _, err := Render(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "cluster.yaml") {
		t.Errorf("without the cluster: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.yaml"), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := Render(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	flags, err := e.Flags()
	if err != nil {
		t.Fatal(err)
	}
	has(t, "cloud-controller-manager", flags.CloudControllerManager, "--cloud-provider=aws", "--enable-leader-migration=true")
	has(t, "kube-controller-manager", flags.KubeControllerManager, "--cloud-provider=external", "--concurrent-deployment-syncs=7")
	has(t, "kubelet", flags.Kubelet, "--cloud-provider=external", "--anonymous-auth=false")
	if slices.ContainsFunc(flags.KubeControllerManager, func(f string) bool { return strings.Contains(f, "leader-migration") }) {
		t.Errorf("the external kube-controller-manager would ask for the migration's lease: %q", flags.KubeControllerManager)
	}
	if s := e.Cluster.Spec; e.Cluster.Name != "old.example.org" || s.KubernetesVersion != "1.24.17" || s.LegacyNetworking == nil || s.LegacyNetworking.Calico == nil {
		t.Errorf("%s: %+v", e.Cluster.Name, s)
	}
}

func TestWhatKopsDoesNotKnowIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"kind: Cluster\nmetadata: {name: a}\nspec: {cloudControlerManager: {}}\n":                              "cloudControlerManager",
		"kind: Node\nmetadata: {name: a}\n":                                                                    `no kind "Node"`,
		"kind: InstanceGroup\nmetadata: {name: a}\n":                                                           "no Cluster",
		"kind: Cluster\nmetadata: {name: a}\n---\nkind: Cluster\nmetadata: {name: b}\n":                        "more than one",
		"kind: Cluster\nmetadata: {name: a}\n---\nkind: InstanceGroup\nmetadata: {name: g}\n":                  "is of cluster",
		"kind: Cluster\nmetadata: {name: a}\nspec: {etcdClusters: [{name: main, etcdMembers: [{name: x}]}]}\n": "no instance group",
	} {
		if _, err := read([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}
