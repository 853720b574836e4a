package catalogue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestServiceLoopIsWhatTheSourceSays(t *testing.T) {
	read := 0
	for _, version := range []string{"1.20.0", "1.26.0", "1.27.4", "1.30.14", "1.32.2", "1.34.4", "1.36.3"} {
		data, err := os.ReadFile(filepath.Join(moduleDir("cloud-provider", version), "controllers/service/controller.go"))
		if err != nil {
			continue // the module is not on this machine
		}
		read++
		source, want := string(data), ServiceLoopAt(minorOf(t, version))
		if got := strings.Contains(source, "stableNodeSetPredicates"); got != want.KeepsNotReady {
			t.Errorf("%s keeps nodes that are not ready: %t, the table says %t", version, got, want.KeepsNotReady)
		}
		if got := strings.Contains(source, "ParseBool"); got != want.ReadsExclusion {
			t.Errorf("%s reads the label's value: %t, the table says %t", version, got, want.ReadsExclusion)
		}
	}
	if read == 0 {
		t.Skip("no version of k8s.io/cloud-provider is on this machine")
	}
}

func TestNamespacesAreLabelledSinceTheGateIsOn(t *testing.T) {
	for _, minor := range []int{20, 21, 22} {
		if gate := GateAt("NamespaceDefaultLabelName", minor); gate.Known && gate.Default != NamespacesAreLabelled(minor) {
			t.Errorf("1.%d: the gate says %t", minor, gate.Default)
		}
	}
	if NamespacesAreLabelled(20) || !NamespacesAreLabelled(30) {
		t.Error("namespaces are labelled since 1.21")
	}
}
