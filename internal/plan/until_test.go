package plan

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

func TestTheDowntimeEndsBeforeTheKubelets(t *testing.T) {
	with, late := 0, 0
	for _, c := range compact {
		p := mustMake(t, c.snap(), c.options)
		if p.Strategy != planstep.Downtime {
			continue
		}
		with++
		kubelets := false
		for i, s := range p.Steps {
			switch {
			case s.Kind == v1.StepKubelet || s.Kind == v1.StepVerify || i == 0:
				kubelets = kubelets || s.Kind == v1.StepKubelet
				if behind := planstep.IdleUntil(p, i); behind != "" {
					t.Errorf("%s: before %s somebody runs the loops, and a stop has to wait for %s", c.name, s.ID, behind)
				}
			case strings.HasPrefix(s.ID, "start/"+component.CCM):
				if behind := planstep.IdleUntil(p, i); !strings.HasPrefix(behind, "start/"+component.CCM) {
					t.Errorf("%s: before %s no manager runs the loops, and a stop has to wait for %q", c.name, s.ID, behind)
				}
			}
			if kubelets && s.Component == component.KCM && planstep.ChangesComponent(s) {
				late++
			}
		}
	}
	if with < 2 || late == 0 {
		t.Errorf("%d plans have a downtime, and %d managers of theirs lose gates behind the kubelets", with, late)
	}
}

// In a seed, another step ends the last manager of the loops than on hosts.
func TestTheDowntimeOfAControlPlaneInASeedIsNoPlaceToWait(t *testing.T) {
	p, _ := base(t, "hosted-downtime")
	const started = "start/" + component.CCM
	idle := false
	for i, s := range p.Steps {
		if got := planstep.IdleUntil(p, i); idle && !strings.HasPrefix(got, started) || !idle && got != "" {
			t.Errorf("before %s a stop has to wait for %q", s.ID, got)
		}
		switch {
		case strings.HasPrefix(s.ID, "loops-off/"):
			idle = true
		case strings.HasPrefix(s.ID, started):
			idle = false
		}
	}
}
