package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGatherTheAPI(t *testing.T) {
	s := Gather(t.Context(), sources(t), collect.Options{ObjectRefs: []string{"Secret/kube-system/token", "Role/kube-system/present", "Role/kube-system/absent"}})
	want := v1.Cluster{Name: "lab", UID: "uid-of-the-cluster", Server: "https://127.0.0.1:6443", Context: "lab", Version: "v1.26.0", Provider: "aws"}
	if diff := cmp.Diff(want, s.Cluster); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	wantNode := v1.Node{
		Name: nodeName(1), UID: "uid-" + nodeName(1), ProviderID: "aws:///us-east-1a/i-" + nodeName(1), Addresses: []string{"InternalIP=10.0.0.11"},
		Taints: []string{"a=b:NoExecute", "z=:NoSchedule"}, PodCIDRs: []string{"10.200.0.0/24"}, Ready: "True", Created: now,
	}
	if len(s.Nodes) != 3 {
		t.Fatalf("got %d nodes", len(s.Nodes))
	}
	if diff := cmp.Diff(wantNode, s.Nodes[0]); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
	wantServices := []v1.Service{{
		Namespace: "shop", Name: "web", UID: "uid-web", Ports: []string{"80/TCP->31080"}, Addresses: []string{"a1.elb.amazonaws.com"},
		Annotations: map[string]string{
			"example.com/api-token": mask.Masked, "service.beta.kubernetes.io/aws-load-balancer-internal": "true",
			"service.beta.kubernetes.io/aws-load-balancer-extra-tags": "a=b",
		},
	}}
	if diff := cmp.Diff(wantServices, s.Services); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	renewed := now
	wantLeases := []v1.Lease{
		{Name: component.KCM, Holder: "cp-1_a", DurationSeconds: 15, RenewTime: &renewed, Transitions: 3, ResourceVersion: "7"},
		{Name: "our-migration", Holder: "cp-1_b", DurationSeconds: 15, RenewTime: &renewed, Transitions: 3, ResourceVersion: "7"},
	}
	if diff := cmp.Diff(wantLeases, s.Leases); diff != "" {
		t.Errorf("leases (-want +got):\n%s", diff)
	}
	var refs []string
	for _, o := range s.Objects {
		refs = append(refs, fmt.Sprintf("%s %t %s %t", o.Ref, o.Present, o.UID, o.Digest != ""))
	}
	if diff := cmp.Diff(
		[]string{"Role/kube-system/absent false  false", "Role/kube-system/present true uid-role true", "Secret/kube-system/token true uid-secret true"},
		refs,
	); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestGatherTheHosts(t *testing.T) {
	s := Gather(t.Context(), sources(t), collect.Options{Files: []string{"/etc/kubernetes/transplant/x.yaml"}})
	if len(s.Hosts) != 3 {
		t.Fatalf("got %d hosts", len(s.Hosts))
	}
	if diff := cmp.Diff([]string{nodeName(1), nodeName(2)}, s.ControlPlaneNodes); diff != "" {
		t.Errorf("control-plane nodes (-want +got):\n%s", diff)
	}
	cp := s.Hosts[1]
	if cp.Name != "cp-2" || cp.NodeName != nodeName(2) || !cp.ControlPlane {
		t.Errorf("got host %q, node %q, control plane %t", cp.Name, cp.NodeName, cp.ControlPlane)
	}
	var names []string
	for _, c := range cp.Components {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{component.KAS, component.KCM}, names); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
	c := cp.Components[1]
	if diff := cmp.Diff(append([]string{component.KCM}, kcmArgs(2)...), c.Command); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	if c.Address != address(2)+":10257" || c.Image != kcmImage || c.Flags["cluster-name"] != "lab" || c.HostPaths["/etc/cloud"] != "/etc/kubernetes/cloud" ||
		!slices.Equal(c.EnvNames, []string{"AWS_SECRET_ACCESS_KEY"}) {
		t.Errorf("got component %+v", c)
	}
	wantPod := &v1.MirrorPod{
		Name:    component.KCM + "-" + nodeName(2),
		UID:     "uid-" + component.KCM + "-" + nodeName(2),
		Hash:    "h",
		Ready:   true,
		Command: append([]string{component.KCM}, kcmArgs(2)...),
	}
	if diff := cmp.Diff(wantPod, c.Pod); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	wantMigration := []v1.LeaderMigrationFile{{Path: "/etc/kubernetes/cloud/migration.yaml", UsedBy: component.KCM, Content: leaderMigration}}
	if diff := cmp.Diff(wantMigration, cp.LeaderMigration); diff != "" {
		t.Errorf("leader migration (-want +got):\n%s", diff)
	}
	if cc := cp.CloudConfig; cc == nil || cc.Path != "/etc/kubernetes/cloud/cloud.conf" || cc.Error != "" || cc.DerivedSHA256 == "" ||
		len(cc.DerivedChanges) == 0 ||
		!slices.Contains(cc.Keys, "Global.VPC") ||
		!slices.Equal(cc.ServiceOverrides, []string{"ec2"}) {
		t.Errorf("got cloud config %+v", cp.CloudConfig)
	}
	files := map[string]bool{}
	for _, f := range cp.Files {
		files[f.Path] = f.Present
		if f.Present && (f.SHA256 == "" || f.Mode != "0600") {
			t.Errorf("got file %+v", f)
		}
	}
	for path, present := range map[string]bool{
		"/etc/kubernetes/transplant/x.yaml": false, "/etc/kubernetes/leadermigration.conf": false, "/etc/kubernetes/cloud/cloud.conf": true,
		"/etc/kubernetes/cloud/migration.yaml": true, "/etc/kubernetes/manifests/etcd.yaml": true, "/etc/kubernetes/controller-manager.conf": true,
	} {
		if got, told := files[path]; !told || got != present {
			t.Errorf("file %s: told of %t, present %t, want %t", path, told, got, present)
		}
	}
	worker := s.Hosts[2]
	if worker.ControlPlane || worker.NodeName != "ip-10-0-1-11.ec2.internal" || worker.Kubelet.Flags["cloud-provider"] != "aws" || worker.Files != nil {
		t.Errorf("got worker %+v", worker)
	}
}

func TestGatherManagersAndCloud(t *testing.T) {
	src := sources(t)
	inventory := &cloud{}
	src.Cloud = inventory
	s := Gather(t.Context(), src, collect.Options{})
	want := []v1.Manager{
		{Component: component.KCM, Host: "cp-1", Address: address(1) + ":10257", Loops: []string{"route", "service"}, Leads: []string{component.KCM}},
		{Component: component.KCM, Host: "cp-2", Address: address(2) + ":10257", Error: "connection refused"},
	}
	if diff := cmp.Diff(want, s.Managers); diff != "" {
		t.Errorf("managers (-want +got):\n%s", diff)
	}
	if inventory.nodes != 3 {
		t.Errorf("the cloud was asked for %d nodes", inventory.nodes)
	}
	wantErrors := []v1.GatherError{
		{Fact: "cloud/routes", Error: "reading routes of the cloud: ec2:DescribeRouteTables was refused"},
		{Fact: "managers/cp-2/kube-controller-manager", Error: "asking kube-controller-manager on host cp-2 which loops it runs: connection refused"},
	}
	if diff := cmp.Diff(wantErrors, s.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestGatherAccess(t *testing.T) {
	s := Gather(t.Context(), sources(t), collect.Options{LeaseName: "our-migration"})
	allowed := map[string]bool{}
	for _, a := range s.Access {
		allowed[strings.Join([]string{a.Who, a.Verb, a.Group, a.Resource, a.Namespace, a.Name}, " ")] = a.Allowed
	}
	for question, want := range map[string]bool{
		"self update  configmaps kube-system ":                                                                                           true,
		"self create  serviceaccounts/token kube-system cloud-controller-manager":                                                        true,
		"self create  serviceaccounts/token kube-system transplant-observer":                                                             true,
		"self escalate rbac.authorization.k8s.io clusterroles  ":                                                                         false,
		"system:kube-controller-manager update coordination.k8s.io leases kube-system our-migration":                                     false,
		"system:kube-controller-manager update coordination.k8s.io leases kube-system kube-controller-manager":                           true,
		"system:serviceaccount:kube-system:cloud-controller-manager create coordination.k8s.io leases kube-system ":                      false,
		"system:serviceaccount:kube-system:cloud-controller-manager get coordination.k8s.io leases kube-system cloud-controller-manager": false,
	} {
		if got, asked := allowed[question]; !asked || got != want {
			t.Errorf("%q: asked %t, allowed %t, want %t", question, asked, got, want)
		}
	}
}

func TestTheSameClusterGivesTheSameBytes(t *testing.T) {
	src := sources(t)
	first := saved(t, Gather(t.Context(), src, collect.Options{}))
	for range 5 {
		if again := saved(t, Gather(t.Context(), src, collect.Options{})); again != first {
			t.Fatalf("another snapshot of the same cluster (-first +again):\n%s", cmp.Diff(first, again))
		}
	}
}

func TestNoSecretIsInASnapshot(t *testing.T) {
	dir, _ := writeHosts(t)
	write(t, dir, "cp-1/etc/kubernetes/manifests/kube-scheduler.yaml", manifest("kube-scheduler", "i", "--v=2", "AWS_SECRET_ACCESS_KEY="+planted))
	write(t, dir, "cp-1/etc/kubernetes/cloud/migration.yaml", "apiVersion: v1\nkind: Config\nusers:\n- user: {token: "+planted+"}\n")
	write(t, dir, "cp-2/etc/kubernetes/cloud/migration.yaml", "component: *\ntoken: "+planted+"\n")
	write(t, dir, "cp-2/etc/kubernetes/manifests/kube-scheduler.yaml", "apiVersion: v1\nkind: Pod\n\t"+planted+": [")
	src := sources(t)
	src.Hosts = open(t, dir)
	out := saved(t, Gather(t.Context(), src, collect.Options{ObjectRefs: []string{"Secret/kube-system/token"}}))
	if at := strings.Index(out, planted); at >= 0 {
		t.Errorf("the snapshot holds a secret: …%s…", out[max(0, at-200):min(len(out), at+60)])
	}
	if !strings.Contains(out, "AWS_SECRET_ACCESS_KEY=(masked)") {
		t.Error("the masked argument is not told of")
	}
}

func saved(t *testing.T, s *v1.Snapshot) string {
	t.Helper()
	var b bytes.Buffer
	if err := Save(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestManifestsThatAreNotOnePodEach(t *testing.T) {
	for name, tc := range map[string]struct {
		file, content string
		want          []string // component, manifest and error
	}{
		"a backup is a second pod":              {"kube-controller-manager.yaml.bak", manifest(component.KCM, kcmImage, kcmArgs(1)...), []string{"kube-controller-manager /etc/kubernetes/manifests/kube-controller-manager.yaml.bak "}},
		"a dot-file is none":                    {".kube-controller-manager.yaml", "whatever: [", nil},
		"a broken manifest by its file's name":  {"kube-scheduler.yaml", "kind: [", []string{"kube-scheduler /etc/kubernetes/manifests/kube-scheduler.yaml it is not YAML"}},
		"a broken manifest by what it mentions": {"ccm.yaml", "kind: Deployment\nimage: cloud-controller-manager\n", []string{"cloud-controller-manager /etc/kubernetes/manifests/ccm.yaml it is a \"Deployment\""}},
		"a provider's name of the component":    {"ccm.yaml", manifest("aws-cloud-controller-manager", "i"), []string{"cloud-controller-manager /etc/kubernetes/manifests/ccm.yaml "}},
		"notes of somebody":                     {"README", "remember: [", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := writeHosts(t)
			write(t, dir, "cp-1/etc/kubernetes/manifests/"+tc.file, tc.content)
			src := sources(t)
			src.Hosts = open(t, dir)
			s := Gather(t.Context(), src, collect.Options{})
			var extra []string
			for _, c := range s.Hosts[0].Components {
				if strings.HasSuffix(c.Manifest, "/"+tc.file) {
					extra = append(extra, c.Name+" "+c.Manifest+" "+c.Error)
				}
			}
			if len(extra) != len(tc.want) || len(extra) == 1 && !strings.HasPrefix(extra[0], tc.want[0]) {
				t.Errorf("got %q, want %q", extra, tc.want)
			}
		})
	}
}

// deaf is a host whose processes cannot be listed.
type deaf struct{ hostaccess.Host }

func (deaf) Processes(context.Context, string) ([]v1.Process, error) { return nil, errNoProc }

func TestWhatAHostDoesNotTellIsUnknown(t *testing.T) {
	dir, hosts := writeHosts(t)
	if err := os.Remove(filepath.Join(dir, "cp-1/etc/kubernetes/cloud/cloud.conf")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "cp-1/etc/kubernetes/cloud/migration.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "cp-2/etc/kubernetes/manifests")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "cp-2/etc/kubernetes/manifests", "a file where a directory should be")
	src := sources(t)
	src.Hosts, src.Scrape, src.ScrapeUnavailable, src.Cloud, src.CloudUnavailable = []hostaccess.Host{deaf{hosts[0]}, hosts[1]}, nil, "no token", nil, "no region"
	s := Gather(t.Context(), src, collect.Options{})
	var facts []string
	for _, e := range s.Errors {
		facts = append(facts, e.Fact)
	}
	want := []string{
		"clocks/cp-1",
		"cloud",
		"hosts/cp-1/cloud-config",
		"hosts/cp-1/kubelet-process",
		"hosts/cp-1/leader-migration/kube-controller-manager",
		"hosts/cp-1/processes/kube-apiserver",
		"hosts/cp-1/processes/kube-controller-manager",
		"hosts/cp-2",
		"managers/cp-1/kube-controller-manager",
	}
	if diff := cmp.Diff(want, facts); diff != "" {
		t.Errorf("unknown facts (-want +got):\n%s", diff)
	}
	if s.Hosts[0].CloudConfig.Error == "" || s.Managers[0].Error != "no token" {
		t.Errorf("got cloud config %+v and managers %+v", s.Hosts[0].CloudConfig, s.Managers)
	}
}

func TestGatherWithNothingAtAll(t *testing.T) {
	s := Gather(t.Context(), collect.Sources{Now: func() time.Time { return now }}, collect.Options{ObjectRefs: []string{"Role/kube-system/x"}})
	var facts []string
	for _, e := range s.Errors {
		facts = append(facts, e.Fact)
	}
	if diff := cmp.Diff([]string{
		"access", "apigroups", "budgets", "cluster", "csrs", "endpoints", "hosts", "kubeadm", "kubelet-defaults", "leases", "machines", "namespaces", "nodes",
		"objects/Role/kube-system/x", "pods", "services", "volumes", "webhooks", "workloads",
	}, facts); diff != "" {
		t.Errorf("unknown facts (-want +got):\n%s", diff)
	}
}

func TestAnAPIThatForbidsEverythingIsToldByVerbAndResource(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		resource := filepath.Base(r.URL.Path)
		fmt.Fprintf(
			w,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"%s is forbidden: User \"jane\" cannot list resource \"%s\" in API group \"\" at the cluster scope"}`,
			resource,
			resource,
		)
	}))
	defer server.Close()
	s := Gather(
		t.Context(),
		collect.Sources{Kube: client(t, server.URL), Server: server.URL, Now: time.Now},
		collect.Options{ObjectRefs: []string{"Role/kube-system/x"}},
	)
	for fact, want := range map[string]string{
		"nodes":                      `listing nodes: forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope`,
		"services":                   `listing services: forbidden: User "jane" cannot list resource "services" in API group "" at the cluster scope`,
		"pods":                       `listing pods in kube-system: forbidden: User "jane" cannot list resource "pods" in API group "" at the cluster scope`,
		"objects/Role/kube-system/x": `reading Role/kube-system/x: forbidden: User "jane" cannot list resource "x" in API group "" at the cluster scope`,
		"access":                     `creating selfsubjectaccessreviews: forbidden: User "jane" cannot list resource "selfsubjectaccessreviews" in API group "" at the cluster scope`,
	} {
		if got := why(s, fact); got != want {
			t.Errorf("%s: got %q, want %q", fact, got, want)
		}
	}
}

func TestAnAPIThatDoesNotAnswerIsToldByAddress(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.URL
	server.Close()
	s := Gather(t.Context(), collect.Sources{Kube: client(t, address), Server: address, Now: time.Now}, collect.Options{})
	if got, want := why(s, "nodes"), "listing nodes: cannot reach "+address+": connect: connection refused"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := why(s, "cluster/version"); !strings.Contains(got, "cannot reach "+address) {
		t.Errorf("got %q", got)
	}
}

func TestAnAPIThatHangsIsToldByAddress(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer server.Close()
	defer close(hang)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := Gather(ctx, collect.Sources{Kube: client(t, server.URL), Server: server.URL, Now: time.Now}, collect.Options{Timeout: 50 * time.Millisecond})
	if got, want := why(s, "nodes"), "listing nodes: no answer from "+server.URL+" in time"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCredentialsThatAreNotAcceptedAreToldSo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer server.Close()
	s := Gather(t.Context(), collect.Sources{Kube: client(t, server.URL), Server: server.URL, Now: time.Now}, collect.Options{})
	if got, want := why(s, "nodes"), "listing nodes: the API server does not accept the credentials in the kubeconfig"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func client(t *testing.T, address string) kubernetes.Interface {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := kubernetes.NewForConfig(&rest.Config{Host: address, Transport: transport, Timeout: 2 * time.Second, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func why(s *v1.Snapshot, fact string) string {
	for _, e := range s.Errors {
		if e.Fact == fact {
			return e.Error
		}
	}
	return "(not among the errors)"
}
