package plan

import (
	"encoding/json"
	"math/rand"
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
	"github.com/transplant-dev/transplant/internal/plan/allowed"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// attack is a change of a plan by which whoever may write one would get more than a migration.
type attack struct {
	name, base, says string
	change           func(t *testing.T, p *v1.Plan)
	// onlySeen reports whether it takes a look at the cluster to see it.
	onlySeen bool
}

// put adds a step that keeps all the other rules: it requires what it has to, and says how it is undone.
func put(s v1.Step) func(t *testing.T, p *v1.Plan) {
	return func(_ *testing.T, p *v1.Plan) {
		s.ID, s.Phase, s.Title, s.Undo, s.Requires = "evil", p.Steps[0].Phase, "write the leader migration config", "remove it", []string{"cluster:uid"}
		if s.Host != "" && s.Path != "" {
			id := planstep.FileFact(s.Host, s.Path)
			s.Requires = append(s.Requires, id)
			p.Facts = append(p.Facts, v1.Fact{ID: id, Value: "absent"})
		}
		p.Steps = append([]v1.Step{s}, p.Steps...)
	}
}

func inObject(id, old, with string) func(t *testing.T, p *v1.Plan) {
	return func(t *testing.T, p *v1.Plan) {
		t.Helper()
		s := find(t, p, id)
		before := s.Object + s.Content
		replaceIn(&s.Object, old, with)
		replaceIn(&s.Content, old, with)
		if before == s.Object+s.Content {
			t.Fatalf("%s has no %s to replace", id, old)
		}
	}
}

const (
	evilPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: kube-system}\nspec:\n  hostPID: true\n  containers:\n  - name: x\n    image: evil\n    securityContext: {privileged: true}\n"
	binding = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"NAME"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},` +
		`"subjects":[{"kind":"ServiceAccount","name":"default","namespace":"default"}]}`
)

var attacks = []attack{
	{
		"a file of cron",
		"lab",
		"rule P-42",
		put(v1.Step{Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/cron.d/x", Content: "* * * * * root id\n", Mode: "0644"}),
		false,
	},
	{
		"a key of root",
		"lab",
		"rule P-42",
		put(v1.Step{Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/ssh/authorized_keys", Content: "ssh-ed25519 AAAA\n", Mode: "0600"}),
		false,
	},
	{
		"a file by a detour",
		"lab",
		"detours",
		put(v1.Step{Kind: v1.StepWriteFile, Host: "cp-1", Path: layout.Dir + "/../../cron.d/x", Content: "x\n", Mode: "0644"}),
		false,
	},
	{"a file that goes away", "lab", "rule P-42", put(v1.Step{Kind: v1.StepRemoveFile, Host: "cp-1", Path: "/etc/kubernetes/admin.conf", Restore: "x"}), false},
	{
		"its own file with another content",
		"lab",
		"rule P-43",
		put(v1.Step{Kind: v1.StepWriteFile, Host: "cp-1", Path: layout.CredentialConfig, Content: "providers: [{name: ../../bin/sh}]\n", Mode: "0644"}),
		false,
	},
	{
		"a file of cron, as a kubelet's configuration of image credential providers",
		"lab",
		"rule P-42",
		put(v1.Step{
			Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/cron.d/x", Source: "/etc/cron.d/x", Derive: layout.DeriveCredentialConfig,
			Content: "providers: []\n", Mode: "0644",
		}),
		true,
	},
	{
		"a program of another directory, as an image credential provider",
		"azure-1.28",
		"rule P-42",
		func(t *testing.T, p *v1.Plan) { find(t, p, "copy/").Path = "/usr/bin/acr-credential-provider" },
		true,
	},
	{
		"a kubeconfig that is said, not derived",
		"lab",
		"rule P-43",
		put(v1.Step{Kind: v1.StepWriteFile, Host: "cp-1", Path: layout.CCMKubeconfig, Content: "kind: Config\n", Mode: "0600"}),
		false,
	},
	{
		"a static pod of another component",
		"lab",
		"rule P-42",
		put(v1.Step{Kind: v1.StepAddManifest, Component: "x", Host: "cp-1", Path: "/etc/kubernetes/manifests/x.yaml", Content: evilPod, Mode: "0600"}),
		false,
	},
	{
		"a static pod in place of the API server",
		"lab",
		"rule P-42",
		put(
			v1.Step{
				Kind:      v1.StepAddManifest,
				Component: component.KAS,
				Host:      "cp-1",
				Path:      "/etc/kubernetes/manifests/kube-apiserver.yaml",
				Content:   evilPod,
				Mode:      "0600",
			},
		),
		false,
	},
	{"the manager's manifest in another directory", "lab", "rule P-42", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "start/")
		s.Path = "/etc/cron.d/cloud-controller-manager.yaml"
		s.Requires, p.Facts = append(s.Requires, planstep.FileFact(s.Host, s.Path)), append(p.Facts, v1.Fact{ID: planstep.FileFact(s.Host, s.Path), Value: "absent"})
	}, true},
	{
		"the manager in a privileged container",
		"lab",
		"rule P-43",
		inObject("start/", "    resources:", "    securityContext:\n      privileged: true\n    resources:"),
		false,
	},
	{"the manager in the host's process namespace", "lab", "rule P-43", inObject("start/", "  hostNetwork: true", "  hostPID: true\n  hostNetwork: true"), false},
	{"the manager with another image", "lab", "rule P-43", inObject("start/", "    image: ", "    image: evil/"), false},
	{"the manager with another program", "lab", "rule P-43", inObject("start/", "    - --cloud-provider=aws", "    - -c\n    - --cloud-provider=aws"), false},
	{
		"the manager under the administrator's kubeconfig",
		"lab",
		"rule P-43",
		inObject("start/", "--kubeconfig="+layout.CCMKubeconfig, "--kubeconfig=/etc/kubernetes/admin.conf"),
		false,
	},
	{"the manager with a mount that it may write", "lab", "rule P-43", inObject("start/", "      readOnly: true", "      readOnly: false"), false},
	{
		"the manager sees a key of the control plane",
		"lab",
		"rule P-43",
		inObject("start/", "      path: "+layout.CCMKubeconfig, "      path: /etc/kubernetes/pki/ca.key"),
		false,
	},
	{
		"the manager has a variable of its own",
		"lab",
		"rule P-43",
		inObject("start/", "    env:", "    env:\n    - name: LD_PRELOAD\n      value: \"/x.so\""),
		false,
	},
	{
		"the manager sees a file that nothing names",
		"lab",
		"rule P-43",
		inObject("start/", "      path: "+layout.CCMKubeconfig, "      path: /etc/etcd.conf"),
		true,
	},
	{
		"the manager sees a file outside of /etc",
		"lab",
		"rule P-43",
		inObject("start/", "      path: "+layout.CCMKubeconfig, "      path: /opt/backup/ca.key"),
		false,
	},
	{"the manager sees its kubeconfig elsewhere", "lab", "rule P-43", inObject("start/", "mountPath: "+layout.CCMKubeconfig, "mountPath: /etc/ssl/certs"), false},
	{"the manager loads other code", "lab", "rule P-43", func(t *testing.T, p *v1.Plan) {
		p.Options.Env = append(p.Options.Env, "LD_PRELOAD=/x.so")
		inObject("start/", "    env:", "    env:\n    - name: LD_PRELOAD\n      value: \"/x.so\"")(t, p)
	}, false},
	{
		"the manager asks another API server",
		"lab",
		"rule P-43",
		inObject("start/", "    env:", "    env:\n    - name: KUBERNETES_SERVICE_HOST\n      value: \"192.0.2.1\""),
		true,
	},
	{
		"a DaemonSet asks another port",
		"gce-1.30",
		"rule P-46",
		inObject("start/"+component.CCM, `"name":"KUBERNETES_SERVICE_PORT","value":"6443"`, `"name":"KUBERNETES_SERVICE_PORT","value":"31337"`),
		true,
	},
	{
		"a DaemonSet takes another field for the API server",
		"gce-1.30",
		"rule P-46",
		inObject("start/"+component.CCM, `"fieldPath":"status.hostIP"`, `"fieldPath":"metadata.annotations"`),
		false,
	},
	{"a kubeconfig of the administrator", "lab", "rule P-44", func(t *testing.T, p *v1.Plan) {
		find(t, p, "write/"+layout.CCMKubeconfig).Source = "/etc/kubernetes/admin.conf"
	}, true},
	{"a cloud config that is none", "lab", "rule P-44", func(t *testing.T, p *v1.Plan) {
		find(t, p, "write/"+layout.CCMCloudConf).Source = "/etc/kubernetes/audit.yaml"
	}, true},
	{"a probe that runs a program", "lab", "rule P-43", inObject("start/", "    livenessProbe:", "    livenessProbe:\n      exec:\n        command: [sh]"), false},
	{
		"the operator's kubeconfig",
		"lab",
		"rule P-44",
		put(
			v1.Step{
				Kind:    v1.StepCopyFile,
				Host:    "cp-1",
				Path:    layout.CredentialDir + "/ecr-credential-provider",
				Source:  "/srv/admin/kubeconfig",
				Content: strings.Repeat("ab", 32),
				Mode:    "0755",
			},
		),
		false,
	},
	{"the operator's kubeconfig to another place", "azure-1.28", "rule P-42", func(t *testing.T, p *v1.Plan) { find(t, p, "copy/").Path = "/tmp/config" }, false},
	{
		"a source that is no file",
		"lab",
		"rule P-44",
		func(t *testing.T, p *v1.Plan) { find(t, p, "write/"+layout.CCMCloudConf).Source = "/proc/1/environ" },
		false,
	},
	{
		"cluster-admin",
		"lab",
		"rule P-46",
		put(v1.Step{Kind: v1.StepEnsureObject, Ref: "ClusterRoleBinding/x", Object: strings.Replace(binding, "NAME", "x", 1)}),
		false,
	},
	{"cluster-admin under the name of an object of ours", "lab", "rule P-46", func(t *testing.T, p *v1.Plan) {
		find(t, p, "create/ClusterRoleBinding/"+layout.CCMRole).Object = strings.Replace(binding, "NAME", layout.CCMRole, 1)
	}, false},
	{"a role with wildcards", "lab", "rule P-46", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "create/ClusterRole/"+layout.CCMRole)
		var o map[string]any
		if err := json.Unmarshal([]byte(s.Object), &o); err != nil {
			t.Fatal(err)
		}
		o["rules"] = []any{map[string]any{"apiGroups": []string{"*"}, "resources": []string{"*"}, "verbs": []string{"*"}}}
		s.Object = layout.EncodeObject(o)
	}, false},
	{
		"the right for somebody else",
		"lab",
		"rule P-46",
		inObject("create/ClusterRoleBinding/"+layout.CCMRole, `"name":"cloud-controller-manager"`, `"name":"default"`),
		false,
	},
	{
		"a Secret of another account",
		"lab",
		"rule P-46",
		put(
			v1.Step{Kind: v1.StepEnsureObject, Ref: "Secret/kube-system/" + layout.TokenSecret, Object: strings.Replace(layout.EncodeObject(layout.OlderTokenSecret()),
				`service-account.name":"cloud-controller-manager"`, `service-account.name":"clusterrole-aggregation-controller"`, 1)},
		),
		false,
	},
	{"a token of another account", "lab", "rule P-44", func(t *testing.T, p *v1.Plan) {
		find(t, p, "write/"+layout.CCMToken).Source = "ServiceAccount/kube-system/clusterrole-aggregation-controller"
	}, false},
	{
		"a token where the kubeconfig is",
		"lab",
		"rule P-43",
		put(v1.Step{Kind: v1.StepWriteFile, Host: "cp-1", Path: layout.CCMKubeconfig, Derive: layout.DeriveToken, Source: layout.AccountRef, Mode: "0600"}),
		false,
	},
	{
		"a kubeconfig where the token is",
		"lab",
		"rule P-43",
		put(
			v1.Step{Kind: v1.StepWriteFile, Host: "cp-1", Path: layout.CCMToken, Derive: layout.DeriveKubeconfig, Source: "/etc/kubernetes/admin.conf", Mode: "0600"},
		),
		false,
	},
	{
		"a token that others may read",
		"lab",
		"rule P-43",
		put(v1.Step{Kind: v1.StepWriteFile, Host: "cp-1", Path: layout.CCMToken, Derive: layout.DeriveToken, Source: layout.AccountRef, Mode: "0644"}),
		false,
	},
	{
		"the manager writes where it must not",
		"lab",
		"rule P-43",
		inObject(
			"start/",
			"    - mountPath: "+layout.CCMKubeconfig+"\n      name: file-1\n      readOnly: true",
			"    - mountPath: "+layout.CCMKubeconfig+"\n      name: file-1",
		),
		false,
	},
	{
		"the manager may make tokens of others",
		"lab",
		"rule P-46",
		inObject("create/Role/kube-system/"+layout.CCMRole, `"resourceNames":["cloud-controller-manager"],"resources":["serviceaccounts/token"]`,
			`"resources":["serviceaccounts/token"]`),
		false,
	},
	{
		"a DaemonSet with a privileged container",
		"gce-1.30",
		"rule P-46",
		inObject("start/"+component.CCM, `"image":`, `"securityContext":{"privileged":true},"image":`),
		false,
	},
	{
		"a DaemonSet with a second container",
		"gce-1.30",
		"rule P-46",
		inObject("start/"+component.CCM, `"containers":[`, `"containers":[{"name":"x","image":"evil"},`),
		false,
	},
	{
		"a DaemonSet with an init container",
		"gce-1.30",
		"rule P-46",
		inObject("start/"+component.CCM, `"containers":[`, `"initContainers":[{"name":"x","image":"evil"}],"containers":[`),
		false,
	},
	{
		"a DaemonSet that sees its host",
		"gce-1.30",
		"rule P-46",
		inObject("start/"+component.CCM, `"volumes":[`, `"volumes":[{"name":"x","hostPath":{"path":"/","type":"Directory"}},`),
		false,
	},
	{
		"a DaemonSet under an account of the cluster",
		"gce-1.30",
		"rule P-46",
		inObject("start/"+component.CCM, `"serviceAccountName":"cloud-controller-manager"`, `"serviceAccountName":"clusterrole-aggregation-controller"`),
		false,
	},
	{
		"a DaemonSet on every node",
		"gce-1.30",
		"by which a manager finds its nodes",
		inObject("start/"+component.CCM, `"nodeSelector":{"node-role.kubernetes.io/control-plane":""}`, `"nodeSelector":{"kubernetes.io/os":"linux"}`),
		false,
	},
	{
		"a DaemonSet that wants a node by affinity",
		"gce-1.30",
		"the pod has affinity",
		inObject("start/"+component.CCM, `"nodeSelector":`, `"affinity":{"nodeAffinity":{}},"nodeSelector":`),
		false,
	},
	{
		"a static pod without election",
		"lab",
		"--leader-elect=false lets each replica run the loops",
		inObject("start/", "--leader-elect=true", "--leader-elect=false"),
		false,
	},
	{
		"a static pod that elects only by what stands last",
		"lab",
		"--leader-elect stands twice",
		inObject("start/", "- --leader-elect=true", "- --leader-elect=true\n    - --leader-elect=false"),
		false,
	},
	{
		"a static pod that leaves the migration lease aside",
		"lab",
		"has no --enable-leader-migration=true",
		inObject("start/", "--enable-leader-migration=true", "--enable-leader-migration=false"),
		false,
	},
	{
		"a Deployment of the seed without the migration lease",
		"hosted-leader-migration",
		"has no --enable-leader-migration=true",
		inObject("start/"+component.CCM, `"--enable-leader-migration=true",`, ``),
		false,
	},
	{
		"names that the kube-controller-manager does not know",
		"lab",
		"no leader migration config of " + component.KCM,
		func(t *testing.T, p *v1.Plan) {
			s := find(t, p, "write/"+layout.KCMMigration)
			newer, err := migrationconfig.Render(controllernames.KubeControllerManager, 30, controllernames.CloudLoops, p.Options.LeaseName)
			if err != nil || s.Content == string(newer) {
				t.Fatalf("the names are those of 1.30 already: %v", err)
			}
			s.Content = string(newer)
		},
		true,
	},
	{
		"a path that ends a command",
		"lab",
		"characters that a shell does not take as they are",
		put(v1.Step{Kind: v1.StepKubelet, Host: "cp-1", Path: "/var/lib/kubelet/$(id)", Component: component.Kubelet}),
		false,
	},
	{
		"an id that ends a command", "lab", "has characters that",
		func(t *testing.T, p *v1.Plan) { find(t, p, "start/").ID += "'; id #" }, false,
	},
	{
		"the API server's manifest goes", "lab", "a migration ends none but",
		put(v1.Step{Kind: v1.StepRemoveManifest, Component: component.KAS, Host: "cp-1", Path: "/etc/kubernetes/manifests/kube-apiserver.yaml", Restore: "x"}),
		false,
	},
	{
		"the scheduler's unit is stopped", "lab", "a migration ends none but",
		put(v1.Step{Kind: v1.StepStopUnit, Component: component.Scheduler, Host: "cp-1", Unit: "kube-scheduler.service"}),
		false,
	},
	{
		"no API server is left", "hosted-downtime", "a migration ends none but",
		put(v1.Step{Kind: v1.StepScale, Component: component.KAS, Ref: "Deployment/cluster-x/apiserver", Replicas: new(int32)}),
		false,
	},
	{"somebody else's object is deleted", "lab", "rule P-46", put(v1.Step{Kind: v1.StepDeleteObject, Ref: "ClusterRoleBinding/cluster-admin"}), false},
	{"somebody else's lease is the migration's", "lab", "rule P-46", func(_ *testing.T, p *v1.Plan) { p.Options.LeaseName = "kube-scheduler" }, false},
	{
		"the pods of another DaemonSet are replaced", "lab", "rule P-46",
		put(v1.Step{Kind: v1.StepReplacePod, Host: "cp-1", Component: component.CCM, Ref: "DaemonSet/kube-system/kube-proxy"}), false,
	},
	{
		"a replaced pod writes a file", "lab", "rule P-42",
		put(v1.Step{Kind: v1.StepReplacePod, Host: "cp-1", Path: "/etc/shadow", Component: component.CCM, Ref: layout.CCMDaemonSet}), false,
	},
	{"a Node is patched", "lab", "rule P-46", put(v1.Step{Kind: v1.StepPatchObject, Ref: "Node/cp-1", Patch: `{"spec":{"unschedulable":true}}`}), false},
	{"kubelets to come trust everybody", "gce-1.30", "rule P-46", func(t *testing.T, p *v1.Plan) {
		replaceIn(&find(t, p, "patch/ConfigMap/kube-system/kubelet-config").Patch, `apiVersion:`, `authentication: {anonymous: {enabled: true}}\napiVersion:`)
	}, true},
	{"the API server allows everything", "lab", "rule P-45", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "external/"+component.KAS)
		s.Edits = append(s.Edits, v1.Edit{Op: v1.EditSetFlag, Name: "authorization-mode", Value: "AlwaysAllow"})
	}, false},
	{"the API server asks nobody who it is", "lab", "rule P-45", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "external/"+component.KAS)
		s.Edits = append(s.Edits, v1.Edit{Op: v1.EditUnsetFlag, Name: "authorization-mode"})
	}, false},
	{"another file is mounted", "lab", "rule P-45", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "leader-migration/"+component.KCM)
		s.Edits = append(s.Edits, v1.Edit{Op: v1.EditAddHostPath, Name: "x", Value: "/etc/shadow", PathType: "File"})
	}, false},
	{"a kubelet takes pods from elsewhere", "lab", "rule P-45", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "external/kubelet")
		s.Edits = append(s.Edits, v1.Edit{Op: v1.EditSetFlag, Name: "pod-manifest-path", Value: "/tmp"})
	}, false},
	{"a kubelet runs another binary", "azure-1.28", "rule P-45", func(t *testing.T, p *v1.Plan) {
		set(t, find(t, p, "external/kubelet"), flagvalue.FlagCredentialDir, "/tmp")
	}, false},
	{"a component gets another image", "lab", "rule P-45", func(t *testing.T, p *v1.Plan) {
		s := find(t, p, "external/"+component.KCM)
		s.Edits = append(s.Edits, v1.Edit{Op: v1.EditSetImage, Name: component.KCM, Value: "v1.0.0-evil"})
	}, false},
	{
		"a Deployment of the seed sees its node",
		"hosted-downtime",
		"rule P-46",
		inObject("start/"+component.CCM, `"volumes":[`, `"volumes":[{"name":"x","hostPath":{"path":"/"}},`),
		false,
	},
	{
		"a Deployment of the seed with another Secret",
		"hosted-downtime",
		"rule P-46",
		inObject("start/"+component.CCM, `"secretName":"`+layout.SeedKubeconfig+`"`, `"secretName":"admin-kubeconfig"`),
		false,
	},
	{
		"a Deployment of the seed is edited that is no manager",
		"hosted-downtime",
		"rule P-46",
		put(v1.Step{Kind: v1.StepEditWorkload, Component: "etcd", Ref: "Deployment/cluster-x/etcd"}),
		false,
	},
}

// TestAKeyThatOnlyAVariableNamesIsNoManagers, wherever the installer of a cluster puts its keys. One that the cloud config of a control-plane host names is for
// the cloud.
func TestAKeyThatOnlyAVariableNamesIsNoManagers(t *testing.T) {
	for at, permitted := range map[string]bool{
		"/etc/kubernetes/ssl/ca.key": false, "/etc/kubernetes/ssl": false, "/etc/ssl/etcd/ssl/node-cp-1-key.pem": false, "/etc/kubernetes/ssl/secrets_encryption.yaml": false,
		"/etc/kubernetes/encryption-config.yaml": false, "/etc/kubernetes/known_tokens.csv": false, "/etc/other/ca.key": false, "/etc/kubernetes/gce.json": true, "/etc/cloud/ca.pem": true,
	} {
		j := allowed.Judge{Options: v1.Options{Env: []string{"X=" + at}}, Live: &v1.Snapshot{Hosts: []v1.Host{{Name: "cp-1"}}}}
		if err := allowed.HostFile(j, at, allowed.PodRules{Host: "cp-1"}); (err == nil) != permitted {
			t.Errorf("%s: %v", at, err)
		}
		if strings.HasSuffix(at, "/other/ca.key") {
			j.Live.Hosts[0].CloudConfig = &v1.CloudConfig{Settings: map[string]string{"global.key-file": at}}
			if err := allowed.HostFile(j, at, allowed.PodRules{Host: "cp-1"}); err == nil {
				t.Error("a worker's cloud config lets the manager have a key")
			}
			j.Live.Hosts[0].Components = []v1.Component{{Name: component.KCM}}
			if err := allowed.HostFile(j, at, allowed.PodRules{Host: "cp-1"}); err != nil {
				t.Errorf("the key of the cloud config: %v", err)
			}
		}
	}
}

// TestAPlanCanDoNoMoreThanAMigration: what every rule about order is content with is refused when it does something that no migration does.
func TestAPlanCanDoNoMoreThanAMigration(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			p, s := base(t, a.base)
			a.change(t, p)
			if err := invariant.CheckWellFormed(p); !a.onlySeen && (err == nil || !strings.Contains(err.Error(), a.says)) {
				t.Errorf("read from a file it is not refused with %q: %v", a.says, err)
			}
			if err := invariant.CheckAllowed(p, s); err == nil || !strings.Contains(err.Error(), a.says) {
				t.Errorf("with its cluster in view it is not refused with %q: %v", a.says, err)
			}
			for _, step := range p.Steps {
				if allowed.CheckStep(p, step, s) != nil {
					return
				}
			}
			t.Error("the engine would execute each of its steps")
		})
	}
}

// TestEveryPlanThatIsMadeIsAllowed: there and back, for whatever cluster.
func TestEveryPlanThatIsMadeIsAllowed(t *testing.T) {
	plans := map[string]func() (*v1.Plan, *v1.Snapshot){"lab": func() (*v1.Plan, *v1.Snapshot) { return base(t, "lab") }}
	for _, c := range compact {
		plans[c.name] = func() (*v1.Plan, *v1.Snapshot) { return base(t, c.name) }
	}
	for _, c := range hostedPlans {
		plans[c.name] = func() (*v1.Plan, *v1.Snapshot) { return base(t, c.name) }
	}
	for name, of := range plans {
		p, s := of()
		eachStepAllowed(t, name, p, s)
	}
	made := 0
	for seed := range int64(120) {
		s, o := anyCluster(rand.New(rand.NewSource(seed)))
		if p, err := Make(s, o, nil, now); err == nil {
			eachStepAllowed(t, s.Cluster.Provider, p, s)
			made++
		}
	}
	if made < 20 {
		t.Errorf("only %d plans were made", made)
	}
}

func eachStepAllowed(t *testing.T, name string, p *v1.Plan, s *v1.Snapshot) {
	t.Helper()
	j := &v1.Journal{Plan: *p}
	for _, step := range p.Steps {
		j.Records = append(j.Records, v1.StepRecord{ID: step.ID, Result: v1.StepResultDone})
	}
	both := []*v1.Plan{p}
	if p.Options.Part != v1.PartFinish {
		back, err := rollback.Make(j, s, now)
		if err != nil {
			t.Errorf("%s: the way back: %v", name, err)
			return
		}
		both = append(both, back)
	}
	for _, p := range both {
		for _, live := range []*v1.Snapshot{s, nil} {
			if err := invariant.CheckAllowed(p, live); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, step := range p.Steps {
			if err := allowed.CheckStep(p, step, s); err != nil {
				t.Errorf("%s, step %s %s: %v", name, p.Direction, step.ID, err)
			}
		}
	}
}

// TestPlacesAreTheClustersOwn: a directory of manifests and files of a kubelet that are not the usual ones are known from the cluster, and never from the plan.
func TestPlacesAreTheClustersOwn(t *testing.T) {
	const dir, config = "/opt/k8s/pods", "/opt/k8s/kubelet.yaml"
	p, s := base(t, "lab")
	for _, step := range []v1.Step{
		{Kind: v1.StepRemoveManifest, Host: "cp-1", Component: component.KCM, Path: dir + "/kcm.yaml"},
		{Kind: v1.StepKubelet, Host: "cp-1", Component: component.Kubelet, Path: config},
		{Kind: v1.StepStopUnit, Host: "cp-1", Component: component.KCM, Unit: "master.service"},
	} {
		if err := allowed.CheckStep(p, step, s); err == nil {
			t.Errorf("%s of %s%s is allowed though the cluster knows no such place", step.Kind, step.Path, step.Unit)
		}
		own := lab(t)
		for i := range own.Hosts {
			if h := &own.Hosts[i]; h.Name == "cp-1" {
				for c := range h.Components {
					h.Components[c].Manifest = dir + "/" + h.Components[c].Name + ".yaml"
				}
				h.Components = append(h.Components, v1.Component{Name: component.KCM, Runs: v1.RunsSystemd, Unit: "master.service"})
				h.Kubelet.Files = append(h.Kubelet.Files, v1.File{Path: config, Present: true})
			}
		}
		if err := allowed.CheckStep(p, step, own); err != nil {
			t.Errorf("%s is refused though it is the cluster's own place: %v", step.Kind, err)
		}
	}
}

// TestAUnitIsItsComponentsOwn: a step in the name of a manager could else end the API server, and the way back would not bring it back.
func TestAUnitIsItsComponentsOwn(t *testing.T) {
	const etcd, kas, kcm, ccm = "etcd.service", "kube-apiserver.service", "kube-controller-manager.service", "aws-cloud-controller-manager.service"
	p, s := base(t, "lab")
	for _, c := range []struct {
		component, unit string
		seen            string // the component that the unit is seen to start; empty where it is not seen
		ok              bool
	}{
		{component.KCM, kcm, "", true},
		{component.KCM, "k8s-controller-manager.service", "", true},
		{component.KCM, "master.service", component.KCM, true},
		{component.KCM, kas, "", false},
		{component.KCM, etcd, "", false},
		{component.KCM, ccm, "", false},
		{component.KCM, kas, component.KAS, false},
		{component.KCM, kcm, component.KAS, false},
		{component.KCM, "master.service", component.KAS, false},
		{component.CCM, ccm, "", true},
		{component.CCM, kcm, "", false},
		{component.CCM, kcm, component.KCM, false},
	} {
		own := *s
		own.Hosts = slices.Clone(s.Hosts)
		at := slices.IndexFunc(own.Hosts, func(h v1.Host) bool { return h.Name == "cp-1" })
		if c.seen != "" {
			own.Hosts[at].Components = append(slices.Clone(own.Hosts[at].Components), v1.Component{Name: c.seen, Runs: v1.RunsSystemd, Unit: c.unit})
		}
		err := allowed.CheckStep(p, v1.Step{Kind: v1.StepStopUnit, Host: "cp-1", Component: c.component, Unit: c.unit}, &own)
		if refused := err != nil && strings.Contains(err.Error(), "is not seen to start "+c.component); refused == c.ok || err != nil && c.ok {
			t.Errorf("%s, seen to start %q, as %s: %v, allowed %v", c.unit, c.seen, c.component, err, c.ok)
		}
	}
}

// TestACommandLineIsPutBackInWhatAMigrationChangesOnly: a record whose command line is another program's puts nothing back.
func TestACommandLineIsPutBackInWhatAMigrationChangesOnly(t *testing.T) {
	now := []string{component.KCM, "--cloud-provider=external", "--kubeconfig=/a", "--controllers=*,-service"}
	for name, c := range map[string]struct {
		back  []string
		holds bool
	}{
		"as it was":        {[]string{component.KCM, "--cloud-provider=aws", "--cloud-config=/c", "--kubeconfig=/a"}, true},
		"another program":  {[]string{"sh", "--cloud-provider=aws", "--kubeconfig=/a"}, false},
		"another argument": {[]string{component.KCM, "x", "--cloud-provider=aws", "--kubeconfig=/a"}, false},
		"another flag":     {[]string{component.KCM, "--cloud-provider=aws", "--kubeconfig=/b"}, false},
	} {
		if err := allowed.CheckOnlyEditable(component.KCM, now, nil, c.back, nil, v1.Options{}); (err == nil) != c.holds {
			t.Errorf("%s: %v", name, err)
		}
	}
}
