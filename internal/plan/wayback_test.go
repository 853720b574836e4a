package plan

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// TestEveryPlanHasAWayBack records every step of each plan as done and looks whether its rollback speaks of everything that was changed.
func TestEveryPlanHasAWayBack(t *testing.T) {
	for _, c := range compact {
		t.Run(c.name, func(t *testing.T) {
			s := c.snap()
			p := mustMake(t, s, c.options)
			j := &v1.Journal{Plan: *p}
			for _, step := range p.Steps {
				ended := now
				j.Records = append(j.Records, v1.StepRecord{ID: step.ID, Started: now, Ended: &ended, Result: v1.StepResultDone})
			}
			back, err := rollback.Make(j, s, now)
			if err != nil {
				t.Fatal(err)
			}
			if err := invariant.CheckWellFormed(back); err != nil {
				t.Error(err)
			}
			all := map[string]bool{}
			for _, step := range back.Steps {
				all[step.Restore] = true
				all[strings.TrimPrefix(step.ID, "undo/")] = true
				if step.Host != "" {
					all[step.Host+step.Path] = true
				}
				all[step.Ref] = step.Ref != "" || all[step.Ref]
			}
			for _, step := range p.Steps {
				switch step.Kind {
				case v1.StepVerify, v1.StepDeleteObject, v1.StepRemoveFile:
					continue
				default:
				}
				if !all[step.ID] && !all[step.Host+step.Path] && !all[step.Ref] {
					t.Errorf("nothing in the rollback undoes %s (%s)", step.ID, step.Kind)
				}
			}
		})
	}
}

// TestManagersGetTheirVolumePluginsBackBeforeTheKubelets: without them, a manager leaves all nodes' volumes to CSI, and a kubelet that was put back waits for
// an attachment that no controller makes.
func TestManagersGetTheirVolumePluginsBackBeforeTheKubelets(t *testing.T) {
	s := openstack20()
	p := mustMake(t, s, v1.Options{Image: "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1.20.2"})
	if p.Strategy != planstep.Downtime {
		t.Fatalf("the strategy is %s", p.Strategy)
	}
	back, err := rollback.Make(stoppedAt(p, len(p.Steps)), s, now)
	if err != nil {
		t.Fatal(err)
	}
	plugins, kubelets := 0, 0
	for _, step := range back.Steps {
		switch {
		case step.Restore != "" && strings.HasPrefix(step.Restore, "volumes/"+component.KCM+"@"):
			if plugins++; kubelets > 0 {
				t.Errorf("%s comes after %d kubelets", step.ID, kubelets)
			}
		case step.Kind == v1.StepKubelet:
			kubelets++
		}
	}
	if plugins != 3 || kubelets != 5 {
		t.Errorf("%d managers get their plugins back and %d kubelets are put back", plugins, kubelets)
	}
}
