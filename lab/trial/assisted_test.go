package trial

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/internal/ownership"
)

// assisted fails the test when nobody ran a loop for as long as only a lease that has to expire takes: an assisted handover releases it. Node IPAM is
// the exception: kube-controller-manager 1.26 sleeps for 10 s before it lists nodes for it, at every start.
func assisted(t *testing.T, lab *Trial, j ownership.Judgement) {
	t.Helper()
	for _, g := range j.Gaps {
		if g.Loop != "nodeipam" && g.Seconds >= 15 {
			t.Errorf("%s had no owner for %.1f s (%s -> %s): a lease expired that could have been released; %s", g.Loop, g.Seconds, g.From, g.To, lost(t, lab))
		}
	}
}

// lost says which managers of the lab ever gave up because they could not renew a lease in time: what no command can hand over, and the first thing to
// know of a gap or of a change of owner that is too many.
func lost(t *testing.T, lab *Trial) string {
	t.Helper()
	var found []string
	for _, h := range lab.ControlPlanes() {
		files, err := filepath.Glob(h.Path("/var/log/pods/*/*/*.log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				continue // taken away meanwhile
			}
			for line := range strings.Lines(string(data)) {
				if strings.Contains(line, "failed to renew lease") || strings.Contains(line, "leaderelection lost") {
					found = append(found, h.Name+": "+filepath.Base(filepath.Dir(file))+": "+strings.TrimSpace(line))
				}
			}
		}
	}
	if len(found) == 0 {
		return "no manager lost a lease"
	}
	return "managers that lost a lease, because nothing answered them in time: " + strings.Join(found, "; ")
}
