package controlplane

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
)

func set(name, value string) v1.Edit {
	return v1.Edit{Op: v1.EditSetFlag, Name: name, Value: value}
}

func unset(name string) v1.Edit { return v1.Edit{Op: v1.EditUnsetFlag, Name: name} }

func add(name, path string) v1.Edit {
	return v1.Edit{Op: v1.EditAddHostPath, Name: name, Value: path, PathType: "File"}
}

func remove(name, path string) v1.Edit {
	return v1.Edit{Op: v1.EditRemoveHostPath, Name: name, Value: path}
}

// changed lists the lines that differ, "-" before and "+" after, in their order.
func changed(before, after []byte) []string {
	a, b := strings.SplitAfter(string(before), "\n"), strings.SplitAfter(string(after), "\n")
	common := make([][]int, len(a)+1) // of what follows
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			out = append(out, "-"+strings.TrimSuffix(a[i], "\n"))
			i++
		default:
			out = append(out, "+"+strings.TrimSuffix(b[j], "\n"))
			j++
		}
	}
	return out
}

func apply(t *testing.T, data []byte, edits ...v1.Edit) []byte {
	t.Helper()
	before := bytes.Clone(data)
	out, err := Apply(data, edits)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, data) {
		t.Fatal("the input was written to")
	}
	again, err := Apply(out, edits)
	if err != nil || !bytes.Equal(again, out) {
		t.Fatalf("the second time: %v, %q", err, changed(out, again))
	}
	return out
}

func TestApplyTouchesOnlyTheseLines(t *testing.T) {
	const (
		kcm  = "kubeadm-1.20-kube-controller-manager.yaml"
		kas  = "kubeadm-1.26-kube-apiserver.yaml"
		ks   = "kubeadm-1.30-kube-scheduler.yaml"
		hand = "handwritten-kube-controller-manager.yaml"
		json = "wrapped-kube-apiserver.json"
	)
	tests := map[string]struct {
		manifest string
		edits    []v1.Edit
		want     []string
	}{
		"leader migration is switched on": {
			kcm, []v1.Edit{set("enable-leader-migration", "true"), set("leader-migration-config", "/etc/kubernetes/transplant/kcm.yaml"),
				set("leader-elect-retry-period", "250ms"), add("transplant-leader-migration", "/etc/kubernetes/transplant/kcm.yaml")},
			[]string{
				"+    - --enable-leader-migration=true",
				"+    - --leader-migration-config=/etc/kubernetes/transplant/kcm.yaml",
				"+    - --leader-elect-retry-period=250ms",
				"+    - mountPath: /etc/kubernetes/transplant/kcm.yaml",
				"+      name: transplant-leader-migration",
				"+      readOnly: true",
				"+  - hostPath:",
				"+      path: /etc/kubernetes/transplant/kcm.yaml",
				"+      type: File",
				"+    name: transplant-leader-migration",
			},
		},
		"the loops leave": {
			kcm, []v1.Edit{set("cloud-provider", "external"), unset("cloud-config"), remove("cloud-config", "/etc/kubernetes/cloud.conf")},
			[]string{
				"-    - --cloud-config=/etc/kubernetes/cloud.conf",
				"-    - --cloud-provider=aws",
				"+    - --cloud-provider=external",
				"-    - mountPath: /etc/kubernetes/cloud.conf",
				"-      name: cloud-config",
				"-      readOnly: true",
				"-      path: /etc/kubernetes/cloud.conf",
				"-      type: File",
				"-    name: cloud-config",
				"-  - hostPath:",
			},
		},
		"the API server's provider is external": {
			kas, []v1.Edit{set("cloud-provider", "external"), unset("cloud-config")},
			[]string{"-    - --cloud-config=/etc/kubernetes/cloud.conf", "-    - --cloud-provider=aws", "+    - --cloud-provider=external"},
		},
		"values that need quotes": {
			ks, []v1.Edit{set("a", "b: c"), set("d", "e #f"), set("g", ""), set("h", "::"), set("i", "it's"), set("j", "{k}")},
			[]string{"+    - '--a=b: c'", "+    - '--d=e #f'", "+    - --g=", "+    - '--h=::'", "+    - '--i=it''s'", "+    - '--j={k}'"},
		},
		"nothing to do": {
			ks,
			[]v1.Edit{
				set("leader-elect", "true"),
				unset("nosuch"),
				add("other", "/etc/kubernetes/scheduler.conf"),
				remove("nosuch", "/x"),
				remove("kubeconfig", "/other"),
			},
			nil,
		},
		"a value in an element of its own, quoted, with a comment": {hand, []v1.Edit{set("cloud-provider", "external")},
			[]string{`-              - "aws"   # until the migration`, `+              - "external"   # until the migration`}},
		"a flag with an underscore keeps it, and its value's style": {hand, []v1.Edit{set("cloud-config", "/etc/x")},
			[]string{"-              - /etc/cloud/aws.conf", "+              - /etc/x"}},
		"a quote in quotes": {hand, []v1.Edit{set("cluster-name", "it's test")},
			[]string{"-              - 'it''s prod'", "+              - 'it''s test'"}},
		"a flag that stands alone gets a value": {hand, []v1.Edit{set("leader-elect", "false")},
			[]string{"-              - --leader-elect", "+              - --leader-elect=false"}},
		"two elements go": {hand, []v1.Edit{unset("cloud-provider")},
			[]string{`-              - "--cloud-provider"`, `-              - "aws"   # until the migration`}},
		"a new flag in two elements, as the others are": {hand, []v1.Edit{set("cluster-cidr", "10.0.0.0/8")},
			[]string{"+              - --cluster-cidr", "+              - '10.0.0.0/8'"}},
		"a new boolean has an equals sign": {hand, []v1.Edit{set("enable-leader-migration", "true")},
			[]string{"+              - --enable-leader-migration=true"}},
		"a value that looks like a flag": {hand, []v1.Edit{set("cluster-name", "-x")},
			[]string{"-              - '--cluster-name'", "-              - 'it''s prod'", "+              - --cluster-name=-x"}},
		"all of args go": {hand, []v1.Edit{unset("v"), unset("leader-elect")},
			[]string{"-          args:", "-              - --leader-elect", "-              - --v", `-              - "4"`, "+          args: []"}},
		"a mount next to maps in brackets": {hand, []v1.Edit{add("migration", "/etc/m.yaml")}, []string{
			"+              - mountPath: /etc/m.yaml", "+                name: migration", "+                readOnly: true",
			"+        - hostPath:", "+            path: /etc/m.yaml", "+            type: File", "+          name: migration",
		}},
		"a mount in brackets goes, and its volume": {
			hand,
			[]v1.Edit{remove("cloud", "/srv/cloud")},
			[]string{
				"-          volumeMounts:",
				"-              - {name: cloud, mountPath: /etc/cloud, readOnly: true}",
				"-        - {name: cloud, hostPath: {path: /srv/cloud, type: Directory}}",
			},
		},
		"a volume that another container mounts stays": {hand, []v1.Edit{remove("logs", "/var/log")}, nil},
		"JSON, one element a line": {
			json,
			[]v1.Edit{set("cloud-provider", "external"), set("x", `a"b`)},
			[]string{
				`-          "--cloud-provider=aws",`,
				`+          "--cloud-provider=external",`,
				`-          "--v=2"`,
				`+          "--v=2",`,
				`+          "--x=a\"b"`,
			},
		},
		"JSON, an element goes": {json, []v1.Edit{unset("v"), unset("cloud-provider")},
			[]string{`-          "--cloud-provider=aws",`, `-          "--secure-port=443",`, `-          "--v=2"`, `+          "--secure-port=443"`}},
		"JSON, lists that are not there": {json, []v1.Edit{add("x", "/x")}, []string{
			"-        ]", `+        ], "volumeMounts": [{"mountPath": "/x", "name": "x", "readOnly": true}]`,
			"-    ]", `+    ], "volumes": [{"hostPath": {"path": "/x", "type": "File"}, "name": "x"}]`,
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			data := example(t, tt.manifest)
			if diff := cmp.Diff(tt.want, changed(data, apply(t, data, tt.edits...))); diff != "" {
				t.Errorf("changed lines, -want +got:\n%s", diff)
			}
		})
	}
}

// list is a Pod whose container has this command, as it stands behind "    command:".
func list(command string) string { return podOf("    command:" + command) }

func TestApplyInEveryStyle(t *testing.T) {
	tests := map[string]struct {
		in    string
		edits []v1.Edit
		want  string
	}{
		"a list in brackets": {
			list(" [kube-scheduler, --a=b]\n"),
			[]v1.Edit{set("a", "c"), set("d", "e")},
			list(" [kube-scheduler, \"--a=c\", \"--d=e\"]\n"),
		},
		"a list in brackets with quotes": {
			list(" ['kube-scheduler', '--a=b']\n"),
			[]v1.Edit{set("a", "c"), set("d", "e")},
			list(" ['kube-scheduler', '--a=c', '--d=e']\n"),
		},
		"a list in brackets, the first goes": {
			podOf("    command: [kube-scheduler]\n    args: [--a, b, --c]\n"),
			[]v1.Edit{unset("a")},
			podOf("    command: [kube-scheduler]\n    args: [--c]\n"),
		},
		"a list in brackets, all go": {
			podOf("    command: [kube-scheduler]\n    args: [--a, b, --c]\n"),
			[]v1.Edit{unset("a"), unset("c")},
			podOf("    command: [kube-scheduler]\n    args: []\n"),
		},
		"a list in brackets with a comma more": {
			list(" [kube-scheduler, --a=b, ]\n"),
			[]v1.Edit{set("c", "d")},
			list(" [kube-scheduler, --a=b, \"--c=d\", ]\n"),
		},
		"a list in brackets over lines": {
			list(" [kube-scheduler, # the program\n      --a=b # a\n    ]\n"),
			[]v1.Edit{set("c", "d")},
			list(" [kube-scheduler, # the program\n      --a=b,\n      \"--c=d\" # a\n    ]\n"),
		},
		"no flags yet": {
			list("\n    - kube-scheduler # the program\n"),
			[]v1.Edit{set("a", "b")},
			list("\n    - kube-scheduler # the program\n    - --a=b\n"),
		},
		"no flags yet, behind a wrapper": {
			list("\n    - tini\n    - --\n    - kube-scheduler\n"),
			[]v1.Edit{set("a", "b")},
			list("\n    - tini\n    - --\n    - kube-scheduler\n    - --a=b\n"),
		},
		"flags in args": {
			podOf("    command:\n    - kube-scheduler\n    args:\n    - --a=b\n    image: x\n"),
			[]v1.Edit{set("a", "c"), set("d", "e")},
			podOf("    command:\n    - kube-scheduler\n    args:\n    - --a=c\n    - --d=e\n    image: x\n"),
		},
		"flags without a program": {
			podOf("    args: [--a=b]\n    image: x/cloud-controller-manager\n"),
			[]v1.Edit{set("c", "d")},
			podOf("    args: [--a=b, \"--c=d\"]\n    image: x/cloud-controller-manager\n"),
		},
		"behind two dashes is no place": {
			list("\n    - kube-scheduler\n    - --a=b\n    - --\n    - word\n"),
			[]v1.Edit{set("c", "d")},
			list("\n    - kube-scheduler\n    - --a=b\n    - --c=d\n    - --\n    - word\n"),
		},
		"a name in command, its value in args": {
			podOf("    command: [kube-scheduler, --a]\n    args: [b, --c]\n"),
			[]v1.Edit{unset("a")},
			podOf("    command: [kube-scheduler]\n    args: [--c]\n"),
		},
		"a flag that is given three times": {
			list("\n    - kube-scheduler\n    - --a=1\n    - --a\n    - '2'\n    # kept\n    - --a=3\n    - --b=c\n"),
			[]v1.Edit{set("a", "4")},
			list("\n    - kube-scheduler\n    # kept\n    - --a=4\n    - --b=c\n"),
		},
		"a flag that is given twice, as wanted": {
			list("\n    - kube-scheduler\n    - --a=1\n    - --a=2\n"),
			[]v1.Edit{set("a", "2")},
			list("\n    - kube-scheduler\n    - --a=2\n"),
		},
		"a flag that is given twice goes": {
			list("\n    - kube-scheduler\n    - --a=1\n    - --b\n    - --a=2\n"),
			[]v1.Edit{unset("a")},
			list("\n    - kube-scheduler\n    - --b\n"),
		},
		"klog's short flag": {
			list("\n    - kube-scheduler\n    - -v2\n"),
			[]v1.Edit{set("v", "4")},
			list("\n    - kube-scheduler\n    - -v=4\n"),
		},
		"an underscore in the edit": {
			list("\n    - kube-scheduler\n    - --a-b=1\n"),
			[]v1.Edit{set("--a_b", "2")},
			list("\n    - kube-scheduler\n    - --a-b=2\n"),
		},
		"a number in quotes stays a text": {
			list("\n    - kube-scheduler\n    - --a\n    - '1'\n"),
			[]v1.Edit{set("a", "2")},
			list("\n    - kube-scheduler\n    - --a\n    - '2'\n"),
		},
		"a text becomes a number in quotes": {
			list("\n    - kube-scheduler\n    - --a\n    - x/y\n"),
			[]v1.Edit{set("a", "2")},
			list("\n    - kube-scheduler\n    - --a\n    - '2'\n"),
		},
		"a word that YAML would misread": {
			list("\n    - kube-scheduler\n    - --a\n    - x/y\n"),
			[]v1.Edit{set("a", "off")},
			list("\n    - kube-scheduler\n    - --a\n    - 'off'\n"),
		},
		"lines that end as on Windows": {
			strings.ReplaceAll(list("\n    - kube-scheduler\n    - --a=b\n    image: x\n"), "\n", "\r\n"),
			[]v1.Edit{set("a", "c"), set("d", "e"), add("m", "/m")},
			strings.ReplaceAll(
				list(
					"\n    - kube-scheduler\n    - --a=c\n    - --d=e\n    image: x\n    volumeMounts:\n    - mountPath: /m\n      name: m\n      readOnly: true\n  volumes:\n  - hostPath:\n      path: /m\n      type: File\n    name: m\n",
				),
				"\n",
				"\r\n",
			),
		},
		"no line break at the end": {
			strings.TrimSuffix(list("\n    - kube-scheduler\n    - --a=b\n"), "\n"),
			[]v1.Edit{set("c", "d")},
			strings.TrimSuffix(list("\n    - kube-scheduler\n    - --a=b\n    - --c=d\n"), "\n"),
		},
		"a byte order mark and letters of many bytes": {
			"\ufeff# ä€𝄞\n" + list("\n    - kube-scheduler # ä\n    - --ä=ö # ü\n    - --a=b\n"),
			[]v1.Edit{set("a", "ß")},
			"\ufeff# ä€𝄞\n" + list("\n    - kube-scheduler # ä\n    - --ä=ö # ü\n    - '--a=ß'\n"),
		},
		"letters of many bytes on the same line": {
			list(" [kube-scheduler, \"--x=ä€𝄞\", --a=b]\n"),
			[]v1.Edit{set("a", "c")},
			list(" [kube-scheduler, \"--x=ä€𝄞\", \"--a=c\"]\n"),
		},
		"an unusual line break": {
			"# a\u2028# b\n" + list("\n    - kube-scheduler\n    - --a=b\n"),
			[]v1.Edit{set("a", "c")},
			"# a\u2028# b\n" + list("\n    - kube-scheduler\n    - --a=c\n"),
		},
		"an anchor and a tag stay": {
			list("\n    - kube-scheduler\n    - &x !!str --a=b\n"),
			[]v1.Edit{set("a", "c")},
			list("\n    - kube-scheduler\n    - &x !!str --a=c\n"),
		},
		"an alias is replaced where it is used": {
			podOf("    image: &x --a=b\n    command:\n    - kube-scheduler\n    - *x\n"),
			[]v1.Edit{set("a", "c")},
			podOf("    image: &x --a=b\n    command:\n    - kube-scheduler\n    - --a=c\n"),
		},
		"an alias of a list is written out": {
			"x: &l [kube-scheduler, --a=b]\n" + list(" *l\n"),
			[]v1.Edit{set("a", "c"), set("d", "e")},
			"x: &l [kube-scheduler, --a=b]\n" + list(" [\"kube-scheduler\", \"--a=c\", \"--d=e\"]\n"),
		},
		"comments around the list": {
			list(" # before\n    # first\n    - kube-scheduler\n    # second\n    - --a=b # third\n    # last\n"),
			[]v1.Edit{set("c", "d"), unset("a")},
			list(" # before\n    # first\n    - kube-scheduler\n    # second\n    - --c=d\n    # last\n"),
		},
		"a list that is not indented": {
			strings.ReplaceAll(
				list("\n    - kube-scheduler\n"),
				"  containers:\n  - name: first\n    command:\n    -",
				"  containers:\n  -   name: first\n      command:\n      -    ",
			),
			[]v1.Edit{set("a", "b")},
			strings.ReplaceAll(
				list("\n    - kube-scheduler\n"),
				"  containers:\n  - name: first\n    command:\n    - kube-scheduler\n",
				"  containers:\n  -   name: first\n      command:\n      -     kube-scheduler\n      -     --a=b\n",
			),
		},
		"mounts that are null": {
			list(" [kube-scheduler]\n    volumeMounts: # none\n    image: x\n  volumes: ~\n"),
			[]v1.Edit{add("m", "/m")},
			list(
				" [kube-scheduler]\n    volumeMounts: # none\n    - mountPath: /m\n      name: m\n      readOnly: true\n    image: x\n  volumes: [{\"hostPath\": {\"path\": \"/m\", \"type\": \"File\"}, \"name\": \"m\"}]\n",
			),
		},
		"mounts in empty brackets": {
			list(" [kube-scheduler]\n    volumeMounts: [ ]\n  volumes: []\n"),
			[]v1.Edit{add("m", "/m")},
			list(
				" [kube-scheduler]\n    volumeMounts: [ {\"mountPath\": \"/m\", \"name\": \"m\", \"readOnly\": true}]\n  volumes: [{\"hostPath\": {\"path\": \"/m\", \"type\": \"File\"}, \"name\": \"m\"}]\n",
			),
		},
		"a volume that is there without its mount": {
			list(" [kube-scheduler]\n    volumeMounts: []\n  volumes: [{name: m, hostPath: {path: /m}}]\n"),
			[]v1.Edit{add("m", "/m")},
			list(" [kube-scheduler]\n    volumeMounts: [{\"mountPath\": \"/m\", \"name\": \"m\", \"readOnly\": true}]\n  volumes: [{name: m, hostPath: {path: /m}}]\n"),
		},
		"a mount that stands first in its container": {
			"apiVersion: v1\nkind: Pod\nspec:\n  volumes:\n  - name: m\n    hostPath:\n      path: /m\n  containers:\n  - volumeMounts:\n    - name: m\n      mountPath: /m\n    command: [kube-scheduler]\n",
			[]v1.Edit{remove("m", "/m")},
			"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - volumeMounts: []\n    command: [kube-scheduler]\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, string(apply(t, []byte(tt.in), tt.edits...))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestUndo undoes what was added, and has the same bytes.
func TestUndo(t *testing.T) {
	entries, err := os.ReadDir("testdata/manifests")
	if err != nil {
		t.Fatal(err)
	}
	there := []v1.Edit{set("enable-leader-migration", "true"), set("new-flag", "/a b"), add("transplant-leader-migration", "/etc/kubernetes/transplant/kcm.yaml")}
	back := []v1.Edit{remove("transplant-leader-migration", "/etc/kubernetes/transplant/kcm.yaml"), unset("new-flag"), unset("enable-leader-migration")}
	for _, e := range entries {
		for _, end := range []string{"\n", "", "\r\n"} {
			t.Run(e.Name()+" ending in "+strings.NewReplacer("\n", "LF", "\r", "CR").Replace(end), func(t *testing.T) {
				data := bytes.TrimSuffix(example(t, e.Name()), []byte("\n"))
				if end == "\r\n" {
					data = bytes.ReplaceAll(data, []byte("\n"), []byte(end))
				}
				data = append(data, end...)
				out := apply(t, apply(t, data, there...), back...)
				want := changed(data, data)
				if strings.HasSuffix(e.Name(), ".json") { // the brackets that were added stay, empty
					out = bytes.ReplaceAll(bytes.ReplaceAll(out, []byte(`, "volumeMounts": []`), nil), []byte(`, "volumes": []`), nil)
				}
				if diff := cmp.Diff(want, changed(data, out)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	plain := list(" [kube-scheduler, --a=b]\n    volumeMounts:\n    - {name: v, mountPath: /taken}\n  volumes:\n  - {name: v, hostPath: {path: /other}}\n")
	tests := map[string]struct {
		in   string
		edit v1.Edit
		want string
	}{
		"an unknown operation":            {plain, v1.Edit{Op: "nosuch", Name: "a"}, "nosuch a: this operation is not known"},
		"a flag without a name":           {plain, set("", "x"), `"" is no name of a flag`},
		"a flag that is more than a name": {plain, set("a=b", "x"), `"a=b" is no name of a flag`},
		"a value of two lines":            {plain, set("a", "x\n- y"), "setFlag a: its value holds a character that cannot be printed"},
		"a value that is not UTF-8":       {plain, set("a", "\xff"), "cannot be printed"},
		"a volume's name that is none":    {plain, add("A_b", "/x"), "is no name of a volume"},
		"a path that is not absolute":     {plain, add("x", "x"), "is no absolute path"},
		"a path that goes upwards":        {plain, add("x", "/x/../y"), "is no absolute path in its shortest form"},
		"no path":                         {plain, add("x", ""), "is no absolute path"},
		"an unknown type of path": {
			plain,
			v1.Edit{Op: v1.EditAddHostPath, Name: "x", Value: "/x", PathType: "Socks"},
			`"Socks" is no type of a host path`,
		},
		"a path where something else is mounted": {plain, add("x", "/taken"), "addHostPath x: the container has something else mounted at /taken (volume v)"},
		"a volume's name that is taken":          {plain, add("v", "/x"), "addHostPath v: the pod has another volume of that name"},
		"flags inside a shell's script": {
			list(" [sh, -c, run --a=b]\n"),
			set("a", "c"),
			"first is started by a script of sh, so its flags cannot be read or edited",
		},
		"no command at all": {podOf("    image: x/cloud-controller-manager\n"), set("a", "b"), "neither a command nor a flag"},
		"a command that is merged in": {
			"x: &b {command: [kube-scheduler, --a=b]}\n" + podOf("    <<: *b\n"),
			set("a", "c"),
			"the container's command is merged in from elsewhere",
		},
		"an argument that other places share": {
			podOf("    command:\n    - kube-scheduler\n    - &x --a=b\n    image: *x\n"),
			set("a", "c"),
			"cannot be edited safely",
		},
		"an argument that other places need": {
			podOf("    command:\n    - kube-scheduler\n    - &x --a=b\n    image: *x\n"),
			unset("a"),
			"cannot be edited safely",
		},
		"a container that other places share": {
			"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - &c\n    name: x\n    command: [kube-scheduler, --a=b]\n  initContainers:\n  - *c\n",
			set("a", "c"),
			"cannot be edited safely",
		},
		"a value over several lines": {
			podOf("    command:\n    - kube-scheduler\n    - --a=b\n      c\n"),
			set("a", "c"),
			"line 10: the value \"--a=b c\" goes over several lines: rewrite that part in block style",
		},
		"a value as a block of text": {podOf("    command:\n    - kube-scheduler\n    - |\n      --a=b\n"), unset("a"), "line 10: a block of text"},
		"an argument behind its dash's line": {
			podOf("    command:\n    - kube-scheduler\n    -\n      --a=b\n"),
			unset("a"),
			"does not stand behind its own dash",
		},
		"mounts that stand elsewhere": {
			"x: &m [{name: v, mountPath: /v}]\n" + list(" [kube-scheduler]\n    volumeMounts: *m\n  volumes: [{name: x, hostPath: {path: /x}}]\n"),
			add("x", "/x"),
			"volumeMounts is an alias",
		},
		"mounts that stand elsewhere, to go": {
			"x: &m [{name: v, mountPath: /v}]\n" + list(" [kube-scheduler]\n    volumeMounts: *m\n  volumes: [{name: v, hostPath: {path: /v}}]\n"),
			remove("v", "/v"),
			"merged in from elsewhere",
		},
		"a stray word": {
			list("\n    - kube-scheduler\n    - --a\n    - --leader-elect\n    - word\n"),
			unset("leader-elect"),
			"remove that word from the command",
		},
		"an anchor on a line of its own": {
			podOf("    command:\n    - kube-scheduler\n    - &x\n      --a=b\n"),
			set("a", "c"),
			"an anchor or a tag stands on a line of its own",
		},
		"a mount that ends in a block of text": {
			list(" [kube-scheduler]\n  volumes:\n  - name: a\n    hostPath:\n      path: |-\n        /a\n"),
			add("x", "/x"),
			"a block of text",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := Apply([]byte(tt.in), []v1.Edit{tt.edit})
			if out != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, %v, want %q", out, err, tt.want)
			}
		})
	}
}

func TestApplyTellsWhichEditDidNotWork(t *testing.T) {
	_, err := Apply([]byte(podOf("    command: [sh, -c, run]\n")), []v1.Edit{add("x", "/x"), set("a", "b")})
	var shell *commandline.ShellCommandError
	if !errors.As(err, &shell) || !strings.HasPrefix(err.Error(), "setFlag a: ") {
		t.Errorf("err = %v", err)
	}
}

// FuzzApply checks that no manifest and no edit ends the program, that a second time changes nothing, and that the manifest then says what the
// edit wanted.
func FuzzApply(f *testing.F) {
	for _, name := range []string{"kubeadm-1.30-kube-scheduler.yaml", "handwritten-kube-controller-manager.yaml", "wrapped-kube-apiserver.json"} {
		f.Add(example(f, name), 0, "cloud-provider", "external")
		f.Add(example(f, name), 1, "v", "")
		f.Add(example(f, name), 2, "x", "/x")
		f.Add(example(f, name), 3, "cloud", "/srv/cloud")
	}
	f.Add([]byte("x: &l [kube-scheduler, &a --a=b]\n"+list(" *l\n    args: [*a]\n")), 0, "a", "c")
	f.Add([]byte(list("\r\n    - kube-scheduler\r\n    - --a\r\n    - \"b\" # c")), 1, "a", "")
	f.Fuzz(func(t *testing.T, data []byte, op int, name, value string) {
		ops := []v1.EditOp{v1.EditSetFlag, v1.EditUnsetFlag, v1.EditAddHostPath, v1.EditRemoveHostPath}
		edits := []v1.Edit{{Op: ops[uint(op)%4], Name: name, Value: value}}
		before := bytes.Clone(data)
		out, err := Apply(data, edits)
		if !bytes.Equal(data, before) {
			t.Fatal("the input was written to")
		}
		if err != nil {
			return
		}
		again, err := Apply(out, edits)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("the second time: %v\n%q\n%q\n%q", err, data, out, again)
		}
		m, err := Parse(out)
		if err != nil {
			t.Fatal(err)
		}
		have, ok := commandline.FlagsOf(m.Command())[commandline.NormalizeName(name)]
		switch edits[0].Op {
		case v1.EditSetFlag:
			if !ok || have != value {
				t.Fatalf("--%s is %q, %v:\n%q\n%q", name, have, ok, data, out)
			}
		case v1.EditUnsetFlag:
			if ok {
				t.Fatalf("--%s is there:\n%q\n%q", name, data, out)
			}
		case v1.EditAddHostPath:
			if m.HostPaths()[value] != value {
				t.Fatalf("%s is not mounted:\n%q\n%q", value, data, out)
			}
		default: // no other edit is about this
		}
	})
}

// FuzzParse checks that no text ends the program, and that what is said of it does not either.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"kubeadm-1.30-kube-scheduler.yaml", "handwritten-kube-controller-manager.yaml", "wrapped-kube-apiserver.json"} {
		f.Add(example(f, name))
	}
	f.Add([]byte(podOf("    command: [kube-scheduler, --a=$(B), --a=$$(B)]\n    env: [{name: B, value: $(B)$}]\n")))
	f.Add([]byte("apiVersion: v1\nkind: Pod\nspec: &a {containers: [*a, {<<: *a}, {command: [sh, -c]}]}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		_ = []any{m.Name(), m.Namespace(), m.Component(), m.Image(), m.Flags(), m.HostPaths(), m.Address(), m.Remarks()}
		if !slices.IsSorted(m.EnvNames()) {
			t.Errorf("the names are not sorted: %q", m.EnvNames())
		}
	})
}
