package workloads

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestALongWordOfACommandIsCut before it is masked, which takes many times its bytes.
func TestALongWordOfACommandIsCut(t *testing.T) {
	args := []string{"--v=2", strings.Repeat("a ", 1<<20)}
	got := containerOf(&corev1.Container{Command: []string{"/bin/program"}, Args: args})
	if len(got.Command) != 3 || len(got.Command[2]) > maxWord+10 || got.Flags["v"] != "2" {
		t.Errorf("%d words are kept, flags %v", len(got.Command), got.Flags)
	}
	if len(args[1]) != 2<<20 {
		t.Error("the caller's own words are cut")
	}
}
