package controlplane

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/kubeletfile"
)

const kubeadmFlags = "KUBELET_KUBEADM_ARGS=\"--cloud-provider=aws --container-runtime-endpoint=unix:///var/run/containerd/containerd.sock " +
	"--hostname-override=ip-10-0-0-11.ec2.internal --pod-infra-container-image=registry.k8s.io/pause:3.9\"\n"

func TestParseKubeletFlags(t *testing.T) {
	tests := map[string]struct {
		env  string
		want map[string]string
	}{
		"kubeadm's": {kubeadmFlags, map[string]string{
			"cloud-provider": "aws", "container-runtime-endpoint": "unix:///var/run/containerd/containerd.sock",
			"hostname-override": "ip-10-0-0-11.ec2.internal", "pod-infra-container-image": "registry.k8s.io/pause:3.9",
		}},
		"nothing":                                {"", map[string]string{}},
		"an empty value":                         {"KUBELET_EXTRA_ARGS=\n", map[string]string{}},
		"empty quotes":                           {"KUBELET_EXTRA_ARGS=\"\"\n", map[string]string{}},
		"no quotes":                              {"KUBELET_EXTRA_ARGS=--a=b  --c d", map[string]string{"a": "b", "c": "d"}},
		"single quotes":                          {"KUBELET_EXTRA_ARGS='--a=\"b c\"'", map[string]string{"a": "b c"}},
		"quotes that the file's quotes let pass": {`KUBELET_EXTRA_ARGS="--a=\"b c\" --d='e f' --g=h\\ i"`, map[string]string{"a": "b c", "d": "e f", "g": "h i"}},
		"comments and other variables":           {"# a\n; b\n\n  HTTP_PROXY=http://x\nKUBELET_EXTRA_ARGS=--a=b\r\n", map[string]string{"a": "b"}},
		"the extra flags win wherever they stand": {
			"KUBELET_EXTRA_ARGS=--a=extra\nKUBELET_KUBEADM_ARGS=\"--a=kubeadm --b=c\"\n",
			map[string]string{"a": "extra", "b": "c"},
		},
		"what is no assignment": {"hello\n1a=b\nexport KUBELET_EXTRA_ARGS=--a\nKUBELET_EXTRA_ARGS=--b=c\n", map[string]string{"b": "c"}},
		"a value of several lines": {
			"KUBELET_EXTRA_ARGS=--a=b \\\n --c=d\nKUBELET_ARGS=\"--e=f \\\n --g\"\n",
			map[string]string{"a": "b", "c": "d", "e": "f", "g": "true"},
		},
		"quotes one after the other":  {"KUBELET_EXTRA_ARGS=\"--a=b \"'--c=d'\n", map[string]string{"a": "b", "c": "d"}},
		"a later assignment replaces": {"KUBELET_EXTRA_ARGS=--a=b\nKUBELET_EXTRA_ARGS=--c=d\n", map[string]string{"c": "d"}},
		"other installers' variables": {
			"DAEMON_ARGS=\"--a=b\"\nKUBELET_ARGS=--c=d\nKUBELET_CONFIG_ARGS=--config=/x\n",
			map[string]string{"a": "b", "c": "d", "config": "/x"},
		},
		"a drop-in":                {"[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--a=b\" HTTP_PROXY=x\n", map[string]string{"a": "b"}},
		"a drop-in with a command": {"[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --a=b $KUBELET_KUBEADM_ARGS\n", map[string]string{"a": "b"}},
		"a drop-in without flags":  {"[Service]\nRestart=always\n", map[string]string{}},
		"a boolean alone":          {"KUBELET_EXTRA_ARGS=--fail-swap-on --a b", map[string]string{"fail-swap-on": "true", "a": "b"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := kubeletfile.ParseKubeletFlags([]byte(tt.env))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestKubeletFlagsThatCannotBeRead(t *testing.T) {
	tests := map[string]struct{ env, want string }{
		"an open quote":        {"A=b\nKUBELET_EXTRA_ARGS=\"--a=b\n", "line 2: the value of KUBELET_EXTRA_ARGS: it has a quote that is not closed"},
		"an open quote inside": {"KUBELET_EXTRA_ARGS=--a='b\n", "line 1: the value of KUBELET_EXTRA_ARGS: a quote in it is not closed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := kubeletfile.ParseKubeletFlags([]byte(tt.env)); got != nil || err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, %v, want %q", got, err, tt.want)
			}
			if got, err := kubeletfile.ApplyKubelet([]byte(tt.env), nil); got != nil || err == nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestApplyKubelet(t *testing.T) {
	tests := map[string]struct {
		env   string
		edits []v1.Edit
		want  string
	}{
		"the provider becomes external": {
			kubeadmFlags,
			[]v1.Edit{set("cloud-provider", "external"), unset("cloud-config")},
			strings.Replace(kubeadmFlags, "=aws", "=external", 1),
		},
		"the first flag goes": {kubeadmFlags, []v1.Edit{unset("cloud-provider")}, strings.Replace(kubeadmFlags, "--cloud-provider=aws ", "", 1)},
		"the last flag goes": {
			kubeadmFlags,
			[]v1.Edit{unset("pod-infra-container-image")},
			strings.Replace(kubeadmFlags, " --pod-infra-container-image=registry.k8s.io/pause:3.9", "", 1),
		},
		"a flag more": {
			kubeadmFlags,
			[]v1.Edit{set("a", "b"), set("c", "d")},
			strings.Replace(kubeadmFlags, ":3.9\"", ":3.9 --a=b --c=d\"", 1),
		},
		"nothing to do":                       {kubeadmFlags, []v1.Edit{set("cloud-provider", "aws"), unset("nosuch")}, kubeadmFlags},
		"a file without flags, nothing to do": {"# none\n", []v1.Edit{unset("nosuch")}, "# none\n"},
		"an empty value":                      {"KUBELET_EXTRA_ARGS=\n", []v1.Edit{set("a", "b")}, "KUBELET_EXTRA_ARGS=--a=b\n"},
		"empty quotes":                        {"KUBELET_EXTRA_ARGS=\"  \"", []v1.Edit{set("a", "b")}, "KUBELET_EXTRA_ARGS=\"--a=b  \""},
		"the only flag goes":                  {"KUBELET_EXTRA_ARGS=\" --a=b \"", []v1.Edit{unset("a")}, "KUBELET_EXTRA_ARGS=\"  \""},
		"in two words":                        {"KUBELET_EXTRA_ARGS=--a b --c\n", []v1.Edit{set("a", "x"), unset("c")}, "KUBELET_EXTRA_ARGS=--a x\n"},
		"two words go":                        {"KUBELET_EXTRA_ARGS=--a b --c\n", []v1.Edit{unset("a")}, "KUBELET_EXTRA_ARGS=--c\n"},
		"a word alone gets a value": {
			"KUBELET_EXTRA_ARGS=--fail-swap-on\n",
			[]v1.Edit{set("fail-swap-on", "false")},
			"KUBELET_EXTRA_ARGS=--fail-swap-on=false\n",
		},
		"klog's short flag":              {"KUBELET_EXTRA_ARGS=-v2\n", []v1.Edit{set("v", "4")}, "KUBELET_EXTRA_ARGS=-v=4\n"},
		"a value that looks like a flag": {"KUBELET_EXTRA_ARGS=--a b\n", []v1.Edit{set("a", "-x")}, "KUBELET_EXTRA_ARGS=--a=-x\n"},
		"given in both variables": {
			"KUBELET_KUBEADM_ARGS=\"--a=1 --b=c\"\nKUBELET_EXTRA_ARGS=--a=2\n",
			[]v1.Edit{set("a", "3")},
			"KUBELET_KUBEADM_ARGS=\"--b=c\"\nKUBELET_EXTRA_ARGS=--a=3\n",
		},
		"goes from both variables": {
			"KUBELET_KUBEADM_ARGS=\"--a=1 --b=c\"\nKUBELET_EXTRA_ARGS=--a=2\n",
			[]v1.Edit{unset("a")},
			"KUBELET_KUBEADM_ARGS=\"--b=c\"\nKUBELET_EXTRA_ARGS=\n",
		},
		"a value in the next variable": {
			"KUBELET_KUBEADM_ARGS=--a\nKUBELET_EXTRA_ARGS=\"b --c\"\n",
			[]v1.Edit{unset("a")},
			"KUBELET_KUBEADM_ARGS=\nKUBELET_EXTRA_ARGS=\"--c\"\n",
		},
		"new flags go to kubeadm's": {
			"KUBELET_EXTRA_ARGS=--a=b\nKUBELET_KUBEADM_ARGS=\"--c=d\"\n",
			[]v1.Edit{set("e", "f")},
			"KUBELET_EXTRA_ARGS=--a=b\nKUBELET_KUBEADM_ARGS=\"--c=d --e=f\"\n",
		},
		"everything else stays": {
			"# a\r\nHTTP_PROXY=x\r\nKUBELET_EXTRA_ARGS='--a=b'  \r\n\r\n",
			[]v1.Edit{set("a", "c")},
			"# a\r\nHTTP_PROXY=x\r\nKUBELET_EXTRA_ARGS='--a=c'  \r\n\r\n",
		},
		"a drop-in": {
			"[Service]\n# mine\nEnvironment=\"KUBELET_EXTRA_ARGS=--cloud-provider=aws --cloud-config=/x\"\n",
			[]v1.Edit{set("cloud-provider", "external"), unset("cloud-config"), set("a", "b")},
			"[Service]\n# mine\nEnvironment=\"KUBELET_EXTRA_ARGS=--cloud-provider=external --a=b\"\n",
		},
		"a drop-in of two variables": {
			"[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--a=2\"\nEnvironment=KUBELET_CLOUD_ARGS=--a=1\n",
			[]v1.Edit{set("a", "3")},
			"[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--a=3\"\nEnvironment=KUBELET_CLOUD_ARGS=\n",
		},
		"a unit": {
			"[Service]\nEnvironment=KUBELET_EXTRA_ARGS=--a=b\nEnvironmentFile=/elsewhere\nExecStart=/usr/bin/kubelet --c=d $KUBELET_EXTRA_ARGS $OTHER\n",
			[]v1.Edit{set("c", "e"), unset("a")},
			"[Service]\nEnvironment=KUBELET_EXTRA_ARGS=\nEnvironmentFile=/elsewhere\nExecStart=/usr/bin/kubelet --c=e $KUBELET_EXTRA_ARGS $OTHER\n",
		},
		"quotes next to it stay": {
			`KUBELET_EXTRA_ARGS="--a=\"b c\" --d=e"`,
			[]v1.Edit{set("d", "f"), set("g", "h")},
			`KUBELET_EXTRA_ARGS="--a=\"b c\" --d=f --g=h"`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := kubeletfile.ApplyKubelet([]byte(tt.env), tt.edits)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if again, err := kubeletfile.ApplyKubelet(got, tt.edits); err != nil || !bytes.Equal(again, got) {
				t.Errorf("the second time: %q, %v", again, err)
			}
		})
	}
}

func TestAKubeletFlagThatIsSetAndUnsetLeavesTheSameBytes(t *testing.T) {
	for _, env := range []string{kubeadmFlags, "KUBELET_EXTRA_ARGS=\n", "KUBELET_EXTRA_ARGS=\"\"", "KUBELET_EXTRA_ARGS=--a=b \n"} {
		there, err := kubeletfile.ApplyKubelet([]byte(env), []v1.Edit{set("new", "x")})
		if err != nil || string(there) == env {
			t.Fatalf("%q, %v", there, err)
		}
		if back, err := kubeletfile.ApplyKubelet(there, []v1.Edit{unset("new")}); err != nil || string(back) != env {
			t.Errorf("got %q, %v, want %q", back, err, env)
		}
	}
}

func TestApplyKubeletRefuses(t *testing.T) {
	tests := map[string]struct {
		env  string
		edit v1.Edit
		want string
	}{
		"an operation on manifests":    {kubeadmFlags, add("x", "/x"), "addHostPath x: this operation is not known for a kubelet"},
		"a name that is none":          {kubeadmFlags, set("a b", "c"), `"a b" is no name of a flag`},
		"a value with a space":         {kubeadmFlags, set("a", "b c"), "setFlag a: its value holds a space, a quote or another character"},
		"a value with a quote":         {kubeadmFlags, set("a", `b"`), "setFlag a: its value holds a space, a quote or another character"},
		"a value that systemd expands": {kubeadmFlags, set("a", "${B}"), "setFlag a: its value holds a space, a quote or another character"},
		"a stray word": {
			"KUBELET_EXTRA_ARGS=--a --fail-swap-on word",
			unset("fail-swap-on"),
			"unsetFlag fail-swap-on: a word that belongs to no flag",
		},
		"a drop-in without flags": {"[Service]\nRestart=always\n", set("a", "b"), `add a line Environment="KUBELET_EXTRA_ARGS="`},
		"a wrapper in a unit": {
			"[Service]\nExecStart=/opt/kubelet.sh\n",
			set("a", "b"),
			"unit kubelet.service starts /opt/kubelet.sh, which is none of the components",
		},
		"a mount in a drop-in": {
			"[Service]\nEnvironment=KUBELET_EXTRA_ARGS=--a\n",
			add("x", "/x"),
			"addHostPath x: this operation is not known for a kubelet",
		},
		"a file without the variable": {
			"HTTP_PROXY=x\n",
			set("a", "b"),
			`setFlag a: the file assigns no KUBELET_KUBEADM_ARGS: add the line KUBELET_KUBEADM_ARGS=""`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := kubeletfile.ApplyKubelet([]byte(tt.env), []v1.Edit{tt.edit})
			if got != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// FuzzKubelet checks that no text ends the program, that an edit is seen afterwards, and that a second time changes nothing.
func FuzzKubelet(f *testing.F) {
	for _, seed := range []string{kubeadmFlags, "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--a=b --c\" 'KUBELET_ARGS=-v2'\n", "KUBELET_EXTRA_ARGS='--a \"b c\"' \r\nKUBELET_ARGS=-v2 --a\\ b --c\n", "# x\nDAEMON_ARGS=\"--a=\\\"b\\\"\""} {
		f.Add([]byte(seed), true, "cloud-provider", "external")
		f.Add([]byte(seed), false, "a", "")
	}
	f.Fuzz(func(t *testing.T, env []byte, isSet bool, name, value string) {
		before := bytes.Clone(env)
		flags, parseErr := kubeletfile.ParseKubeletFlags(env)
		edit := unset(name)
		if isSet {
			edit = set(name, value)
		}
		out, err := kubeletfile.ApplyKubelet(env, []v1.Edit{edit})
		if !bytes.Equal(env, before) {
			t.Fatal("the input was written to")
		}
		if parseErr != nil && err == nil {
			t.Fatalf("an edit of what cannot be read: %v", parseErr)
		}
		if err != nil {
			return
		}
		if again, err := kubeletfile.ApplyKubelet(out, []v1.Edit{edit}); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("the second time: %v\n%q\n%q\n%q", err, env, out, again)
		}
		after, err := kubeletfile.ParseKubeletFlags(out)
		if err != nil {
			t.Fatalf("%v\n%q\n%q", err, env, out)
		}
		have, ok := after[commandline.NormalizeName(name)]
		if ok != isSet || isSet && have != value {
			t.Fatalf("--%s is %q, %v:\n%q\n%q", name, have, ok, env, out)
		}
		delete(flags, commandline.NormalizeName(name))
		delete(after, commandline.NormalizeName(name))
		if diff := cmp.Diff(flags, after); diff != "" {
			t.Fatalf("other flags changed:\n%s\n%q\n%q", diff, env, out)
		}
	})
}

func TestFlagsInVariablesOfAnyNameAreChangedWhereTheUnitUsesThem(t *testing.T) {
	const env = "/etc/kubernetes/kubelet.env"
	edits := []v1.Edit{set("cloud-provider", "external"), unset("cloud-config")}
	for name, c := range map[string]struct{ start, before, after string }{
		"of Kubespray": {
			"$KUBELET_ARGS $KUBELET_CLOUDPROVIDER", "KUBELET_CLOUDPROVIDER=\"--cloud-provider=aws --cloud-config=/x\"\nKUBELET_ARGS=\"--v=2\"\n",
			"KUBELET_CLOUDPROVIDER=\"--cloud-provider=external\"\nKUBELET_ARGS=\"--v=2\"\n",
		},
		"that the unit does not use": {
			"$FLAGS", "KUBELET_ARGS=--cloud-provider=aws\nFLAGS=--v=2\n", "KUBELET_ARGS=--cloud-provider=aws\nFLAGS=--v=2 --cloud-provider=external\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := machine{kubeletOne: "[Service]\nEnvironmentFile=" + env + "\nExecStart=/usr/bin/kubelet " + c.start + "\n", env: c.before}
			used, err := kubeletfile.KubeletVariables(files, env)
			if err != nil {
				t.Fatal(err)
			}
			out, err := kubeletfile.ApplyKubeletFile([]byte(c.before), edits, used...)
			if err != nil || string(out) != c.after {
				t.Errorf("error %v, it became\n%swant\n%s", err, out, c.after)
			}
			files[env] = string(out)
			if keeps, err := kubeletfile.KubeletKeeps(files, edits); err != nil || keeps != "" {
				t.Errorf("the kubelet would be started %s, error %v", keeps, err)
			}
			if again, err := kubeletfile.ApplyKubeletFile(out, edits, used...); err != nil || !bytes.Equal(again, out) {
				t.Errorf("a second time: %v, %s", err, again)
			}
		})
	}
}

func TestVariablesOfAKubeletInADropInOfItsUnit(t *testing.T) {
	const dropIn = "/etc/systemd/system/kubelet.service.d/20-cloud.conf"
	files := machine{kubeletOne: "[Service]\nExecStart=/usr/bin/kubelet $CLOUD\n", dropIn: "[Service]\nEnvironment=\"CLOUD=--cloud-provider=aws --v=2\"\n"}
	used, err := kubeletfile.KubeletVariables(files, dropIn)
	if err != nil {
		t.Fatal(err)
	}
	out, err := kubeletfile.ApplyKubeletFile([]byte(files[dropIn]), []v1.Edit{set("cloud-provider", "external")}, used...)
	if want := "[Service]\nEnvironment=\"CLOUD=--cloud-provider=external --v=2\"\n"; err != nil || string(out) != want {
		t.Errorf("error %v, it became\n%s", err, out)
	}
	if used, err := kubeletfile.KubeletVariables(files, "/etc/default/kubelet"); used != nil || err != nil {
		t.Errorf("a file that the unit does not read has %v, error %v", used, err)
	}
	files[kubeletOne] = "denied"
	if used, err := kubeletfile.KubeletVariables(files, dropIn); err == nil {
		t.Errorf("a unit that cannot be read has %v", used)
	}
}

func TestAFileWithNoneOfTheUnitsVariablesSaysWhichThereAre(t *testing.T) {
	_, err := kubeletfile.ApplyKubelet([]byte("OTHER=1\n"), []v1.Edit{set("cloud-provider", "external")}, "KUBELET_LOG", "KUBELET_CLOUDPROVIDER")
	if err == nil || !strings.Contains(err.Error(), "($KUBELET_LOG, $KUBELET_CLOUDPROVIDER); assign one of them there that no other file assigns") {
		t.Errorf("error: %v", err)
	}
}
