package controlplane

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
)

func TestApplyArguments(t *testing.T) {
	list := func(words ...string) []string { return words }
	tests := map[string]struct {
		command, args         []string
		edits                 []v1.Edit
		wantCommand, wantArgs []string
	}{
		"a flag is changed where it stands": {
			list("kube-controller-manager", "--v=2"), list("--cloud-provider=aws"), []v1.Edit{set("cloud-provider", "external"), set("v", "4")},
			list("kube-controller-manager", "--v=4"), list("--cloud-provider=external"),
		},
		"a new flag comes behind the last one": {list("kcm"), list("--a=b"), []v1.Edit{set("c", "d")}, list("kcm"), list("--a=b", "--c=d")},
		"a new flag comes into the command where all flags are": {
			list("kcm", "--a=b"),
			list("stray"),
			[]v1.Edit{set("c", "d")},
			list("kcm", "--a=b", "--c=d"),
			list("stray"),
		},
		"a program with no flag gets its first": {list("kcm"), nil, []v1.Edit{set("c", "d")}, list("kcm", "--c=d"), nil},
		"arguments of the image's own program":  {nil, list("--a=b"), []v1.Edit{set("c", "d"), unset("a")}, nil, list("--c=d")},
		"a value that stands in the arguments":  {list("kcm", "--a"), list("b", "--c"), []v1.Edit{unset("a")}, list("kcm"), list("--c")},
		"given twice":                           {list("kcm", "--a=1"), list("--a=2"), []v1.Edit{set("a", "3")}, list("kcm"), list("--a=3")},
		"two words": {
			list("kcm", "--a", "b"),
			nil,
			[]v1.Edit{set("a", "c"), set("d", "e")},
			list("kcm", "--a", "c", "--d", "e"),
			nil,
		},
		"the last argument goes": {list("kcm"), list("--a"), []v1.Edit{unset("a")}, list("kcm"), []string{}},
		"nothing to do":          {list("kcm", "--a=b"), nil, []v1.Edit{set("a", "b"), unset("x")}, list("kcm", "--a=b"), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := slices.Concat(tt.command, tt.args)
			command, args, err := commandline.ApplyArguments(tt.command, tt.args, tt.edits)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([2][]string{tt.wantCommand, tt.wantArgs}, [2][]string{command, args}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !slices.Equal(before, slices.Concat(tt.command, tt.args)) {
				t.Error("what was given was changed")
			}
		})
	}
}

func TestApplyArgumentsRefuses(t *testing.T) {
	tests := map[string]struct {
		command []string
		edit    v1.Edit
		want    string
	}{
		"a shell's script":            {[]string{"sh", "-c", "exec kube-controller-manager --a=b"}, set("a", "c"), "started by a script of sh"},
		"a script of something else":  {[]string{"/bin/sh", "-c", "/start.sh"}, set("a", "c"), "started by a script of /bin/sh"},
		"no command at all":           {nil, set("a", "c"), "neither a command nor a flag"},
		"a stray word behind a flag":  {[]string{"kcm", "--a", "--leader-elect", "stray"}, unset("leader-elect"), "remove that word from the command"},
		"an operation on volumes":     {[]string{"kcm"}, v1.Edit{Op: v1.EditAddHostPath, Name: "x", Value: "/x"}, "not known for arguments"},
		"a name that is none":         {[]string{"kcm"}, set("a b", "c"), "is no name of a flag"},
		"a value of more than a line": {[]string{"kcm"}, set("a", "b\nc"), "cannot be printed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			command, _, err := commandline.ApplyArguments(tt.command, nil, []v1.Edit{tt.edit})
			if command != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, %v, want %q", command, err, tt.want)
			}
		})
	}
}

// TestArgumentsAreEditedAsAManifestIs edits the same command as a manifest and as lists.
func TestArgumentsAreEditedAsAManifestIs(t *testing.T) {
	edited := 0
	for seed := range uint64(400) {
		w := writer{rand.New(rand.NewPCG(seed, 2))} //nolint:gosec // the same ones in every run
		command, args := append([]string{"kube-scheduler"}, w.elements()...), w.elements()
		edit := v1.Edit{
			Op:    oneOf(w, v1.EditSetFlag, v1.EditSetFlag, v1.EditUnsetFlag),
			Name:  w.one("a", "b-c", "leader-elect", "v", "new"),
			Value: w.one("/x", "1", "a b", "-1", "off"),
		}
		c := map[string]any{"name": "x", "command": command}
		if len(args) > 0 {
			c["args"] = args
		}
		manifest, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"containers": []any{c}}})
		if err != nil {
			t.Fatal(err)
		}
		out, manifestErr := Apply(manifest, []v1.Edit{edit})
		newCommand, newArgs, err := commandline.ApplyArguments(command, args, []v1.Edit{edit})
		if (manifestErr == nil) != (err == nil) {
			t.Fatalf("seed %d: %v, %v\n%s", seed, manifestErr, err, manifest)
		}
		if err != nil {
			continue
		}
		edited++
		m, err := Parse(out)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(m.container().Command, newCommand) || !slices.Equal(m.container().Args, newArgs) {
			t.Fatalf("seed %d, %+v\n%q %q\n%q %q\n%s", seed, edit, newCommand, newArgs, m.container().Command, m.container().Args, manifest)
		}
	}
	if edited < 300 {
		t.Errorf("only %d edits were possible", edited)
	}
}
