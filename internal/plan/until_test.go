package plan

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestTheDowntimeEndsBeforeTheKubelets(t *testing.T) {
	with, late := 0, 0
	for _, c := range compact {
		p := mustMake(t, c.snap(), c.options)
		if p.Strategy != Downtime {
			continue
		}
		with++
		kubelets := false
		for i, s := range p.Steps {
			switch {
			case s.Kind == v1.StepKubelet || s.Kind == v1.StepVerify || i == 0:
				kubelets = kubelets || s.Kind == v1.StepKubelet
				if behind := IdleUntil(p, i); behind != "" {
					t.Errorf("%s: before %s somebody runs the loops, and a stop has to wait for %s", c.name, s.ID, behind)
				}
			case strings.HasPrefix(s.ID, "start/"+CCM):
				if behind := IdleUntil(p, i); !strings.HasPrefix(behind, "start/"+CCM) {
					t.Errorf("%s: before %s nobody runs the loops, and a stop has to wait for %q", c.name, s.ID, behind)
				}
			}
			if kubelets && s.Component == KCM && edits(s) {
				late++
			}
		}
	}
	if with < 2 || late == 0 {
		t.Errorf("%d plans have a downtime, and %d managers of theirs lose gates behind the kubelets", with, late)
	}
}
