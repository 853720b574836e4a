package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
)

func TestTheImageOfPodsThatReachHosts(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for image, want := range map[string]struct{ note, err string }{
		"registry.example.com:5000/transplant@" + digest:           {},
		"registry.example.com:5000/transplant:v1@" + digest:        {},
		"registry.example.com/transplant:v1":                       {note: "--host-image=NAME@sha256:DIGEST"},
		"registry.example.com/transplant":                          {note: "by its tag"},
		"registry.example.com/transplant@sha256:abc":               {err: "64 hexadecimal digits"},
		"registry.example.com/transplant@sha512:" + digest[7:]:     {err: "64 hexadecimal digits"},
		"registry.example.com/transplant@" + digest + "@" + digest: {err: "64 hexadecimal digits"},
	} {
		note, err := client.JudgeHostImage(image)
		if (want.note == "") != (note == "") || !strings.Contains(note, want.note) {
			t.Errorf("%s: note %q, want %q", image, note, want.note)
		}
		if (want.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%s: error %v, want %q", image, err, want.err)
		}
	}
}

// TestNoRunGoesOnWithHostsThatAreNotClear: no check runs again for a run that was begun, and each gets its own --host-access.
func TestNoRunGoesOnWithHostsThatAreNotClear(t *testing.T) {
	c := newLive(t)
	here := c.approvedHere(c.journal(v1.RunApplying, 2, 1))
	c.write("cp-2", "/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--cloud-provider=aws --hostname-override=node-cp-1\"\n")
	for _, command := range []string{"apply", "rollback"} {
		fails(t, c.run(command, "--yes", here), exitcode.Blocked, "no step was begun: hosts cp-1 and cp-2 are all taken for Node node-cp-1: correct --host-access")
	}
	for _, host := range []string{"cp-1", "cp-2"} {
		if _, err := os.Stat(filepath.Join(c.dir, host, planlayout.Dir)); !os.IsNotExist(err) {
			t.Errorf("host %s was changed: %v", host, err)
		}
	}
}
