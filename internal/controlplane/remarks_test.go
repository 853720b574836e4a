package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestRemarks(t *testing.T) {
	tests := map[string]struct {
		pod  string
		want []string
	}{
		"nothing to say":             {podOf("    command: [kube-scheduler, --a=b]\n"), nil},
		"a flag that is given twice": {podOf("    command: [kube-scheduler, --a=b, --a=c]\n"), []string{"--a is given 2 times: the last one counts"}},
		"gates that are given twice": {
			podOf("    command: [kube-scheduler, --feature-gates=A=true, --feature-gates=B=true]\n"),
			[]string{"--feature-gates is given 2 times: the values are taken together"},
		},
		"a variable that is not shown": {
			podOf("    command: [kube-scheduler, --a=$(B)]\n    env: [{name: B, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]\n"),
			[]string{"the value of --a depends on a variable that the manifest does not show ($(B))"},
		},
		"flags in command and args": {podOf("    command: [kube-scheduler, --a=b]\n    args: [--c]\n"), []string{"args split between command and args"}},
		"flags in args only":        {podOf("    command: [kube-scheduler]\n    args: [--c]\n"), nil},
		"several containers": {
			podOf("    command: [logs]\n  - name: b\n    command: [kube-scheduler]\n"),
			[]string{`the pod has 2 containers: flags are those of "b"`},
		},
		"a field that a Pod has not": {
			podOf("    command: [kube-scheduler]\n    livenesProbe: {}\n  hostNetworks: true\n"),
			[]string{`unknown field "spec.containers[0].livenesProbe", which a kubelet passes over`, `unknown field "spec.hostNetworks", which a kubelet passes over`},
		},
		"anchors": {
			podOf("    command: &c [kube-scheduler]\n  - name: b\n    command: *c\n"),
			[]string{`the pod has 2 containers: flags are those of "first"`, "anchors: an edit of a list that is written elsewhere writes it out where it is used"},
		},
		"JSON": {
			`{"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a", "command": ["kube-scheduler"]}]}}`,
			[]string{"written as JSON"},
		},
		"ports and times are understood": {
			podOf(
				"    command: [kube-scheduler]\n    ports: [{containerPort: 80}]\n    resources: {requests: {cpu: 100m, memory: 1}}\n    livenessProbe: {httpGet: {port: https}, timeoutSeconds: 15}\n",
			),
			nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parse(t, []byte(tt.pod)).Remarks()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestFlagsAreExpandedAsAKubeletDoes(t *testing.T) {
	m := parse(
		t,
		[]byte(
			podOf(
				`    command: [kube-controller-manager, --cluster-name=$(NAME), --a=$(NAME)-$(ZONE), --b=$$(NAME), --c=$(ABSENT), --d=$(IP), --e=$NAME, --f=$(MY_TOKEN), --g=$(LATE), --h=$$]
    env:
    - {name: NAME, value: prod}
    - {name: ZONE, value: $(NAME)-a}
    - {name: IP, value: old}
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: MY_TOKEN, value: hunter2}
    - {name: LATE, value: first}
    - {name: LATE, value: last}
`,
			),
		),
	)
	want := map[string]string{
		"cluster-name": "prod", "a": "prod-prod-a", "b": "$(NAME)", "c": "$(ABSENT)", "d": "$(IP)", "e": "$NAME", "f": "$(MY_TOKEN)", "g": "last", "h": "$",
	}
	if diff := cmp.Diff(want, m.Flags()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := m.Command()[1]; got != "--cluster-name=$(NAME)" {
		t.Errorf("the command as it is written has %s", got)
	}
}

// TestManifestsOfKubeadm reads what kubeadm of each version writes, makes the edits of a migration, and undoes them.
func TestManifestsOfKubeadm(t *testing.T) {
	files, err := filepath.Glob("testdata/manifests/kubeadm-*.yaml")
	if err != nil || len(files) < 9 {
		t.Fatalf("there are %d, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m := parse(t, data)
			if m.Component()+".yaml" != strings.SplitN(filepath.Base(file), "-", 3)[2] || m.Address() == "" || m.Namespace() != "kube-system" ||
				m.Name() != m.Component() {
				t.Errorf("it is %s of %s/%s at %q", m.Component(), m.Namespace(), m.Name(), m.Address())
			}
			if remarks := m.Remarks(); remarks != nil {
				t.Errorf("remarks: %q", remarks)
			}
			provider, had := m.Flags()["cloud-provider"]
			forward := []v1.Edit{
				set("cloud-provider", "external"),
				add("migration", "/etc/kubernetes/leadermigration.conf"),
				set("leader-migration-config", "/etc/kubernetes/leadermigration.conf"),
			}
			back := []v1.Edit{unset("leader-migration-config"), remove("migration", "/etc/kubernetes/leadermigration.conf"), unset("cloud-provider")}
			if had {
				back[2] = set("cloud-provider", provider)
			}
			there := apply(t, data, forward...)
			if got := parse(
				t,
				there,
			); got.Flags()["cloud-provider"] != "external" || got.HostPaths()["/etc/kubernetes/leadermigration.conf"] == "" ||
				got.Remarks() != nil {
				t.Errorf("edited, it says %v", got.Flags())
			}
			if diff := cmp.Diff(string(data), string(apply(t, there, back...))); diff != "" {
				t.Errorf("undone, -before +after:\n%s", diff)
			}
		})
	}
}
