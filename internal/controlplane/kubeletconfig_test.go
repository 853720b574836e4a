package controlplane

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/kubeletfile"
)

func TestGatesOfAKubeletsConfigurationAreChangedWhereTheyStand(t *testing.T) {
	const head, tail = "apiVersion: kubelet.config.k8s.io/v1beta1\n# ours\n", "kind: KubeletConfiguration\nproviderID: aws:///a/i-1 # kept\n"
	set := func(name, value string) v1.Edit { return v1.Edit{Op: v1.EditSetGate, Name: name, Value: value} }
	unset := func(name string) v1.Edit { return v1.Edit{Op: v1.EditUnsetGate, Name: name} }
	for _, c := range []struct {
		name, before string
		edits        []v1.Edit
		want         string // "error: ..." for the beginning of an error
	}{
		{"a gate that is off is switched on", head + "featureGates:\n    A: true # mine\n    CSIMigrationAWS: false\n" + tail, []v1.Edit{set("CSIMigrationAWS", "true")},
			head + "featureGates:\n    A: true # mine\n    CSIMigrationAWS: true\n" + tail},
		{"a gate that is so already changes no byte", head + "featureGates:\n  A:   true\n" + tail, []v1.Edit{set("A", "true"), unset("B")}, head + "featureGates:\n  A:   true\n" + tail},
		{"a gate is removed and the others stay", head + "featureGates:\n  A: true\n  B: false\n" + tail, []v1.Edit{unset("B")}, head + "featureGates:\n  A: true\n" + tail},
		{"the last gate goes with its section", head + "featureGates:\n  B: false\n" + tail, []v1.Edit{unset("B")}, head + tail},
		{"a new gate stands behind the others", head + "featureGates:\n   A: true\n" + tail, []v1.Edit{set("C", "false")}, head + "featureGates:\n   A: true\n   C: false\n" + tail},
		{"a section is made where there is none", head + tail, []v1.Edit{set("C", "true")}, head + tail + "featureGates:\n  C: true\n"},
		{"a section at the end without a line break", head + "kind: KubeletConfiguration\nfeatureGates:\n  A: false", []v1.Edit{set("A", "true")}, head + "kind: KubeletConfiguration\nfeatureGates:\n  A: true\n"},
		{"a map on one line is left alone", head + "featureGates: {A: true}\n" + tail, []v1.Edit{set("A", "false")}, "error: it is written in a way that cannot be edited line by line"},
		{"another kind", "kind: Pod\n", []v1.Edit{set("A", "false")}, "error: its kind is Pod"},
		{"no value of a gate", head + tail, []v1.Edit{set("A", "maybe")}, "error: setGate A: the value of a gate is true or false"},
		{"a flag among gates", head + tail, []v1.Edit{set("A", "true"), {Op: v1.EditSetFlag, Name: "v", Value: "2"}}, "error: setFlag v: this operation is not known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := kubeletfile.ApplyKubeletFile([]byte(c.before), c.edits)
			have := string(out)
			if err != nil {
				have = "error: " + err.Error()
			}
			if have != c.want && (err == nil || !strings.HasPrefix(have, c.want)) {
				t.Errorf("have:\n%s\nwant:\n%s", have, c.want)
			}
			if err != nil {
				return
			}
			again, err := kubeletfile.ApplyKubeletFile(out, c.edits)
			if err != nil || string(again) != have {
				t.Errorf("a second time it gives:\n%s\n%v", again, err)
			}
		})
	}
}
