package plan

import (
	"io/fs"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/plan/diff"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// memory is the files of a host.
type memory map[string]string

func (m memory) Read(path string) ([]byte, error) {
	if text, ok := m[path]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

func (m memory) List(string) ([]string, error) { return nil, fs.ErrNotExist }

func TestSecretsAreMaskedInDifferences(t *testing.T) {
	host := memory{
		"/etc/kubernetes/cloud.conf": "[Global]\nusername = ops\npassword = planted-1\nauth-url = https://keystone\n[LoadBalancer]\nsubnet-id = s\n",
		"/m.yaml": "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: kube-controller-manager\n    command:\n    - kube-controller-manager\n    - --token-auth-file=/a\n" +
			"    env:\n    - name: OS_PASSWORD\n      value: planted-2\n    - name: REGION\n      value: here\n",
	}
	p := &v1.Plan{Cluster: v1.Cluster{Provider: "openstack"}, Steps: []v1.Step{
		{ID: "derive", Kind: v1.StepWriteFile, Host: "cp-1", Path: layout.CCMCloudConf, Derive: layout.DeriveCloudConfig, Source: "/etc/kubernetes/cloud.conf"},
		{ID: "kubeconfig", Kind: v1.StepWriteFile, Host: "cp-1", Path: layout.CCMKubeconfig, Derive: layout.DeriveKubeconfig, Source: layout.KCMKubeconfig},
		{ID: "edit", Kind: v1.StepEditManifest, Host: "cp-1", Path: "/m.yaml", Component: component.KCM, Edits: []v1.Edit{{Op: v1.EditSetFlag, Name: "v", Value: "2"}}},
	}}
	all, err := diff.Differences(p, &v1.Snapshot{}, func(string) systemdunit.Files { return host })
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 {
		t.Fatalf("%d differences: %+v", len(all), all)
	}
	text := ""
	for _, d := range all {
		text += d.Name + "\n" + d.Before + d.After
	}
	if strings.Contains(text, "planted") {
		t.Errorf("a secret is shown:\n%s", text)
	}
	for _, part := range []string{"(masked)", "auth-url", "https://keystone", "--token-auth-file=/a", "value: here", "    - --v=2"} {
		if !strings.Contains(text, part) {
			t.Errorf("it does not show %q:\n%s", part, text)
		}
	}
}

func TestWhatIsMadeAndTakenAwayIsNoDifference(t *testing.T) {
	p := &v1.Plan{Steps: []v1.Step{
		{ID: "write", Kind: v1.StepWriteFile, Host: "cp-1", Path: layout.KCMMigration, Content: "x\n"},
		{ID: "remove", Kind: v1.StepRemoveFile, Host: "cp-1", Path: layout.KCMMigration, Restore: "write"},
		{ID: "make", Kind: v1.StepEnsureObject, Ref: "Role/kube-system/a", Object: `{"kind":"Role"}`},
		{ID: "delete", Kind: v1.StepDeleteObject, Ref: "Role/kube-system/a"},
		{ID: "stop", Kind: v1.StepRemoveManifest, Host: "cp-1", Path: "/m.yaml", Component: component.KCM},
		{ID: "start", Kind: v1.StepRestoreManifest, Host: "cp-1", Path: "/m.yaml", Component: component.KCM, Restore: "stop"},
		{ID: "look", Kind: v1.StepVerify},
	}}
	all, err := diff.Differences(p, &v1.Snapshot{}, func(string) systemdunit.Files { return memory{"/m.yaml": "a\n"} })
	if err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
