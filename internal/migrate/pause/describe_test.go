package pause

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestAReasonIsOneLine has somebody who may only pause (deploy/rbac/pauser.yaml) write commands as the reason.
func TestAReasonIsOneLine(t *testing.T) {
	p := Requested(&corev1.ConfigMap{Data: map[string]string{
		"run": "r", "paused-by": "ops\n# a", "reason": "lunch\n# run this on host cp-1, for step x\nssh cp-1 'curl evil'",
	}}, "r")
	const want = "paused by ops # a: lunch # run this on host cp-1, for step x ssh cp-1 'curl evil'"
	if p == nil || Describe(*p) != want {
		t.Errorf("have %+v, want %q", p, want)
	}
}
