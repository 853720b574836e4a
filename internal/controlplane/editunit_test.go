package controlplane

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/kubeletfile"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
)

func readUnit(t *testing.T, files machine, name string) *systemdunit.Unit {
	t.Helper()
	u, err := systemdunit.ReadUnit(files, name)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// after are the files with the changes of an edit, which must be none the second time.
func after(t *testing.T, files machine, name string, edits ...v1.Edit) machine {
	t.Helper()
	changes, err := systemdunit.ApplyUnit(readUnit(t, files, name), edits)
	if err != nil {
		t.Fatal(err)
	}
	out := maps.Clone(files)
	for p, data := range changes {
		out[p] = string(data)
	}
	if again, err := systemdunit.ApplyUnit(readUnit(t, out, name), edits); err != nil || len(again) != 0 {
		t.Fatalf("the second time: %v, %v", again, err)
	}
	return out
}

func TestApplyUnitTouchesOnlyTheseLines(t *testing.T) {
	tests := map[string]struct {
		edits []v1.Edit
		want  []string
	}{
		"the provider becomes external": {[]v1.Edit{set("cloud-provider", "external")}, []string{`-  --cloud-provider=aws \`, `+  --cloud-provider=external \`}},
		"the config goes, with its line": {[]v1.Edit{unset("cloud-config")}, []string{
			`-  --cloud-config=/etc/kubernetes/cloud.conf \`,
		}},
		"the last flag goes, with its line": {
			[]v1.Edit{unset("v")},
			[]string{`-  --cloud-config=/etc/kubernetes/cloud.conf \`, `-  --v=2`, `+  --cloud-config=/etc/kubernetes/cloud.conf`},
		},
		"a flag behind a comment goes, and that stays": {[]v1.Edit{unset("cloud-provider")}, []string{`-  --cloud-provider=aws \`}},
		"a new flag gets a line of its own": {
			[]v1.Edit{set("enable-leader-migration", "true")},
			[]string{`-  --v=2`, `+  --v=2 \`, `+  --enable-leader-migration=true`},
		},
		"a percent sign is doubled": {[]v1.Edit{set("v", "2%")}, []string{`-  --v=2`, `+  --v=2%%`}},
		"nothing to do":             {[]v1.Edit{set("cloud-provider", "aws"), unset("nosuch"), add("x", "/x"), remove("x", "/x")}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := machine{unitFile: handmade}
			got := after(t, before, "kube-controller-manager", tt.edits...)
			if diff := cmp.Diff(tt.want, changed([]byte(handmade), []byte(got[unitFile]))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestApplyUnitInEveryStyle(t *testing.T) {
	const at = "/usr/bin/kube-scheduler"
	tests := map[string]struct {
		unit, env         string
		edits             []v1.Edit
		wantUnit, wantEnv string
	}{
		"on one line": {
			"ExecStart=" + at + " --a=b --c\n",
			"",
			[]v1.Edit{set("a", "x"), unset("c"), set("d", "e")},
			"ExecStart=" + at + " --a=x --d=e\n",
			"",
		},
		"no flag yet": {"ExecStart=" + at, "", []v1.Edit{set("a", "b")}, "ExecStart=" + at + " --a=b", ""},
		"in quotes":   {"ExecStart=" + at + " \"--a=b\" '--c=d'", "", []v1.Edit{set("a", "x"), unset("c")}, "ExecStart=" + at + " --a=x", ""},
		"in two words": {
			"ExecStart=" + at + " --a b --c d",
			"",
			[]v1.Edit{set("a", "x"), unset("c"), set("e", "f")},
			"ExecStart=" + at + " --a x --e f",
			"",
		},
		"the first of a variable": {
			"Environment=\"A=--a b --c=d\"\nExecStart=" + at + " $A",
			"",
			[]v1.Edit{unset("a")},
			"Environment=\"A=--c=d\"\nExecStart=" + at + " $A",
			"",
		},
		"the only one of a variable": {
			"Environment=\"A=--a b\"\nExecStart=" + at + " $A",
			"",
			[]v1.Edit{unset("a")},
			"Environment=\"A=\"\nExecStart=" + at + " $A",
			"",
		},
		"a new one in a variable": {
			"Environment=\"A=--a=b\"\nExecStart=" + at + " $A",
			"",
			[]v1.Edit{set("c", "d")},
			"Environment=\"A=--a=b --c=d\"\nExecStart=" + at + " $A",
			"",
		},
		"a variable that needs quotes": {
			"Environment=B=x A=--a=b\nExecStart=" + at + " $A",
			"",
			[]v1.Edit{set("c", "d")},
			"Environment=B=x \"A=--a=b --c=d\"\nExecStart=" + at + " $A",
			"",
		},
		"a percent sign in a setting": {
			"Environment=A=--a=b\nExecStart=" + at + " $A",
			"",
			[]v1.Edit{set("a", "5%")},
			"Environment=A=--a=5%%\nExecStart=" + at + " $A",
			"",
		},
		"a variable in braces": {
			"Environment=A=b\nExecStart=" + at + " --a=${A} --c",
			"",
			[]v1.Edit{set("a", "x")},
			"Environment=A=b\nExecStart=" + at + " --a=x --c",
			"",
		},
		"a variable in a file": {
			"EnvironmentFile=/e\nExecStart=" + at + " --x $A",
			"# mine\nA=\"--a=b --c=d\"  \nB=c",
			[]v1.Edit{set("cloud-provider", "external"), unset("a")},
			"EnvironmentFile=/e\nExecStart=" + at + " --x $A",
			"# mine\nA=\"--c=d --cloud-provider=external\"  \nB=c",
		},
		"a percent sign in a file": {
			"EnvironmentFile=/e\nExecStart=" + at + " $A",
			"A=--a=b",
			[]v1.Edit{set("a", "5%")},
			"EnvironmentFile=/e\nExecStart=" + at + " $A",
			"A=--a=5%",
		},
		"a file that goes on": {
			"EnvironmentFile=/e\nExecStart=" + at + " $A",
			"A=--a=b \\\n  --c=d\n",
			[]v1.Edit{unset("c"), set("e", "f")},
			"EnvironmentFile=/e\nExecStart=" + at + " $A",
			"A=--a=b --e=f\n",
		},
		"given in both": {
			"EnvironmentFile=/e\nExecStart=" + at + " --a=1 $A",
			"A=--a=2 --b",
			[]v1.Edit{set("a", "3")},
			"EnvironmentFile=/e\nExecStart=" + at + " $A",
			"A=--a=3 --b",
		},
		"a name here, its value there": {
			"EnvironmentFile=/e\nExecStart=" + at + " --a $A",
			"A=b --c",
			[]v1.Edit{unset("a")},
			"EnvironmentFile=/e\nExecStart=" + at + " $A",
			"A=--c",
		},
		"gates that are given twice": {
			"ExecStart=" + at + " --feature-gates=A=true --feature-gates=B=false",
			"",
			[]v1.Edit{set("feature-gates", "A=true,B=true")},
			"ExecStart=" + at + " --feature-gates=A=true,B=true",
			"",
		},
		"an empty variable of kubeadm": {
			"EnvironmentFile=/e\nExecStart=/usr/bin/kubelet --x $KUBELET_KUBEADM_ARGS --y",
			"KUBELET_KUBEADM_ARGS=\"\"\n",
			[]v1.Edit{set("a", "b"), set("c", "d")},
			"EnvironmentFile=/e\nExecStart=/usr/bin/kubelet --x $KUBELET_KUBEADM_ARGS --y",
			"KUBELET_KUBEADM_ARGS=\"--a=b --c=d\"\n",
		},
		"a variable of spaces": {
			"EnvironmentFile=/e\nExecStart=/usr/bin/kubelet --x $KUBELET_KUBEADM_ARGS",
			"KUBELET_KUBEADM_ARGS='  '\n",
			[]v1.Edit{set("a", "b")},
			"EnvironmentFile=/e\nExecStart=/usr/bin/kubelet --x $KUBELET_KUBEADM_ARGS",
			"KUBELET_KUBEADM_ARGS='--a=b  '\n",
		},
		"an empty one without quotes": {
			"Environment=KUBELET_KUBEADM_ARGS=\nExecStart=/usr/bin/kubelet $KUBELET_KUBEADM_ARGS",
			"",
			[]v1.Edit{set("a", "b"), set("c", "d")},
			"Environment=\"KUBELET_KUBEADM_ARGS=--a=b --c=d\"\nExecStart=/usr/bin/kubelet $KUBELET_KUBEADM_ARGS",
			"",
		},
		"where nothing ends the line": {"ExecStart=" + at + " --a=b", "", []v1.Edit{set("a", "c")}, "ExecStart=" + at + " --a=c", ""},
		"line breaks of Windows": {
			"ExecStart=" + at + " \\\r\n  --a=b \\\r\n  --c\r\n",
			"",
			[]v1.Edit{unset("a"), set("d", "e")},
			"ExecStart=" + at + " \\\r\n  --c \\\r\n  --d=e\r\n",
			"",
		},
		"a value that looks like a flag": {"ExecStart=" + at + " --a b", "", []v1.Edit{set("a", "-x")}, "ExecStart=" + at + " --a=-x", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := "/etc/systemd/system/x.service"
			files := machine{p: "[Service]\n" + tt.unit, "/e": tt.env}
			got := after(t, files, "x", tt.edits...)
			if diff := cmp.Diff(machine{p: "[Service]\n" + tt.wantUnit, "/e": tt.wantEnv}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestApplyUnitOfAKubeadmKubelet(t *testing.T) {
	files := kubeadmHost()
	files["/etc/default/kubelet"] = "# mine\nKUBELET_EXTRA_ARGS=--cloud-config=/etc/kubernetes/cloud.conf --node-labels=tier=front\n"
	edits := []v1.Edit{set("cloud-provider", "external"), unset("cloud-config"), set("image-credential-provider-bin-dir", "/usr/local/bin")}
	want := maps.Clone(files)
	want[kubeletfile.KubeletFlagsFile] = strings.Replace(
		strings.Replace(kubeadmFlags, "=aws", "=external", 1),
		"pause:3.9",
		"pause:3.9 --image-credential-provider-bin-dir=/usr/local/bin",
		1,
	)
	want["/etc/default/kubelet"] = "# mine\nKUBELET_EXTRA_ARGS=--node-labels=tier=front\n"
	if diff := cmp.Diff(want, after(t, files, "kubelet", edits...)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNewFlagsGoWhereTheCallerWantsThem(t *testing.T) {
	files := machine{unitFile: "[Service]\nEnvironmentFile=/e\nExecStart=kube-scheduler --v=2 $A\n", "/e": "A=--cloud-provider=aws\n"}
	u := readUnit(t, files, "kube-controller-manager")
	edits := []v1.Edit{unset("v"), set("x", "y"), set("z", "1")}
	tests := map[string]struct {
		file string
		want map[string][]byte
	}{
		"in the unit": {unitFile, map[string][]byte{unitFile: []byte("[Service]\nEnvironmentFile=/e\nExecStart=kube-scheduler --x=y --z=1 $A\n")}},
		"in its environment file": {
			"/e",
			map[string][]byte{unitFile: []byte("[Service]\nEnvironmentFile=/e\nExecStart=kube-scheduler $A\n"), "/e": []byte("A=--cloud-provider=aws --x=y --z=1\n")},
		},
		"where the provider stood too": {"/e", map[string][]byte{"/e": []byte("A=--x=y\n")}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			do := edits
			if len(tt.want) == 1 && tt.file == "/e" {
				do = []v1.Edit{unset("cloud-provider"), set("x", "y")} // the variable is empty in between
			}
			got, err := systemdunit.ApplyUnitIn(u, tt.file, do)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if got, err := systemdunit.ApplyUnitIn(
		u,
		"/elsewhere",
		edits,
	); got != nil || err == nil ||
		!strings.Contains(err.Error(), "there is no flag in /elsewhere to put another one behind") {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestApplyUnitRefuses(t *testing.T) {
	tests := map[string]struct {
		unit string
		edit v1.Edit
		want string
	}{
		"a variable that is used twice": {"Environment=A=--a=b\nExecStart=kube-scheduler $A --x $A", set("a", "c"), "cannot be edited safely"},
		"a value with a space":          {"ExecStart=kube-scheduler --a=b", set("a", "b c"), "a space, a quote or another character"},
		"a value with a dollar sign":    {"ExecStart=kube-scheduler --a=b", set("a", "$b"), "a space, a quote or another character"},
		"a name that is none":           {"ExecStart=kube-scheduler --a=b", set("a b", "c"), "is no name of a flag"},
		"an operation that is none":     {"ExecStart=kube-scheduler --a=b", v1.Edit{Op: "nosuch", Name: "a"}, "not known"},
		"a stray word behind a flag":    {"ExecStart=kube-scheduler --a --leader-elect stray", unset("leader-elect"), "remove that word from the command"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			u := readUnit(t, machine{unitFile: "[Service]\n" + tt.unit}, "kube-controller-manager")
			if got, err := systemdunit.ApplyUnit(u, []v1.Edit{tt.edit}); got != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			if got := string(u.Data(unitFile)); got != "[Service]\n"+tt.unit {
				t.Errorf("the unit was changed: %s", got)
			}
		})
	}
}

// FuzzUnit edits whatever can be read as a unit with an environment file: an edit either takes place, alone, or is refused.
func FuzzUnit(f *testing.F) {
	f.Add(handmade, "")
	f.Add(kubeadmHost()[kubeadmOne], kubeadmFlags)
	f.Add(
		"[Service]\nEnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\nEnvironment=A=--a=b 'B=c d' C=\\x20e\nExecStart=-/usr/bin/kubelet $A --x=${B} $KUBELET_KUBEADM_ARGS \\\n# c\n $C\n",
		"KUBELET_KUBEADM_ARGS=\"--a=1 \\\n --b='c d'\" x\n",
	)
	f.Add("[Service]\r\nExecStart=\r\nExecStart=/usr/bin/kubelet \"--a b\" --cloud-provider '' \\;\r\n", "A=\\\n")
	edits := []v1.Edit{set("cloud-provider", "external"), unset("a"), set("v", "4"), unset("cloud-provider")}
	f.Fuzz(func(t *testing.T, unit, env string) {
		files := machine{"/etc/systemd/system/kubelet.service": unit, kubeletfile.KubeletFlagsFile: env}
		u, err := systemdunit.ReadUnit(files, "kubelet")
		if err != nil {
			return
		}
		for _, e := range edits {
			changes, err := systemdunit.ApplyUnit(u, []v1.Edit{e})
			if err != nil {
				continue
			}
			want := u.Flags()
			delete(want, e.Name)
			if e.Op == v1.EditSetFlag {
				want[e.Name] = e.Value
			}
			for p, data := range changes {
				if !slices.Contains(u.Paths(), p) {
					t.Fatalf("%s was changed, which is none of %v", p, u.Paths())
				}
				files[p] = string(data)
			}
			if u, err = systemdunit.ReadUnit(files, "kubelet"); err != nil {
				t.Fatalf("%+v: %v", e, err)
			}
			if diff := cmp.Diff(want, u.Flags()); diff != "" {
				t.Fatalf("%+v, -want +got:\n%s", e, diff)
			}
		}
	})
}

func TestAShellInAUnitIsNamed(t *testing.T) {
	_, err := systemdunit.ReadUnit(machine{unitFile: "[Service]\nExecStart=/bin/sh -c 'kube-controller-manager --a'"}, "kube-controller-manager")
	if shell := (*commandline.ShellCommandError)(nil); !errors.As(err, &shell) || shell.Component != "kube-controller-manager" {
		t.Errorf("err = %v", err)
	}
}
