package controlplane

import (
	"fmt"
	"strings"
	"testing"
)

// TestVariablesThatNameEachOtherTwiceTakeNoMemory: root on a worker writes its manifests, and 40 lines would be a terabyte.
func TestVariablesThatNameEachOtherTwiceTakeNoMemory(t *testing.T) {
	var env strings.Builder
	fmt.Fprintf(&env, "    - {name: A0, value: %s}\n", strings.Repeat("x", 64))
	for i := 1; i < 40; i++ {
		fmt.Fprintf(&env, "    - {name: A%[1]d, value: $(A%[2]d)$(A%[2]d)}\n", i, i-1)
	}
	manifest := "apiVersion: v1\nkind: Pod\nmetadata: {name: kube-controller-manager}\nspec:\n  containers:\n  - name: kube-controller-manager\n" +
		"    command: [kube-controller-manager, --cluster-name=$(A2), --v=$(A39)]\n    env:\n" + env.String()
	m, err := Parse([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	flags := m.Flags()
	if got := flags["cluster-name"]; got != strings.Repeat("x", 256) {
		t.Errorf("what a container could be started with is %d bytes", len(got))
	}
	if got := flags["v"]; len(got) > longestArgument {
		t.Errorf("what no container is started with is %d bytes", len(got))
	}
}
